//! End-to-end tests on the real CLI and a real Git server.

pub mod backend;
pub mod canaries;
pub mod components;
pub mod git_repo;
pub mod git_server;
pub mod manual;
pub mod moments;
pub mod ssh_server;
pub mod stored;
pub mod world;
