//! Names of stacks, as far as they can be completed without asking the service.

use std::fmt;

use windlass_sdk::PluginError;
use windlass_sdk::cli::StackName;

/// A stack's name. The CLI completes what is absent here: the organization from the token, the project from the program.
#[derive(Debug)]
pub struct Name {
    pub organization: Option<String>,
    pub project: Option<String>,
    pub stack: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.organization, &self.project) {
            (Some(organization), Some(project)) => {
                write!(f, "{organization}/{project}/{}", self.stack)
            }
            (Some(organization), None) => write!(f, "{organization}/{}", self.stack),
            // There is no form with a project and no organization.
            (None, _) => f.write_str(&self.stack),
        }
    }
}

/// Reads `STACK`, `ORGANIZATION/STACK` or `ORGANIZATION/PROJECT/STACK`; `fallback` is the administrator's organization
/// for names without one.
///
/// # Errors
/// `invalid` `StackNameInvalid`.
pub fn canonical(
    text: &str,
    project: Option<&str>,
    fallback: Option<&str>,
) -> Result<Name, PluginError> {
    let StackName {
        organization,
        project,
        stack,
    } = StackName::parse(text, project)?;
    if organization.is_some_and(|organization| !is_organization(organization)) {
        return Err(StackName::invalid(
            text,
            "the organization must be 3 to 40 letters, digits, hyphens or underscores, with a letter or digit at both ends",
        ));
    }
    Ok(Name {
        organization: organization.or(fallback).map(str::to_owned),
        project: project.map(str::to_owned),
        stack: stack.to_owned(),
    })
}

/// The CLI's rule for owners of stacks.
pub fn is_organization(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    (3..=40).contains(&bytes.len())
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}
