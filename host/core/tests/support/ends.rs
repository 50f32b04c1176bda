//! How runs end. Times are the world's to fill in.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_api::intent::RunSummary;
use windlass_api::run::{ProjectInfo, RunState};
use windlass_core::failure::FailureClass;

pub fn succeeded() -> RunSummary {
    RunSummary {
        state: RunState::Succeeded,
        class: None,
        reason: None,
        message: String::new(),
        changes: BTreeMap::new(),
        resources: Some(3),
        outputs: None,
        permalink: None,
        project: Some(ProjectInfo {
            name: "app".into(),
            runtime: "yaml".into(),
        }),
        reached_engine: true,
        stale_locks: Vec::new(),
        started_at_ms: 0,
        ended_at_ms: 0,
    }
}

pub fn with_outputs(outputs: Value) -> RunSummary {
    RunSummary {
        outputs: Some(serde_json::from_value(outputs).unwrap()),
        ..succeeded()
    }
}

pub fn failed(class: FailureClass, message: &str) -> RunSummary {
    RunSummary {
        state: match class {
            FailureClass::Lost => RunState::Lost,
            FailureClass::Cancelled => RunState::Cancelled,
            _ => RunState::Failed,
        },
        class: Some(class.as_str().into()),
        reason: Some("Reason".into()),
        message: message.into(),
        resources: None,
        project: None,
        ..succeeded()
    }
}
