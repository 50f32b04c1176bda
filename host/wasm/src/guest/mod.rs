//! What a component sees: one round of one evaluation.

pub mod bindings;
pub mod convert;
pub mod handles;
mod imports;
pub mod plugin;
pub mod round;
mod wasi;

use wasmtime::component::{HasSelf, Linker};

use round::Round;

/// Everything that can be granted. What a component may import was decided before, from its import list.
///
/// # Errors
/// wasmtime's, if two definitions collide; that is a fault of this crate.
pub fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<Round>> {
    let mut linker = Linker::new(engine);
    bindings::imports::Imports::add_to_linker::<Round, HasSelf<Round>>(&mut linker, |round| round)?;
    bindings::wasi::Stubs::add_to_linker::<Round, HasSelf<Round>>(&mut linker, |round| round)?;
    Ok(linker)
}
