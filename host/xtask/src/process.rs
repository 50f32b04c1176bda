//! Starting other programs: said aloud, with errors that name the command.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Error, Result};

/// The cargo that runs this command, so that nested builds use the same toolchain.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

/// The command as a person would type it: the program's short name and its arguments.
pub fn spelled(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    std::iter::once(name)
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .map(|word| {
            if word.contains(' ') {
                format!("'{word}'")
            } else {
                word.into_owned()
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Prints the command and runs it with our own output streams.
///
/// # Errors
/// `CommandUnusable` when it cannot be started, `CommandFailed` when it ends with anything but 0.
pub fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", spelled(command));
    let status = command.status().map_err(|source| Error::CommandUnusable {
        command: spelled(command),
        source,
    })?;
    if status.success() {
        return Ok(());
    }
    Err(Error::CommandFailed {
        command: spelled(command),
        status: status.to_string(),
    })
}

/// Runs the command silently and returns its standard output without the last newline.
///
/// # Errors
/// As [`run`]; what the command wrote to standard error is printed when it fails.
pub fn capture(command: &mut Command) -> Result<String> {
    let output =
        command
            .stdin(Stdio::null())
            .output()
            .map_err(|source| Error::CommandUnusable {
                command: spelled(command),
                source,
            })?;
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        return Err(Error::CommandFailed {
            command: spelled(command),
            status: output.status.to_string(),
        });
    }
    let text = String::from_utf8(output.stdout).map_err(|_| Error::UnexpectedOutput {
        command: spelled(command),
        what: "output that is not UTF-8".to_owned(),
    })?;
    Ok(text.trim_end().to_owned())
}

/// Where PATH finds `program`, leaving out the folder `except` (our own tools are no evidence of
/// what the machine offers).
pub fn find_on_path(program: &str, except: Option<&Path>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|folder| except != Some(folder.as_path()))
        .map(|folder| folder.join(program))
        .find(|candidate| is_executable(candidate))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_command_is_spelled_with_its_short_name() {
        let mut command = Command::new("/usr/bin/git");
        command.args(["commit", "-m", "two words"]);
        assert_eq!(spelled(&command), "git commit -m 'two words'");
    }

    #[test]
    fn a_failing_command_is_named_in_the_error() {
        let error = capture(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`sh -c 'exit 3'` failed (exit status: 3)"
        );
    }

    #[test]
    fn our_own_folder_is_not_searched() {
        let found = find_on_path("sh", None).unwrap();
        let folder = found.parent().unwrap();
        assert_ne!(find_on_path("sh", Some(folder)), Some(found.clone()));
        assert_eq!(find_on_path("no-such-program-anywhere", None), None);
    }
}
