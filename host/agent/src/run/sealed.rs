//! Secrets that stand sealed in the settings file of a run: those of the program's own settings, and those that only the
//! request told, which the journal does not keep.

use serde_json::Value;

use super::context::Context;
use super::prepare::{SETTINGS, crypter};
use crate::supervise::read_json;

/// Opens what the stack's passphrase opens, so that it is taken out of every text. What is sealed with a key elsewhere
/// is known to the CLI alone.
pub fn note(context: &mut Context) {
    let Some(settings) = read_json::<Value>(&context.dir.join(SETTINGS)) else {
        return;
    };
    let mut sealed = Vec::new();
    collect(&settings["config"], &mut sealed);
    if sealed.is_empty() {
        return;
    }
    let Some(crypter) = crypter(context, settings["encryptionsalt"].as_str()) else {
        return;
    };
    for plain in sealed.iter().filter_map(|text| crypter.decrypt(text).ok()) {
        if let Ok(parts @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(&plain) {
            context.redactor.add_json(&parts);
        }
        context.redactor.add(&plain);
    }
}

/// Every text below a member `secure`.
fn collect<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("secure", Value::String(text)) => found.push(text),
                    _ => collect(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_texts_are_found_at_any_depth() {
        let config = serde_json::json!({
            "p:a": {"secure": "one"},
            "p:b": {"deep": [{"secure": "two"}, "plain"]},
            "p:c": "secure",
        });
        let mut found = Vec::new();
        collect(&config, &mut found);
        assert_eq!(found, ["one", "two"]);
    }
}
