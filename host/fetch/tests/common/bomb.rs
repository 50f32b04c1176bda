//! Small data that stands for a lot.
#![allow(clippy::unwrap_used, dead_code)]

use std::path::Path;

use flate2::{Compress, Compression, Crc, FlushCompress};

const CHUNK: usize = 1 << 20;

/// The id of a blob of 2 GiB of zeros.
pub const BLOB: &str = "77e9132b46cb9535f286f18974872f40049d1a89";
pub const BLOB_SIZE: u64 = 2 << 30;

/// A raw deflate stream of `mib` MiB of zeros, made without compressing them all:
/// after a full flush, the same input gives the same bytes again.
pub fn deflated_zeros(mib: usize) -> Vec<u8> {
    let mut compress = Compress::new(Compression::best(), false);
    let mut chunk = Vec::with_capacity(CHUNK);
    compress
        .compress_vec(&vec![0; CHUNK], &mut chunk, FlushCompress::Full)
        .unwrap();
    assert_eq!(compress.total_in(), CHUNK as u64);
    let mut stream = chunk.repeat(mib);
    // An empty last block.
    stream.extend_from_slice(&[3, 0]);
    stream
}

/// A gzip member that begins with `head` and goes on with zeros.
pub fn gzipped(head: &[u8], mib: usize) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    // A stored block for the head.
    let len = u16::try_from(head.len()).unwrap();
    out.push(0);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&(!len).to_le_bytes());
    out.extend_from_slice(head);
    out.extend_from_slice(&deflated_zeros(mib));
    // A wrong checksum: nobody should get this far.
    out.extend_from_slice(&[0; 8]);
    out
}

/// Puts a pack with [`BLOB`] into a repository: two megabytes on disk.
pub fn put_blob(repo: &Path) {
    let mut entry = Vec::new();
    // Type 3 (blob) and the size, four bits and then seven at a time.
    let mut size = BLOB_SIZE;
    let mut byte = 0x30 | (size & 15) as u8;
    size >>= 4;
    while size > 0 {
        entry.push(byte | 0x80);
        byte = (size & 127) as u8;
        size >>= 7;
    }
    entry.push(byte);
    entry.extend_from_slice(&[0x78, 0x01]);
    entry.extend_from_slice(&deflated_zeros((BLOB_SIZE >> 20) as usize));
    let adler = ((BLOB_SIZE % 65521) << 16 | 1) as u32;
    entry.extend_from_slice(&adler.to_be_bytes());

    let mut pack = b"PACK\0\0\0\x02\0\0\0\x01".to_vec();
    pack.extend_from_slice(&entry);
    let pack_id = sha1(&pack);
    pack.extend_from_slice(&pack_id);

    let mut crc = Crc::new();
    crc.update(&entry);
    let mut index = b"\xfftOc\0\0\0\x02".to_vec();
    let id = hex::decode(BLOB).unwrap();
    for first in 0..=255u8 {
        index.extend_from_slice(&u32::from(first >= id[0]).to_be_bytes());
    }
    index.extend_from_slice(&id);
    index.extend_from_slice(&crc.sum().to_be_bytes());
    index.extend_from_slice(&12u32.to_be_bytes());
    index.extend_from_slice(&pack_id);
    let index_id = sha1(&index);
    index.extend_from_slice(&index_id);

    let name = repo
        .join("objects/pack")
        .join(format!("pack-{}", hex::encode(&pack_id)));
    std::fs::write(name.with_extension("pack"), pack).unwrap();
    std::fs::write(name.with_extension("idx"), index).unwrap();
}

fn sha1(bytes: &[u8]) -> Vec<u8> {
    let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
    hasher.update(bytes);
    hasher.try_finalize().unwrap().as_slice().to_vec()
}
