//! The workspace's token is exchanged for the backend's, and neither is anywhere but in the CLI's environment.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::sync::{Arc, Mutex};

use common::{Bench, run};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use windlass_agent::AgentClient;
use windlass_api::run::{LoginExchange, Operation, RunResult, RunState};

const OWN: &str = "own-token-canary";
const GIVEN: &str = "given-token-canary";

/// An HTTPS server of one answer, which notes what it was asked.
struct Backend {
    url: String,
    authority: String,
    asked: Arc<Mutex<Vec<String>>>,
    answer: Arc<Mutex<String>>,
}

fn http(status: &str, body: &str) -> String {
    let n = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {n}\r\n\r\n{body}"
    )
}

fn granted(seconds: u64) -> String {
    http(
        "200 OK",
        &format!(r#"{{"access_token":"{GIVEN}","token_type":"Bearer","expires_in":{seconds}}}"#),
    )
}

async fn backend() -> Backend {
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned()];
    let certificate = CertificateParams::new(names)
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let answer = Arc::new(Mutex::new(granted(3600)));
    let (notes, says) = (asked.clone(), answer.clone());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut request = Vec::new();
            let whole = |request: &[u8]| {
                let text = String::from_utf8_lossy(request).into_owned();
                let (head, body) = text.split_once("\r\n\r\n")?;
                let length: usize = head.lines().find_map(|l| {
                    l.to_ascii_lowercase()
                        .strip_prefix("content-length: ")?
                        .parse()
                        .ok()
                })?;
                (body.len() >= length).then_some(text)
            };
            let text = loop {
                if stream.read_buf(&mut request).await.unwrap() == 0 {
                    break String::new();
                }
                if let Some(text) = whole(&request) {
                    break text;
                }
            };
            notes.lock().unwrap().push(text);
            let answer = says.lock().unwrap().clone();
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    Backend {
        url: format!("https://localhost:{port}/api/oauth/token"),
        authority: certificate.pem(),
        asked,
        answer,
    }
}

struct Scene {
    bench: Bench,
    backend: Backend,
    runs: usize,
}

impl Scene {
    async fn new() -> Scene {
        let backend = backend().await;
        let mut bench = Bench::new(Path::new("/nonexistent"));
        // Says how long the token is that it was given, and tries to tell it.
        bench.shim(
            "#!/bin/sh\ncase \"$*\" in *version*) echo v3.259.0; exit 0;; esac\n\
            echo \"token ${#PULUMI_ACCESS_TOKEN} $PULUMI_ACCESS_TOKEN\"\n",
        );
        bench.program("p", "name: p\nruntime: yaml\n");
        std::fs::create_dir(bench.path("login")).unwrap();
        let token = bench.path("login/token");
        std::fs::write(&token, format!("{OWN}\n")).unwrap();
        let token = token.display().to_string();
        bench.env.insert("WINDLASS_LOGIN_TOKEN_FILE".into(), token);
        let roots = bench.path("roots.pem");
        std::fs::write(&roots, &backend.authority).unwrap();
        let roots = roots.display().to_string();
        bench.env.insert("SSL_CERT_FILE".into(), roots);
        Scene {
            bench,
            backend,
            runs: 0,
        }
    }

    fn exchange(&self) -> LoginExchange {
        LoginExchange {
            audience: "urn:pulumi:org:acme".into(),
            url: self.backend.url.clone(),
            form: [
                (
                    "grant_type",
                    "urn:ietf:params:oauth:grant-type:token-exchange",
                ),
                ("audience", "urn:pulumi:org:acme"),
                ("subject_token", "not yours to say"),
            ]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into(),
        }
    }

    async fn run(&mut self, client: &AgentClient, exchange: LoginExchange) -> RunResult {
        self.runs += 1;
        let id = format!("l-{}", self.runs);
        let mut request = self.bench.request(&id, Operation::Preview, "p");
        request.login = Some(exchange);
        run(client, &request).await
    }

    /// What is kept of what the CLI said in a run.
    fn said(&self, run: usize) -> String {
        let out = self.bench.path(&format!("state/runs/l-{run}/log"));
        std::fs::read_to_string(out).unwrap_or_default()
    }

    fn asked(&self) -> usize {
        self.backend.asked.lock().unwrap().len()
    }
}

fn reason(result: &RunResult) -> &str {
    result
        .failure
        .as_ref()
        .and_then(|f| f.reason.as_deref())
        .unwrap_or_default()
}

#[tokio::test]
async fn a_token_is_exchanged_once_and_goes_to_the_cli_alone() {
    let mut scene = Scene::new().await;
    let client = scene.bench.start().await;
    let exchange = scene.exchange();
    for _ in 0..2 {
        let result = scene.run(&client, exchange.clone()).await;
        assert_eq!(result.state, RunState::Succeeded, "{result:?}");
    }
    assert!(scene.said(2).starts_with(&format!("token {}", GIVEN.len())));
    let asked = scene.backend.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1, "the second run took the same");
    let (head, form) = asked[0].split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /api/oauth/token HTTP/1.1"), "{head}");
    assert_eq!(
        form,
        format!(
            "audience=urn%3Apulumi%3Aorg%3Aacme&grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token={OWN}"
        )
    );
    // One that is soon over is not given again.
    *scene.backend.answer.lock().unwrap() = granted(0);
    let mut other = exchange.clone();
    other.form.insert("scope".into(), "x".into());
    for _ in 0..2 {
        scene.run(&client, other.clone()).await;
    }
    assert_eq!(scene.asked(), 3);
    // A person's command gets one too.
    let mut exec = std::process::Command::new(env!("CARGO_BIN_EXE_windlass-agent"));
    exec.args(["exec", "--state-dir"])
        .arg(scene.bench.path("state"))
        .args(["--", "sh", "-c", "echo ${#PULUMI_ACCESS_TOKEN}"])
        .env_clear()
        .envs(&scene.bench.env);
    // The backend answers on this thread.
    let said = tokio::task::spawn_blocking(move || exec.output().unwrap())
        .await
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&said.stdout).trim(),
        GIVEN.len().to_string(),
        "{said:?}"
    );

    let logs = scene.bench.logs();
    assert!(logs.contains("token 18 [secret]"), "{logs}");
    scene.bench.kill_agent();
    for canary in [OWN, GIVEN] {
        assert!(!logs.contains(canary), "{logs}");
        let found = std::process::Command::new("grep")
            .args(["-rl", canary])
            .arg(scene.bench.path("state"))
            .output()
            .unwrap();
        let found = String::from_utf8_lossy(&found.stdout).into_owned();
        let found: Vec<&str> = found.lines().collect();
        assert!(found.is_empty(), "{canary} in {found:?}");
    }
}

#[tokio::test]
async fn a_token_of_ones_own_wins() {
    let mut scene = Scene::new().await;
    let own = "a-token-of-my-own";
    scene
        .bench
        .env
        .insert("PULUMI_ACCESS_TOKEN".into(), own.into());
    let client = scene.bench.start().await;
    let exchange = scene.exchange();
    let result = scene.run(&client, exchange).await;
    assert_eq!(result.state, RunState::Succeeded, "{result:?}");
    assert!(scene.said(1).starts_with(&format!("token {}", own.len())));
    assert_eq!(scene.asked(), 0);
}

#[tokio::test]
async fn what_goes_wrong_is_told_apart() {
    let mut scene = Scene::new().await;
    let client = scene.bench.start().await;
    let exchange = scene.exchange();
    let answers = [
        (
            http(
                "401 Unauthorized",
                &format!(
                    r#"{{"error":"invalid_grant","error_description":"{OWN} is of no policy"}}"#
                ),
            ),
            "LoginRefused",
            "invalid_grant: [secret] is of no policy",
        ),
        (
            http("302 Found\r\nlocation: https://elsewhere.invalid", ""),
            "LoginRefused",
            "302",
        ),
        (http("503 Unavailable", "busy"), "LoginUnavailable", "503"),
        (http("200 OK", "{}"), "LoginUnavailable", "no JSON"),
        (
            http(
                "200 OK",
                &format!("{{\"access_token\":\"{}\"}}", "x".repeat(2 << 20)),
            ),
            "LoginUnavailable",
            "could not be read",
        ),
    ];
    for (answer, wanted, word) in answers {
        *scene.backend.answer.lock().unwrap() = answer;
        let result = scene.run(&client, exchange.clone()).await;
        assert_eq!((result.state, reason(&result)), (RunState::Failed, wanted));
        assert!(result.message.contains(word), "{}", result.message);
        assert!(!result.reached_engine);
    }
    *scene.backend.answer.lock().unwrap() = granted(60);
    let asked = scene.asked();

    let mut plain = exchange.clone();
    plain.url = plain.url.replace("https", "http");
    let mut named = exchange.clone();
    named.url = named.url.replace("https://", "https://me:secret@");
    for (exchange, wanted) in [(plain, "LoginInvalid"), (named, "LoginInvalid")] {
        let result = scene.run(&client, exchange).await;
        assert_eq!(reason(&result), wanted, "{}", result.message);
    }
    std::fs::remove_file(scene.bench.path("login/token")).unwrap();
    let result = scene.run(&client, exchange).await;
    assert_eq!(reason(&result), "LoginTokenMissing");
    let place = scene.bench.path("login").display().to_string();
    assert!(result.message.contains(&place), "{}", result.message);
    assert_eq!(scene.asked(), asked, "nothing was sent");
    assert!(!scene.bench.logs().contains(OWN));
}

#[tokio::test]
async fn a_backend_that_nobody_vouches_for_gets_no_token() {
    let mut scene = Scene::new().await;
    let other = backend().await;
    std::fs::write(scene.bench.path("roots.pem"), other.authority).unwrap();
    let client = scene.bench.start().await;
    let exchange = scene.exchange();
    let result = scene.run(&client, exchange).await;
    assert_eq!(reason(&result), "LoginUnavailable");
    assert!(result.message.contains("certificate"), "{}", result.message);
    assert_eq!(scene.asked(), 0);
}
