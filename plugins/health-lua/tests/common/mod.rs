//! Cases for both interpreters.
#![allow(dead_code, clippy::unwrap_used)]

use health_lua::config::Script;
use health_lua::vm::Limits;
use health_lua::{Failure, Verdict};
use serde::Deserialize;
use serde_json::Value;

pub const CASES: &str = include_str!("../cases.yaml");
pub const RULES: &str = include_str!("../rules.yaml");

/// 2026-01-15T12:30:45Z, in seconds.
pub const NOW: i64 = 1_768_480_245;

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    pub name: String,
    #[serde(default)]
    pub open_libs: bool,
    pub script: String,
    #[serde(default)]
    pub object: Value,
    pub expected: Expected,
    /// Why Argo CD's own interpreter says something else.
    #[serde(default)]
    pub differs: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Expected {
    /// `STATUS` or `STATUS: message`.
    Health(String),
    Empty,
    /// An error that has this in it.
    Error(String),
}

impl Expected {
    pub fn is_met_by(&self, found: &Result<Verdict, Failure>) -> bool {
        match (self, found) {
            (Expected::Health(wanted), Ok(Verdict::Health(status, message))) => {
                let text = if message.is_empty() {
                    format!("{status:?}")
                } else {
                    format!("{status:?}: {message}")
                };
                *wanted == text
            }
            (Expected::Empty, Ok(Verdict::Empty)) => true,
            (Expected::Error(part), Err(failure)) => failure.to_string().contains(part),
            _ => false,
        }
    }
}

pub fn cases(text: &str) -> Vec<Case> {
    serde_saphyr::from_str(text).unwrap()
}

pub fn judge(case: &Case, now: i64) -> Result<Verdict, Failure> {
    let script = Script {
        text: case.script.clone(),
        open_libs: case.open_libs,
    };
    health_lua::judge(&script, &case.object, now, &Limits::default())
}
