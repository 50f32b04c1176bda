//! The binary beside the CLI.

mod args;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use args::{Args, Command, Receive, Serve, Tcp, Where};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use windlass_agent::listen::Listener;
use windlass_agent::{Agent, Env, Options, exec, install, probe, read_env_file, socket, supervise};

type Failure = Box<dyn std::error::Error>;
type Done = Result<ExitCode, Failure>;

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Serve(serve) => on_runtime(run_serve(serve)),
        Command::Receive(receive) => on_runtime(run_receive(receive)),
        Command::Exec {
            state_dir,
            env_file,
            wait,
            command,
        } => on_runtime(run_exec(state_dir, env_file, wait, command)),
        Command::Probe { state_dir } => ended(probe(&state_dir)),
        Command::Install { dest, workspace } => install(
            &dest,
            Some(Path::new(&workspace)).filter(|w| !w.as_os_str().is_empty()),
        )
        .map(|path| {
            println!("installed {}", path.display());
            ExitCode::SUCCESS
        })
        .map_err(Into::into),
        Command::Version => {
            println!("windlass-agent {}", env!("CARGO_PKG_VERSION"));
            Ok(ExitCode::SUCCESS)
        }
        Command::Supervise { dir } => ended(supervise(&dir)),
    };
    done.unwrap_or_else(|e: Failure| {
        eprintln!("windlass-agent: {e}");
        ExitCode::FAILURE
    })
}

fn ended<E: std::error::Error + 'static>(result: Result<(), E>) -> Done {
    result.map(|()| ExitCode::SUCCESS).map_err(Into::into)
}

/// One thread: the agent waits nearly always, and its memory is the user's.
fn on_runtime(work: impl Future<Output = Done>) -> Done {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

fn environment(env_file: Option<PathBuf>) -> Result<Env, Failure> {
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

/// Standard output is the CLI's: the agent's own words go beside it.
fn log_to_stderr() {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(false)
        .init();
}

async fn run_serve(serve: Serve) -> Done {
    log_to_stderr();
    let in_pod = matches!(serve.place(), Where::Tcp(_));
    let agent = Agent::open(Options {
        workspace: std::path::absolute(&serve.workspace)?,
        state_dir: std::path::absolute(&serve.state_dir)?,
        env: environment(serve.env_file.clone())?,
        // The kernel keeps the file of a running program even when it was replaced by a newer one.
        supervisor: PathBuf::from("/proc/self/exe"),
        interrupt_grace: Duration::from_secs(serve.interrupt_grace_seconds),
        mounts: serve.mounts.clone(),
        login_token_file: serve.login_token_file.clone(),
        pulumi_log_level: serve.pulumi_log_level,
        in_pod,
        memory: serve.memory.as_deref().and_then(bytes),
    })?;
    let stopped = stop_on_signals()?;
    tokio::spawn(windlass_agent::reap_orphans());
    match serve.place() {
        Where::Socket(path) => {
            socket::serve(agent, path, stopped).await?;
        }
        Where::Tcp(tcp) => {
            let listener = bind(tcp).await?;
            listener.serve(agent, stopped).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn run_receive(receive: Receive) -> Done {
    log_to_stderr();
    let agent = Agent::open(Options {
        workspace: std::path::absolute(&receive.workspace)?,
        state_dir: std::path::absolute(&receive.state_dir)?,
        env: environment(None)?,
        supervisor: PathBuf::from("/proc/self/exe"),
        interrupt_grace: Duration::ZERO,
        mounts: Vec::new(),
        login_token_file: None,
        pulumi_log_level: None,
        in_pod: true,
        memory: None,
    })?;
    let stopped = stop_on_signals()?;
    let listener = bind(&receive.tcp).await?;
    if listener.receive(agent, stopped).await? {
        return Ok(ExitCode::SUCCESS);
    }
    Err("stopped before the program came".into())
}

async fn bind(tcp: &Tcp) -> Result<Listener, Failure> {
    let tls_dir = std::path::absolute(&tcp.tls_dir)?;
    // Where the container began may be replaced by a link to the program.
    std::env::set_current_dir("/")?;
    Ok(Listener::bind(tcp.address(), &tls_dir).await?)
}

fn stop_on_signals() -> Result<watch::Receiver<bool>, Failure> {
    let (stop, stopped) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("asked to end: an operation that goes on is interrupted and let finish");
        stop.send_replace(true);
    });
    Ok(stopped)
}

/// What Kubernetes says of the container's memory: bytes. Anything else is said and left alone.
fn bytes(text: &str) -> Option<u64> {
    let bytes = text.trim().parse().ok();
    if bytes.is_none() && !text.trim().is_empty() {
        tracing::warn!("AGENT_MEMLIMIT is {text:?}, which is no number of bytes: it is not used");
    }
    bytes.filter(|b| *b > 0)
}
