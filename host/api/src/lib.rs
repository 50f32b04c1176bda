//! The Kubernetes types of Windlass: Stack, Program, Workspace, Update.

pub mod run;
