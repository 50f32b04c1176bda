//! Reading what a cluster really holds: quantities as numbers, fields without a value, fields of other versions, objects that an
//! older definition let in.
//!
//! A watch of [`Lenient<Stack>`] goes on whatever an object looks like: one that cannot be read says which field is at fault and
//! still has its metadata. Values are never in an error: they may be secrets.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::manifest::Problem;
use crate::manifest::de::read;
use crate::manifest::fault::Path;
use crate::manifest::node::Node;
use crate::program::{ProgramBody, ProgramFields, ProgramStatus};
use crate::{Program, Stack, Update, Workspace};

/// A value that is not what its type asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field, such as `spec.prerequisites[0].name`; empty for the whole value.
    pub field: String,
    pub problem: Problem,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, problem } = self;
        if !field.is_empty() {
            write!(f, "{field}: ")?;
        }
        problem.fmt(f)
    }
}

impl std::error::Error for FieldError {}

/// Reads a value the way an API server would: a field with no value is one that is not there, a quantity may be a number, what
/// the type does not know is left out.
///
/// # Errors
/// Names the field that is at fault.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, FieldError> {
    let node = Node::from(value);
    // Fields that the type does not know are another version's business.
    read(&node, &Path::Root, &RefCell::default()).map_err(|error| FieldError {
        field: error.path,
        problem: error.problem,
    })
}

/// The kinds that are read from a cluster.
pub trait FromObject: Resource<DynamicType = ()> + Sized {
    /// Reads an object. One without a `spec` is read as one whose `spec` is empty.
    ///
    /// # Errors
    /// As [`from_value`].
    fn from_object(object: &Value) -> Result<Self, FieldError>;
}

macro_rules! with_spec {
    ($($kind:ty)*) => {
        $(impl FromObject for $kind {
            fn from_object(object: &Value) -> Result<Self, FieldError> {
                match object {
                    Value::Object(fields) if fields.get("spec").is_none_or(Value::is_null) => {
                        let mut fields = fields.clone();
                        fields.insert("spec".to_owned(), Value::Object(Map::new()));
                        from_value(&Value::Object(fields))
                    }
                    object => from_value(object),
                }
            }
        })*
    };
}

with_spec! { Stack Workspace Update }

/// Pods are the API server's own: whatever it answers is one.
impl FromObject for k8s_openapi::api::core::v1::Pod {
    fn from_object(object: &Value) -> Result<Self, FieldError> {
        from_value(object)
    }
}

impl FromObject for Program {
    fn from_object(object: &Value) -> Result<Self, FieldError> {
        /// The type itself is flat, and errors of flat types name no field.
        #[derive(Deserialize)]
        struct Object {
            metadata: ObjectMeta,
            program: Option<ProgramBody>,
            status: Option<ProgramStatus>,
        }
        let Object {
            metadata,
            program,
            status,
        } = from_value(object)?;
        Ok(Self {
            metadata,
            spec: ProgramFields { program },
            status,
        })
    }
}

/// An object of a list or watch: as it is, or why it cannot be read. Deserializing it never fails for its content.
#[derive(Clone, Debug)]
pub struct Lenient<K>(pub Result<K, InvalidObject>);

/// An object that cannot be read. Displays as `Stack default/app: spec.stack: what is wrong; what to do`.
#[derive(Clone, Debug, PartialEq)]
pub struct InvalidObject {
    pub kind: Cow<'static, str>,
    /// As far as it can be read; name, namespace, uid and resource version always.
    pub metadata: Box<ObjectMeta>,
    pub error: FieldError,
}

impl fmt::Display for InvalidObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            metadata,
            error,
        } = self;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        write!(f, "{kind} {namespace}/{name}: {error}")
    }
}

impl std::error::Error for InvalidObject {}

impl<K: FromObject> Lenient<K> {
    /// Reads an object.
    pub fn read(object: &Value) -> Self {
        Self(K::from_object(object).map_err(|error| InvalidObject {
            kind: K::kind(&()),
            metadata: Box::new(metadata_of(object)),
            error,
        }))
    }
}

impl<'de, K: FromObject> Deserialize<'de> for Lenient<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(deserializer)?;
        if !object.is_object() {
            return Err(D::Error::custom("expected an object"));
        }
        Ok(Self::read(&object))
    }
}

impl<K: FromObject> Resource for Lenient<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind(_: &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Ok(object) => object.meta(),
            Err(invalid) => &invalid.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(object) => object.meta_mut(),
            Err(invalid) => &mut invalid.metadata,
        }
    }
}

/// What can be read of an object's metadata; without the managed fields.
fn metadata_of(object: &Value) -> ObjectMeta {
    let metadata = &object["metadata"];
    let text = |name: &str| metadata[name].as_str().map(str::to_owned);
    let part = |name: &str| metadata.get(name).unwrap_or(&Value::Null);
    ObjectMeta {
        name: text("name"),
        namespace: text("namespace"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        generation: metadata["generation"].as_i64(),
        deletion_timestamp: from_value::<Option<Time>>(part("deletionTimestamp"))
            .unwrap_or_default(),
        finalizers: from_value(part("finalizers")).unwrap_or_default(),
        labels: from_value(part("labels")).unwrap_or_default(),
        annotations: from_value(part("annotations")).unwrap_or_default(),
        owner_references: from_value(part("ownerReferences")).unwrap_or_default(),
        ..ObjectMeta::default()
    }
}
