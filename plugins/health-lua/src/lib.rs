//! Health as a team's `argocd-cm` has it: Argo CD's Lua scripts, unchanged, for whatever kinds they are written.
//!
//! `config` reads the configuration and chooses the script, `vm` runs it within limits, `prelude.lua` makes the
//! interpreter behave as Argo CD's, `result` takes what it returned as Argo CD does.

pub mod config;
mod object;
mod result;
mod time;
pub mod vm;

use std::fmt;

use serde_json::Value;
use windlass_sdk::{Descriptor, Health, HealthCheck, HealthStatus, Host, Level, Plugin};

use config::{Script, Scripts};
use vm::Limits;

/// The plugin.
pub struct Lua;

/// While it has this finalizer, a hook of Argo CD is not taken as being deleted.
const HOOK_FINALIZER: &str = "argocd.argoproj.io/hook-finalizer";

/// What a script says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Health(HealthStatus, String),
    /// Nothing that Argo CD would show: no table, an empty one, or fields of other types than text.
    Empty,
}

/// Why a script says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An error in the script, at compiling or at running.
    Script(String),
    /// What it returned is no health.
    Result(String),
    Instructions {
        limit: u64,
    },
    Memory {
        limit: usize,
    },
    TooLong {
        limit: usize,
    },
    /// The interpreter could not be made, or the object not be put into it.
    Setup(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Script(text) | Failure::Result(text) => f.write_str(text),
            Failure::Instructions { limit } => write!(
                f,
                "stopped after {limit} instructions: the script does not end, or does far too much"
            ),
            Failure::Memory { limit } => write!(
                f,
                "stopped: the object and what the script makes need more than {} MiB",
                limit >> 20
            ),
            Failure::TooLong { limit } => {
                write!(f, "the script is longer than {} KiB", limit >> 10)
            }
            Failure::Setup(text) => write!(f, "the interpreter cannot be set up: {text}"),
        }
    }
}

impl std::error::Error for Failure {}

impl Plugin for Lua {
    fn describe() -> Descriptor {
        let (scripts, problems) = Scripts::read(&config());
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Descriptor {
            name: "health-lua".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Health by the Lua scripts of a team's argocd-cm".into(),
            health_kinds: scripts.kinds(),
            config_schema: Some(schema()),
            config_error: (!problems.is_empty()).then(|| problems.join("; ")),
            ..Descriptor::default()
        }
    }
}

/// At the time of `describe` there is no host but in a component.
#[cfg(target_arch = "wasm32")]
fn config() -> Value {
    windlass_sdk::guest::GuestHost::default().config()
}

#[cfg(not(target_arch = "wasm32"))]
fn config() -> Value {
    Value::Null
}

fn schema() -> Value {
    serde_json::json!({
        "type": "object",
        "description": "The data of an argocd-cm, or the whole ConfigMap; keys that do not concern health are ignored.",
        "additionalProperties": true,
        "properties": {
            "resource.customizations": {"type": "string", "description": "YAML: kinds and patterns for kinds, with health.lua each."},
        },
        "patternProperties": {
            "^resource\\.customizations\\.health\\..+": {"type": "string", "description": "The script for GROUP_KIND."},
            "^resource\\.customizations\\.useOpenLibs\\..+": {"type": ["string", "boolean"]},
        },
    })
}

impl HealthCheck for Lua {
    fn assess(host: &(impl Host + ?Sized), object: &str, _context: &str) -> Health {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| {
                i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
            });
        let (scripts, _) = Scripts::read(&host.config());
        let health = assess(&scripts, object, now, &Limits::default());
        if health.status == HealthStatus::Unknown {
            host.log(Level::Warn, &health.message);
        }
        health
    }
}

/// The verdict on an object given as JSON; `null` is one that is not there. `now` is in seconds since the epoch.
pub fn assess(scripts: &Scripts, object: &str, now: i64, limits: &Limits) -> Health {
    let object: Value = match serde_json::from_str(object) {
        Ok(Value::Null) => return health(HealthStatus::Missing, "the object does not exist"),
        Ok(object) => object,
        Err(error) => {
            return health(
                HealthStatus::Unknown,
                &format!("the object is not JSON: {error}"),
            );
        }
    };
    // Argo CD asks no script about what is being deleted.
    if is_deleted(&object) {
        return health(HealthStatus::Progressing, "Pending deletion");
    }
    let (group, kind) = group_kind(&object);
    let Some((key, script)) = scripts.find(group, kind) else {
        let wanted = config::key_of(group, kind);
        return health(
            HealthStatus::Unknown,
            &format!("no health script is configured for {wanted}"),
        );
    };
    match judge(script, &object, now, limits) {
        Ok(Verdict::Health(status, message)) => Health { status, message },
        // Argo CD shows nothing then, and goes on waiting for it in a sync.
        Ok(Verdict::Empty) => health(
            HealthStatus::Unknown,
            &format!("the health script for {key} returned no health"),
        ),
        Err(failure) => health(
            HealthStatus::Unknown,
            &format!("the health script for {key} failed: {failure}"),
        ),
    }
}

/// What a script says about an object.
///
/// # Errors
/// Whatever keeps it from an answer.
pub fn judge(
    script: &Script,
    object: &Value,
    now: i64,
    limits: &Limits,
) -> Result<Verdict, Failure> {
    vm::run(script, object, now, limits)
}

fn is_deleted(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let is_hook = metadata["finalizers"]
        .as_array()
        .is_some_and(|finalizers| finalizers.iter().any(|it| it == HOOK_FINALIZER));
    metadata["deletionTimestamp"].is_string() && !is_hook
}

fn group_kind(object: &Value) -> (&str, &str) {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    (group, object["kind"].as_str().unwrap_or_default())
}

fn health(status: HealthStatus, message: &str) -> Health {
    Health {
        status,
        message: message.into(),
    }
}

windlass_sdk::export_plugin!(Lua: health);
