//! The exact words for bad manifests.
#![allow(clippy::unwrap_used)]

use pretty_assertions::assert_eq;
use windlass_api::manifest::{self, Manifests};

const HEAD: &str = "apiVersion: pulumi.com/v1\nkind: Stack\nmetadata: {name: web}\n";

fn errors(text: &str) -> Vec<String> {
    manifest::parse("a.yaml", text)
        .errors
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn warnings(text: &str) -> Vec<String> {
    let Manifests {
        warnings, errors, ..
    } = manifest::parse("a.yaml", text);
    assert_eq!(errors, vec![]);
    warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn wrong_types_name_place_field_and_remedy() {
    for (body, error) in [
        (
            "spec:\n  stack: dev\n  config: abc\n",
            "a.yaml:6:11: spec.config: expected a mapping, found a string; write \"name: value\" lines below it",
        ),
        (
            "spec:\n  stack: 12\n",
            "a.yaml:5:10: spec.stack: expected a string, found a number; write the value in quotes",
        ),
        (
            "spec:\n  stack: yes\n",
            "a.yaml:5:10: spec.stack: expected a string, found a boolean; write the value in quotes",
        ),
        (
            "spec:\n  stack: dev\n  envs: one\n",
            "a.yaml:6:9: spec.envs: expected a list, found a string; put \"- \" before each item",
        ),
        (
            "spec:\n  stack: dev\n  refresh: \"true\"\n",
            "a.yaml:6:12: spec.refresh: expected a boolean, found a string; write true or false without quotes",
        ),
        (
            "spec:\n  stack: dev\n  resyncFrequencySeconds: \"60\"\n",
            "a.yaml:6:27: spec.resyncFrequencySeconds: expected a whole number, found a string; write the number without quotes",
        ),
        (
            "spec:\n  stack: dev\n  resyncFrequencySeconds: 1.5\n",
            "a.yaml:6:27: spec.resyncFrequencySeconds: this number does not fit; it must be a whole number in range",
        ),
        (
            "spec:\n  stack: dev\n  prerequisites:\n    - name: [a]\n",
            "a.yaml:7:13: spec.prerequisites[0].name: expected a string, found a list",
        ),
        (
            "spec:\n  stack: dev\n  envRefs:\n    A.B: {type: Secret, secret: {name: s, key: 1}}\n",
            "a.yaml:7:48: spec.envRefs[\"A.B\"].secret.key: expected a string, found a number; write the value in quotes",
        ),
        (
            "spec:\n  stack: dev\n  envRefs:\n    A: {secret: {name: s, key: k}}\n",
            "a.yaml:7:8: spec.envRefs.A.type: this field is required; add it",
        ),
        (
            "spec:\n  stack: dev\n  envRefs:\n    A:\n",
            "a.yaml:7:6: spec.envRefs.A: expected a mapping, found nothing",
        ),
        (
            "spec:\n  stack: dev\n  workspaceReclaimPolicy: Keep\n",
            "a.yaml:6:27: spec.workspaceReclaimPolicy: unknown value; use Retain or Delete",
        ),
        (
            "spec:\n  - stack: dev\n",
            "a.yaml:5:3: spec: expected a mapping, found a list; write \"name: value\" lines without \"- \"",
        ),
        (
            "spec:\n  backend: file:///tmp\n",
            "a.yaml:5:3: spec.stack: this field is required; add it",
        ),
        ("", "a.yaml:1:1: spec: this field is required; add it"),
        (
            "spec:\n  stack: dev\n  source: {url: x}\n",
            "a.yaml:6:11: spec.source.type: this field is required; add it",
        ),
        (
            "spec:\n  stack: dev\n  workspaceTemplate:\n    spec:\n      podTemplate:\n        spec:\n          containers:\n            - name: pulumi\n              env: {A: b}\n",
            "a.yaml:12:20: spec.workspaceTemplate.spec.podTemplate.spec.containers[0].env: expected a list, found a mapping; put \"- \" before each item",
        ),
    ] {
        assert_eq!(
            errors(&format!("{HEAD}{body}")),
            vec![error.to_owned()],
            "{body}"
        );
    }
}

#[test]
fn identity_is_required_and_checked() {
    let spec = "spec: {stack: dev}\n";
    for (head, error) in [
        (
            "kind: Stack\nmetadata: {name: web}\n",
            "a.yaml:1:1: apiVersion: this field is required; add it",
        ),
        (
            "apiVersion: pulumi.com/v1\nmetadata: {name: web}\n",
            "a.yaml:1:1: kind: this field is required; add it",
        ),
        (
            "apiVersion: pulumi.com/v1\nkind: Stack\n",
            "a.yaml:1:1: metadata: this field is required; add it",
        ),
        (
            "apiVersion: pulumi.com/v1\nkind: Stack\nmetadata: {}\n",
            "a.yaml:3:11: metadata.name: this field is required; add it",
        ),
        (
            "apiVersion: pulumi.com/v1\nkind: Stack\nmetadata: {name: Web_1}\n",
            "a.yaml:3:18: metadata.name: not a name; use lower case letters, digits, \"-\" and \".\", with a letter or digit at both ends",
        ),
        (
            "apiVersion: pulumi.com/v1\nkind: Stack\nmetadata: {name: a, namespace: x/y}\n",
            "a.yaml:3:32: metadata.namespace: not a namespace; use at most 63 lower case letters, digits and \"-\"",
        ),
        (
            "apiVersion: pulumi.com/v1\nkind: Stack\nmetadata: {name: a23456789-123456789-123456789-123456789-123}\n",
            "a.yaml:3:18: metadata.name: Stack name must be no more than 42 characters in length; shorten it",
        ),
    ] {
        assert_eq!(errors(&format!("{head}{spec}")), vec![error.to_owned()]);
    }
    assert_eq!(
        errors("- 1\n"),
        vec![
            "a.yaml:1:1: expected a mapping, found a list; write \"name: value\" lines without \"- \""
        ]
    );
    let older = "apiVersion: pulumi.com/v1alpha1\nkind: Stack\nmetadata: {name: a23456789-123456789-123456789-123456789-123}\nspec: {stack: dev}\n";
    assert_eq!(
        errors(older),
        Vec::<String>::new(),
        "v1alpha1 has no limit, as in the published schema"
    );
}

#[test]
fn what_is_no_yaml_says_where() {
    let bad = errors("apiVersion: pulumi.com/v1\nkind: [Stack\n");
    assert_eq!(bad.len(), 1);
    assert!(bad[0].starts_with("a.yaml:"), "{bad:?}");
    assert!(bad[0].contains("not valid YAML"), "{bad:?}");
    assert_eq!(
        errors(&format!("{HEAD}spec:\n  stack: {{{{ .Values.stack }}}}\n")),
        vec![
            "a.yaml:5:11: not valid YAML: a name must be a text; write a value that begins with { in quotes"
        ]
    );
    assert_eq!(
        errors(&format!("{HEAD}spec:\n  stack: a\n   foo: b\n")),
        vec!["a.yaml:6:7: not valid YAML: mapping values are not allowed in this context"]
    );
    let twice = errors(&format!("{HEAD}spec:\n  stack: dev\n  stack: prod\n"));
    assert_eq!(twice.len(), 1);
    assert!(
        twice[0].starts_with("a.yaml:6:3: not valid YAML: "),
        "{twice:?}"
    );
    assert!(twice[0].contains("duplicate"), "{twice:?}");
}

#[test]
fn one_bad_document_spoils_no_other() {
    let text = format!(
        "{HEAD}spec: {{stack: 1}}\n---\n{}spec: {{stack: dev}}\n---\nkind: x\n",
        HEAD.replace("web", "db")
    );
    let found = manifest::parse("a.yaml", &text);
    assert_eq!(found.objects.len(), 1);
    assert_eq!(found.objects[0].manifest.key().name, "db");
    assert_eq!(found.objects[0].place.to_string(), "a.yaml:6:1");
    let texts: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        vec![
            "a.yaml:4:15: spec.stack: expected a string, found a number; write the value in quotes",
            "a.yaml:11:1: apiVersion: this field is required; add it",
        ]
    );
    assert_eq!(
        found.errors[0].object.as_ref().map(|k| k.name.as_str()),
        Some("web")
    );
    assert_eq!(found.errors[1].object, None);
}

#[test]
fn the_same_object_twice_names_both_places() {
    let mut found = Manifests::default();
    found.add("a.yaml", &format!("{HEAD}spec: {{stack: dev}}\n"));
    found.add(
        "b.yaml",
        &format!(
            "# second\n{}spec: {{stack: dev}}\n",
            HEAD.replace("v1", "v1alpha1")
        ),
    );
    found.add(
        "c.yaml",
        &format!(
            "{}spec: {{stack: dev}}\n",
            HEAD.replace("name: web", "name: web, namespace: other")
        ),
    );
    assert_eq!(found.objects.len(), 2);
    let texts: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        vec![
            "b.yaml:4:18: metadata.name: Stack \"web\" in namespace \"default\" is defined twice, first at a.yaml:1:1; remove one"
        ]
    );
}

#[test]
fn unknown_fields_are_warnings_with_a_suggestion() {
    let text = format!(
        "{HEAD}extra: 1\nspec:\n  stack: dev\n  projectrepo: https://example.com/x\n  destroyOnFinalise: true\n  colour: red\n  prerequisites:\n    - nam: x\n  gitAuth:\n    accessToken: {{type: Secret, secrets: {{name: a, key: b}}}}\n"
    );
    assert_eq!(
        warnings(&text),
        vec![
            "a.yaml:4:1: extra: unknown field, ignored",
            "a.yaml:7:3: spec.projectrepo: unknown field, ignored; did you mean \"projectRepo\"?",
            "a.yaml:8:3: spec.destroyOnFinalise: unknown field, ignored; did you mean \"destroyOnFinalize\"?",
            "a.yaml:9:3: spec.colour: unknown field, ignored",
            "a.yaml:11:7: spec.prerequisites[0].nam: unknown field, ignored; did you mean \"name\"?",
            "a.yaml:13:33: spec.gitAuth.accessToken.secrets: unknown field, ignored; did you mean \"secret\"?",
        ]
    );
    let pod = format!(
        "{HEAD}spec:\n  stack: dev\n  workspaceTemplate:\n    spec:\n      podTemplate:\n        spec:\n          container: []\n"
    );
    assert_eq!(
        warnings(&pod),
        vec![
            "a.yaml:10:11: spec.workspaceTemplate.spec.podTemplate.spec.container: unknown field, ignored; did you mean \"containers\"?"
        ]
    );
}

#[test]
fn unknown_kinds_are_ignored_with_a_warning() {
    let head = |version: &str, kind: &str| {
        format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n")
    };
    for (version, kind, warning) in [
        (
            "apps/v1",
            "Deployment",
            "a.yaml:1:1: Deployment of apps/v1 is not known here and is ignored",
        ),
        (
            "pulumi.com/v2",
            "Stack",
            "a.yaml:1:1: Stack of pulumi.com/v2 is not known here and is ignored; did you mean apiVersion pulumi.com/v1 or pulumi.com/v1alpha1?",
        ),
        (
            "pulumi.com/v1",
            "stack",
            "a.yaml:1:1: stack of pulumi.com/v1 is not known here and is ignored; did you mean kind Stack?",
        ),
        (
            "serving.knative.dev/v1",
            "Program",
            "a.yaml:1:1: Program of serving.knative.dev/v1 is not known here and is ignored",
        ),
    ] {
        assert_eq!(warnings(&head(version, kind)), vec![warning.to_owned()]);
    }
}

#[test]
fn no_message_quotes_a_value() {
    let canary = "c4n4ry";
    for text in [
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\ndata: {{key: \"{canary} not base64\"}}\n"
        ),
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\ndata: {canary}\n"),
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData: [{canary}]\n"),
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData: {{key: {{a: {canary}}}}}\n"
        ),
        format!("{HEAD}spec: {{stack: dev, secrets: {{a: [{canary}]}}}}\n"),
        format!("{HEAD}spec: {{stack: dev, secretsRef: {{a: {canary}}}}}\n"),
        format!("{HEAD}spec: {{stack: dev, workspaceReclaimPolicy: {canary}}}\n"),
        format!(
            "{HEAD}spec: {{stack: dev, workspaceTemplate: {{metadata: {{creationTimestamp: {canary}}}}}}}\n"
        ),
    ] {
        let found = manifest::parse("a.yaml", &text);
        assert_eq!(found.errors.len(), 1, "{text}");
        assert!(
            !format!("{found:?} {}", found.errors[0]).contains(canary),
            "{}",
            found.errors[0]
        );
    }
}
