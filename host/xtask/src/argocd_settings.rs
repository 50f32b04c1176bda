//! `cargo xtask argocd`: `deploy/argocd/argocd-cm.yaml`, made from the small files in `deploy/argocd/customizations`.

use std::path::Path;

use crate::error::{AtPath, Error, Result};
use crate::place::{Place, write_atomically};

const HEADER: &str = "\
# Made by `cargo xtask argocd` from customizations/. Applied over the settings of an Argo CD that runs:
#   kubectl apply --server-side --field-manager windlass -n argocd -f argocd-cm.yaml
apiVersion: v1
kind: ConfigMap
metadata:
  name: argocd-cm
  labels:
    # Argo CD reads no other.
    app.kubernetes.io/part-of: argocd
data:
";

/// Makes the ConfigMap. With `check`, nothing is written.
///
/// # Errors
/// `OutOfDate` with `check` when the file differs.
pub fn make(place: &Place, check: bool) -> Result<()> {
    let folder = place.root.join("deploy/argocd");
    let text = render(&folder.join("customizations"))?;
    let path = folder.join("argocd-cm.yaml");
    if std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    if check {
        return Err(Error::OutOfDate {
            what: place.shown(&path).to_string(),
            how: "cargo xtask argocd",
        });
    }
    write_atomically(&path, text.as_bytes())?;
    println!("argocd: wrote {}", place.shown(&path));
    Ok(())
}

/// The whole file. A folder `GROUP_KIND` holds what Argo CD is told of a kind: `health.lua`, `actions/NAME.lua` beside
/// `actions/discovery.lua`, and YAML files named as the setting that they are. `links.yaml` is `resource.links`.
fn render(folder: &Path) -> Result<String> {
    let mut text = HEADER.to_owned();
    for kind in names(folder)? {
        let of_kind = folder.join(&kind);
        if !of_kind.is_dir() {
            continue;
        }
        let mut entry = |setting: &str, value: &str| {
            let key = format!("resource.customizations.{setting}.{kind}");
            text.push_str(&block("  ", &key, value));
        };
        for name in names(&of_kind)? {
            let path = of_kind.join(&name);
            match name.split_once('.') {
                Some((setting, "lua" | "yaml")) => entry(setting, &read(&path)?),
                _ if name == "actions" => entry("actions", &actions(&path)?),
                _ => return Err(unexpected(&path)),
            }
        }
    }
    let links = read(&folder.join("links.yaml"))?;
    text.push_str(&block("  ", "resource.links", &links));
    Ok(text)
}

fn actions(folder: &Path) -> Result<String> {
    const DISCOVERY: &str = "discovery.lua";
    let mut text = block("", DISCOVERY, &read(&folder.join(DISCOVERY))?);
    text.push_str("definitions:\n");
    for name in names(folder)? {
        let path = folder.join(&name);
        let Some(action) = name.strip_suffix(".lua") else {
            return Err(unexpected(&path));
        };
        if name == DISCOVERY {
            continue;
        }
        text.push_str(&format!("- name: {action}\n"));
        text.push_str(&block("  ", "action.lua", &read(&path)?));
    }
    Ok(text)
}

/// `key: |` and the lines of `value` below it.
fn block(indent: &str, key: &str, value: &str) -> String {
    let mut text = format!("{indent}{key}: |\n");
    for line in value.lines() {
        if !line.is_empty() {
            text.push_str(indent);
            text.push_str("  ");
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).at(folder)? {
        names.push(entry.at(folder)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).at(path)
}

fn unexpected(path: &Path) -> Error {
    Error::BadFile {
        path: path.to_owned(),
        what: "no setting of Argo CD".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn small_files_become_keys() {
        let folder = tempfile::tempdir().unwrap();
        let kind = folder.path().join("g.example_Kind");
        std::fs::create_dir_all(kind.join("actions")).unwrap();
        for (name, text) in [
            ("links.yaml", "- title: a\n"),
            ("g.example_Kind/health.lua", "local a\n\nreturn a\n"),
            (
                "g.example_Kind/ignoreDifferences.yaml",
                "jsonPointers: []\n",
            ),
            ("g.example_Kind/actions/discovery.lua", "return {}\n"),
            ("g.example_Kind/actions/go.lua", "return obj\n"),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let text = render(folder.path()).unwrap();
        assert_eq!(
            text.strip_prefix(HEADER).unwrap(),
            "  resource.customizations.actions.g.example_Kind: |\n    discovery.lua: |\n      return {}\n    definitions:\n\
             \x20   - name: go\n      action.lua: |\n        return obj\n\
             \x20 resource.customizations.health.g.example_Kind: |\n    local a\n\n    return a\n\
             \x20 resource.customizations.ignoreDifferences.g.example_Kind: |\n    jsonPointers: []\n\
             \x20 resource.links: |\n    - title: a\n"
        );
        std::fs::write(kind.join("notes.txt"), "").unwrap();
        assert!(render(folder.path()).is_err());
    }
}
