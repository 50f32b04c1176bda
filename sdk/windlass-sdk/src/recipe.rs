//! What a secret is made of: data, so that hosts compute it where values are, and tests compare it.

use serde::{Deserialize, Serialize};

use crate::host::{Secret, SecretName};

/// How a key is derived from a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Derivation {
    /// Of prefix, key and payload, one after the other.
    Sha256,
    /// Of the payload, under prefix and key one after the other.
    HmacSha256,
}

/// How a payload is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signature {
    /// HMAC-SHA256 under the key.
    HmacSha256,
    /// RSASSA-PKCS1-v1_5 with SHA-256; the key is PEM, PKCS#1 or PKCS#8.
    Rs256,
}

/// A piece of a text with secrets in it.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    Text(&'a str),
    Plain(&'a Secret),
    /// Lower case.
    Hex(&'a Secret),
    /// With padding.
    Base64(&'a Secret),
    /// The alphabet of URLs, without padding, as in a JWT.
    Base64Url(&'a Secret),
}

/// How the bytes of a secret stand in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    Plain,
    Hex,
    Base64,
    Base64Url,
}

/// A [`Part`] with its secret by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamedPart {
    Text(String),
    Secret { name: SecretName, form: Form },
}

/// How a secret is made. Inputs are names, and what the plugin knows anyway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "make")]
pub enum Recipe {
    Derive {
        how: Derivation,
        key: SecretName,
        prefix: Vec<u8>,
        payload: Vec<u8>,
    },
    Sign {
        how: Signature,
        key: SecretName,
        payload: Vec<u8>,
    },
    Join {
        parts: Vec<NamedPart>,
    },
}

impl Part<'_> {
    /// The same by name.
    pub fn named(&self) -> NamedPart {
        let (secret, form) = match self {
            Part::Text(text) => return NamedPart::Text((*text).to_owned()),
            Part::Plain(secret) => (secret, Form::Plain),
            Part::Hex(secret) => (secret, Form::Hex),
            Part::Base64(secret) => (secret, Form::Base64),
            Part::Base64Url(secret) => (secret, Form::Base64Url),
        };
        NamedPart::Secret {
            name: secret.name().clone(),
            form,
        }
    }
}

impl Recipe {
    /// Bytes that the plugin contributed.
    pub fn size(&self) -> usize {
        match self {
            Recipe::Derive {
                prefix, payload, ..
            } => prefix.len() + payload.len(),
            Recipe::Sign { payload, .. } => payload.len(),
            Recipe::Join { parts } => parts
                .iter()
                .map(|part| match part {
                    NamedPart::Text(text) => text.len(),
                    // What a name takes up where it is kept.
                    NamedPart::Secret { .. } => 64,
                })
                .sum(),
        }
    }
}
