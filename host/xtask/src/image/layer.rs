//! Files as a layer.

use std::collections::BTreeMap;

use tar::{Builder, EntryType, Header};

/// What is in a layer, by path without a slash in front: sorted, each once, with the folders above.
#[derive(Debug, Default)]
pub struct Root {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
enum Entry {
    Folder { mode: u32, owner: u32 },
    File { mode: u32, content: Vec<u8> },
    Link { target: String },
}

impl Root {
    /// Adds a file of root's.
    pub fn file(&mut self, path: &str, mode: u32, content: Vec<u8>) {
        self.add(path, Entry::File { mode, content });
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        let target = target.to_owned();
        self.add(path, Entry::Link { target });
    }

    /// Adds an empty folder.
    pub fn folder(&mut self, path: &str, mode: u32, owner: u32) {
        self.add(path, Entry::Folder { mode, owner });
    }

    fn add(&mut self, path: &str, entry: Entry) {
        for (at, _) in path.match_indices('/') {
            let above = Entry::Folder {
                mode: 0o755,
                owner: 0,
            };
            self.entries.entry(path[..at].to_owned()).or_insert(above);
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// All of it as a tar file, every time this one.
    pub fn tar(&self, time: u64) -> std::io::Result<Vec<u8>> {
        let mut tar = Builder::new(Vec::new());
        for (path, entry) in &self.entries {
            let mut header = Header::new_gnu();
            header.set_mtime(time);
            header.set_uid(0);
            header.set_gid(0);
            header.set_size(0);
            match entry {
                Entry::Folder { mode, owner } => {
                    header.set_entry_type(EntryType::Directory);
                    header.set_mode(*mode);
                    header.set_uid((*owner).into());
                    header.set_gid((*owner).into());
                    tar.append_data(&mut header, format!("{path}/"), std::io::empty())?;
                }
                Entry::File { mode, content } => {
                    header.set_entry_type(EntryType::Regular);
                    header.set_mode(*mode);
                    header.set_size(content.len() as u64);
                    tar.append_data(&mut header, path, content.as_slice())?;
                }
                Entry::Link { target } => {
                    header.set_entry_type(EntryType::Symlink);
                    header.set_mode(0o777);
                    tar.append_link(&mut header, path, target)?;
                }
            }
        }
        tar.into_inner()
    }
}

#[cfg(test)]
pub mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pretty_assertions::assert_eq;

    /// The same files, whichever order they come in.
    pub fn root(backwards: bool) -> Root {
        let mut root = Root::default();
        let mut steps: [fn(&mut Root); 3] = [
            |root| root.file("usr/bin/a", 0o755, b"a".to_vec()),
            |root| root.link("bin", "usr/bin"),
            |root| root.folder("tmp", 0o1777, 7),
        ];
        if backwards {
            steps.reverse();
        }
        steps.iter().for_each(|step| step(&mut root));
        root
    }

    #[test]
    fn folders_come_before_what_is_in_them_and_times_and_owners_are_fixed() {
        let tar = root(true).tar(5).unwrap();
        let mut archive = tar::Archive::new(tar.as_slice());
        let entries: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                assert_eq!(entry.header().mtime().unwrap(), 5);
                let path = entry.path().unwrap().display().to_string();
                (
                    path,
                    entry.header().mode().unwrap(),
                    entry.header().uid().unwrap(),
                )
            })
            .collect();
        let wanted = [
            ("bin", 0o777, 0),
            ("tmp/", 0o1777, 7),
            ("usr/", 0o755, 0),
            ("usr/bin/", 0o755, 0),
            ("usr/bin/a", 0o755, 0),
        ];
        assert_eq!(
            entries,
            wanted.map(|(path, mode, owner)| (path.to_owned(), mode, owner))
        );
    }
}
