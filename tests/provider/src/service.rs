//! The resource `windlasstest:index:Thing`.
//!
//! | input | what it does |
//! |---|---|
//! | `value` | given back as the output `value`; a change is an update |
//! | `sleepMs` | create, update and delete take so long; the engine's Cancel ends the wait with an error |
//! | `waitFile` | create, update and delete take until this file is there; Cancel as above |
//! | `fail` | create and update fail with this text |
//! | `failEnv` | create and update fail with the value of this variable |
//! | `failDelete` | delete fails with this text |
//! | `drift` | read answers this text instead of `value`; `gone` reads as not there |
//! | `bigKiB` | the output `big` is a text of so many KiB |
//! | `secretOut` | given back as the output `secret`, which the schema marks as secret |
//! | `logFile` | each operation that is carried out appends a line `OPERATION NAME` here |

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use prost_types::value::Kind;
use prost_types::{Struct, Value};
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use crate::proto::diff_response::DiffChanges;
use crate::proto::resource_provider_server::ResourceProvider;
use crate::proto::*;

const VERSION: &str = "0.1.0";
/// How often an awaited file is looked for.
const LOOK: Duration = Duration::from_millis(100);

pub struct Provider {
    cancelled: watch::Sender<bool>,
}

impl Default for Provider {
    fn default() -> Provider {
        Provider {
            cancelled: watch::channel(false).0,
        }
    }
}

fn schema() -> String {
    let text =
        |description: &str| serde_json::json!({"type": "string", "description": description});
    let number =
        |description: &str| serde_json::json!({"type": "integer", "description": description});
    let inputs = serde_json::json!({
        "value": text("Given back."),
        "sleepMs": number("How long an operation takes, in milliseconds."),
        "waitFile": text("An operation takes until this file is there."),
        "fail": text("Create and update fail with this."),
        "failEnv": text("Create and update fail with the value of this variable."),
        "failDelete": text("Delete fails with this."),
        "drift": text("What read answers instead of value."),
        "bigKiB": number("Size of the output big."),
        "secretOut": text("Given back as a secret."),
        "logFile": text("Where operations are counted."),
    });
    let mut properties = inputs.clone();
    properties["big"] = text("As large as asked.");
    properties["secret"] = serde_json::json!({"type": "string", "secret": true});
    serde_json::json!({
        "name": "windlasstest",
        "version": VERSION,
        "resources": {
            "windlasstest:index:Thing": {
                "properties": properties,
                "inputProperties": inputs,
                "requiredInputs": [],
            }
        },
        "provider": {},
        "language": {},
    })
    .to_string()
}

type Fields = BTreeMap<String, Value>;

fn fields(properties: Option<Struct>) -> Fields {
    properties
        .map(|s| s.fields.into_iter().collect())
        .unwrap_or_default()
}

fn text<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    match fields.get(name)?.kind.as_ref()? {
        Kind::StringValue(text) => Some(text),
        _ => None,
    }
}

fn number(fields: &Fields, name: &str) -> Option<f64> {
    match fields.get(name)?.kind.as_ref()? {
        Kind::NumberValue(number) => Some(*number),
        _ => None,
    }
}

fn string(text: impl Into<String>) -> Value {
    Value {
        kind: Some(Kind::StringValue(text.into())),
    }
}

fn pack(fields: Fields) -> Option<Struct> {
    Some(Struct {
        fields: fields.into_iter().collect(),
    })
}

/// The name at the end of a URN.
fn name(urn: &str) -> &str {
    urn.rsplit("::").next().unwrap_or(urn)
}

fn outputs(inputs: &Fields) -> Fields {
    let mut outputs = inputs.clone();
    if let Some(kib) = number(inputs, "bigKiB") {
        outputs.insert("big".into(), string("x".repeat(kib as usize * 1024)));
    }
    if let Some(secret) = text(inputs, "secretOut") {
        outputs.insert("secret".into(), string(secret));
    }
    outputs
}

/// One write of one line: lines of operations that run side by side do not mix.
fn record(inputs: &Fields, operation: &str, urn: &str) -> Result<(), Status> {
    let Some(file) = text(inputs, "logFile") else {
        return Ok(());
    };
    let written = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)
        .and_then(|mut f| f.write_all(format!("{operation} {}\n", name(urn)).as_bytes()));
    written.map_err(|e| Status::internal(format!("{file}: {e}")))
}

impl Provider {
    async fn take_time(&self, inputs: &Fields) -> Result<(), Status> {
        let pause = number(inputs, "sleepMs").map(|ms| Duration::from_millis(ms as u64));
        let awaited = text(inputs, "waitFile").filter(|file| !file.is_empty());
        let time = async {
            tokio::time::sleep(pause.unwrap_or_default()).await;
            while awaited.is_some_and(|file| !std::path::Path::new(file).exists()) {
                tokio::time::sleep(LOOK).await;
            }
        };
        let mut cancelled = self.cancelled.subscribe();
        tokio::select! {
            () = time => Ok(()),
            _ = cancelled.wait_for(|c| *c) => Err(Status::cancelled("the operation was cancelled")),
        }
    }

    async fn carry_out(
        &self,
        operation: &str,
        urn: &str,
        inputs: &Fields,
        fail: &str,
    ) -> Result<(), Status> {
        record(inputs, &format!("{operation}-begun"), urn)?;
        self.take_time(inputs).await?;
        if let Some(message) = text(inputs, fail) {
            return Err(Status::unknown(message));
        }
        if let Some(name) = text(inputs, "failEnv")
            && fail == "fail"
        {
            let value = std::env::var(name).unwrap_or_default();
            return Err(Status::unknown(format!("refused: {value}")));
        }
        record(inputs, operation, urn)
    }
}

#[tonic::async_trait]
impl ResourceProvider for Provider {
    async fn handshake(
        &self,
        _: Request<ProviderHandshakeRequest>,
    ) -> Result<Response<ProviderHandshakeResponse>, Status> {
        Ok(Response::new(ProviderHandshakeResponse {
            accept_secrets: false,
            accept_resources: false,
            accept_outputs: false,
        }))
    }

    async fn get_schema(
        &self,
        _: Request<GetSchemaRequest>,
    ) -> Result<Response<GetSchemaResponse>, Status> {
        Ok(Response::new(GetSchemaResponse { schema: schema() }))
    }

    async fn check_config(
        &self,
        request: Request<CheckRequest>,
    ) -> Result<Response<CheckResponse>, Status> {
        Ok(Response::new(CheckResponse {
            inputs: request.into_inner().news,
            failures: Vec::new(),
        }))
    }

    async fn diff_config(&self, _: Request<DiffRequest>) -> Result<Response<DiffResponse>, Status> {
        Ok(Response::new(DiffResponse {
            changes: DiffChanges::DiffNone.into(),
            ..DiffResponse::default()
        }))
    }

    async fn configure(
        &self,
        _: Request<ConfigureRequest>,
    ) -> Result<Response<ConfigureResponse>, Status> {
        Ok(Response::new(ConfigureResponse {
            accept_secrets: false,
            supports_preview: true,
            accept_resources: false,
            accept_outputs: false,
        }))
    }

    async fn check(
        &self,
        request: Request<CheckRequest>,
    ) -> Result<Response<CheckResponse>, Status> {
        Ok(Response::new(CheckResponse {
            inputs: request.into_inner().news,
            failures: Vec::new(),
        }))
    }

    async fn diff(&self, request: Request<DiffRequest>) -> Result<Response<DiffResponse>, Status> {
        let DiffRequest {
            olds,
            news,
            old_inputs,
            ..
        } = request.into_inner();
        let (state, old, new) = (fields(olds), fields(old_inputs), fields(news));
        let changed = |name: &String| {
            // What was read may differ from what was asked for: that is drift, and an update repairs it.
            old.get(name) != new.get(name) || (name == "value" && state.get(name) != new.get(name))
        };
        let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        let diffs: Vec<String> = names.into_iter().filter(|n| changed(n)).cloned().collect();
        let changes = if diffs.is_empty() {
            DiffChanges::DiffNone
        } else {
            DiffChanges::DiffSome
        };
        Ok(Response::new(DiffResponse {
            changes: changes.into(),
            diffs,
            ..DiffResponse::default()
        }))
    }

    async fn create(
        &self,
        request: Request<CreateRequest>,
    ) -> Result<Response<CreateResponse>, Status> {
        let CreateRequest {
            urn,
            properties,
            preview,
            ..
        } = request.into_inner();
        let inputs = fields(properties);
        if preview {
            return Ok(Response::new(CreateResponse {
                id: String::new(),
                properties: pack(inputs),
            }));
        }
        self.carry_out("create", &urn, &inputs, "fail").await?;
        Ok(Response::new(CreateResponse {
            id: format!("thing-{}", name(&urn)),
            properties: pack(outputs(&inputs)),
        }))
    }

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<ReadResponse>, Status> {
        let ReadRequest {
            id,
            urn,
            properties,
            inputs,
        } = request.into_inner();
        let mut state = fields(properties);
        record(&state, "read", &urn)?;
        let world = text(&state, "drift").map(str::to_owned);
        match world.as_deref() {
            Some("gone") => return Ok(Response::new(ReadResponse::default())),
            Some(value) => {
                state.insert("value".into(), string(value));
            }
            None => {}
        }
        Ok(Response::new(ReadResponse {
            id,
            properties: pack(state),
            inputs,
        }))
    }

    async fn update(
        &self,
        request: Request<UpdateRequest>,
    ) -> Result<Response<UpdateResponse>, Status> {
        let UpdateRequest {
            urn, news, preview, ..
        } = request.into_inner();
        let inputs = fields(news);
        if !preview {
            self.carry_out("update", &urn, &inputs, "fail").await?;
        }
        Ok(Response::new(UpdateResponse {
            properties: pack(outputs(&inputs)),
        }))
    }

    async fn delete(&self, request: Request<DeleteRequest>) -> Result<Response<()>, Status> {
        let DeleteRequest {
            urn, properties, ..
        } = request.into_inner();
        self.carry_out("delete", &urn, &fields(properties), "failDelete")
            .await?;
        Ok(Response::new(()))
    }

    async fn cancel(&self, _: Request<()>) -> Result<Response<()>, Status> {
        self.cancelled.send_replace(true);
        Ok(Response::new(()))
    }

    async fn get_plugin_info(&self, _: Request<()>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            version: VERSION.to_owned(),
        }))
    }

    async fn attach(&self, _: Request<PluginAttach>) -> Result<Response<()>, Status> {
        Ok(Response::new(()))
    }
}
