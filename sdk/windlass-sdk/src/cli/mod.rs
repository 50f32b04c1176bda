//! What every backend adapter shares, because the same `pulumi` command works on all of them: how it reads the name of
//! a stack, and how it says that a run failed.

mod name;
mod outcome;

pub use name::StackName;
pub use outcome::{Sign, classify, engine_errors, failure, find, message};
