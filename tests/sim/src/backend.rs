//! Backends: stacks with resources and locks. A lock stays until its holder takes it away, or somebody else does.

use std::collections::BTreeMap;

use windlass_api::run::LockInfo;

/// What is deployed in a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployed {
    pub revision: String,
    pub generation: i64,
    pub stack_outputs: String,
}

#[derive(Clone, Debug)]
pub struct Lock {
    pub info: LockInfo,
    /// The run that took it.
    pub holder: String,
}

/// The state of one stack.
#[derive(Clone, Debug, Default)]
pub struct StackState {
    pub resources: u32,
    pub deployed: Option<Deployed>,
    pub locks: Vec<Lock>,
}

#[derive(Clone, Debug, Default)]
pub struct Backends {
    pub stacks: BTreeMap<String, StackState>,
    pub down: bool,
}

impl Backends {
    pub fn stack(&mut self, name: &str) -> &mut StackState {
        self.stacks.entry(name.to_owned()).or_default()
    }
}
