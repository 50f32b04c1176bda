//! What goes to stdout, and the small words for times, numbers and values.

use std::io::{ErrorKind, IsTerminal, Write};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use windlass_core::time::Timestamp;

use crate::error::Result;

/// Writes to stdout. A reader that has gone away (`| head`) is no error.
///
/// # Errors
/// `Output` if stdout cannot be written for another reason.
pub fn out(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let end = if text.ends_with('\n') || text.is_empty() {
        ""
    } else {
        "\n"
    };
    let written = write!(stdout, "{text}{end}").and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes one line of what a program printed; a blank one too.
///
/// # Errors
/// As [`out`].
pub fn line(text: &str) -> Result<()> {
    out(&format!("{}\n", printable(text)))
}

/// Writes one JSON document to stdout.
///
/// # Errors
/// As [`out`].
pub fn json(value: &impl Serialize) -> Result<()> {
    out(&serde_json::to_string_pretty(value)?)
}

/// Whether stdout may have colours.
pub fn colours() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|it| it == "dumb");
    std::io::stdout().is_terminal() && !unwanted && !dumb
}

/// `0.3 s`, `12 s`, `2 min 5 s`, `3 h 4 min`, `2 d 3 h`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => pair(seconds / 60, "min", seconds % 60, "s"),
        3600..86400 => pair(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => pair(seconds / 86400, "d", seconds % 86400 / 3600, "h"),
    }
}

fn pair(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large} {large_unit}")
    } else {
        format!("{large} {large_unit} {small} {small_unit}")
    }
}

/// `3 min ago`, `in 12 s`.
pub fn relative(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        format!("in {}", duration(at.since(now)))
    } else {
        format!("{} ago", duration(now.since(at)))
    }
}

/// This moment.
pub fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}

/// Time of day here, `12:04:31`.
pub fn clock(at: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.0) {
        Ok(time) => time
            .to_zoned(jiff::tz::TimeZone::system())
            .strftime("%H:%M:%S")
            .to_string(),
        Err(_) => "?".to_owned(),
    }
}

/// A number with its noun: `1 Stack`, `3 Stacks`.
pub fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// A value in one line: a text as it is, anything else as JSON; no longer than `longest` characters.
pub fn value(value: &Value, longest: usize) -> String {
    let text = match value {
        Value::String(text) => text.replace(['\n', '\r', '\t'], " "),
        other => other.to_string(),
    };
    shorten(&printable(&text), longest)
}

/// No longer than `longest` characters, an ellipsis at the end of what was cut.
pub fn shorten(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(longest.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Bytes of files and bodies as the text they are, where they are one.
pub fn bytes_as_text(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(bytes_as_text),
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                let bytes = matches!(name.as_str(), "content" | "body")
                    .then(|| serde_json::from_value::<Vec<u8>>(field.clone()).ok())
                    .flatten();
                match bytes.map(String::from_utf8) {
                    Some(Ok(text)) => *field = Value::String(text),
                    Some(Err(_)) => {}
                    None => bytes_as_text(field),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Without control characters: what a program prints must not steer the terminal.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() && c != '\n' && c != '\t' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn durations_are_told_with_two_units_at_most() {
        let told = |ms| duration(Duration::from_millis(ms));
        assert_eq!(told(340), "0.3 s");
        assert_eq!(told(12_900), "12 s");
        assert_eq!(told(125_000), "2 min 5 s");
        assert_eq!(told(3_600_000), "1 h");
        assert_eq!(told(90_000_000), "1 d 1 h");
    }

    #[test]
    fn times_are_told_from_now() {
        assert_eq!(relative(Timestamp(1_000), Timestamp(13_000)), "12 s ago");
        assert_eq!(relative(Timestamp(13_000), Timestamp(1_000)), "in 12 s");
    }

    #[test]
    fn files_are_shown_as_text() {
        let mut shown =
            json!({"files": [{"path": "a", "content": [104, 105]}, {"content": [255]}]});
        bytes_as_text(&mut shown);
        assert_eq!(
            shown,
            json!({"files": [{"path": "a", "content": "hi"}, {"content": [255]}]})
        );
    }

    #[test]
    fn values_stay_in_one_line_and_steer_no_terminal() {
        assert_eq!(value(&json!("a\nb"), 10), "a b");
        assert_eq!(value(&json!({"a": [1, 2]}), 20), r#"{"a":[1,2]}"#);
        assert_eq!(value(&json!("0123456789"), 5), "0123…");
        assert!(!value(&json!("\u{1b}[31mred"), 20).contains('\u{1b}'));
    }
}
