//! The Git source with a GitHub App, as a component, against an API that checks signatures.
#![allow(clippy::unwrap_used)]

mod support;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{
    KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use support::{Table, host, installed, work};
use windlass_sdk::{ErrorClass, GitRef};
use windlass_wasm::outside::http::HttpClient;
use windlass_wasm::{Credential, Network, PluginHost, Policy, Transcript};

const HEAD: &str = "1111111111111111111111111111111111111111";
const CANARY: &str = "ghs_canary";

/// A key as GitHub gives it out (PKCS#1), as other tools write it (PKCS#8), and its public half.
struct Key {
    pkcs1: String,
    pkcs8: String,
    public: Vec<u8>,
}

fn key() -> Key {
    let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let pkcs8 = AsDer::<Pkcs8V1Der>::as_der(&pair).unwrap();
    let pkcs8 = pkcs8.as_ref();
    let public = RsaKeyPair::from_pkcs8(pkcs8)
        .unwrap()
        .public_key()
        .as_ref()
        .to_vec();
    // The RSA key in it follows version, algorithm and the header of its octets.
    let pkcs1 = &pkcs8[26..];
    assert!(RsaKeyPair::from_der(pkcs1).is_ok());
    Key {
        pkcs1: pem("RSA PRIVATE KEY", pkcs1),
        pkcs8: pem("PRIVATE KEY", pkcs8),
        public,
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = (0..text.len())
        .step_by(64)
        .map(|at| &text[at..text.len().min(at + 64)])
        .collect();
    format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        lines.join("\n")
    )
}

/// Whether the token is signed by the key, and says what GitHub wants to hear.
fn check(token: &str, public: &[u8]) -> Result<(), &'static str> {
    let (signed, signature) = token.rsplit_once('.').ok_or("no signature")?;
    let signature = URL_SAFE_NO_PAD
        .decode(signature)
        .map_err(|_| "no base64url")?;
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public)
        .verify(signed.as_bytes(), &signature)
        .map_err(|_| "not signed by this key")?;
    let (header, claims) = signed.split_once('.').ok_or("no claims")?;
    let json = |text: &str| -> Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap()
    };
    let (header, claims) = (json(header), json(claims));
    let now = 1_790_000_000;
    let (from, until) = (
        claims["iat"].as_i64().unwrap(),
        claims["exp"].as_i64().unwrap(),
    );
    let good = header["alg"] == "RS256"
        && claims["iss"] == "42"
        && from < now
        && until > now
        && until - from <= 600;
    good.then_some(()).ok_or("other claims")
}

/// Gives out a new token for each good request; notes what became of each.
async fn api(public: Vec<u8>) -> (SocketAddr, Arc<Mutex<Vec<Result<u64, &'static str>>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let answer = move |Path(installation): Path<u64>, headers: HeaderMap| {
        let bearer = headers["authorization"].to_str().unwrap();
        let checked = check(bearer.strip_prefix("Bearer ").unwrap(), &public);
        let mut noted = noted.lock().unwrap();
        noted.push(checked.map(|()| installation));
        let number = noted.len();
        let reply = match checked {
            Ok(()) => (
                StatusCode::CREATED,
                Json(
                    json!({"token": format!("{CANARY}{number}"), "expires_at": "2026-09-21T15:13:20Z",
                    "permissions": {"contents": "read"}}),
                ),
            ),
            Err(_) => (
                StatusCode::UNAUTHORIZED,
                Json(json!({"message": "A JSON web token could not be decoded"})),
            ),
        };
        async move { reply }
    };
    let router = Router::new().route("/api/v3/app/installations/{id}/access_tokens", post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, seen)
}

/// A host on one machine with the App's Secret, and others beside it.
async fn setting(key: &Key, other: &Key) -> (PluginHost, Arc<Table>, tempfile::TempDir) {
    let network = Network {
        loopback: true,
        ..Network::default()
    };
    let secrets = [
        ("app/id", "42\n"),
        ("app/installation", "7"),
        ("app/pem", &key.pkcs1),
        ("app/pem8", &key.pkcs8),
        ("app/other", &other.pkcs8),
        ("app/none", "-----BEGIN canary-----"),
    ];
    let outside = Arc::new(Table {
        refs: vec![GitRef {
            name: "refs/heads/main".into(),
            oid: HEAD.into(),
            peeled: None,
        }],
        secrets: secrets
            .map(|(name, value)| (name.into(), value.into()))
            .into(),
        http: Some(HttpClient::new(network.clone())),
        ..Table::default()
    });
    let dir = installed();
    let host = host(&[dir.path()], Policy::default(), network, outside.clone()).await;
    (host, outside, dir)
}

fn spec(address: SocketAddr, pem: &str) -> Value {
    let reference = |key: &str| json!({"type": "Secret", "secret": {"name": "app", "key": key}});
    json!({"projectRepo": format!("http://{address}/org/a"), "branch": "main", "gitAuth": {"githubApp": {
        "appID": reference("id"), "installationID": reference("installation"), "privateKey": reference(pem)}}})
}

#[tokio::test]
async fn a_token_is_obtained_once_kept_and_renewed() {
    let (key, other) = (key(), key());
    let (address, seen) = api(key.public.clone()).await;
    let (host, outside, _dir) = setting(&key, &other).await;
    let resolve = async |pem: &str| host.resolve("git", &work(spec(address, pem)), None).await;
    let token = |credential: Option<Credential>| match credential {
        Some(Credential::Basic { username, password }) => {
            assert_eq!(username.as_str(), "x-access-token");
            password.to_string()
        }
        other => panic!("no token: {other:?}"),
    };

    let done = resolve("pem").await;
    let resolved = done.result.unwrap();
    assert_eq!(resolved.resolution.revision, HEAD);
    assert_eq!(token(resolved.credential), format!("{CANARY}1"));
    assert_eq!(*seen.lock().unwrap(), [Ok(7)]);
    assert!(
        outside
            .asked()
            .last()
            .unwrap()
            .ends_with(&format!("x-access-token:{CANARY}1"))
    );

    // The transcript has names only, and runs again without asking anyone.
    let transcript = *done.transcript.unwrap();
    let text = serde_json::to_string(&transcript).unwrap();
    let jwt = URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256""#);
    for secret in [CANARY, "PRIVATE KEY", &jwt[..jwt.len() - 1]] {
        assert!(!text.contains(secret), "{secret} in {text}");
        assert!(!format!("{transcript:?}").contains(secret), "{secret}");
    }
    let read: Transcript = serde_json::from_str(&text).unwrap();
    assert_eq!(host.replay(&read).await.unwrap().result, transcript.result);

    // Another evaluation with the same key, in another form even, is another value: it is not served what this one has.
    assert_eq!(
        token(resolve("pem").await.result.unwrap().credential),
        format!("{CANARY}1")
    );
    assert_eq!(seen.lock().unwrap().len(), 1);
    assert_eq!(
        token(resolve("pem8").await.result.unwrap().credential),
        format!("{CANARY}2")
    );

    // Who has another key gets nothing, though the numbers are the same.
    let error = resolve("other").await.result.unwrap_err();
    assert_eq!(
        (error.class(), error.reason()),
        (ErrorClass::Denied, "GitHubAppRefused")
    );
    assert_eq!(
        seen.lock().unwrap().last(),
        Some(&Err("not signed by this key"))
    );

    // A token that was revoked is replaced.
    outside.refused.lock().unwrap().push(format!("{CANARY}1"));
    assert_eq!(
        token(resolve("pem").await.result.unwrap().credential),
        format!("{CANARY}4")
    );
    assert_eq!(
        token(resolve("pem").await.result.unwrap().credential),
        format!("{CANARY}4")
    );
    assert_eq!(seen.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn what_is_no_key_is_said() {
    let (key, other) = (key(), key());
    let (address, seen) = api(key.public.clone()).await;
    let (host, _, _dir) = setting(&key, &other).await;
    let done = host
        .resolve("git", &work(spec(address, "none")), None)
        .await;
    let error = done.result.unwrap_err();
    assert_eq!(
        (error.class(), error.reason()),
        (ErrorClass::Invalid, "SecretInvalid")
    );
    assert!(!error.to_string().contains("canary"), "{error}");
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_token_that_was_paid_for_is_kept_though_the_branch_is_missing() {
    let (key, other) = (key(), key());
    let (address, seen) = api(key.public.clone()).await;
    let (host, _, _dir) = setting(&key, &other).await;
    let mut spec = spec(address, "pem");
    spec["branch"] = json!("gone");
    for _ in 0..2 {
        let error = host
            .resolve("git", &work(spec.clone()), None)
            .await
            .result
            .unwrap_err();
        assert_eq!(error.reason(), "SourceUnavailable");
    }
    assert_eq!(seen.lock().unwrap().len(), 1);
}
