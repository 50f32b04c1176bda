//! The life of one Stack in a world where everything succeeds, for snapshots that the decisions themselves have made.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use windlass_api::conditions::{self, COMPLETE, NewCondition, TRUE};
use windlass_api::intent::RunSummary;
use windlass_api::names::FINALIZER;
use windlass_api::run::{ProgramSource, ProjectInfo, RunState};
use windlass_api::{ObjectMeta, Stack, Update};
use windlass_core::decision::{Task, TaskKind, UpdateOutcome, Write};
use windlass_core::obs::{Known, Obs};
use windlass_core::request::update_spec;
use windlass_core::snapshot::{
    Config, Instance, InstancePhase, Objects, Observations, Resolution, RunEnd, Session, Snapshot,
    Tree, WorkspaceView,
};
use windlass_core::time::Timestamp;
use windlass_core::{Decision, decide, record};

use crate::setup::{Trouble, failed};

const BEGINNING: Timestamp = Timestamp(1_767_225_600_000);
/// Far more steps than a run takes.
const MANY: usize = 60;

/// One Stack and what is known of it.
pub struct History {
    snapshot: Snapshot,
    revision: u32,
    held: bool,
}

impl History {
    /// A Stack that has run three times, successfully, and is idle.
    ///
    /// # Errors
    /// Its life does not come to rest.
    pub fn ready() -> Result<Self, Trouble> {
        let stack: Stack = serde_json::from_value(json!({
            "apiVersion": "pulumi.com/v1",
            "kind": "Stack",
            "metadata": {"name": "web", "namespace": "apps", "uid": "0d8a4f5e-web", "generation": 1},
            "spec": {
                "stack": "organization/app/prod",
                "projectRepo": "https://git.example/app",
                "branch": "main",
                "repoDir": "deploy",
                "backend": "s3://state",
                "envRefs": {"PULUMI_CONFIG_PASSPHRASE": {"type": "Literal", "literal": {"value": "x"}}},
                "config": {"app:replicas": "2", "app:zone": "a", "app:size": "small", "app:name": "web"},
                "destroyOnFinalize": true,
            },
        }))?;
        let snapshot = Snapshot {
            now: BEGINNING,
            epoch: 1,
            config: Config {
                default_idle_seconds: None,
                keep_updates: 10,
                workspace_path: false,
            },
            capacity: true,
            objects: Objects {
                stack: Some(stack),
                by_hand: None,
                updates: Vec::new(),
                workspace: WorkspaceView::default(),
                stacks: BTreeMap::new(),
                references: BTreeMap::new(),
                health: Vec::new(),
                refusal: None,
            },
            seen: Observations::default(),
            source_signal: 0,
        };
        let mut history = History {
            snapshot,
            revision: 1,
            held: false,
        };
        history.settle()?;
        for _ in 0..2 {
            history.push();
            history.settle()?;
        }
        // As a saved one comes in.
        history.snapshot = serde_json::from_slice(&serde_json::to_vec(&history.snapshot)?)?;
        Ok(history)
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The next run does not end.
    pub fn hold_run(&mut self) {
        self.held = true;
    }

    /// Ten minutes later there is a new commit.
    pub fn push(&mut self) {
        self.snapshot.now = self.snapshot.now.after(Duration::from_secs(600));
        self.revision += 1;
        self.snapshot.source_signal += 1;
    }

    /// Goes on until nothing changes any more.
    ///
    /// # Errors
    /// It never comes to rest.
    pub fn settle(&mut self) -> Result<(), Trouble> {
        for _ in 0..MANY {
            let decision = decide(&self.snapshot);
            let before = self.snapshot.seen.clone();
            self.step(&decision)?;
            if decision.writes.is_empty() && same(&before, &self.snapshot.seen) {
                return Ok(());
            }
        }
        failed("the Stack does not come to rest")
    }

    /// Goes on until an Update is about to be created, and answers with the snapshot that asks for it.
    ///
    /// # Errors
    /// None is ever created.
    pub fn until_due(&mut self) -> Result<Snapshot, Trouble> {
        for _ in 0..MANY {
            let decision = decide(&self.snapshot);
            if decision
                .writes
                .iter()
                .any(|write| matches!(write, Write::CreateUpdate { .. }))
            {
                return Ok(self.snapshot.clone());
            }
            self.step(&decision)?;
        }
        failed("no run is ever due")
    }

    fn step(&mut self, decision: &Decision) -> Result<(), Trouble> {
        for write in &decision.writes {
            self.write(write)?;
        }
        for task in &decision.tasks {
            self.answer(task);
        }
        Ok(())
    }

    fn write(&mut self, write: &Write) -> Result<(), Trouble> {
        let Snapshot { objects, now, .. } = &mut self.snapshot;
        let Some(stack) = &mut objects.stack else {
            return failed("the Stack is gone");
        };
        match write {
            Write::AddFinalizer => stack.metadata.finalizers = Some(vec![FINALIZER.to_owned()]),
            Write::PutStatus { status } => stack.status = Some((**status).clone()),
            Write::EnsureWorkspace { spec_digest, .. } => {
                objects.workspace.current = Some(Instance {
                    uid: "instance-1".to_owned(),
                    hostname: "web-1".to_owned(),
                    node: None,
                    spec_digest: spec_digest.clone(),
                    phase: InstancePhase::Ready {
                        boot_id: "boot-1".to_owned(),
                    },
                    idle_since: *now,
                });
            }
            Write::CreateUpdate {
                name,
                operation,
                intent,
            } => {
                let mut spec = update_spec(stack, *operation, intent.cause.message());
                spec.intent = Some((**intent).clone());
                let metadata = ObjectMeta {
                    name: Some(name.clone()),
                    namespace: Some("apps".to_owned()),
                    finalizers: Some(vec![FINALIZER.to_owned()]),
                    ..ObjectMeta::default()
                };
                objects.updates.push(Update {
                    metadata,
                    spec,
                    status: None,
                });
            }
            Write::RecordStart { update, record } => {
                let update = named(&mut objects.updates, update)?;
                update.status.get_or_insert_default().run = Some(record.clone());
            }
            Write::UpdateWaits { .. } => {
                unreachable!("nobody makes Updates by hand here")
            }
            Write::FinishUpdate { update, outcome } => {
                finish(named(&mut objects.updates, update)?, outcome, *now)
            }
            Write::ReleaseUpdate { update } => {
                named(&mut objects.updates, update)?.metadata.finalizers = None
            }
            Write::SaveOutputs { .. } | Write::Event { .. } => {}
            other @ (Write::RequestReconcile { .. }
            | Write::StopWorkspace { .. }
            | Write::DeleteUpdate { .. }
            | Write::RemoveFinalizer) => return failed(format!("not expected here: {other:?}")),
        }
        Ok(())
    }

    fn answer(&mut self, task: &Task) {
        let (now, revision) = (self.snapshot.now, format!("{:040x}", self.revision));
        let Task { cause, kind } = task;
        let seen = &mut self.snapshot.seen;
        match kind {
            TaskKind::Resolve { .. } => {
                let artifact = json!({"type": "gitTree", "url": "https://git.example/app", "commit": revision});
                let dir = "deploy".to_owned();
                let value = Resolution {
                    revision,
                    dir,
                    poll_after_ms: Some(60_000),
                    workspace_path: false,
                    artifact,
                };
                seen.source = known(now, cause, value);
            }
            TaskKind::Fetch { resolution } => {
                let digest = format!("sha256:{}", resolution.revision);
                let program = ProgramSource::Tree {
                    digest,
                    dir: "deploy".to_owned(),
                };
                let value = Tree {
                    program,
                    subtree: resolution.revision.clone(),
                    project: Some(project()),
                };
                seen.tree = known(now, cause, value);
            }
            TaskKind::OpenBackend { .. } => {
                let env =
                    BTreeMap::from([("PULUMI_BACKEND_URL".to_owned(), "s3://state".to_owned())]);
                seen.backend = known(
                    now,
                    cause,
                    Session {
                        stack: "organization/app/prod".to_owned(),
                        env,
                        login: None,
                    },
                );
            }
            TaskKind::Deliver { .. } => seen.program = known(now, cause, ()),
            TaskKind::Run { .. } if self.held => {
                if !matches!(&seen.run, Obs::Pending { cause: asked, .. } if asked == cause) {
                    seen.run = Obs::Pending {
                        since: now,
                        cause: cause.clone(),
                        failed: None,
                        last: None,
                    };
                }
            }
            TaskKind::Run { update, .. } => {
                let value = RunEnd {
                    update: update.clone(),
                    summary: succeeded(now),
                    has_outputs: true,
                };
                seen.run = known(now, cause, value);
            }
            TaskKind::Cancel { .. } => seen.cancel = known(now, cause, ()),
        }
    }
}

fn named<'a>(updates: &'a mut [Update], name: &str) -> Result<&'a mut Update, Trouble> {
    let found = updates
        .iter_mut()
        .find(|update| update.metadata.name.as_deref() == Some(name));
    found.ok_or_else(|| Trouble::Failed(format!("there is no Update {name}")))
}

fn finish(update: &mut Update, outcome: &UpdateOutcome, now: Timestamp) {
    let status = update.status.get_or_insert_default();
    if let UpdateOutcome::Ended { summary } = outcome {
        status.summary = Some(summary.clone());
    }
    let complete = NewCondition {
        type_: COMPLETE,
        status: TRUE,
        reason: "Complete",
        message: "",
        observed_generation: None,
    };
    conditions::set(&mut status.conditions, &complete, &record::time(now.0));
}

fn known<T>(at: Timestamp, cause: &str, value: T) -> Obs<T> {
    Obs::Known(Known {
        at,
        cause: cause.to_owned(),
        value,
    })
}

fn project() -> ProjectInfo {
    ProjectInfo {
        name: "app".to_owned(),
        runtime: "yaml".to_owned(),
    }
}

fn succeeded(now: Timestamp) -> RunSummary {
    let outputs = [
        ("address", json!("10.20.0.1")),
        ("zone", json!("a")),
        ("login", json!("[secret]")),
    ];
    RunSummary {
        state: RunState::Succeeded,
        class: None,
        reason: None,
        message: String::new(),
        changes: BTreeMap::from([("same".to_owned(), 3)]),
        resources: Some(3),
        outputs: Some(
            outputs
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        ),
        permalink: None,
        project: Some(project()),
        reached_engine: true,
        stale_locks: Vec::new(),
        started_at_ms: now.0,
        ended_at_ms: now.0,
    }
}

fn same(before: &Observations, after: &Observations) -> bool {
    let Observations {
        source,
        tree,
        backend,
        program,
        run,
        cancel,
    } = before;
    *source == after.source
        && *tree == after.tree
        && *backend == after.backend
        && *program == after.program
        && *run == after.run
        && *cancel == after.cancel
}
