//! An operator with the real Argo CD beside it, and Git repositories that it syncs from.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde_json::Value;
use windlass_cluster::{ARGOCD_NAMESPACE, ArgoCd, Identity};
use windlass_e2e::git_repo::TestRepo;
use windlass_e2e::git_server::GitServer;
use windlass_e2e::world::workspace_root;

use crate::{Operator, PATIENCE, stack_manifest};

/// One operator, one Argo CD, one Git server.
pub struct Delivery {
    // Argo CD ends before the cluster that it asks.
    pub argocd: ArgoCd,
    pub operator: Operator,
    pub git: GitServer,
    /// As whom Argo CD asks the API server, and as whom the operator does.
    pub argo: Identity,
    pub windlass: Identity,
    client: Client,
}

/// What an Application syncs and how; anything else as lines of YAML below `spec`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sync<'a> {
    pub name: &'a str,
    /// The repository, by its name on the server.
    pub repo: &'a str,
    pub branch: &'a str,
    /// `metadata.finalizers`; none for an Application whose deletion leaves everything.
    pub finalizer: &'a str,
    pub more: &'a str,
}

/// Argo CD deletes what an Application made, and waits for the dependents of each object.
pub const FOREGROUND: &str = "resources-finalizer.argocd.argoproj.io";
/// The same without waiting for dependents.
pub const BACKGROUND: &str = "resources-finalizer.argocd.argoproj.io/background";
/// Whatever Git says is applied at once, and whatever it no longer says is removed.
pub const AUTOMATED: &str = "syncPolicy: {automated: {prune: true, selfHeal: true}}";

impl Delivery {
    /// Starts everything; None with a visible reason where something is not at hand.
    pub async fn start() -> Option<Delivery> {
        windlass_cluster::argocd_binary()?;
        let mut operator = Operator::prepare().await?;
        let (windlass, kubeconfig) = operator.somebody("windlass").await;
        operator.kubeconfig = kubeconfig;
        operator.launch();
        let (argo, kubeconfig) = operator.somebody("argocd").await;
        let argocd = ArgoCd::start(&operator.plane, &kubeconfig, &settings()).await?;
        let git = GitServer::start().await.expect("a Git server");
        let client = operator.plane.client().await;
        Some(Delivery {
            client,
            argocd,
            operator,
            git,
            argo,
            windlass,
        })
    }

    /// Commits these manifests, by file, to a branch of a repository, and gives the commit. `@VOLUME@` and `@STATE@` are
    /// filled in as by `Operator::apply`.
    pub fn commit(&self, repo: &TestRepo, branch: &str, files: &[(&str, &str)]) -> String {
        let state = self.operator.state().display().to_string();
        let filled: Vec<(&str, String)> = files
            .iter()
            .map(|(path, text)| {
                let text = text.replace("@VOLUME@", self.operator.volume);
                (*path, text.replace("@STATE@", &state))
            })
            .collect();
        let files: Vec<_> = filled
            .iter()
            .map(|(path, text)| (*path, "100644", text.as_bytes()))
            .collect();
        repo.commit(branch, &files).expect("a commit")
    }

    /// Makes an Application that brings a repository to the namespace of the Stacks.
    pub async fn application(&self, sync: Sync<'_>) {
        self.application_in("default", &self.operator.namespace, sync)
            .await;
    }

    /// Makes an Application of a project that brings a repository to a namespace.
    pub async fn application_in(&self, project: &str, namespace: &str, sync: Sync<'_>) {
        let Sync {
            name,
            repo,
            branch,
            finalizer,
            more,
        } = sync;
        let branch = if branch.is_empty() { "main" } else { branch };
        let finalizers = if finalizer.is_empty() {
            String::new()
        } else {
            format!(", finalizers: [{finalizer}]")
        };
        let url = self.git.url(repo);
        let mut text = format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: {name}, namespace: {ARGOCD_NAMESPACE}\
             {finalizers}}}\nspec:\n  project: {project}\n  source: {{repoURL: \"{url}\", targetRevision: {branch}, path: .}}\n  \
             destination: {{server: \"https://kubernetes.default.svc\", namespace: {namespace}}}\n"
        );
        for line in more.lines() {
            text.push_str(&format!("  {line}\n"));
        }
        self.argo_apply(&text).await;
    }

    /// Applies manifests of Argo CD's own kinds to its namespace.
    pub async fn argo_apply(&self, text: &str) {
        let arguments = [
            "apply",
            "--validate=false",
            "-n",
            ARGOCD_NAMESPACE,
            "-f",
            "-",
        ];
        let output = self
            .operator
            .plane
            .kubectl_with(&arguments, text.as_bytes())
            .await;
        assert!(
            output.status.success(),
            "{}\n{text}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// An Application as it is; none if there is none.
    pub async fn app(&self, name: &str) -> Option<Value> {
        // Asked several times a second by each scenario: a kubectl for each would keep the machine busy.
        let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", "Application");
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), ARGOCD_NAMESPACE, &resource);
        let found = api.get_opt(name).await.ok()??;
        serde_json::to_value(found).ok()
    }

    /// Merges into an Application.
    pub async fn patch_app(&self, name: &str, patch: &str) {
        let mut arguments = vec!["patch", "applications.argoproj.io", name, "--type=merge"];
        arguments.extend(["-n", ARGOCD_NAMESPACE, "-p", patch]);
        let output = self.operator.plane.kubectl(&arguments).await;
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
    }

    /// Has Argo CD look at the repository now.
    pub async fn look(&self, name: &str) {
        let patch = r#"{"metadata":{"annotations":{"argocd.argoproj.io/refresh":"normal"}}}"#;
        self.patch_app(name, patch).await;
    }

    /// Deletes an Application without waiting for its end.
    pub async fn delete_app(&self, name: &str) {
        let mut arguments = vec!["delete", "applications.argoproj.io", name, "--wait=false"];
        arguments.extend(["-n", ARGOCD_NAMESPACE]);
        let output = self.operator.plane.kubectl(&arguments).await;
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
    }

    /// Waits until an Application is as it should be.
    ///
    /// # Panics
    /// When it is not in time, with everything that helps to see why.
    pub async fn app_when(&self, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        let mut last = None;
        while begun.elapsed() < PATIENCE {
            last = self.app(name).await;
            if let Some(app) = &last
                && is(app)
            {
                return app.clone();
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let stacks = self.operator.list("stacks").await;
        panic!(
            "the Application {name} is not {what}\n{:#}\nstacks: {:#}\n{}\n{}",
            last.unwrap_or_default()["status"],
            stacks
                .iter()
                .map(|one| one["status"].clone())
                .collect::<Value>(),
            self.argocd.log_tails(),
            self.operator.logs(),
        );
    }

    /// Waits until an Application is Synced and Healthy, its last sync over.
    pub async fn delivered(&self, name: &str) -> Value {
        self.app_when(name, "synced and healthy", is_delivered)
            .await
    }

    /// Waits until an Application is gone.
    pub async fn app_gone(&self, name: &str) {
        let begun = Instant::now();
        while let Some(app) = self.app(name).await {
            assert!(
                begun.elapsed() < PATIENCE,
                "the Application {name} is still there\n{app:#}\n{}\n{}",
                self.argocd.log_tails(),
                self.operator.logs()
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Synced and Healthy, and no sync goes on.
pub fn is_delivered(app: &Value) -> bool {
    let status = &app["status"];
    status["sync"]["status"] == "Synced"
        && status["health"]["status"] == "Healthy"
        && status["operationState"]["phase"] == "Succeeded"
        && app["operation"].is_null()
}

/// What Argo CD says of the health of one of an Application's objects: its code and its message.
pub fn health_of(app: &Value, kind: &str, name: &str) -> (String, String) {
    let resources = app["status"]["resources"].as_array();
    let found = resources
        .into_iter()
        .flatten()
        .find(|one| one["kind"] == kind && one["name"] == name);
    let text = |field: &str| {
        let value = found.map(|one| one["health"][field].as_str().unwrap_or_default());
        value.unwrap_or_default().to_owned()
    };
    (text("status"), text("message"))
}

/// The settings that the project ships for Argo CD.
pub fn settings() -> PathBuf {
    workspace_root().join("deploy/argocd/argocd-cm.yaml")
}

/// A Stack's manifest as `stack_manifest` has it, in this wave of a sync.
pub fn stack_in_wave(name: &str, wave: i32, spec: &str) -> String {
    let metadata = format!("metadata: {{name: {name}}}");
    let annotated = format!(
        "metadata: {{name: {name}, annotations: {{argocd.argoproj.io/sync-wave: \"{wave}\"}}}}"
    );
    stack_manifest(name, spec).replacen(&metadata, &annotated, 1)
}
