//! Archives of Programs, for whoever fetches them like a Flux source.

use std::collections::BTreeMap;
use std::io::Read as _;

use pretty_assertions::{assert_eq, assert_ne};
use reqwest::StatusCode;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use windlass_operator::Operator;

use super::{PROGRAM, client, until};

/// The digest of an archive, and its files.
fn unpacked(bytes: &[u8]) -> (String, BTreeMap<String, String>) {
    let digest = format!("sha256:{}", hex::encode(Sha256::digest(bytes)));
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes));
    let mut files = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        files.insert(entry.path().unwrap().display().to_string(), text);
    }
    (digest, files)
}

/// The status of the Program once it is of its present generation.
async fn artifact(operator: &Operator, generation: i64) -> Value {
    until(operator, "an artifact of its generation", async || {
        let program = operator.get("program", "hello").await?;
        let status = &program["status"];
        (status["observedGeneration"] == generation).then(|| status["artifact"].clone())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_can_be_fetched_under_the_address_in_its_status() {
    let Some(operator) = Operator::start().await else {
        return;
    };
    operator.apply(PROGRAM).await;
    let client = client();
    let first = artifact(&operator, 1).await;
    let namespace = &operator.namespace;
    assert_eq!(
        first["url"],
        format!(
            "http://127.0.0.1:{}/programs/{namespace}/hello/1",
            operator.programs_port
        )
    );
    assert_eq!(
        first["path"],
        format!("programs/{namespace}/hello/1.tar.gz")
    );
    assert_eq!(first["revision"], "1");
    let get = async |url: &str| client.get(url).send().await.unwrap();
    let url = |artifact: &Value| artifact["url"].as_str().unwrap().to_owned();

    let response = get(&url(&first)).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/gzip");
    let bytes = response.bytes().await.unwrap();
    assert_eq!(first["size"], bytes.len());
    let (digest, files) = unpacked(&bytes);
    assert_eq!(first["digest"], digest.as_str());
    assert!(
        files["Pulumi.yaml"].contains("runtime: \"yaml\""),
        "{files:?}"
    );
    assert!(files["Main.yaml"].contains("pulumi:Stash"), "{files:?}");

    // Read by name alone: there is no directory to leave.
    let base = format!("http://127.0.0.1:{}/programs", operator.programs_port);
    for (path, status) in [
        (format!("{namespace}/hello/2"), StatusCode::NOT_FOUND),
        (format!("{namespace}/other/1"), StatusCode::NOT_FOUND),
        (format!("{namespace}/hello/latest"), StatusCode::BAD_REQUEST),
        (
            format!("{namespace}/..%2f..%2fetc%2fpasswd/1"),
            StatusCode::NOT_FOUND,
        ),
        (String::new(), StatusCode::NOT_FOUND),
    ] {
        assert_eq!(
            get(&format!("{base}/{path}")).await.status(),
            status,
            "{path}"
        );
    }

    // Nothing is written while nothing changes.
    let version = |program: &Value| program["metadata"]["resourceVersion"].clone();
    let before = operator.get("program", "hello").await.unwrap();
    operator.apply(PROGRAM).await;
    operator
        .apply(&PROGRAM.replace("name: hello", "name: later"))
        .await;
    until(&operator, "seen", async || {
        let later = operator.get("program", "later").await?;
        later["status"]["artifact"]["digest"]
            .is_string()
            .then_some(())
    })
    .await;
    let after = operator.get("program", "hello").await.unwrap();
    assert_eq!(version(&before), version(&after));
    let managers = operator
        .plane
        .kubectl(&[
            "get",
            "program",
            "hello",
            "-n",
            namespace,
            "-o",
            "json",
            "--show-managed-fields",
        ])
        .await;
    let managers = String::from_utf8_lossy(&managers.stdout).into_owned();
    assert!(managers.contains("pulumi-kubernetes-operator/program-status"));

    // Another generation is another archive; who was told of the one before still gets that.
    operator
        .apply(&PROGRAM.replace("input: hello", "input: salut"))
        .await;
    let second = artifact(&operator, 2).await;
    assert_ne!(first["digest"], second["digest"]);
    let (digest, _) = unpacked(&get(&url(&second)).await.bytes().await.unwrap());
    assert_eq!(second["digest"], digest.as_str());
    let (digest, _) = unpacked(&get(&url(&first)).await.bytes().await.unwrap());
    assert_eq!(first["digest"], digest.as_str());

    // What somebody takes away comes back.
    let emptied = operator
        .plane
        .kubectl(&[
            "patch",
            "program",
            "hello",
            "-n",
            namespace,
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status": {"artifact": null}}"#,
        ])
        .await;
    assert!(emptied.status.success(), "{emptied:?}");
    until(&operator, "written again", async || {
        let program = operator.get("program", "hello").await?;
        (program["status"]["artifact"]["digest"] == second["digest"]).then_some(())
    })
    .await;

    let deleted = operator
        .plane
        .kubectl(&["delete", "program", "hello", "-n", namespace])
        .await;
    assert!(deleted.status.success());
    for gone in [&second, &first] {
        until(&operator, "gone", async || {
            let status = get(&url(gone)).await.status();
            (status == StatusCode::NOT_FOUND).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_runs_a_program_that_it_fetches_like_a_flux_source() {
    // Kinds beyond Flux's own are the administrator's to allow.
    let policy = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        policy.path(),
        "plugins: {source-flux: {kinds: [pulumi.com/Program]}}",
    )
    .unwrap();
    let path = policy.path().display().to_string();
    let Some(operator) = Operator::start_with(&["--policy", &path]).await else {
        return;
    };
    operator.apply(PROGRAM).await;
    operator
        .stack(
            "hello",
            "fluxSource:\n  sourceRef: {apiVersion: pulumi.com/v1, kind: Program, name: hello}",
        )
        .await;
    let stack = operator.ready("hello").await;
    assert_eq!(stack["status"]["outputs"]["greeting"], "hello");

    // Told of under the reasons that alerts know.
    for (kind, reason) in [
        ("Update", "UpdateSucceeded"),
        ("Workspace", "Initialized"),
        ("Stack", "StackCreated"),
    ] {
        until(&operator, "told of", async || {
            let events = operator.list("events").await;
            let told = |event: &&Value| {
                event["involvedObject"]["kind"] == kind && event["reason"] == reason
            };
            events.iter().find(told).map(|_| ())
        })
        .await;
    }

    operator
        .apply(&PROGRAM.replace("input: hello", "input: salut"))
        .await;
    operator
        .stack_when("hello", "run with the changed Program", |stack| {
            stack["status"]["outputs"]["greeting"] == "salut"
        })
        .await;
}
