//! What the rest of the core reads from a Stack's metadata.

use windlass_api::Stack;
use windlass_api::names::RECONCILE_REQUEST_ANNOTATION;

pub fn uid(stack: &Stack) -> &str {
    stack.metadata.uid.as_deref().unwrap_or_default()
}

pub fn stack_name(stack: &Stack) -> &str {
    stack.metadata.name.as_deref().unwrap_or_default()
}

pub fn generation(stack: &Stack) -> i64 {
    stack.metadata.generation.unwrap_or_default()
}

/// The value of the annotation that asks for a run.
pub fn reconcile_request(stack: &Stack) -> Option<&str> {
    stack
        .metadata
        .annotations
        .as_ref()?
        .get(RECONCILE_REQUEST_ANNOTATION)
        .map(String::as_str)
}
