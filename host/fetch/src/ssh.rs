//! What the administrator decides about ssh, and the host keys that are known.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Keys that large hosts publish, so that nobody has to collect them. A line `@revoked` in a file takes one back.
const WELL_KNOWN: &str = "\
github.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl
gitlab.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAfuCHKVTjquxvt6CM6tdG4SLp1Btn/nOeHHE5UOzRdf
bitbucket.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIazEu89wgQZ4bqs3d63QSMzYVa0MuJ2e2gKTKqu+UUO
";

/// Longest known_hosts file that is read, bytes.
const FILE_BYTES: u64 = 1 << 20;

/// How repositories are reached over ssh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshConfig {
    /// OpenSSH's client. Nothing of its configuration or of a user's is read.
    pub program: PathBuf,
    /// Files of host keys, in the form of known_hosts; those that do not exist are left out. Read anew for each request.
    pub known_hosts: Vec<PathBuf>,
    /// Whether the keys that github.com, gitlab.com and bitbucket.org publish are known, too.
    pub well_known_hosts: bool,
}

impl Default for SshConfig {
    /// `ssh` on the PATH, and the files that `SSH_KNOWN_HOSTS` lists, or else the user's and the system's, as Git
    /// programs in Go have it.
    fn default() -> Self {
        let on_path = std::env::var_os("PATH").and_then(|path| {
            std::env::split_paths(&path)
                .filter(|dir| dir.is_absolute())
                .map(|dir| dir.join("ssh"))
                .find(|file| file.is_file())
        });
        let known_hosts = match std::env::var_os("SSH_KNOWN_HOSTS") {
            Some(files) => std::env::split_paths(&files).collect(),
            None => std::env::var_os("HOME")
                .map(|home| PathBuf::from(home).join(".ssh/known_hosts"))
                .into_iter()
                .chain([PathBuf::from("/etc/ssh/ssh_known_hosts")])
                .collect(),
        };
        SshConfig {
            program: on_path.unwrap_or_else(|| "/usr/bin/ssh".into()),
            known_hosts,
            well_known_hosts: true,
        }
    }
}

/// The same for the child process, which reads no files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SshSettings {
    pub program: PathBuf,
    /// Lines of a known_hosts file.
    pub known_hosts: String,
}

impl SshConfig {
    /// Reads what is known now.
    pub(crate) fn settings(&self) -> SshSettings {
        let SshConfig {
            program,
            known_hosts,
            well_known_hosts,
        } = self;
        let mut text = String::new();
        for file in known_hosts {
            match read(file) {
                Ok(lines) => {
                    text.push_str(&lines);
                    text.push('\n');
                }
                Err(err) if err.kind() == std::io::ErrorKind::NotFound => {}
                Err(err) => {
                    tracing::warn!(file = %file.display(), %err, "host keys cannot be read")
                }
            }
        }
        if *well_known_hosts {
            text.push_str(WELL_KNOWN);
        }
        SshSettings {
            program: program.clone(),
            known_hosts: text,
        }
    }
}

fn read(file: &std::path::Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(file)?
        .take(FILE_BYTES)
        .read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn files_that_are_there_are_read_and_others_are_no_loss() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("known_hosts");
        let mut config = SshConfig {
            program: "/bin/ssh".into(),
            known_hosts: vec![dir.path().join("none"), file.clone()],
            well_known_hosts: true,
        };
        std::fs::write(&file, "a.test ssh-ed25519 AAAA").unwrap();
        let text = config.settings().known_hosts;
        assert!(text.starts_with("a.test ssh-ed25519 AAAA\n"), "{text}");
        assert!(text.contains("\ngithub.com ssh-ed25519 "), "{text}");
        // A file that is mounted may change while the process runs.
        std::fs::write(&file, "b.test ssh-ed25519 BBBB").unwrap();
        config.well_known_hosts = false;
        assert_eq!(config.settings().known_hosts, "b.test ssh-ed25519 BBBB\n");
    }
}
