//! `windlass local DIR...`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use indicatif::MultiProgress;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use windlass_local::{Local, LocalConfig, LocalHandle, Report};

use crate::args::{LocalArgs, Output};
use crate::error::{AtPath, FAILED, INTERRUPTED, Result};
use crate::progress::Progress;
use crate::{place, print, table};

/// Reconciles the manifests until all is settled, or until it is stopped.
///
/// # Errors
/// Of the arguments, the manifests and the machine. What becomes of a Stack is in the table and the exit code.
pub async fn local(args: LocalArgs, screen: MultiProgress) -> Result<ExitCode> {
    for path in &args.manifests {
        std::fs::metadata(path).at(path)?;
    }
    let first = args.manifests.first().map_or(Path::new("."), |path| path);
    let (data_dir, by_default) = args.data.beside(first);
    let plugin_dirs = args.plugins.dirs()?;
    let config = LocalConfig {
        manifests: args.manifests.clone(),
        data_dir: data_dir.clone(),
        builtin_digests: place::digests(&plugin_dirs),
        plugin_dirs,
        policy: args.plugins.policy.clone(),
        agent: place::agent()?,
        fetch_worker: place::fetch_worker()?,
        parallel: args.parallel,
        destroy: args.destroy,
        idle_seconds: args.keep_idle,
        once: args.once || args.destroy,
        progress: args.progress.pace(),
    };
    let progress = Arc::new(Progress::new(screen, args.no_progress));
    if !on_path("pulumi") {
        progress.tell(
            "warning: there is no `pulumi` on PATH: Stacks that are due to run will fail; install it, or put it on PATH",
        );
    }
    let (local, warnings) = Local::open(config, progress.clone()).await?;
    // From here on a signal is heard; before, there was nothing to let go of.
    let signals = Signals::hear()?;
    let stopping = tokio::spawn(stop_on(
        signals,
        local.handle(),
        progress.clone(),
        data_dir.clone(),
    ));
    for warning in &warnings {
        progress.tell(&format!("warning: {warning}"));
    }
    if by_default && !args.no_progress {
        progress.tell(&format!(
            "state, workspaces and logs are in {}",
            data_dir.display()
        ));
    }
    let report = local.run().await;
    stopping.abort();
    progress.clear();
    finish(&report?, &args)
}

fn finish(report: &Report, args: &LocalArgs) -> Result<ExitCode> {
    let Report {
        rows,
        elapsed,
        runs,
    } = report;
    let well = if args.destroy {
        // A Stack that is still ready has not been taken down.
        rows.iter().all(|row| row.state == "Deleted")
    } else {
        rows.iter().all(table::is_well)
    };
    match args.output {
        Output::Json => {
            let mut document = table::stacks_json(rows);
            document["ready"] = json!(well);
            document["runs"] = json!(runs);
            document["elapsedSeconds"] = json!(elapsed.as_secs_f64());
            print::json(&document)?;
        }
        Output::Table if rows.is_empty() => print::out("no Stacks in the manifests")?,
        Output::Table => {
            print::out(&table::stacks(rows))?;
            let elapsed = print::duration(*elapsed);
            let done = match (*runs, well) {
                (0, true) => "nothing to do".to_owned(),
                (_, false) if args.destroy => {
                    "not all is taken down, see `windlass explain`".to_owned()
                }
                (runs, _) => print::count(usize::try_from(runs).unwrap_or(usize::MAX), "run"),
            };
            print::out(&format!("{}; {done}, {elapsed}", table::sum(rows)))?;
        }
    }
    Ok(ExitCode::from(if well { 0 } else { FAILED }))
}

/// Ctrl-C and SIGTERM, heard from the moment that this exists.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn hear() -> std::io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }
}

/// The first signal lets go of the runs, the second leaves at once.
async fn stop_on(
    mut signals: Signals,
    handle: LocalHandle,
    progress: Arc<Progress>,
    data_dir: PathBuf,
) {
    let mut asked = false;
    loop {
        let received = tokio::select! {
            received = signals.interrupt.recv() => received,
            received = signals.terminate.recv() => received,
        };
        if received.is_none() {
            return;
        }
        if asked {
            progress.clear();
            std::process::exit(i32::from(INTERRUPTED));
        }
        asked = true;
        let running: Vec<String> = progress.running().iter().map(ToString::to_string).collect();
        progress.tell(&if running.is_empty() {
            "stopping; Ctrl-C again leaves at once".to_owned()
        } else {
            format!(
                "detaching: {} with {} agent ({}). The same command attaches again; \
                 `windlass cancel STACK --data-dir {}` stops one. Ctrl-C again leaves at once",
                if running.len() == 1 {
                    "1 run goes on".to_owned()
                } else {
                    format!("{} runs go on", running.len())
                },
                if running.len() == 1 { "its" } else { "their" },
                running.join(", "),
                data_dir.display(),
            )
        });
        handle.detach();
    }
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
