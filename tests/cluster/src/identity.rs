//! Who asks the API server: users by certificate, service accounts by token.

use std::path::Path;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use kube::config::Kubeconfig;
use kube::{Client, Config};
use serde_json::json;

use crate::error::{Asking as _, At as _, Error, Result};
use crate::pki::Authority;

/// Somebody the API server knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// May do everything.
    Admin,
    /// A user with a certificate.
    User {
        /// The name, as audit logs and RBAC say it.
        name: String,
        /// A group.
        group: Option<String>,
    },
    /// A service account, which is created if it is not there.
    ServiceAccount {
        /// Its namespace, which must exist.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl Identity {
    /// A user in no group but `system:authenticated`.
    pub fn user(name: impl Into<String>) -> Self {
        Self::User {
            name: name.into(),
            group: None,
        }
    }

    /// A service account.
    pub fn service_account(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self::ServiceAccount {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The name that the audit log and `kubectl auth whoami` show.
    pub fn user_name(&self) -> String {
        match self {
            Self::Admin => "admin".to_owned(),
            Self::User { name, group: _ } => name.clone(),
            Self::ServiceAccount { namespace, name } => {
                format!("system:serviceaccount:{namespace}:{name}")
            }
        }
    }

    fn subject(&self) -> Subject {
        match self {
            Self::Admin | Self::User { .. } => Subject {
                api_group: Some("rbac.authorization.k8s.io".to_owned()),
                kind: "User".to_owned(),
                name: self.user_name(),
                namespace: None,
            },
            Self::ServiceAccount { namespace, name } => Subject {
                api_group: None,
                kind: "ServiceAccount".to_owned(),
                name: name.clone(),
                namespace: Some(namespace.clone()),
            },
        }
    }

    /// What a kubeconfig says for this identity. `admin` is needed for service accounts.
    ///
    /// # Errors
    /// When a certificate or token cannot be had.
    pub(crate) async fn credentials(
        &self,
        authority: &Authority,
        admin: Option<&Client>,
    ) -> Result<serde_json::Value> {
        let certificate = |name: &str, group: Option<&str>| {
            let signed = authority.client(name, group)?;
            Ok(json!({
                "client-certificate-data": encoded(&signed.certificate),
                "client-key-data": encoded(&signed.key),
            }))
        };
        match self {
            Self::Admin => certificate("admin", Some("system:masters")),
            Self::User { name, group } => certificate(name, group.as_deref()),
            Self::ServiceAccount { namespace, name } => {
                let admin = admin.ok_or_else(|| {
                    Error::Client("a service account's token needs the API server".to_owned())
                })?;
                Ok(json!({ "token": token(admin, namespace, name).await? }))
            }
        }
    }
}

/// A kubeconfig with one cluster, one user and one context.
pub(crate) fn kubeconfig(
    server: &str,
    authority: &Authority,
    user: &serde_json::Value,
) -> serde_json::Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {
            "server": server,
            "certificate-authority-data": encoded(&authority.certificate()),
        }}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    })
}

/// Writes a kubeconfig that only its owner reads. JSON is YAML.
pub(crate) fn write(path: &Path, content: &serde_json::Value) -> Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .at(path)?;
    file.write_all(content.to_string().as_bytes()).at(path)
}

/// A client from a kubeconfig's content.
pub(crate) async fn client(content: &serde_json::Value) -> Result<Client> {
    let unusable = |error: &dyn std::fmt::Display| Error::Client(error.to_string());
    let parsed: Kubeconfig =
        serde_json::from_value(content.clone()).map_err(|error| unusable(&error))?;
    let config = Config::from_custom_kubeconfig(parsed, &Default::default())
        .await
        .map_err(|error| unusable(&error))?;
    Client::try_from(config).map_err(|error| unusable(&error))
}

async fn token(admin: &Client, namespace: &str, name: &str) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), namespace);
    let account = ServiceAccount {
        metadata: named(name),
        ..ServiceAccount::default()
    };
    accept_existing(accounts.create(&PostParams::default(), &account).await)
        .asking(format!("create service account {namespace}/{name}"))?;
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(24 * 3600),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(name, &PostParams::default(), &request)
        .await
        .asking(format!("token for service account {namespace}/{name}"))?;
    let token = answer.status.and_then(|status| status.token);
    token.ok_or_else(|| Error::Client("the API server gave no token".to_owned()))
}

/// Lets `who` do what `rules` say, in one namespace or in the whole cluster.
pub(crate) async fn grant(
    admin: &Client,
    who: &Identity,
    namespace: Option<&str>,
    rules: Vec<PolicyRule>,
) -> Result<()> {
    let params = PostParams::default();
    let metadata = || ObjectMeta {
        generate_name: Some("granted-".to_owned()),
        ..ObjectMeta::default()
    };
    let role_ref = |kind: &str, name: Option<String>| RoleRef {
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        kind: kind.to_owned(),
        name: name.unwrap_or_default(),
    };
    let subjects = Some(vec![who.subject()]);
    let what = format!("grant to {}", who.user_name());
    if let Some(namespace) = namespace {
        let role = Role {
            metadata: metadata(),
            rules: Some(rules),
        };
        let roles: Api<Role> = Api::namespaced(admin.clone(), namespace);
        let role = roles.create(&params, &role).await.asking(&what)?;
        let binding = RoleBinding {
            metadata: metadata(),
            role_ref: role_ref("Role", role.metadata.name),
            subjects,
        };
        let bindings: Api<RoleBinding> = Api::namespaced(admin.clone(), namespace);
        bindings.create(&params, &binding).await.asking(&what)?;
    } else {
        let role = ClusterRole {
            metadata: metadata(),
            rules: Some(rules),
            ..ClusterRole::default()
        };
        let roles: Api<ClusterRole> = Api::all(admin.clone());
        let role = roles.create(&params, &role).await.asking(&what)?;
        let binding = ClusterRoleBinding {
            metadata: metadata(),
            role_ref: role_ref("ClusterRole", role.metadata.name),
            subjects,
        };
        let bindings: Api<ClusterRoleBinding> = Api::all(admin.clone());
        bindings.create(&params, &binding).await.asking(&what)?;
    }
    Ok(())
}

pub(crate) fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

/// That something exists already is as good as having created it.
pub(crate) fn accept_existing<T>(answer: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match answer {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        Err(error) => Err(error),
    }
}

fn encoded(pem: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(pem)
}
