//! Takes known secret values out of texts.

/// What stands where a secret stood: the CLI's own word.
pub const MASK: &str = "[secret]";

/// Shorter values are left alone, as the CLI does: masking every `a` would destroy the text and tell the value.
const SHORTEST: usize = 3;

/// Known secrets, longest first.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Vec<String>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} secrets)", self.secrets.len())
    }
}

impl Redactor {
    /// Adds a value: as it is, each of its lines (logs come by lines), and as it looks inside JSON.
    pub fn add(&mut self, secret: &str) {
        let quoted = serde_json::to_string(secret).unwrap_or_default();
        let inner = quoted
            .get(1..quoted.len().saturating_sub(1))
            .unwrap_or_default();
        let lines = secret.lines().filter(|l| l.trim().len() >= 8);
        for text in [secret, secret.trim(), inner].into_iter().chain(lines) {
            if text.len() >= SHORTEST && !self.secrets.iter().any(|s| s == text) {
                self.secrets.push(text.to_owned());
            }
        }
        self.secrets.sort_by_key(|s| std::cmp::Reverse(s.len()));
    }

    /// Adds every text in a JSON value.
    pub fn add_json(&mut self, value: &serde_json::Value) {
        match value {
            serde_json::Value::String(s) => self.add(s),
            serde_json::Value::Array(items) => items.iter().for_each(|v| self.add_json(v)),
            serde_json::Value::Object(fields) => fields.values().for_each(|v| self.add_json(v)),
            serde_json::Value::Number(n) => self.add(&n.to_string()),
            serde_json::Value::Bool(_) | serde_json::Value::Null => {}
        }
    }

    /// The text without known secrets.
    pub fn redact(&self, text: &str) -> String {
        let mut text = std::borrow::Cow::Borrowed(text);
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), MASK).into();
            }
        }
        text.into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_lines_and_json_forms_are_masked() {
        let mut redactor = Redactor::default();
        redactor.add("top\"secret");
        redactor.add("-----BEGIN-----\nline-of-a-key\n");
        redactor.add("ab");
        redactor.add_json(&serde_json::json!({"a": ["deep-value", 12345]}));
        assert_eq!(redactor.redact("x top\"secret y"), "x [secret] y");
        assert_eq!(
            redactor.redact(r#"{"v":"top\"secret"}"#),
            r#"{"v":"[secret]"}"#
        );
        assert_eq!(redactor.redact("it is line-of-a-key"), "it is [secret]");
        assert_eq!(
            redactor.redact("drab deep-value 12345"),
            "drab [secret] [secret]"
        );
        assert!(!format!("{redactor:?}").contains("deep-value"));
    }
}
