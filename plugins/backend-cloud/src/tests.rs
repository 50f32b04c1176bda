#![allow(clippy::unwrap_used)]

mod failures;

use serde_json::{Value, json};
use windlass_sdk::native::Answers;
use windlass_sdk::{BackendRequest, ErrorClass, Fault, Login, PluginError, Session};

use super::open;

const CLOUD: &str = "https://api.pulumi.com";

struct Case {
    url: &'static str,
    stack: &'static str,
    project: Option<&'static str>,
    spec: Value,
    config: Value,
}

/// A Stack that has everything; tests take away.
fn case() -> Case {
    Case {
        url: CLOUD,
        stack: "acme/web/dev",
        project: Some("web"),
        spec: json!({"accessTokenSecret": "token"}),
        config: json!({}),
    }
}

impl Case {
    fn open(self) -> Result<Session, Fault> {
        let request = BackendRequest {
            url: self.url.into(),
            stack: self.stack.into(),
            project: self.project.map(str::to_owned),
            spec: self.spec,
            ..BackendRequest::default()
        };
        let host = Answers::new(vec![]).with_config(self.config);
        open(&host, &request).map_err(|error| match error {
            PluginError::Fault(fault) => fault,
            PluginError::Ask(question) => panic!("asked {question:?}"),
        })
    }

    fn refused(self) -> (ErrorClass, String, String) {
        let fault = self.open().unwrap_err();
        (fault.class, fault.reason, fault.message)
    }
}

#[test]
fn names_are_completed_as_far_as_they_are_known() {
    let acme = json!({"organization": "acme"});
    for (stack, project, config, canonical) in [
        ("acme/web/dev", Some("web"), json!({}), "acme/web/dev"),
        ("acme/web/dev", None, json!({}), "acme/web/dev"),
        ("acme/dev", Some("web"), json!({}), "acme/web/dev"),
        // The CLI finds the project in the program, and the organization by the token.
        ("acme/dev", None, json!({}), "acme/dev"),
        ("dev", Some("web"), json!({}), "dev"),
        ("dev", None, json!({}), "dev"),
        ("dev", Some("web"), acme.clone(), "acme/web/dev"),
        ("other/dev", Some("web"), acme, "other/web/dev"),
        ("a-1/w.e_b/d.e_v", None, json!({}), "a-1/w.e_b/d.e_v"),
    ] {
        let session = Case {
            stack,
            project,
            config,
            ..case()
        }
        .open()
        .unwrap();
        assert_eq!(session.stack, canonical, "{stack} {project:?}");
    }
}

#[test]
fn names_that_cannot_be_meant() {
    for stack in [
        "",
        "a/b/c/d",
        "/dev",
        "acme//dev",
        "acme/web/",
        "ab/dev",
        "-acme/dev",
        "acme_/dev",
        "ac me/dev",
        "acme/other/dev",
        "acme/web/d v",
    ] {
        let (class, reason, _) = Case { stack, ..case() }.refused();
        assert_eq!(
            (class, reason.as_str()),
            (ErrorClass::Invalid, "StackNameInvalid"),
            "{stack}"
        );
    }
}

#[test]
fn the_backend_is_said_again_only_where_the_stack_says_it() {
    let quiet = case().open().unwrap();
    assert!(quiet.env.is_empty(), "{:?}", quiet.env);
    let stated = Case {
        url: "https://pulumi.acme.test/",
        spec: json!({"accessTokenSecret": "token", "backend": "https://pulumi.acme.test/"}),
        ..case()
    };
    let env = stated.open().unwrap().env;
    assert_eq!(env["PULUMI_BACKEND_URL"], "https://pulumi.acme.test/");
    assert_eq!(env.len(), 1);
}

#[test]
fn consoles_by_the_rule_of_the_cli() {
    for (url, stack, console) in [
        (
            CLOUD,
            "acme/web/dev",
            Some("https://app.pulumi.com/acme/web/dev"),
        ),
        (
            "https://api.acme.test:8443/",
            "acme/dev",
            Some("https://app.acme.test:8443/acme/web/dev"),
        ),
        (
            "http://localhost:8080",
            "acme/dev",
            Some("http://localhost:3000/acme/web/dev"),
        ),
        ("https://pulumi.acme.test", "acme/dev", None),
        (CLOUD, "dev", None),
    ] {
        let session = Case {
            url,
            stack,
            ..case()
        }
        .open()
        .unwrap();
        assert_eq!(session.console_url.as_deref(), console, "{url} {stack}");
    }
}

#[test]
fn urls_that_are_refused_without_being_repeated() {
    for url in [
        "api.pulumi.com",
        "https://",
        "https://app.pulumi.com/acme",
        "https://me:hunter2@api.acme.test",
        "https://api.acme.test:port",
        "https://api.acme.test?token=hunter2",
        "https://api.acme.test/ x",
        "s3://bucket",
    ] {
        let (class, reason, message) = Case { url, ..case() }.refused();
        assert_eq!(
            (class, reason.as_str()),
            (ErrorClass::Invalid, "BackendInvalid"),
            "{url}"
        );
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[test]
fn a_stack_without_any_token_is_told_what_to_do() {
    let (class, reason, message) = Case {
        spec: json!({}),
        ..case()
    }
    .refused();
    assert_eq!(
        (class, reason.as_str()),
        (ErrorClass::Invalid, "AccessTokenMissing")
    );
    assert_eq!(
        message,
        "the Stack names no backend, so its state is kept by Pulumi Cloud (https://api.pulumi.com), which needs an \
         access token: name a Secret with the key \"accessToken\" in spec.accessTokenSecret, or set \
         PULUMI_ACCESS_TOKEN through spec.envRefs; or keep the state elsewhere with spec.backend, such as s3://BUCKET"
    );
    let stated = Case {
        url: "https://pulumi.acme.test",
        spec: json!({"backend": "https://pulumi.acme.test", "envs": [], "envRefs": {"A": {}}}),
        ..case()
    };
    let (_, _, message) = stated.refused();
    assert!(
        message.starts_with("the service at https://pulumi.acme.test needs an access token: "),
        "{message}"
    );
}

/// Where a token is named, and where one may come from.
fn specs() -> [(Value, bool); 7] {
    let variable = json!([{"name": "PULUMI_ACCESS_TOKEN", "valueFrom": {"secretKeyRef": {"name": "t", "key": "k"}}}]);
    [
        (json!({"accessTokenSecret": "token"}), true),
        (
            json!({"envRefs": {"PULUMI_ACCESS_TOKEN": {"type": "Secret"}}}),
            true,
        ),
        (
            json!({"workspaceTemplate": {"spec": {"env": variable}}}),
            true,
        ),
        (json!({"envs": ["settings"]}), false),
        (json!({"envSecrets": ["settings"]}), false),
        (
            json!({"workspaceTemplate": {"spec": {"image": "mine"}}}),
            false,
        ),
        (json!({"workspaceTemplate": {"spec": {"env": []}}}), false),
    ]
}

#[test]
fn whoever_may_have_a_token_is_not_refused() {
    for (spec, _) in specs() {
        let session = Case {
            spec: spec.clone(),
            ..case()
        }
        .open();
        assert_eq!(session.unwrap().login, Login::None, "{spec}");
    }
}

#[test]
fn a_token_is_exchanged_where_the_administrator_wants_it_and_none_is_named() {
    let config = json!({"exchange": {}});
    for (spec, named) in specs() {
        let session = Case {
            spec: spec.clone(),
            config: config.clone(),
            ..case()
        }
        .open();
        let exchanges = matches!(session.unwrap().login, Login::Exchange { .. });
        assert_eq!(exchanges, !named, "{spec}");
    }
    let session = Case {
        spec: json!({"timeoutSeconds": 10_000}),
        config: json!({"exchange": {"tokenType": "team", "scope": "team:platform"}}),
        ..case()
    };
    let Login::Exchange {
        audience,
        url,
        form,
    } = session.open().unwrap().login
    else {
        panic!("no exchange")
    };
    assert_eq!(audience, "urn:pulumi:org:acme");
    assert_eq!(url, "https://api.pulumi.com/api/oauth/token");
    let expected = json!({
        "audience": "urn:pulumi:org:acme",
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "requested_token_type": "urn:pulumi:token-type:access_token:team",
        "scope": "team:platform",
        // The token outlives the longest run.
        "expiration": "10600",
    });
    assert_eq!(serde_json::to_value(form).unwrap(), expected);
}

#[test]
fn an_exchange_that_cannot_be_made() {
    let exchanging = |url, stack| Case {
        url,
        stack,
        spec: json!({}),
        config: json!({"exchange": {}}),
        ..case()
    };
    let (class, reason, message) = exchanging(CLOUD, "dev").refused();
    assert_eq!(
        (class, reason.as_str()),
        (ErrorClass::Invalid, "OrganizationMissing")
    );
    assert!(message.contains("ORGANIZATION/dev"), "{message}");
    let (_, reason, _) = exchanging("http://pulumi.acme.test", "acme/dev").refused();
    assert_eq!(reason, "BackendInvalid");
}

#[test]
fn a_wrong_configuration_is_the_administrators() {
    for config in [
        json!({"organisation": "acme"}),
        json!({"organization": "a"}),
        json!({"exchange": {"tokenType": "robot"}}),
        json!({"exchange": {"tokenType": "team"}}),
        json!({"exchange": {"tokenType": "team", "scope": "team:"}}),
        json!({"exchange": {"tokenType": "personal", "scope": "admin"}}),
        json!({"exchange": {"scope": "team:platform"}}),
    ] {
        let (class, reason, _) = Case {
            config: config.clone(),
            ..case()
        }
        .refused();
        assert_eq!(
            (class, reason.as_str()),
            (ErrorClass::Internal, "ConfigInvalid"),
            "{config}"
        );
    }
}
