//! How a run ends, and what the real backend adapter makes of it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_api::intent::RunSummary;
use windlass_api::run::{LockInfo, ProjectInfo, RunState};
use windlass_sdk::{Diagnostic, FailureClass, LockHolder, LockVerdict, Outcome, ReportedLock};

use crate::agent::Process;
use crate::planted::Planted;
use crate::pods::hostname;
use crate::world::{Place, World};

/// Stands in every secret output.
pub const CANARY: &str = "canary-7c1f";

/// The true end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Success,
    /// The program is wrong.
    Program,
    Unavailable,
    Locked(Vec<LockInfo>),
    Deadline,
    Interrupted(&'static str),
    Killed,
    /// Not by itself.
    Hangs,
}

impl End {
    pub fn state(&self) -> RunState {
        match self {
            End::Success => RunState::Succeeded,
            End::Interrupted(_) | End::Deadline => RunState::Cancelled,
            End::Program | End::Unavailable | End::Locked(_) | End::Killed | End::Hangs => {
                RunState::Failed
            }
        }
    }

    pub fn locks(&self) -> Vec<LockInfo> {
        match self {
            End::Locked(locks) => locks.clone(),
            _ => Vec::new(),
        }
    }

    pub fn outcome(&self, locks: &[LockInfo]) -> Outcome {
        let mut outcome = Outcome {
            locks: locks.iter().map(reported).collect(),
            ..Outcome::default()
        };
        match self {
            End::Success | End::Hangs => outcome.exit_code = Some(0),
            End::Program => {
                outcome.exit_code = Some(1);
                outcome.diagnostics = vec![Diagnostic {
                    severity: "error".into(),
                    urn: None,
                    message: "resource web: the port is taken".into(),
                }];
            }
            End::Unavailable => {
                outcome.exit_code = Some(255);
                outcome.stderr_tail = "error: dial tcp: connection refused".into();
            }
            End::Locked(_) => {
                outcome.exit_code = Some(255);
                outcome.stderr_tail = "error: the stack is currently locked by 1 lock(s)".into();
            }
            End::Deadline => outcome.interrupted = Some("deadlineExceeded".into()),
            End::Interrupted(cause) => outcome.interrupted = Some((*cause).into()),
            End::Killed => outcome.signal = Some(9),
        }
        outcome
    }
}

fn reported(lock: &LockInfo) -> ReportedLock {
    let LockInfo {
        id,
        user,
        hostname,
        pid,
        created,
        gone: _,
    } = lock.clone();
    ReportedLock {
        id,
        user,
        hostname,
        pid,
        created,
    }
}

/// The end as the Update keeps it. The adapter judges the failure and the locks.
pub fn summarize(
    world: &World,
    place: Place,
    instance: &str,
    state: RunState,
    outcome: Outcome,
    locks: Vec<LockInfo>,
    started: i64,
) -> RunSummary {
    let home = &world.homes[place];
    let locks: Vec<ReportedLock> = locks.iter().map(reported).collect();
    // The slot of the judging instance is free: what ran there is over.
    let dead = home.ended.iter().map(String::as_str).chain([instance]);
    let alive = home
        .pods
        .iter()
        .map(|pod| pod.uid.as_str())
        .filter(|uid| *uid != instance);
    let holders: Vec<LockHolder> = dead
        .map(|uid| (uid, true))
        .chain(alive.map(|uid| (uid, false)))
        .map(|(uid, dead)| LockHolder {
            hostname: hostname(uid),
            dead,
        })
        .collect();
    let always = world.plan.planted == Some(Planted::LiveLockReleased);
    let release = always || backend_diy::stale_lock(&locks, &holders) == LockVerdict::Release;
    let failure = backend_diy::classify(&outcome);
    let succeeded = state == RunState::Succeeded;
    let class = match (state, &outcome.interrupted) {
        (RunState::Lost, _) => "lost",
        // On a person's request: not tried again.
        (_, Some(cause)) if cause == "cancelled" => "cancelled",
        _ => word(&failure.class),
    };
    RunSummary {
        state,
        class: (!succeeded).then(|| class.to_owned()),
        reason: (!succeeded).then_some(failure.reason),
        message: if succeeded {
            String::new()
        } else {
            failure.message
        },
        changes: BTreeMap::new(),
        resources: None,
        outputs: None,
        permalink: None,
        project: Some(ProjectInfo {
            name: "project".into(),
            runtime: "yaml".into(),
        }),
        reached_engine: true,
        stale_locks: if release && !succeeded {
            locks.into_iter().map(|lock| lock.id).collect()
        } else {
            Vec::new()
        },
        started_at_ms: started,
        ended_at_ms: world.now,
    }
}

fn word(class: &FailureClass) -> &'static str {
    match class {
        FailureClass::Program | FailureClass::Other(_) => "program",
        FailureClass::Policy => "policy",
        FailureClass::Unavailable => "unavailable",
        FailureClass::Conflict => "conflict",
        FailureClass::Lost => "lost",
        FailureClass::Invalid => "invalid",
    }
}

/// Outputs as the port hands them on: a secret one is a word.
pub fn outputs(process: &Process, masked: bool) -> BTreeMap<String, Value> {
    let token = if masked {
        windlass_api::names::MASKED_OUTPUT
    } else {
        CANARY
    };
    BTreeMap::from([
        // Changes with some revisions and not with others.
        ("zone".into(), json!(process.deployed.revision.get(..1))),
        ("token".into(), json!(token)),
    ])
}
