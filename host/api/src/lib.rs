//! The Kubernetes types of Windlass: Stack, Program, Workspace, Update, and the reader of manifests.
//!
//! The types carry what the API carries, nothing is decided here. Where the API keeps something loose (a `type` that is
//! any string, a requirement that is any object), the type keeps it loose too and a method gives the strict reading with
//! a typed error, so that no stored object can fail to load.

pub mod conditions;
pub mod crd;
pub mod duration;
pub mod health_check;
pub mod identity;
pub mod intent;
pub mod lenient;
pub mod manifest;
pub mod names;
pub mod prerequisite;
pub mod program;
pub mod reference;
pub mod run;
mod schema;
pub mod secret;
pub mod sensitive;
pub mod stack;
pub mod stack_status;
pub mod update;
pub mod workspace;

pub use k8s_openapi::api::core::v1::{
    ConfigMap, EnvFromSource, EnvVar, PodSpec, ResourceRequirements,
};
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    Condition, ObjectMeta, OwnerReference, Time,
};
pub use kube::{Resource, ResourceExt};

pub use program::Program;
pub use secret::Secret;
pub use stack::Stack;
pub use update::Update;
pub use workspace::Workspace;
