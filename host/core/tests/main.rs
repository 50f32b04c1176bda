//! Tables and properties of `decide`, against a world in which every action succeeds unless a test says otherwise.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod by_hand;
mod deletion;
mod due;
mod failures;
mod first_run;
mod health;
mod later_runs;
mod pauses;
mod properties;
mod receiving;
mod requests;
mod support;
mod takeover;
mod waiting;
mod workspaces;
