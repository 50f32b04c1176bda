//! Write Windlass plugins in Rust.
