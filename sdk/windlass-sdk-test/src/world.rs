//! What a plugin finds when it asks.

use serde_json::{Map, Value, json};

/// Answers to a plugin's questions. Secrets in it are made up, and written to a temporary file.
#[derive(Clone, Debug, Default)]
pub struct World {
    config: Option<Value>,
    objects: Vec<Value>,
    secrets: Map<String, Value>,
    http: Vec<Value>,
    git: Vec<Value>,
}

impl World {
    /// Nothing exists, and no server answers.
    pub fn new() -> Self {
        Self::default()
    }

    /// The administrator's configuration for the plugin.
    #[must_use]
    pub fn config(mut self, config: Value) -> Self {
        self.config = Some(config);
        self
    }

    /// A Kubernetes object; `apiVersion`, `kind` and `metadata.name` are what it is found by.
    #[must_use]
    pub fn object(mut self, object: Value) -> Self {
        self.objects.push(object);
        self
    }

    /// A key of a Secret.
    #[must_use]
    pub fn secret(mut self, name: &str, key: &str, value: &str) -> Self {
        let keys = self.secrets.entry(name).or_insert_with(|| json!({}));
        keys[key] = json!(value);
        self
    }

    /// A request and its response.
    #[must_use]
    pub fn http(mut self, exchange: Http) -> Self {
        self.http.push(exchange.0);
        self
    }

    /// What the repository at `url` advertises: full names (`refs/heads/main`) and hashes.
    #[must_use]
    pub fn refs(mut self, url: &str, refs: &[(&str, &str)]) -> Self {
        let refs: Map<String, Value> = refs
            .iter()
            .map(|(name, oid)| ((*name).to_owned(), json!(oid)))
            .collect();
        self.git.push(json!({"url": url, "refs": refs}));
        self
    }

    /// As the file that `windlass plugin run --answers` reads.
    pub(crate) fn answers(&self) -> Value {
        let World {
            config,
            objects,
            secrets,
            http,
            git,
        } = self;
        json!({"config": config, "objects": objects, "secrets": secrets, "http": http, "git": git})
    }
}

/// One request that is answered. The first whose method, URL and authorization fit answers.
#[derive(Clone, Debug)]
pub struct Http(Value);

impl Http {
    /// Answers GET requests for `url`, with 200 and no body unless told otherwise.
    pub fn get(url: &str) -> Self {
        Self::of("GET", url)
    }

    /// Answers requests of any method.
    pub fn of(method: &str, url: &str) -> Self {
        Http(json!({"method": method, "url": url, "headers": {}}))
    }

    /// Only where the request carries this `Authorization`, or, as `NAME: VALUE`, another header's credential.
    #[must_use]
    pub fn authorization(mut self, value: &str) -> Self {
        self.0["authorization"] = json!(value);
        self
    }

    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.0["status"] = json!(status);
        self
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.0["headers"][name] = json!(value);
        self
    }

    /// The response's body, as text.
    #[must_use]
    pub fn text(mut self, body: &str) -> Self {
        self.0["body"] = json!(body);
        self
    }

    /// The response's body, as JSON.
    #[must_use]
    pub fn json(mut self, body: Value) -> Self {
        self.0["json"] = body;
        self
    }
}
