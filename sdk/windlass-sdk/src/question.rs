//! Questions and answers as data: what crosses between rounds, and what a transcript holds.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::host::{Credential, SecretName};
use crate::types::ObjectRef;

/// One question to the host. Equal questions are told apart by their occurrence in the call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "ask")]
pub enum Question {
    SecretAt {
        pointer: String,
    },
    SecretKeyAt {
        pointer: String,
        key: String,
    },
    /// The identifier behind a reference: a number, and no secret.
    IdAt {
        pointer: String,
    },
    KubeGet {
        object: ObjectRef,
    },
    HttpSend {
        request: HttpRequest,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        auth: Option<Credential>,
    },
    HttpCapture {
        request: HttpRequest,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        auth: Option<Credential>,
        /// JSON pointers into the body of the response.
        capture: Vec<String>,
        /// Which of the call's capturing requests it is, from 0.
        exchange: u32,
    },
    GitRefs {
        url: String,
        prefixes: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        auth: Option<Credential>,
    },
    CacheGet {
        key: String,
    },
    CacheGetSecret {
        key: String,
        /// What the secret was obtained with.
        origin: SecretName,
    },
}

/// What the host found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "answer")]
pub enum Answer {
    /// The secret exists; its value stays with the host.
    Secret,
    /// The cache has no such secret.
    NoSecret,
    Id {
        value: u64,
    },
    Object {
        object: Option<Value>,
    },
    Http {
        response: HttpResponse,
    },
    Captured {
        /// Without the captured values.
        response: HttpResponse,
        /// For each pointer, whether something stood there.
        found: Vec<bool>,
    },
    Refs {
        refs: Vec<GitRef>,
    },
    Cached {
        value: Option<Value>,
    },
}

/// An HTTP request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRequest {
    pub method: String,
    pub url: String,
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Vec<u8>>,
}

/// An HTTP response of any status. Header names are in lower case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpResponse {
    pub status: u16,
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    #[serde(default)]
    pub body: Vec<u8>,
}

/// One reference that a Git repository advertises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GitRef {
    /// Full name, `refs/heads/main`.
    pub name: String,
    /// Hash of the object it names.
    pub oid: String,
    /// For an annotated tag: the commit it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peeled: Option<String>,
}
