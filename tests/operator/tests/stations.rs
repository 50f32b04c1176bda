//! Every station of a Stack's life, with what is to be seen at each: conditions, Updates, events, Secrets, the finalizer,
//! and how often its status was written. And the log, as programs read it.
#![allow(clippy::unwrap_used)]

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_e2e::git_repo::TestRepo;
use windlass_e2e::git_server::GitServer;
use windlass_operator::{History, Operator, condition, is_ready};

/// Writes to the status that a run which changes something may make.
const WRITES: usize = 4;

/// A retry after the failure is farther away than the test waits: its writes are counted nowhere.
const FAR: &str = "retry: {initialBackoffSeconds: 3600, maxBackoffSeconds: 3600}";

struct Life<'a> {
    operator: &'a Operator,
    repo: TestRepo,
    history: History,
    /// Status writes before the present station.
    written: usize,
    requests: u32,
}

fn program(resource: &str) -> String {
    format!(
        "name: life\nruntime: yaml\nconfig:\n  greeting: {{type: string, default: hello}}\nresources:\n  message:\n    \
         {resource}\noutputs:\n  greeting: ${{greeting}}\n"
    )
}

fn stash() -> String {
    program("{type: \"pulumi:Stash\", properties: {input: \"${greeting}\"}}")
}

impl Life<'_> {
    fn commit(&self, text: &str) -> String {
        let file = [("Pulumi.yaml", "100644", text.as_bytes())];
        self.repo.commit("main", &file).unwrap()
    }

    async fn patch(&self, patch: Value) {
        let patch = patch.to_string();
        self.operator.patch("stack", "life", &patch).await;
    }

    async fn request(&mut self) -> String {
        self.requests += 1;
        let value = self.requests.to_string();
        self.patch(
            json!({"metadata": {"annotations": {"pulumi.com/reconciliation-request": value}}}),
        )
        .await;
        value
    }

    /// Waits for a state that has just been reached, and for the watch to have seen it.
    async fn at(&mut self, station: &str, is: impl Fn(&Value) -> bool) -> Value {
        let stack = self.operator.stack_when("life", station, &is).await;
        let version = &stack["metadata"]["resourceVersion"];
        let limit = std::time::Duration::from_secs(60);
        self.operator
            .until("the watch to follow", limit, async || {
                let seen = self.history.versions();
                seen.iter()
                    .any(|it| it["metadata"]["resourceVersion"] == *version)
            })
            .await;
        let mut statuses: Vec<Value> = self
            .history
            .versions()
            .iter()
            .map(|it| it["status"].clone())
            .collect();
        statuses.dedup();
        let writes = statuses.len() - self.written;
        assert!(
            writes <= WRITES,
            "{station}: {writes} writes: {:#?}",
            &statuses[self.written..]
        );
        self.written = statuses.len();
        stack
    }

    /// Waits until the Stack is Ready by a run after this one.
    async fn ready_after(&mut self, station: &str, sequence: i64) -> Value {
        let stack = self
            .at(station, |stack| {
                is_ready(stack)
                    && stack["status"]["lastUpdate"]["sequence"].as_i64() > Some(sequence)
            })
            .await;
        assert!(
            condition(&stack, "Reconciling").is_none() && condition(&stack, "Stalled").is_none()
        );
        let last = &stack["status"]["lastUpdate"];
        assert_eq!(last["state"], "succeeded", "{station}");
        assert_eq!(
            stack["status"]["observedGeneration"],
            stack["metadata"]["generation"]
        );
        let name = last["name"].as_str().unwrap();
        let update = self.operator.get("update", name).await.unwrap();
        for (type_, status) in [
            ("Complete", "True"),
            ("Failed", "False"),
            ("Progressing", "False"),
        ] {
            let found = condition(&update, type_).unwrap();
            assert_eq!(found["status"], status, "{station}: {type_}: {update}");
        }
        assert!(update["metadata"]["finalizers"].is_null(), "{update}");
        stack
    }

    async fn events(&self) -> Vec<String> {
        let events = self.operator.list("events").await;
        let ours = events
            .into_iter()
            .filter(|event| event["involvedObject"]["name"] == "life");
        ours.map(|event| event["reason"].as_str().unwrap().to_owned())
            .collect()
    }

    async fn told(&self, reason: &str) {
        let limit = std::time::Duration::from_secs(60);
        let what = format!("the event {reason}");
        self.operator
            .until(&what, limit, async || {
                self.events().await.contains(&reason.to_owned())
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_station_of_a_life_is_as_it_should_be() {
    let Some(mut operator) = Operator::start_with(&["--zap-encoder=json"]).await else {
        return;
    };
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("life").unwrap();
    let text = stash();
    let file = [("Pulumi.yaml", "100644", text.as_bytes())];
    let first = repo.commit("main", &file).unwrap();
    let spec = format!(
        "projectRepo: {}\nbranch: main\nsuspend: true\ndestroyOnFinalize: true\n{FAR}",
        server.url("life")
    );
    operator.stack("life", &spec).await;
    let suspended = |stack: &Value| {
        condition(stack, "Ready").is_some_and(|ready| ready["reason"] == "Suspended")
    };
    let stack = operator.stack_when("life", "suspended", suspended).await;
    assert_eq!(
        stack["metadata"]["finalizers"],
        json!(["finalizer.stack.pulumi.com"])
    );
    assert!(operator.list("updates").await.is_empty() && operator.list("pods").await.is_empty());
    let history = operator.history("stack", "life");
    let mut life = Life {
        operator: &operator,
        repo,
        history,
        written: 1,
        requests: 0,
    };

    life.patch(json!({"spec": {"suspend": false}})).await;
    let stack = life.ready_after("created", 0).await;
    assert_eq!(stack["status"]["lastUpdate"]["lastSuccessfulCommit"], first);
    assert_eq!(stack["status"]["outputs"], json!({"greeting": "hello"}));
    let outputs = operator.get("secret", "life-outputs").await.unwrap();
    assert_eq!(outputs["type"], "pulumi.com/outputs");
    life.told("StackCreated").await;
    life.told("StackUpdateDetected").await;

    let second = life.commit(&program(
        "{type: \"pulumi:Stash\", properties: {input: more}}",
    ));
    let request = life.request().await;
    let stack = life.ready_after("a new commit", 1).await;
    assert_eq!(
        stack["status"]["lastUpdate"]["lastSuccessfulCommit"],
        second
    );
    assert_eq!(stack["status"]["observedReconcileRequest"], request);

    life.patch(json!({"spec": {"config": {"greeting": "salut"}}}))
        .await;
    let stack = life.ready_after("a changed configuration", 2).await;
    assert_eq!(stack["status"]["outputs"], json!({"greeting": "salut"}));

    life.request().await;
    life.ready_after("a request", 3).await;

    life.commit(&program(
        "{type: \"pulumi:Nothing\", properties: {input: more}}",
    ));
    life.request().await;
    let stack = life
        .at("a program that fails", |stack| {
            stack["status"]["lastUpdate"]["sequence"] == 5
                && condition(stack, "Reconciling").is_some()
        })
        .await;
    assert!(!is_ready(&stack));
    let reconciling = condition(&stack, "Reconciling").unwrap();
    assert_eq!(reconciling["reason"], "RetryingAfterFailure");
    assert_eq!(stack["status"]["lastUpdate"]["state"], "failed");
    assert_eq!(
        stack["status"]["lastUpdate"]["lastSuccessfulCommit"],
        second
    );
    let failed = stack["status"]["lastUpdate"]["name"].as_str().unwrap();
    let update = operator.get("update", failed).await.unwrap();
    assert_eq!(condition(&update, "Failed").unwrap()["status"], "True");
    life.told("StackUpdateFailure").await;

    // Mended, it runs at once: nobody waits for the pause after the failure.
    let mended = life.commit(&stash());
    life.request().await;
    let stack = life.ready_after("a program that is mended", 5).await;
    assert_eq!(
        stack["status"]["lastUpdate"]["lastSuccessfulCommit"],
        mended
    );

    life.patch(json!({"spec": {"suspend": true}})).await;
    let stack = life.at("suspended again", suspended).await;
    let sequence = stack["status"]["lastUpdate"]["sequence"].clone();
    let unseen = life.commit(&program(
        "{type: \"pulumi:Stash\", properties: {input: later}}",
    ));
    let request = life.request().await;
    let heard = |stack: &Value| stack["status"]["observedReconcileRequest"] == *request;
    let stack = life.at("a request while suspended", heard).await;
    assert!(suspended(&stack));
    assert_eq!(stack["status"]["lastUpdate"]["sequence"], sequence);
    life.patch(json!({"spec": {"suspend": false}})).await;
    let stack = life.ready_after("resumed", 6).await;
    assert_eq!(
        stack["status"]["lastUpdate"]["lastSuccessfulCommit"],
        unseen
    );
    assert_eq!(operator.resources("life").unwrap(), ["message"]);

    operator
        .kubectl(&["delete", "stack", "life", "--wait=false"])
        .await;
    operator.gone("stack", "life").await;
    for kind in ["updates", "workspaces", "pods", "secrets"] {
        operator
            .until(
                "nothing to be left",
                std::time::Duration::from_secs(60),
                async || operator.list(kind).await.is_empty(),
            )
            .await;
    }
    assert_eq!(operator.resources("life").unwrap(), Vec::<String>::new());
    drop(life);
    // The last line is whole when nobody writes any more.
    operator.terminate();
    the_log_is_for_programs(&operator);
}

/// A JSON document a line; what is told of a run names its Stack, its Update and its revision.
fn the_log_is_for_programs(operator: &Operator) {
    let text = std::fs::read_to_string(operator.log()).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect();
    let message = |line: &Value| {
        line["fields"]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    for said in ["asking for a run", "starting the run", "the run has ended"] {
        let told: Vec<&Value> = lines.iter().filter(|line| message(line) == said).collect();
        // Six that deploy, one that fails, one that destroys.
        assert!(told.len() >= 8, "{said}: {}", told.len());
        for line in told {
            let fields = &line["fields"];
            assert_eq!(
                fields["stack"],
                format!("{}/life", operator.namespace),
                "{line}"
            );
            assert!(
                fields["update"].as_str().unwrap().starts_with("life-"),
                "{line}"
            );
            assert!(fields["revision"].is_string(), "{line}");
            assert!(
                line["timestamp"].is_string() && line["level"].is_string(),
                "{line}"
            );
        }
    }
    let ended = lines
        .iter()
        .filter(|line| message(line) == "the run has ended");
    let failed = ended.filter(|line| line["level"] == "WARN").count();
    assert!(failed >= 1);
}
