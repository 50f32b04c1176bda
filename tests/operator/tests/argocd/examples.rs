//! The manifests in `deploy/examples`, each driven to what it promises. They name Pulumi Cloud and a server that is not
//! there: an overlay puts a directory in the place of the one, and the test's Git server in that of the other.

use serde_json::{Value, json};
use windlass_e2e::world::workspace_root;
use windlass_operator::argocd::Delivery;
use windlass_operator::is_ready;

use crate::support::overlaid;

const NETWORK: &str = "name: network\nruntime: yaml\nresources:\n  range: {type: \"pulumi:Stash\", properties: {input: \
                       10.20.0.0/16}}\noutputs: {range: \"${range.input}\"}\n";
const APP: &str = "name: app\nruntime: yaml\nresources:\n  app: {type: \"pulumi:Stash\", properties: {input: app}}\n\
                   outputs: {app: \"${app.input}\"}\n";
const WEB: &str = "name: web\nruntime: yaml\nresources:\n  network: {type: \"pulumi:pulumi:StackReference\", properties: \
                   {name: organization/network/producer}}\n  web: {type: \"pulumi:Stash\", properties: {input: \
                   '${network.outputs[\"range\"]}'}}\noutputs: {usedRange: \"${web.input}\"}\n";
const PINNED: &str = "0123456789abcdef0123456789abcdef01234567";

struct Examples<'a> {
    delivery: &'a Delivery,
    /// The commit that the branches point to.
    commit: String,
}

impl Examples<'_> {
    /// An example with the addresses of the test.
    fn text(&self, file: &str) -> String {
        let path = workspace_root().join("deploy/examples").join(file);
        let text = std::fs::read_to_string(path).unwrap();
        let address = "https://git.example.com/acme/infrastructure";
        text.replace(address, &self.delivery.git.url("examples"))
            .replace(PINNED, &self.commit)
            .replace(
                "namespace: default",
                &format!("namespace: {}", self.delivery.operator.namespace),
            )
    }

    /// Applies an example as people would with an overlay of theirs.
    async fn apply(&self, file: &str) {
        let built = overlaid(self.delivery, &self.text(file)).await;
        self.delivery.operator.apply(&built).await;
    }

    /// The API server takes it as it stands; nothing is stored.
    async fn accepted(&self, file: &str) {
        let operator = &self.delivery.operator;
        let arguments = ["apply", "--server-side", "--dry-run=server", "-f", "-"];
        let output = operator
            .plane
            .kubectl_with(&arguments, self.text(file).as_bytes())
            .await;
        assert!(
            output.status.success(),
            "{file}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    async fn ready(&self, name: &str) -> Value {
        let what = format!("{name} of the examples is Ready");
        self.delivery
            .operator
            .stack_when(name, &what, is_ready)
            .await
    }
}

pub async fn do_what_they_promise(delivery: &Delivery) {
    let operator = &delivery.operator;
    let repo = delivery.git.repo("examples").unwrap();
    let files = [
        ("network/Pulumi.yaml", NETWORK),
        ("app/Pulumi.yaml", APP),
        ("web/Pulumi.yaml", WEB),
    ];
    let commit = delivery.commit(&repo, "main", &files);
    for branch in ["release", "feature/second-zone"] {
        repo.git(
            &["update-ref", &format!("refs/heads/{branch}"), &commit],
            b"",
        )
        .unwrap();
    }
    let token = [
        "create",
        "secret",
        "generic",
        "pulumi-api-secret",
        "--from-literal=accessToken=unused",
    ];
    operator.kubectl(&token).await;
    let examples = Examples {
        delivery,
        commit: commit.clone(),
    };
    for file in [
        "stack-with-waves.yaml",
        "preview-of-a-feature-branch.yaml",
        "promotion-by-branch.yaml",
        "promotion-by-commit.yaml",
        "prerequisites.yaml",
        "stack-output.yaml",
    ] {
        examples.apply(file).await;
    }
    // Environments are Pulumi Cloud's, and the Application's life and end are scenarios of their own.
    for file in ["environment.yaml", "destroyed-with-its-application.yaml"] {
        examples.accepted(file).await;
    }

    let stack = examples.ready("greeting").await;
    assert_eq!(
        stack["status"]["observedReconcileRequest"],
        "before-first-update"
    );
    assert_eq!(
        stack["status"]["lastUpdate"]["reconcileRequest"],
        "before-first-update"
    );
    let link = &stack["metadata"]["annotations"]["link.argocd.argoproj.io/external-link"];
    assert_eq!(link, "https://app.pulumi.com/acme/greeting/dev");

    let stack = examples.ready("network-preview").await;
    assert_eq!(stack["status"]["lastUpdate"]["type"], "preview");
    let state = operator.state().join(".pulumi/stacks/network/preview.json");
    let state = std::fs::read_to_string(state).unwrap_or_default();
    assert!(!state.contains("pulumi:index:Stash"), "{state}");

    for name in ["network-prod", "network-pinned"] {
        let stack = examples.ready(name).await;
        assert_eq!(
            stack["status"]["lastUpdate"]["lastSuccessfulCommit"], *commit,
            "{name}"
        );
    }

    examples.ready("base").await;
    let base = first_run(delivery, "base").await;
    let ended = base["status"]["summary"]["endedAtMs"].as_i64().unwrap();
    for name in ["waits-by-name", "waits-by-type"] {
        examples.ready(name).await;
        let run = first_run(delivery, name).await;
        let started = run["status"]["run"]["atMs"].as_i64().unwrap();
        assert!(
            started >= ended,
            "{name} began at {started}, before {ended}"
        );
    }

    examples.ready("producer").await;
    let stack = examples.ready("consumer").await;
    assert_eq!(
        stack["status"]["outputs"],
        json!({"usedRange": "10.20.0.0/16"})
    );
}

/// The Update of a Stack's first run.
async fn first_run(delivery: &Delivery, name: &str) -> Value {
    let updates = delivery.operator.list("updates").await;
    let first = updates.into_iter().find(|update| {
        update["spec"]["workspaceName"] == name && update["spec"]["intent"]["sequence"] == 1
    });
    first.unwrap()
}
