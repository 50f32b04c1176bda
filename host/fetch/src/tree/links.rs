//! Symbolic links of a tree: each must stay inside, whatever other links its way
//! leads through.

use std::collections::HashMap;

use crate::error::FetchError;
use crate::tree::check::shown;
use crate::tree::{Entry, Kind};

/// Links followed before a chain counts as endless. The kernel allows 40.
const MAX_FOLLOWED: usize = 40;

/// Checks all symbolic links of a tree.
///
/// Resolving by text alone is not enough: with `here -> .`, the target
/// `here/here/../..` looks harmless and leads out.
pub(crate) fn check(entries: &[Entry]) -> Result<(), FetchError> {
    let links: HashMap<&str, &str> = entries
        .iter()
        .filter(|entry| entry.kind == Kind::Symlink)
        .map(|entry| {
            (
                entry.path.as_str(),
                entry.target.as_deref().unwrap_or_default(),
            )
        })
        .collect();
    for entry in entries.iter().filter(|entry| entry.kind == Kind::Symlink) {
        if !stays_inside(&entry.path, &links) {
            return Err(FetchError::SymlinkEscapes {
                path: shown(&entry.path),
            });
        }
    }
    Ok(())
}

/// Follows one link as the kernel would. Endless chains lead nowhere, so they stay inside.
fn stays_inside(link: &str, links: &HashMap<&str, &str>) -> bool {
    let mut at: Vec<&str> = Vec::new();
    let mut todo: Vec<&str> = link.split('/').rev().collect();
    let mut followed = 0;
    while let Some(component) = todo.pop() {
        match component {
            "" | "." => {}
            ".." => {
                if at.pop().is_none() {
                    return false;
                }
            }
            name => {
                at.push(name);
                let Some(target) = links.get(at.join("/").as_str()) else {
                    continue;
                };
                if target.starts_with('/') {
                    return false;
                }
                followed += 1;
                if followed > MAX_FOLLOWED {
                    return true;
                }
                at.pop();
                todo.extend(target.split('/').rev());
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(links: &[(&str, &str)]) -> Vec<Entry> {
        links
            .iter()
            .map(|(path, target)| Entry {
                path: (*path).to_owned(),
                kind: Kind::Symlink,
                size: target.len() as u64,
                target: Some((*target).to_owned()),
            })
            .collect()
    }

    #[test]
    fn links_inside_are_kept() {
        for links in [
            &[("a/b", "../c")][..],
            &[("a", "nowhere")],
            &[("a", ".")],
            &[("a", "b"), ("b", "a")],
            &[("x/y/z", "../../x/./y/w")],
        ] {
            assert!(check(&tree(links)).is_ok(), "{links:?}");
        }
    }

    #[test]
    fn links_outside_are_refused() {
        for links in [
            &[("a", "/etc/passwd")][..],
            &[("a", "..")],
            &[("a/b", "../../c")],
            &[("here", "."), ("out", "here/here/../..")],
            &[("d/deep", ".."), ("out", "d/deep/../x")],
            &[("a", "b/../../x"), ("b", "c")],
        ] {
            assert!(check(&tree(links)).is_err(), "{links:?}");
        }
    }
}
