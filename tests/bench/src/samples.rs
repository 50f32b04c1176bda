//! Samples of one figure, and how they are summed up.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    PerSecond,
    Bytes,
    /// Things that are counted.
    Count,
}

/// Which of the samples are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// Smallest, median, largest.
    Spread,
    /// Median and the 99th percentile, of very many.
    Tail,
}

/// Samples of one figure.
#[derive(Clone, Debug)]
pub struct Samples {
    sorted: Vec<f64>,
    unit: Unit,
    shown: Shown,
}

impl Samples {
    /// For a few: min, median and max.
    pub fn spread(unit: Unit, values: Vec<f64>) -> Self {
        Self::new(unit, values, Shown::Spread)
    }

    /// For many: p50 and p99.
    pub fn tail(unit: Unit, values: Vec<f64>) -> Self {
        Self::new(unit, values, Shown::Tail)
    }

    /// A single number.
    pub fn one(unit: Unit, value: f64) -> Self {
        Self::spread(unit, vec![value])
    }

    fn new(unit: Unit, mut sorted: Vec<f64>, shown: Shown) -> Self {
        sorted.sort_by(f64::total_cmp);
        Samples {
            sorted,
            unit,
            shown,
        }
    }

    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The median; nothing of no samples.
    pub fn median(&self) -> Option<f64> {
        self.percentile(50)
    }

    /// By the nearest rank.
    fn percentile(&self, percent: usize) -> Option<f64> {
        let rank = (self.sorted.len() * percent).div_ceil(100).max(1);
        self.sorted.get(rank - 1).copied()
    }

    fn parts(&self) -> Vec<(&'static str, Option<f64>)> {
        match self.shown {
            Shown::Spread => vec![
                ("min", self.sorted.first().copied()),
                ("median", self.median()),
                ("max", self.sorted.last().copied()),
            ],
            Shown::Tail => vec![("p50", self.percentile(50)), ("p99", self.percentile(99))],
        }
    }

    /// For a cell of the table.
    pub fn text(&self) -> String {
        let parts = self.parts();
        let shown = |value: Option<f64>| {
            value.map_or_else(|| "-".to_owned(), |value| number(self.unit, value))
        };
        if self.sorted.len() == 1 {
            return shown(self.median());
        }
        match self.shown {
            Shown::Spread => {
                let all: Vec<String> = parts.iter().map(|(_, value)| shown(*value)).collect();
                all.join(" / ")
            }
            Shown::Tail => {
                let all: Vec<String> = parts
                    .iter()
                    .map(|(name, value)| format!("{name} {}", shown(*value)))
                    .collect();
                all.join(", ")
            }
        }
    }

    pub fn json(&self) -> Value {
        let unit = match self.unit {
            Unit::Seconds => "s",
            Unit::PerSecond => "1/s",
            Unit::Bytes => "B",
            Unit::Count => "1",
        };
        let mut object = json!({"unit": unit, "n": self.count()});
        for (name, value) in self.parts() {
            object[name] = json!(value);
        }
        object
    }
}

/// Seconds that something took.
pub fn seconds(elapsed: Duration) -> f64 {
    elapsed.as_secs_f64()
}

/// Runs something and says how long it took, in seconds.
pub fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let begun = Instant::now();
    let result = work();
    (seconds(begun.elapsed()), result)
}

/// A number with three digits that count, and its unit.
fn number(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Seconds => scaled(
            value,
            &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")],
        ),
        Unit::PerSecond => scaled(value, &[(1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")]),
        Unit::Bytes => scaled(
            value,
            &[
                (1_073_741_824.0, "GiB"),
                (1_048_576.0, "MiB"),
                (1024.0, "KiB"),
                (1.0, "B"),
            ],
        ),
        Unit::Count if value.fract() == 0.0 => format!("{value:.0}"),
        Unit::Count => format!("{value:.1}"),
    }
}

fn scaled(value: f64, scales: &[(f64, &str)]) -> String {
    let fits = scales.iter().find(|(scale, _)| value.abs() >= *scale);
    let Some((scale, unit)) = fits.or(scales.last()) else {
        return value.to_string();
    };
    let value = value / scale;
    let digits = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_unit_that_fits() {
        assert_eq!(number(Unit::Seconds, 1.5), "1.50 s");
        assert_eq!(number(Unit::Seconds, 0.0204), "20.4 ms");
        assert_eq!(number(Unit::Seconds, 123.4e-6), "123 µs");
        assert_eq!(number(Unit::Seconds, -0.002), "-2.00 ms");
        assert_eq!(number(Unit::PerSecond, 250_000.0), "250 k/s");
        assert_eq!(number(Unit::Bytes, 3_145_728.0), "3.00 MiB");
        assert_eq!(number(Unit::Bytes, 0.0), "0.00 B");
        assert_eq!(number(Unit::Count, 14.0), "14");
        assert_eq!(number(Unit::Count, 0.25), "0.2");
    }

    #[test]
    fn percentiles_are_samples() {
        let all = Samples::tail(Unit::Seconds, (1..=1000).rev().map(f64::from).collect());
        assert_eq!(
            (all.percentile(50), all.percentile(99)),
            (Some(500.0), Some(990.0))
        );
        let few = Samples::spread(Unit::Seconds, vec![3.0, 1.0, 2.0]);
        assert_eq!(few.median(), Some(2.0));
        assert_eq!(few.text(), "1.00 s / 2.00 s / 3.00 s");
        assert_eq!(Samples::spread(Unit::Bytes, Vec::new()).median(), None);
    }
}
