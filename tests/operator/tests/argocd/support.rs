//! Manifests that the scenarios share.

use windlass_e2e::git_repo::TestRepo;
use windlass_operator::argocd::{Delivery, stack_in_wave};

const PROGRAM: &str = r#"---
apiVersion: pulumi.com/v1
kind: Program
metadata: {name: @NAME@, annotations: {argocd.argoproj.io/sync-wave: "-1"}}
program:
  configuration:
    greeting: {type: String, default: hello}
  resources:
    message: {type: "pulumi:Stash", properties: {input: "${greeting}"}}
  outputs:
    greeting: "${message.input}"
"#;

/// A Program whose one resource is the tests' provider's, with these properties; what is done to it is noted in the
/// backend's directory.
const THING: &str = r#"---
apiVersion: pulumi.com/v1
kind: Program
metadata: {name: @NAME@, annotations: {argocd.argoproj.io/sync-wave: "@WAVE@"}}
program:
  resources:
    thing:
      type: windlasstest:index:Thing
      properties: {@PROPERTIES@, logFile: /state/@NAME@.log}
  outputs:
    value: "${thing.value}"
"#;

/// The overlay over every Stack of an example: state in a directory.
const OVERLAY: &str = r#"
resources: [example.yaml]
patches:
- target: {kind: Stack}
  patch: |
    - {op: add, path: /spec/backend, value: "file:///state"}
    - op: add
      path: /spec/envRefs/PULUMI_CONFIG_PASSPHRASE
      value: {type: Literal, literal: {value: test}}
    - op: add
      path: /spec/workspaceTemplate
      value:
        spec:
          podTemplate:
            spec:
              containers:
              - name: pulumi
                volumeMounts: [{name: state, mountPath: /state}]
              volumes: [{name: state, hostPath: {path: "@STATE@"}}]
"#;

/// Manifests that name Pulumi Cloud, as an overlay of kustomize makes them for a directory in its place.
pub async fn overlaid(delivery: &Delivery, manifests: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("example.yaml"), manifests).unwrap();
    std::fs::write(folder.path().join("kustomization.yaml"), OVERLAY).unwrap();
    let folder = folder.path().display().to_string();
    let built = delivery.operator.kubectl(&["kustomize", &folder]).await;
    built.replace("stack: acme/", "stack: organization/")
}

/// A text of `deploy/argocd`, about a repository of the test's server and others there.
pub fn addressed(delivery: &Delivery, text: &str, repo: &str) -> String {
    let address = delivery.git.url(repo);
    text.replace("https://git.example.com/team-a/infrastructure", &address)
        .replace("https://git.example.com/team-a/*", &delivery.git.url("*"))
}

/// A Program in the wave before that of Stacks, with the output `greeting`.
pub fn program(name: &str) -> String {
    PROGRAM.replace("@NAME@", name)
}

/// A Program of the tests' provider.
pub fn thing(name: &str, wave: i32, properties: &str) -> String {
    THING
        .replace("@NAME@", name)
        .replace("@WAVE@", &wave.to_string())
        .replace("@PROPERTIES@", properties)
}

/// A Stack on the Program of its name, in wave 0.
pub fn stack(name: &str, more: &str) -> String {
    stack_in_wave(name, 0, &format!("programRef: {{name: {name}}}\n{more}"))
}

/// What may come only after the Stack.
pub fn afterwards(name: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, annotations: {{argocd.argoproj.io/sync-wave: \
         \"1\"}}}}\ndata: {{a: b}}\n"
    )
}

/// Makes a repository with one file of manifests on `main`.
pub fn repository(delivery: &Delivery, name: &str, manifests: &[String]) -> TestRepo {
    let repo = delivery.git.repo(name).unwrap();
    commit(delivery, &repo, "main", manifests);
    repo
}

/// Replaces what a branch holds.
pub fn commit(delivery: &Delivery, repo: &TestRepo, branch: &str, manifests: &[String]) -> String {
    let text = manifests.concat();
    delivery.commit(repo, branch, &[("all.yaml", &text)])
}
