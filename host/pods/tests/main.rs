#![allow(clippy::unwrap_used)]
//! The objects of a workspace, by field and as a whole; and what pods say.

mod support;

mod environment;
mod golden;
mod identity;
mod merging;
mod names;
mod pods;
mod security;
mod templates;
mod views;
mod workspaces;
