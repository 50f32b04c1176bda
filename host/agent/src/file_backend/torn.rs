//! Files that a CLI left half made when it was killed, and on which the next one fails.
//!
//! The CLI writes an object of a directory backend into `NAME.TIME.tmp`, then its attributes into `NAME.attrs`, then it
//! renames. Only the rename is one step, and two remains of a kill before it stop every CLI that comes after:
//! - Attributes that were created and not written: whatever reads the object ends with `EOF`.
//! - A lock that was not renamed: all that lies in the folder of locks counts as a lock, and this one cannot be read
//!   (`unexpected end of JSON input`), so that the refusal names no lock that could be released.
//!
//! Source: gocloud.dev/blob/fileblob (`setAttrs`, `createTemp`), pulumi/pkg/backend/diy (`checkForLock`).

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::FileStack;

/// A lock is renamed at once: a process at work has not been at it for so long. One that has, frozen in between, fails and
/// has begun nothing.
pub const LEFT_AFTER: Duration = Duration::from_secs(2);

impl FileStack {
    /// Takes away what a killed CLI left half made in the way of this stack, and tells what that was.
    ///
    /// No state is lost by it, nor anything of a CLI that is at work: attributes are optional, and whoever has not
    /// renamed its lock has not begun.
    ///
    /// # Errors
    /// A file that cannot be taken away; the text names it.
    pub fn mend(&self) -> std::io::Result<Vec<PathBuf>> {
        let books = self.root.join(".pulumi");
        let of_stack = format!("{}.", self.stack);
        let states = files(&books.join("stacks").join(&self.project))
            .filter(|path| name(path).starts_with(&of_stack));
        let locks = || files(&self.lock_dir());
        let not_renamed = locks().filter(|path| name(path).ends_with(".tmp") && is_left(path));
        let empty = std::iter::once(books.join("meta.yaml.attrs"))
            .chain(states)
            .chain(locks())
            .filter(|path| name(path).ends_with(".attrs") && is_empty(path));
        let mut gone = Vec::new();
        for path in empty.chain(not_renamed) {
            match std::fs::remove_file(&path) {
                Ok(()) => gone.push(path),
                // Somebody else mends, or has gone on.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => {
                    let named = format!("{}: {e}", path.display());
                    return Err(std::io::Error::new(e.kind(), named));
                }
            }
        }
        Ok(gone)
    }

    /// Whether a lock was made a moment ago and is not renamed: by a process that is at it, or one that was killed.
    pub fn has_lock_underway(&self) -> bool {
        files(&self.lock_dir()).any(|path| name(&path).ends_with(".tmp") && !is_left(&path))
    }
}

fn files(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.flatten().map(|entry| entry.path())
}

/// Names that are not text are not the CLI's.
fn name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}

fn is_empty(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|file| file.is_file() && file.len() == 0)
}

fn is_left(path: &Path) -> bool {
    let modified = path.symlink_metadata().and_then(|file| file.modified());
    modified.is_ok_and(|then| {
        let age = SystemTime::now().duration_since(then);
        age.is_ok_and(|age| age > LEFT_AFTER)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_what_is_half_made_goes() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("file://{}", dir.path().display());
        let stack = FileStack::locate(&url, "organization/P/S", None).unwrap();
        assert!(stack.mend().unwrap().is_empty(), "nothing is there yet");

        let long_ago = SystemTime::now() - 2 * LEFT_AFTER;
        let file = |path: &str, text: &str, time: SystemTime| {
            let path = dir.path().join(".pulumi").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            let opened = std::fs::File::options().append(true).open(&path).unwrap();
            opened.set_modified(time).unwrap();
            path
        };
        let locks = "locks/organization/P/S";
        let now = SystemTime::now();
        let mut torn = [
            file("meta.yaml.attrs", "", now),
            file("stacks/P/S.json.attrs", "", now),
            file("stacks/P/S.json.bak.attrs", "", long_ago),
            file(&format!("{locks}/a.json.attrs"), "", now),
            file(&format!("{locks}/b.json.18a.tmp"), "", long_ago),
            file(&format!("{locks}/c.json.18b.tmp"), "{\"pid\":1}", long_ago),
        ];
        let kept = [
            file("meta.yaml", "", now),
            file("stacks/P/S.json", "", now),
            file("stacks/P/S.json.18a.tmp", "", long_ago),
            file("stacks/P/S.pulumi-tags.attrs", "{}", now),
            file("stacks/P/S2.json.attrs", "", now),
            file("stacks/Q/S.json.attrs", "", now),
            file(&format!("{locks}/a.json"), "{}", long_ago),
            file(&format!("{locks}/d.json.18c.tmp"), "", now),
            file("locks/organization/P/S2/e.json.18d.tmp", "", long_ago),
        ];
        let mut gone = stack.mend().unwrap();
        gone.sort();
        torn.sort();
        assert_eq!(gone, torn);
        assert!(kept.iter().all(|path| path.exists()));
        assert!(stack.mend().unwrap().is_empty());
        assert!(stack.has_lock_underway());
        file(&format!("{locks}/d.json.18c.tmp"), "", long_ago);
        assert!(!stack.has_lock_underway());
    }
}
