//! The deterministic tar stream of a tree. Owner, group and times are zero, so
//! that equal trees have equal bytes, wherever they came from.

use std::io::{self, Read};

use crate::tree::{Entry, Kind};

/// The header blocks of one entry, long names included.
pub(crate) fn header(path: &str, entry: &Entry) -> io::Result<Vec<u8>> {
    let mut header = tar::Header::new_gnu();
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_mode(match entry.kind {
        Kind::File => 0o644,
        Kind::Executable => 0o755,
        Kind::Symlink => 0o777,
    });
    let mut builder = tar::Builder::new(Vec::new());
    match entry.kind {
        Kind::File | Kind::Executable => {
            header.set_entry_type(tar::EntryType::Regular);
            header.set_size(entry.size);
            // Content follows separately: with an empty body, only the blocks before it are written.
            builder.append_data(&mut header, path, io::empty())?;
        }
        Kind::Symlink => {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            builder.append_link(
                &mut header,
                path,
                entry.target.as_deref().unwrap_or_default(),
            )?;
        }
    }
    // `into_inner` would add the end of the archive.
    Ok(std::mem::take(builder.get_mut()))
}

/// Zero bytes that follow content of this size.
pub(crate) fn padding(size: u64) -> &'static [u8] {
    const ZEROS: [u8; 512] = [0; 512];
    let over = (size % 512) as usize;
    if over == 0 { &[] } else { &ZEROS[over..] }
}

/// The end of an archive.
pub(crate) const END: [u8; 1024] = [0; 1024];

/// Bytes of content that follow the header of an entry.
pub(crate) fn body_len(entry: &Entry) -> u64 {
    match entry.kind {
        Kind::File | Kind::Executable => entry.size,
        Kind::Symlink => 0,
    }
}

/// Produces the tar stream of entries whose contents follow each other in `content`.
pub(crate) struct TarStream<R> {
    entries: std::vec::IntoIter<Entry>,
    /// Stripped from each path: the directory with its slash, or nothing.
    prefix: String,
    content: R,
    /// Header, padding or end blocks that come next.
    pending: Vec<u8>,
    at: usize,
    body: u64,
    body_padding: &'static [u8],
    ended: bool,
}

impl<R: Read> TarStream<R> {
    /// `content` stands at the first byte of the first entry.
    pub fn new(entries: Vec<Entry>, prefix: String, content: R) -> Self {
        TarStream {
            entries: entries.into_iter(),
            prefix,
            content,
            pending: Vec::new(),
            at: 0,
            body: 0,
            body_padding: &[],
            ended: false,
        }
    }

    /// Fetches the next blocks; false at the end.
    fn advance(&mut self) -> io::Result<bool> {
        self.at = 0;
        self.pending.clear();
        if !self.body_padding.is_empty() {
            self.pending.extend_from_slice(self.body_padding);
            self.body_padding = &[];
            return Ok(true);
        }
        if let Some(entry) = self.entries.next() {
            let path = entry
                .path
                .strip_prefix(self.prefix.as_str())
                .unwrap_or(&entry.path);
            self.pending = header(path, &entry)?;
            self.body = body_len(&entry);
            self.body_padding = padding(self.body);
            return Ok(true);
        }
        if self.ended {
            return Ok(false);
        }
        self.ended = true;
        self.pending.extend_from_slice(&END);
        Ok(true)
    }
}

impl<R: Read> Read for TarStream<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            if self.at < self.pending.len() {
                let n = buf.len().min(self.pending.len() - self.at);
                buf[..n].copy_from_slice(&self.pending[self.at..self.at + n]);
                self.at += n;
                return Ok(n);
            }
            if self.body > 0 {
                let want = buf
                    .len()
                    .min(usize::try_from(self.body).unwrap_or(usize::MAX));
                let n = self.content.read(&mut buf[..want])?;
                if n == 0 {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "stored content is too short",
                    ));
                }
                self.body -= n as u64;
                return Ok(n);
            }
            if !self.advance()? {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_real_tar_reader_reads_it() {
        let long = format!("{}/{}", "d".repeat(120), "f".repeat(120));
        let file = |path: &str, size| Entry {
            path: path.into(),
            kind: Kind::Executable,
            size,
            target: None,
        };
        let entries = vec![
            file("p/a", 3),
            file(&format!("p/{long}"), 512),
            Entry {
                path: "p/l".into(),
                kind: Kind::Symlink,
                size: 1,
                target: Some("a".into()),
            },
        ];
        let content = [b"abc".to_vec(), vec![7; 512]].concat();
        let stream = TarStream::new(entries, "p/".into(), content.as_slice());
        let mut archive = tar::Archive::new(stream);
        let mut seen = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut body = Vec::new();
            entry.read_to_end(&mut body).unwrap();
            seen.push((
                entry.path().unwrap().to_str().unwrap().to_owned(),
                body.len(),
                entry.header().mode().unwrap(),
            ));
        }
        assert_eq!(
            seen,
            [
                ("a".to_owned(), 3, 0o755),
                (long, 512, 0o755),
                ("l".to_owned(), 0, 0o777)
            ]
        );
    }
}
