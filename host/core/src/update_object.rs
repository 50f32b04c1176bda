//! Update objects: made from a Stack and its template, started, finished with an outcome. What every store writes the
//! same way.

use serde_json::Value;
use windlass_api::conditions::{COMPLETE, FAILED, NewCondition, PROGRESSING, set, update_reason};
use windlass_api::names;
use windlass_api::run::{Operation, RunState};
use windlass_api::update::{UpdateSpec, UpdateStatus};
use windlass_api::{ObjectMeta, Stack, Update};

use crate::decision::UpdateOutcome;
use crate::record::time;
use crate::request::update_spec;
use crate::time::Timestamp;
use windlass_api::intent::RunRecord;

/// The Update's fields from the Stack, with its template merged over them.
pub fn templated(stack: &Stack, operation: Operation, message: String) -> UpdateSpec {
    let plain = update_spec(stack, operation, message);
    let template = stack
        .spec
        .update_template
        .as_ref()
        .and_then(|template| template.spec.as_ref());
    let Some(template) = template else {
        return plain;
    };
    let merged = (|| {
        let mut base = serde_json::to_value(&plain).ok()?;
        let over = serde_json::to_value(template).ok()?;
        let (Value::Object(base_fields), Value::Object(over)) = (&mut base, over) else {
            return None;
        };
        base_fields.extend(over);
        serde_json::from_value(base).ok()
    })();
    let mut merged: UpdateSpec = merged.unwrap_or(plain);
    // A template made for deployments must not keep a Stack from being destroyed.
    if operation == Operation::Destroy {
        merged.type_ = Some(operation.as_str().to_owned());
    }
    merged
}

/// The status of an Update whose run is about to be handed to an agent.
pub fn start(update: &mut Update, record: &RunRecord, now: Timestamp) {
    let generation = update.metadata.generation;
    let status = update.status.get_or_insert_default();
    status.observed_generation = generation;
    status.run = Some(record.clone());
    status.start_time = Some(time(record.at_ms));
    conditions(
        status,
        [true, false, false],
        update_reason::PROGRESSING,
        update_reason::PROGRESSING,
        now,
    );
}

/// The status of an Update that was made by hand and cannot start yet.
pub fn waits(update: &mut Update, reason: &str, message: &str, now: Timestamp) {
    let generation = update.metadata.generation;
    let status = update.status.get_or_insert_default();
    status.observed_generation = generation;
    let now = time(now.0);
    for (type_, message) in [(PROGRESSING, message), (FAILED, ""), (COMPLETE, "")] {
        let new = NewCondition {
            type_,
            status: "False",
            reason,
            message,
            observed_generation: None,
        };
        set(&mut status.conditions, &new, &now);
    }
}

/// The status of an Update that is over. `outputs_secret` is the name under which its outputs were kept, where it has
/// any.
pub fn finish(update: &mut Update, outcome: &UpdateOutcome, outputs_secret: &str, now: Timestamp) {
    let generation = update.metadata.generation;
    let status = update.status.get_or_insert_default();
    status.observed_generation = generation;
    status.progress = None;
    match outcome {
        UpdateOutcome::Superseded => {
            status.message = Some("the inputs changed before the run started".to_owned());
            conditions(
                status,
                [false, true, true],
                update_reason::SUPERSEDED,
                update_reason::SUPERSEDED,
                now,
            );
        }
        UpdateOutcome::Ended { summary } => {
            let failed = summary.state != RunState::Succeeded;
            status.start_time = Some(time(summary.started_at_ms));
            status.end_time = Some(time(summary.ended_at_ms));
            status.permalink = summary.permalink.clone();
            status.message = (!summary.message.is_empty()).then(|| summary.message.clone());
            status.project_info = summary.project.clone();
            if summary.outputs.is_some() {
                status.outputs = Some(outputs_secret.to_owned());
            }
            let reason = match (&summary.reason, failed) {
                (Some(reason), true) => reason.clone(),
                (None, true) => update_reason::UPDATE_FAILED.to_owned(),
                (_, false) => update_reason::UPDATE_SUCCEEDED.to_owned(),
            };
            status.summary = Some(summary.clone());
            conditions(
                status,
                [false, failed, true],
                &reason,
                update_reason::UPDATED,
                now,
            );
        }
    }
}

/// Progressing, Failed, Complete are always written together.
fn conditions(
    status: &mut UpdateStatus,
    values: [bool; 3],
    failed_reason: &str,
    complete_reason: &str,
    now: Timestamp,
) {
    let now = time(now.0);
    let reasons = [update_reason::PROGRESSING, failed_reason, complete_reason];
    for ((type_, value), reason) in [PROGRESSING, FAILED, COMPLETE]
        .into_iter()
        .zip(values)
        .zip(reasons)
    {
        let status_text = if value { "True" } else { "False" };
        let reason = if type_ == PROGRESSING && !value {
            update_reason::COMPLETE
        } else {
            reason
        };
        let new = NewCondition {
            type_,
            status: status_text,
            reason,
            message: "",
            observed_generation: None,
        };
        set(&mut status.conditions, &new, &now);
    }
}

/// Metadata of what belongs to a Stack: its name, namespace and labels.
pub fn metadata(namespace: &str, stack: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        labels: Some(
            [
                (
                    names::COMPONENT_LABEL.to_owned(),
                    names::COMPONENT_STACK.to_owned(),
                ),
                (names::STACK_NAME_LABEL.to_owned(), stack.to_owned()),
            ]
            .into(),
        ),
        ..ObjectMeta::default()
    }
}
