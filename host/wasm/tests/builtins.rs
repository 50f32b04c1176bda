//! The built-in plugins as components, through the real host.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use serde_json::json;
use support::{Table, host, installed, work};
use windlass_sdk::{
    Artifact, ErrorClass, FailureClass, GitRef, HealthStatus, LockHolder, LockVerdict, Outcome,
    ReportedLock,
};
use windlass_wasm::{Credential, Network, PluginError, Policy, Transcript};

const HEAD: &str = "1111111111111111111111111111111111111111";

fn repository() -> Table {
    Table {
        refs: vec![GitRef {
            name: "refs/heads/main".into(),
            oid: HEAD.into(),
            peeled: None,
        }],
        secrets: [("creds/token".into(), "hunter2\n".into())].into(),
        ..Table::default()
    }
}

#[tokio::test]
async fn a_branch_is_resolved_by_question_and_answer() {
    let (dir, outside) = (installed(), Arc::new(repository()));
    let host = host(
        &[dir.path()],
        Policy::default(),
        Network::default(),
        outside.clone(),
    )
    .await;
    let spec = json!({"projectRepo": "https://10.0.0.7/a", "branch": "main", "gitAuth": {
        "accessToken": {"type": "Secret", "secret": {"name": "creds", "key": "token"}}}});
    let done = host.resolve("git", &work(spec.clone()), None).await;
    let resolved = done.result.unwrap();
    assert_eq!(resolved.resolution.revision, HEAD);
    assert_eq!(resolved.resolution.poll_after_ms, Some(60_000));
    let Some(Credential::Basic { username, password }) = resolved.credential else {
        panic!("no credential")
    };
    assert_eq!((username.as_str(), password.as_str()), ("git", "hunter2"));
    assert_eq!(
        resolved.url.unwrap().addresses[0].to_string(),
        "10.0.0.7:443"
    );
    let expected = [
        "secret creds/token",
        "git https://10.0.0.7/a [\"refs/heads/main\", \"refs/tags/main\"] git:hunter2",
    ];
    assert_eq!(outside.asked(), expected);

    // The transcript has everything but the secret, and runs again without asking anyone.
    let transcript = *done.transcript.unwrap();
    let text = serde_json::to_string(&transcript).unwrap();
    assert!(!text.contains("hunter2"));
    let read: Transcript = serde_json::from_str(&text).unwrap();
    let replayed = host.replay(&read).await.unwrap();
    assert_eq!(replayed.result, transcript.result);
    assert_eq!(outside.asked().len(), 2);

    // With an answer missing the replay says what is asked.
    let cut = Transcript {
        asked: read.asked[..1].to_vec(),
        ..read
    };
    assert_eq!(
        host.replay(&cut).await.unwrap().result.unwrap_err().reason,
        "PluginDiverged"
    );

    let watched = host.watches("git", &work(spec)).await.result.unwrap();
    assert_eq!(watched[0].name, "creds");
}

#[tokio::test]
async fn what_the_spec_gets_wrong_is_the_plugins_own_word() {
    let (dir, outside) = (installed(), Arc::new(repository()));
    let host = host(
        &[dir.path()],
        Policy::default(),
        Network::default(),
        outside.clone(),
    )
    .await;
    let spec = json!({"projectRepo": "https://10.0.0.7/a"});
    let errors = host
        .validate("git", &work(spec.clone()))
        .await
        .result
        .unwrap();
    assert_eq!(errors[0].message, "missing \"commit\" or \"branch\"");
    let error = host
        .resolve("git", &work(spec), None)
        .await
        .result
        .unwrap_err();
    assert_eq!(
        (error.class(), error.reason()),
        (ErrorClass::Invalid, "SpecInvalid")
    );
    let missing = json!({"projectRepo": "https://10.0.0.7/a", "branch": "gone"});
    let error = host
        .resolve("git", &work(missing), None)
        .await
        .result
        .unwrap_err();
    assert_eq!(
        (error.class(), error.reason()),
        (ErrorClass::Unavailable, "SourceUnavailable")
    );
    let nowhere = json!({"projectRepo": "https://127.0.0.1/a", "branch": "main"});
    let error = host
        .resolve("git", &work(nowhere), None)
        .await
        .result
        .unwrap_err();
    assert_eq!(
        (error.class(), error.reason()),
        (ErrorClass::Denied, "UrlDenied")
    );
    // A full hash asks nothing, so it is the result that is checked.
    let pinned = json!({"projectRepo": "https://127.0.0.1/a", "commit": HEAD});
    let error = host
        .resolve("git", &work(pinned), None)
        .await
        .result
        .unwrap_err();
    assert!(matches!(error, PluginError::UrlDenied { .. }), "{error:?}");
    let error = host
        .resolve("svn", &work(json!({})), None)
        .await
        .result
        .unwrap_err();
    assert_eq!(
        error,
        PluginError::Unknown {
            claim: "source:svn".into()
        }
    );
}

#[tokio::test]
async fn a_program_is_rendered() {
    let (dir, outside) = (installed(), Arc::new(Table::default()));
    let host = host(
        &[dir.path()],
        Policy::default(),
        Network::default(),
        outside.clone(),
    )
    .await;
    let spec = work(json!({"programRef": {"name": "hello"}}));
    let error = host
        .resolve("program", &spec, None)
        .await
        .result
        .unwrap_err();
    assert_eq!(error.reason(), "SourceUnavailable");
    let program = json!({"metadata": {"name": "hello", "generation": 2}, "program": {"outputs": {"a": "yes"}}});
    outside
        .objects
        .lock()
        .unwrap()
        .insert("Program/hello".into(), program);
    let resolved = host.resolve("program", &spec, None).await.result.unwrap();
    assert_eq!(resolved.resolution.revision, "2");
    let Artifact::Files { files } = resolved.resolution.artifact else {
        panic!("no files")
    };
    assert_eq!(files[0].path, "Pulumi.yaml");
    assert_eq!(
        String::from_utf8(files[1].content.clone()).unwrap(),
        "outputs:\n  a: \"yes\"\n"
    );
    assert_eq!(
        outside.asked(),
        ["kube apps/Program/hello", "kube apps/Program/hello"]
    );
}

#[tokio::test]
async fn a_backend_is_opened_by_its_scheme() {
    let dir = installed();
    let host = host(
        &[dir.path()],
        Policy::default(),
        Network::default(),
        Arc::default(),
    )
    .await;
    let subject = work(json!({}));
    let session = host
        .open_backend("file:///state", Some("web"), "dev", &subject)
        .await
        .result
        .unwrap();
    assert_eq!(session.stack, "organization/web/dev");
    assert_eq!(session.env["PULUMI_BACKEND_URL"], "file:///state");
    let error = host
        .open_backend("s3://X", Some("web"), "dev", &subject)
        .await
        .result
        .unwrap_err();
    assert_eq!(error.reason(), "BackendInvalid");
    let error = host
        .open_backend("gopher://x", None, "dev", &subject)
        .await
        .result
        .unwrap_err();
    assert_eq!(error.reason(), "PluginUnknown");

    let lock = ReportedLock {
        hostname: "pod-1".into(),
        ..ReportedLock::default()
    };
    let outcome = Outcome {
        exit_code: Some(1),
        locks: vec![lock.clone()],
        ..Outcome::default()
    };
    let failure = host
        .classify("file:///state", &outcome, &subject)
        .await
        .result
        .unwrap();
    assert_eq!(
        (failure.class, failure.reason.as_str()),
        (FailureClass::Conflict, "StackLocked")
    );
    let dead = LockHolder {
        hostname: "pod-1".into(),
        dead: true,
    };
    let verdict = host
        .stale_lock("file:///state", &[lock], &[dead], &subject)
        .await
        .result
        .unwrap();
    assert_eq!(verdict, LockVerdict::Release);
}

#[tokio::test]
async fn health_of_a_stack() {
    let dir = installed();
    let host = host(
        &[dir.path()],
        Policy::default(),
        Network::default(),
        Arc::default(),
    )
    .await;
    let object = json!({"metadata": {"generation": 1}, "status": {"observedGeneration": 1, "conditions": [
        {"type": "Ready", "status": "True", "message": "reconciliation completed"}]}});
    let health = host
        .assess(
            "pulumi.com/Stack",
            object.to_string(),
            "{}".into(),
            &work(json!({})),
        )
        .await
        .result
        .unwrap();
    assert_eq!(
        (health.status, health.message.as_str()),
        (HealthStatus::Healthy, "reconciliation completed")
    );
}

#[tokio::test]
async fn all_built_ins_are_served_as_built_ins() {
    let dir = installed();
    let host = host(
        &[dir.path()],
        Policy::default(),
        Network::default(),
        Arc::default(),
    )
    .await;
    let list = host.list();
    assert_eq!(list.len(), support::BUILTINS.len());
    for plugin in &list {
        assert!(
            plugin.serving && plugin.builtin && plugin.error.is_none(),
            "{plugin:?}"
        );
    }
}

#[tokio::test]
async fn what_a_spec_states_inline_reaches_no_transcript() {
    let dir = installed();
    let host = host(
        &[dir.path()],
        Policy::default(),
        Network::default(),
        Arc::default(),
    )
    .await;
    let subject = work(json!({"secrets": {"a": "canary"}, "programRef": {"name": "x"}}));
    let url = "postgres://me:canary@db.test/x";
    let opened = host.open_backend(url, Some("web"), "dev", &subject).await;
    assert_eq!(opened.result.unwrap().env["PULUMI_BACKEND_URL"], url);
    let resolved = host.resolve("program", &subject, None).await;
    let object = json!({"spec": subject.spec}).to_string();
    let assessed = host
        .assess("pulumi.com/Stack", object, "{}".into(), &subject)
        .await;
    for transcript in [opened.transcript, resolved.transcript, assessed.transcript] {
        let text = serde_json::to_string(&transcript.unwrap()).unwrap();
        assert!(
            text.contains("redacted") && !text.contains("canary"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_key_for_ssh_is_handed_on() {
    let dir = installed();
    let outside = Arc::new(Table {
        secrets: [
            ("creds/sshPrivateKey", "-----BEGIN canary"),
            ("creds/password", "sesame\n"),
            ("creds/known_hosts", "10.0.0.7 ssh-ed25519 AAAA"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into(),
        ..repository()
    });
    let host = host(
        &[dir.path()],
        Policy::default(),
        Network::default(),
        outside.clone(),
    )
    .await;
    let spec =
        json!({"projectRepo": "git@10.0.0.7:org/a", "branch": "main", "gitAuthSecret": "creds"});
    let done = host.resolve("git", &work(spec), None).await;
    let resolved = done.result.unwrap();
    assert!(matches!(
        resolved.credential,
        Some(Credential::SshKey {
            passphrase: Some(_),
            known_hosts: Some(_),
            ..
        })
    ));
    let checked = resolved.url.unwrap();
    assert_eq!(
        (checked.url.as_str(), checked.addresses[0].to_string()),
        ("ssh://git@10.0.0.7/~/org/a", "10.0.0.7:22".to_owned())
    );
    let asked = outside.asked();
    let expected = "key -----BEGIN canary sesame 10.0.0.7 ssh-ed25519 AAAA";
    assert!(asked.last().unwrap().ends_with(expected), "{asked:?}");
    let text = serde_json::to_string(&done.transcript).unwrap();
    for secret in ["canary", "sesame", "AAAA"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}
