//! The backend's token for the workspace's own (OAuth 2.0 token exchange, RFC 8693).
//!
//! The token of the workspace's service account is read from its mount, sent to the backend over HTTPS, and what comes back is
//! given to CLI processes by a variable. It is in memory only.

mod https;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use windlass_api::run::LoginExchange;
use zeroize::Zeroizing;

use crate::environment::Env;

/// The variable that CLI processes take the token from.
pub const TOKEN: &str = "PULUMI_ACCESS_TOKEN";

/// Projected tokens are some KiB.
const LARGEST_TOKEN: u64 = 64 << 10;

/// Whether the environment has a token of its own, which wins.
pub fn has_token(env: &Env) -> bool {
    env.get(TOKEN).is_some_and(|t| !t.is_empty())
}

/// Why there is no token. The texts name places and what the backend said, never tokens.
// The names are public reasons and stand alone there.
#[allow(clippy::enum_variant_names)]
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error("the login at {url} needs the workspace's own token for {audience:?}: {message}")]
    LoginTokenMissing {
        url: String,
        audience: String,
        message: String,
    },
    #[error("the login at {url:?} is impossible: {message}")]
    LoginInvalid { url: String, message: String },
    #[error("the login at {url} was refused ({status}): {message}")]
    LoginRefused {
        url: String,
        status: u16,
        message: String,
    },
    #[error("the login at {url} did not work: {message}. It is tried again with the next run")]
    LoginUnavailable { url: String, message: String },
}

impl LoginError {
    /// The variant's name.
    pub fn reason(&self) -> &'static str {
        match self {
            LoginError::LoginTokenMissing { .. } => "LoginTokenMissing",
            LoginError::LoginInvalid { .. } => "LoginInvalid",
            LoginError::LoginRefused { .. } => "LoginRefused",
            LoginError::LoginUnavailable { .. } => "LoginUnavailable",
        }
    }
}

struct Held {
    of: LoginExchange,
    token: Zeroizing<String>,
    until: Instant,
}

/// The workspace's own token, and the one of a backend that is good for another run.
#[derive(Default)]
pub struct Logins {
    own: Option<PathBuf>,
    held: Mutex<Option<Held>>,
}

impl std::fmt::Debug for Logins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Logins")
    }
}

/// The answer of RFC 8693, the part that matters.
#[derive(Deserialize)]
struct Granted {
    access_token: String,
    /// Seconds.
    expires_in: Option<u64>,
}

/// The answer of RFC 6749 to what it refuses.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refused {
    error: String,
    error_description: String,
    /// Pulumi's own.
    message: String,
}

impl Logins {
    /// `own` is where the token of the workspace's service account is mounted.
    pub fn new(own: Option<PathBuf>) -> Logins {
        Logins {
            own,
            held: Mutex::default(),
        }
    }

    /// The token as it is now: the kubelet renews it.
    fn own_token(&self) -> Result<Zeroizing<String>, String> {
        let file = self
            .own
            .as_ref()
            .ok_or("none is mounted (--login-token-file)")?;
        let dir = file.parent().unwrap_or(Path::new("/"));
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let bytes = crate::mounts::read(&name, dir, &[], LARGEST_TOKEN).map(Zeroizing::new);
        let bytes = bytes.map_err(|e| format!("in {}, {e}", dir.display()))?;
        let text = std::str::from_utf8(&bytes).map(str::trim).ok();
        text.filter(|t| !t.is_empty())
            .map(|t| Zeroizing::new(t.to_owned()))
            .ok_or_else(|| format!("{} holds none", file.display()))
    }

    /// A token for a run that begins now. One that has more than half of its time left is given again.
    pub async fn token(
        &self,
        exchange: &LoginExchange,
        env: &Env,
    ) -> Result<Zeroizing<String>, LoginError> {
        if let Some(token) = self.held(exchange) {
            return Ok(token);
        }
        let LoginExchange {
            audience,
            url,
            form,
        } = exchange;
        let own = self
            .own_token()
            .map_err(|message| LoginError::LoginTokenMissing {
                url: url.clone(),
                audience: audience.clone(),
                message,
            })?;
        // The serializer cannot be kept across an await.
        let form = {
            let mut fields = form_urlencoded::Serializer::new(String::new());
            fields.extend_pairs(form.iter().filter(|(k, _)| *k != "subject_token"));
            fields.append_pair("subject_token", &own);
            Zeroizing::new(fields.finish())
        };
        let asked = Instant::now();
        let https::Answer { status, body } = https::post(url, &form, env).await?;
        if !(200..300).contains(&status) {
            return Err(refused(url, status, &body, &own));
        }
        let unusable = |message: &str| LoginError::LoginUnavailable {
            url: url.clone(),
            message: message.to_owned(),
        };
        // The parser's own message could quote the token.
        let Granted {
            access_token,
            expires_in,
        } = serde_json::from_slice(&body)
            .map_err(|_| unusable("the answer is no JSON with an access_token"))?;
        let access_token = Zeroizing::new(access_token);
        if access_token.is_empty() || access_token.chars().any(char::is_control) {
            return Err(unusable("the access_token in the answer is none"));
        }
        let good_for = Duration::from_secs(expires_in.unwrap_or(0).min(30 * 86_400));
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(Held {
            of: exchange.clone(),
            token: access_token.clone(),
            until: asked + good_for / 2,
        });
        tracing::info!(%url, %audience, seconds = good_for.as_secs(), "logged in");
        Ok(access_token)
    }

    fn held(&self, exchange: &LoginExchange) -> Option<Zeroizing<String>> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let held = held.as_ref()?;
        (held.of == *exchange && Instant::now() < held.until).then(|| held.token.clone())
    }
}

fn refused(url: &str, status: u16, body: &[u8], own: &str) -> LoginError {
    let Refused {
        error,
        error_description,
        message,
    } = serde_json::from_slice(body).unwrap_or_default();
    let said = [error, error_description, message];
    let said: Vec<&str> = said
        .iter()
        .map(String::as_str)
        .filter(|s| !s.is_empty())
        .collect();
    let mut redactor = crate::redact::Redactor::default();
    redactor.add(own);
    let message: String = redactor
        .redact(&said.join(": "))
        .chars()
        .filter(|c| !c.is_control())
        .take(500)
        .collect();
    let url = url.to_owned();
    let message = if message.is_empty() {
        "it did not say why".to_owned()
    } else {
        message
    };
    // Too many requests, or its own trouble: nothing that an edit would mend.
    if status == 429 || status >= 500 {
        let message = format!("it answered {status}: {message}");
        return LoginError::LoginUnavailable { url, message };
    }
    LoginError::LoginRefused {
        url,
        status,
        message,
    }
}
