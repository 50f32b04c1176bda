//! `cargo xtask crds`: the CustomResourceDefinitions in `deploy/crds`, made from the types in `host/api`.

use std::path::Path;

use crate::error::{AtPath, Error, Result};
use crate::place::{Place, write_atomically};
use crate::process::{cargo, run};

/// Makes the definitions and brings `deploy/crds` up to date. With `check`, nothing is written there.
///
/// # Errors
/// When the types do not compile; `OutOfDate` with `check` when a file differs.
pub fn make(place: &Place, check: bool) -> Result<()> {
    let made = place.target.join("crds");
    if made.exists() {
        std::fs::remove_dir_all(&made).at(&made)?;
    }
    std::fs::create_dir_all(&made).at(&made)?;
    let mut generate = cargo();
    generate
        .current_dir(&place.root)
        .args(["run", "--locked", "-q", "-p", "windlass-api"])
        .args(["--example", "crds", "--"])
        .arg(&made);
    run(&mut generate)?;

    let folder = place.root.join("deploy/crds");
    let changed = differences(&made, &folder)?;
    if changed.is_empty() {
        return Ok(());
    }
    if check {
        return Err(Error::OutOfDate {
            what: format!("{} in {}", changed.join(", "), place.shown(&folder)),
            how: "cargo xtask crds",
        });
    }
    std::fs::create_dir_all(&folder).at(&folder)?;
    for name in &changed {
        let (from, to) = (made.join(name), folder.join(name));
        if from.exists() {
            write_atomically(&to, &std::fs::read(&from).at(&from)?)?;
        } else {
            std::fs::remove_file(&to).at(&to)?;
        }
    }
    println!(
        "crds: wrote {} in {}",
        changed.join(", "),
        place.shown(&folder)
    );
    Ok(())
}

/// Names of YAML files that are in one folder only, or differ.
fn differences(made: &Path, committed: &Path) -> Result<Vec<String>> {
    let mut names = yaml_files(made)?;
    if committed.exists() {
        names.extend(yaml_files(committed)?);
    }
    names.sort();
    names.dedup();
    names.retain(|name| {
        std::fs::read(made.join(name)).ok() != std::fs::read(committed.join(name)).ok()
    });
    Ok(names)
}

fn yaml_files(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).at(folder)? {
        let name = entry.at(folder)?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".yaml") {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn a_changed_a_new_and_a_left_over_file_are_differences() {
        let (made, committed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (folder, name, text) in [
            (&made, "same.yaml", "1"),
            (&committed, "same.yaml", "1"),
            (&made, "changed.yaml", "new"),
            (&committed, "changed.yaml", "old"),
            (&made, "new.yaml", "1"),
            (&committed, "left.yaml", "1"),
            (&committed, "README.md", "not ours"),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let found = differences(made.path(), committed.path()).unwrap();
        assert_eq!(found, ["changed.yaml", "left.yaml", "new.yaml"]);
    }
}
