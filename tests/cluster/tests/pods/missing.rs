//! What keeps a pod from starting, and that it starts when it comes.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::{Place, condition, main_state, sleeper};

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
