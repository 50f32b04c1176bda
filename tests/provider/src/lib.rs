//! A Pulumi provider for tests.
