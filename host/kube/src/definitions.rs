//! Whether the cluster's definitions have the fields that this operator writes: the API server drops others without a word.

use std::time::{Duration, Instant};

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
    #[error(
        "the cluster has the definition {name} and does not serve it: {said}. See `kubectl get crd {name} -o yaml`"
    )]
    NotServed { name: String, said: String },
    #[error("reading the definition {name}: {source}")]
    Unreadable { name: String, source: ApiError },
}

/// How long the API server may take until it serves a definition that was applied a moment ago, and how often it is asked.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(200);

/// Looks at the four definitions, and waits until they are served.
///
/// # Errors
/// One is missing, older than this version, or not served.
pub async fn check(cluster: &Cluster) -> Result<(), DefinitionError> {
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    for ours in windlass_api::crd::all() {
        let name = ours.metadata.name.clone().unwrap_or_default();
        let until = Instant::now() + PATIENCE;
        loop {
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
                    break;
                }
                Err(source) => return Err(DefinitionError::Unreadable { name, source }),
            };
            let fields = windlass_api::crd::missing_fields(&live);
            if !fields.is_empty() {
                return Err(DefinitionError::Old { name, fields });
            }
            match served(&live) {
                Ok(()) => break,
                Err(said) if Instant::now() > until => {
                    return Err(DefinitionError::NotServed { name, said });
                }
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }
    Ok(())
}

/// Whether the API server serves the kind; if not, what it says.
pub(crate) fn served(definition: &CustomResourceDefinition) -> Result<(), String> {
    let status = definition.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let of = |type_: &str| {
        conditions
            .iter()
            .copied()
            .flatten()
            .find(|it| it.type_ == type_)
    };
    if of("Established").is_some_and(|it| it.status == "True") {
        return Ok(());
    }
    let refused = of("NamesAccepted").filter(|it| it.status == "False");
    let said = refused
        .or(of("Established"))
        .and_then(|it| it.message.clone());
    Err(said.unwrap_or_else(|| "it is not established yet".to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    fn with(conditions: Value) -> CustomResourceDefinition {
        serde_json::from_value(json!({
            "metadata": {}, "status": {"conditions": conditions},
            "spec": {"group": "g", "scope": "Namespaced", "versions": [], "names": {"kind": "K", "plural": "ks"}},
        }))
        .unwrap()
    }

    #[test]
    fn a_definition_is_served_once_it_is_established() {
        let one = |type_: &str, status: &str, message: &str| {
            json!({"type": type_, "status": status, "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R"})
        };
        assert_eq!(
            served(&with(json!([]))).unwrap_err(),
            "it is not established yet"
        );
        let clash = with(json!([
            one("Established", "False", "not all names are accepted"),
            one("NamesAccepted", "False", "\"ks\" is already in use"),
        ]));
        assert_eq!(served(&clash).unwrap_err(), "\"ks\" is already in use");
        assert_eq!(
            served(&with(json!([one("Established", "True", "")]))),
            Ok(())
        );
    }
}
