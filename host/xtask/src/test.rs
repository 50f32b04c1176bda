//! `cargo xtask test`: everything that can be tested on this machine, ring by ring.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::binaries::with_folders;
use crate::error::{AtPath, Error, Result};
use crate::place::Place;
use crate::process::cargo;
use crate::rings::Ring;
use crate::tally::Tally;
use crate::test_build::{Built, TestBinary, build};
use crate::test_run::Outcome;
use crate::tools::Group;
use crate::{doctor, node_packages, plugins, test_run, tools};

/// Tests append the reason of a skip to the file that this variable names, a line each, because the
/// harness hides what a passing test prints.
const SKIP_LOG: &str = "WINDLASS_SKIP_LOG";

/// Builds what the rings need, runs them, and prints a line for each test binary.
///
/// `rings` empty means all; `filters` are parts of test names, as the test harness takes them.
///
/// # Errors
/// When something does not compile or cannot be started. Failing tests are in the tally.
pub fn run(place: &Place, rings: &[Ring], filters: &[String]) -> Result<Tally> {
    let rings: Vec<_> = Ring::ALL
        .into_iter()
        .filter(|ring| rings.is_empty() || rings.contains(ring))
        .collect();
    let building = Instant::now();
    doctor::cc()?;
    doctor::git()?;
    let logs = place.test_logs();
    match std::fs::remove_dir_all(&logs) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).at(&logs),
        _ => std::fs::create_dir_all(&logs).at(&logs)?,
    }
    make_tools(place, &rings)?;
    plugins::make(place, false)?;
    let built = build(place)?;
    println!("built in {}", seconds(building.elapsed()));

    let mut all = Tally::default();
    for ring in rings {
        all += run_ring(place, &built, ring, filters)?;
    }
    Ok(all)
}

/// What cannot be made here leaves tests that find no tools, say so, and are counted as skipped.
fn make_tools(place: &Place, rings: &[Ring]) -> Result<()> {
    let needed = |group: &Group| rings.iter().any(|ring| ring.tools().contains(group));
    for group in Group::ALL {
        if !needed(&group) {
            continue;
        }
        if group == Group::Node
            && let Some(why) = node_packages::obstacle()
        {
            println!("SKIP: {why}");
            continue;
        }
        match tools::make(place, &[group], false) {
            Err(missing @ Error::MissingProgram { .. }) => println!("SKIP: {missing}"),
            other => other?,
        }
    }
    Ok(())
}

fn run_ring(place: &Place, built: &Built, ring: Ring, filters: &[String]) -> Result<Tally> {
    println!("\n{}", ring.title());
    let started = Instant::now();
    let mut tests: Vec<_> = built
        .tests
        .iter()
        .filter(|test| test.ring == ring)
        .collect();
    // One that is long and begins last would run alone for long.
    tests.sort_by_key(|test| !ring.is_long(&test.package, &test.target));
    let at_once = ring.at_once();
    let queue = Mutex::new(tests.into_iter());
    let ended = Mutex::new((Tally::default(), String::new()));
    let work = || -> Result<()> {
        loop {
            let next = lock(&queue).next();
            let Some(test) = next else { return Ok(()) };
            let (outcome, reasons) = run_binary(place, built, test, filters)?;
            let mut ended = lock(&ended);
            print_line(place, &test.package, &test.target, &outcome);
            ended.0 += outcome.tally;
            ended.1.push_str(&reasons);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    let (mut tally, reasons) = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    if ring == Ring::Units {
        tally += run_examples_in_docs(place, filters)?;
    }
    for (reason, times) in counted(&reasons) {
        let tests = if times == 1 { "test" } else { "tests" };
        println!("  SKIP: {reason} ({times} {tests})");
    }
    println!("  {tally} in {}", seconds(started.elapsed()));
    Ok(tally)
}

/// A thread that panicked ends the whole; what it held is not looked at after that.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one binary the way cargo would: in its package's folder, told where the binaries are. With its outcome come the
/// reasons of its skips, a line each.
fn run_binary(
    place: &Place,
    built: &Built,
    test: &TestBinary,
    filters: &[String],
) -> Result<(Outcome, String)> {
    let name = format!("{}-{}", test.package, test.target).replace(['/', ' '], "-");
    let skip_log = place.test_logs().join(format!("{name}.skips"));
    std::fs::write(&skip_log, "").at(&skip_log)?;
    let mut command = std::process::Command::new(&test.executable);
    command
        .current_dir(&test.folder)
        .args(filters)
        .env("CARGO_MANIFEST_DIR", &test.folder)
        .env("CARGO_PKG_NAME", &test.package)
        .env(SKIP_LOG, &skip_log);
    for ((package, name), path) in &built.binaries {
        if *package == test.package {
            command.env(format!("CARGO_BIN_EXE_{name}"), path);
        }
    }
    with_folders(place, &mut command, place.binaries());
    let log = place.test_logs().join(format!("{name}.log"));
    let mut outcome = test_run::run(&mut command, &log)?;
    let reasons = std::fs::read_to_string(&skip_log).at(&skip_log)?;
    outcome
        .tally
        .skip(counted(&reasons).iter().map(|(_, times)| times).sum());
    std::fs::remove_file(&skip_log).at(&skip_log)?;
    Ok((outcome, reasons))
}

/// The examples in doc comments are tests too; only cargo can compile them.
fn run_examples_in_docs(place: &Place, filters: &[String]) -> Result<Tally> {
    let mut command = cargo();
    command
        .current_dir(&place.root)
        .args(["test", "--workspace", "--doc", "--no-fail-fast", "--"])
        .args(filters);
    with_folders(place, &mut command, place.binaries());
    let outcome = test_run::run(&mut command, &place.test_logs().join("docs.log"))?;
    print_line(place, "workspace", "examples in docs", &outcome);
    Ok(outcome.tally)
}

fn print_line(place: &Place, package: &str, target: &str, outcome: &Outcome) {
    let Outcome {
        tally,
        took,
        log,
        said,
    } = outcome;
    if !said.is_empty() {
        println!("{said}");
    }
    if tally.is_empty() {
        return;
    }
    let Tally {
        passed,
        failed,
        skipped,
    } = *tally;
    let verdict = if failed == 0 { "ok    " } else { "FAILED" };
    let took = seconds(*took);
    let mut counts = format!("{passed} passed");
    if skipped > 0 {
        counts.push_str(&format!(", {skipped} skipped"));
    }
    if failed > 0 {
        counts.push_str(&format!(", {failed} failed, see {}", place.shown(log)));
    }
    println!("  {verdict} {package:<22} {target:<24} {took:>8}  {counts}");
}

/// Each distinct reason with how often it was given, in the order of first appearance.
fn counted(reasons: &str) -> Vec<(&str, u64)> {
    let mut counts: Vec<(&str, u64)> = Vec::new();
    for line in reasons.lines().filter(|line| !line.is_empty()) {
        let reason = line.strip_prefix("SKIP: ").unwrap_or(line);
        match counts.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, times)) => *times += 1,
            None => counts.push((reason, 1)),
        }
    }
    counts
}

/// A duration for people.
pub fn seconds(duration: Duration) -> String {
    let all = duration.as_secs_f64();
    if all < 100.0 {
        return format!("{all:.2} s");
    }
    format!(
        "{} min {:02} s",
        duration.as_secs() / 60,
        duration.as_secs() % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn reasons_are_counted() {
        assert_eq!(
            counted("no pulumi\nno git\nSKIP: no pulumi\n\n"),
            [("no pulumi", 2), ("no git", 1)]
        );
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(seconds(Duration::from_millis(1234)), "1.23 s");
        assert_eq!(seconds(Duration::from_secs(605)), "10 min 05 s");
    }
}
