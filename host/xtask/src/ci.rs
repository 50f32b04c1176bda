//! `cargo xtask ci`: everything that a change must pass. `.ci/run` calls it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::chart;
use crate::crds;
use crate::doctor::{WASM_TARGET, wasm_target};
use crate::error::{AtPath, Error, Result};
use crate::node_packages;
use crate::place::Place;
use crate::plugins::{BUILT_IN, EXAMPLES};
use crate::process::{cargo, find_on_path, run};
use crate::tally::Tally;
use crate::test::{self, seconds};
use crate::{argocd_settings, argocd_tools};

/// Compiling cargo-deny takes about two minutes on two cores; a machine that needs longer skips it.
const INSTALL_LIMIT: Duration = Duration::from_secs(6 * 60);

/// How a step ended.
enum End {
    Passed,
    Failed(String),
    Skipped(String),
}

/// Runs every step, also after one failed, and prints what each took.
///
/// # Errors
/// When the tests could not be run at all. Everything else is in the tally: a failed step other
/// than the tests counts as one failure.
pub fn run_all(place: &Place) -> Result<Tally> {
    let beginning = Instant::now();
    let mut steps = Steps::default();
    steps.take("formatting", || {
        step(place, &["fmt", "--all", "--", "--check"])
    });
    steps.take("generated files", || outcome(check_generated(place)));
    steps.take("the chart's files", || match chart::make(place, true) {
        Err(missing @ Error::MissingProgram { .. }) => End::Skipped(missing.to_string()),
        made => outcome(made),
    });
    steps.take("clippy", || {
        step(
            place,
            &[
                "clippy",
                "--workspace",
                "--all-targets",
                "--locked",
                "--",
                "-D",
                "warnings",
            ],
        )
    });
    steps.take("clippy, components", || outcome(clippy_components(place)));
    steps.take("licences, bans, sources", || deny(place));
    // The tests that need them say so too.
    let or_skipped = |result: Result<()>| match result {
        Ok(()) => End::Passed,
        Err(missing) => End::Skipped(missing.to_string()),
    };
    steps.take("a container runtime", || {
        or_skipped(node_packages::install())
    });
    steps.take("Redis, for Argo CD", || {
        or_skipped(argocd_tools::install_redis())
    });
    steps.take("an SSH server, for Git", || or_skipped(install_ssh()));

    let started = Instant::now();
    println!("\n== tests");
    let tests = test::run(place, &[], &[]);
    let took = started.elapsed();
    println!();
    let mut tally = steps.report();
    match &tests {
        Ok(of_tests) if of_tests.failed == 0 => print_step("passed", "tests", took, ""),
        Ok(_) => print_step("FAILED", "tests", took, ""),
        Err(error) => print_step("FAILED", "tests", took, &error.to_string()),
    }
    print_step("", "everything", beginning.elapsed(), "");
    tally += tests?;
    Ok(tally)
}

/// Installs OpenSSH where it is missing.
fn install_ssh() -> Result<()> {
    let programs = [("sshd", "openssh-server"), ("ssh-keygen", "openssh-client")];
    let missing = programs
        .iter()
        .filter(|one| !node_packages::is_there(one.0));
    let missing: Vec<_> = missing.map(|one| one.1).collect();
    if missing.is_empty() {
        return Ok(());
    }
    node_packages::install_these(&missing, "Git over SSH is fetched from it in the tests")
}

/// Verifies that what is generated and committed fits its sources.
///
/// # Errors
/// `OutOfDate` naming the file and the command that makes it.
pub fn check_generated(place: &Place) -> Result<()> {
    let mut metadata = cargo();
    metadata
        .current_dir(&place.root)
        .args(["metadata", "--locked", "--format-version", "1"])
        .stdout(Stdio::null());
    run(&mut metadata).map_err(|_| Error::OutOfDate {
        what: "Cargo.lock".to_owned(),
        how: "cargo update --workspace",
    })?;
    argocd_settings::make(place, true)?;
    crds::make(place, true)
}

#[derive(Default)]
struct Steps {
    done: Vec<(&'static str, End, Duration)>,
}

impl Steps {
    fn take(&mut self, name: &'static str, step: impl FnOnce() -> End) {
        println!("\n== {name}");
        let started = Instant::now();
        let end = step();
        match &end {
            End::Passed => {}
            End::Failed(why) => println!("FAILED: {why}"),
            End::Skipped(why) => println!("SKIP: {why}"),
        }
        self.done.push((name, end, started.elapsed()));
    }

    /// Prints a line for each step. Steps that failed or were skipped are counted, so that the
    /// closing line cannot hide them; a step that passed is no test.
    fn report(&self) -> Tally {
        let mut tally = Tally::default();
        for (name, end, took) in &self.done {
            match end {
                End::Passed => print_step("passed", name, *took, ""),
                End::Failed(why) => {
                    tally.failed += 1;
                    print_step("FAILED", name, *took, why);
                }
                End::Skipped(why) => {
                    tally.skipped += 1;
                    print_step("skipped", name, *took, why);
                }
            }
        }
        tally
    }
}

fn print_step(verdict: &str, name: &str, took: Duration, why: &str) {
    let line = format!("{verdict:<8} {name:<24} {:>12}  {why}", seconds(took));
    println!("{}", line.trim_end());
}

fn outcome(result: Result<()>) -> End {
    match result {
        Ok(()) => End::Passed,
        Err(error) => End::Failed(error.to_string()),
    }
}

fn step(place: &Place, arguments: &[&str]) -> End {
    outcome(run(cargo().current_dir(&place.root).args(arguments)))
}

/// The parts of the components that only exist on their target.
fn clippy_components(place: &Place) -> Result<()> {
    wasm_target(place)?;
    let mut clippy = cargo();
    clippy
        .current_dir(&place.root)
        .args(["clippy", "--locked", "--target", WASM_TARGET]);
    for name in BUILT_IN.iter().chain(&EXAMPLES) {
        clippy.args(["-p", name]);
    }
    run(clippy.args(["--", "-D", "warnings"]))
}

/// cargo-deny with deny.toml. Security advisories are not asked for: they change without a commit,
/// and a build of an old commit must end the way it did.
fn deny(place: &Place) -> End {
    let installed = place.tools().join("cargo-deny/bin/cargo-deny");
    let program = match find_on_path("cargo-deny", None) {
        Some(path) => path,
        None if installed.is_file() => installed,
        None if std::env::var_os("CI").is_none() => {
            return End::Skipped(
                "cargo-deny is not on PATH (`cargo install cargo-deny --locked`)".to_owned(),
            );
        }
        None => {
            if let Err(error) = install_deny(place) {
                return End::Skipped(format!("cargo-deny does not install here: {error}"));
            }
            installed
        }
    };
    let mut command = Command::new(program);
    command
        .current_dir(&place.root)
        .args(["--locked", "check", "licenses", "bans", "sources"]);
    outcome(run(&mut command))
}

fn install_deny(place: &Place) -> Result<()> {
    let root = place.tools().join("cargo-deny");
    let mut command = cargo();
    command
        .args(["install", "cargo-deny", "--locked", "--root"])
        .arg(&root);
    println!("$ cargo install cargo-deny --locked (its output is shown only if it fails)");
    std::fs::create_dir_all(&root).at(&root)?;
    let log_path = root.join("install.log");
    let log = std::fs::File::create(&log_path).at(&log_path)?;
    let errors = log.try_clone().at(&log_path)?;
    command.stdin(Stdio::null()).stdout(log).stderr(errors);
    let unusable = |source| Error::CommandUnusable {
        command: "cargo install cargo-deny".to_owned(),
        source,
    };
    let started = Instant::now();
    let mut child = command.spawn().map_err(unusable)?;
    loop {
        if let Some(status) = child.try_wait().map_err(unusable)? {
            if status.success() {
                return Ok(());
            }
            print!("{}", std::fs::read_to_string(&log_path).at(&log_path)?);
            return Err(Error::Failed(format!("it ended with {status}")));
        }
        if started.elapsed() >= INSTALL_LIMIT {
            // Cargo ends the compilers it started when it is ended.
            child.kill().map_err(unusable)?;
            child.wait().map_err(unusable)?;
            return Err(Error::Failed(format!(
                "not done after {}",
                seconds(INSTALL_LIMIT)
            )));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn the_closing_count_hides_no_failed_and_no_skipped_step() {
        let mut steps = Steps::default();
        steps.take("a", || End::Passed);
        steps.take("b", || End::Failed("no".to_owned()));
        steps.take("c", || End::Skipped("not here".to_owned()));
        assert_eq!(steps.report().to_string(), "0 passed, 1 failed, 1 skipped");
    }
}
