//! What Argo CD is told of our kinds, asked of the real Argo CD without a cluster: health of everything that the operator
//! writes, the same as the operator's own rule has it; actions.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_api::intent::RunSummary;
use windlass_api::run::{Operation, RunState};
use windlass_api::{Program, Update, Workspace};
use windlass_cluster::argocd_binary;
use windlass_core::decision::UpdateOutcome;
use windlass_core::failure::FailureClass;
use windlass_core::phase::{Phase, StallReason};
use windlass_core::time::Timestamp;
use windlass_core::update_object;
use windlass_operator::argocd::settings;

/// Argo CD's commands on our settings.
struct Rules {
    binary: PathBuf,
    folder: tempfile::TempDir,
}

/// An answer: the health's code and its message.
type Verdict = (String, String);

impl Rules {
    fn find() -> Option<Rules> {
        Some(Rules {
            binary: argocd_binary()?,
            folder: tempfile::tempdir().unwrap(),
        })
    }

    /// Runs `argocd admin settings resource-overrides COMMAND` on an object, and gives what it prints.
    fn ask(&self, command: &str, object: &Value, more: &[&str]) -> Result<String, String> {
        let mut file = tempfile::NamedTempFile::new_in(self.folder.path()).unwrap();
        std::io::Write::write_all(&mut file, object.to_string().as_bytes()).unwrap();
        let output = Command::new(&self.binary)
            .env("ARGOCD_BINARY_NAME", "argocd")
            .env("HOME", self.folder.path())
            .args(["admin", "settings", "resource-overrides", command])
            .arg(file.path())
            .args(more)
            .arg("--argocd-cm-path")
            .arg(settings())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr))
        }
    }

    fn health(&self, object: &Value) -> Verdict {
        let printed = self.ask("health", object, &[]).unwrap();
        let field = |name: &str| {
            let from = printed.find(name).map(|at| &printed[at + name.len()..]);
            from.unwrap_or_default().to_owned()
        };
        let status = field("STATUS: ")
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        (status, field("MESSAGE: ").trim_end().to_owned())
    }

    /// Health of many objects, in the order given.
    fn healths(&self, objects: &[Value]) -> Vec<Verdict> {
        let next = Mutex::new(0..objects.len());
        let verdicts = Mutex::new(vec![Verdict::default(); objects.len()]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(index) = { next.lock().unwrap().next() } {
                        let verdict = self.health(&objects[index]);
                        verdicts.lock().unwrap()[index] = verdict;
                    }
                });
            }
        });
        verdicts.into_inner().unwrap()
    }
}

/// A Stack in a phase, as the operator writes it.
fn stack(phase: &Phase) -> Value {
    let conditions: Vec<Value> = phase
        .conditions()
        .into_iter()
        .map(|condition| {
            json!({
                "type": condition.type_, "status": if condition.status { "True" } else { "False" },
                "reason": condition.reason, "message": condition.message,
                "lastTransitionTime": "2030-01-01T00:00:00Z",
            })
        })
        .collect();
    let spec = match phase {
        Phase::Suspended => json!({"stack": "organization/web/dev", "suspend": true}),
        _ => json!({"stack": "organization/web/dev"}),
    };
    json!({
        "apiVersion": "pulumi.com/v1", "kind": "Stack",
        "metadata": {"name": "web", "namespace": "apps", "generation": 3},
        "spec": spec,
        "status": {"observedGeneration": 3, "conditions": conditions},
    })
}

/// Every phase that there is, and what Argo CD is to say of it: only what needs somebody is Degraded.
fn phases() -> Vec<(Phase, &'static str, &'static str)> {
    let mut all = vec![
        (
            Phase::Ready,
            "Healthy",
            "the stack has been processed and is up to date",
        ),
        (
            Phase::processing("stack is being processed"),
            "Progressing",
            "stack is being processed",
        ),
        (
            Phase::PrerequisiteNotSatisfied {
                message: "waits for \"network\"".into(),
            },
            "Progressing",
            "waits for \"network\"",
        ),
        (
            Phase::SourceUnavailable {
                message: "no such branch\nsays the server".into(),
            },
            "Progressing",
            "no such branch\nsays the server",
        ),
        (Phase::Suspended, "Suspended", "The stack is suspended"),
    ];
    let retrying = |operation, class| Phase::Retrying {
        operation,
        failures: 2,
        class,
        message: "bad day".into(),
    };
    for class in [
        FailureClass::Program,
        FailureClass::Policy,
        FailureClass::Unavailable,
        FailureClass::Conflict,
        FailureClass::Lost,
    ] {
        all.push((
            retrying(Operation::Up, class),
            "Progressing",
            "2 update failure(s): bad day",
        ));
    }
    all.push((
        retrying(Operation::Preview, FailureClass::Program),
        "Progressing",
        "preview failed (2 attempt(s)): bad day",
    ));
    for reason in [
        StallReason::SpecInvalid,
        StallReason::PulumiVersionTooLow,
        StallReason::WorkspaceFailed,
        StallReason::UpdateFailed,
        StallReason::NamespaceTerminating,
    ] {
        // A reason more needs a line above.
        match reason {
            StallReason::SpecInvalid
            | StallReason::PulumiVersionTooLow
            | StallReason::WorkspaceFailed
            | StallReason::UpdateFailed
            | StallReason::NamespaceTerminating => {}
        }
        all.push((
            Phase::stalled(reason, "not by itself"),
            "Degraded",
            "not by itself",
        ));
    }
    // A phase more needs a line above.
    for (phase, _, _) in &all {
        match phase {
            Phase::Ready
            | Phase::Processing { .. }
            | Phase::PrerequisiteNotSatisfied { .. }
            | Phase::Retrying { .. }
            | Phase::SourceUnavailable { .. }
            | Phase::Suspended
            | Phase::Stalled { .. } => {}
        }
    }
    all
}

/// The rule that Argo CD brings with it from 3.6 on: the generation, then the first condition that holds. It knows
/// neither suspension nor requests.
fn bundled(stack: &Value) -> &'static str {
    let status = &stack["status"];
    if status["observedGeneration"] != stack["metadata"]["generation"] {
        return "Progressing";
    }
    let holds = |name: &str| {
        let all = status["conditions"].as_array();
        all.into_iter()
            .flatten()
            .any(|one| one["type"] == name && one["status"] == "True")
    };
    let verdicts = [
        ("Stalled", "Degraded"),
        ("Reconciling", "Progressing"),
        ("Ready", "Healthy"),
    ];
    let found = verdicts.iter().find(|(name, _)| holds(name));
    found.map_or("Progressing", |(_, verdict)| verdict)
}

const UNSEEN: &str = "Waiting for the operator to observe the latest spec change";
const REQUESTED: &str = "Waiting for the operator to pick up the requested run";

#[test]
fn argo_cd_and_our_own_rule_say_the_same_of_every_state_of_a_stack() {
    let Some(rules) = Rules::find() else { return };
    let mut table: Vec<(String, Value, &str, &str)> = phases()
        .into_iter()
        .map(|(phase, status, message)| (format!("{phase:?}"), stack(&phase), status, message))
        .collect();
    for (what, object, status, _) in &table {
        if !what.starts_with("Suspended") {
            assert_eq!(bundled(object), *status, "{what}");
        }
    }
    let with = |phase: &Phase, change: &dyn Fn(&mut Value)| {
        let mut object = stack(phase);
        change(&mut object);
        object
    };
    let stalled = Phase::stalled(StallReason::UpdateFailed, "not by itself");
    let mut row = |what: &str, object, status, message| {
        table.push((what.to_owned(), object, status, message));
    };
    let edited = |object: &mut Value| object["metadata"]["generation"] = json!(4);
    row(
        "new",
        with(&Phase::Ready, &|o| o["status"] = Value::Null),
        "Progressing",
        UNSEEN,
    );
    row(
        "edited",
        with(&Phase::Ready, &edited),
        "Progressing",
        UNSEEN,
    );
    row(
        "stalled, then edited",
        with(&stalled, &edited),
        "Progressing",
        UNSEEN,
    );
    let suspended = |object: &mut Value| object["spec"]["suspend"] = json!(true);
    row(
        "stalled and suspended",
        with(&stalled, &suspended),
        "Suspended",
        "The stack is suspended",
    );
    let annotation = "pulumi.com/reconciliation-request";
    let asked = |object: &mut Value| object["metadata"]["annotations"] = json!({annotation: "2"});
    row(
        "asked",
        with(&Phase::Ready, &asked),
        "Progressing",
        REQUESTED,
    );
    row(
        "asked again",
        with(&stalled, &|object| {
            asked(object);
            object["status"]["observedReconcileRequest"] = json!("1");
        }),
        "Progressing",
        REQUESTED,
    );
    row(
        "heard",
        with(&Phase::Ready, &|object| {
            asked(object);
            object["status"]["observedReconcileRequest"] = json!("2");
        }),
        "Healthy",
        "the stack has been processed and is up to date",
    );
    row(
        "without conditions",
        with(&Phase::Ready, &|object| {
            object["status"]["conditions"] = json!([])
        }),
        "Progressing",
        "Waiting for the stack to be reconciled",
    );
    row(
        "deleted",
        with(&stalled, &|object| {
            object["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
        }),
        "Progressing",
        "Pending deletion",
    );

    let objects: Vec<Value> = table
        .iter()
        .map(|(_, object, _, _)| object.clone())
        .collect();
    let said = rules.healths(&objects);
    for ((what, object, status, message), said) in table.iter().zip(said) {
        assert_eq!(said, (status.to_string(), message.to_string()), "{what}");
        let own = health_argocd::assess(&object.to_string());
        assert_eq!(said, (format!("{:?}", own.status), own.message), "{what}");
    }
}

fn summary(state: RunState, message: &str) -> RunSummary {
    serde_json::from_value(json!({
        "state": state, "message": message, "reason": (state == RunState::Cancelled).then_some("Canceled"),
        "startedAtMs": 0, "endedAtMs": 1000, "reachedEngine": true,
    }))
    .unwrap()
}

#[test]
fn runs_workspaces_and_programs_have_a_health_too() {
    let Some(rules) = Rules::find() else { return };
    let now = Timestamp(1_900_000_000_000);
    let update = |change: &dyn Fn(&mut Update)| {
        let mut update = Update::default();
        update.metadata.name = Some("web-1".into());
        update.metadata.generation = Some(1);
        change(&mut update);
        serde_json::to_value(update).unwrap()
    };
    let record = json!({"instance": "u", "hostname": "h", "bootId": "b", "atMs": 0});
    let record = serde_json::from_value(record).unwrap();
    let finished = |outcome: UpdateOutcome| {
        update(&|update| {
            update_object::start(update, &record, now);
            update_object::finish(update, &outcome, "outputs", now);
        })
    };
    let ended = |state, message: &str| {
        let summary = Box::new(summary(state, message));
        finished(UpdateOutcome::Ended { summary: *summary })
    };
    let workspace = |status: Value| {
        let mut workspace = Workspace::default();
        workspace.metadata.name = Some("web".into());
        workspace.metadata.generation = Some(2);
        let mut object = serde_json::to_value(workspace).unwrap();
        object["status"] = status;
        object
    };
    let shown = |status: &str, reason: &str, message: &str| {
        let condition =
            json!({"type": "Ready", "status": status, "reason": reason, "message": message});
        workspace(json!({"observedGeneration": 2, "conditions": [condition]}))
    };
    let program = |status: Value| {
        let mut program = Program::default();
        program.metadata.name = Some("web".into());
        program.metadata.generation = Some(2);
        let mut object = serde_json::to_value(program).unwrap();
        object["status"] = status;
        object
    };
    let artifact = json!({"url": "http://a/b", "path": "b", "digest": "sha256:0", "revision": "1"});
    let table = [
        (
            update(&|_| {}),
            "Progressing",
            "Waiting for the operator to start the run",
        ),
        (
            update(&|update| update_object::waits(update, "WorkspaceNotReady", "no pod yet", now)),
            "Progressing",
            "no pod yet",
        ),
        (
            update(&|update| update_object::start(update, &record, now)),
            "Progressing",
            "The run goes on",
        ),
        (
            ended(RunState::Succeeded, ""),
            "Healthy",
            "The run succeeded",
        ),
        (
            ended(RunState::Failed, "no such bucket"),
            "Degraded",
            "no such bucket",
        ),
        (ended(RunState::Cancelled, ""), "Degraded", "Canceled"),
        (
            finished(UpdateOutcome::Superseded),
            "Healthy",
            "the inputs changed before the run started",
        ),
        (
            workspace(json!({})),
            "Progressing",
            "Waiting for the workspace",
        ),
        (shown("True", "Succeeded", ""), "Healthy", ""),
        (
            shown("False", "WaitingForReplicas", "soon"),
            "Progressing",
            "soon",
        ),
        (
            shown("False", "ConnectionFailed", "silent"),
            "Progressing",
            "silent",
        ),
        (
            shown("False", "ImagePullBackOff", "no image"),
            "Degraded",
            "no image",
        ),
        (
            shown("False", "Deleting", ""),
            "Suspended",
            "No pod; the next run brings one",
        ),
        (
            program(json!({})),
            "Progressing",
            "Waiting for the operator to observe the program",
        ),
        (
            program(json!({"observedGeneration": 2, "artifact": artifact})),
            "Healthy",
            "",
        ),
        (
            program(json!({"observedGeneration": 2})),
            "Degraded",
            "The program cannot be packed; its events say why",
        ),
    ];
    let objects: Vec<Value> = table.iter().map(|(object, _, _)| object.clone()).collect();
    for ((object, status, message), said) in table.iter().zip(rules.healths(&objects)) {
        assert_eq!(
            said,
            (status.to_string(), message.to_string()),
            "{object:#}"
        );
    }
}

#[test]
fn actions_are_offered_where_they_help_and_do_what_they_say() {
    let Some(rules) = Rules::find() else { return };
    let mut ready = stack(&Phase::Ready);
    ready["status"]["lastUpdate"] = json!({"state": "succeeded"});
    let mut running = stack(&Phase::processing("at it"));
    running["status"]["currentUpdate"] = json!({"name": "web-1"});
    let suspended = stack(&Phase::Suspended);
    for (object, offered) in [
        (
            &ready,
            [
                "cancel no",
                "reconcile yes",
                "refresh yes",
                "resume no",
                "suspend yes",
            ],
        ),
        (
            &running,
            [
                "cancel yes",
                "reconcile yes",
                "refresh no",
                "resume no",
                "suspend yes",
            ],
        ),
        (
            &suspended,
            [
                "cancel no",
                "reconcile no",
                "refresh no",
                "resume yes",
                "suspend no",
            ],
        ),
    ] {
        let printed = rules.ask("list-actions", object, &[]).unwrap();
        let mut listed: Vec<String> = printed
            .lines()
            .skip(1)
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                let (name, disabled) = (words.next()?, words.next()?);
                Some(format!(
                    "{name} {}",
                    if disabled == "true" { "no" } else { "yes" }
                ))
            })
            .collect();
        listed.sort();
        assert_eq!(listed, offered);
    }
    let done = |object: &Value, action: &str, more: &[&str]| {
        let arguments: Vec<&str> = [action].iter().chain(more).copied().collect();
        rules.ask("run-action", object, &arguments).unwrap()
    };
    let printed = done(
        &ready,
        "reconcile",
        &["--param", "request=after the outage"],
    );
    assert!(
        printed.contains("pulumi.com/reconciliation-request: after the outage"),
        "{printed}"
    );
    let printed = done(&ready, "reconcile", &[]);
    assert!(
        printed.contains("pulumi.com/reconciliation-request: \"20"),
        "{printed}"
    );
    let printed = done(&ready, "suspend", &[]);
    assert!(printed.contains("suspend: true"), "{printed}");
    let printed = done(&suspended, "resume", &[]);
    assert!(printed.contains("suspend: false"), "{printed}");
    let printed = done(&running, "cancel", &[]);
    for part in ["kind: Update", "name: web-1", "pulumi.com/cancel: \"true\""] {
        assert!(printed.contains(part), "{printed}");
    }
    let printed = done(&ready, "refresh", &[]);
    for part in [
        "kind: Update",
        "type: refresh",
        "workspaceName: web",
        "namespace: apps",
    ] {
        assert!(printed.contains(part), "{printed}");
    }
}

/// Settings that Argo CD cannot read would be ignored as a whole.
#[test]
fn argo_cd_takes_our_settings() {
    let Some(rules) = Rules::find() else { return };
    let validate = |path: &Path| {
        Command::new(&rules.binary)
            .env("ARGOCD_BINARY_NAME", "argocd")
            .env("HOME", rules.folder.path())
            .args(["admin", "settings", "validate", "--argocd-cm-path"])
            .arg(path)
            .output()
            .unwrap()
    };
    let output = validate(&settings());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("resource overrides"),
        "{output:?}"
    );
    assert!(!text.contains('❌'), "{text}");
}
