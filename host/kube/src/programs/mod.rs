//! Programs as artifacts that others can fetch, as Flux's sources are: an address and a digest in the status, and a server
//! that answers under the address.
//!
//! `archive` packs one Program, `archives` keeps a few at hand, `status` tells of them, `server` hands them out.

mod archive;
mod archives;
mod server;
mod status;

pub use archives::Archives;
pub use server::router;
pub use status::Statuses;
