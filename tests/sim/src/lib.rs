//! The simulator: fleets of Stacks live through days and months of virtual time, with faults between any two actions.
//!
//! The real `decide` and the real engine's step and memory run on simulated ports. Everything is a function of the
//! [`Plan`]: the same seed gives the same life. Start reading at [`sim`] (the loop), then [`operator`] (a process of
//! the operator), [`world`] (what is outside of it) and [`monitor`] (what must hold).

mod agent;
mod backend;
mod bounds;
mod by_hand;
mod check;
mod collector;
mod git;
mod history;
mod lease;
pub mod monitor;
pub mod operator;
mod outcome;
pub mod plan;
pub mod planted;
mod pods;
mod requests;
mod rng;
pub mod sim;
mod store;
mod users;
pub mod world;
mod writes;

pub use monitor::Broken;
pub use plan::Plan;
pub use planted::Planted;
pub use sim::{Report, simulate, trace};

/// Steps of the engine per second of real time, over `seconds` of it at least: fleets in heavy weather, one after the
/// other.
pub fn bench_steps(seconds: f64) -> f64 {
    let began = std::time::Instant::now();
    let (mut steps, mut seed) = (0_u64, 0);
    while began.elapsed().as_secs_f64() < seconds {
        seed += 1;
        steps += simulate(&Plan::rough(seed)).steps;
    }
    steps as f64 / began.elapsed().as_secs_f64()
}
