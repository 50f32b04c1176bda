//! `registry.example.org[:PORT]/NAME[:TAG | @sha256:HEX]`.

use std::fmt;

use serde_json::Value;

/// A reference, in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    origin: String,
    name: String,
    /// Tag or digest.
    pub reference: String,
}

impl Image {
    /// # Errors
    /// What the reference must be, as the rest of a sentence.
    pub fn of(source: &Value) -> Result<Self, String> {
        let text = source["image"].as_str().unwrap_or_default();
        let (server, rest) = text
            .split_once('/')
            .filter(|(server, _)| server.contains(['.', ':']))
            .ok_or("must begin with a registry's host, as in registry.example.org/shop/web:v1")?;
        let (name, reference) = match rest.split_once('@') {
            Some((name, digest)) => {
                let hex = digest.strip_prefix("sha256:").unwrap_or_default();
                if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return Err("has a digest that is not sha256: and 64 hexadecimal digits".into());
                }
                // A tag before a digest says nothing more.
                (name.split(':').next().unwrap_or(name), digest)
            }
            None => rest.rsplit_once(':').unwrap_or((rest, "latest")),
        };
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let good_name = name
            .split('/')
            .all(|part| !part.is_empty() && part != ".." && part.bytes().all(fine));
        if !good_name || reference.is_empty() || !reference.replace(':', "").bytes().all(fine) {
            return Err("is no reference: registry.example.org/NAME[:TAG | @sha256:DIGEST]".into());
        }
        let scheme = match source["insecure"].as_bool() {
            Some(true) => "http",
            _ => "https",
        };
        Ok(Image {
            origin: format!("{scheme}://{server}"),
            name: name.to_owned(),
            reference: reference.to_owned(),
        })
    }

    /// Whether it names its content.
    pub fn is_pinned(&self) -> bool {
        self.reference.starts_with("sha256:")
    }

    pub fn url(&self, what: &str, which: &str) -> String {
        let Image { origin, name, .. } = self;
        format!("{origin}/v2/{name}/{what}/{which}")
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self
            .origin
            .split_once("://")
            .map_or("", |(_, server)| server);
        let sign = if self.is_pinned() { '@' } else { ':' };
        write!(f, "{server}/{}{sign}{}", self.name, self.reference)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn image(text: &str) -> Result<Image, String> {
        Image::of(&json!({"image": text}))
    }

    #[test]
    fn references() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for (text, shown) in [
            ("r.example/a", "r.example/a:latest".to_owned()),
            ("r.example:5000/a/b:v1", "r.example:5000/a/b:v1".to_owned()),
            (
                &format!("r.example/a:v1@{digest}"),
                format!("r.example/a@{digest}"),
            ),
        ] {
            assert_eq!(image(text).unwrap().to_string(), shown);
        }
        assert_eq!(
            image("r.example:5000/a:v1").unwrap().url("manifests", "v1"),
            "https://r.example:5000/v2/a/manifests/v1"
        );
        for text in [
            "",
            "shop/web:v1",
            "r.example/",
            "r.example/a/../b",
            "r.example/a b",
            "r.example/a@sha256:1",
        ] {
            assert!(image(text).is_err(), "{text}");
        }
    }
}
