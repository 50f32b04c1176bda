#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use windlass_sdk::native::{Answers, evaluate};
use windlass_sdk::{
    Answer, Artifact, ErrorClass, Fault, Host, Level, Plugin, PluginError, Question, Resolution,
    SourceProvider, SourceRequest,
};

use super::{Flux, resolve};

const URL: &str = "http://source-controller.flux-system.svc.cluster.local./gitrepository/apps/web/664e9d18.tar.gz";
const DIGEST: &str = "sha256:2d61bd646518ca1ff71811329b4ffda7d35ca841927aac7dcdac7383e6022699";
const REVISION: &str = "main@sha1:664e9d18c49eba2fd78ecd6296c9df02eff36cfd";

fn spec() -> Value {
    json!({"fluxSource": {
        "sourceRef": {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "name": "web"},
        "dir": "infra",
    }})
}

/// An object as source-controller leaves it.
fn repository() -> Value {
    json!({
        "metadata": {"name": "web", "generation": 1},
        "spec": {"interval": "10m0s"},
        "status": {
            "artifact": {"digest": DIGEST, "revision": REVISION, "url": URL, "size": 274, "path": "x",
                "lastUpdateTime": "2026-01-01T00:00:00Z"},
            "conditions": [{"type": "Ready", "status": "True", "message": "stored artifact"}],
            "observedGeneration": 1,
        },
    })
}

fn run(spec: Value, object: Result<Option<Value>, Fault>) -> Result<Resolution, Fault> {
    let request = SourceRequest {
        spec,
        ..SourceRequest::default()
    };
    let answer = |question: &Question| {
        let Question::KubeGet { object: asked } = question else {
            panic!("asked {question:?}")
        };
        assert_eq!(asked.name, "web");
        object.clone().map(|object| Answer::Object { object })
    };
    evaluate(|host| resolve(host, &request), answer).map(|(resolution, _)| resolution)
}

fn refused(object: Value) -> (ErrorClass, String, String) {
    let fault = run(spec(), Ok(Some(object))).unwrap_err();
    (fault.class, fault.reason, fault.message)
}

#[test]
fn the_artifact_is_taken_as_the_object_states_it() {
    let found = run(spec(), Ok(Some(repository()))).unwrap();
    assert_eq!(
        found,
        Resolution {
            revision: REVISION.into(),
            artifact: Artifact::Archive {
                url: URL.into(),
                digest: DIGEST.into(),
                auth: None
            },
            dir: "infra".into(),
            poll_after_ms: None,
        }
    );
}

#[test]
fn any_kind_with_an_artifact_is_a_source() {
    for (api_version, kind) in [
        ("source.toolkit.fluxcd.io/v1beta2", "OCIRepository"),
        ("source.toolkit.fluxcd.io/v1", "Bucket"),
        ("source.toolkit.fluxcd.io/v1", "ExternalArtifact"),
        ("example.org/v1alpha1", "Bundle"),
    ] {
        let mut spec = spec();
        spec["fluxSource"]["sourceRef"]["apiVersion"] = api_version.into();
        spec["fluxSource"]["sourceRef"]["kind"] = kind.into();
        spec["fluxSource"]["dir"] = Value::Null;
        let watched = Flux::watches(&Answers::new(vec![]), &spec);
        assert_eq!(
            (
                watched[0].api_version.as_str(),
                watched[0].kind.as_str(),
                watched.len()
            ),
            (api_version, kind, 1)
        );
        let found = run(spec, Ok(Some(repository()))).unwrap();
        assert_eq!(
            (found.revision.as_str(), found.dir.as_str()),
            (REVISION, "")
        );
    }
}

#[test]
fn another_digest_or_url_is_another_artifact_of_the_same_revision() {
    let first = run(spec(), Ok(Some(repository()))).unwrap();
    for (field, value) in [
        ("digest", DIGEST.replace("2d61", "3d61")),
        ("url", URL.replace("664e", "775f")),
    ] {
        let mut object = repository();
        object["status"]["artifact"][field] = value.into();
        let second = run(spec(), Ok(Some(object))).unwrap();
        assert_eq!(second.revision, first.revision);
        assert_ne!(second.artifact, first.artifact, "{field}");
    }
}

#[test]
fn what_the_spec_gets_wrong() {
    let long = "a/b/c".to_owned();
    for (pointer, value, field, words) in [
        (
            "/fluxSource",
            json!(null),
            "sourceRef.apiVersion",
            "missing",
        ),
        (
            "/fluxSource/sourceRef/apiVersion",
            json!(long),
            "sourceRef.apiVersion",
            "unexpected group and version \"a/b/c\"",
        ),
        (
            "/fluxSource/sourceRef/apiVersion",
            json!("source.toolkit.fluxcd.io/"),
            "sourceRef.apiVersion",
            "unexpected group and version",
        ),
        (
            "/fluxSource/sourceRef/kind",
            json!(""),
            "sourceRef.kind",
            "missing \"fluxSource.sourceRef.kind\"",
        ),
        (
            "/fluxSource/sourceRef/name",
            json!(7),
            "sourceRef.name",
            "missing \"fluxSource.sourceRef.name\"",
        ),
        (
            "/fluxSource/dir",
            json!("infra/../../etc"),
            "dir",
            "leads out of the artifact",
        ),
    ] {
        let mut spec = spec();
        *spec.pointer_mut(pointer).unwrap() = value;
        let host = Answers::new(vec![]);
        let errors = Flux::validate(&host, &spec);
        assert_eq!(errors[0].field, format!("fluxSource.{field}"));
        assert!(errors[0].message.contains(words), "{}", errors[0].message);
        if pointer != "/fluxSource/dir" {
            assert!(Flux::watches(&host, &spec).is_empty());
        }
        let fault = run(spec, Ok(Some(repository()))).unwrap_err();
        assert_eq!(
            (fault.class, fault.reason.as_str()),
            (ErrorClass::Invalid, "SpecInvalid")
        );
    }
    assert!(Flux::validate(&Answers::new(vec![]), &spec()).is_empty());
}

#[test]
fn a_missing_object_may_come() {
    let fault = run(spec(), Ok(None)).unwrap_err();
    assert_eq!(
        (fault.class, fault.reason.as_str(), fault.message.as_str()),
        (
            ErrorClass::NotFound,
            "SourceUnavailable",
            "could not resolve sourceRef: GitRepository \"web\" (source.toolkit.fluxcd.io/v1) does not exist in this namespace"
        )
    );
}

#[test]
fn the_hosts_errors_keep_their_class_and_say_what_to_do() {
    let fault = |class, message: &str| Fault {
        class,
        reason: "FromHost".into(),
        message: message.into(),
        retry_after_ms: Some(7),
    };
    let absent = fault(ErrorClass::NotFound, "there is no such kind");
    let got = run(spec(), Err(absent)).unwrap_err();
    assert_eq!(
        (got.class, got.reason.as_str(), got.retry_after_ms),
        (ErrorClass::NotFound, "FromHost", Some(7))
    );
    assert_eq!(
        got.message,
        "could not resolve sourceRef: there is no such kind; see whether the controller that brings this kind is installed"
    );
    let denied = fault(ErrorClass::Denied, "not granted");
    let got = run(spec(), Err(denied)).unwrap_err();
    assert!(
        got.message.contains("plugins.source-flux.kinds"),
        "{}",
        got.message
    );
}

#[test]
fn an_object_without_artifact_says_why() {
    let mut object = repository();
    object["status"]["artifact"] = Value::Null;
    object["status"]["conditions"][0]["status"] = "False".into();
    object["status"]["conditions"][0]["message"] = "authentication required".into();
    let (class, reason, message) = refused(object.clone());
    assert_eq!(
        (class, reason.as_str()),
        (ErrorClass::Unavailable, "SourceUnavailable")
    );
    assert_eq!(
        message,
        "Flux source has no artifact: GitRepository \"web\" is not ready: authentication required"
    );
    object["status"]["conditions"][0]["message"] = "\u{e9}".repeat(10_000).into();
    assert!(refused(object.clone()).2.len() < 1000);
    object["status"]["conditions"][0]["status"] = "Unknown".into();
    assert!(refused(object.clone()).2.contains("is being fetched"));
    object["spec"]["suspend"] = true.into();
    assert!(refused(object).2.contains("is suspended"));
    let new = json!({"metadata": {"name": "web"}, "spec": {}});
    assert!(refused(new).2.contains("has not been fetched yet"));
}

#[test]
fn an_artifact_that_cannot_be_checked_is_refused() {
    for (field, value, words) in [
        ("digest", Value::Null, "has no digest"),
        ("digest", json!(""), "has no digest"),
        (
            "digest",
            json!(format!("sha512:{}", "0".repeat(128))),
            "by \"sha512\"",
        ),
        ("digest", json!("sha256:ABC"), "only sha256"),
        ("url", Value::Null, "has no url"),
        ("revision", json!(""), "has no revision"),
    ] {
        let mut object = repository();
        object["status"]["artifact"][field] = value;
        let (class, reason, message) = refused(object);
        assert_eq!(
            (class, reason.as_str()),
            (ErrorClass::Unavailable, "ArtifactInvalid")
        );
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn a_source_in_trouble_with_an_artifact_is_used_and_noted() {
    let mut object = repository();
    object["status"]["conditions"][0]["status"] = "False".into();
    object["status"]["conditions"][0]["message"] = "server gone".into();
    let request = SourceRequest {
        spec: spec(),
        ..SourceRequest::default()
    };
    let question = match resolve(&Answers::new(vec![]), &request).unwrap_err() {
        PluginError::Ask(question) => *question,
        PluginError::Fault(fault) => panic!("{fault}"),
    };
    let host = Answers::new(vec![windlass_sdk::Asked {
        question,
        answer: Ok(Answer::Object {
            object: Some(object),
        }),
    }]);
    assert_eq!(resolve(&host, &request).unwrap().revision, REVISION);
    let logs = host.logs();
    assert_eq!((logs.len(), logs[0].level), (1, Level::Warn));
    assert!(logs[0].message.contains("server gone"));
    assert_eq!(host.config(), json!({}));
}

#[test]
fn it_asks_for_the_kinds_that_flux_has_and_for_more_by_name() {
    let wants = Flux::describe().wants;
    assert!(wants.kinds.contains(&"*".to_owned()) && wants.any_host && !wants.file_urls);
    assert_eq!(wants.interfaces, ["kube"]);
}
