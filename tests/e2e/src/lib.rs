//! End-to-end tests on the real CLI and a real Git server.

pub mod git_repo;
pub mod git_server;
pub mod ssh_server;
pub mod world;
