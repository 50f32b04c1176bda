//! Brings the cluster's definitions up to this version, as an upgrade does before the operator starts.

use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams};

use crate::api::{ApiError, within};
use crate::definitions::served;
use crate::operator::{OperatorError, client};

/// Who owns the fields of the definitions. Whoever applied them before, kubectl or the Pulumi Kubernetes Operator's chart,
/// owns them no longer.
const MANAGER: &str = "windlass-crds";
/// How long the API server may take until it serves what was applied, and how often it is asked.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(200);

/// Why the definitions are not there.
#[derive(Debug, thiserror::Error)]
pub enum DefineError {
    #[error(transparent)]
    Cluster(#[from] OperatorError),
    #[error(
        "the definition {name} is not applied: {source}. Whoever runs this needs get and patch on it, and create on \
         customresourcedefinitions"
    )]
    Refused { name: String, source: ApiError },
    #[error(
        "the definition {name} is applied and not served: {said}. See `kubectl get crd {name} -o yaml`"
    )]
    NotServed { name: String, said: String },
}

/// Applies the definitions of this version server-side, waits until all are served, and gives their names. Fields of
/// others that ours do not have stay. The cluster is that of `kubeconfig`, else of the pod, else of the usual file.
///
/// # Errors
/// No cluster; the API server refuses, or does not serve, a definition.
pub async fn define(kubeconfig: Option<&Path>) -> Result<Vec<String>, DefineError> {
    let (client, _) = client(kubeconfig).await?;
    let api: Api<CustomResourceDefinition> = Api::all(client);
    let all = windlass_api::crd::all();
    let params = PatchParams::apply(MANAGER).force();
    let mut names = Vec::new();
    for definition in all {
        let name = definition.metadata.name.clone().unwrap_or_default();
        within(api.patch(&name, &params, &Patch::Apply(definition)))
            .await
            .map_err(|source| DefineError::Refused {
                name: name.clone(),
                source,
            })?;
        names.push(name);
    }
    let until = Instant::now() + PATIENCE;
    for name in &names {
        loop {
            let said = match within(api.get(name)).await {
                Ok(live) => match served(&live) {
                    Ok(()) => break,
                    Err(said) => said,
                },
                Err(error) => error.to_string(),
            };
            if Instant::now() > until {
                let name = name.clone();
                return Err(DefineError::NotServed { name, said });
            }
            tokio::time::sleep(LOOK).await;
        }
    }
    Ok(names)
}
