//! Variables: where each kind comes from, and what happens to two of a name.

use pretty_assertions::assert_eq;
use windlass_pods::TemplateError;

use crate::support::*;

#[test]
fn every_kind_of_variable_is_a_value_or_a_reference() {
    let workspace = make_workspace(&stack(
        r#"
backend: s3://state
accessTokenSecret: pulumi-token
envRefs:
  ZONE: {type: Literal, literal: {value: a}}
  PASS: {type: Secret, secret: {name: pass, key: phrase, namespace: team}}
  REGION: {type: ConfigMap, configMap: {name: settings, key: region}}
  VPC: {type: StackOutput, stack: network, output: "vpc:id"}
"#,
    ));
    assert_eq!(
        env(&workspace.spec.env),
        [
            "PULUMI_BACKEND_URL=s3://state",
            "PULUMI_ACCESS_TOKEN<-Secret pulumi-token/accessToken",
            "PASS<-Secret pass/phrase",
            "REGION<-ConfigMap settings/region",
            "VPC<-Secret network-outputs/vpc_id",
            "ZONE=a",
        ]
    );
}

#[test]
fn an_explicit_reference_wins_over_what_a_field_implies() {
    let workspace = make_workspace(&stack(
        r#"
backend: s3://state
accessTokenSecret: pulumi-token
envRefs:
  PULUMI_BACKEND_URL: {type: Secret, secret: {name: where, key: url}}
  PULUMI_ACCESS_TOKEN: {type: Secret, secret: {name: mine, key: token}}
"#,
    ));
    assert_eq!(
        env(&workspace.spec.env),
        [
            "PULUMI_BACKEND_URL<-Secret where/url",
            "PULUMI_ACCESS_TOKEN<-Secret mine/token",
        ]
    );
}

#[test]
fn the_template_wins_over_references_and_comes_first() {
    let workspace = make_workspace(&stack(
        r#"
backend: s3://state
envRefs:
  A: {type: Literal, literal: {value: "1"}}
  B: {type: Secret, secret: {name: b, key: k}}
workspaceTemplate:
  spec:
    env:
    - {name: NEW, value: n}
    - {name: B, value: "2"}
    - {name: A, valueFrom: {configMapKeyRef: {name: m, key: a}}}
"#,
    ));
    // B had a reference, A a value: neither may keep both.
    assert_eq!(
        env(&workspace.spec.env),
        [
            "NEW=n",
            "PULUMI_BACKEND_URL=s3://state",
            "B=2",
            "A<-ConfigMap m/a"
        ]
    );
}

#[test]
fn whole_config_maps_and_secrets_come_behind_the_template() {
    let workspace = make_workspace(&stack(
        r#"
envs: [one, two]
envSecrets: [three]
workspaceTemplate:
  spec:
    envFrom:
    - {prefix: T_, configMapRef: {name: zero}}
"#,
    ));
    let from: Vec<String> = workspace
        .spec
        .env_from
        .iter()
        .map(|from| {
            from.config_map_ref
                .as_ref()
                .map(|map| format!("ConfigMap {}", map.name))
                .or_else(|| {
                    from.secret_ref
                        .as_ref()
                        .map(|s| format!("Secret {}", s.name))
                })
                .unwrap()
        })
        .collect();
    assert_eq!(
        from,
        [
            "ConfigMap zero",
            "ConfigMap one",
            "ConfigMap two",
            "Secret three"
        ]
    );
    assert_eq!(
        container(&make_pod(&workspace), "pulumi")
            .env_from
            .as_deref(),
        Some(workspace.spec.env_from.as_slice())
    );
}

#[test]
fn the_pod_adds_what_users_and_the_agent_know() {
    let pod = make_pod(&workspace("env:\n- {name: A, value: b}"));
    assert_eq!(
        env(container(&pod, "pulumi").env.as_deref().unwrap()),
        [
            "A=b",
            "POD_NAMESPACE<-metadata.namespace",
            "POD_SA_NAME<-spec.serviceAccountName",
            "AGENT_MEMLIMIT<-pulumi:requests.memory",
            "POD_IP<-status.podIP",
            "WINDLASS_STATE_DIR=/share/state",
            "PULUMI_ENV=/share/.env",
        ]
    );
}

#[test]
fn the_agent_is_told_which_variables_are_secret() {
    let pod = make_pod(&workspace(
        r#"
env:
- {name: PLAIN, value: b}
- {name: QUIET, valueFrom: {secretKeyRef: {name: values, key: quiet}}}
podTemplate:
  spec:
    containers:
    - name: pulumi
      env:
      - {name: MORE, valueFrom: {secretKeyRef: {name: values, key: more}}}
      - {name: WINDLASS_SECRET_VARIABLES, value: ""}
"#,
    ));
    let all = env(container(&pod, "pulumi").env.as_deref().unwrap());
    let told = all.iter().filter(|one| one.starts_with("WINDLASS_SECRET"));
    assert_eq!(
        told.collect::<Vec<_>>(),
        ["WINDLASS_SECRET_VARIABLES=MORE,QUIET"]
    );
}

#[test]
fn two_of_a_name_are_one_whoever_names_them() {
    let pod = make_pod(&workspace(
        r#"
env:
- {name: A, value: first}
- {name: POD_NAMESPACE, value: mine}
- {name: AGENT_MEMLIMIT, value: "1"}
- {name: PULUMI_ENV, value: /elsewhere}
- {name: POD_IP, value: 10.0.0.1}
- {name: A, value: last}
podTemplate:
  spec:
    containers:
    - name: pulumi
      env:
      - {name: POD_SA_NAME, value: theirs}
      - {name: B, value: first}
      - {name: B, value: last}
"#,
    ));
    assert_eq!(
        env(container(&pod, "pulumi").env.as_deref().unwrap()),
        [
            "A=last",
            "POD_NAMESPACE=mine",
            "AGENT_MEMLIMIT=1",
            "POD_SA_NAME=theirs",
            "B=last",
            "POD_IP<-status.podIP",
            "WINDLASS_STATE_DIR=/share/state",
            "PULUMI_ENV=/share/.env",
        ]
    );
}

#[test]
fn the_log_level_of_the_cli_is_passed_on() {
    let variable = |fields: &str| {
        env(container(&make_pod(&workspace(fields)), "pulumi")
            .env
            .as_deref()
            .unwrap())
        .into_iter()
        .find(|entry| entry.starts_with("WINDLASS_PULUMI_LOG_LEVEL"))
    };
    assert_eq!(
        variable("pulumiLogLevel: 9"),
        Some("WINDLASS_PULUMI_LOG_LEVEL=9".to_owned())
    );
    assert_eq!(variable("pulumiLogLevel: 0"), None);
}

#[test]
fn a_reference_that_names_nothing_is_refused_by_field() {
    for (entry, message) in [
        (
            "X: {type: Secret, secret: {name: s, key: k, namespace: other}}",
            "spec.envRefs.X: cross-namespace refs are not allowed: the Secret \"s\" is to be read from namespace \"other\"",
        ),
        (
            "X: {type: Literal}",
            "spec.envRefs.X: type Literal needs the field \"literal\"",
        ),
        (
            "X: {type: Env, env: {name: HOME}}",
            "spec.envRefs.X: type Env is no longer supported; use Secret, ConfigMap, Literal or StackOutput",
        ),
        (
            "\"A=B\": {type: Literal, literal: {value: hunter2}}",
            "spec.envRefs.A=B: a variable's name is of printable ASCII characters without \"=\"",
        ),
    ] {
        let error = refused(&stack(&format!("envRefs:\n  {entry}")));
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn an_error_shows_no_value() {
    let error = refused(&stack(
        r#"
envRefs:
  A: {type: Literal, literal: {value: hunter2}}
  B: {type: Nonsense, literal: {value: hunter2}}
secrets: {k: hunter2}
"#,
    ));
    assert!(matches!(&error, TemplateError::Reference { field, .. } if field == "spec.envRefs.B"));
    assert!(!format!("{error:?} {error}").contains("hunter2"));
}
