//! Reads the engine's events, one JSON object per line, and keeps what a run needs of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_api::run::{Diagnostic, OutputValue, RunProgress};

use crate::redact::MASK;

/// How the CLI marks a secret inside a value.
pub const SECRET_MARK: (&str, &str) = (
    "4dabf18193072939515e22adb298388d",
    "1b47061264138c4ac30d75fd1eb44270",
);

const DIAGNOSTICS_KEPT: usize = 20;

/// The members that are looked at; all others are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    prelude_event: Option<Value>,
    resource_pre_event: Option<WithMetadata>,
    res_outputs_event: Option<WithMetadata>,
    res_op_failed_event: Option<WithMetadata>,
    diagnostic_event: Option<DiagnosticEvent>,
    policy_event: Option<PolicyEvent>,
    stdout_event: Option<Message>,
    summary_event: Option<Summary>,
    cancel_event: Option<Value>,
    error_event: Option<ErrorEvent>,
}

#[derive(Deserialize)]
struct WithMetadata {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    op: String,
    #[serde(default)]
    urn: String,
    #[serde(default, rename = "type")]
    kind: String,
    new: Option<State>,
}

#[derive(Deserialize)]
struct State {
    outputs: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct DiagnosticEvent {
    #[serde(default)]
    urn: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    severity: String,
}

/// A resource or a stack that a policy objects to.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PolicyEvent {
    #[serde(default)]
    resource_urn: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    policy_name: String,
    #[serde(default)]
    policy_pack_name: String,
    #[serde(default)]
    enforcement_level: String,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct ErrorEvent {
    #[serde(default)]
    error: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    #[serde(default)]
    resource_changes: BTreeMap<String, u32>,
    result: Option<String>,
}

/// What the events of a run add up to.
#[derive(Debug, Default)]
pub struct Digest {
    /// Any event of the engine's own was seen: it was reached.
    pub reached_engine: bool,
    pub changes: BTreeMap<String, u32>,
    /// `succeeded`, `failed` or `canceled`, once the summary was seen.
    pub result: Option<String>,
    /// The last event was seen.
    pub ended: bool,
    /// The engine said that it was asked to cancel.
    pub cancelling: bool,
    /// Outputs of the stack, secrets masked as a whole.
    pub outputs: Option<BTreeMap<String, OutputValue>>,
    errors: VecDeque<Diagnostic>,
    seen: BTreeSet<String>,
    done: BTreeSet<String>,
    present: BTreeSet<String>,
    /// Resources whose step has begun and not ended, oldest first.
    under_way: Vec<String>,
}

/// The stack itself and providers that nobody declared are not counted as resources.
pub fn counted(urn: &str, kind: &str) -> bool {
    let name = urn.rsplit("::").next().unwrap_or_default();
    kind != "pulumi:pulumi:Stack"
        && !(kind.starts_with("pulumi:providers:") && name.starts_with("default"))
}

impl Digest {
    /// Takes one line. What is not an event is passed over: the format grows.
    pub fn take(&mut self, line: &str) {
        let Ok(line) = serde_json::from_str::<Line>(line) else {
            return;
        };
        let Line {
            prelude_event,
            resource_pre_event,
            res_outputs_event,
            res_op_failed_event,
            diagnostic_event,
            policy_event,
            stdout_event,
            summary_event,
            cancel_event,
            error_event,
        } = line;
        if prelude_event.is_some() || resource_pre_event.is_some() || summary_event.is_some() {
            self.reached_engine = true;
        }
        if let Some(WithMetadata { metadata }) = resource_pre_event
            && counted(&metadata.urn, &metadata.kind)
        {
            self.under_way.retain(|urn| *urn != metadata.urn);
            self.under_way.push(metadata.urn.clone());
            self.seen.insert(metadata.urn);
        }
        if let Some(WithMetadata { metadata }) = res_outputs_event {
            self.outputs_of(metadata);
        }
        if let Some(WithMetadata { metadata }) = res_op_failed_event
            && counted(&metadata.urn, &metadata.kind)
        {
            self.finished(metadata.urn);
        }
        if let Some(DiagnosticEvent {
            urn,
            message,
            severity,
        }) = diagnostic_event
        {
            self.diagnostic(urn, message, severity);
        }
        // All other levels are advice. Beside this event the engine says only that the run failed.
        if let Some(PolicyEvent {
            resource_urn,
            message,
            policy_name,
            policy_pack_name,
            enforcement_level,
        }) = policy_event
            && enforcement_level == "mandatory"
        {
            let text = format!(
                "policy {policy_pack_name}/{policy_name}: {}",
                message.trim()
            );
            self.diagnostic(resource_urn, text, "policy".into());
        }
        if let Some(ErrorEvent { error }) = error_event {
            self.diagnostic(String::new(), error, "error".into());
        }
        if let Some(Message { message }) = stdout_event
            && message.contains("received; cancelling")
        {
            self.cancelling = true;
        }
        if let Some(Summary {
            resource_changes,
            result,
        }) = summary_event
        {
            self.changes = resource_changes;
            self.result = result;
        }
        self.ended |= cancel_event.is_some();
    }

    fn outputs_of(&mut self, metadata: Metadata) {
        let Metadata { op, urn, kind, new } = metadata;
        let gone = new.is_none() || matches!(op.as_str(), "delete" | "discard" | "delete-replaced");
        if kind == "pulumi:pulumi:Stack" {
            // It can come twice: the last one counts.
            if let Some(State { outputs }) = new {
                self.outputs = Some(
                    outputs
                        .unwrap_or_default()
                        .into_iter()
                        .map(output)
                        .collect(),
                );
            }
            return;
        }
        if !counted(&urn, &kind) {
            return;
        }
        if gone {
            self.present.remove(&urn);
        } else {
            self.present.insert(urn.clone());
        }
        self.finished(urn);
    }

    fn finished(&mut self, urn: String) {
        self.under_way.retain(|other| *other != urn);
        self.seen.insert(urn.clone());
        self.done.insert(urn);
    }

    fn diagnostic(&mut self, urn: String, message: String, severity: String) {
        let message = message.trim().to_owned();
        // `info#err` is what a program prints to its standard error, and all that a failing YAML program says.
        if message.is_empty() || !matches!(severity.as_str(), "error" | "info#err" | "policy") {
            return;
        }
        if self.errors.len() == DIAGNOSTICS_KEPT {
            // What a program printed goes before what the engine said.
            let oldest = self
                .errors
                .iter()
                .position(|d| d.severity == "info#err")
                .unwrap_or(0);
            self.errors.remove(oldest);
        }
        self.errors.push_back(Diagnostic {
            severity,
            urn: (!urn.is_empty()).then_some(urn),
            message,
        });
    }

    pub fn diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        self.errors.iter()
    }

    /// Resources that were there at their last event.
    pub fn resources(&self) -> u32 {
        self.present.len() as u32
    }

    pub fn progress(&self, stage: &str) -> RunProgress {
        RunProgress {
            stage: stage.to_owned(),
            done: self.done.len() as u32,
            total: self.seen.len() as u32,
            current: self.under_way.last().cloned(),
        }
    }
}

fn output((name, value): (String, Value)) -> (String, OutputValue) {
    let secret = has_secret(&value);
    let value = if secret { MASK.into() } else { value };
    (name, OutputValue { value, secret })
}

/// Whether any part of a value carries the CLI's mark of a secret.
pub fn has_secret(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.get(SECRET_MARK.0).and_then(Value::as_str) == Some(SECRET_MARK.1)
                || fields.values().any(has_secret)
        }
        Value::Array(items) => items.iter().any(has_secret),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn stack_event(outputs: Value) -> String {
        json!({"sequence": 1, "timestamp": 1, "resOutputsEvent": {"metadata": {"op": "create",
            "urn": "urn:pulumi:S::P::pulumi:pulumi:Stack::P-S", "type": "pulumi:pulumi:Stack",
            "new": {"outputs": outputs}}}})
        .to_string()
    }

    #[test]
    fn the_last_outputs_count_and_secrets_are_masked() {
        let mut digest = Digest::default();
        digest.take(&stack_event(json!({})));
        let mark = json!({SECRET_MARK.0: SECRET_MARK.1, "ciphertext": "[secret]"});
        digest.take(&stack_event(
            json!({"plain": "one", "sec": mark, "deep": [{"x": mark}], "lie": "[secret]"}),
        ));
        let outputs = digest.outputs.unwrap();
        assert_eq!(
            outputs["plain"],
            OutputValue {
                value: json!("one"),
                secret: false
            }
        );
        assert!(outputs["sec"].secret && outputs["deep"].secret);
        assert!(
            !outputs["lie"].secret,
            "a text that reads like a mask is no secret"
        );
    }

    #[test]
    fn progress_counts_what_a_person_would() {
        let mut digest = Digest::default();
        let event = |name: &str, kind: &str, urn: &str, new: Value| {
            json!({name: {"metadata": {"op": "create", "urn": urn, "type": kind, "new": new}}})
                .to_string()
        };
        let provider = (
            "pulumi:providers:t",
            "urn:pulumi:S::P::pulumi:providers:t::default",
        );
        digest.take(&event(
            "resourcePreEvent",
            provider.0,
            provider.1,
            Value::Null,
        ));
        for name in ["a", "b"] {
            digest.take(&event(
                "resourcePreEvent",
                "t:i:T",
                &format!("urn:pulumi:S::P::t:i:T::{name}"),
                Value::Null,
            ));
        }
        digest.take(&event(
            "resOutputsEvent",
            "t:i:T",
            "urn:pulumi:S::P::t:i:T::a",
            json!({}),
        ));
        let progress = digest.progress("running");
        assert_eq!((progress.done, progress.total), (1, 2));
        assert_eq!(progress.current.unwrap(), "urn:pulumi:S::P::t:i:T::b");
        assert_eq!(digest.resources(), 1);
        assert!(digest.reached_engine && !digest.ended);
        // One that began later and has ended leaves the one before as what is under work.
        let c = "urn:pulumi:S::P::t:i:T::c";
        digest.take(&event("resourcePreEvent", "t:i:T", c, Value::Null));
        digest.take(&event("resOutputsEvent", "t:i:T", c, json!({})));
        let progress = digest.progress("running");
        assert_eq!(progress.current.unwrap(), "urn:pulumi:S::P::t:i:T::b");
    }

    #[test]
    fn a_mandatory_policy_that_refuses_is_kept_and_advice_is_not() {
        let mut digest = Digest::default();
        let event = |level: &str, message: &str| {
            json!({"policyEvent": {"resourceUrn": "urn:x", "message": message, "color": "never",
                "policyName": "no-public-buckets", "policyPackName": "house", "policyPackVersion": "1",
                "policyPackVersionTag": "1", "enforcementLevel": level}})
            .to_string()
        };
        digest.take(&event("advisory", "better not"));
        digest.take(&event("mandatory", "public bucket\n"));
        digest.take(&event("remediate", "was mended"));
        let kept: Vec<_> = digest.diagnostics().collect();
        assert_eq!(kept.len(), 1);
        assert_eq!(
            (kept[0].severity.as_str(), kept[0].message.as_str()),
            ("policy", "policy house/no-public-buckets: public bucket")
        );
        assert_eq!(kept[0].urn.as_deref(), Some("urn:x"));
    }

    #[test]
    fn what_is_no_event_is_passed_over() {
        let mut digest = Digest::default();
        for line in [
            "",
            "{",
            "[]",
            "{\"new\": 1}",
            "{\"resourcePreEvent\": 7}",
            "\u{0}",
        ] {
            digest.take(line);
        }
        assert!(!digest.reached_engine);
    }

    #[test]
    fn engine_errors_outlive_the_chatter_of_a_program() {
        let mut digest = Digest::default();
        let diag = |severity: &str, message: &str| {
            json!({"diagnosticEvent": {"severity": severity, "message": message}}).to_string()
        };
        digest.take(&diag("error", "the cause\n"));
        for i in 0..50 {
            digest.take(&diag("info#err", &format!("line {i}")));
            digest.take(&diag("debug", "noise"));
        }
        assert_eq!(digest.diagnostics().count(), DIAGNOSTICS_KEPT);
        assert_eq!(digest.diagnostics().next().unwrap().message, "the cause");
    }
}
