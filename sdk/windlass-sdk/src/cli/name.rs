//! Names of stacks, as the CLI reads them.

use crate::error::PluginError;

const LONGEST: usize = 100;

/// A stack's name in its parts. Which of them a backend needs, and what an absent one stands for, is its own rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackName<'a> {
    pub organization: Option<&'a str>,
    /// As the name says, else the program's, where that is known.
    pub project: Option<&'a str>,
    pub stack: &'a str,
}

impl<'a> StackName<'a> {
    /// Reads `STACK`, `ORGANIZATION/STACK` or `ORGANIZATION/PROJECT/STACK`. `project` is the program's, if it is known.
    ///
    /// # Errors
    /// `invalid` `StackNameInvalid`: more parts, characters that the CLI refuses, another project than the program's.
    /// The organization is not looked at.
    pub fn parse(text: &'a str, project: Option<&'a str>) -> Result<Self, PluginError> {
        let parts: Vec<&str> = text.split('/').collect();
        let (organization, named, stack) = match parts.as_slice() {
            [stack] => (None, None, *stack),
            [organization, stack] => (Some(*organization), None, *stack),
            [organization, project, stack] => (Some(*organization), Some(*project), *stack),
            _ => {
                return Err(Self::invalid(
                    text,
                    "it has at most three parts: ORGANIZATION/PROJECT/STACK",
                ));
            }
        };
        if let (Some(named), Some(project)) = (named, project)
            && named != project
        {
            return Err(Self::invalid(
                text,
                &format!("the project of the program is {project:?}"),
            ));
        }
        let project = named.or(project);
        for (what, part) in [("project", project), ("stack", Some(stack))] {
            if part.is_some_and(|part| !is_name(part)) {
                return Err(Self::invalid(
                    text,
                    &format!(
                        "the {what} must be 1 to {LONGEST} letters, digits, hyphens, underscores or periods"
                    ),
                ));
            }
        }
        Ok(StackName {
            organization,
            project,
            stack,
        })
    }

    /// The error for a name that cannot be meant: `invalid` `StackNameInvalid`.
    pub fn invalid(text: &str, message: &str) -> PluginError {
        PluginError::invalid(
            "StackNameInvalid",
            format!("stack name {text:?}: {message}"),
        )
    }
}

fn is_name(part: &str) -> bool {
    (1..=LONGEST).contains(&part.len())
        && part
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}
