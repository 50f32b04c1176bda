//! What goes on beside objects: the queue, the lease, plugins, fetches.

use std::fmt::Error;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use windlass_api::names::LEASE;
use windlass_engine::Reading;
use windlass_fetch::{ErrorClass, FetchStats, Fetcher};
use windlass_wasm::PluginHost;
use windlass_wasm::tally::BUCKETS;

use crate::metrics::counters::{Counters, STACK_CONTROLLER};
use crate::metrics::samples::{counter, counters, gauge, gauges, number};
use crate::world::World;

/// Work and the parts that do it.
pub struct Work {
    pub counters: Counters,
    pub world: Arc<World>,
    pub plugins: PluginHost,
    pub fetcher: Fetcher,
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Work")
    }
}

impl Collector for Work {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        let encoder = &mut encoder;
        let leads = f64::from(u8::from(self.world.engine().is_some()));
        gauge(
            encoder,
            "windlass_leader",
            "Whether this process leads",
            leads,
        )?;
        gauges(
            encoder,
            "leader_election_master_status",
            "Whether this process holds the lease",
            [([("name", LEASE)], leads)],
        )?;
        if let Some(reading) = self.counters.engine() {
            queue(encoder, &reading)?;
        }
        evaluations(encoder, &self.plugins)?;
        plugins(encoder, &self.plugins)?;
        fetches(encoder, &self.fetcher.stats())
    }
}

fn queue(encoder: &mut DescriptorEncoder, reading: &Reading) -> Result<(), Error> {
    let Reading {
        queued,
        oldest,
        stepping,
        keys,
        waiting_for_capacity,
        runs,
        max_runs,
    } = *reading;
    gauge(
        encoder,
        "windlass_queue_depth",
        "Workspaces that wait to be looked at",
        number(queued),
    )?;
    gauge(
        encoder,
        "windlass_queue_oldest_seconds",
        "How long the first workspace in the queue has been waiting",
        oldest.unwrap_or_default().as_secs_f64(),
    )?;
    gauge(
        encoder,
        "windlass_workspaces_known",
        "Workspaces that the queue keeps an account of",
        number(keys),
    )?;
    gauge(
        encoder,
        "windlass_runs_in_flight",
        "Pulumi operations that go on",
        number(runs),
    )?;
    gauge(
        encoder,
        "windlass_runs_limit",
        "Pulumi operations that may go on at a time",
        number(max_runs),
    )?;
    gauge(
        encoder,
        "windlass_runs_waiting",
        "Stacks that want to run while the limit is reached",
        number(waiting_for_capacity),
    )?;
    let controller = [("controller", STACK_CONTROLLER)];
    gauges(
        encoder,
        "controller_runtime_active_workers",
        "Number of currently used workers per controller",
        [(controller, number(stepping))],
    )?;
    gauges(
        encoder,
        "controller_runtime_max_concurrent_reconciles",
        "Maximum number of concurrent reconciles per controller",
        [(controller, number(max_runs))],
    )?;
    gauges(
        encoder,
        "workqueue_depth",
        "Current depth of workqueue by workqueue",
        [(
            [("name", STACK_CONTROLLER), ("controller", STACK_CONTROLLER)],
            number(queued),
        )],
    )
}

fn evaluations(encoder: &mut DescriptorEncoder, plugins: &PluginHost) -> Result<(), Error> {
    let evaluations = plugins.evaluations();
    if evaluations.is_empty() {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(
        "windlass_plugin_evaluation_duration_seconds",
        "How long evaluations of plugins took, questions and answers included.",
        None,
        MetricType::Histogram,
    )?;
    for (kind, counted) in evaluations {
        let labels = [
            ("plugin", kind.plugin.as_str()),
            ("function", kind.function),
            ("result", kind.result),
        ];
        let mut buckets: Vec<(f64, u64)> = BUCKETS.into_iter().zip(counted.buckets).collect();
        let within: u64 = counted.buckets.iter().sum();
        buckets.push((f64::INFINITY, counted.count - within));
        metric
            .encode_family(&labels)?
            .encode_histogram::<NoLabelSet>(counted.seconds, counted.count, &buckets, None)?;
    }
    Ok(())
}

fn plugins(encoder: &mut DescriptorEncoder, plugins: &PluginHost) -> Result<(), Error> {
    let mut list = plugins.list();
    list.retain(|plugin| !plugin.idle);
    let flag = |set: bool| f64::from(u8::from(set));
    gauges(
        encoder,
        "windlass_plugin_serving",
        "Whether a version of a plugin is served",
        list.iter()
            .map(|plugin| ([("plugin", plugin.name.as_str())], flag(plugin.serving))),
    )?;
    gauges(
        encoder,
        "windlass_plugin_paused",
        "Whether calls of a plugin are refused for a while, for it failed too often",
        list.iter()
            .map(|plugin| ([("plugin", plugin.name.as_str())], flag(plugin.paused))),
    )?;
    gauges(
        encoder,
        "windlass_plugin_load_error",
        "Plugins whose file is not served, and why",
        list.iter().filter_map(|plugin| {
            let error = plugin.error.as_ref()?;
            let labels = [("plugin", plugin.name.as_str()), ("reason", error.reason())];
            Some((labels, 1.0))
        }),
    )
}

fn fetches(encoder: &mut DescriptorEncoder, stats: &FetchStats) -> Result<(), Error> {
    let FetchStats {
        refs_requests,
        refs_failures,
        fetches,
        fetch_failures,
        fetched_bytes,
        hits,
        polls,
        poll_failures,
        peak_child_rss,
    } = *stats;
    let by_what = |refs: u64, trees: u64| {
        [
            ([("what", "refs")], number(refs)),
            ([("what", "tree")], number(trees)),
        ]
    };
    counters(
        encoder,
        "windlass_fetches",
        "Requests to servers of sources, for the refs of a repository or for a tree",
        by_what(refs_requests, fetches),
    )?;
    let failures = |what: &'static str, counts: [u64; 5]| {
        ErrorClass::ALL
            .into_iter()
            .zip(counts)
            .map(move |(class, count)| ([("what", what), ("class", class.name())], number(count)))
    };
    counters(
        encoder,
        "windlass_fetch_failures",
        "Requests to servers of sources that failed, by class of failure",
        failures("refs", refs_failures).chain(failures("tree", fetch_failures)),
    )?;
    counter(
        encoder,
        "windlass_fetched_bytes",
        "Bytes of the files in fetched trees",
        number(fetched_bytes),
    )?;
    counter(
        encoder,
        "windlass_fetch_hits",
        "Trees that were at hand and not fetched",
        number(hits),
    )?;
    counter(
        encoder,
        "windlass_polls",
        "Looks at watched repositories",
        number(polls),
    )?;
    counter(
        encoder,
        "windlass_poll_failures",
        "Looks at watched repositories that failed",
        number(poll_failures),
    )?;
    gauge(
        encoder,
        "windlass_fetch_peak_memory_bytes",
        "Most memory that a fetching process has had",
        number(peak_child_rss),
    )
}
