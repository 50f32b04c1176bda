//! `cargo xtask tools`: the Pulumi CLI and its YAML language host in `<target>/tools`.
//!
//! The `pulumi` on PATH is linked there when it is new enough and can run YAML programs; else the
//! pinned one is built from the Go module in `tests/tools/pulumi`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::error::{AtPath, Error, Result};
use crate::place::{Place, write_atomically};
use crate::process::{capture, find_on_path, spelled};
use crate::version::Version;

/// The oldest CLI that we accept from PATH. The agent takes older ones, but tests compare with what
/// the pinned one prints; this leaves a little room below it. No version in between has been tried.
const MINIMUM: Version = Version::new(3, 250, 0);

/// One program of the Go module.
struct Tool {
    name: &'static str,
    package: &'static str,
    /// The module whose version it reports, as `go.mod` names it.
    module: &'static str,
    /// The variable that holds this version; left unset, the program reports none.
    version_variable: &'static str,
    tags: &'static str,
}

const TOOLS: [Tool; 2] = [
    Tool {
        name: "pulumi",
        package: "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
        module: "github.com/pulumi/pulumi/pkg/v3",
        version_variable: "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version",
        tags: "osusergo,grpcnotrace",
    },
    Tool {
        name: "pulumi-language-yaml",
        package: "github.com/pulumi/pulumi-yaml/cmd/pulumi-language-yaml",
        module: "github.com/pulumi/pulumi-yaml",
        version_variable: "github.com/pulumi/pulumi-yaml/pkg/version.Version",
        tags: "",
    },
];

/// What a `pulumi` on PATH is good for.
#[derive(Debug)]
pub enum OnPath {
    Usable {
        pulumi: PathBuf,
        yaml: PathBuf,
        version: Version,
    },
    /// The reason, as the rest of a sentence that starts with its path.
    Unusable(String),
    Absent,
}

/// Makes the tools, or finds them made. With `pinned`, a `pulumi` on PATH is not considered.
///
/// # Errors
/// `MissingProgram` when they must be built and Go is missing; `CommandFailed` when Go fails.
pub fn make(place: &Place, pinned: bool) -> Result<()> {
    let folder = place.tools();
    std::fs::create_dir_all(&folder).at(&folder)?;
    // Two commands at once make the tools once. The lock goes with the process.
    let lock_path = folder.join(".lock");
    let lock = File::create(&lock_path).at(&lock_path)?;
    if lock.try_lock().is_err() {
        println!("tools: waiting for another command that is making them");
        lock.lock().at(&lock_path)?;
    }
    if !pinned {
        match on_path(&folder) {
            OnPath::Usable {
                pulumi,
                yaml,
                version,
            } => return link(&folder, &pulumi, &yaml, version),
            OnPath::Unusable(why) => println!("tools: {why}; the pinned one is used"),
            OnPath::Absent => {}
        }
    }
    build(place, &folder)
}

/// Looks at the `pulumi` on PATH, `<target>/tools` left out.
pub fn on_path(tools: &Path) -> OnPath {
    let Some(pulumi) = find_on_path("pulumi", Some(tools)) else {
        return OnPath::Absent;
    };
    let mut command = Command::new(&pulumi);
    command
        .arg("version")
        .env("PULUMI_SKIP_UPDATE_CHECK", "true");
    let shown = pulumi.display();
    let Ok(printed) = capture(&mut command) else {
        return OnPath::Unusable(format!("{shown} does not answer `pulumi version`"));
    };
    let Some(version) = Version::parse(&printed) else {
        return OnPath::Unusable(format!("{shown} does not tell its version"));
    };
    if version < MINIMUM {
        return OnPath::Unusable(format!("{shown} is {version}, older than {MINIMUM}"));
    }
    let beside = pulumi.with_file_name("pulumi-language-yaml");
    let yaml = if beside.is_file() {
        Some(beside)
    } else {
        find_on_path("pulumi-language-yaml", Some(tools))
    };
    match yaml {
        Some(yaml) => OnPath::Usable {
            pulumi,
            yaml,
            version,
        },
        None => OnPath::Unusable(format!("{shown} comes without pulumi-language-yaml")),
    }
}

#[cfg(unix)]
fn link(folder: &Path, pulumi: &Path, yaml: &Path, version: Version) -> Result<()> {
    for (name, target) in [("pulumi", pulumi), ("pulumi-language-yaml", yaml)] {
        let link = folder.join(name);
        if std::fs::read_link(&link).is_ok_and(|old| old == target) {
            continue;
        }
        let new = folder.join(format!(".{name}.new"));
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).at(&new);
            }
            _ => {}
        }
        std::os::unix::fs::symlink(target, &new).at(&new)?;
        std::fs::rename(&new, &link).at(&link)?;
    }
    println!("tools: pulumi {version} from {}", pulumi.display());
    Ok(())
}

#[cfg(not(unix))]
fn link(_folder: &Path, _pulumi: &Path, _yaml: &Path, _version: Version) -> Result<()> {
    Err(Error::Failed(
        "the tools can only be made on Linux and macOS".to_owned(),
    ))
}

fn build(place: &Place, folder: &Path) -> Result<()> {
    let module = place.pulumi_module();
    if find_on_path("go", None).is_none() {
        return Err(Error::MissingProgram {
            program: "go".to_owned(),
            why: "the pinned pulumi is built with it",
            how: "install Go 1.26 or newer, or put a pulumi with pulumi-language-yaml on PATH",
        });
    }
    let go_mod_path = module.join("go.mod");
    let go_mod = std::fs::read_to_string(&go_mod_path).at(&go_mod_path)?;
    let go_version = capture(go(&module).args(["env", "GOVERSION"]))?;
    for tool in &TOOLS {
        let version = required_version(&go_mod, tool.module).ok_or_else(|| Error::BadFile {
            path: go_mod_path.clone(),
            what: format!("no requirement of {}", tool.module),
        })?;
        let flags = format!("-s -w -X {}={version}", tool.version_variable);
        let wanted = stamp(&module, &[&go_version, &flags, tool.tags, tool.package])?;
        let binary = folder.join(tool.name);
        let stamp_path = folder.join(format!(".{}.stamp", tool.name));
        // A link left by an earlier `pulumi` on PATH is not the pinned one.
        let present = binary
            .symlink_metadata()
            .is_ok_and(|metadata| metadata.is_file());
        if present && std::fs::read_to_string(&stamp_path).is_ok_and(|old| old == wanted) {
            println!("tools: {} {version} is up to date", tool.name);
            continue;
        }
        compile(&module, tool, version, &flags, &binary)?;
        write_atomically(&stamp_path, wanted.as_bytes())?;
    }
    check(folder, &go_mod)
}

fn go(module: &Path) -> Command {
    let mut command = Command::new("go");
    command.current_dir(module).env("CGO_ENABLED", "0");
    // A go.work above us or flags from the machine's settings would change what is pinned.
    command.env("GOWORK", "off").env_remove("GOFLAGS");
    command
}

fn compile(module: &Path, tool: &Tool, version: &str, flags: &str, binary: &Path) -> Result<()> {
    println!(
        "tools: building {} {version} (the first time takes minutes: it compiles about a \
         thousand Go packages)",
        tool.name
    );
    let new = binary.with_file_name(format!(".{}.new", tool.name));
    let mut command = go(module);
    command
        .args(["build", "-trimpath", "-tags", tool.tags, "-ldflags", flags])
        .arg("-o")
        .arg(&new)
        .arg(tool.package)
        .stdin(Stdio::null());
    let unusable = |source| Error::CommandUnusable {
        command: format!("go build {}", tool.package),
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
    for name in ["go.mod", "go.sum"] {
        let path = module.join(name);
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
fn required_version<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let line = line.trim();
        let line = line.strip_prefix("require ").unwrap_or(line);
        let mut words = line.split_whitespace();
        (words.next() == Some(module)).then(|| words.next())?
    })
}

/// A wrong link-time variable leaves a CLI without a version, which everything downstream refuses.
fn check(folder: &Path, go_mod: &str) -> Result<()> {
    let mut command = Command::new(folder.join("pulumi"));
    command
        .arg("version")
        .env("PULUMI_SKIP_UPDATE_CHECK", "true");
    let printed = capture(&mut command)?;
    let wanted = required_version(go_mod, TOOLS[0].module).unwrap_or_default();
    if printed == wanted {
        return Ok(());
    }
    Err(Error::UnexpectedOutput {
        command: spelled(&command),
        what: format!("{printed:?} instead of {wanted}"),
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
    fn our_go_module_pins_every_tool_at_a_version_we_would_accept() {
        let place = Place::find().unwrap();
        let go_mod = std::fs::read_to_string(place.pulumi_module().join("go.mod")).unwrap();
        for tool in &TOOLS {
            assert!(go_mod.contains(tool.package), "{} is no tool", tool.package);
            let pinned = required_version(&go_mod, tool.module).unwrap();
            assert!(Version::parse(pinned).is_some(), "{pinned}");
        }
        let pinned = required_version(&go_mod, TOOLS[0].module).unwrap();
        assert!(Version::parse(pinned) >= Some(MINIMUM));
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
        assert_ne!(stamp(folder.path(), &["go1.26", "-s"]).unwrap(), first);
    }
}
