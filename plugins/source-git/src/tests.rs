#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use windlass_sdk::native::{Answers, evaluate};
use windlass_sdk::{
    Answer, Artifact, Credential, ErrorClass, Fault, GitRef, Question, Resolution, SecretName,
    SourceProvider, SourceRequest,
};

use super::{Git, resolve};

mod app;

const HEAD: &str = "1111111111111111111111111111111111111111";
const TAG: &str = "2222222222222222222222222222222222222222";
const TAGGED: &str = "3333333333333333333333333333333333333333";

fn refs(question: &Question) -> Result<Answer, Fault> {
    match question {
        Question::GitRefs { .. } => Ok(Answer::Refs {
            refs: vec![
                GitRef {
                    name: "refs/heads/main".into(),
                    oid: HEAD.into(),
                    peeled: None,
                },
                GitRef {
                    name: "refs/heads/main-old".into(),
                    oid: TAG.into(),
                    peeled: None,
                },
                GitRef {
                    name: "refs/tags/v1".into(),
                    oid: TAG.into(),
                    peeled: Some(TAGGED.into()),
                },
            ],
        }),
        Question::SecretAt { .. } => Ok(Answer::Secret),
        Question::IdAt { pointer } => Ok(Answer::Id {
            value: if pointer.ends_with("appID") { 42 } else { 7 },
        }),
        Question::SecretKeyAt { key, .. } if key == "accessToken" => Ok(Answer::Secret),
        _ => Err(Fault {
            class: ErrorClass::NotFound,
            reason: "SecretKeyNotFound".into(),
            message: "no such key".into(),
            retry_after_ms: None,
        }),
    }
}

fn run(spec: Value) -> Result<Resolution, Fault> {
    let request = SourceRequest {
        spec,
        ..SourceRequest::default()
    };
    evaluate(|host| resolve(host, &request), refs).map(|(resolution, _)| resolution)
}

fn refused(spec: Value) -> String {
    let fault = run(spec.clone()).unwrap_err();
    assert_eq!(
        (fault.class, fault.reason.as_str()),
        (ErrorClass::Invalid, "SpecInvalid")
    );
    let errors = Git::validate(&Answers::new(vec![]), &spec);
    assert_eq!(
        errors.first().map(|error| &error.message),
        Some(&fault.message)
    );
    fault.message
}

#[test]
fn a_branch_is_followed() {
    let found =
        run(json!({"projectRepo": "https://git.test/a", "branch": "main", "repoDir": "infra"}))
            .unwrap();
    assert_eq!(found.revision, HEAD);
    assert_eq!(found.dir, "infra");
    assert_eq!(found.poll_after_ms, Some(60_000));
    let Artifact::GitTree {
        commit,
        auth,
        depth,
        ..
    } = found.artifact
    else {
        panic!("no tree")
    };
    assert_eq!((commit.as_str(), auth, depth), (HEAD, None, None));
}

#[test]
fn the_interval_is_the_users_above_a_minute() {
    let spec = json!({"projectRepo": "https://git.test/a", "branch": "main", "resyncFrequencySeconds": 300});
    assert_eq!(run(spec).unwrap().poll_after_ms, Some(300_000));
    let spec = json!({"projectRepo": "https://git.test/a", "branch": "main", "resyncFrequencySeconds": -5});
    assert_eq!(run(spec).unwrap().poll_after_ms, Some(60_000));
}

#[test]
fn an_annotated_tag_is_peeled() {
    let found =
        run(json!({"projectRepo": "https://git.test/a", "branch": "v1", "shallow": true})).unwrap();
    assert_eq!(found.revision, TAGGED);
    let Artifact::GitTree { depth, .. } = found.artifact else {
        panic!("no tree")
    };
    assert_eq!(depth, Some(1));
}

#[test]
fn a_full_hash_asks_nothing() {
    let request = SourceRequest {
        spec: json!({"projectRepo": "https://git.test/a", "commit": TAG}),
        ..SourceRequest::default()
    };
    let found = resolve(&Answers::new(vec![]), &request).unwrap();
    assert_eq!((found.revision.as_str(), found.poll_after_ms), (TAG, None));
}

#[test]
fn a_commit_that_is_a_name_is_not_polled() {
    let found =
        run(json!({"projectRepo": "https://git.test/a", "commit": "refs/heads/main"})).unwrap();
    assert_eq!((found.revision.as_str(), found.poll_after_ms), (HEAD, None));
}

#[test]
fn a_missing_reference_may_come() {
    let fault = run(json!({"projectRepo": "https://git.test/a", "branch": "mai"})).unwrap_err();
    assert_eq!(
        (fault.class, fault.reason.as_str()),
        (ErrorClass::Unavailable, "SourceUnavailable")
    );
}

#[test]
fn specs_that_cannot_be_meant() {
    assert_eq!(
        refused(json!({"branch": "main"})),
        "missing \"projectRepo\""
    );
    assert_eq!(
        refused(json!({"projectRepo": "https://git.test/a"})),
        "missing \"commit\" or \"branch\""
    );
    assert_eq!(
        refused(json!({"projectRepo": "https://git.test/a", "branch": "a", "commit": "b"})),
        "only one of \"commit\" or \"branch\" should be specified"
    );
    for ssh in ["git@git.test:a", "ssh://git@git.test/a"] {
        assert!(
            refused(json!({"projectRepo": ssh, "branch": "a"})).contains("needs gitAuth.sshAuth")
        );
        let token = json!({"accessToken": {"type": "Secret", "secret": {"name": "s", "key": "t"}}});
        let spec = json!({"projectRepo": ssh, "branch": "a", "gitAuth": token});
        assert!(refused(spec).contains("needs gitAuth.sshAuth"));
    }
    let key = json!({"sshAuth": {"sshPrivateKey": {"type": "Secret", "secret": {"name": "s", "key": "k"}}}});
    let spec = json!({"projectRepo": "https://git.test/a", "branch": "a", "gitAuth": key});
    assert!(refused(spec).contains("needs an ssh address"));
    let spec = json!({"projectRepo": "git@git.test:a", "branch": "a", "gitAuth": {"sshAuth": {}}});
    assert!(refused(spec).contains("gitAuth.sshAuth.sshPrivateKey is missing"));
    let spec = json!({"projectRepo": "http://git.test/a", "branch": "a", "gitAuth": app()});
    assert!(refused(spec).contains("needs an https URL"));
    assert!(
        refused(json!({"projectRepo": "ftp://git.test/a", "branch": "a"}))
            .contains("is not an https")
    );
    assert!(
        refused(json!({"projectRepo": "https://git.test/a", "branch": "a", "gitAuth": {}}))
            .contains("one of")
    );
    assert!(
        refused(
            json!({"projectRepo": "https://git.test/a", "branch": "a", "gitAuth": {
            "accessToken": {"type": "Env", "env": {"name": "X"}}}})
        )
        .contains("Env selectors")
    );
}

#[test]
fn credentials_are_names() {
    let spec = json!({"projectRepo": "https://git.test/a", "branch": "main", "gitAuth": {"basicAuth": {
        "userName": {"type": "Secret", "secret": {"name": "s", "key": "u"}},
        "password": {"type": "Secret", "secret": {"name": "s", "key": "p"}}}}});
    let Artifact::GitTree {
        auth: Some(Credential::Basic { username, .. }),
        ..
    } = run(spec.clone()).unwrap().artifact
    else {
        panic!("no basic credential")
    };
    assert_eq!(
        username.name(),
        &SecretName::At {
            pointer: "/spec/gitAuth/basicAuth/userName".into()
        }
    );
    let watched = Git::watches(&Answers::new(vec![]), &spec);
    assert_eq!(
        watched
            .iter()
            .map(|object| object.name.as_str())
            .collect::<Vec<_>>(),
        ["s"]
    );
}

#[test]
fn a_secret_of_keys_gives_its_token() {
    let spec =
        json!({"projectRepo": "https://git.test/a", "branch": "main", "gitAuthSecret": "creds"});
    let Artifact::GitTree {
        auth: Some(Credential::Basic { password, .. }),
        ..
    } = run(spec).unwrap().artifact
    else {
        panic!("no credential")
    };
    let expected = SecretName::KeyAt {
        pointer: "/spec/gitAuthSecret".into(),
        key: "accessToken".into(),
    };
    assert_eq!(password.name(), &expected);
}

fn app() -> Value {
    let reference = |key: &str| json!({"type": "Secret", "secret": {"name": "app", "key": key}});
    json!({"githubApp": {"appID": reference("id"), "installationID": reference("installation"), "privateKey": reference("pem")}})
}

#[test]
fn a_key_opens_ssh_addresses() {
    let reference = |key: &str| json!({"type": "Secret", "secret": {"name": "s", "key": key}});
    let spec = json!({"projectRepo": "git@git.test:org/a.git", "branch": "main",
        "gitAuth": {"sshAuth": {"sshPrivateKey": reference("k"), "password": reference("p")},
            // Fits https only.
            "accessToken": reference("t")}});
    let Artifact::GitTree {
        url,
        auth:
            Some(Credential::SshKey {
                private_key,
                passphrase: Some(passphrase),
                known_hosts: None,
            }),
        ..
    } = run(spec.clone()).unwrap().artifact
    else {
        panic!("no key")
    };
    assert_eq!(url, "ssh://git@git.test/~/org/a.git");
    let at = |pointer: &str| SecretName::At {
        pointer: format!("/spec/gitAuth/sshAuth/{pointer}"),
    };
    assert_eq!(
        (private_key.name(), passphrase.name()),
        (&at("sshPrivateKey"), &at("password"))
    );
    assert_eq!(Git::watches(&Answers::new(vec![]), &spec).len(), 1);
}

#[test]
fn the_keys_of_a_secret_are_those_that_fit_the_address() {
    let with = |keys: &'static [&'static str]| {
        move |question: &Question| match question {
            Question::SecretKeyAt { key, .. } if keys.contains(&key.as_str()) => Ok(Answer::Secret),
            other => refs(&match other {
                Question::SecretKeyAt { pointer, .. } => Question::SecretKeyAt {
                    pointer: pointer.clone(),
                    key: "none".into(),
                },
                other => other.clone(),
            }),
        }
    };
    let run = |url: &str, keys| {
        let spec = json!({"projectRepo": url, "branch": "main", "gitAuthSecret": "creds"});
        let request = SourceRequest {
            spec,
            ..SourceRequest::default()
        };
        evaluate(|host| resolve(host, &request), with(keys)).map(|(found, _)| {
            match found.artifact {
                Artifact::GitTree { auth, .. } => auth,
                _ => panic!("no tree"),
            }
        })
    };
    let (https, ssh) = ("https://git.test/a", "ssh://git@git.test/a");
    let all: &[&str] = &["sshPrivateKey", "password", "known_hosts", "accessToken"];
    assert!(matches!(
        run(ssh, all),
        Ok(Some(Credential::SshKey {
            passphrase: Some(_),
            known_hosts: Some(_),
            ..
        }))
    ));
    assert!(matches!(
        run(https, all),
        Ok(Some(Credential::Basic { .. }))
    ));
    assert!(matches!(
        run(ssh, &["sshPrivateKey"]),
        Ok(Some(Credential::SshKey {
            passphrase: None,
            known_hosts: None,
            ..
        }))
    ));
    assert!(
        run(ssh, &["accessToken"])
            .unwrap_err()
            .message
            .contains("sshPrivateKey")
    );
    assert!(
        run(https, &["sshPrivateKey"])
            .unwrap_err()
            .message
            .contains("ssh address")
    );
    assert_eq!(run(https, &[]), Ok(None));
}
