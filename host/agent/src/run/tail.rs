//! Reads the lines that are added to a file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

/// A line is cut here: a program may print megabytes without an end of line.
const LONGEST_LOG_LINE: usize = 64 << 10;
const CHUNK: usize = 64 << 10;

/// Follows one file.
pub struct Tail {
    path: PathBuf,
    file: Option<File>,
    partial: Vec<u8>,
    longest: usize,
}

impl Tail {
    pub fn of_log(path: PathBuf) -> Tail {
        Tail {
            path,
            file: None,
            partial: Vec::new(),
            longest: LONGEST_LOG_LINE,
        }
    }

    /// Lines of any length up to 64 MiB: an event carries whole resources.
    pub fn of_events(path: PathBuf) -> Tail {
        Tail {
            path,
            file: None,
            partial: Vec::new(),
            longest: 64 << 20,
        }
    }

    /// Hands on the lines that are complete since the last time.
    pub fn poll(&mut self, mut line: impl FnMut(&str)) {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let Some(file) = &mut self.file else { return };
        // The second pass of an operation begins the event file anew.
        if let (Ok(at), Ok(meta)) = (file.stream_position(), file.metadata())
            && meta.len() < at
        {
            let _ = file.seek(SeekFrom::Start(0));
            self.partial.clear();
        }
        let mut chunk = vec![0; CHUNK];
        while let Ok(n @ 1..) = file.read(&mut chunk) {
            for piece in chunk[..n].split_inclusive(|b| *b == b'\n') {
                self.partial.extend_from_slice(piece);
                if piece.ends_with(b"\n") || self.partial.len() > self.longest {
                    line(String::from_utf8_lossy(&self.partial).trim_end_matches(['\n', '\r']));
                    self.partial.clear();
                }
            }
        }
    }

    /// Hands on the last line, which may lack its end.
    pub fn finish(&mut self, mut line: impl FnMut(&str)) {
        self.poll(&mut line);
        if !self.partial.is_empty() {
            line(&String::from_utf8_lossy(&self.partial));
            self.partial.clear();
        }
    }
}

/// A line without terminal escapes: some language hosts colour their errors whatever they are told.
pub fn without_escapes(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            text.push(c);
            continue;
        }
        if chars.next() == Some('[') {
            for c in chars.by_ref() {
                if ('@'..='~').contains(&c) {
                    break;
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write;

    #[test]
    fn lines_come_once_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut tail = Tail::of_log(path.clone());
        let mut seen = Vec::new();
        tail.poll(|l| seen.push(l.to_owned()));
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        tail.poll(|l| seen.push(l.to_owned()));
        file.write_all(b"o\r\n\nlast").unwrap();
        tail.poll(|l| seen.push(l.to_owned()));
        assert_eq!(seen, ["one", "two", ""]);
        tail.finish(|l| seen.push(l.to_owned()));
        assert_eq!(seen.last().unwrap(), "last");
    }

    #[test]
    fn escapes_go() {
        assert_eq!(without_escapes("a \u{1b}[31;1mred\u{1b}[0m b"), "a red b");
        assert_eq!(without_escapes("end\u{1b}["), "end");
    }
}
