//! What "healthy" means for a @TYPE@.

use serde_json::Value;
use windlass_sdk::{Descriptor, Health, HealthCheck, HealthStatus, Host, Plugin};

pub struct @TYPE@;

impl Plugin for @TYPE@ {
    fn describe() -> Descriptor {
        Descriptor {
            name: "@NAME@".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Health of a @TYPE@".into(),
            health_kinds: vec!["example.org/@TYPE@".into()],
            ..Descriptor::default()
        }
    }
}

impl HealthCheck for @TYPE@ {
    fn assess(_: &(impl Host + ?Sized), object: &str, _context: &str) -> Health {
        let object: Value = serde_json::from_str(object).unwrap_or_default();
        let health = |status, message: &str| Health { status, message: message.into() };
        if object["status"]["observedGeneration"] != object["metadata"]["generation"] {
            return health(HealthStatus::Progressing, "the controller has not seen the latest spec");
        }
        let conditions = object["status"]["conditions"].as_array();
        match conditions.into_iter().flatten().find(|one| one["type"] == "Ready") {
            Some(ready) if ready["status"] == "True" => health(HealthStatus::Healthy, "ready"),
            Some(ready) => health(HealthStatus::Degraded, ready["message"].as_str().unwrap_or("not ready")),
            None => health(HealthStatus::Progressing, "waiting for the condition Ready"),
        }
    }
}

windlass_sdk::export_plugin!(@TYPE@: health);
