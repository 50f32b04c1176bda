//! What Prometheus reads: the names of the Pulumi Kubernetes Operator, and what an operator on call needs.
//!
//! `counters` is counted while it happens; `objects`, `work` and `process` are read when somebody asks. Labels that name
//! an object are only those that the Pulumi Kubernetes Operator has, and they go with it.

mod counters;
mod metered;
mod objects;
mod process;
mod samples;
mod text;
mod work;

use std::sync::Arc;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use windlass_fetch::Fetcher;
use windlass_wasm::PluginHost;

pub use counters::{CodeLabels, Counters, KindLabels};
pub use metered::Metered;
pub use text::Format;

use crate::world::World;

/// Everything that is exposed.
pub struct Metrics {
    registry: Registry,
    pub counters: Counters,
}

impl Metrics {
    pub fn new(
        counters: Counters,
        world: Arc<World>,
        plugins: PluginHost,
        fetcher: Fetcher,
    ) -> Metrics {
        let mut registry = Registry::default();
        registry.register(
            "windlass_build",
            "The version of the operator",
            Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]),
        );
        counters.register(&mut registry);
        registry.register_collector(Box::new(objects::Objects(Arc::clone(&world))));
        registry.register_collector(Box::new(work::Work {
            counters: counters.clone(),
            world,
            plugins,
            fetcher,
        }));
        registry.register_collector(Box::new(process::Process));
        Metrics { registry, counters }
    }

    /// All of it as text, as it is now.
    ///
    /// # Errors
    /// A value cannot be written in the format.
    pub fn render(&self, format: Format) -> Result<String, std::fmt::Error> {
        let mut open = String::new();
        encode(&mut open, &self.registry)?;
        Ok(match format {
            Format::OpenMetrics => open,
            Format::Text => text::older(&open),
        })
    }
}
