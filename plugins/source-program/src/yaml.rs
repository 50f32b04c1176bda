//! JSON values as block YAML that no parser can take for something else.
//!
//! Every string value is double-quoted, so `yes`, `on`, `1.0` and `2001-01-01` stay strings under every version of YAML.

use std::fmt::Write;

use serde_json::Value;

/// The document, with a final line feed. Keys keep their order.
pub fn emit(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => block(&mut out, value, 0),
        Value::Array(list) if !list.is_empty() => block(&mut out, value, 0),
        _ => {
            scalar(&mut out, value);
            out.push('\n');
        }
    }
    out
}

/// A collection that is not empty, each entry on a line of its own.
fn block(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                indent(out, depth);
                if is_plain_key(key) {
                    out.push_str(key)
                } else {
                    quoted(out, key)
                }
                out.push(':');
                entry(out, value, depth);
            }
        }
        Value::Array(list) => {
            for value in list {
                indent(out, depth);
                out.push('-');
                entry(out, value, depth);
            }
        }
        other => scalar(out, other),
    }
}

fn entry(out: &mut String, value: &Value, depth: usize) {
    let nested = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    };
    if nested {
        out.push('\n');
        block(out, value, depth + 1);
    } else {
        out.push(' ');
        scalar(out, value);
        out.push('\n');
    }
}

fn indent(out: &mut String, depth: usize) {
    for _ in 0..depth {
        out.push_str("  ");
    }
}

fn scalar(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::String(text) => quoted(out, text),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

/// Double quotes mean the same in JSON and YAML, but YAML wants more characters escaped.
fn quoted(out: &mut String, text: &str) {
    for character in Value::from(text).to_string().chars() {
        match character {
            '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
}

fn is_plain_key(key: &str) -> bool {
    let mut bytes = key.bytes();
    let starts = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let goes_on = bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    // `~` and numbers do not start with a letter; what is left are the words that some version of YAML takes.
    let word = matches!(
        key.to_ascii_lowercase().as_str(),
        "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false" | "null"
    );
    starts && goes_on && !word
}
