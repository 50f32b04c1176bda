//! Pods run as processes, and their status is what a kubelet would report.

#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

mod life;
mod missing;
mod node;
mod support;
