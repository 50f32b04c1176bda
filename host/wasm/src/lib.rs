//! Loads WebAssembly components, checks them against policy, evaluates them.
