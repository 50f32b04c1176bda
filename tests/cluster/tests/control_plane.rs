//! The control plane is real, stands up by itself, and leaves nothing behind.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use pretty_assertions::assert_eq;
use windlass_cluster::{Component, ControlPlane, Identity};

const COMPONENTS: [Component; 3] = [
    Component::Etcd,
    Component::ApiServer,
    Component::ControllerManager,
];

fn config_map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(300);
    while !condition().await {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn pids(plane: &ControlPlane) -> Vec<u32> {
    let pids = COMPONENTS
        .iter()
        .filter_map(|component| plane.pid(*component));
    pids.collect()
}

fn runs(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}/exe")).exists()
        // A zombie has no program any more.
        && std::fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}

#[tokio::test]
async fn several_stand_side_by_side_and_leave_nothing() {
    let (Some(one), Some(other)) = tokio::join!(ControlPlane::start(), ControlPlane::start())
    else {
        return;
    };
    let in_one: Api<ConfigMap> = Api::namespaced(one.client().await, "default");
    let in_other: Api<ConfigMap> = Api::namespaced(other.client().await, "default");
    let params = PostParams::default();
    in_one.create(&params, &config_map("mine")).await.unwrap();
    assert!(in_one.get_opt("mine").await.unwrap().is_some());
    assert!(in_other.get_opt("mine").await.unwrap().is_none());

    let (all, folder) = (pids(&one), one.folder().to_owned());
    assert_eq!(all.iter().filter(|pid| runs(**pid)).count(), 3);
    drop(one);
    assert_eq!(all.iter().filter(|pid| runs(**pid)).count(), 0);
    assert!(!folder.exists(), "{} is still there", folder.display());
    assert!(in_other.get_opt("mine").await.unwrap().is_none());
}

/// What this test starts is itself, told to start a control plane and wait to be killed.
#[tokio::test]
async fn what_was_started_ends_with_its_process_even_if_that_is_killed() {
    const TOLD: &str = "WINDLASS_TEST_START_AND_WAIT";
    if let Some(file) = std::env::var_os(TOLD) {
        let Some(plane) = ControlPlane::start().await else {
            return;
        };
        let mut text = format!("{}\n", plane.folder().display());
        for pid in pids(&plane) {
            text.push_str(&format!("{pid}\n"));
        }
        std::fs::write(file, text + "end\n").unwrap();
        return std::future::pending().await;
    }
    let Some(_plane) = ControlPlane::shared().await else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "what_was_started_ends_with_its_process_even_if_that_is_killed",
        ])
        .env(TOLD, &file)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let read = || std::fs::read_to_string(&file).unwrap_or_default();
    eventually("the other process's control plane", async || {
        read().ends_with("end\n")
    })
    .await;
    let text = read();
    let mut lines = text.lines();
    let folder = lines.next().unwrap().to_owned();
    let all: Vec<u32> = lines.filter_map(|line| line.parse().ok()).collect();
    assert_eq!(all.len(), 3);
    assert!(all.iter().all(|pid| runs(*pid)));
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("its components to end", async || {
        !all.iter().any(|pid| runs(*pid))
    })
    .await;
    eventually("its folder to go", async || !Path::new(&folder).exists()).await;
}

#[tokio::test]
async fn the_controllers_work_and_come_back() {
    let Some(plane) = ControlPlane::start().await else {
        return;
    };
    let client = plane.client().await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    plane.restart(Component::ControllerManager).await.unwrap();
    let name = plane.namespace("shortlived").await;
    let maps: Api<ConfigMap> = Api::namespaced(client, &name);
    maps.create(&PostParams::default(), &config_map("inside"))
        .await
        .unwrap();
    namespaces
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    eventually("the namespace to go", async || {
        namespaces.get_opt(&name).await.unwrap().is_none()
    })
    .await;
}

#[tokio::test]
async fn data_outlive_etcd_and_a_paused_server_answers_nobody() {
    let Some(plane) = ControlPlane::start().await else {
        return;
    };
    let maps: Api<ConfigMap> = Api::namespaced(plane.client().await, "default");
    maps.create(&PostParams::default(), &config_map("kept"))
        .await
        .unwrap();
    plane.kill(Component::Etcd);
    plane.start_again(Component::Etcd).await.unwrap();
    assert!(maps.get_opt("kept").await.unwrap().is_some());

    plane.pause(Component::ApiServer).unwrap();
    let asked = tokio::time::timeout(Duration::from_secs(1), maps.get("kept"));
    assert!(asked.await.is_err(), "a paused server answered");
    plane.resume(Component::ApiServer).unwrap();
    let asked = tokio::time::timeout(Duration::from_secs(30), maps.get("kept"));
    assert!(asked.await.unwrap().is_ok());
}

#[tokio::test]
async fn people_may_do_what_they_were_granted_and_the_log_says_who_did_what() {
    let Some(plane) = ControlPlane::shared().await else {
        return;
    };
    let namespace = plane.namespace("rights").await;
    let user = Identity::user(format!("eve-of-{namespace}"));
    let account = Identity::service_account(&namespace, "robot");
    for who in [&user, &account] {
        let client = plane.client_as(who).await.unwrap();
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        let elsewhere: Api<ConfigMap> = Api::namespaced(client, "default");
        let list = ListParams::default();
        assert!(maps.list(&list).await.is_err(), "nothing was granted yet");
        let rule = PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["configmaps".to_owned()]),
            verbs: vec!["list".to_owned(), "create".to_owned()],
            ..PolicyRule::default()
        };
        plane
            .grant(who, Some(&namespace), vec![rule])
            .await
            .unwrap();
        eventually("the grant", async || maps.list(&list).await.is_ok()).await;
        let name = format!("from-{}", who.user_name().replace(':', "-"));
        maps.create(&PostParams::default(), &config_map(&name))
            .await
            .unwrap();
        assert!(elsewhere.list(&list).await.is_err());
        assert!(maps.get(&name).await.is_err());

        let log = plane.audit_log().of_user(&who.user_name());
        assert_eq!(log.count("create", "configmaps"), 1);
        assert_eq!(log.writes(), 1);
        let refused = log.only(|event| event.code == 403 && event.verb == "get");
        assert_eq!(refused.0.len(), 1);
        assert_eq!(
            (&refused.0[0].name, &refused.0[0].namespace),
            (&name, &namespace)
        );
    }
}

#[tokio::test]
async fn kubectl_reaches_it() {
    let Some(plane) = ControlPlane::shared().await else {
        return;
    };
    let namespace = plane.namespace("kubectl").await;
    let manifest = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}"#;
    let apply = ["apply", "-n", &namespace, "-f", "-"];
    for expected in ["configmap/a created\n", "configmap/a unchanged\n"] {
        let output = plane.kubectl_with(&apply, manifest.as_bytes()).await;
        let (out, err) = (output.stdout, String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&out), expected, "{err}");
    }
    let version = plane.kubectl(&["version", "-o", "json"]).await;
    let version: serde_json::Value = serde_json::from_slice(&version.stdout).unwrap();
    let server = version["serverVersion"]["gitVersion"].as_str().unwrap();
    assert!(server.starts_with("v1.") && server != "v0.0.0", "{server}");
}
