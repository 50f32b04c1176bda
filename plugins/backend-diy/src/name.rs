//! Names of stacks. A self-managed backend knows one organisation, literally `organization`.

use windlass_sdk::{ErrorClass, PluginError};

const ORGANIZATION: &str = "organization";
const LONGEST: usize = 100;

/// `organization/PROJECT/STACK` for `STACK`, `organization/STACK` or the full form.
///
/// # Errors
/// `invalid` `StackNameInvalid`; `not-found` `ProjectUnknown` for a short name while the project is not known.
pub fn canonical(stack: &str, project: Option<&str>) -> Result<String, PluginError> {
    let parts: Vec<&str> = stack.split('/').collect();
    let (organization, named, name) = match parts.as_slice() {
        [name] => (ORGANIZATION, None, *name),
        [organization, name] => (*organization, None, *name),
        [organization, project, name] => (*organization, Some(*project), *name),
        _ => {
            return Err(invalid(
                stack,
                "a stack name has at most three parts: organization/PROJECT/STACK",
            ));
        }
    };
    if organization != ORGANIZATION {
        return Err(invalid(
            stack,
            "the organization of a self-managed backend must be \"organization\"",
        ));
    }
    let project = match (named, project) {
        (Some(named), Some(project)) if named != project => {
            return Err(invalid(
                stack,
                &format!("the project of the program is {project:?}"),
            ));
        }
        (Some(named), _) => named,
        (None, Some(project)) => project,
        (None, None) => {
            return Err(PluginError::new(
                ErrorClass::NotFound,
                "ProjectUnknown",
                format!("stack name {stack:?} is short, and the name of the project is not known"),
            ));
        }
    };
    for (what, part) in [("project", project), ("stack", name)] {
        if !is_name(part) {
            return Err(invalid(
                stack,
                &format!(
                    "the {what} must be 1 to {LONGEST} letters, digits, hyphens, underscores or periods"
                ),
            ));
        }
    }
    Ok(format!("{ORGANIZATION}/{project}/{name}"))
}

fn is_name(part: &str) -> bool {
    (1..=LONGEST).contains(&part.len())
        && part
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn invalid(stack: &str, message: &str) -> PluginError {
    PluginError::invalid(
        "StackNameInvalid",
        format!("stack name {stack:?}: {message}"),
    )
}
