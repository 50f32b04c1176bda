//! One object of a manifest: from the tree to the type that its kind names.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::de::{UnknownField, read};
use super::error::Problem;
use super::fault::{NodeError, Path};
use super::node::{Node, Tree};
use crate::names::{AUTO_GROUP, GROUP, STACK_NAME_MAX};
use crate::program::{ProgramBody, ProgramFields};
use crate::secret::{Secret, SecretBytes};
use crate::sensitive::SensitiveText;
use crate::stack::StackSpec;
use crate::update::UpdateSpec;
use crate::workspace::WorkspaceSpec;
use crate::{Program, Stack, Update, Workspace};

/// An object that a manifest describes. What only a server may say (status, `metadata.uid` and the like) is left out.
#[derive(Clone, Debug, PartialEq)]
pub enum Manifest {
    Stack(Box<Stack>),
    Program(Box<Program>),
    Workspace(Box<Workspace>),
    Update(Box<Update>),
    Secret(Box<Secret>),
    ConfigMap(Box<ConfigMap>),
}

/// The kinds that are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    Stack,
    Program,
    Workspace,
    Update,
    Secret,
    ConfigMap,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Stack,
        Self::Program,
        Self::Workspace,
        Self::Update,
        Self::Secret,
        Self::ConfigMap,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stack => "Stack",
            Self::Program => "Program",
            Self::Workspace => "Workspace",
            Self::Update => "Update",
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }

    fn group_versions(self) -> &'static [&'static str] {
        match self {
            Self::Stack => &["pulumi.com/v1", "pulumi.com/v1alpha1"],
            Self::Program => &["pulumi.com/v1"],
            Self::Workspace | Self::Update => &["auto.pulumi.com/v1alpha1"],
            Self::Secret | Self::ConfigMap => &["v1"],
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What tells one object from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

impl Manifest {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Stack(_) => Kind::Stack,
            Self::Program(_) => Kind::Program,
            Self::Workspace(_) => Kind::Workspace,
            Self::Update(_) => Kind::Update,
            Self::Secret(_) => Kind::Secret,
            Self::ConfigMap(_) => Kind::ConfigMap,
        }
    }

    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Stack(o) => &o.metadata,
            Self::Program(o) => &o.metadata,
            Self::Workspace(o) => &o.metadata,
            Self::Update(o) => &o.metadata,
            Self::Secret(o) => &o.metadata,
            Self::ConfigMap(o) => &o.metadata,
        }
    }

    pub fn key(&self) -> ObjectKey {
        let metadata = self.metadata();
        ObjectKey {
            kind: self.kind(),
            namespace: metadata
                .namespace
                .clone()
                .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

/// Namespace of an object that names none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// What a document's `apiVersion` and `kind` name.
pub(super) enum Identified {
    Kind(Kind),
    /// A list of objects, under `items`.
    List,
    /// Nothing of ours; `hint` says which version was probably meant.
    Unknown {
        api_version: String,
        kind: String,
        hint: Option<String>,
    },
}

/// Reads `apiVersion` and `kind`.
pub(super) fn identify(node: &Node, path: &Path<'_>) -> Result<Identified, NodeError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Header {
        api_version: String,
        kind: String,
    }
    let Header { api_version, kind } = read(node, path, &RefCell::default())?;
    if let Some(known) = Kind::ALL.into_iter().find(|k| k.as_str() == kind) {
        let versions = known.group_versions();
        if versions.contains(&api_version.as_str()) {
            return Ok(Identified::Kind(known));
        }
        let same_group = api_version
            .split('/')
            .next()
            .is_some_and(|group| group == GROUP || group == AUTO_GROUP);
        let hint = same_group.then(|| format!("apiVersion {}", versions.join(" or ")));
        return Ok(Identified::Unknown {
            api_version,
            kind,
            hint,
        });
    }
    let list_of_known = kind.strip_suffix("List").is_some_and(|item| {
        item.is_empty()
            || Kind::ALL
                .into_iter()
                .any(|k| k.as_str() == item && k.group_versions().contains(&&*api_version))
    });
    if list_of_known {
        return Ok(Identified::List);
    }
    let hint = Kind::ALL
        .into_iter()
        .find(|k| k.as_str().eq_ignore_ascii_case(&kind))
        .map(|k| format!("kind {k}"));
    Ok(Identified::Unknown {
        api_version,
        kind,
        hint,
    })
}

/// The object that a broken document was to describe, if that much can be read.
pub(super) fn key_of_broken(kind: Kind, node: &Node) -> Option<ObjectKey> {
    let metadata = &node.get("metadata")?.node;
    Some(ObjectKey {
        kind,
        namespace: metadata
            .get_str("namespace")
            .filter(|n| !n.is_empty())
            .unwrap_or(DEFAULT_NAMESPACE)
            .to_owned(),
        name: metadata.get_str("name")?.to_owned(),
    })
}

/// A document whose body is under `spec`. The status is the server's business and not looked at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "fields that must be known are not all used")]
struct Document<S> {
    api_version: String,
    kind: String,
    metadata: ObjectMeta,
    spec: S,
    status: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "fields that must be known are not all used")]
struct ProgramDocument {
    api_version: String,
    kind: String,
    metadata: ObjectMeta,
    program: Option<ProgramBody>,
    status: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "fields that must be known are not all used")]
struct SecretDocument {
    api_version: String,
    kind: String,
    metadata: ObjectMeta,
    #[serde(rename = "type")]
    type_: Option<String>,
    immutable: Option<bool>,
    #[serde(default)]
    data: BTreeMap<String, SecretBytes>,
    #[serde(default)]
    string_data: BTreeMap<String, SensitiveText>,
}

/// Reads the object of a kind.
pub(super) fn read_object(
    kind: Kind,
    node: &Node,
    path: &Path<'_>,
    unknown: &RefCell<Vec<UnknownField>>,
) -> Result<Manifest, NodeError> {
    let check = |metadata: ObjectMeta| check_metadata(kind, metadata, node, path);
    Ok(match kind {
        Kind::Stack => {
            let document: Document<StackSpec> = read(node, path, unknown)?;
            let metadata = check(document.metadata)?;
            Manifest::Stack(Box::new(Stack {
                metadata,
                spec: document.spec,
                status: None,
            }))
        }
        Kind::Workspace => {
            let document: Document<Option<WorkspaceSpec>> = read(node, path, unknown)?;
            let metadata = check(document.metadata)?;
            let spec = document.spec.unwrap_or_default();
            Manifest::Workspace(Box::new(Workspace {
                metadata,
                spec,
                status: None,
            }))
        }
        Kind::Update => {
            let document: Document<Option<UpdateSpec>> = read(node, path, unknown)?;
            let metadata = check(document.metadata)?;
            let spec = document.spec.unwrap_or_default();
            Manifest::Update(Box::new(Update {
                metadata,
                spec,
                status: None,
            }))
        }
        Kind::Program => {
            let document: ProgramDocument = read(node, path, unknown)?;
            let metadata = check(document.metadata)?;
            let spec = ProgramFields {
                program: document.program,
            };
            Manifest::Program(Box::new(Program {
                metadata,
                spec,
                status: None,
            }))
        }
        Kind::Secret => {
            let SecretDocument {
                api_version: _,
                kind: _,
                metadata,
                type_,
                immutable,
                mut data,
                string_data,
            } = read(node, path, unknown)?;
            data.extend(
                string_data
                    .iter()
                    .map(|(key, text)| (key.clone(), SecretBytes::from(text))),
            );
            Manifest::Secret(Box::new(Secret {
                metadata: check(metadata)?,
                type_,
                immutable,
                data,
            }))
        }
        Kind::ConfigMap => {
            let mut object: ConfigMap = read(node, path, unknown)?;
            object.metadata = check(object.metadata)?;
            Manifest::ConfigMap(Box::new(object))
        }
    })
}

/// Fills in the namespace, leaves out what is a server's to say, and checks the name.
fn check_metadata(
    kind: Kind,
    metadata: ObjectMeta,
    node: &Node,
    path: &Path<'_>,
) -> Result<ObjectMeta, NodeError> {
    let metadata_path = Path::Field(path, "metadata");
    let field = |name: &'static str| {
        let entry = node.get("metadata");
        let at = entry
            .and_then(|e| e.node.get(name))
            .or(entry)
            .map_or(node.at, |e| e.node.at);
        (at, Path::Field(&metadata_path, name).to_string())
    };
    let fail = |name, problem| {
        let (at, path) = field(name);
        Err(NodeError::at(at, path, problem))
    };
    let name = metadata.name.as_deref().unwrap_or_default();
    if name.is_empty() {
        return fail("name", Problem::Missing);
    }
    if let Some(problem) = subdomain_problem(name) {
        return fail("name", problem);
    }
    let bypasses_limit = node
        .get_str("apiVersion")
        .is_some_and(|v| v.ends_with("/v1alpha1"));
    if kind == Kind::Stack && !bypasses_limit && name.len() > STACK_NAME_MAX {
        let text = format!(
            "Stack name must be no more than {STACK_NAME_MAX} characters in length; shorten it"
        );
        return fail("name", Problem::Invalid(text));
    }
    let namespace = metadata
        .namespace
        .as_deref()
        .filter(|n| !n.is_empty())
        .unwrap_or(DEFAULT_NAMESPACE);
    if namespace.len() > 63 || namespace.contains('.') || subdomain_problem(namespace).is_some() {
        let text = "not a namespace; use at most 63 lower case letters, digits and \"-\"";
        return fail("namespace", Problem::Invalid(text.to_owned()));
    }
    Ok(ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: metadata.name,
        labels: metadata.labels,
        annotations: metadata.annotations,
        finalizers: metadata.finalizers,
        owner_references: metadata.owner_references,
        ..ObjectMeta::default()
    })
}

fn subdomain_problem(name: &str) -> Option<Problem> {
    let label_ok = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let ok = name.len() <= 253 && name.split('.').all(label_ok);
    (!ok).then(|| {
        let text = "not a name; use lower case letters, digits, \"-\" and \".\", with a letter or digit at both ends";
        Problem::Invalid(text.to_owned())
    })
}

/// The items of a list.
pub(super) fn items(node: &Node) -> &[Node] {
    match node.get("items").map(|e| &e.node.tree) {
        Some(Tree::List(items)) => items,
        _ => &[],
    }
}
