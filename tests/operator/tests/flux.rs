//! Flux's own source-controller beside the operator: what it keeps is run, what it says is passed on.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_cluster::{go_module, skip, tools_folder};
use windlass_e2e::git_server::GitServer;
use windlass_operator::{Operator, condition, free_port, is_ready};

const LIMIT: Duration = Duration::from_secs(120);

/// The controller's process. It ends with this value.
struct SourceController(Child);

impl Drop for SourceController {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl SourceController {
    /// Starts it on the operator's cluster. Its namespace is only where its own events go.
    fn start(operator: &Operator, program: &Path, dir: &Path) -> SourceController {
        let address = || format!("127.0.0.1:{}", free_port());
        let storage = address();
        let log = std::fs::File::create(dir.join("source-controller.log")).unwrap();
        let child = Command::new(program)
            .arg("--storage-path")
            .arg(dir)
            .arg(format!("--storage-addr={storage}"))
            .arg(format!("--storage-adv-addr={storage}"))
            .arg(format!("--metrics-addr={}", address()))
            .arg(format!("--health-addr={}", address()))
            .args(["--events-addr=", "--enable-leader-election=false"])
            .env("RUNTIME_NAMESPACE", "flux-system")
            .env("KUBECONFIG", operator.plane.kubeconfig())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        SourceController(child)
    }
}

fn program(greeting: &str) -> String {
    format!(
        "name: app\nruntime: yaml\nresources:\n  message: {{type: pulumi:Stash, properties: {{input: {greeting}}}}}\noutputs: \
         {{greeting: \"${{message.input}}\"}}\n"
    )
}

/// Asks Flux to look at the repository now.
async fn look(operator: &Operator, request: &str) {
    let annotations = json!({"reconcile.fluxcd.io/requestedAt": request});
    let patch = json!({"metadata": {"annotations": annotations}}).to_string();
    operator.patch("gitrepository", "app", &patch).await;
}

async fn greets(operator: &Operator, greeting: &str) -> Value {
    let what = format!("greeting with {greeting}");
    operator
        .stack_when("app", &what, |stack| {
            is_ready(stack) && stack["status"]["outputs"]["greeting"] == greeting
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_follows_what_flux_keeps_of_a_repository() {
    let controller = tools_folder().join("source-controller");
    if !controller.is_file() {
        return skip("there is no source-controller; `cargo xtask tools flux` makes it");
    }
    let Some(sources) = go_module("flux", "github.com/fluxcd/source-controller") else {
        return;
    };
    let Some(mut operator) = Operator::prepare().await else {
        return;
    };
    let (who, kubeconfig) = operator.somebody("windlass").await;
    operator.kubeconfig = kubeconfig;
    operator.launch();
    let definitions = sources.join("config/crd/bases");
    let folder = definitions.display().to_string();
    operator
        .kubectl(&["apply", "--server-side", "-f", &folder])
        .await;
    operator
        .kubectl(&["create", "namespace", "flux-system"])
        .await;
    let definition = "gitrepositories.source.toolkit.fluxcd.io";
    operator.plane.until_established(definition).await;
    let dir = tempfile::tempdir().unwrap();
    let _controller = SourceController::start(&operator, &controller, dir.path());

    let server = GitServer::start().await.unwrap();
    let repo = server.repo("app").unwrap();
    let commit = |greeting: &str| {
        let text = program(greeting);
        repo.commit("main", &[("infra/Pulumi.yaml", "100644", text.as_bytes())])
            .unwrap()
    };
    let first = commit("hello");
    // A branch that is not there. Flux looks again only when asked.
    operator
        .apply(&format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {{name: app}}\nspec: {{url: \"{}\", \
             interval: 5h, ref: {{branch: nowhere}}}}\n",
            server.url("app")
        ))
        .await;
    operator
        .stack(
            "app",
            "fluxSource:\n  sourceRef: {apiVersion: source.toolkit.fluxcd.io/v1, kind: GitRepository, name: app}\n  dir: infra",
        )
        .await;
    operator
        .stack_when("app", "passing on what Flux says", |stack| {
            condition(stack, "Reconciling").is_some_and(|one| {
                let message = one["message"].as_str().unwrap_or_default();
                one["reason"] == "SourceUnavailable" && message.contains("couldn't find remote ref")
            })
        })
        .await;
    let flux = operator.get("gitrepository", "app").await.unwrap();
    let said = condition(&flux, "Ready").unwrap()["message"].clone();
    assert!(
        said.as_str().unwrap().contains("couldn't find remote ref"),
        "{said}"
    );

    // Mended: Flux has it, the watch tells, the Stack runs.
    operator
        .patch(
            "gitrepository",
            "app",
            r#"{"spec":{"ref":{"branch":"main"}}}"#,
        )
        .await;
    let stack = greets(&operator, "hello").await;
    let revision = |commit: &str| json!(format!("main@sha1:{commit}"));
    let last = &stack["status"]["lastUpdate"];
    assert_eq!(last["lastSuccessfulCommit"], revision(&first), "{last:#}");

    // Another commit.
    let second = commit("salut");
    look(&operator, "1").await;
    let stack = greets(&operator, "salut").await;
    let last = &stack["status"]["lastUpdate"];
    assert_eq!(last["lastSuccessfulCommit"], revision(&second), "{last:#}");
    assert_eq!(last["sequence"], 2);

    // The repository is away: what Flux kept is as good as before.
    server.set_behaviour("app", windlass_e2e::git_server::Behaviour::Fail(503));
    look(&operator, "2").await;
    operator
        .until("Flux cannot reach the repository", LIMIT, async || {
            let flux = operator.get("gitrepository", "app").await.unwrap();
            condition(&flux, "Ready").is_some_and(|one| one["status"] == "False")
        })
        .await;
    operator
        .patch(
            "stack",
            "app",
            r#"{"metadata":{"annotations":{"pulumi.com/reconciliation-request":"1"}}}"#,
        )
        .await;
    operator
        .stack_when("app", "run again with what Flux kept", |stack| {
            is_ready(stack) && stack["status"]["lastUpdate"]["sequence"] == 3
        })
        .await;

    // Flux was followed by a watch.
    let audit = operator.plane.audit_log().of_user(&who.user_name());
    assert!(audit.count("watch", "gitrepositories") >= 1);
}
