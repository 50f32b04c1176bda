//! Durations as Go writes them (`1h30m`, `24h`, `1.5s`, `300ms`), which is how Kubernetes objects carry them.

use std::time::Duration;

/// Why a text is no duration. The texts tell what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("an empty duration; write a number with a unit, such as \"24h\", \"1h30m\" or \"90s\"")]
    Empty,
    #[error("the duration {0:?} is negative; it must be zero or more")]
    Negative(String),
    #[error(
        "the duration {0:?} has a number without a unit; add one of h, m, s, ms, us, ns, as in \"24h\""
    )]
    MissingUnit(String),
    #[error(
        "the duration {text:?} has the unknown unit {unit:?}; use h, m, s, ms, us or ns (a day is \"24h\")"
    )]
    UnknownUnit { text: String, unit: String },
    #[error(
        "{0:?} is no duration; write a number with a unit, such as \"24h\", \"1h30m\" or \"90s\""
    )]
    NotADuration(String),
    #[error("the duration {0:?} is longer than 292 years")]
    TooLong(String),
}

/// Parses what Go's `time.ParseDuration` accepts, negative durations excepted.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(DurationError::NotADuration(text.to_owned()));
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let number_end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(DurationError::NotADuration(text.to_owned()));
        }
        let unit_end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        let scale = match unit {
            "h" => 3_600_000_000_000,
            "m" => 60_000_000_000,
            "s" => 1_000_000_000,
            "ms" => 1_000_000,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ns" => 1,
            "" => return Err(DurationError::MissingUnit(text.to_owned())),
            _ => {
                return Err(DurationError::UnknownUnit {
                    text: text.to_owned(),
                    unit: unit.to_owned(),
                });
            }
        };
        total = nanoseconds(whole, fraction, scale)
            .and_then(|n| total.checked_add(n))
            .filter(|n| *n <= i64::MAX as u128)
            .ok_or_else(|| DurationError::TooLong(text.to_owned()))?;
        rest = next;
    }
    if negative && total > 0 {
        return Err(DurationError::Negative(text.to_owned()));
    }
    u64::try_from(total)
        .map(Duration::from_nanos)
        .map_err(|_| DurationError::TooLong(text.to_owned()))
}

fn nanoseconds(whole: &str, fraction: &str, scale: u128) -> Option<u128> {
    let whole: u128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    // More digits than these are below a nanosecond for every unit.
    let fraction = &fraction[..fraction.len().min(18)];
    let part = if fraction.is_empty() {
        0
    } else {
        let digits: u128 = fraction.parse().ok()?;
        digits.checked_mul(scale)? / 10u128.pow(u32::try_from(fraction.len()).ok()?)
    };
    whole.checked_mul(scale)?.checked_add(part)
}

/// Prints as Go does: `1h30m0s`, `1.5s`, `300ms`, `0s`.
pub fn format(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => format!("{}\u{b5}s", decimal(nanos, 3)),
        1_000_000..1_000_000_000 => format!("{}ms", decimal(nanos, 6)),
        _ => {
            let minutes = nanos / 60_000_000_000;
            let seconds = decimal(nanos % 60_000_000_000, 9);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, m) => format!("{m}m{seconds}s"),
                (h, m) => format!("{h}h{m}m{seconds}s"),
            }
        }
    }
}

/// `value / 10^places` without trailing zeros.
fn decimal(value: u128, places: usize) -> String {
    let scale = 10u128.pow(places as u32);
    let (whole, part) = (value / scale, value % scale);
    if part == 0 {
        return whole.to_string();
    }
    let digits = format!("{part:0places$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_go_reads() {
        for (text, nanos) in [
            ("0", 0),
            ("10s", 10_000_000_000),
            ("24h", 86_400_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("+3ms", 3_000_000),
            ("1h15m30.918273645s", 4_530_918_273_645),
            ("100us", 100_000),
            ("-0s", 0),
        ] {
            assert_eq!(parse(text).unwrap(), Duration::from_nanos(nanos), "{text}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        let error = |text: &str| parse(text).unwrap_err();
        assert_eq!(error(""), DurationError::Empty);
        assert_eq!(error("10"), DurationError::MissingUnit("10".into()));
        assert_eq!(
            error("1d"),
            DurationError::UnknownUnit {
                text: "1d".into(),
                unit: "d".into()
            }
        );
        assert_eq!(error("-1s"), DurationError::Negative("-1s".into()));
        assert_eq!(error("1..s"), DurationError::NotADuration("1..s".into()));
        assert_eq!(error("."), DurationError::NotADuration(".".into()));
        assert_eq!(error("h"), DurationError::NotADuration("h".into()));
        assert_eq!(
            error("9999999999h"),
            DurationError::TooLong("9999999999h".into())
        );
    }

    #[test]
    fn prints_as_go_prints() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5\u{b5}s"),
            (300_000_000, "300ms"),
            (1_500_000_000, "1.5s"),
            (60_000_000_000, "1m0s"),
            (86_400_000_000_000, "24h0m0s"),
            (5_400_000_000_000, "1h30m0s"),
        ] {
            assert_eq!(format(Duration::from_nanos(nanos)), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(nanos in 0..i64::MAX as u64) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&format(duration)).unwrap(), duration);
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            let _ = parse(&text);
        }
    }
}
