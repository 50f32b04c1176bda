//! Whether the cluster's definitions have the fields that this operator writes: the API server drops others without a word.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;

use crate::api::{ApiError, Cluster, within};

/// Fields named in the message; there may be hundreds.
const NAMED: usize = 5;

/// Why the operator cannot work with the cluster's definitions.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    #[error(
        "the cluster does not have the definition {0}. Apply the definitions of this version first: `windlass crds | \
         kubectl apply --server-side --force-conflicts -f -`"
    )]
    Missing(String),
    #[error(
        "the cluster's definition {name} lacks {} fields of this version, such as {}. Apply the definitions of this version \
         first: `windlass crds | kubectl apply --server-side --force-conflicts -f -`",
        fields.len(), fields[..fields.len().min(NAMED)].join(", ")
    )]
    Old { name: String, fields: Vec<String> },
    #[error("reading the definition {name}: {source}")]
    Unreadable { name: String, source: ApiError },
}

/// Looks at the four definitions.
///
/// # Errors
/// One is missing, or older than this version.
pub async fn check(cluster: &Cluster) -> Result<(), DefinitionError> {
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    for ours in windlass_api::crd::all() {
        let name = ours.metadata.name.clone().unwrap_or_default();
        let live = match within(api.get_opt(&name)).await {
            Ok(Some(live)) => live,
            Ok(None) => return Err(DefinitionError::Missing(name)),
            // Installed for a few namespaces: it may not look at what belongs to the cluster.
            Err(ApiError::Refused { message, .. }) => {
                tracing::warn!(
                    name,
                    message,
                    "the cluster's definition cannot be looked at"
                );
                continue;
            }
            Err(source) => return Err(DefinitionError::Unreadable { name, source }),
        };
        let fields = windlass_api::crd::missing_fields(&live);
        if !fields.is_empty() {
            return Err(DefinitionError::Old { name, fields });
        }
    }
    Ok(())
}
