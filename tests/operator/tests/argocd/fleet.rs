//! Many environments from one ApplicationSet, in a project that confines them: the files that are shipped, with the
//! addresses of the test.

use std::time::Duration;

use windlass_e2e::world::workspace_root;
use windlass_operator::argocd::{Delivery, Sync, is_delivered};

use crate::support::{addressed, program, repository, stack};

const LIMIT: Duration = Duration::from_secs(120);

/// A shipped file, about a repository of the test's server.
fn shipped(delivery: &Delivery, file: &str, repo: &str) -> String {
    let path = workspace_root().join("deploy/argocd").join(file);
    addressed(delivery, &std::fs::read_to_string(path).unwrap(), repo)
}

fn environment(name: &str) -> String {
    let more = format!("destroyOnFinalize: true\nconfig: {{greeting: {name}}}");
    [program(name), stack(name, &more)].concat()
}

/// A namespace of the team, as whoever runs the cluster makes it.
async fn namespace(delivery: &Delivery, name: &str) {
    let namespace = format!("team-a-{name}");
    let made = ["create", "namespace", &namespace];
    let made = delivery.operator.plane.kubectl(&made).await;
    assert!(made.status.success(), "{made:?}");
}

/// Waits for the shipped project, which the walk through the README makes.
async fn project(delivery: &Delivery) {
    let kind = "appprojects.argoproj.io";
    let arguments = ["get", kind, "team-a-stacks", "-n", "argocd"];
    let operator = &delivery.operator;
    operator
        .until("the project is there", LIMIT, async || {
            operator.plane.kubectl(&arguments).await.status.success()
        })
        .await;
}

pub async fn environments_come_and_go(delivery: &Delivery) {
    let operator = &delivery.operator;
    let repo = delivery.git.repo("fleet").unwrap();
    let commit = |names: &[&str]| {
        let files: Vec<(String, String)> = names
            .iter()
            .map(|name| (format!("environments/{name}/all.yaml"), environment(name)))
            .collect();
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        delivery.commit(&repo, "main", &files);
    };
    commit(&["dev", "stage"]);
    delivery.argocd.application_sets().await;
    project(delivery).await;
    delivery
        .argo_apply(&shipped(delivery, "applicationset.yaml", "fleet"))
        .await;
    for name in ["dev", "stage", "next"] {
        namespace(delivery, name).await;
    }
    for name in ["dev", "stage"] {
        delivery.delivered(&format!("team-a-{name}")).await;
        assert_eq!(operator.resources(name).unwrap(), ["message"]);
    }
    // One goes, one comes, one stays as it is.
    commit(&["dev", "next"]);
    let kind = "applicationsets.argoproj.io";
    let look = [
        "annotate",
        kind,
        "team-a",
        "argocd.argoproj.io/application-set-refresh=true",
    ];
    let mut arguments = look.to_vec();
    arguments.extend(["-n", "argocd"]);
    let asked = operator.plane.kubectl(&arguments).await;
    assert!(asked.status.success(), "{asked:?}");
    delivery.delivered("team-a-next").await;
    delivery.app_gone("team-a-stage").await;
    assert_eq!(operator.resources("stage").unwrap(), [""; 0]);
    assert_eq!(operator.resources("next").unwrap(), ["message"]);
    assert_eq!(operator.resources("dev").unwrap(), ["message"]);
    let (app, what) = ("team-a-dev", "untouched");
    delivery.app_when(app, what, is_delivered).await;
}

/// What is no Stack and belongs to none is refused, and nothing of the sync is applied.
pub async fn a_project_confines(delivery: &Delivery) {
    let name = "confined";
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: confined}\n".to_owned();
    repository(delivery, name, &[program(name), stack(name, ""), secret]);
    let operator = &delivery.operator;
    project(delivery).await;
    namespace(delivery, name).await;
    let sync = Sync {
        name,
        repo: name,
        more: "syncPolicy: {automated: {}, retry: {limit: 0}}",
        ..Sync::default()
    };
    delivery
        .application_in("team-a-stacks", "team-a-confined", sync)
        .await;
    let app = delivery
        .app_when(name, "refused", |app| {
            let phase = &app["status"]["operationState"]["phase"];
            phase == "Failed" || phase == "Error"
        })
        .await;
    let results = app["status"]["operationState"]["syncResult"]["resources"].to_string();
    assert!(
        results.contains("Secret is not permitted in project team-a-stacks"),
        "{app:#}"
    );
    let arguments = ["get", "stacks", "-n", "team-a-confined", "-o", "name"];
    assert!(operator.plane.kubectl(&arguments).await.stdout.is_empty());
}
