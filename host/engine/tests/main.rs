//! Memory, step and loop, over ports that are a few lines each. Time is virtual: nothing here waits.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod capacity;
mod keyed;
mod runner;
mod step;
mod support;
