//! Pods run as processes, and their status is what a kubelet would report.

#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Event, Pod, Secret};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_cluster::FakeKubelet;

/// A namespace on the shared cluster, and what is asked of it.
struct Place {
    kubelet: &'static FakeKubelet,
    client: Client,
    namespace: String,
    pods: Api<Pod>,
}

impl Place {
    async fn new(name: &str) -> Option<Self> {
        let (plane, kubelet) = FakeKubelet::shared().await?;
        let namespace = plane.namespace(name).await;
        let client = plane.client().await;
        Some(Self {
            kubelet,
            pods: Api::namespaced(client.clone(), &namespace),
            client,
            namespace,
        })
    }

    async fn create(&self, name: &str, spec: Value) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"test": "yes"}}, "spec": spec,
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods
            .create(&PostParams::default(), &pod)
            .await
            .unwrap();
    }

    async fn secret(&self, name: &str, key: &str, value: &str) {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {key: value},
        });
        let params = PatchParams::apply("test").force();
        secrets
            .patch(name, &params, &Patch::Apply(secret))
            .await
            .unwrap();
    }

    /// Waits until the pod, as JSON, is as wanted.
    async fn until(&self, name: &str, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let pod = self.pods.get_opt(name).await.unwrap();
            let pod = pod.map_or(Value::Null, |pod| serde_json::to_value(pod).unwrap());
            if condition(&pod) {
                return pod;
            }
            assert!(
                Instant::now() < deadline,
                "waited in vain for {what}: {:#}\n{}",
                pod["status"],
                self.kubelet
                    .logs(&self.namespace, name, "main")
                    .unwrap_or_default()
            );
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    async fn until_ready(&self, name: &str) -> Value {
        self.until(name, "readiness", |pod| condition(pod, "Ready") == "True")
            .await
    }

    async fn until_gone(&self, name: &str) {
        self.until(name, "its end", Value::is_null).await;
    }

    async fn until_logged(&self, name: &str, text: &str) {
        self.until(name, text, |_| self.logs(name).contains(text))
            .await;
    }

    fn logs(&self, name: &str) -> String {
        self.kubelet
            .logs(&self.namespace, name, "main")
            .unwrap_or_default()
    }

    async fn delete(&self, name: &str) {
        self.pods
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    async fn events(&self, reason: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let all = events.list(&ListParams::default()).await.unwrap();
        let of_reason = all
            .items
            .into_iter()
            .filter(|e| e.reason.as_deref() == Some(reason));
        of_reason.filter_map(|event| event.message).collect()
    }
}

fn condition<'a>(pod: &'a Value, kind: &str) -> &'a str {
    let all = pod["status"]["conditions"].as_array();
    let found = all.and_then(|all| all.iter().find(|c| c["type"] == kind));
    found.map_or("", |found| found["status"].as_str().unwrap_or_default())
}

fn main_state(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]["state"]
}

fn sleeper() -> Value {
    json!({"containers": [shell("exec sleep 100000")]})
}

fn shell(script: &str) -> Value {
    json!({"name": "main", "image": "example.com/tools:1", "command": ["/bin/sh", "-c", script]})
}

fn runs(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}/root/")).exists()
}

/// The shape of the operator's workspace pods: a binary handed over by an init container, a
/// user without rights, secrets in the environment and in files.
#[tokio::test]
async fn a_pod_with_init_container_environment_and_volumes_gets_ready() {
    let Some(place) = Place::new("whole").await else {
        return;
    };
    place.secret("passphrase", "word", "open sesame").await;
    let mut main = shell("echo $WORD at $POD_IP; cat /share/from-init; exec sleep 100000");
    main["env"] = json!([
        {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "passphrase", "key": "word"}}},
        {"name": "GONE", "valueFrom": {"secretKeyRef": {"name": "none", "key": "x", "optional": true}}},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "BOTH", "value": "$(ME)-$(NOBODY)"},
        {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "requests.memory"}}},
    ]);
    main["resources"] = json!({"requests": {"memory": "64Mi"}});
    main["workingDir"] = json!("/share/workspace");
    main["volumeMounts"] = json!([
        {"name": "share", "mountPath": "/share"}, {"name": "secret", "mountPath": "/var/run/word"},
    ]);
    main["readinessProbe"] =
        json!({"exec": {"command": ["test", "-e", "/share/ready"]}, "periodSeconds": 1});
    let mut init = shell("id -u > /share/from-init; mkdir /share/workspace");
    init["name"] = json!("first");
    init["volumeMounts"] = json!([{"name": "share", "mountPath": "/share"}]);
    place
        .create(
            "p-0",
            json!({
                "hostname": "p-0-abc", "terminationGracePeriodSeconds": 1,
                "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "runAsNonRoot": true},
                "initContainers": [init], "containers": [main],
                "volumes": [{"name": "share", "emptyDir": {}},
                    {"name": "secret", "secret": {"secretName": "passphrase"}}],
            }),
        )
        .await;
    let pod = place
        .until("p-0", "running", |pod| pod["status"]["phase"] == "Running")
        .await;
    assert_eq!(condition(&pod, "Ready"), "False");
    let init = &pod["status"]["initContainerStatuses"][0];
    assert_eq!(init["state"]["terminated"]["reason"], "Completed");
    let address = pod["status"]["podIP"].as_str().unwrap().to_owned();
    place
        .until_logged("p-0", &format!("open sesame at {address}\n1000\n"))
        .await;

    let exec = async |script: &str| {
        let argv = ["/bin/sh", "-c", script];
        let run = place
            .kubelet
            .exec(&place.namespace, "p-0", "main", &argv)
            .await;
        let output = run.unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    let seen = exec(
        "hostname; pwd; id -u; id -g; echo $BOTH $MEMORY; echo ${GONE-unset}; cat /proc/1/comm",
    )
    .await;
    let expected = "p-0-abc\n/share/workspace\n1000\n1000\np-0-$(NOBODY) 67108864\nunset\nsleep\n";
    assert_eq!(seen, (Some(0), expected.to_owned()));
    assert_eq!(
        exec("echo 1 > /usr/x").await.0,
        Some(2),
        "the image can be written"
    );
    assert_eq!(exec("echo 1 > /tmp/x; exit 7").await.0, Some(7));
    assert!(
        !exec("ls /").await.1.contains("work"),
        "the host's data can be seen"
    );
    let token = "test -s /var/run/secrets/kubernetes.io/serviceaccount/token";
    assert_eq!(exec(token).await.0, Some(0));

    exec("touch /share/ready").await;
    let pod = place.until_ready("p-0").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);

    // A Secret that changes is seen where it is mounted, and not in the environment.
    assert_eq!(exec("readlink /var/run/word/word").await.1, "..data/word\n");
    place.secret("passphrase", "word", "another").await;
    place.until("p-0", "the new word", |_| true).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while exec("cat /var/run/word/word").await.1 != "another" {
        assert!(
            Instant::now() < deadline,
            "the mounted Secret stays as it was"
        );
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    assert_eq!(exec("echo $WORD").await.1, "open sesame\n");
    exec("rm /share/ready").await;
    place
        .until("p-0", "unreadiness", |pod| {
            condition(pod, "Ready") == "False"
        })
        .await;
}

#[tokio::test]
async fn a_killed_container_takes_all_its_processes_along_and_is_started_again() {
    let Some(place) = Place::new("killed").await else {
        return;
    };
    place
        .create(
            "p",
            json!({"containers": [shell("sleep 100001 & exec sleep 100002")]}),
        )
        .await;
    place.until_ready("p").await;
    let deadline = Instant::now() + Duration::from_secs(30);
    let before = loop {
        let all = place.kubelet.processes(&place.namespace, "p").unwrap();
        if all.len() == 2 {
            break all;
        }
        assert!(Instant::now() < deadline, "{all:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    place
        .kubelet
        .kill_container(&place.namespace, "p", "main")
        .unwrap();
    let pod = place
        .until("p", "a restart", |pod| {
            let status = &pod["status"]["containerStatuses"][0];
            status["restartCount"] == 1 && status["ready"] == true
        })
        .await;
    let last = &pod["status"]["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!(
        (&last["exitCode"], &last["reason"]),
        (&json!(137), &json!("Error"))
    );
    assert!(!last["finishedAt"].is_null());
    assert!(
        before.iter().all(|pid| !runs(*pid)),
        "processes were left behind"
    );
    assert_eq!(pod["status"]["phase"], "Running");
}

#[tokio::test]
async fn a_crashing_container_backs_off_and_tells_its_last_words() {
    let Some(place) = Place::new("crash").await else {
        return;
    };
    let main = shell("echo oops > /dev/termination-log; exit 3");
    place.create("p", json!({"containers": [main]})).await;
    let pod = place
        .until("p", "CrashLoopBackOff", |pod| {
            main_state(pod)["waiting"]["reason"] == "CrashLoopBackOff"
        })
        .await;
    let message = main_state(&pod)["waiting"]["message"].as_str().unwrap();
    let expected = format!(
        "back-off 1s restarting failed container=main pod=p_{}({})",
        place.namespace,
        pod["metadata"]["uid"].as_str().unwrap()
    );
    assert_eq!(message, expected);
    let last = &pod["status"]["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!(
        (&last["exitCode"], &last["message"]),
        (&json!(3), &json!("oops\n"))
    );
    assert_eq!(
        (pod["status"]["phase"].as_str(), condition(&pod, "Ready")),
        (Some("Running"), "False")
    );
}

#[tokio::test]
async fn a_pod_that_is_not_restarted_ends_in_a_phase() {
    let Some(place) = Place::new("once").await else {
        return;
    };
    for (name, script, phase) in [("good", "true", "Succeeded"), ("bad", "exit 4", "Failed")] {
        place
            .create(
                name,
                json!({"restartPolicy": "Never", "containers": [shell(script)]}),
            )
            .await;
        let pod = place
            .until(name, phase, |pod| pod["status"]["phase"] == phase)
            .await;
        assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
        place.delete(name).await;
        place.until_gone(name).await;
    }
}

#[tokio::test]
async fn deletion_asks_waits_and_removes_the_object_only_after_the_processes() {
    let Some(place) = Place::new("deleted").await else {
        return;
    };
    let script = "trap 'echo asked; while [ ! -e /tmp/go ]; do sleep 0.05; done; exit 5' TERM; \
                  echo up; while :; do sleep 0.05; done";
    place
        .create(
            "p",
            json!({"terminationGracePeriodSeconds": 600, "containers": [shell(script)]}),
        )
        .await;
    place.until_logged("p", "up").await;
    let pid = place.kubelet.pid(&place.namespace, "p", "main").unwrap();
    let finalizer = json!({"metadata": {"finalizers": ["example.com/wait"]}});
    let params = PatchParams::default();
    place
        .pods
        .patch("p", &params, &Patch::Merge(finalizer))
        .await
        .unwrap();
    place.delete("p").await;
    place.until_logged("p", "asked").await;
    let pod = place
        .until("p", "unreadiness", |pod| condition(pod, "Ready") == "False")
        .await;
    assert!(!main_state(&pod)["running"].is_null(), "{}", pod["status"]);
    assert!(runs(pid));

    let go = ["touch", "/tmp/go"];
    place
        .kubelet
        .exec(&place.namespace, "p", "main", &go)
        .await
        .unwrap();
    // The finalizer keeps the object, so that its end can be read.
    let pod = place
        .until("p", "its end", |pod| {
            !main_state(pod)["terminated"].is_null()
                && pod["metadata"]["deletionGracePeriodSeconds"] == 0
        })
        .await;
    assert_eq!(main_state(&pod)["terminated"]["exitCode"], 5);
    assert_eq!(pod["status"]["phase"], "Failed");
    assert!(!runs(pid));
    let none = json!({"metadata": {"finalizers": null}});
    place
        .pods
        .patch("p", &params, &Patch::Merge(none))
        .await
        .unwrap();
    place.until_gone("p").await;
}

#[tokio::test]
async fn one_that_does_not_listen_is_killed_when_its_time_is_over() {
    let Some(place) = Place::new("deaf").await else {
        return;
    };
    // The first process of a PID namespace ignores what it has no handler for.
    place
        .create(
            "p",
            json!({"terminationGracePeriodSeconds": 1, "containers": [shell("exec sleep 100000")]}),
        )
        .await;
    place.until_ready("p").await;
    let pid = place.kubelet.pid(&place.namespace, "p", "main").unwrap();
    place.delete("p").await;
    place.until_gone("p").await;
    assert!(!runs(pid));
}

#[tokio::test]
async fn what_is_missing_is_said_in_the_kubelets_words_and_mended_when_it_comes() {
    let Some(place) = Place::new("missing").await else {
        return;
    };
    let mut image = sleeper();
    image["containers"][0]["image"] = json!("registry.invalid/none:1");
    place.create("image", image).await;
    let mut config = sleeper();
    let key = json!({"secretKeyRef": {"name": "late", "key": "k"}});
    config["containers"][0]["env"] = json!([{"name": "K", "valueFrom": key}]);
    place.create("config", config).await;
    let mut volume = sleeper();
    volume["volumes"] = json!([{"name": "v", "secret": {"secretName": "late"}}]);
    volume["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    place.create("volume", volume).await;
    let mut nowhere = sleeper();
    nowhere["nodeSelector"] = json!({"example.com/moon": "yes"});
    place.create("nowhere", nowhere).await;
    let mut program = sleeper();
    program["restartPolicy"] = json!("Never");
    program["containers"][0]["command"] = json!(["no-such-program"]);
    place.create("program", program).await;

    place
        .until("image", "ErrImagePull", |pod| {
            main_state(pod)["waiting"]["reason"] == "ErrImagePull"
        })
        .await;
    let pod = place
        .until("image", "ImagePullBackOff", |pod| {
            main_state(pod)["waiting"]["reason"] == "ImagePullBackOff"
        })
        .await;
    let message = &main_state(&pod)["waiting"]["message"];
    assert_eq!(
        message,
        "Back-off pulling image \"registry.invalid/none:1\""
    );
    assert_eq!(pod["status"]["phase"], "Pending");

    let pod = place
        .until("config", "CreateContainerConfigError", |pod| {
            main_state(pod)["waiting"]["reason"] == "CreateContainerConfigError"
        })
        .await;
    assert_eq!(
        main_state(&pod)["waiting"]["message"],
        "secret \"late\" not found"
    );
    let pod = place
        .until("volume", "ContainerCreating", |pod| {
            pod["status"]["phase"] == "Pending" && main_state(pod)["waiting"].is_object()
        })
        .await;
    assert_eq!(main_state(&pod)["waiting"]["reason"], "ContainerCreating");
    let expected = "MountVolume.SetUp failed for volume \"v\" : secret \"late\" not found";
    let deadline = Instant::now() + Duration::from_secs(30);
    while place.events("FailedMount").await != [expected] {
        assert!(
            Instant::now() < deadline,
            "{:?}",
            place.events("FailedMount").await
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let pod = place
        .until("nowhere", "no place", |pod| {
            condition(pod, "PodScheduled") == "False"
        })
        .await;
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions[0]["reason"], "Unschedulable");
    let message = conditions[0]["message"].as_str().unwrap();
    assert!(
        message.contains("1 node(s) didn't match Pod's node affinity/selector"),
        "{message}"
    );
    let pod = place
        .until("program", "Failed", |pod| {
            pod["status"]["phase"] == "Failed"
        })
        .await;
    let end = &main_state(&pod)["terminated"];
    assert_eq!(
        (&end["reason"], &end["exitCode"]),
        (&json!("StartError"), &json!(128))
    );
    let message = end["message"].as_str().unwrap();
    assert!(
        message.ends_with("\"no-such-program\": executable file not found in $PATH"),
        "{message}"
    );

    place.secret("late", "other", "x").await;
    let expected = format!("couldn't find key k in Secret {}/late", place.namespace);
    place
        .until("config", "the key", |pod| {
            main_state(pod)["waiting"]["message"] == expected.as_str()
        })
        .await;
    place.until_ready("volume").await;
    place.secret("late", "k", "x").await;
    place.until_ready("config").await;
}

#[tokio::test]
async fn two_pods_serve_the_same_port_at_addresses_of_their_own() {
    let Some(place) = Place::new("ports").await else {
        return;
    };
    let script = "import os, socket\n\
                  s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
                  s.bind((os.environ['POD_IP'], 50051)); s.listen()\n\
                  while True:\n c, _ = s.accept(); c.sendall(os.environ['ME'].encode()); c.close()\n";
    if !Path::new("/usr/bin/python3").exists() {
        windlass_cluster::skip("there is no python3, which is the server of this test");
        return;
    }
    for name in ["one", "two"] {
        place
            .create(name, json!({"containers": [{
                "name": "main", "image": "example.com/tools:1",
                "command": ["/usr/bin/python3", "-c", script],
                "ports": [{"name": "grpc", "containerPort": 50051}],
                "readinessProbe": {"tcpSocket": {"port": "grpc"}, "periodSeconds": 1},
                "env": [
                    {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
            }]}))
            .await;
    }
    for name in ["one", "two"] {
        let pod = place.until_ready(name).await;
        let address = pod["status"]["podIP"].as_str().unwrap();
        let mut stream = tokio::net::TcpStream::connect((address, 50051))
            .await
            .unwrap();
        let mut answer = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer)
            .await
            .unwrap();
        assert_eq!(answer, name);
    }
}

#[tokio::test]
async fn a_frozen_pod_does_nothing_until_it_is_thawed() {
    let Some(place) = Place::new("frozen").await else {
        return;
    };
    let script = "while :; do echo tick; sleep 0.02; done";
    place
        .create("p", json!({"containers": [shell(script)]}))
        .await;
    place.until_logged("p", "tick").await;
    place.kubelet.freeze(&place.namespace, "p").unwrap();
    let states = || {
        let all = place.kubelet.processes(&place.namespace, "p").unwrap();
        let state = |pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        all.into_iter().map(state).collect::<Vec<_>>()
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while !states().iter().all(|stat| stat.contains(") T ")) {
        assert!(Instant::now() < deadline, "{:?}", states());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let frozen = place.logs("p").len();
    assert_eq!(place.logs("p").len(), frozen);
    place.kubelet.thaw(&place.namespace, "p").unwrap();
    place
        .until("p", "more ticks", |_| place.logs("p").len() > frozen)
        .await;
}
