//! End-to-end tests on the real CLI and a real Git server.
