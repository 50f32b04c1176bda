//! Archives: a tar.gz whose digest is known beforehand.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};

use flate2::read::MultiGzDecoder;
use sha2::{Digest as _, Sha256};

use super::export::Export;
use super::{http, redirect};
use crate::config::Limits;
use crate::error::FetchError;
use crate::tree::{Kind, check};
use crate::wire::WorkerRequest;

/// A file that was written in the scratch directory, or an open response.
type Body = Box<dyn Read>;

/// Whether the server would serve this archive.
pub(super) fn readable(request: &WorkerRequest, url: &str) -> Result<(), FetchError> {
    get(request, url).map(drop)
}

/// Downloads, compares the digest, then exports the files.
pub(super) fn tree(request: &WorkerRequest, url: &str, digest: &str) -> Result<(), FetchError> {
    let host = http::address(request, url)?.host();
    let failed = |err: io::Error| FetchError::store("cannot keep the archive", &err);
    let mut body = get(request, url)?;
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(request.scratch.join("archive"))
        .map_err(failed)?;
    let mut hash = Sha256::new();
    let mut total = 0u64;
    let mut buf = vec![0; 64 << 10];
    loop {
        let n = body.read(&mut buf).map_err(|err| {
            let timeout = err.kind() == io::ErrorKind::TimedOut;
            http::transport_error(
                &host,
                &http::chain(&err),
                request.limits.wall.as_secs(),
                timeout,
            )
        })?;
        if n == 0 {
            break;
        }
        total += n as u64;
        if total > request.limits.bytes {
            return Err(FetchError::TooManyBytes {
                limit: request.limits.bytes,
            });
        }
        hash.update(&buf[..n]);
        file.write_all(&buf[..n]).map_err(failed)?;
    }
    let actual = format!("sha256:{}", hex::encode(hash.finalize()));
    if actual != digest {
        return Err(FetchError::DigestMismatch {
            host,
            expected: digest.to_owned(),
            actual,
        });
    }
    file.rewind().map_err(failed)?;
    unpack(request, BufReader::with_capacity(64 << 10, file))
}

/// Requests the archive, following redirects that are acceptable.
fn get(request: &WorkerRequest, url: &str) -> Result<Body, FetchError> {
    let mut address = http::address(request, url)?;
    let not_found = |host: String| FetchError::ArchiveNotFound { host };
    if address.is_file() {
        let file = File::open(address.local_path()?).map_err(|_| not_found(address.host()))?;
        return Ok(Box::new(file));
    }
    for _ in 0..redirect::MAX_HOPS {
        let host = address.host();
        let client = http::ClientSettings::new(request, &address)?.client()?;
        let mut get = client.get(address.as_str());
        if let Some(credential) = &request.credential {
            let (name, value) = credential.header()?;
            get = get.header(name, value);
        }
        let response = get.send().map_err(|err| {
            http::transport_error(
                &host,
                &http::chain(&err),
                request.limits.wall.as_secs(),
                err.is_timeout(),
            )
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(Box::new(response));
        }
        let location = response
            .headers()
            .get("location")
            .and_then(|value| value.to_str().ok());
        match location {
            Some(location) if status.is_redirection() => {
                address = redirect::next(request, &address, location)?
            }
            _ => {
                let with_credential = request.credential.is_some();
                return Err(http::status_error(
                    status.as_u16(),
                    &host,
                    with_credential,
                    not_found(host.clone()),
                ));
            }
        }
    }
    Err(FetchError::RedirectRefused {
        host: address.host(),
    })
}

fn unpack(request: &WorkerRequest, compressed: impl Read) -> Result<(), FetchError> {
    let limits = &request.limits;
    let mut export = Export::new(request)?;
    let mut tally = check::Tally::default();
    // Bounds what a small archive can unfold to, headers and refused entries included.
    let budget = limits
        .bytes
        .saturating_add(limits.files.saturating_mul(4096));
    let plain = Budget {
        inner: MultiGzDecoder::new(compressed),
        left: budget,
    };
    let mut archive = tar::Archive::new(plain);
    let entries = archive.entries().map_err(|err| invalid(limits, &err))?;
    for entry in entries {
        let mut entry = entry.map_err(|err| invalid(limits, &err))?;
        let path = match String::from_utf8(entry.path_bytes().into_owned()) {
            Ok(path) => path,
            Err(err) => {
                let path = String::from_utf8_lossy(err.as_bytes()).into_owned();
                let detail = "its name is not UTF-8".to_owned();
                return Err(FetchError::NameForbidden {
                    path: check::shown(&path),
                    detail,
                });
            }
        };
        let path = path.strip_prefix("./").unwrap_or(&path).to_owned();
        let size = entry.size();
        let kind = match entry.header().entry_type() {
            tar::EntryType::Directory => {
                let dir = path.trim_end_matches('/');
                if !dir.is_empty() && dir != "." {
                    check::path(dir, limits)?;
                    tally.add(dir, 0, limits)?;
                }
                continue;
            }
            // Comments that `git archive` and others put in front.
            tar::EntryType::XGlobalHeader => continue,
            tar::EntryType::Regular | tar::EntryType::Continuous => {
                let mode = entry.header().mode().map_err(|err| invalid(limits, &err))?;
                if mode & 0o111 == 0 {
                    Kind::File
                } else {
                    Kind::Executable
                }
            }
            tar::EntryType::Symlink => Kind::Symlink,
            other => {
                return Err(FetchError::EntryUnsupported {
                    path: check::shown(&path),
                    kind: type_name(other),
                });
            }
        };
        check::path(&path, limits)?;
        let size = match kind {
            Kind::File | Kind::Executable => {
                tally.add(&path, size, limits)?;
                let copied =
                    io::copy(&mut entry, export.content()).map_err(|err| invalid(limits, &err))?;
                if copied != size {
                    return Err(FetchError::ArchiveInvalid {
                        detail: "it ends within a file".to_owned(),
                    });
                }
                size
            }
            Kind::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                tally.add(&path, target.len() as u64, limits)?;
                export
                    .content()
                    .write_all(&target)
                    .map_err(|err| invalid(limits, &err))?;
                target.len() as u64
            }
        };
        export.entry(path, kind, size)?;
    }
    // A tar may end before its file does; the rest must be sound all the same.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(|err| invalid(limits, &err))?;
    export.finish()
}

fn type_name(kind: tar::EntryType) -> String {
    match kind {
        tar::EntryType::Link => "a hard link".to_owned(),
        tar::EntryType::Char | tar::EntryType::Block => "a device".to_owned(),
        tar::EntryType::Fifo => "a named pipe".to_owned(),
        other => format!("of type {:?}", char::from(other.as_byte())),
    }
}

fn invalid(limits: &Limits, err: &io::Error) -> FetchError {
    match err.kind() {
        io::ErrorKind::QuotaExceeded => FetchError::TooManyBytes {
            limit: limits.bytes,
        },
        io::ErrorKind::OutOfMemory => FetchError::MemoryExceeded {
            limit: limits.memory,
        },
        _ => FetchError::ArchiveInvalid {
            detail: http::chain(err),
        },
    }
}

/// Fails once more than a number of bytes came through.
struct Budget<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Budget<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.left = self
            .left
            .checked_sub(n as u64)
            .ok_or(io::ErrorKind::QuotaExceeded)?;
        Ok(n)
    }
}
