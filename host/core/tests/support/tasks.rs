//! How tasks are answered, and what an agent makes of a run that it is asked for.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_api::run::{ProgramSource, ProjectInfo};
use windlass_core::decision::{Slot, Task, TaskKind};
use windlass_core::failure::{Failure, FailureClass};
use windlass_core::obs::{Known, Obs};
use windlass_core::retry::{self, Pauses};
use windlass_core::snapshot::{Resolution, RunEnd, Session, Tree};
use windlass_core::time::Timestamp;

use super::world::Run;
use super::{World, failed, succeeded};

impl World {
    /// Answers tasks as the outside would, and notes what an agent was asked to run.
    pub fn answer(&mut self, tasks: &[Task]) {
        for Task { cause, kind } in tasks {
            let (now, slot) = (self.s.now, kind.slot());
            if let TaskKind::Run { update, instance } = kind {
                self.agent_starts(update, instance);
            }
            let out = self.held.contains(&slot);
            let trouble = self.trouble.get(&slot).cloned();
            let seen = &mut self.s.seen;
            match kind {
                TaskKind::Resolve { .. } => {
                    let value = Resolution {
                        revision: self.revision.clone(),
                        dir: String::new(),
                        poll_after_ms: Some(60_000),
                        workspace_path: false,
                        artifact: json!({"commit": self.revision, "digest": self.content}),
                    };
                    settle_obs(&mut seen.source, cause, now, out, trouble, value);
                }
                TaskKind::Fetch { resolution } => {
                    let value = Tree {
                        program: ProgramSource::Tree {
                            digest: format!("sha256:{}", resolution.revision),
                            dir: String::new(),
                        },
                        subtree: self.subtree.clone(),
                        project: Some(ProjectInfo {
                            name: "app".into(),
                            runtime: "yaml".into(),
                        }),
                    };
                    settle_obs(&mut seen.tree, cause, now, out, trouble, value);
                }
                TaskKind::OpenBackend { .. } => {
                    let value = Session {
                        stack: "org/app/dev".into(),
                        env: BTreeMap::new(),
                        login: self.login.clone(),
                    };
                    settle_obs(&mut seen.backend, cause, now, out, trouble, value);
                }
                TaskKind::Deliver { program, instance } => {
                    if !out && trouble.is_none() {
                        let current = self.s.objects.workspace.current.as_mut();
                        let current = current.expect("it is there");
                        assert_eq!(&current.uid, instance, "only there");
                        current.phase = self.new_workspace.clone();
                        self.delivered.push(program.clone());
                    }
                    settle_obs(&mut seen.program, cause, now, out, trouble, ());
                }
                TaskKind::Run { update, .. } => {
                    let mut summary = self.journal[update].clone();
                    summary.ended_at_ms = now.0;
                    let value = RunEnd {
                        update: update.clone(),
                        has_outputs: summary.outputs.is_some(),
                        summary,
                    };
                    settle_obs(&mut seen.run, cause, now, out, trouble, value);
                }
                TaskKind::Cancel { update, .. } => {
                    if self.held.contains(&Slot::Run) {
                        let cancelled = failed(FailureClass::Cancelled, "cancelled on request");
                        self.journal.insert(update.clone(), cancelled);
                    }
                    settle_obs(&mut seen.cancel, cause, now, out, trouble, ());
                }
            }
        }
    }

    fn agent_starts(&mut self, name: &str, instance: &str) {
        let update = self.update(name).clone();
        let record = update.status.as_ref().and_then(|status| status.run.clone());
        let record = record.expect("a run is recorded before its agent is asked");
        // What was made by hand pins it where it was started.
        let by_hand = record.intent.as_deref().cloned();
        let intent = update.spec.intent.clone().or(by_hand).unwrap();
        assert_eq!(record.instance, instance, "only there");
        let current = self.s.objects.workspace.current.as_ref();
        assert_eq!(
            current.map(|i| i.uid.as_str()),
            Some(instance),
            "it is there"
        );
        if self.journal.contains_key(name) {
            return;
        }
        self.runs.push(Run {
            update: name.to_owned(),
            operation: update.spec.operation().unwrap(),
            cause: intent.cause,
            revision: intent.revision,
        });
        let mut end = self.ends.pop_front().unwrap_or_else(succeeded);
        end.started_at_ms = self.s.now.0;
        self.journal.insert(name.to_owned(), end);
    }
}

fn settle_obs<T>(
    obs: &mut Obs<T>,
    cause: &str,
    now: Timestamp,
    out: bool,
    trouble: Option<Failure>,
    value: T,
) {
    let cause = cause.to_owned();
    let before = std::mem::take(obs);
    let attempts = match &before {
        Obs::Failed {
            cause: asked,
            attempts,
            ..
        } if *asked == cause => *attempts,
        _ => 0,
    };
    let last = match before {
        Obs::Unknown => None,
        Obs::Known(known) => Some(known),
        Obs::Pending { last, .. } | Obs::Failed { last, .. } => last,
    };
    *obs = match trouble {
        _ if out => Obs::Pending {
            since: now,
            cause,
            failed: None,
            last,
        },
        Some(failure) => Obs::Failed {
            at: now,
            attempts: attempts + 1,
            retry_at: failure.class.retries().then(|| {
                retry::next_attempt(
                    now,
                    failure.class,
                    attempts + 1,
                    Pauses::default(),
                    &"world",
                )
            }),
            failure,
            cause,
            last,
        },
        None => Obs::Known(Known {
            at: now,
            cause,
            value,
        }),
    };
}
