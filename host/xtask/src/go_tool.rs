//! Building programs that come as Go packages, each once, with their versions linked in.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::error::{AtPath, Error, Result};
use crate::place::write_atomically;
use crate::process::{capture, find_on_path, spelled};

/// One program of a Go module that holds nothing but `tool` lines, or that is a small program of our own.
pub struct GoTool {
    /// The binary's name in the tools folder.
    pub name: &'static str,
    pub package: &'static str,
    /// The module whose version it reports, as `go.mod` names it.
    pub module: &'static str,
    /// The variables that hold this version, each with what of it; left unset, the program reports
    /// none, or one that was never released.
    pub variables: &'static [(&'static str, Part)],
    pub tags: &'static str,
}

/// What of a version goes into a variable.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    /// `v1.2.3`
    Whole,
    /// This, whatever the version is.
    Text(&'static str),
    /// `1.2.3`
    Bare,
    /// `1`
    Major,
    /// `2`
    Minor,
}

impl Part {
    fn of(self, version: &str) -> &str {
        let bare = version.trim_start_matches('v');
        let mut numbers = bare.split('.');
        match self {
            Self::Whole => version,
            Self::Text(text) => text,
            Self::Bare => bare,
            Self::Major => numbers.next().unwrap_or_default(),
            Self::Minor => numbers.nth(1).unwrap_or_default(),
        }
    }
}

impl GoTool {
    fn linker_flags(&self, version: &str) -> String {
        let mut flags = "-s -w".to_owned();
        for (variable, part) in self.variables {
            flags.push_str(&format!(" -X {variable}={}", part.of(version)));
        }
        flags
    }
}

/// Builds those of `tools` into `folder` that are not there as the Go module in `module` pins them.
///
/// # Errors
/// `MissingProgram` with `why` and `how` when Go is missing; `CommandFailed` when it fails.
pub fn build(
    module: &Path,
    tools: &[GoTool],
    folder: &Path,
    why: &'static str,
    how: &'static str,
) -> Result<()> {
    if find_on_path("go", None).is_none() {
        return Err(Error::MissingProgram {
            program: "go".to_owned(),
            why,
            how,
        });
    }
    let go_mod_path = module.join("go.mod");
    let go_mod = std::fs::read_to_string(&go_mod_path).at(&go_mod_path)?;
    let go_version = capture(go(Command::new("go"), module).args(["env", "GOVERSION"]))?;
    for tool in tools {
        let version = required_version(&go_mod, tool.module).ok_or_else(|| Error::BadFile {
            path: go_mod_path.clone(),
            what: format!("no requirement of {}", tool.module),
        })?;
        let flags = tool.linker_flags(version);
        let wanted = stamp(module, &[&go_version, &flags, tool.tags, tool.package])?;
        let binary = folder.join(tool.name);
        let stamp_path = folder.join(format!(".{}.stamp", tool.name));
        // A link to a program found on PATH is not the pinned one.
        let present = binary
            .symlink_metadata()
            .is_ok_and(|metadata| metadata.is_file());
        if present && std::fs::read_to_string(&stamp_path).is_ok_and(|old| old == wanted) {
            println!("tools: {} {version} is up to date", tool.name);
            continue;
        }
        compile(module, tool, version, &flags, &binary)?;
        write_atomically(&stamp_path, wanted.as_bytes())?;
    }
    Ok(())
}

fn go(mut command: Command, module: &Path) -> Command {
    command.current_dir(module).env("CGO_ENABLED", "0");
    // A go.work above us or flags from the machine's settings would change what is pinned.
    command.env("GOWORK", "off").env_remove("GOFLAGS");
    command
}

fn compile(module: &Path, tool: &GoTool, version: &str, flags: &str, binary: &Path) -> Result<()> {
    println!(
        "tools: building {} {version} (the first time takes minutes: it compiles about a \
         thousand Go packages)",
        tool.name
    );
    let new = binary.with_file_name(format!(".{}.new", tool.name));
    // It takes every processor for minutes; whoever works on this machine goes first.
    let mut command = go(Command::new("nice"), module);
    command
        .args(["go", "build", "-trimpath"])
        .args(["-tags", tool.tags, "-ldflags", flags])
        .arg("-o")
        .arg(&new)
        .arg(tool.package)
        .stdin(Stdio::null());
    let unusable = |source| Error::CommandUnusable {
        command: format!("nice go build {}", tool.package),
        source,
    };
    let started = Instant::now();
    let mut child = command.spawn().map_err(unusable)?;
    let mut next_line = Duration::from_secs(20);
    let status = loop {
        if let Some(status) = child.try_wait().map_err(unusable)? {
            break status;
        }
        if started.elapsed() >= next_line {
            println!("tools:   {} s, still building", next_line.as_secs());
            next_line += Duration::from_secs(20);
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    if !status.success() {
        return Err(Error::CommandFailed {
            command: spelled(&command),
            status: status.to_string(),
        });
    }
    // Renamed into place: a run that uses the old binary keeps it.
    std::fs::rename(&new, binary).at(binary)?;
    println!(
        "tools: {} built in {:.0} s",
        tool.name,
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

/// What a binary was made from, as one line of hex: a change of any of it builds again.
fn stamp(module: &Path, also: &[&str]) -> Result<String> {
    let mut hash = Sha256::new();
    let mut files = vec![module.join("go.mod"), module.join("go.sum")];
    for entry in std::fs::read_dir(module).at(module)? {
        let path = entry.at(module)?.path();
        if path.extension().is_some_and(|extension| extension == "go") {
            files.push(path);
        }
    }
    files[2..].sort();
    for path in files {
        hash.update(std::fs::read(&path).at(&path)?);
        hash.update([0]);
    }
    for part in also {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    Ok(hex::encode(hash.finalize()))
}

/// The version that a `go.mod` requires of `module`.
pub fn required_version<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let line = line.trim();
        let line = line.strip_prefix("require ").unwrap_or(line);
        let mut words = line.split_whitespace();
        (words.next() == Some(module)).then(|| words.next())?
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn versions_are_read_from_blocks_and_single_lines_of_go_mod() {
        let go_mod = "module m\n\nrequire a.example/x/v3 v3.2.1\nrequire (\n\
                      \tb.example/y v1.0.0 // indirect\n\tb.example/y/z v9.9.9\n)\n";
        assert_eq!(required_version(go_mod, "a.example/x/v3"), Some("v3.2.1"));
        assert_eq!(required_version(go_mod, "b.example/y"), Some("v1.0.0"));
        assert_eq!(required_version(go_mod, "c.example/y"), None);
    }

    #[test]
    fn a_stamp_changes_with_the_sums_and_with_the_flags() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("go.mod"), "module m").unwrap();
        std::fs::write(folder.path().join("go.sum"), "").unwrap();
        let first = stamp(folder.path(), &["go1.26", "-s"]).unwrap();
        assert_eq!(stamp(folder.path(), &["go1.26", "-s"]).unwrap(), first);
        assert_ne!(stamp(folder.path(), &["go1.26-s", ""]).unwrap(), first);
        std::fs::write(folder.path().join("go.sum"), "a.example v1 h1:x").unwrap();
        let second = stamp(folder.path(), &["go1.26", "-s"]).unwrap();
        assert_ne!(second, first);
        std::fs::write(folder.path().join("main.go"), "package main").unwrap();
        assert_ne!(stamp(folder.path(), &["go1.26", "-s"]).unwrap(), second);
    }

    #[test]
    fn versions_are_linked_in_whole_or_in_part() {
        let tool = GoTool {
            name: "x",
            package: "a.example/x",
            module: "a.example/x",
            variables: &[
                ("v.all", Part::Whole),
                ("v.bare", Part::Bare),
                ("v.a", Part::Major),
                ("v.b", Part::Minor),
            ],
            tags: "",
        };
        assert_eq!(
            tool.linker_flags("v1.36.3"),
            "-s -w -X v.all=v1.36.3 -X v.bare=1.36.3 -X v.a=1 -X v.b=36"
        );
    }
}
