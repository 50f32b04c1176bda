//! Ways to use secrets well, and to read them back.

use serde_json::Value;
use windlass_sdk::{
    Artifact, Credential, Derivation, Host, HttpRequest, Level, Part, PluginError, Resolution,
    Secret, Signature,
};

use super::{nothing, resolution, text};

/// Where the secret stands that all of this is about.
const TOKEN: &str = "/spec/token";

/// What the mode does; none for a mode of another kind.
pub fn run(
    host: &(impl Host + ?Sized),
    mode: &str,
    config: &Value,
) -> Option<Result<Resolution, PluginError>> {
    Some(match mode {
        "chain" => chain(host, config),
        "flood-sign" => flood(host, |key| host.sign(Signature::HmacSha256, key, b"again")),
        "flood-derive" => flood(host, |key| {
            host.derive(Derivation::Sha256, key, b"", b"again")
        }),
        "flood-join" => flood(host, |key| host.join(&[Part::Plain(key)])),
        "flood-bytes" => flood(host, |key| {
            host.derive(Derivation::Sha256, key, &vec![0; 512 << 10], b"")
        }),
        "grow" => grow(host, config),
        "id" => host
            .id_at(&text(config, "pointer", ""))
            .map(|number| said(number.to_string())),
        "capture-all" => capture_all(host, config),
        "cache-as-json" => cache_as_json(host),
        "cache-guess" => cache_guess(host),
        "key-over-http" => key_over_http(host, config),
        "no-key" => no_key(host, config),
        _ => return None,
    })
}

fn said(revision: String) -> Resolution {
    Resolution {
        revision,
        ..resolution(nothing())
    }
}

fn request(config: &Value) -> HttpRequest {
    HttpRequest {
        method: "POST".into(),
        url: text(config, "url", ""),
        ..HttpRequest::default()
    }
}

fn header(value: Secret) -> Credential {
    Credential::Header {
        name: "x-signature".into(),
        value,
    }
}

/// A secret on its whole way: derived, signed with, joined, spent, exchanged, kept, and part of a key for ssh. The
/// plugin says aloud all that it gets to see.
fn chain(host: &(impl Host + ?Sized), config: &Value) -> Result<Resolution, PluginError> {
    let token = host.secret_at(TOKEN)?;
    let mut source = "cache";
    let kept = match host.cache_get_secret("k", &token)? {
        Some(kept) => kept,
        None => {
            source = "server";
            let day = host.derive(Derivation::HmacSha256, &token, b"AWS4", b"20130524");
            let region = host.derive(Derivation::HmacSha256, &day, b"", b"us-east-1");
            let signature = host.sign(Signature::HmacSha256, &region, b"to sign");
            let value = host.join(&[
                Part::Text("Signature="),
                Part::Hex(&signature),
                Part::Text(" Raw="),
                Part::Base64(&token),
            ]);
            let (response, captured) =
                host.http_capture(&request(config), Some(&header(value)), &["/token"])?;
            let body = String::from_utf8_lossy(&response.body).into_owned();
            host.log(Level::Info, &format!("{body} {:?}", response.headers));
            let kept = captured.into_iter().next().flatten().ok_or_else(|| {
                PluginError::unavailable("NotCaptured", format!("{}: {body}", response.status))
            })?;
            host.cache_put_secret("k", &token, &kept, 60_000);
            kept
        }
    };
    host.log(Level::Info, &format!("{token:?} {kept:?}"));
    let private_key = host.join(&[Part::Text("-----BEGIN "), Part::Plain(&kept)]);
    Ok(Resolution {
        revision: format!("{source} {kept:?}"),
        ..resolution(Artifact::GitTree {
            url: "ssh://git@10.0.0.7/a".into(),
            commit: "1".repeat(40),
            auth: Some(Credential::SshKey {
                private_key,
                passphrase: Some(token),
                known_hosts: None,
            }),
            depth: None,
        })
    })
}

fn flood(
    host: &(impl Host + ?Sized),
    make: impl Fn(&Secret) -> Secret,
) -> Result<Resolution, PluginError> {
    let token = host.secret_at(TOKEN)?;
    loop {
        make(&token);
    }
}

/// A text that doubles until it would fill the host.
fn grow(host: &(impl Host + ?Sized), config: &Value) -> Result<Resolution, PluginError> {
    let mut grown = host.secret_at(TOKEN)?;
    for _ in 0..60 {
        grown = host.join(&[Part::Plain(&grown), Part::Plain(&grown)]);
    }
    host.http_send(&request(config), Some(&header(grown)))
        .map(|response| said(response.status.to_string()))
}

/// The whole answer is the secret; what is left of it is said.
fn capture_all(host: &(impl Host + ?Sized), config: &Value) -> Result<Resolution, PluginError> {
    let (response, captured) = host.http_capture(&request(config), None, &["", "/none"])?;
    let found: Vec<bool> = captured.iter().map(Option::is_some).collect();
    Ok(said(format!(
        "{found:?} {} {:?}",
        String::from_utf8_lossy(&response.body),
        response.headers
    )))
}

/// A kept secret, asked for as if it were a plain value.
fn cache_as_json(host: &(impl Host + ?Sized)) -> Result<Resolution, PluginError> {
    let token = host.secret_at(TOKEN)?;
    let before = host.cache_get("k")?;
    host.cache_put_secret("k", &token, &token, 60_000);
    let after = host.cache_get("k")?;
    Ok(said(format!("{before:?} {after:?}")))
}

/// A kept secret, asked for with a guess of what it was obtained with.
fn cache_guess(host: &(impl Host + ?Sized)) -> Result<Resolution, PluginError> {
    let token = host.secret_at(TOKEN)?;
    let guessed = host.cache_get_secret("k", &host.seal(b"guess"))?.is_some();
    let held = host.cache_get_secret("k", &token)?.is_some();
    host.cache_put_secret("k", &token, &token, 60_000);
    Ok(said(format!("guessed {guessed}, held {held}")))
}

fn key_over_http(host: &(impl Host + ?Sized), config: &Value) -> Result<Resolution, PluginError> {
    let auth = Credential::SshKey {
        private_key: host.secret_at(TOKEN)?,
        passphrase: None,
        known_hosts: None,
    };
    host.http_send(&request(config), Some(&auth))
        .map(|response| said(response.status.to_string()))
}

/// Signs with what is no key, and sees what it is told.
fn no_key(host: &(impl Host + ?Sized), config: &Value) -> Result<Resolution, PluginError> {
    let token = host.secret_at(TOKEN)?;
    let signature = host.sign(Signature::Rs256, &token, b"payload");
    let value = host.join(&[Part::Base64Url(&signature)]);
    host.http_send(&request(config), Some(&header(value)))
        .map(|response| said(response.status.to_string()))
}
