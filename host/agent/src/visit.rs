//! What a person finds who comes into the pod: `kubectl exec POD -- pulumi stack` in the workspace directory.
//!
//! The workspace directory is a link to the program's directory in the tree that ran last, and the CLI's home says which stack is
//! selected there. What somebody else put into the workspace directory stays.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use windlass_api::run::ProgramSource;

use crate::run::{Context, Workspace, below};

/// Before a run: afterwards a person may come.
pub fn prepare(context: &Context) -> io::Result<()> {
    let workspace = &context.workspace;
    let project = &context.project;
    match &context.request.program {
        ProgramSource::Tree { .. } => {
            let shown = point(&workspace.dir, &project.dir, &workspace.state_dir)?;
            if !shown {
                tracing::info!(dir = %workspace.dir.display(), "somebody else's files are in the workspace directory: the program is not shown there");
            }
        }
        // In the image, if it is not there already.
        ProgramSource::WorkspacePath { dir } if workspace.in_pod && dir.starts_with('/') => {
            point(&workspace.dir, &project.dir, &workspace.state_dir)?;
        }
        ProgramSource::WorkspacePath { .. } => {}
        ProgramSource::ProjectOnly { .. } => return Ok(()),
    }
    let Some(home) = context.env.get("PULUMI_HOME") else {
        return Ok(());
    };
    // The CLI knows a project by the path of its file, as its shell says it: by the link or without.
    for dir in [&workspace.dir, &project.dir] {
        let file = dir.join(&project.file);
        if file.is_file() {
            select(
                Path::new(home),
                &project.info.name,
                &file,
                &context.request.stack,
            )?;
        }
    }
    Ok(())
}

/// Why the workspace directory does not show a program.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    #[error("the tree {digest} has no directory {dir:?}")]
    NoDirectory { digest: String, dir: String },
    #[error("{0} holds what the agent did not put there: it is left as it is")]
    NotOurs(PathBuf),
    #[error("{path}: {source}")]
    Unwritable { path: PathBuf, source: io::Error },
}

/// Lets the workspace directory show a directory of a tree.
pub fn show(workspace: &Workspace, digest: &str, dir: &str) -> Result<(), ShowError> {
    let found = workspace
        .trees
        .path(digest)
        .and_then(|tree| below(&tree, dir))
        .filter(|d| d.is_dir());
    let target = found.ok_or_else(|| ShowError::NoDirectory {
        digest: digest.to_owned(),
        dir: dir.to_owned(),
    })?;
    match point(&workspace.dir, &target, &workspace.state_dir) {
        Ok(true) => Ok(()),
        Ok(false) => Err(ShowError::NotOurs(workspace.dir.clone())),
        Err(source) => Err(ShowError::Unwritable {
            path: workspace.dir.clone(),
            source,
        }),
    }
}

/// Makes `link` a link to `target`, at once for whoever looks. False if something is there that is not the agent's own.
fn point(link: &Path, target: &Path, own: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(link) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
        Ok(meta) if meta.is_symlink() => {
            let now = fs::read_link(link)?;
            if now == target {
                return Ok(true);
            }
            if !now.starts_with(own) {
                return Ok(false);
            }
        }
        // Only an empty directory goes.
        Ok(meta) if meta.is_dir() => match fs::remove_dir(link) {
            Ok(()) => {}
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::ResourceBusy
                ) =>
            {
                return Ok(false);
            }
            Err(e) => return Err(e),
        },
        Ok(_) => return Ok(false),
    }
    let mut aside = link.as_os_str().to_owned();
    aside.push(".windlass-new");
    let _ = fs::remove_file(&aside);
    symlink(target, &aside)?;
    fs::rename(&aside, link)?;
    Ok(true)
}

/// Writes what `pulumi stack select` would.
fn select(home: &Path, project: &str, file: &Path, stack: &str) -> io::Result<()> {
    let path = file.as_os_str().as_encoded_bytes();
    let hash = hex::encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, path));
    let dir = home.join("workspaces");
    fs::create_dir_all(&dir)?;
    let file = dir.join(format!("{project}-{hash}-workspace.json"));
    let wanted = serde_json::json!({ "stack": stack }).to_string();
    // Not again and again: a person may have selected another and written more.
    if fs::read_to_string(&file).is_ok_and(|is| is == wanted) {
        return Ok(());
    }
    crate::supervise::replace(&file, wanted.as_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_an_own_link_or_an_empty_directory_goes() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join("state");
        let (one, two) = (own.join("trees/one"), own.join("trees/two"));
        for dir in [&one, &two] {
            fs::create_dir_all(dir).unwrap();
        }
        let link = home.path().join("workspace");
        fs::create_dir(&link).unwrap();
        assert!(point(&link, &one, &own).unwrap());
        assert!(point(&link, &two, &own).unwrap());
        assert!(point(&link, &two, &own).unwrap());
        assert_eq!(fs::read_link(&link).unwrap(), two);

        let theirs = home.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("Pulumi.yaml"), "name: x").unwrap();
        assert!(!point(&theirs, &one, &own).unwrap());
        let linked = home.path().join("linked");
        symlink("/somewhere/else", &linked).unwrap();
        assert!(!point(&linked, &one, &own).unwrap());
        assert_eq!(
            fs::read_link(&linked).unwrap(),
            Path::new("/somewhere/else")
        );
    }
}
