//! Whether a run is due, and why. The order of the questions is the Pulumi Kubernetes Operator's.

use std::time::Duration;

use windlass_api::intent::Cause;
use windlass_api::run::Operation;
use windlass_api::stack::{LastUpdate, StackSpec, UpdateState};

use crate::failure::FailureClass;
use crate::retry::{self, Pauses};
use crate::time::Timestamp;

/// What the question depends on.
pub struct Question<'a> {
    pub uid: &'a str,
    pub spec: &'a StackSpec,
    pub generation: i64,
    pub reconcile_request: Option<&'a str>,
    pub deleting: bool,
    /// The source's revision. None while unknown: then nothing that depends on it is due.
    pub revision: Option<&'a str>,
    /// The digest of the source's content, where the source states one.
    pub source_digest: Option<&'a str>,
    /// Digest over the outputs of other Stacks in use.
    pub stack_outputs: &'a str,
    pub last: Option<&'a LastUpdate>,
    pub now: Timestamp,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Run now.
    Now(Cause),
    /// In step; run again at this time if at all.
    Synced { until: Option<Timestamp> },
    /// The last run failed; tried again then.
    Backoff { until: Timestamp },
    /// The last run failed, and time alone does not bring another attempt.
    GivenUp,
}

/// Judges whether a run is due.
pub fn due(q: &Question<'_>) -> Due {
    let Some(last) = q.last else {
        return Due::Now(if q.deleting {
            Cause::Deletion
        } else {
            Cause::Initial
        });
    };
    if last.generation != q.generation {
        return Due::Now(if q.deleting {
            Cause::Deletion
        } else {
            Cause::NewGeneration {
                generation: q.generation,
            }
        });
    }
    if last.reconcile_request.as_deref().unwrap_or_default()
        != q.reconcile_request.unwrap_or_default()
    {
        return Due::Now(Cause::ReconcileRequest {
            value: q.reconcile_request.unwrap_or_default().to_owned(),
        });
    }
    match last.state {
        Some(UpdateState::Failed) => after_failure(q, last),
        Some(UpdateState::Succeeded) => after_success(q, last),
        // Written by nobody; like the operator that this one replaces, leave it alone.
        Some(UpdateState::Other(_)) | None => Due::Synced { until: None },
    }
}

fn after_success(q: &Question<'_>, last: &LastUpdate) -> Due {
    if q.deleting {
        let destroyed = last.operation() == Some(Operation::Destroy);
        return if destroyed {
            Due::Synced { until: None }
        } else {
            Due::Now(Cause::Deletion)
        };
    }
    if let Some(revision) = q.revision
        && (last.last_successful_commit.as_deref().unwrap_or_default() != revision
            || other_content(q.source_digest, last))
    {
        return Due::Now(Cause::NewRevision {
            revision: revision.to_owned(),
        });
    }
    if last.stack_outputs.as_deref().unwrap_or_default() != q.stack_outputs {
        return Due::Now(Cause::InputsChanged);
    }
    if !q.spec.continue_resync_on_commit_match {
        return Due::Synced { until: None };
    }
    let next = Timestamp(last.resync_time_ms()).after(resync_interval(q.spec));
    if next <= q.now {
        Due::Now(Cause::Resync)
    } else {
        Due::Synced { until: Some(next) }
    }
}

fn after_failure(q: &Question<'_>, last: &LastUpdate) -> Due {
    if !q.deleting
        && let Some(revision) = q.revision
        && (last.last_attempted_commit.as_deref().unwrap_or_default() != revision
            || other_content(q.source_digest, last))
    {
        return Due::Now(Cause::NewRevision {
            revision: revision.to_owned(),
        });
    }
    if !q.deleting && last.stack_outputs.as_deref().unwrap_or_default() != q.stack_outputs {
        return Due::Now(Cause::InputsChanged);
    }
    let class = FailureClass::parse(last.failure_class.as_deref());
    let limit = q
        .spec
        .retry
        .as_ref()
        .and_then(|retry| retry.limit)
        .map(i64::from);
    if !class.retries() || limit.is_some_and(|limit| last.failures > limit) {
        return Due::GivenUp;
    }
    let next = next_attempt(q.uid, q.spec, last);
    if next <= q.now {
        Due::Now(Cause::Retry {
            attempt: last.failures + 1,
        })
    } else {
        Due::Backoff { until: next }
    }
}

/// Other content under the same revision, as when a Flux object comes to ignore other files. A last run that noted no
/// digest, such as one of the Pulumi Kubernetes Operator, is no reason.
pub(crate) fn other_content(digest: Option<&str>, last: &LastUpdate) -> bool {
    matches!((digest, last.source_digest.as_deref()), (Some(now), Some(then)) if now != then)
}

/// The time of the attempt that follows a failed run.
pub fn next_attempt(uid: &str, spec: &StackSpec, last: &LastUpdate) -> Timestamp {
    let class = FailureClass::parse(last.failure_class.as_deref());
    let seconds = |value: Option<i64>| {
        value
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs)
    };
    let policy = spec.retry.as_ref();
    let pauses = Pauses {
        first: seconds(policy.and_then(|retry| retry.initial_backoff_seconds)),
        cap: seconds(
            policy
                .and_then(|retry| retry.max_backoff_seconds)
                .or(spec.retry_max_backoff_duration_seconds),
        ),
    };
    retry::next_attempt(
        Timestamp(last.resync_time_ms()),
        class,
        last.failures.max(1),
        pauses,
        &(uid, last.generation, class),
    )
}

/// `resyncFrequencySeconds`, at least a minute.
pub fn resync_interval(spec: &StackSpec) -> Duration {
    Duration::from_secs(
        u64::try_from(spec.resync_frequency_seconds.unwrap_or(0))
            .unwrap_or(0)
            .max(60),
    )
}
