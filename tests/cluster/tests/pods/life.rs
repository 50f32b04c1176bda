//! From creation to the end.

use std::time::{Duration, Instant};

use kube::api::{Patch, PatchParams};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::{Place, condition, main_state, runs, shell};

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
    let rest = format!(
        "s restarting failed container=main pod=p_{}({})",
        place.namespace,
        pod["metadata"]["uid"].as_str().unwrap()
    );
    let pause = message.strip_prefix("back-off ");
    let pause = pause.and_then(|message| message.strip_suffix(rest.as_str()));
    let pause: u64 = pause
        .unwrap_or_else(|| panic!("{message}"))
        .parse()
        .unwrap();
    // It doubles; a busy test may see a later one.
    let restarts = &pod["status"]["containerStatuses"][0]["restartCount"];
    assert_eq!(Some(pause), restarts.as_u64().map(|count| 1 << (count - 1)));
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
    // Its output is there before the kubelet has heard that it runs.
    place.until_ready("p").await;
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
