//! Short ways to write families whose values are read when they are asked for.

use std::fmt::Error;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// One value that goes up and down.
pub fn gauge(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    value: f64,
) -> Result<(), Error> {
    let mut metric = encoder.encode_descriptor(name, &ended(help), None, MetricType::Gauge)?;
    metric.encode_gauge(&value)
}

/// Values that go up and down, one per set of labels. A family without values is left out.
pub fn gauges<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (L, f64)>,
) -> Result<(), Error> {
    let mut values = values.into_iter().peekable();
    if values.peek().is_none() {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(name, &ended(help), None, MetricType::Gauge)?;
    for (labels, value) in values {
        metric.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

/// One value that only grows. `_total` is added to its name.
pub fn counter(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    value: f64,
) -> Result<(), Error> {
    let mut metric = encoder.encode_descriptor(name, &ended(help), None, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
}

/// Values that only grow, one per set of labels.
pub fn counters<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (L, f64)>,
) -> Result<(), Error> {
    let mut values = values.into_iter().peekable();
    if values.peek().is_none() {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(name, &ended(help), None, MetricType::Counter)?;
    for (labels, value) in values {
        metric
            .encode_family(&labels)?
            .encode_counter::<NoLabelSet, _, f64>(&value, None)?;
    }
    Ok(())
}

/// As the registry ends the help of what is registered.
fn ended(help: &str) -> String {
    format!("{help}.")
}

/// A count as a value. What is beyond 2^53 loses its last digits, which no dashboard shows.
pub fn number(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}
