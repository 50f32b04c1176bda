//! Becomes a container of the fake kubelet: `run` in namespaces of its own, `exec` in those of
//! another. It is not for people: what to do comes as JSON on stdin.
//!
//! `run` stays outside and starts itself again as `init`, which is the first process of a new PID
//! namespace, makes itself a root and becomes the program. `run` reports on stdout, in lines:
//! `running PID` or `failed REASON`, then `exited CODE` or `signaled NUMBER`. When stdin closes,
//! because the kubelet wants it or is gone, the container is killed.

#[cfg(target_os = "linux")]
#[path = "../../launch.rs"]
mod launch;

#[cfg(target_os = "linux")]
mod exec;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod program;
#[cfg(target_os = "linux")]
mod run;

/// What went wrong, as a sentence for the pod's status.
#[cfg(target_os = "linux")]
type Result<T> = std::result::Result<T, String>;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let ended = match mode.as_str() {
        "run" => run::run(),
        "init" => init::init(),
        "exec" => exec::exec(),
        "probe" => run::namespaces(),
        other => Err(format!("{other:?} is none of run, init, exec, probe")),
    };
    match ended {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("containers need Linux");
}
