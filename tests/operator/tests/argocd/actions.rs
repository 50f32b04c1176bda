//! Actions and links, through Argo CD's API server.

use serde_json::{Value, json};
use windlass_operator::argocd::{AUTOMATED, Delivery, Sync};
use windlass_operator::{backend, condition, is_ready};

use crate::support::{repository, stack, thing};

struct Server<'a> {
    delivery: &'a Delivery,
    address: &'a str,
    client: reqwest::Client,
}

impl Server<'_> {
    /// Which object of the Application, as the API server asks.
    fn object(&self, name: &str, resource: &str) -> Vec<(&'static str, String)> {
        let [group, version, kind] = match resource {
            "Stack" => ["pulumi.com", "v1", "Stack"],
            _ => ["auto.pulumi.com", "v1alpha1", "Update"],
        };
        vec![
            ("namespace", self.delivery.operator.namespace.clone()),
            ("resourceName", name.to_owned()),
            ("group", group.to_owned()),
            ("version", version.to_owned()),
            ("kind", kind.to_owned()),
        ]
    }

    async fn run(&self, app: &str, action: &str, parameters: Value) {
        let mut body: serde_json::Map<String, Value> = self
            .object(app, "Stack")
            .into_iter()
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .collect();
        body.insert("action".into(), json!(action));
        body.insert("resourceActionParameters".into(), parameters);
        let url = format!(
            "{}/api/v1/applications/{app}/resource/actions/v2",
            self.address
        );
        let request = self
            .client
            .post(url)
            .header("content-type", "application/json");
        let answer = request
            .body(Value::Object(body).to_string())
            .send()
            .await
            .unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(
            status.is_success(),
            "{action}: {status}: {text}\n{}",
            self.delivery.argocd.log("argocd-server")
        );
    }

    /// Addresses of the links that are offered beside an object.
    async fn links(&self, app: &str, resource: &str, name: &str) -> Vec<String> {
        let query: Vec<String> = self
            .object(name, resource)
            .into_iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let url = format!(
            "{}/api/v1/applications/{app}/resource/links?{}",
            self.address,
            query.join("&")
        );
        let answer = self.client.get(url).send().await.unwrap();
        let text = answer.text().await.unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        let items = answer["items"].as_array().cloned().unwrap_or_default();
        let urls = items
            .iter()
            .filter_map(|one| one["url"].as_str().map(str::to_owned));
        urls.collect()
    }
}

pub async fn through_the_api_server(delivery: &Delivery) {
    if !backend::has_provider() {
        return;
    }
    let name = "acted";
    repository(
        delivery,
        name,
        &[
            thing(name, -1, "value: a, sleepMs: \"${pause}\"").replace(
                "program:\n",
                "program:\n  configuration: {pause: {type: Number, default: 0}}\n",
            ),
            stack(name, ""),
        ],
    );
    let sync = Sync {
        name,
        repo: name,
        more: AUTOMATED,
        ..Sync::default()
    };
    delivery.application(sync).await;
    let server = Server {
        delivery,
        address: delivery.argocd.server().await,
        client: reqwest::Client::new(),
    };
    delivery.delivered(name).await;
    let operator = &delivery.operator;

    let request = json!([{"name": "request", "value": "asked for by hand"}]);
    server.run(name, "reconcile", request).await;
    operator
        .stack_when(name, "run on request", |stack| {
            is_ready(stack)
                && stack["status"]["lastUpdate"]["reconcileRequest"] == "asked for by hand"
        })
        .await;

    server.run(name, "suspend", json!([])).await;
    operator
        .stack_when(name, "suspended", |stack| {
            condition(stack, "Ready").is_some_and(|ready| ready["reason"] == "Suspended")
        })
        .await;
    server.run(name, "resume", json!([])).await;
    operator.ready(name).await;

    server.run(name, "refresh", json!([])).await;
    let limit = std::time::Duration::from_secs(120);
    let mut refresh = Value::Null;
    operator
        .until("the refresh has run", limit, async || {
            let all = operator.list("updates").await;
            let found = all.into_iter().find(|one| one["spec"]["type"] == "refresh");
            refresh = found.unwrap_or_default();
            condition(&refresh, "Complete").is_some_and(|one| one["status"] == "True")
        })
        .await;
    assert_eq!(
        condition(&refresh, "Failed").unwrap()["status"],
        "False",
        "{refresh:#}"
    );
    let owner = &refresh["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"]),
        (&json!("Stack"), &json!(name))
    );

    // A run that would go on for a minute.
    let slow = json!({"spec": {"config": {"pause": "60000"}}}).to_string();
    operator.patch("stack", name, &slow).await;
    operator.operated(name, "update-begun", 1).await;
    server.run(name, "cancel", json!([])).await;
    let stack = operator
        .stack_when(name, "cancelled", |stack| {
            stack["status"]["lastUpdate"]["failureClass"] == "cancelled"
        })
        .await;
    assert!(stack["metadata"]["annotations"]["pulumi.com/cancel"].is_null());

    // A console page, as a run in Pulumi Cloud would have had it.
    let run = stack["status"]["lastUpdate"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let page = "https://app.pulumi.com/acme/web/dev/updates/1";
    let status = json!({"status": {"permalink": page}}).to_string();
    let patch = [
        "patch",
        "update",
        &run,
        "--subresource=status",
        "--type=merge",
        "-p",
        &status,
    ];
    operator.kubectl(&patch).await;
    operator
        .until("the link is offered", limit, async || {
            server.links(name, "Update", &run).await == [page]
        })
        .await;
    assert!(server.links(name, "Stack", name).await.is_empty());
}
