//! What the journal may hold of requests and results: everything but the values of secrets.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_api::run::{ConfigItem, ConfigValue, RunRequest, RunResult};

use crate::redact::MASK;

/// What the journal may hold of a request.
pub fn masked_request(request: &RunRequest) -> RunRequest {
    let mut request = request.clone();
    for ConfigItem { value, secret, .. } in &mut request.config {
        if let (true, ConfigValue::Inline { value }) = (*secret, value) {
            *value = MASK.into();
        }
    }
    request
}

pub fn masked_result(result: &RunResult) -> RunResult {
    let mut result = result.clone();
    for output in result
        .outputs
        .iter_mut()
        .flat_map(BTreeMap::values_mut)
        .filter(|o| o.secret)
    {
        output.value = Value::from(MASK);
    }
    result
}
