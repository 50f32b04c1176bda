//! The `pulumi` on the workspace's PATH: finding it, its version, and its short commands.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::environment::{Env, which};

/// Oldest CLI that tells the truth in the ways the agent listens to: exit codes with meaning (3.227) and the result in
/// the summary event (3.237).
pub const OLDEST: (u64, u64) = (3, 237);

/// A short command that takes longer hangs on something.
const PATIENCE: Duration = Duration::from_secs(300);

/// A usable CLI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cli {
    pub program: PathBuf,
    /// Without a leading `v`.
    pub version: String,
}

// The names are public reasons and stand alone there.
#[allow(clippy::enum_variant_names)]
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum CliError {
    #[error("there is no `pulumi` on the PATH of the workspace ({path})")]
    PulumiMissing { path: String },
    #[error("{program} cannot be started: {message}")]
    PulumiUnusable { program: PathBuf, message: String },
    #[error("pulumi {version} is too old: Windlass needs {}.{}.0 or newer", OLDEST.0, OLDEST.1)]
    PulumiVersionTooLow { version: String },
}

impl CliError {
    /// The variant's name.
    pub fn reason(&self) -> &'static str {
        match self {
            CliError::PulumiMissing { .. } => "PulumiMissing",
            CliError::PulumiUnusable { .. } => "PulumiUnusable",
            CliError::PulumiVersionTooLow { .. } => "PulumiVersionTooLow",
        }
    }
}

/// How a short command ended.
#[derive(Clone, PartialEq, Eq)]
pub struct Said {
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

/// What a short command is given besides its arguments. None of it appears in an argument list.
#[derive(Default)]
pub struct Given {
    pub stdin: Option<String>,
    pub env: Vec<(&'static str, String)>,
}

/// Remembers the version of a binary until the file changes: asking takes 0.14 s.
#[derive(Debug, Default)]
pub struct Finder {
    known: Mutex<Option<(PathBuf, SystemTime, u64, Cli)>>,
}

impl Finder {
    pub async fn find(&self, env: &Env) -> Result<Cli, CliError> {
        let missing = || CliError::PulumiMissing {
            path: env.get("PATH").cloned().unwrap_or_default(),
        };
        let program = which("pulumi", env).ok_or_else(missing)?;
        let meta = std::fs::metadata(&program).map_err(|_| missing())?;
        let stamp = (
            meta.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            meta.len(),
        );
        if let Ok(known) = self.known.lock()
            && let Some((path, time, len, cli)) = &*known
            && *path == program
            && (*time, *len) == stamp
        {
            return Ok(cli.clone());
        }
        let unusable = |message: String| CliError::PulumiUnusable {
            program: program.clone(),
            message,
        };
        let said = command(
            &program,
            env,
            Path::new("/"),
            &["version".into()],
            Given::default(),
        )
        .await
        .map_err(|e| unusable(e.to_string()))?;
        let text = String::from_utf8_lossy(&said.stdout)
            .trim()
            .trim_start_matches('v')
            .to_owned();
        let numbers = parse_version(&text)
            .ok_or_else(|| unusable(format!("it says {text:?} to `pulumi version`")))?;
        if numbers < OLDEST {
            return Err(CliError::PulumiVersionTooLow { version: text });
        }
        let cli = Cli {
            program: program.clone(),
            version: text,
        };
        if let Ok(mut known) = self.known.lock() {
            *known = Some((program, stamp.0, stamp.1, cli.clone()));
        }
        Ok(cli)
    }
}

fn parse_version(text: &str) -> Option<(u64, u64)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

impl Cli {
    /// Runs one short command to its end.
    pub async fn say(
        &self,
        env: &Env,
        cwd: &Path,
        args: &[String],
        given: Given,
    ) -> std::io::Result<Said> {
        let mut all = vec!["--non-interactive".to_owned(), "--color=never".to_owned()];
        all.extend_from_slice(args);
        command(&self.program, env, cwd, &all, given).await
    }
}

async fn command(
    program: &Path,
    env: &Env,
    cwd: &Path,
    args: &[String],
    given: Given,
) -> std::io::Result<Said> {
    let Given { stdin, env: more } = given;
    let mut child = Command::new(program)
        .args(args)
        .env_clear()
        .envs(env)
        .envs(more)
        .current_dir(cwd)
        .stdin(if stdin.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    if let (Some(text), Some(mut pipe)) = (stdin, child.stdin.take()) {
        pipe.write_all(text.as_bytes()).await?;
    }
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output())
        .await
        .map_err(|_| {
            std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                "it did not end within 5 minutes",
            )
        })??;
    Ok(Said {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn shim(dir: &Path, says: &str) -> Env {
        let file = dir.join("pulumi");
        std::fs::write(&file, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        Env::from([(
            "PATH".to_owned(),
            format!("{}:/usr/bin:/bin", dir.display()),
        )])
    }

    #[tokio::test]
    async fn versions_are_judged() {
        let dir = tempfile::tempdir().unwrap();
        let env = shim(dir.path(), "v3.259.0");
        assert_eq!(
            Finder::default().find(&env).await.unwrap().version,
            "3.259.0"
        );
        let env = shim(dir.path(), "v3.226.1");
        let old = Finder::default().find(&env).await.unwrap_err();
        assert_eq!(old.reason(), "PulumiVersionTooLow");
        let env = shim(dir.path(), "hello");
        assert_eq!(
            Finder::default().find(&env).await.unwrap_err().reason(),
            "PulumiUnusable"
        );
        let env = Env::from([("PATH".to_owned(), "/nonexistent".to_owned())]);
        assert_eq!(
            Finder::default().find(&env).await.unwrap_err().reason(),
            "PulumiMissing"
        );
    }
}
