//! The binary beside the CLI.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use windlass_agent::{Agent, Env, Options, exec, read_env_file, socket, supervise};

/// Runs Pulumi operations beside the CLI.
///
/// One agent serves one workspace. It runs at most one operation at a time, writes what it does into a journal, and
/// goes on with what runs after it was killed and started again.
#[derive(Parser)]
#[command(name = "windlass-agent", version, disable_version_flag = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a workspace until a signal or a client's request; a running operation is interrupted and let finish.
    #[command(
        after_help = "The CLI is `pulumi` on the PATH. It inherits this process's environment, without PULUMI_OPTION_*.\n\
        PULUMI_HOME defaults to STATE_DIR/pulumi-home.\n\n\
        Example:\n  windlass-agent serve --socket /run/w/agent.sock --workspace /share/workspace --state-dir /share/state"
    )]
    Serve {
        /// Where to listen; only this user may connect.
        #[arg(long, value_name = "PATH")]
        socket: PathBuf,
        /// Directory that the files and program directories of a request are found below.
        #[arg(long, value_name = "DIR")]
        workspace: PathBuf,
        /// The agent's own directory: journal, trees, runs. It must survive a restart.
        #[arg(long, value_name = "DIR")]
        state_dir: PathBuf,
        /// Lines of NAME=value to add to the environment, as init containers leave them.
        #[arg(long, value_name = "FILE", env = "PULUMI_ENV")]
        env_file: Option<PathBuf>,
        /// Seconds that an interrupted operation has to finish by itself. Then a second interrupt makes the CLI drop
        /// what runs, which leaves pending operations; a minute later it is killed, which leaves its lock.
        #[arg(long, value_name = "SECONDS", default_value_t = 600)]
        interrupt_grace_seconds: u64,
    },
    /// Run a command, such as `pulumi stack`, in the environment of this workspace's runs.
    ///
    /// Only one CLI runs at a time: while an operation goes on the command is refused, or waits with --wait; while the
    /// command goes on no operation begins.
    Exec {
        /// The agent's own directory.
        #[arg(long, value_name = "DIR", env = "WINDLASS_STATE_DIR")]
        state_dir: PathBuf,
        /// Lines of NAME=value to add to the environment.
        #[arg(long, value_name = "FILE", env = "PULUMI_ENV")]
        env_file: Option<PathBuf>,
        /// Wait for the operation that goes on instead of refusing.
        #[arg(long)]
        wait: bool,
        /// The command and its arguments.
        #[arg(required = true, last = true)]
        command: Vec<String>,
    },
    /// Print the version.
    Version,
    /// Between an agent and the CLI that it starts. Not for people.
    #[command(hide = true)]
    Supervise { dir: PathBuf },
}

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Supervise { dir } => supervise(&dir)
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
        Command::Version => {
            println!("windlass-agent {}", env!("CARGO_PKG_VERSION"));
            Ok(ExitCode::SUCCESS)
        }
        Command::Exec {
            state_dir,
            env_file,
            wait,
            command,
        } => on_runtime(run_exec(state_dir, env_file, wait, command)),
        Command::Serve {
            socket,
            workspace,
            state_dir,
            env_file,
            interrupt_grace_seconds,
        } => {
            let grace = Duration::from_secs(interrupt_grace_seconds);
            on_runtime(serve(socket, workspace, state_dir, env_file, grace))
        }
    };
    done.unwrap_or_else(|e: Box<dyn std::error::Error>| {
        eprintln!("windlass-agent: {e}");
        ExitCode::FAILURE
    })
}

type Done = Result<ExitCode, Box<dyn std::error::Error>>;

/// One thread: the agent waits nearly always, and its memory is the user's.
fn on_runtime(work: impl Future<Output = Done>) -> Done {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

fn environment(env_file: Option<PathBuf>) -> Result<Env, Box<dyn std::error::Error>> {
    let mut env: Env = std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
        .collect();
    if let Some(file) = env_file {
        match read_env_file(&file) {
            Ok(more) => env.extend(more),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(format!("{}: {e}", file.display()).into()),
        }
    }
    Ok(env)
}

async fn run_exec(
    state_dir: PathBuf,
    env_file: Option<PathBuf>,
    wait: bool,
    command: Vec<String>,
) -> Done {
    use std::os::unix::process::ExitStatusExt;
    let status = exec(&state_dir, &environment(env_file)?, &command, wait).await?;
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

async fn serve(
    path: PathBuf,
    workspace: PathBuf,
    state_dir: PathBuf,
    env_file: Option<PathBuf>,
    interrupt_grace: Duration,
) -> Done {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(false)
        .init();
    let env = environment(env_file)?;
    // The kernel keeps the file of a running program even when it was replaced by a newer one.
    let supervisor = PathBuf::from("/proc/self/exe");
    let workspace = std::path::absolute(workspace)?;
    let state_dir = std::path::absolute(state_dir)?;
    let agent = Agent::open(Options {
        workspace,
        state_dir,
        env,
        supervisor,
        interrupt_grace,
    })?;
    tracing::info!(boot = %agent.boot_id, socket = %path.display(), "serving");
    let (stop, stopped) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.send_replace(true);
    });
    tokio::spawn(windlass_agent::reap_orphans());
    socket::serve(agent, &path, stopped).await?;
    Ok(ExitCode::SUCCESS)
}
