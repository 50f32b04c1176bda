//! What Argo CD has to process of a Stack that lives beside it, and that the two do not fight over it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use windlass_operator::argocd::{AUTOMATED, Delivery, Sync, is_delivered};
use windlass_operator::{History, is_ready};

use crate::support::{program, repository, stack};

/// Writes to a Stack's status that a run which changes something may make.
const WRITES: usize = 4;
const LIMIT: Duration = Duration::from_secs(60);
const NAME: &str = "steady";
/// The component that says for what it looks at an Application again.
const CONTROLLER: &str = "argocd-application-controller";

/// What that component calls the lightest look: at the tree of an Application's objects, with nothing compared.
const ONLY_THE_TREE: &str = "0";
/// How often the tree changes by a child that lives: it is made, its health is told, a run's twice; a pod is given to a
/// node between, outputs get new values.
const LIVES: usize = 3;
/// And by one that goes: it is marked, let go by each that holds it, its containers end, it is gone.
const GOES: usize = 4;
/// The project in `deploy/argocd/appproject.yaml`.
const WATCHES_ORPHANS: &str = "team-a-stacks";

/// A Stack that is compared with Git all the while that other scenarios go on.
pub struct Steady {
    history: History,
    /// How often Argo CD had written the Stack when it was in step.
    writes: usize,
}

/// Everything that the API server may store otherwise than Git has it: defaults in lists, quantities, and a resync.
const SPEC: &str = r#"resyncFrequencySeconds: 60
continueResyncOnCommitMatch: true
updateTemplate: {spec: {ttlAfterCompleted: 1h}}"#;

fn manifests() -> [String; 2] {
    let stack = stack(NAME, SPEC).replace(
        "volumeMounts: [{name: state, mountPath: /state}]",
        "volumeMounts: [{name: state, mountPath: /state}]\n            ports: [{containerPort: 8080}]\n            \
         resources: {limits: {cpu: 1000m, memory: 1024Mi}}\n            env: [{name: NODE, valueFrom: {fieldRef: \
         {fieldPath: spec.nodeName}}}]",
    );
    [program(NAME), stack]
}

pub async fn begin(delivery: &Delivery) -> Steady {
    repository(delivery, NAME, &manifests());
    let sync = Sync {
        name: NAME,
        repo: NAME,
        more: AUTOMATED,
        ..Sync::default()
    };
    delivery.application(sync).await;
    delivery.delivered(NAME).await;
    Steady {
        history: delivery.operator.history("stack", NAME),
        writes: argo_writes(delivery),
    }
}

/// How often Argo CD has written the Stack.
fn argo_writes(delivery: &Delivery) -> usize {
    let audit = delivery
        .operator
        .plane
        .audit_log()
        .of_user(&delivery.argo.user_name());
    let of_stack = audit.only(|event| event.resource == "stacks" && event.name == NAME);
    of_stack.writes()
}

fn sequence(stack: &Value) -> i64 {
    stack["status"]["lastUpdate"]["sequence"]
        .as_i64()
        .unwrap_or_default()
}

impl Steady {
    pub async fn end(self, delivery: &Delivery) {
        let operator = &delivery.operator;
        // A resync without a change: Ready stays, and one write says that it was.
        operator
            .stack_when(NAME, "resynced", |stack| {
                sequence(stack) >= 2 && is_ready(stack)
            })
            .await;
        let versions = self.history.versions();
        assert!(versions.iter().all(is_ready), "{versions:#?}");
        let mut writes: BTreeMap<i64, usize> = BTreeMap::new();
        let mut statuses: Vec<&Value> = versions.iter().map(|one| &one["status"]).collect();
        statuses.dedup();
        for status in &statuses[1..] {
            *writes
                .entry(
                    status["lastUpdate"]["sequence"]
                        .as_i64()
                        .unwrap_or_default(),
                )
                .or_default() += 1;
        }
        assert!(
            writes.values().all(|count| *count <= 1),
            "{writes:?}: {statuses:#?}"
        );

        // Nobody but the operator wrote it in all that time.
        let app = delivery.delivered(NAME).await;
        assert_eq!(
            argo_writes(delivery),
            self.writes,
            "Argo CD and the operator fight"
        );
        let synced = app["status"]["history"].as_array().map(Vec::len);
        assert_eq!(synced, Some(1), "{:#}", app["status"]["history"]);

        self.a_run_is_few_writes(delivery).await;
        self.drift_goes_back(delivery).await;
        children_are_not_followed(delivery).await;
    }

    async fn a_run_is_few_writes(&self, delivery: &Delivery) {
        let operator = &delivery.operator;
        let before = self.history.versions().len();
        let request =
            r#"{"metadata":{"annotations":{"pulumi.com/reconciliation-request":"once more"}}}"#;
        operator.patch("stack", NAME, request).await;
        let stack = operator
            .stack_when(NAME, "run once more", |stack| {
                is_ready(stack) && stack["status"]["lastUpdate"]["reconcileRequest"] == "once more"
            })
            .await;
        let version = &stack["metadata"]["resourceVersion"];
        operator
            .until("the watch to follow", LIMIT, async || {
                let seen = self.history.versions();
                seen.iter()
                    .any(|one| one["metadata"]["resourceVersion"] == *version)
            })
            .await;
        let versions = self.history.versions();
        let mut statuses: Vec<&Value> = versions[before - 1..]
            .iter()
            .map(|one| &one["status"])
            .collect();
        statuses.dedup();
        // A resync may have begun just before, and is a run too.
        let runs = sequence(&stack) - sequence(&versions[before - 1]);
        assert!(runs >= 1, "{statuses:#?}");
        assert!(
            statuses.len() - 1 <= WRITES * usize::try_from(runs).unwrap(),
            "{statuses:#?}"
        );
        assert_eq!(
            argo_writes(delivery),
            self.writes,
            "Argo CD and the operator fight"
        );
    }

    /// What somebody changes by hand goes back with one write, and the operator follows.
    async fn drift_goes_back(&self, delivery: &Delivery) {
        let operator = &delivery.operator;
        let drift = r#"{"spec":{"updateTemplate":{"spec":{"ttlAfterCompleted":"9h"}}}}"#;
        operator.patch("stack", NAME, drift).await;
        delivery
            .app_when(NAME, "healed", |app| {
                is_delivered(app) && argo_writes(delivery) > self.writes
            })
            .await;
        operator
            .stack_when(NAME, "as Git has it", |stack| {
                let template = &stack["spec"]["updateTemplate"]["spec"];
                is_ready(stack) && template["ttlAfterCompleted"] == "1h"
            })
            .await;
        assert_eq!(argo_writes(delivery), self.writes + 1);
    }
}

/// All objects there are of the kinds that the operator makes: kind, namespace, name.
async fn children(delivery: &Delivery) -> BTreeSet<(String, String, String)> {
    let kinds = "workspaces.auto.pulumi.com,updates.auto.pulumi.com,pods,services,secrets";
    let listed = ["get", kinds, "--all-namespaces", "-o", "json"];
    let output = delivery.operator.plane.kubectl(&listed).await;
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |one: &Value| {
        let metadata = &one["metadata"];
        (
            text(&one["kind"]),
            text(&metadata["namespace"]),
            text(&metadata["name"]),
        )
    };
    list["items"].as_array().unwrap().iter().map(of).collect()
}

/// What happens to a child never has an Application compared with Git. Its tree is looked at again when what it shows
/// of the child changes (the child's health, and its pod's node), not for each of its writes.
async fn children_are_not_followed(delivery: &Delivery) {
    let mut looked: BTreeMap<(String, String, String), Vec<String>> = BTreeMap::new();
    for line in delivery.argocd.log(CONTROLLER).lines() {
        if !line.contains("Requesting app refresh caused by object update") {
            continue;
        }
        let field = |name: &str| {
            let from = line.find(&format!(" {name}="))? + name.len() + 2;
            line[from..]
                .split_whitespace()
                .next()
                .map(|text| text.trim_matches('"').to_owned())
        };
        if let (Some(kind), Some(namespace), Some(name)) =
            (field("kind"), field("namespace"), field("name"))
            && ["Workspace", "Update", "Pod", "Service", "Secret"].contains(&kind.as_str())
        {
            // A project that watches for orphans compares for a child that goes after its Stack, as for any orphan.
            let compared = field("comparison-level").as_deref() != Some(ONLY_THE_TREE);
            assert!(
                !compared || field("project").as_deref() == Some(WATCHES_ORPHANS),
                "{line}"
            );
            looked
                .entry((kind, namespace, name))
                .or_default()
                .push(line.to_owned());
        }
    }
    assert!(
        !looked.is_empty(),
        "no child was seen: is the log read rightly?"
    );
    let living = children(delivery).await;
    for ((kind, namespace, name), lines) in &looked {
        let there = living.contains(&(kind.clone(), namespace.clone(), name.clone()));
        let limit = if there { LIVES } else { LIVES + GOES };
        assert!(lines.len() <= limit, "{limit}: {lines:#?}");
    }
}
