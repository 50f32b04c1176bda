//! The ways in which plugins get into a release, each with a plugin that is served.

use pretty_assertions::assert_eq;
use reqwest::StatusCode;
use serde_json::{Map, Value, json};
use windlass_operator::exposition::parse;
use windlass_operator::helm::{NAMESPACE, OF_IMAGE, PLUGINS_IMAGE, example_of};

use super::{LIMIT, OnNode, pods};

/// Where the manual has Prometheus.
const MONITORING: &str = "monitoring";
/// The plugin that the second release has out of a ConfigMap.
const OF_CONFIGMAP: &str = "source-s3";
/// The claim, and the folder in its volume, that the second release has a plugin of.
const CLAIM: &str = "plugins";
const FOLDER: &str = "of-the-team";

/// The values of a release that has one plugin, copied out of an image.
pub async fn of_image(operator: &OnNode, [_, policy]: [&str; 2]) -> Value {
    json!({
        "plugins": [{"name": "image", "initImage": {"reference": PLUGINS_IMAGE}}],
        "policy": policies(operator, policy, &[OF_IMAGE]).await,
    })
}

/// The values of a release that has one plugin in a ConfigMap, and the one before in a claim.
pub async fn of_configmap_and_claim(operator: &OnNode, [configmap, policy]: [&str; 2]) -> Value {
    operator.typed(&named(configmap, OF_CONFIGMAP).await).await;
    let folder = operator.state().join(FOLDER);
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join(format!("{OF_IMAGE}.wasm"));
    std::fs::copy(example_of(OF_IMAGE).await, file).unwrap();
    let claim = operator.volume_of_state(CLAIM, NAMESPACE, "ReadOnlyMany");
    let apply = ["apply", "-f", "-"];
    let applied = operator.plane.kubectl_with(&apply, claim.as_bytes()).await;
    let said = String::from_utf8_lossy(&applied.stderr);
    assert!(applied.status.success(), "{said}");
    json!({
        "plugins": [
            {"name": "own", "configMap": "plugins"},
            {"name": "claimed", "claim": {"claimName": CLAIM, "subPath": FOLDER}},
        ],
        "policy": policies(operator, policy, &[OF_CONFIGMAP, OF_IMAGE]).await,
    })
}

/// A command of the manual for one plugin.
async fn named(line: &str, plugin: &str) -> String {
    let file = example_of(plugin).await.display().to_string();
    line.replace("PLUGIN", plugin).replace("FILE", &file)
}

/// One policy of what the manual's command says for each.
async fn policies(operator: &OnNode, line: &str, plugins: &[&str]) -> Value {
    let mut all = Map::new();
    for plugin in plugins {
        let policy = operator.typed(&named(line, plugin).await).await;
        let policy: Value = serde_saphyr::from_str(&policy).unwrap();
        all.extend(policy["plugins"].as_object().unwrap().clone());
    }
    json!({"plugins": all})
}

/// A token of a service account beside the release.
async fn token(operator: &OnNode, account: &str) -> String {
    let create = ["-n", MONITORING, "create", "token", account];
    operator.kubectl(&create).await.trim().to_owned()
}

/// Lets the manual's account of Prometheus read metrics, and nobody else.
pub async fn bind(operator: &OnNode, binding: &str) {
    operator.kubectl(&["create", "namespace", MONITORING]).await;
    for account in ["prometheus", "stranger"] {
        let create = ["-n", MONITORING, "create", "serviceaccount", account];
        operator.kubectl(&create).await;
    }
    operator.typed(binding).await;
}

/// Each pod serves its metrics to who may read them and to nobody else; by them it serves these plugins and those that are
/// built in.
pub async fn are_served(operator: &OnNode, replicas: usize, plugins: &[&str]) {
    let client = reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .no_proxy()
        .timeout(LIMIT)
        .build()
        .unwrap();
    let (prometheus, stranger) = (
        token(operator, "prometheus").await,
        token(operator, "stranger").await,
    );
    let pods = pods(operator).await;
    assert_eq!(pods.len(), replicas);
    for pod in pods {
        let address = pod["status"]["podIP"].as_str().unwrap();
        let url = format!("https://{address}:8383/metrics");
        let get = async |token: &str| client.get(&url).bearer_auth(token).send().await.unwrap();
        assert_eq!(get(&stranger).await.status(), StatusCode::FORBIDDEN);
        let answer = get(&prometheus).await;
        assert_eq!(answer.status(), StatusCode::OK);
        let samples = parse(&answer.text().await.unwrap()).unwrap();
        let serving = |plugin: &str| {
            let serving = format!("windlass_plugin_serving{{plugin=\"{plugin}\"}}");
            samples.get(&serving).copied()
        };
        for plugin in plugins.iter().chain(&["source-git"]) {
            assert_eq!(serving(plugin), Some(1.0), "{plugin}: {samples:#?}");
        }
        let all = [OF_CONFIGMAP, OF_IMAGE];
        let others = all.iter().filter(|plugin| !plugins.contains(plugin));
        for plugin in others {
            assert_eq!(serving(plugin), None, "{plugin}");
        }
    }
}
