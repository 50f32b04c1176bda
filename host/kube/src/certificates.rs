//! The certificates of this operator and its workspaces, kept in Secrets of the operator's own namespace.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use windlass_agent::ClientTls;
use windlass_api::ObjectMeta;
use windlass_api::identity::WorkspaceIdentity;
use windlass_api::names::MANAGER;
use windlass_pki::{Authority, Kind, Leaf, PkiError, Renewal, SecretData};

use crate::api::{ApiError, Cluster, within};
use crate::world::World;
use crate::write::workspace::{WORKSPACE_UID, tls_secret_name};

/// Secret with the authority of the operator's client certificates.
const OPERATORS: &str = "windlass-operators-ca";
/// Secret with the authority of the workspaces' server certificates.
const WORKSPACES: &str = "windlass-workspaces-ca";
/// How often certificates are looked at.
const LOOK: Duration = Duration::from_secs(3600);

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("Secret {namespace}/{name}: {source}")]
    Unusable {
        namespace: String,
        name: &'static str,
        source: PkiError,
    },
    #[error("Secret {namespace}/{name}: {source}")]
    Store {
        namespace: String,
        name: &'static str,
        source: ApiError,
    },
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error("the operator's certificate: {0}")]
    Tls(#[from] windlass_agent::TlsError),
}

/// What connections need, and what issues certificates of workspaces.
pub struct Certificates {
    cluster: Cluster,
    namespace: String,
    state: RwLock<Arc<State>>,
}

struct State {
    operators: Authority,
    workspaces: Authority,
    operator: Leaf,
    tls: ClientTls,
}

impl State {
    fn new(operators: Authority, workspaces: Authority) -> Result<State, CertificateError> {
        let operator = Leaf::operator(&operators, &workspaces, Timestamp::now())?;
        let tls = ClientTls::new(
            operator.certificate().as_bytes(),
            operator.key().as_bytes(),
            operator.roots().as_bytes(),
        )?;
        Ok(State {
            operators,
            workspaces,
            operator,
            tls,
        })
    }
}

impl Certificates {
    /// Reads the authorities, and makes them if there are none.
    ///
    /// # Errors
    /// The API server refuses, or what is stored cannot be used.
    pub async fn open(cluster: Cluster, namespace: &str) -> Result<Certificates, CertificateError> {
        let operators = authority(&cluster, namespace, OPERATORS, Kind::Operators).await?;
        let workspaces = authority(&cluster, namespace, WORKSPACES, Kind::Workspaces).await?;
        let state = State::new(operators, workspaces)?;
        Ok(Certificates {
            cluster,
            namespace: namespace.to_owned(),
            state: RwLock::new(Arc::new(state)),
        })
    }

    fn state(&self) -> Arc<State> {
        self.state
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What the operator shows and believes, today.
    pub fn tls(&self) -> ClientTls {
        self.state().tls.clone()
    }

    /// A server certificate for one incarnation of a workspace.
    pub fn workspace(&self, identity: &WorkspaceIdentity) -> Result<Leaf, PkiError> {
        let state = self.state();
        Leaf::workspace(
            identity,
            &state.workspaces,
            &state.operators,
            Timestamp::now(),
        )
    }

    /// Renews whatever is due, of the operator and of its workspaces. Never returns; meant to be spawned by the leader.
    pub async fn keep(&self, world: &World) {
        loop {
            if let Err(error) = self.renew(world).await {
                tracing::warn!(%error, "renewing certificates; tried again in an hour");
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn renew(&self, world: &World) -> Result<(), CertificateError> {
        let operators =
            authority(&self.cluster, &self.namespace, OPERATORS, Kind::Operators).await?;
        let workspaces =
            authority(&self.cluster, &self.namespace, WORKSPACES, Kind::Workspaces).await?;
        let before = self.state();
        let same = before.operators == operators && before.workspaces == workspaces;
        let due = before.operator.renewal(&workspaces, Timestamp::now()) != Renewal::None;
        if !same || due {
            let state = Arc::new(State::new(operators, workspaces)?);
            *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        }
        for key in world.pods.all().iter().filter_map(|pod| {
            let labels = pod.metadata.labels.as_ref()?;
            let name = labels.get(windlass_api::names::WORKSPACE_NAME_LABEL)?;
            Some((
                pod.metadata.namespace.clone()?,
                name.clone(),
                Arc::clone(pod),
            ))
        }) {
            let (namespace, workspace, pod) = key;
            if let Err(error) = self
                .renew_workspace(world, &namespace, &workspace, &pod)
                .await
            {
                tracing::warn!(%namespace, %workspace, %error, "renewing a workspace's certificate");
            }
        }
        Ok(())
    }

    async fn renew_workspace(
        &self,
        world: &World,
        namespace: &str,
        workspace: &str,
        pod: &k8s_openapi::api::core::v1::Pod,
    ) -> Result<(), CertificateError> {
        let Some(identity) = identity(world, namespace, workspace, pod) else {
            return Ok(());
        };
        let name = tls_secret_name(workspace);
        let store = |source| CertificateError::Store {
            namespace: namespace.to_owned(),
            name: "of a workspace",
            source,
        };
        let Some(secret) = self
            .cluster
            .get::<Secret>(namespace, &name)
            .await
            .map_err(store)?
        else {
            return Ok(());
        };
        let state = self.state();
        let now = Timestamp::now();
        let renewed = match Leaf::from_secret_data(&plain(secret)) {
            Ok(leaf) => match leaf.renewal(&state.operators, now) {
                Renewal::None => return Ok(()),
                Renewal::Roots => leaf.with_roots(&state.operators),
                Renewal::Certificate => self.workspace(&identity)?,
            },
            Err(_) => self.workspace(&identity)?,
        };
        let patch = serde_json::json!({"data": encoded(renewed.to_secret_data())});
        self.cluster
            .merge::<Secret>(namespace, &name, &patch, MANAGER)
            .await
            .map_err(store)?;
        Ok(())
    }
}

/// Whose certificate the agent in a pod must show.
pub fn identity(
    world: &World,
    namespace: &str,
    workspace: &str,
    pod: &k8s_openapi::api::core::v1::Pod,
) -> Option<WorkspaceIdentity> {
    let noted = pod.metadata.annotations.as_ref();
    let uid = match noted.and_then(|annotations| annotations.get(WORKSPACE_UID)) {
        Some(uid) => uid.clone(),
        // Made by a version that did not note it.
        None => world
            .workspaces
            .get(namespace, workspace)?
            .metadata
            .uid
            .clone()?,
    };
    let hostname = windlass_pods::hostname(pod)?;
    WorkspaceIdentity::new(namespace, uid, hostname).ok()
}

/// The authority of a Secret, made if there is none, brought up to date if something is due.
async fn authority(
    cluster: &Cluster,
    namespace: &str,
    name: &'static str,
    kind: Kind,
) -> Result<Authority, CertificateError> {
    let store = |source| CertificateError::Store {
        namespace: namespace.to_owned(),
        name,
        source,
    };
    let unusable = |source| CertificateError::Unusable {
        namespace: namespace.to_owned(),
        name,
        source,
    };
    loop {
        let now = Timestamp::now();
        let Some(secret) = cluster
            .get::<Secret>(namespace, name)
            .await
            .map_err(store)?
        else {
            let made = Authority::new(kind, now)?;
            let secret = Secret {
                metadata: ObjectMeta {
                    name: Some(name.into()),
                    namespace: Some(namespace.into()),
                    ..ObjectMeta::default()
                },
                data: Some(bytes(made.to_secret_data())),
                ..Secret::default()
            };
            match cluster.create(namespace, &secret, MANAGER).await {
                Ok(_) => return Ok(made),
                Err(ApiError::AlreadyExists) => continue,
                Err(error) => return Err(store(error)),
            }
        };
        let found = Authority::from_secret_data(kind, &plain(secret.clone())).map_err(unusable)?;
        let Some(advanced) = found.advance(now)? else {
            return Ok(found);
        };
        let mut secret = secret;
        secret.data = Some(bytes(advanced.to_secret_data()));
        let api = cluster.api::<Secret>(namespace);
        match within(api.replace(name, &PostParams::default(), &secret)).await {
            Ok(_) => return Ok(advanced),
            // Another process was faster.
            Err(ApiError::Conflict) => continue,
            Err(error) => return Err(store(error)),
        }
    }
}

fn plain(secret: Secret) -> SecretData {
    secret
        .data
        .unwrap_or_default()
        .into_iter()
        .map(|(key, value)| (key, value.0))
        .collect()
}

fn bytes(data: SecretData) -> std::collections::BTreeMap<String, ByteString> {
    data.into_iter()
        .map(|(key, value)| (key, ByteString(value)))
        .collect()
}

/// For a patch: base64, as Kubernetes has it.
pub fn encoded(data: SecretData) -> serde_json::Value {
    serde_json::to_value(bytes(data)).unwrap_or_default()
}
