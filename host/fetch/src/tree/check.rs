//! Names that are acceptable in a tree, and the limits on it. The child applies
//! this early to stop reading; the parent applies it again to what the child says.

use crate::config::Limits;
use crate::error::FetchError;

/// Longest path in bytes; also the longest target of a symbolic link.
pub(crate) const MAX_PATH: usize = 4096;

/// Checks one relative path.
pub(crate) fn path(path: &str, limits: &Limits) -> Result<(), FetchError> {
    let forbidden = |detail: &str| FetchError::NameForbidden {
        path: shown(path),
        detail: detail.to_owned(),
    };
    if path.is_empty() {
        return Err(forbidden("it has no name"));
    }
    if path.starts_with('/') {
        return Err(forbidden("it is an absolute path"));
    }
    if path.len() > MAX_PATH {
        return Err(FetchError::NameTooLong {
            path: shown(path),
            limit: MAX_PATH as u64,
        });
    }
    let mut depth = 0u64;
    for component in path.split('/') {
        if let Some(detail) = bad_component(component) {
            return Err(forbidden(detail));
        }
        if component.len() as u64 > limits.name {
            return Err(FetchError::NameTooLong {
                path: shown(path),
                limit: limits.name,
            });
        }
        depth += 1;
    }
    if depth - 1 > limits.depth {
        return Err(FetchError::TooDeep {
            path: shown(path),
            limit: limits.depth,
        });
    }
    Ok(())
}

/// Why a single name is not acceptable, if it is not.
fn bad_component(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("it has an empty component");
    }
    if name == "." || name == ".." {
        return Some("it has a component . or ..");
    }
    if name.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return Some("it contains a control character");
    }
    if name.contains('\\') {
        return Some("it contains a backslash");
    }
    if is_dot_git(name) {
        return Some("it stands for Git's own directory");
    }
    None
}

/// Whether some file system takes the name for `.git`: other case, trailing dots
/// and spaces, an NTFS stream or short name, characters that HFS+ ignores.
fn is_dot_git(name: &str) -> bool {
    let seen: String = name.chars().filter(|c| !ignored_by_hfs(*c)).collect();
    let base = seen.split(':').next().unwrap_or_default();
    let base = base.trim_end_matches(['.', ' ']).to_ascii_lowercase();
    base == ".git" || base == "git~1"
}

fn ignored_by_hfs(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// A path as it may stand in an error: short, without control characters.
pub(crate) fn shown(path: &str) -> String {
    let mut text: String = path.chars().filter(|c| !c.is_control()).take(120).collect();
    if text.len() < path.len() {
        text.push('…');
    }
    text
}

/// Counts what a tree has against the limits.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub files: u64,
    pub bytes: u64,
    path_bytes: u64,
}

/// Most bytes of all paths together; bounds the memory of a listing.
const MAX_PATH_BYTES: u64 = 16 << 20;

impl Tally {
    /// Counts one file or directory.
    pub fn add(&mut self, path: &str, size: u64, limits: &Limits) -> Result<(), FetchError> {
        self.files += 1;
        self.path_bytes += path.len() as u64;
        if self.files > limits.files || self.path_bytes > MAX_PATH_BYTES {
            return Err(FetchError::TooManyFiles {
                limit: limits.files,
            });
        }
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > limits.bytes {
            return Err(FetchError::TooManyBytes {
                limit: limits.bytes,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_of_git_are_refused_in_every_disguise() {
        for bad in [
            ".git",
            ".GIT",
            ".Git/config",
            "a/.git/x",
            ".git.",
            ".git ",
            ".git...",
            "GIT~1",
            "git~1/hooks",
            ".git::$INDEX_ALLOCATION",
            ".g\u{200c}it",
            "..",
            "a/../b",
            "./a",
            "/etc/passwd",
            "a//b",
            "a/",
            "",
            "a\\..\\b",
            "a\nb",
        ] {
            let err = path(bad, &Limits::default()).unwrap_err();
            assert_eq!(err.reason(), "NameForbidden", "{bad:?}");
        }
        for good in [
            ".gitignore",
            ".github/x",
            "git",
            "a b",
            "...",
            "ä/ö",
            ".gitmodules",
        ] {
            assert!(path(good, &Limits::default()).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn limits_on_names() {
        let limits = Limits {
            depth: 2,
            name: 5,
            ..Limits::default()
        };
        assert!(path("a/b/c", &limits).is_ok());
        assert_eq!(path("a/b/c/d", &limits).unwrap_err().reason(), "TooDeep");
        assert_eq!(path("abcdef", &limits).unwrap_err().reason(), "NameTooLong");
    }
}
