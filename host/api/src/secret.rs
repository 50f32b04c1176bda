//! Kubernetes Secrets as they stand in a manifest or in a store. Values are never shown by `Debug`.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::sensitive::SensitiveText;

/// A Secret. `stringData` of a manifest is in `data` already.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub immutable: Option<bool>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, SecretBytes>,
}

impl Secret {
    /// The bytes of a key.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.data.get(key).map(SecretBytes::expose)
    }
}

/// Bytes of a Secret: base64 when serialised.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretBytes(Vec<u8>);

impl SecretBytes {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes themselves. Whoever asks answers for where they go.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl From<&SensitiveText> for SecretBytes {
    fn from(text: &SensitiveText) -> Self {
        Self::new(text.expose())
    }
}

impl Serialize for SecretBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for SecretBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut text = String::deserialize(deserializer)?;
        // Go's decoder skips line ends, which long values in block scalars have.
        text.retain(|c| c != '\n' && c != '\r');
        // The decoder's own words would quote a byte of the value.
        STANDARD.decode(text).map(Self).map_err(|_| {
            serde::de::Error::custom(
                "not base64; encode the value, or put it into stringData as it is",
            )
        })
    }
}
