//! What one Stack sees of another.

use std::collections::BTreeMap;

use windlass_api::Stack;

use crate::digest::digest;
use crate::names::{generation, reconcile_request};
use crate::snapshot::{LastRunView, StackView};
use crate::time::Timestamp;

/// The view of a Stack. `stored` answers the digest of the value that is stored for an output, where there is one: what
/// the status shows of a secret output never changes.
pub fn of(stack: &Stack, stored: &dyn Fn(&str) -> Option<String>) -> StackView {
    let last = stack
        .status
        .as_ref()
        .and_then(|status| status.last_update.as_ref());
    let prerequisites = stack
        .spec
        .prerequisites
        .iter()
        .filter_map(|p| Some(p.normalize().ok()?.name))
        .collect();
    StackView {
        generation: generation(stack),
        reconcile_request: reconcile_request(stack).map(str::to_owned),
        deleting: stack.metadata.deletion_timestamp.is_some(),
        last: last.map(|last| LastRunView {
            name: last.name.clone().unwrap_or_default(),
            generation: last.generation,
            reconcile_request: last.reconcile_request.clone(),
            succeeded: last.succeeded(),
            at: Timestamp(last.resync_time_ms()),
        }),
        prerequisites,
        outputs: output_digests(stack, stored),
    }
}

/// A digest for each output: of the value as it is stored, else of what the status shows.
fn output_digests(
    stack: &Stack,
    stored: &dyn Fn(&str) -> Option<String>,
) -> BTreeMap<String, String> {
    let outputs = stack
        .status
        .as_ref()
        .and_then(|status| status.outputs.as_ref());
    outputs
        .into_iter()
        .flatten()
        .map(|(name, shown)| {
            let digest = stored(name).unwrap_or_else(|| digest(&(name, shown)));
            (name.clone(), digest)
        })
        .collect()
}
