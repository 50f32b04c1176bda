//! Writes of a workspace: the Workspace object, the certificate of its agent, its pod.

use k8s_openapi::api::core::v1::{Pod, Secret};
use serde_json::{Value, json};
use windlass_api::identity::WorkspaceIdentity;
use windlass_api::lenient::Lenient;
use windlass_api::names::{
    ARGOCD_IGNORE_UPDATES_ANNOTATION, AUTO_COMPONENT_LABEL, COMPONENT_LABEL, COMPONENT_STACK,
    COMPONENT_WORKSPACE, MANAGER, WORKSPACE_NAME_LABEL, workspace_pod_name,
};
use windlass_api::{OwnerReference, Resource, Stack, Workspace};
use windlass_core::digest::digest;
use windlass_engine::{Key, StoreError};
use windlass_pods::{LoginToken, PodOptions, TemplateError, WorkspaceOptions};

use crate::api::{ApiError, readable};
use crate::certificates::encoded;
use crate::store::KubeStore;
use crate::write::owner;
use crate::{clock, instances};

/// Annotation of a Workspace: digest of what the Stack asked for, so that it is applied once.
const APPLIED: &str = "windlass.pulumi.com/applied-digest";

/// How long a mounted token holds; the kubelet renews it in time. An hour is what Kubernetes itself asks for.
const TOKEN_SECONDS: i64 = 3600;

/// Annotation of a pod: uid of the Workspace that the certificate of its agent names.
pub const WORKSPACE_UID: &str = "windlass.pulumi.com/workspace-uid";

/// Name of the Secret with the certificate of a workspace's agent.
pub fn tls_secret_name(workspace: &str) -> String {
    format!("{workspace}-workspace-tls")
}

/// Whether a Stack made the Workspace; others are made by hand.
pub fn is_ours(workspace: &Workspace) -> bool {
    let label = workspace
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(COMPONENT_LABEL));
    label.map(String::as_str) == Some(COMPONENT_STACK)
}

/// What is wanted of a pod beside the Workspace.
pub struct Wanted<'a> {
    pub spec_digest: &'a str,
    /// Of the token of its own that is mounted.
    pub audience: Option<&'a str>,
    /// Its own init containers wait for the program.
    pub source_first: bool,
}

impl KubeStore {
    /// Makes what is missing of a workspace.
    pub(crate) async fn ensure_workspace(
        &self,
        key: &Key,
        stack: &Stack,
        wanted: &Wanted<'_>,
    ) -> Result<(), Unmade> {
        let name = workspace_pod_name(&key.name);
        if let Some(pod) = self.world.pods.get(&key.namespace, &name) {
            return Ok(self.instances.clear_away(key, &pod).await?);
        }
        self.wait_for_the_end_of_an_earlier_one(key)?;
        let workspace = self.apply_workspace(key, stack).await?;
        self.ensure_pod(key, &workspace, Some(stack), wanted).await
    }

    /// Makes the pod of a Workspace that is there: a Stack's, or one made by hand.
    pub(crate) async fn ensure_pod(
        &self,
        key: &Key,
        workspace: &Workspace,
        stack: Option<&Stack>,
        wanted: &Wanted<'_>,
    ) -> Result<(), Unmade> {
        let name = workspace_pod_name(&key.name);
        if let Some(pod) = self.world.pods.get(&key.namespace, &name) {
            return Ok(self.instances.clear_away(key, &pod).await?);
        }
        let deleting = stack.is_some_and(|stack| stack.metadata.deletion_timestamp.is_some());
        let secret_owner = match stack {
            Some(stack) => owner(stack, false),
            None => workspace_owner(workspace),
        };
        let uid = workspace.metadata.uid.clone().unwrap_or_default();
        // A name that no other incarnation has: locks in the backend tell them apart by it.
        let hostname = instances::hostname(&key.name, &uid, clock());
        let identity = WorkspaceIdentity::new(key.namespace.as_str(), uid.as_str(), &hostname)
            .map_err(|error| refused("IdentityInvalid", error.to_string()))?;
        let leaf = self
            .instances
            .certificates
            .workspace(&identity)
            .map_err(|error| refused("CertificateFailed", error.to_string()))?;
        let tls_secret = tls_secret_name(&key.name);
        let object = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": tls_secret,
                "labels": {AUTO_COMPONENT_LABEL: COMPONENT_WORKSPACE, WORKSPACE_NAME_LABEL: key.name},
                "annotations": {ARGOCD_IGNORE_UPDATES_ANNOTATION: "true"},
                "ownerReferences": secret_owner.map(|owner| vec![owner]),
            },
            "type": "kubernetes.io/tls",
            "data": encoded(leaf.to_secret_data()),
        });
        let _: Secret = self
            .cluster
            .apply(&key.namespace, &tls_secret, &object, MANAGER)
            .await?;
        let options = PodOptions {
            hostname,
            spec_digest: wanted.spec_digest.to_owned(),
            owner: (!deleting).then(|| workspace_owner(workspace)).flatten(),
            images: self.instances.images.clone(),
            tls_secret,
            login: wanted.audience.map(|audience| LoginToken {
                audience: audience.to_owned(),
                expiration_seconds: TOKEN_SECONDS,
            }),
            source_first: wanted.source_first,
        };
        let mut pod = windlass_pods::pod(workspace, &options)?;
        let secret = self.secret_variables(key, &pod).await?;
        windlass_pods::name_secret_variables(&mut pod, &secret);
        // So that its end is seen.
        pod.metadata.finalizers = Some(vec![instances::POD_FINALIZER.to_owned()]);
        // So that its agent is known even if somebody deletes the Workspace from over it.
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(WORKSPACE_UID.to_owned(), uid);
        match self.cluster.create(&key.namespace, &pod, MANAGER).await {
            Ok(pod) => self.world.took::<Pod>(pod),
            Err(ApiError::AlreadyExists) => {
                if let Some(pod) = self.cluster.get::<Pod>(&key.namespace, &name).await? {
                    self.world.took(pod);
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Names of the variables that whole Secrets bring: the pod does not tell them. What is added to such a Secret reaches
    /// the pod with its next container, unmasked until there is another pod.
    async fn secret_variables(&self, key: &Key, pod: &Pod) -> Result<Vec<String>, ApiError> {
        let mut names = Vec::new();
        for (secret, prefix) in windlass_pods::secrets_of_environment(pod) {
            // One that is missing keeps the container from starting, and the kubelet says so.
            if let Some(found) = self.cluster.get::<Secret>(&key.namespace, &secret).await? {
                let keys = found.data.into_iter().flatten().map(|(key, _)| key);
                names.extend(keys.map(|key| format!("{prefix}{key}")));
            }
        }
        Ok(names)
    }

    /// A Workspace that is being deleted takes what is made under it along when it goes, and its uid with it: a
    /// foreground deletion of the Stack deletes it, and a destroy then needs another.
    fn wait_for_the_end_of_an_earlier_one(&self, key: &Key) -> Result<(), ApiError> {
        let stored = self.world.workspaces.get(&key.namespace, &key.name);
        let going = stored.is_some_and(|workspace| workspace.metadata.deletion_timestamp.is_some());
        if !going {
            return Ok(());
        }
        Err(ApiError::Unavailable(format!(
            "Workspace {key} is being deleted; another one is made when it is gone"
        )))
    }

    /// The Workspace that the Stack asks for, applied unless it is what was applied last.
    async fn apply_workspace(&self, key: &Key, stack: &Stack) -> Result<Workspace, Unmade> {
        let mut wanted = windlass_pods::workspace_spec(stack, &WorkspaceOptions::default())?;
        wanted.metadata.owner_references = owner(stack, true).map(|owner| vec![owner]);
        wanted
            .metadata
            .annotations
            .get_or_insert_default()
            .insert(ARGOCD_IGNORE_UPDATES_ANNOTATION.into(), "true".into());
        let applied = digest(&wanted);
        if let Some(stored) = self.world.workspaces.get(&key.namespace, &key.name) {
            let before = stored
                .metadata
                .annotations
                .as_ref()
                .and_then(|annotations| annotations.get(APPLIED));
            if before == Some(&applied) {
                return Ok((*stored).clone());
            }
        }
        wanted
            .metadata
            .annotations
            .get_or_insert_default()
            .insert(APPLIED.into(), applied);
        let mut object = serde_json::to_value(&wanted)
            .map_err(|error| refused("Unwritable", error.to_string()))?;
        if let Value::Object(fields) = &mut object {
            fields.remove("status");
            fields.insert("apiVersion".into(), Workspace::api_version(&()).into());
            fields.insert("kind".into(), Workspace::kind(&()).into());
        }
        let answer: Lenient<Workspace> = self
            .cluster
            .apply(&key.namespace, &key.name, &object, MANAGER)
            .await?;
        let workspace = readable(answer)?;
        self.world.took(workspace.clone());
        Ok(workspace)
    }

    /// Ends this pod. The agent finishes what it does.
    pub(crate) async fn stop_workspace(&self, key: &Key, uid: &str) -> Result<(), StoreError> {
        let name = workspace_pod_name(&key.name);
        self.cluster
            .delete::<Pod>(&key.namespace, &name, Some(uid))
            .await?;
        if let Some(pod) = self.cluster.get::<Pod>(&key.namespace, &name).await? {
            self.world.took(pod);
        }
        self.instances.release_if_over(key).await;
        Ok(())
    }
}

/// Why a workspace was not made.
pub enum Unmade {
    Template(TemplateError),
    Api(ApiError),
}

impl From<Unmade> for ApiError {
    fn from(unmade: Unmade) -> ApiError {
        match unmade {
            Unmade::Template(error) => ApiError::Refused {
                reason: "TemplateInvalid".into(),
                message: error.to_string(),
            },
            Unmade::Api(error) => error,
        }
    }
}

impl From<ApiError> for Unmade {
    fn from(error: ApiError) -> Unmade {
        Unmade::Api(error)
    }
}

impl From<TemplateError> for Unmade {
    fn from(error: TemplateError) -> Unmade {
        Unmade::Template(error)
    }
}

fn refused(reason: &str, message: String) -> Unmade {
    Unmade::Api(ApiError::Refused {
        reason: reason.to_owned(),
        message,
    })
}

fn workspace_owner(workspace: &Workspace) -> Option<OwnerReference> {
    Some(OwnerReference {
        api_version: Workspace::api_version(&()).into_owned(),
        kind: Workspace::kind(&()).into_owned(),
        name: workspace.metadata.name.clone()?,
        uid: workspace.metadata.uid.clone()?,
        controller: Some(true),
        block_owner_deletion: Some(true),
    })
}
