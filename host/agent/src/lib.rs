//! Runs Pulumi operations beside the CLI, with a journal, and serves them.
