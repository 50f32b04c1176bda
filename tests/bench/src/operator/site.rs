//! A cluster with an operator on it, and what benchmarks do there.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use windlass_cluster::{AuditEvent, AuditLog};
use windlass_operator::{Operator, backend};

use super::seen::Seen;
use crate::memory;
use crate::setup::{Setup, Trouble, failed};

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// The user that the operator is.
const USER: &str = "operator-of-the-benchmark";
/// What a cluster is made of that is ours.
const BINARIES: [&str; 4] = [
    "windlass",
    "windlass-agent",
    "windlass-test-container",
    "pulumi-resource-windlasstest",
];

/// A cluster with an operator, told apart from others in the audit log.
pub struct Site {
    pub operator: Operator,
    pub client: Client,
    /// Every version of every Stack of the namespace.
    pub seen: Seen,
}

impl Site {
    /// Starts everything but the operator's process.
    ///
    /// # Errors
    /// `Skipped` where something it needs is missing.
    pub async fn prepare(setup: &Setup) -> Result<Self, Trouble> {
        setup.tools()?;
        setup.plugins()?;
        let folder = backend::binaries();
        if let Some(missing) = BINARIES.iter().find(|name| !folder.join(name).is_file()) {
            let folder = folder.display();
            return Err(Trouble::Skipped(format!(
                "there is no {missing} in {folder}; `cargo xtask bench` makes it"
            )));
        }
        let Some(mut operator) = Operator::prepare().await else {
            return Err(Trouble::Skipped("the line above says why".to_owned()));
        };
        // The operator's own times, not those of tests.
        operator.lease = ["15s", "10s", "2s"];
        operator.kubeconfig = operator.somebody(USER).await.1;
        let client = operator.plane.client().await;
        let seen = Seen::new(api(&client, &operator.namespace, Kind::Stack));
        Ok(Site {
            operator,
            client,
            seen,
        })
    }

    pub fn api(&self, kind: Kind) -> Api<DynamicObject> {
        api(&self.client, &self.operator.namespace, kind)
    }

    /// Creates an object; the moment before the request.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn create(&self, kind: Kind, object: &Value) -> Result<Instant, Trouble> {
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        let api = self.api(kind);
        let begun = Instant::now();
        api.create(&PostParams::default(), &object).await?;
        Ok(begun)
    }

    /// Creates many, sixteen at a time; the moment before the first request.
    ///
    /// # Errors
    /// The API server refuses one.
    pub async fn create_all(&self, kind: Kind, objects: &[Value]) -> Result<Instant, Trouble> {
        let begun = Instant::now();
        let requests = stream::iter(objects).map(|object| self.create(kind, object));
        requests
            .buffer_unordered(16)
            .try_for_each(|_| std::future::ready(Ok(())))
            .await?;
        Ok(begun)
    }

    /// Merges into a Stack; the moment before the request.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn patch(&self, name: &str, patch: &Value) -> Result<Instant, Trouble> {
        let begun = Instant::now();
        self.api(Kind::Stack)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(begun)
    }

    /// A Stack on the file backend, with more fields of its spec.
    pub fn stack(&self, name: &str, more: &Value) -> Value {
        let mut spec = json!({
            "stack": format!("organization/{name}/dev"),
            "backend": "file:///state",
            "envRefs": {"PULUMI_CONFIG_PASSPHRASE": {"type": "Literal", "literal": {"value": "bench"}}},
            "workspaceTemplate": {"spec": {"podTemplate": {"spec": {
                "containers": [{
                    "name": "pulumi", "volumeMounts": [{"name": "state", "mountPath": "/state"}],
                }],
                "volumes": [self.state_volume()],
            }}}},
        });
        if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
            spec.extend(more.clone());
        }
        json!({
            "apiVersion": "pulumi.com/v1", "kind": "Stack", "metadata": {"name": name}, "spec": spec,
        })
    }

    /// The directory of the state, as a volume.
    pub fn state_volume(&self) -> Value {
        json!({"name": "state", "hostPath": {"path": self.operator.state()}})
    }

    /// Memory of the operator.
    ///
    /// # Errors
    /// It does not run.
    pub fn memory(&self) -> Result<f64, Trouble> {
        let pid = self.operator.pid();
        match pid.and_then(|pid| memory::of(pid, "VmRSS")) {
            Some(bytes) => Ok(bytes as f64),
            None => failed("the operator does not run"),
        }
    }

    /// Everything that the operator asked for so far.
    pub fn requests(&self) -> AuditLog {
        self.operator.plane.audit_log().only(counts)
    }

    /// Waits until the operator has asked for nothing in two seconds; everything that it asked for.
    ///
    /// # Errors
    /// It never stops asking.
    pub async fn quiet(&self) -> Result<AuditLog, Trouble> {
        let begun = Instant::now();
        let mut before = self.requests();
        while begun.elapsed() < PATIENCE {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let now = self.requests();
            if now.0.len() == before.0.len() {
                return Ok(now);
            }
            before = now;
        }
        failed("the operator never stops asking")
    }
}

/// Kinds that benchmarks make.
#[derive(Clone, Copy)]
pub enum Kind {
    Stack,
    Program,
    Pod,
    Update,
}

fn api(client: &Client, namespace: &str, kind: Kind) -> Api<DynamicObject> {
    let (group, version, name, plural) = match kind {
        Kind::Stack => ("pulumi.com", "v1", "Stack", "stacks"),
        Kind::Program => ("pulumi.com", "v1", "Program", "programs"),
        Kind::Pod => ("", "v1", "Pod", "pods"),
        Kind::Update => ("auto.pulumi.com", "v1alpha1", "Update", "updates"),
    };
    let gvk = GroupVersionKind::gvk(group, version, name);
    let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
    Api::namespaced_with(client.clone(), namespace, &resource)
}

fn counts(event: &AuditEvent) -> bool {
    event.user == USER
        && event.verb != "watch"
        && !matches!(event.resource.as_str(), "leases" | "nodes" | "")
}

/// What requests were, most frequent first.
pub fn told(requests: &[AuditEvent]) -> String {
    let mut by_kind = std::collections::BTreeMap::new();
    for event in requests {
        let part = if event.subresource.is_empty() {
            String::new()
        } else {
            format!("/{}", event.subresource)
        };
        let name = format!("{} {}{part}", event.verb, event.resource);
        *by_kind.entry(name).or_insert(0_usize) += 1;
    }
    let mut by_kind: Vec<_> = by_kind.into_iter().collect();
    by_kind.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let each = |(name, count): &(String, usize)| format!("{count} {name}");
    by_kind.iter().map(each).collect::<Vec<_>>().join(", ")
}

/// A Program as the recorded figures were taken with: two resources, one key of configuration, one output.
pub fn program(name: &str) -> Value {
    json!({
        "apiVersion": "pulumi.com/v1", "kind": "Program", "metadata": {"name": name},
        "program": contents(),
    })
}

/// The program itself.
pub fn contents() -> Value {
    json!({
        "configuration": {"greeting": {"type": "String", "default": "hello"}},
        "resources": {
            "one": {"type": "pulumi:Stash", "properties": {"input": "${greeting}"}},
            "two": {"type": "pulumi:Stash", "properties": {"input": "fixed"}},
        },
        "outputs": {"greeting": "${one.input}"},
    })
}

/// Whether a Stack is Ready at its present generation.
pub fn is_ready(stack: &Value) -> bool {
    windlass_operator::is_ready(stack)
}

/// The uid of a Stack's pod.
///
/// # Errors
/// There is none.
pub async fn pod_uid(site: &Site, stack: &str) -> Result<String, Trouble> {
    let pod = site
        .api(Kind::Pod)
        .get(&format!("{stack}-workspace-0"))
        .await?;
    Ok(pod.uid().unwrap_or_default())
}
