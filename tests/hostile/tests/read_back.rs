//! Secrets on their way through derivation, signature, capture, cache and keys for ssh: spent where they belong, found
//! nowhere else, and not to be read back.
#![allow(clippy::unwrap_used)]

mod evil;
#[path = "../../../host/wasm/tests/support/mod.rs"]
mod support;

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::any;
use evil::{Setting, denied, resolve, setting};
use serde_json::{Value, json};
use support::Table;
use windlass_sdk::ErrorClass;
use windlass_wasm::outside::http::HttpClient;
use windlass_wasm::{Credential, Network, PluginError, Transcript};

/// The value of the Secret that the spec names, and what the server answers with.
const TOKEN: &str = "canary-token-0815";
const ANSWER: &str = "canary-answer-4711";

fn spec() -> Value {
    let reference = json!({"type": "Secret", "secret": {"name": "creds", "key": "token"}});
    json!({"token": reference, "tokenID": reference})
}

fn world() -> (Network, Table) {
    let network = Network {
        loopback: true,
        ..Network::default()
    };
    let table = Table {
        http: Some(HttpClient::new(network.clone())),
        secrets: [("creds/token".to_owned(), format!("{TOKEN}\n"))].into(),
        ..Table::default()
    };
    (network, table)
}

/// Answers with `body` and notes the headers `x-signature` it got.
async fn server(status: u16, body: String) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let answer = move |headers: HeaderMap| {
        if let Some(value) = headers.get("x-signature") {
            noted
                .lock()
                .unwrap()
                .push(value.to_str().unwrap().to_owned());
        }
        let status = axum::http::StatusCode::from_u16(status).unwrap();
        let body = body.clone();
        async move { (status, [("x-again", body.clone())], body) }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/", any(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, seen)
}

async fn misbehaving(mode: &str, address: SocketAddr, more: Value) -> Setting {
    let hosts = json!([address.to_string(), "10.0.0.7:22"]);
    let mut config = json!({"mode": mode, "url": format!("http://{address}/"),
        "wants": {"interfaces": ["http", "secrets", "cache"], "hosts": hosts}});
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    let (network, table) = world();
    setting(config, json!({"hosts": hosts}), network, table).await
}

/// Everything that any crate logs in this process.
fn logged() -> &'static Mutex<Vec<u8>> {
    static LOGGED: OnceLock<&'static Mutex<Vec<u8>>> = OnceLock::new();
    LOGGED.get_or_init(|| {
        struct Shared(&'static Mutex<Vec<u8>>);
        impl Write for Shared {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let buffer: &'static Mutex<Vec<u8>> = Box::leak(Box::default());
        // Compilers say a lot about code, which holds no secrets.
        tracing_subscriber::fmt()
            .with_env_filter("trace,cranelift_codegen=off,regalloc2=off")
            .with_writer(move || Shared(buffer))
            .init();
        buffer
    })
}

fn clean(what: &str, text: &str) {
    for canary in [TOKEN, ANSWER, &base64(TOKEN)] {
        assert!(!text.contains(canary), "{what}: {text}");
    }
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[tokio::test]
async fn a_secret_is_spent_where_it_belongs_and_found_nowhere_else() {
    let logs = logged();
    let body = json!({"token": ANSWER, "again": format!("x {ANSWER}"), "expires": "soon"});
    let (address, seen) = server(201, body.to_string()).await;
    let setting = misbehaving("chain", address, json!({})).await;

    let done = resolve(&setting.host, spec()).await;
    let resolved = done.result.unwrap();
    // HMACs by an implementation of its own: "AWS4" + token over the day, that over the region, that over the payload.
    let hmac = |key: &[u8], payload: &str| {
        use hmac::{Hmac, Mac};
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(key).unwrap();
        mac.update(payload.as_bytes());
        mac.finalize().into_bytes().to_vec()
    };
    let day = hmac(format!("AWS4{TOKEN}").as_bytes(), "20130524");
    let signature = hmac(&hmac(&day, "us-east-1"), "to sign");
    let expected = format!("Signature={} Raw={}", hex::encode(signature), base64(TOKEN));
    assert_eq!(*seen.lock().unwrap(), [expected]);
    let Some(Credential::SshKey {
        private_key,
        passphrase,
        known_hosts: None,
    }) = &resolved.credential
    else {
        panic!("no key")
    };
    assert_eq!(**private_key, format!("-----BEGIN {ANSWER}"));
    assert_eq!(passphrase.as_ref().map(|it| it.as_str()), Some(TOKEN));

    let transcript = *done.transcript.unwrap();
    // What the plugin saw and said is there, without the values.
    let said = serde_json::to_string(&transcript.logs).unwrap();
    assert!(
        said.contains("expires") && said.contains("Captured"),
        "{said}"
    );
    let text = serde_json::to_string(&transcript).unwrap();
    clean("transcript", &text);
    clean("debug of the transcript", &format!("{transcript:?}"));
    clean("result", &format!("{resolved:?}"));
    // It runs again anywhere, with the same handles.
    let read: Transcript = serde_json::from_str(&text).unwrap();
    let replayed = setting.host.replay(&read).await.unwrap();
    assert_eq!(replayed.result, transcript.result);
    assert_eq!(replayed.logs, transcript.logs);

    // The second evaluation finds what the first has kept: nothing is sent.
    let again = resolve(&setting.host, spec()).await;
    let resolved = again.result.unwrap();
    assert!(
        resolved.resolution.revision.starts_with("cache "),
        "{resolved:?}"
    );
    let Some(Credential::SshKey { private_key, .. }) = &resolved.credential else {
        panic!("no key")
    };
    assert_eq!(**private_key, format!("-----BEGIN {ANSWER}"));
    assert_eq!(seen.lock().unwrap().len(), 1);
    let transcript = *again.transcript.unwrap();
    clean("transcript", &serde_json::to_string(&transcript).unwrap());

    let logged = String::from_utf8_lossy(&logs.lock().unwrap()).into_owned();
    assert!(logged.contains("hyper"), "nothing was logged");
    clean("log", &logged);
}

#[tokio::test]
async fn an_error_shows_no_secret_either() {
    logged();
    // The answer has no token where one is wanted, and is no JSON: nothing of it is handed over.
    let (address, _) = server(200, format!("token={ANSWER}")).await;
    let setting = misbehaving("chain", address, json!({})).await;
    let done = resolve(&setting.host, spec()).await;
    let error = done.result.unwrap_err();
    assert_eq!(error.reason(), "NotCaptured");
    assert_eq!(error.to_string(), "200: ");
    clean(
        "transcript",
        &serde_json::to_string(&done.transcript).unwrap(),
    );

    let setting = misbehaving("no-key", address, json!({})).await;
    let done = resolve(&setting.host, spec()).await;
    let error = done.result.unwrap_err();
    assert_eq!(
        (error.class(), error.reason()),
        (ErrorClass::Invalid, "SecretInvalid")
    );
    clean("error", &format!("{error} {error:?}"));
    clean(
        "transcript",
        &serde_json::to_string(&done.transcript).unwrap(),
    );
}

#[tokio::test]
async fn floods_end_with_their_own_error() {
    let (address, seen) = server(200, "{}".into()).await;
    for (mode, expected) in [
        ("flood-sign", PluginError::TooManySecretsMade { limit: 16 }),
        (
            "flood-derive",
            PluginError::TooManySecretsMade { limit: 256 },
        ),
        ("flood-join", PluginError::TooManySecretsMade { limit: 256 }),
        (
            "flood-bytes",
            PluginError::TransferExceeded {
                limit_bytes: 16 << 20,
            },
        ),
    ] {
        let setting = misbehaving(mode, address, json!({})).await;
        let error = resolve(&setting.host, spec()).await.result.unwrap_err();
        assert_eq!(error, expected, "{mode}");
        assert_eq!(error.class(), ErrorClass::Internal);
    }
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_text_that_doubles_fills_nothing() {
    let (address, seen) = server(200, "{}".into()).await;
    let setting = misbehaving("grow", address, json!({})).await;
    let error = resolve(&setting.host, spec()).await.result.unwrap_err();
    assert_eq!(error.reason(), "SecretTooLarge");
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_secret_is_no_identifier() {
    let (address, _) = server(200, "{}".into()).await;
    // Neither by its name, nor by its value.
    for pointer in ["/spec/token", "/spec/tokenID", "/metadata/ID", "ID"] {
        let setting = misbehaving("id", address, json!({"pointer": pointer})).await;
        let done = resolve(&setting.host, spec()).await;
        let error = done.result.unwrap_err();
        denied(&error, "SecretDenied");
        clean("error", &error.to_string());
        clean(
            "transcript",
            &serde_json::to_string(&done.transcript).unwrap(),
        );
    }
}

#[tokio::test]
async fn what_is_captured_is_not_left_behind() {
    let (address, _) = server(200, json!([ANSWER]).to_string()).await;
    let setting = misbehaving("capture-all", address, json!({})).await;
    let done = resolve(&setting.host, spec()).await;
    let said = done.result.unwrap().resolution.revision;
    assert!(said.starts_with("[true, false] null "), "{said}");
    clean("what the plugin saw", &said);
}

#[tokio::test]
async fn a_kept_secret_is_found_only_with_what_it_was_obtained_with() {
    let (address, _) = server(200, "{}".into()).await;
    let setting = misbehaving("cache-as-json", address, json!({})).await;
    for _ in 0..2 {
        let done = resolve(&setting.host, spec()).await;
        assert_eq!(done.result.unwrap().resolution.revision, "None None");
    }
    let setting = misbehaving("cache-guess", address, json!({})).await;
    for expected in ["guessed false, held false", "guessed false, held true"] {
        let done = resolve(&setting.host, spec()).await;
        assert_eq!(done.result.unwrap().resolution.revision, expected);
    }
}

#[tokio::test]
async fn a_key_for_ssh_goes_nowhere_else() {
    let (address, seen) = server(200, "{}".into()).await;
    let setting = misbehaving("key-over-http", address, json!({})).await;
    let error = resolve(&setting.host, spec()).await.result.unwrap_err();
    assert_eq!(error.reason(), "CredentialInvalid");
    clean("error", &error.to_string());
    assert!(seen.lock().unwrap().is_empty());
}
