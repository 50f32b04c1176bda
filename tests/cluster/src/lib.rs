//! Kubernetes for tests: a real control plane, a stand-in for a kubelet that runs pods as
//! processes, and a real node.
//!
//! Everything that is started here ends with the process that started it, however that one ends.

mod argocd;
pub mod audit;
pub mod error;
pub mod identity;
#[cfg(target_os = "linux")]
pub mod kubelet;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
pub mod node;
mod pki;
pub mod plane;
mod process;
mod tools;
mod watchdog;

pub use argocd::{ArgoCd, NAMESPACE as ARGOCD_NAMESPACE, argocd_binary, argocd_sources};
pub use audit::{AuditEvent, AuditLog};
pub use error::{Error, Result};
pub use identity::Identity;
#[cfg(target_os = "linux")]
pub use kubelet::{FakeKubelet, Image, Images, KubeletOptions};
#[cfg(target_os = "linux")]
pub use node::RealNode;
pub use plane::{Component, ControlPlane, Options};
pub use tools::{go_module, skip, tools_folder};
