//! A Program as a tar.gz, always the same bytes for the same Program.

use std::io::Write as _;
use std::sync::Arc;

use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use windlass_api::Program;

/// Who may do what with the files: read, and the owner write.
const MODE: u32 = 0o644;

/// An archive and what is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    pub bytes: Arc<[u8]>,
    /// `sha256:` and the hash of the bytes in hexadecimal.
    pub digest: String,
}

/// Packs the files that a Stack on this Program would run.
///
/// # Errors
/// The Program is none; the text is for its author.
pub fn archive(program: &Program) -> Result<Archive, String> {
    let name = program.metadata.name.as_deref().unwrap_or_default();
    let object = serde_json::to_value(program).map_err(|error| error.to_string())?;
    let files = source_program::render(name, &object).map_err(|error| error.to_string())?;
    let bytes = pack(&files).map_err(|error| format!("packing: {error}"))?;
    let digest = format!("sha256:{}", hex::encode(Sha256::digest(&bytes)));
    Ok(Archive {
        bytes: bytes.into(),
        digest,
    })
}

/// No time, no owner, no name of a machine: nothing in it that is not the Program's.
fn pack(files: &[windlass_sdk::File]) -> std::io::Result<Vec<u8>> {
    let gzip = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::default());
    let mut tar = tar::Builder::new(gzip);
    for file in files {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_mode(MODE);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(file.content.len() as u64);
        tar.append_data(&mut header, &file.path, file.content.as_slice())?;
    }
    let mut gzip = tar.into_inner()?;
    gzip.flush()?;
    gzip.finish()
}

#[cfg(test)]
pub mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Read as _;

    use serde_json::json;

    /// A Program with one output.
    pub fn program(uid: &str, generation: i64, output: &str) -> Program {
        serde_json::from_value(json!({
            "apiVersion": "pulumi.com/v1", "kind": "Program",
            "metadata": {"namespace": "ns", "name": "web", "uid": uid, "generation": generation},
            "program": {"outputs": {"out": output}},
        }))
        .unwrap()
    }

    #[test]
    fn the_same_program_is_the_same_bytes_and_another_is_not() {
        let one = archive(&program("1", 1, "a")).unwrap();
        assert_eq!(one, archive(&program("2", 9, "a")).unwrap());
        assert_ne!(one.digest, archive(&program("1", 1, "b")).unwrap().digest);
    }

    #[test]
    fn it_holds_the_projects_files_and_nothing_of_where_it_was_made() {
        let packed = archive(&program("1", 1, "a")).unwrap();
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(&*packed.bytes));
        let mut files = BTreeMap::new();
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let header = entry.header();
            assert_eq!((header.mtime().unwrap(), header.uid().unwrap()), (0, 0));
            assert_eq!(header.mode().unwrap(), MODE);
            let path = entry.path().unwrap().display().to_string();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            files.insert(path, text);
        }
        assert_eq!(files["Pulumi.yaml"], "name: \"web\"\nruntime: \"yaml\"\n");
        assert_eq!(files["Main.yaml"], "outputs:\n  out: \"a\"\n");
    }

    #[test]
    fn an_object_without_a_program_says_so() {
        let mut empty = program("1", 1, "a");
        empty.spec.program = None;
        assert!(archive(&empty).unwrap_err().contains("no \"program\""));
    }
}
