//! The Flux source provider: the artifact that another controller keeps for an object of the Stack's namespace.

mod artifact;
mod spec;

use serde_json::Value;
use windlass_sdk::{
    Artifact, Descriptor, ErrorClass, Fault, FieldError, Host, Level, ObjectRef, Plugin,
    PluginError, Resolution, SourceProvider, SourceRequest, Wants,
};

use artifact::Found;
use spec::Spec;

/// The plugin.
pub struct Flux;

/// Kinds whose objects carry an artifact that can hold a program. Others are the administrator's to name.
const KINDS: [&str; 4] = [
    "source.toolkit.fluxcd.io/GitRepository",
    "source.toolkit.fluxcd.io/OCIRepository",
    "source.toolkit.fluxcd.io/Bucket",
    "source.toolkit.fluxcd.io/ExternalArtifact",
];

/// PKO's word for a source that cannot be had now.
const UNAVAILABLE: &str = "SourceUnavailable";

impl Plugin for Flux {
    fn describe() -> Descriptor {
        Descriptor {
            name: "source-flux".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Programs that Flux has fetched: any object with an artifact in its status"
                .into(),
            sources: vec!["flux".into()],
            wants: Wants {
                interfaces: vec!["kube".into()],
                kinds: KINDS
                    .iter()
                    .copied()
                    // And whatever else the policy lists for this plugin.
                    .chain(["*"])
                    .map(str::to_owned)
                    .collect(),
                // Artifacts are where the source's controller says, as a rule at an address of the cluster.
                any_host: true,
                ..Wants::default()
            },
            ..Descriptor::default()
        }
    }
}

impl SourceProvider for Flux {
    fn validate(_: &(impl Host + ?Sized), spec: &Value) -> Vec<FieldError> {
        Spec::read(spec).err().into_iter().collect()
    }

    fn watches(_: &(impl Host + ?Sized), spec: &Value) -> Vec<ObjectRef> {
        Spec::read(spec)
            .map(|spec| spec.source)
            .into_iter()
            .collect()
    }

    fn resolve(
        host: &(impl Host + ?Sized),
        request: &SourceRequest,
    ) -> Result<Resolution, PluginError> {
        resolve(host, request)
    }
}

/// Names the artifact of the object that the Stack refers to. The revision is the artifact's, as PKO has it.
///
/// A source that is not ready now but has an artifact is taken: Flux serves the last good one on purpose.
///
/// # Errors
/// `invalid` `SpecInvalid` for a reference that cannot be meant, `not-found` `SourceUnavailable` without the object,
/// `unavailable` `SourceUnavailable` while it has no artifact, `unavailable` `ArtifactInvalid` for an artifact that cannot
/// be fetched and checked; of the host's own errors the class stays.
pub fn resolve(
    host: &(impl Host + ?Sized),
    request: &SourceRequest,
) -> Result<Resolution, PluginError> {
    let Spec { source, dir } = Spec::read(&request.spec)
        .map_err(|error| PluginError::invalid("SpecInvalid", error.message))?;
    let object = host.kube_get(&source).map_err(unresolved)?.ok_or_else(|| {
        PluginError::new(
            ErrorClass::NotFound,
            UNAVAILABLE,
            format!(
                "could not resolve sourceRef: {} {:?} ({}) does not exist in this namespace",
                source.kind, source.name, source.api_version
            ),
        )
    })?;
    let Found {
        url,
        revision,
        digest,
        trouble,
    } = artifact::of(&source, &object)?;
    if let Some(trouble) = trouble {
        host.log(
            Level::Warn,
            &format!(
                "{} {:?} {trouble}; its last artifact is used",
                source.kind, source.name
            ),
        );
    }
    Ok(Resolution {
        revision,
        artifact: Artifact::Archive {
            url,
            digest,
            auth: None,
        },
        dir,
        // The object is watched.
        poll_after_ms: None,
    })
}

/// The host's error with what was asked, and what can be done about a denial.
fn unresolved(error: PluginError) -> PluginError {
    let Fault {
        class,
        reason,
        message,
        retry_after_ms,
    } = match error {
        PluginError::Fault(fault) => fault,
        PluginError::Ask(_) => return error,
    };
    let advice = match class {
        ErrorClass::Denied => {
            "; the administrator can allow it: plugins.source-flux.kinds in the policy, and a right to read such objects"
        }
        ErrorClass::NotFound => "; see whether the controller that brings this kind is installed",
        _ => "",
    };
    PluginError::Fault(Fault {
        class,
        reason,
        message: format!("could not resolve sourceRef: {message}{advice}"),
        retry_after_ms,
    })
}

windlass_sdk::export_plugin!(Flux: source);

#[cfg(test)]
mod tests;
