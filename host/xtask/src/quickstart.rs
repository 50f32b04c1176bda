//! `cargo xtask quickstart`: two Stacks deployed for real on this machine, with no cluster.
//!
//! Everything it makes is in `<target>/quickstart`: the manifests to read and edit, the Git
//! repository of the first program, Pulumi's state, and what `windlass local` keeps.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{AtPath, Error, Result};
use crate::place::Place;
use crate::process::{capture, run};
use crate::tools::Group;
use crate::{binaries, doctor, tools};

/// The manifests, in the order in which a person should read them.
const MANIFESTS: [(&str, &str); 3] = [
    (
        "1-secret.yaml",
        include_str!("../quickstart/manifests/1-secret.yaml"),
    ),
    (
        "2-network.yaml",
        include_str!("../quickstart/manifests/2-network.yaml"),
    ),
    (
        "3-app.yaml",
        include_str!("../quickstart/manifests/3-app.yaml"),
    ),
];

/// The program that goes into the Git repository.
const NETWORK_PROGRAM: &str = include_str!("../quickstart/network/Pulumi.yaml");

/// The folders of a quickstart.
struct Layout {
    manifests: PathBuf,
    repository: PathBuf,
    /// Pulumi's state, as `file://`.
    state: PathBuf,
    /// What `windlass local` keeps: its store, workspaces, logs.
    data: PathBuf,
}

impl Layout {
    fn below(folder: &Path) -> Self {
        Self {
            manifests: folder.join("manifests"),
            repository: folder.join("network-repository"),
            state: folder.join("state"),
            data: folder.join("data"),
        }
    }
}

/// Builds what is needed, writes the manifests and the repository, and reconciles them once; with
/// `destroy`, takes down what the Stacks made.
///
/// # Errors
/// When something is missing or does not compile, or a Stack does not get ready.
pub fn deploy(place: &Place, destroy: bool) -> Result<()> {
    doctor::cc()?;
    doctor::git()?;
    tools::make(place, &[Group::Pulumi], false)?;
    binaries::make(place)?;
    let folder = place.target.join("quickstart");
    let layout = Layout::below(&folder);
    prepare(&layout)?;
    println!(
        "quickstart: manifests in {}, the program of `network` in {}\n",
        place.shown(&layout.manifests),
        place.shown(&layout.repository)
    );
    run(&mut windlass(place, &layout, destroy)?)?;
    if !destroy {
        println!(
            "\nEdit a manifest or commit to the repository and run it again, or take everything \
             down:\n  cargo xtask quickstart --destroy"
        );
    }
    Ok(())
}

/// The one place that spells the command line of `windlass local`.
fn windlass(place: &Place, layout: &Layout, destroy: bool) -> Result<Command> {
    let mut command = Command::new(place.binaries().join("windlass"));
    command
        .args(["local", "--once"])
        .arg("--data-dir")
        .arg(&layout.data)
        .arg("--plugin-dir")
        .arg(place.plugins());
    if destroy {
        command.arg("--destroy");
    }
    command.arg(&layout.manifests);
    command.env("PATH", path_with(&place.tools())?);
    Ok(command)
}

/// PATH with our `pulumi` in front.
fn path_with(tools: &Path) -> Result<std::ffi::OsString> {
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(tools.to_owned()).chain(std::env::split_paths(&rest));
    std::env::join_paths(folders).map_err(|error| Error::BadFile {
        path: tools.to_owned(),
        what: format!("cannot be put on PATH: {error}"),
    })
}

/// Writes what is not there yet. What a person has edited stays as it is.
fn prepare(layout: &Layout) -> Result<()> {
    let Layout {
        manifests,
        repository,
        state,
        data,
    } = layout;
    for folder in [manifests, repository, state, data] {
        std::fs::create_dir_all(folder).at(folder)?;
    }
    for (name, template) in MANIFESTS {
        write_once(&manifests.join(name), &filled(template, layout))?;
    }
    write_once(&repository.join("Pulumi.yaml"), NETWORK_PROGRAM)?;
    if !repository.join(".git").exists() {
        capture(git(repository).args(["init", "--quiet", "--initial-branch", "main"]))?;
    }
    let has_commit = git(repository)
        .args(["rev-parse", "--quiet", "--verify", "HEAD"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !has_commit {
        capture(git(repository).args(["add", "Pulumi.yaml"]))?;
        capture(git(repository).args(["commit", "--quiet", "-m", "Plan the network"]))?;
    }
    Ok(())
}

fn write_once(path: &Path, content: &str) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    std::fs::write(path, content).at(path)
}

fn filled(template: &str, layout: &Layout) -> String {
    template
        .replace("@REPOSITORY@", &file_url(&layout.repository))
        .replace("@STATE@", &file_url(&layout.state))
}

/// `path` as a `file:` URL; only what would end the path or start an escape is escaped.
fn file_url(path: &Path) -> String {
    let text = path
        .display()
        .to_string()
        .replace('%', "%25")
        .replace(' ', "%20")
        .replace('#', "%23")
        .replace('?', "%3F");
    format!("file://{text}")
}

/// Git as it is without anybody's settings: hooks, signatures or templates of this machine's user
/// are not part of a quickstart.
fn git(repository: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(repository);
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["-c", "user.name=Quickstart"])
        .args(["-c", "user.email=quickstart@localhost"]);
    command
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pretty_assertions::assert_eq;

    fn head(layout: &Layout) -> String {
        capture(git(&layout.repository).args(["rev-parse", "HEAD"])).unwrap()
    }

    #[test]
    fn the_second_time_changes_nothing_and_an_edit_stays() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::below(folder.path());
        prepare(&layout).unwrap();
        let first = head(&layout);
        let manifest = layout.manifests.join("3-app.yaml");
        std::fs::write(&manifest, "edited").unwrap();

        prepare(&layout).unwrap();
        assert_eq!(head(&layout), first);
        assert_eq!(std::fs::read_to_string(&manifest).unwrap(), "edited");
        let committed =
            capture(git(&layout.repository).args(["show", "HEAD:Pulumi.yaml"])).unwrap();
        assert_eq!(committed, NETWORK_PROGRAM.trim_end());
    }

    #[test]
    fn manifests_name_the_folders_and_have_no_gap_left() {
        let layout = Layout::below(Path::new("/w/my target"));
        let all: String = MANIFESTS
            .iter()
            .map(|(_, template)| filled(template, &layout))
            .collect();
        assert!(all.contains("projectRepo: file:///w/my%20target/network-repository\n"));
        assert!(all.contains("backend: file:///w/my%20target/state\n"));
        assert!(!all.contains('@'), "{all}");
    }
}
