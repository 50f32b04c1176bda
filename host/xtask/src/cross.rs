//! Compiling on Debian for another kind of machine: which of its packages are needed, and what cargo is told of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::process::{capture, find_on_path};

/// How to get what is missing, for the one pair of kinds of machine that there are images for.
const HOW: &str = "install a cross toolchain (on Debian for arm64: `dpkg --add-architecture arm64 && apt-get update && \
                   apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross musl-dev:arm64`), or run this command on \
                   such a machine";

/// Whether this machine can compile for `machine`, as Rust and GNU name it.
///
/// # Errors
/// `MissingProgram` that names what to install.
pub fn possible(machine: &str) -> Result<()> {
    let compiler = compiler(machine);
    let headers = musl_headers(machine);
    let program = match (find_on_path(&compiler, None), headers.is_dir()) {
        (Some(_), true) => return Ok(()),
        (None, _) => compiler,
        (Some(_), false) => headers.display().to_string(),
    };
    Err(Error::MissingProgram {
        program,
        why: "the image for another kind of machine is compiled with it",
        how: HOW,
    })
}

/// Tells cargo the linker for a target of Debian's own C library.
pub fn with_gnu(build: &mut Command, machine: &str) {
    let target = format!("{machine}-unknown-linux-gnu");
    build.env(linker_variable(&target), compiler(machine));
}

/// Tells cargo the linker for musl, and gives the flags with which the C compiler finds its headers: Rust brings the library
/// itself, Debian has no compiler for musl on another machine.
///
/// # Errors
/// When the compiler does not tell where its own headers are.
pub fn with_musl(build: &mut Command, machine: &str) -> Result<String> {
    let target = format!("{machine}-unknown-linux-musl");
    let compiler = compiler(machine);
    let own = capture(Command::new(&compiler).arg("-print-file-name=include"))?;
    build
        .env(linker_variable(&target), &compiler)
        .env(format!("CC_{}", target.replace('-', "_")), &compiler);
    // What the compiler calls by itself, fortified functions and a choice of atomic instructions at run time, is in the
    // other C library and its own helper library.
    Ok(format!(
        "-nostdinc -isystem {} -isystem {} -U_FORTIFY_SOURCE -mno-outline-atomics",
        musl_headers(machine).display(),
        own.trim()
    ))
}

fn compiler(machine: &str) -> String {
    format!("{machine}-linux-gnu-gcc")
}

fn musl_headers(machine: &str) -> PathBuf {
    Path::new("/usr/include").join(format!("{machine}-linux-musl"))
}

/// The name of the environment variable in which the `cc` crate looks for a target's flags.
pub fn flags_variable(target: &str) -> String {
    format!("CFLAGS_{}", target.replace('-', "_"))
}

/// The name of the environment variable in which cargo looks for a target's linker.
fn linker_variable(target: &str) -> String {
    let target = target.to_uppercase().replace('-', "_");
    format!("CARGO_TARGET_{target}_LINKER")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_machine_that_nobody_compiles_for_gets_one_sentence() {
        let said = possible("pdp11").unwrap_err().to_string();
        assert!(
            said.contains("pdp11-linux-gnu-gcc") && said.contains("cross toolchain"),
            "{said}"
        );
    }

    #[test]
    fn cargo_finds_the_linker_of_a_target() {
        assert_eq!(
            linker_variable("aarch64-unknown-linux-gnu"),
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER"
        );
    }
}
