//! Repositories that tests make, with the real git.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A bare repository on disk.
#[derive(Debug, Clone)]
pub struct TestRepo {
    path: PathBuf,
}

/// A file of a commit: path, mode (`100644`, `100755`, `120000`), content.
pub type TestFile<'a> = (&'a str, &'a str, &'a [u8]);

impl TestRepo {
    /// Makes an empty repository whose HEAD is `main`.
    pub fn create(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        let repo = TestRepo {
            path: path.to_owned(),
        };
        repo.git(
            &["init", "--quiet", "--bare", "--initial-branch=main", "."],
            b"",
        )?;
        repo.git(&["config", "core.fsync", "none"], b"")?;
        Ok(repo)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its `file:` address.
    pub fn file_url(&self) -> String {
        format!("file://{}", self.path.display())
    }

    /// Runs git in the repository, with an environment of its own; returns its output, trimmed.
    pub fn git(&self, args: &[&str], input: &[u8]) -> io::Result<String> {
        let mut child = git()
            .args(args)
            .current_dir(&self.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            let input = input.to_vec();
            // From a thread: git may answer before it has read everything.
            std::thread::spawn(move || stdin.write_all(&input).ok());
        }
        let Output {
            status,
            stdout,
            stderr,
        } = child.wait_with_output()?;
        if !status.success() {
            let stderr = String::from_utf8_lossy(&stderr);
            return Err(io::Error::other(format!(
                "git {args:?}: {status}: {stderr}"
            )));
        }
        Ok(String::from_utf8_lossy(&stdout).trim_end().to_owned())
    }

    /// Commits exactly these files on top of a branch; returns the commit.
    pub fn commit(&self, branch: &str, files: &[TestFile<'_>]) -> io::Result<String> {
        let mut stream = Vec::new();
        let exists = self
            .git(
                &[
                    "rev-parse",
                    "--verify",
                    "--quiet",
                    &format!("refs/heads/{branch}"),
                ],
                b"",
            )
            .is_ok();
        write!(
            stream,
            "commit refs/heads/{branch}\ncommitter T <t@example.com> 1700000000 +0000\ndata 1\nx\n"
        )?;
        if exists {
            writeln!(stream, "from refs/heads/{branch}^0")?;
        }
        stream.extend_from_slice(b"deleteall\n");
        for (path, mode, content) in files {
            write!(stream, "M {mode} inline {path}\ndata {}\n", content.len())?;
            stream.extend_from_slice(content);
            stream.push(b'\n');
        }
        self.git(&["fast-import", "--quiet"], &stream)?;
        self.git(&["rev-parse", &format!("refs/heads/{branch}")], b"")
    }

    /// Stores an object as it is, checked by nobody; returns its id.
    pub fn object(&self, kind: &str, content: &[u8]) -> io::Result<String> {
        self.git(
            &["hash-object", "-t", kind, "-w", "--literally", "--stdin"],
            content,
        )
    }

    /// A tree object of raw entries: mode, name, id. Names may be anything but contain NUL.
    pub fn raw_tree(&self, entries: &[(&str, &[u8], &str)]) -> io::Result<String> {
        let mut body = Vec::new();
        for (mode, name, id) in entries {
            body.extend_from_slice(mode.as_bytes());
            body.push(b' ');
            body.extend_from_slice(name);
            body.push(0);
            for pair in id.as_bytes().chunks(2) {
                let digits = std::str::from_utf8(pair).map_err(io::Error::other)?;
                body.push(u8::from_str_radix(digits, 16).map_err(io::Error::other)?);
            }
        }
        self.object("tree", &body)
    }

    /// A commit of a tree, with a branch that points to it.
    pub fn commit_tree(&self, branch: &str, tree: &str) -> io::Result<String> {
        let commit = self.git(&["commit-tree", "-m", "x", tree], b"")?;
        self.git(
            &["update-ref", &format!("refs/heads/{branch}"), &commit],
            b"",
        )?;
        Ok(commit)
    }
}

/// The real git without anybody's configuration.
pub(crate) fn git() -> Command {
    let mut command = Command::new("git");
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.env_clear().env("PATH", path);
    command
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    for role in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{role}_NAME"), "T")
            .env(format!("GIT_{role}_EMAIL"), "t@example.com");
        command.env(format!("GIT_{role}_DATE"), "1700000000 +0000");
    }
    command
}
