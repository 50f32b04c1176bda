//! `deploy/argocd/README.md`, its commands run as written and in their order: from nothing to a synced Stack, and to
//! nothing again.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use windlass_cluster::tools_folder;
use windlass_e2e::manual::commands;
use windlass_e2e::world::workspace_root;
use windlass_operator::argocd::{Delivery, is_delivered};
use windlass_operator::is_ready;

use crate::support::{addressed, overlaid};

/// What one command may take. One of them waits for a run, one for a destruction.
const LIMIT: Duration = Duration::from_secs(180);
const APPLICATION: &str = "team-a-prod";
const NAMESPACE: &str = "team-a-prod";
const STACK: &str = "network";
/// The section whose commands are for whoever changes the scripts; `argocd_rules` holds them to what it says.
const OTHERWISE_TESTED: &str = "Troubleshooting";

/// A shell in a copy of `deploy/argocd` that names the test's repository, with `kubectl` and `argocd` at hand.
struct Reader<'a> {
    delivery: &'a Delivery,
    folder: tempfile::TempDir,
    /// The options of `argocd` that a login would have stored.
    login: String,
}

impl Reader<'_> {
    async fn sh(&self, line: &str) {
        let folder = self.folder.path();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(tools_folder()).chain(std::env::split_paths(&path));
        let shell = tokio::process::Command::new("bash")
            .args(["-euo", "pipefail", "-c", line])
            .current_dir(folder)
            .env("PATH", std::env::join_paths(folders).unwrap())
            .env("KUBECONFIG", self.delivery.operator.plane.kubeconfig())
            .env("HOME", folder)
            .env("ARGOCD_OPTS", &self.login)
            .env("PULUMI_ACCESS_TOKEN", "unused")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let ended = tokio::time::timeout(LIMIT, shell).await;
        let output = match ended {
            Ok(output) => output.unwrap(),
            Err(_) => panic!("$ {line}\nnot within {LIMIT:?}\n{}", self.state().await),
        };
        assert!(
            output.status.success(),
            "$ {line}\n{}{}\n{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
            self.state().await
        );
    }

    /// Everything that helps to see why.
    async fn state(&self) -> String {
        format!(
            "{:#}\n{:#}\n{}\n{}",
            self.delivery.app(APPLICATION).await.unwrap_or_default()["status"],
            self.stack().await.unwrap_or_default(),
            self.delivery.argocd.log_tails(),
            self.delivery.operator.logs()
        )
    }

    async fn stack(&self) -> Option<Value> {
        let mut arguments = vec!["get", "stack", STACK, "-n", NAMESPACE];
        arguments.extend(["-o", "json", "--ignore-not-found"]);
        let output = self.delivery.operator.plane.kubectl(&arguments).await;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// Whether the backend's state has the program's one resource.
    fn is_deployed(&self) -> bool {
        let file = format!(".pulumi/stacks/{STACK}/team-a-prod.json");
        let state = std::fs::read_to_string(self.delivery.operator.state().join(file)).unwrap();
        state.contains("pulumi:index:Stash")
    }

    /// What the README promises of the Application that it has made.
    async fn is_synced(&self) {
        // It waits for health only; Argo CD tells of the end of the sync a moment later.
        let what = "as the README says";
        let app = self
            .delivery
            .app_when(APPLICATION, what, is_delivered)
            .await;
        let source = &app["spec"]["source"];
        assert_eq!(source["path"], "stacks/prod");
        assert_eq!(app["spec"]["project"], "team-a-stacks");
        assert!(is_ready(&self.stack().await.unwrap()));
        assert!(self.is_deployed());
    }

    /// The action was followed by a run that it asked for.
    async fn has_run_again(&self) {
        let operator = &self.delivery.operator;
        operator
            .until("the action's run is over", LIMIT, async || {
                let stack = self.stack().await.unwrap_or_default();
                let requested =
                    &stack["metadata"]["annotations"]["pulumi.com/reconciliation-request"];
                let last = &stack["status"]["lastUpdate"];
                is_ready(&stack) && requested.is_string() && last["reconcileRequest"] == *requested
            })
            .await;
        self.delivery.delivered(APPLICATION).await;
    }
}

/// Puts what the README names into Git, where the Application looks for it.
async fn commit(delivery: &Delivery, readme: &str, repo: &str) {
    let file = "deploy/examples/first-stack.yaml";
    assert!(readme.contains("../examples/first-stack.yaml"));
    let example = std::fs::read_to_string(workspace_root().join(file)).unwrap();
    let manifests = overlaid(delivery, &example).await;
    let repo = delivery.git.repo(repo).unwrap();
    delivery.commit(&repo, "main", &[("stacks/prod/network.yaml", &manifests)]);
}

fn copied(delivery: &Delivery, from: &Path, repo: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            let text = addressed(delivery, &std::fs::read_to_string(&path).unwrap(), repo);
            std::fs::write(folder.path().join(path.file_name().unwrap()), text).unwrap();
        }
    }
    folder
}

pub async fn from_nothing_to_a_synced_stack_and_back(delivery: &Delivery) {
    let repo = "infrastructure";
    let shipped = workspace_root().join("deploy/argocd");
    let readme = std::fs::read_to_string(shipped.join("README.md")).unwrap();
    commit(delivery, &readme, repo).await;
    let server = delivery.argocd.server().await;
    let address = server.trim_start_matches("http://");
    let reader = Reader {
        delivery,
        folder: copied(delivery, &shipped, repo),
        login: format!("--server {address} --plaintext"),
    };
    let mut commands = commands(&readme);
    commands.retain(|command| command.heading != OTHERWISE_TESTED);
    let (mut synced, mut ran, mut deleted) = (false, false, false);
    for command in commands.iter().map(|command| &command.line) {
        reader.sh(command).await;
        if command.starts_with("argocd app wait") {
            reader.is_synced().await;
            synced = true;
        } else if command.starts_with("argocd app actions run") {
            reader.has_run_again().await;
            ran = true;
        } else if command.starts_with("kubectl delete") {
            // As it has waited for.
            assert!(delivery.app(APPLICATION).await.is_none());
            assert!(reader.stack().await.is_none());
            assert!(!reader.is_deployed());
            deleted = true;
        }
    }
    assert!(synced && ran && deleted, "{commands:#?}");
}
