//! `cargo xtask doctor`: does this machine have what the other commands need?

use std::path::Path;
use std::process::Command;

use crate::error::{Error, Result};
use crate::node_packages;
use crate::place::Place;
use crate::process::{capture, find_on_path, run};
use crate::tools::{self, OnPath};

/// The target that components are compiled for.
pub const WASM_TARGET: &str = "wasm32-wasip2";

/// Checks everything, prints a line for each, and adds the Wasm target when it is missing.
///
/// # Errors
/// When something is missing that cannot be added here.
pub fn check_all(place: &Place) -> Result<()> {
    let mut missing = 0;
    let mut line = |name: &str, result: Result<String>| match result {
        Ok(found) => println!("ok       {name:<14} {found}"),
        Err(error) => {
            missing += 1;
            println!("missing  {name:<14} {error}");
        }
    };
    line("rustc", capture(Command::new("rustc").arg("--version")));
    line(
        WASM_TARGET,
        wasm_target(place).map(|()| "components can be compiled".to_owned()),
    );
    line("cc", cc());
    line("git", git());
    line("pulumi", pulumi(place));
    line("kubernetes", kubernetes());
    for (program, used) in [
        (
            "ssh",
            "repositories at ssh addresses; package openssh-client",
        ),
        (
            "sshd",
            "tests of those, skipped without it; package openssh-server",
        ),
    ] {
        let there = find_on_path(program, None).or_else(|| {
            let file = Path::new("/usr/sbin").join(program);
            file.is_file().then_some(file)
        });
        match there {
            Some(path) => println!("ok       {program:<14} {}", path.display()),
            None => println!("optional {program:<14} for {used}"),
        }
    }
    match node_packages::obstacle() {
        None => println!("ok       {:<14} for tests on a real node", "containerd"),
        Some(why) => println!("optional {:<14} {why}", "containerd"),
    }
    if missing == 0 {
        println!("This machine has everything.");
        return Ok(());
    }
    Err(Error::Failed(format!(
        "{missing} missing, see above; the rest is there"
    )))
}

/// Makes sure that components can be compiled, adding the target through rustup when it is not
/// there. Asked for explicitly, because rustup's own installation on demand may be switched off.
///
/// # Errors
/// When the target is missing and rustup is too, or cannot add it.
pub fn wasm_target(place: &Place) -> Result<()> {
    let why = "the built-in plugins are components compiled for it";
    rust_target(place, WASM_TARGET, why)
}

/// As [`wasm_target`], for any target; `why` says what it is for.
///
/// # Errors
/// When the target is missing and rustup is too, or cannot add it.
pub fn rust_target(place: &Place, target: &str, why: &'static str) -> Result<()> {
    let mut rustc = Command::new("rustc");
    rustc.current_dir(&place.root);
    let folder = capture(rustc.args(["--print", "target-libdir", "--target", target]))?;
    if Path::new(&folder).is_dir() {
        return Ok(());
    }
    if find_on_path("rustup", None).is_none() {
        return Err(Error::MissingProgram {
            program: format!("the Rust target {target}"),
            why,
            how: "install Rust through rustup, which can add it",
        });
    }
    let mut rustup = Command::new("rustup");
    rustup.current_dir(&place.root);
    run(rustup.args(["target", "add", target]))
}

/// # Errors
/// `MissingProgram` with a sentence for the user.
pub fn cc() -> Result<String> {
    found(
        "cc",
        "--version",
        "some libraries compile C, and rustc links with it",
        "install a C compiler, for example the package gcc or clang",
    )
}

/// # Errors
/// `MissingProgram` with a sentence for the user.
pub fn git() -> Result<String> {
    found(
        "git",
        "--version",
        "the quickstart and the tests make repositories with it",
        "install the package git",
    )
}

fn found(program: &str, argument: &str, why: &'static str, how: &'static str) -> Result<String> {
    let Some(path) = find_on_path(program, None) else {
        return Err(Error::MissingProgram {
            program: program.to_owned(),
            why,
            how,
        });
    };
    let printed = capture(Command::new(path).arg(argument))?;
    Ok(printed.lines().next().unwrap_or_default().to_owned())
}

fn pulumi(place: &Place) -> Result<String> {
    let why_build = match tools::on_path(&place.tools()) {
        OnPath::Usable {
            pulumi, version, ..
        } => return Ok(format!("{version} from {}", pulumi.display())),
        OnPath::Unusable(why) => why,
        OnPath::Absent => "none on PATH".to_owned(),
    };
    let go = found(
        "go",
        "version",
        "the pinned pulumi is built with it",
        "install Go 1.26 or newer, or put a pulumi with pulumi-language-yaml on PATH",
    )?;
    Ok(format!("{why_build}; the pinned one is built with {go}"))
}

fn kubernetes() -> Result<String> {
    let go = found(
        "go",
        "version",
        "the control plane that tests run against is built with it",
        "install Go 1.26 or newer",
    )?;
    Ok(format!("the pinned control plane is built with {go}"))
}
