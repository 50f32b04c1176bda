//! What to do next for one Stack: a pure function of a snapshot.
//!
//! [`decide`] looks at everything that is known about one Stack (its object, its Updates, its workspace, the Stacks it
//! depends on, what tasks have found out) and answers with writes, tasks and a time to look again. It knows no IO, no
//! clock, no chance and no memory: what is hard about an operator is tested here in milliseconds.
//!
//! Start reading at [`decide`](mod@decide); `snapshot` is its input and `decision` its output.

pub mod by_hand;
pub mod decide;
pub mod decision;
pub mod digest;
mod draft;
pub mod due;
pub mod failure;
mod health;
mod history;
pub mod leadership;
pub mod link;
pub mod names;
pub mod obs;
pub mod phase;
pub mod prerequisites;
pub mod record;
pub mod request;
pub mod retry;
pub mod run;
mod share;
mod showing;
pub mod snapshot;
pub mod spec;
mod stages;
pub mod time;
pub mod update_object;
pub mod view;

pub use decide::decide;
pub use decision::Decision;
pub use snapshot::Snapshot;
