//! The Flux source and the Pulumi Cloud backend as components: their grants, and what the host makes of their answers.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use support::{Table, host, installed, work};
use windlass_sdk::{Artifact, ErrorClass, FailureClass, LockVerdict, Login, Outcome, ReportedLock};
use windlass_wasm::{Network, PluginError, PluginHost, Policy};

const DIGEST: &str = "sha256:2d61bd646518ca1ff71811329b4ffda7d35ca841927aac7dcdac7383e6022699";
const REVISION: &str = "main@sha1:664e9d18c49eba2fd78ecd6296c9df02eff36cfd";

fn flux(kind: &str, group: &str) -> Value {
    json!({"fluxSource": {"sourceRef": {"apiVersion": format!("{group}/v1"), "kind": kind, "name": "web"}, "dir": "infra"}})
}

fn object(url: &str) -> Value {
    json!({"metadata": {"name": "web"}, "status": {"artifact": {"url": url, "revision": REVISION, "digest": DIGEST}}})
}

/// Objects of that name and any kind asked for here have their artifact at `url`.
fn cluster(url: &str) -> Arc<Table> {
    let outside = Table::default();
    for kind in ["GitRepository", "OCIRepository", "Bundle", "Secret"] {
        outside
            .objects
            .lock()
            .unwrap()
            .insert(format!("{kind}/web"), object(url));
    }
    Arc::new(outside)
}

/// A cluster whose service network is 10.96.0.0/16 and whose API server is at its first address.
fn network() -> Network {
    Network {
        loopback: false,
        api_server: vec!["10.96.0.1".into(), "kubernetes.default.svc".into()],
        scripted: false,
    }
}

async fn start(dir: &Path, policy: &str, outside: Arc<Table>) -> PluginHost {
    host(&[dir], Policy::parse(policy).unwrap(), network(), outside).await
}

async fn refused(url: &str) -> PluginError {
    let dir = installed();
    let host = start(dir.path(), "{}", cluster(url)).await;
    let spec = work(flux("GitRepository", "source.toolkit.fluxcd.io"));
    host.resolve("flux", &spec, None).await.result.unwrap_err()
}

#[tokio::test]
async fn an_artifact_at_an_address_of_the_cluster_is_resolved() {
    // What source-controller states is a service's name; names resolve to such addresses there, and not here.
    let url = "http://10.96.31.7/gitrepository/apps/web/664e9d18.tar.gz";
    let (dir, outside) = (installed(), cluster(url));
    let host = start(dir.path(), "{}", outside.clone()).await;
    for kind in ["GitRepository", "OCIRepository"] {
        let spec = work(flux(kind, "source.toolkit.fluxcd.io"));
        let done = host.resolve("flux", &spec, None).await;
        let resolved = done.result.unwrap();
        assert_eq!(resolved.resolution.revision, REVISION);
        assert_eq!(resolved.resolution.dir, "infra");
        let Artifact::Archive {
            url: found, digest, ..
        } = &resolved.resolution.artifact
        else {
            panic!("no archive")
        };
        assert_eq!((found.as_str(), digest.as_str()), (url, DIGEST));
        let addresses = resolved.url.unwrap().addresses;
        assert_eq!(addresses[0].to_string(), "10.96.31.7:80");
        let watched = host.watches("flux", &spec).await.result.unwrap();
        assert_eq!(
            (watched[0].kind.as_str(), watched[0].name.as_str()),
            (kind, "web")
        );
        let replayed = host.replay(&done.transcript.unwrap()).await.unwrap();
        assert!(replayed.result.is_ok(), "{:?}", replayed.result);
    }
    assert_eq!(
        outside.asked(),
        ["kube apps/GitRepository/web", "kube apps/OCIRepository/web"]
    );
}

#[tokio::test]
async fn an_artifact_leads_neither_to_the_api_server_nor_to_metadata() {
    for url in [
        "https://10.96.0.1/api/v1/namespaces/apps/secrets",
        "https://kubernetes.default.svc/api",
        "https://kubernetes.default.svc./api",
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1:8080/x.tar.gz",
        "http://[::1]/x.tar.gz",
        "http://0x7f.1/x.tar.gz",
        "file:///etc/passwd",
        "ftp://10.96.31.7/x.tar.gz",
        "http://me:hunter2@10.96.31.7/x.tar.gz",
    ] {
        let error = refused(url).await;
        assert!(
            matches!(error, PluginError::UrlDenied { .. }),
            "{url}: {error:?}"
        );
        assert_eq!(error.class(), ErrorClass::Denied);
        assert!(!error.to_string().contains("hunter2"));
    }
}

#[tokio::test]
async fn kinds_beyond_fluxs_own_are_the_administrators_to_list() {
    let url = "http://10.96.31.7/bundle.tar.gz";
    let (dir, outside) = (installed(), cluster(url));
    let closed = start(dir.path(), "{}", outside.clone()).await;
    let spec = work(flux("Bundle", "example.org"));
    let error = closed
        .resolve("flux", &spec, None)
        .await
        .result
        .unwrap_err();
    assert_eq!(
        (error.class(), error.reason()),
        (ErrorClass::Denied, "KindDenied")
    );
    let text = error.to_string();
    assert!(
        text.contains("example.org/Bundle") && text.contains("plugins.source-flux.kinds"),
        "{text}"
    );
    assert!(outside.asked().is_empty());

    let policy = "plugins: {source-flux: {kinds: [example.org/Bundle, /Secret]}}";
    let open = start(dir.path(), policy, outside.clone()).await;
    let resolved = open.resolve("flux", &spec, None).await.result.unwrap();
    assert_eq!(resolved.resolution.revision, REVISION);
    // A Secret is none of them, whoever lists it.
    let mut secret = flux("Secret", "x");
    secret["fluxSource"]["sourceRef"]["apiVersion"] = "v1".into();
    let error = open
        .resolve("flux", &work(secret), None)
        .await
        .result
        .unwrap_err();
    assert_eq!(error.reason(), "KindDenied");
    assert_eq!(outside.asked(), ["kube apps/Bundle/web"]);
}

#[tokio::test]
async fn what_keeps_a_flux_source_from_being_had() {
    let (dir, outside) = (installed(), Arc::new(Table::default()));
    let host = start(dir.path(), "{}", outside.clone()).await;
    let spec = flux("GitRepository", "source.toolkit.fluxcd.io");
    let error = |spec: Value| {
        let host = host.clone();
        async move {
            let error = host
                .resolve("flux", &work(spec), None)
                .await
                .result
                .unwrap_err();
            (error.class(), error.reason().to_owned(), error.to_string())
        }
    };
    let (class, reason, message) = error(spec.clone()).await;
    assert_eq!(
        (class, reason.as_str()),
        (ErrorClass::NotFound, "SourceUnavailable")
    );
    assert!(
        message.starts_with("could not resolve sourceRef: "),
        "{message}"
    );
    let failing = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "message": "no route to host"}]}});
    outside
        .objects
        .lock()
        .unwrap()
        .insert("GitRepository/web".into(), failing);
    let (class, _, message) = error(spec.clone()).await;
    assert_eq!(class, ErrorClass::Unavailable);
    assert!(
        message.ends_with("is not ready: no route to host"),
        "{message}"
    );
    let mut wrong = spec;
    wrong["fluxSource"]["sourceRef"]["apiVersion"] = "a/b/c".into();
    let errors = host
        .validate("flux", &work(wrong.clone()))
        .await
        .result
        .unwrap();
    assert_eq!(errors[0].field, "fluxSource.sourceRef.apiVersion");
    assert_eq!(error(wrong).await.0, ErrorClass::Invalid);
}

#[tokio::test]
async fn pulumi_cloud_is_the_backend_of_http_urls() {
    let dir = installed();
    let host = start(dir.path(), "{}", Arc::default()).await;
    let subject = work(json!({"accessTokenSecret": "token"}));
    let session = host
        .open_backend("https://api.pulumi.com", Some("web"), "acme/dev", &subject)
        .await
        .result
        .unwrap();
    assert_eq!(
        (session.stack.as_str(), session.login, session.env.len()),
        ("acme/web/dev", Login::None, 0)
    );
    assert_eq!(
        session.console_url.unwrap(),
        "https://app.pulumi.com/acme/web/dev"
    );
    let session = host
        .open_backend("http://pulumi.acme.test", Some("web"), "dev", &subject)
        .await;
    assert_eq!(session.result.unwrap().stack, "dev");
    let error = host
        .open_backend("https://api.pulumi.com", None, "acme/dev", &work(json!({})))
        .await
        .result
        .unwrap_err();
    assert_eq!(
        (error.class(), error.reason()),
        (ErrorClass::Invalid, "AccessTokenMissing")
    );

    let outcome = Outcome {
        exit_code: Some(1),
        stderr_tail: "error: [409] Conflict: Another update is currently in progress.".into(),
        ..Outcome::default()
    };
    let failure = host
        .classify("https://api.pulumi.com", &outcome, &subject)
        .await
        .result
        .unwrap();
    assert_eq!(
        (failure.class, failure.reason.as_str()),
        (FailureClass::Conflict, "UpdateConflict")
    );
    let verdict = host
        .stale_lock(
            "https://api.pulumi.com",
            &[ReportedLock::default()],
            &[],
            &subject,
        )
        .await;
    assert_eq!(verdict.result.unwrap(), LockVerdict::Keep);
}

#[tokio::test]
async fn a_token_is_exchanged_with_the_stacks_own_backend() {
    let dir = installed();
    let policy = "plugins: {backend-cloud: {config: {organization: acme, exchange: {}}}}";
    let host = start(dir.path(), policy, Arc::default()).await;
    let session = host
        .open_backend(
            "https://api.pulumi.com",
            Some("web"),
            "dev",
            &work(json!({})),
        )
        .await
        .result
        .unwrap();
    assert_eq!(session.stack, "acme/web/dev");
    let Login::Exchange { audience, url, .. } = session.login else {
        panic!("no exchange")
    };
    assert_eq!(audience, "urn:pulumi:org:acme");
    assert_eq!(url, "https://api.pulumi.com/api/oauth/token");
    // A Stack's author may name any backend, but not have the workspace's token sent there.
    for backend in [
        "https://10.96.0.1",
        "https://kubernetes.default.svc",
        "https://169.254.169.254",
    ] {
        let error = host
            .open_backend(backend, Some("web"), "dev", &work(json!({})))
            .await
            .result
            .unwrap_err();
        assert_eq!(
            (error.class(), error.reason()),
            (ErrorClass::Denied, "PluginLoginDenied"),
            "{backend}"
        );
    }
}
