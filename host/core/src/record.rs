//! What a finished Update leaves in its Stack's status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::intent::{RunIntent, RunSummary};
use windlass_api::run::{Operation, ProjectInfo, RunState};
use windlass_api::stack::{LastUpdate, StackSpec, StackStatus, UpdateState};

use crate::due;
use crate::failure::FailureClass;

/// Returns the status with the run recorded: `lastUpdate`, outputs, project; `currentUpdate` is over.
pub fn record(
    mut status: StackStatus,
    uid: &str,
    spec: &StackSpec,
    update: &str,
    operation: Operation,
    intent: &RunIntent,
    summary: &RunSummary,
) -> StackStatus {
    let succeeded = summary.state == RunState::Succeeded;
    let previous = status.last_update.take();
    let mut last = LastUpdate {
        generation: intent.generation,
        reconcile_request: intent.reconcile_request.clone(),
        name: Some(update.to_owned()),
        type_: Some(operation.as_str().to_owned()),
        state: Some(if succeeded {
            UpdateState::Succeeded
        } else {
            UpdateState::Failed
        }),
        message: (!summary.message.is_empty()).then(|| summary.message.clone()),
        last_attempted_commit: Some(intent.revision.clone()),
        last_successful_commit: if succeeded {
            Some(intent.revision.clone())
        } else {
            previous
                .as_ref()
                .and_then(|p| p.last_successful_commit.clone())
        },
        permalink: summary.permalink.clone(),
        last_resync_time: Some(time(summary.ended_at_ms)),
        failures: if succeeded {
            0
        } else {
            failures(previous.as_ref(), intent)
        },
        sequence: intent.sequence,
        next_attempt: None,
        failure_class: if succeeded {
            None
        } else {
            summary.class.clone()
        },
        failure_reason: if succeeded {
            None
        } else {
            summary.reason.clone()
        },
        stack_outputs: Some(intent.stack_outputs.clone()).filter(|digest| !digest.is_empty()),
        resources: summary
            .resources
            .or_else(|| previous.as_ref().and_then(|p| p.resources)),
        subtree: intent.subtree.clone(),
        source_digest: intent.source_digest.clone(),
    };
    if !succeeded && FailureClass::parse(last.failure_class.as_deref()).retries() {
        last.next_attempt = Some(time(due::next_attempt(uid, spec, &last).0));
    }
    status.last_update = Some(last);
    status.current_update = None;
    if let Some(project) = &summary.project {
        status.project_info = Some(project.clone());
    }
    let destroyed = succeeded && operation == Operation::Destroy;
    if destroyed {
        status.outputs = None;
    } else if succeeded && let Some(outputs) = &summary.outputs {
        status.outputs = Some(outputs.clone());
    }
    let touched =
        operation.mutates() && (summary.reached_engine || summary.state == RunState::Lost);
    if touched && status.project_info.is_none() {
        // A run that was lost tells nothing of its project, but its destroy has to name one.
        status.project_info = project_of(&intent.stack);
    }
    if destroyed {
        status.mutated = Some(false);
    } else if touched {
        status.mutated = Some(true);
    } else if previous.is_none() {
        // The first run of all made nothing, so nothing can remain. After others, whose notes are not ours, who knows.
        status.mutated.get_or_insert(false);
    }
    status
}

/// The project in a canonical stack name. Its runtime is of no use to a destroy without program.
fn project_of(stack: &str) -> Option<ProjectInfo> {
    let name = stack.split('/').rev().nth(1)?;
    Some(ProjectInfo {
        name: name.to_owned(),
        runtime: "yaml".to_owned(),
    })
}

/// Failures in a row for one cause: success, an edit, a request, a new revision or new inputs begin again at one.
fn failures(previous: Option<&LastUpdate>, intent: &RunIntent) -> i64 {
    match previous {
        Some(last)
            if last.state == Some(UpdateState::Failed)
                && last.generation == intent.generation
                && last.reconcile_request.as_deref().unwrap_or_default()
                    == intent.reconcile_request.as_deref().unwrap_or_default()
                && last.last_attempted_commit.as_deref().unwrap_or_default() == intent.revision
                && !due::other_content(intent.source_digest.as_deref(), last)
                && last.stack_outputs.as_deref().unwrap_or_default() == intent.stack_outputs =>
        {
            last.failures.max(0) + 1
        }
        _ => 1,
    }
}

/// Whether resources may exist: a run that could have made some was started and not undone. For a Stack that the
/// Pulumi Kubernetes Operator left behind there is no such note; its last run decides.
pub fn may_have_resources(status: &StackStatus) -> bool {
    status.mutated.unwrap_or_else(|| {
        status.project_info.is_some()
            || status
                .outputs
                .as_ref()
                .is_some_and(|outputs| !outputs.is_empty())
            || status
                .last_update
                .as_ref()
                .is_some_and(|last| last.operation().is_none_or(Operation::mutates))
    })
}

/// Kubernetes time, in whole seconds as the API stores it.
pub fn time(ms: i64) -> Time {
    Time(k8s_openapi::jiff::Timestamp::from_second(ms.div_euclid(1000)).unwrap_or_default())
}
