//! Installation tokens of GitHub Apps: a JWT that the host signs, exchanged for a token that the host captures and keeps
//! until shortly before it expires. The plugin sees neither.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use windlass_sdk::{
    Credential, ErrorClass, Fault, FieldError, Host, HttpRequest, HttpResponse, Part, PluginError,
    Secret, Signature,
};

use crate::spec::field;

/// The user name that GitHub wants beside an installation token.
const TOKEN_USER: &[u8] = b"x-access-token";

/// Clocks differ: a token is valid from a minute ago, and GitHub takes none that lasts longer than ten minutes.
const BACKDATED_SECONDS: u64 = 60;
const LIFETIME_SECONDS: u64 = 540;

/// A token is used no longer than this before its end, so that what is resolved with it can still be fetched.
const MARGIN_MS: u64 = 5 * 60_000;

/// How long a token is kept whose end is not said. They live for an hour.
const UNKNOWN_LIFETIME_MS: u64 = 30 * 60_000;

/// A token to read repositories with.
pub struct Token {
    pub credential: Credential,
    /// It comes from the cache, so that another may do better.
    pub cached: bool,
    held: Held,
}

/// What a token is obtained with.
struct Held {
    api: String,
    app: u64,
    installation: u64,
    key: Secret,
}

/// The token of the App that the spec names: a kept one, or a new one.
///
/// # Errors
/// The host's, where a Secret is missing or the API cannot be reached; `denied` where GitHub refuses.
pub fn token(
    host: &(impl Host + ?Sized),
    repository: &str,
    now_ms: u64,
) -> Result<Token, PluginError> {
    let api =
        api(repository).map_err(|error| PluginError::invalid("SpecInvalid", error.message))?;
    let held = Held {
        api,
        app: host.id_at("/spec/gitAuth/githubApp/appID")?,
        installation: host.id_at("/spec/gitAuth/githubApp/installationID")?,
        key: host.secret_at("/spec/gitAuth/githubApp/privateKey")?,
    };
    if let Some(token) = host.cache_get_secret(&held.cache_key(), &held.key)? {
        return Ok(Token {
            credential: credential(host, token),
            cached: true,
            held,
        });
    }
    held.obtain(host, now_ms)
}

impl Token {
    /// Another token in the place of one that was refused.
    ///
    /// # Errors
    /// As [`token`].
    pub fn renewed(self, host: &(impl Host + ?Sized), now_ms: u64) -> Result<Token, PluginError> {
        self.held.obtain(host, now_ms)
    }
}

impl Held {
    fn cache_key(&self) -> String {
        let Held {
            api,
            app,
            installation,
            key: _,
        } = self;
        format!("github-app {api} {app} {installation}")
    }

    fn obtain(self, host: &(impl Host + ?Sized), now_ms: u64) -> Result<Token, PluginError> {
        let jwt = self.jwt(host, now_ms / 1000);
        let request = HttpRequest {
            method: "POST".into(),
            url: format!(
                "{}/app/installations/{}/access_tokens",
                self.api, self.installation
            ),
            headers: [
                ("accept", "application/vnd.github+json"),
                ("content-type", "application/json"),
                ("user-agent", "windlass"),
                ("x-github-api-version", "2022-11-28"),
            ]
            .map(|(name, value)| (name.into(), value.into()))
            .to_vec(),
            body: Some(b"{}".to_vec()),
        };
        let auth = Credential::Bearer { token: jwt };
        let (response, captured) = host.http_capture(&request, Some(&auth), &["/token"])?;
        let token = match (response.status, captured.into_iter().next().flatten()) {
            (201, Some(token)) => token,
            (status, _) => return Err(self.refused(status, &response)),
        };
        let kept_ms = kept_ms(&response, now_ms);
        host.cache_put_secret(&self.cache_key(), &self.key, &token, kept_ms);
        Ok(Token {
            credential: credential(host, token),
            cached: false,
            held: self,
        })
    }

    fn jwt(&self, host: &(impl Host + ?Sized), now: u64) -> Secret {
        let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let claims = json!({
            "iat": now.saturating_sub(BACKDATED_SECONDS),
            "exp": now.saturating_add(LIFETIME_SECONDS),
            "iss": self.app.to_string(),
        });
        let signed = format!(
            "{}.{}",
            encode(json!({"alg": "RS256", "typ": "JWT"})),
            encode(claims)
        );
        let signature = host.sign(Signature::Rs256, &self.key, signed.as_bytes());
        host.join(&[
            Part::Text(&signed),
            Part::Text("."),
            Part::Base64Url(&signature),
        ])
    }

    /// Says nothing of what the other side says: that may hold anything.
    fn refused(&self, status: u16, response: &HttpResponse) -> PluginError {
        let Held {
            api,
            app,
            installation,
            key: _,
        } = self;
        let denied =
            |message: String| PluginError::new(ErrorClass::Denied, "GitHubAppRefused", message);
        match status {
            401 => denied(format!(
                "{api} does not know GitHub App {app} by this key: check gitAuth.githubApp.appID and privateKey"
            )),
            404 => denied(format!(
                "GitHub App {app} has no installation {installation} at {api}: check gitAuth.githubApp.installationID"
            )),
            // GitHub answers 403 to who asks too often, too, and says how long to wait.
            403 | 429 if retry_after(response).is_none() => denied(format!(
                "{api} refuses a token for installation {installation} of GitHub App {app} (HTTP status {status})"
            )),
            _ => PluginError::Fault(Fault {
                class: ErrorClass::Unavailable,
                reason: "GitHubUnavailable".into(),
                message: format!(
                    "{api} gives no token for installation {installation} of GitHub App {app} now (HTTP status {status})"
                ),
                retry_after_ms: retry_after(response),
            }),
        }
    }
}

fn credential(host: &(impl Host + ?Sized), token: Secret) -> Credential {
    Credential::Basic {
        username: host.seal(TOKEN_USER),
        password: token,
    }
}

fn retry_after(response: &HttpResponse) -> Option<u64> {
    let (_, seconds) = response
        .headers
        .iter()
        .find(|(name, _)| name == "retry-after")?;
    Some(seconds.parse::<u64>().ok()?.saturating_mul(1000))
}

/// How long the token of this answer is kept.
fn kept_ms(response: &HttpResponse, now_ms: u64) -> u64 {
    let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    let until = body["expires_at"]
        .as_str()
        .and_then(|text| text.parse::<jiff::Timestamp>().ok())
        .and_then(|until| u64::try_from(until.as_millisecond()).ok());
    until.map_or(UNKNOWN_LIFETIME_MS, |until| {
        until.saturating_sub(now_ms).saturating_sub(MARGIN_MS)
    })
}

/// Where the API is that belongs to a repository: at GitHub itself, in its data-residency cloud, or on a server of one's
/// own.
///
/// # Errors
/// A repository that is not reached by https; plain http is for this machine only.
pub fn api(repository: &str) -> Result<String, FieldError> {
    let refused = || {
        field(
            "projectRepo",
            "\"gitAuth.githubApp\" needs an https URL in \"projectRepo\"",
        )
    };
    let (scheme, rest) = repository.split_once("://").ok_or_else(refused)?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host)
        .to_ascii_lowercase();
    let here = ["127.0.0.1", "localhost", "[::1]"].iter().any(|local| {
        authority
            .strip_prefix(local)
            .is_some_and(|port| port.is_empty() || port.starts_with(':'))
    });
    match (scheme, authority.as_str()) {
        (_, "") => Err(refused()),
        ("https", "github.com" | "www.github.com") => Ok("https://api.github.com".into()),
        ("https", host) if host.ends_with(".ghe.com") => Ok(format!("https://api.{host}")),
        ("https", host) => Ok(format!("https://{host}/api/v3")),
        ("http", host) if here => Ok(format!("http://{host}/api/v3")),
        _ => Err(refused()),
    }
}
