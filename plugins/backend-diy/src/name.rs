//! Names of stacks. A self-managed backend knows one organisation, literally `organization`.

use windlass_sdk::cli::StackName;
use windlass_sdk::{ErrorClass, PluginError};

const ORGANIZATION: &str = "organization";

/// `organization/PROJECT/STACK` for `STACK`, `organization/STACK` or the full form.
///
/// # Errors
/// `invalid` `StackNameInvalid`; `not-found` `ProjectUnknown` for a short name while the project is not known.
pub fn canonical(text: &str, project: Option<&str>) -> Result<String, PluginError> {
    let StackName {
        organization,
        project,
        stack,
    } = StackName::parse(text, project)?;
    if organization.is_some_and(|organization| organization != ORGANIZATION) {
        return Err(StackName::invalid(
            text,
            "the organization of a self-managed backend must be \"organization\"",
        ));
    }
    let project = project.ok_or_else(|| {
        PluginError::new(
            ErrorClass::NotFound,
            "ProjectUnknown",
            format!("stack name {text:?} is short, and the name of the project is not known"),
        )
    })?;
    Ok(format!("{ORGANIZATION}/{project}/{stack}"))
}
