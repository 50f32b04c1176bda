//! Signatures of plugins: an Ed25519 key over the plugin's name and the file's digest.
//!
//! The digest covers the file and with it the descriptor, so nothing else needs to be signed. A signature says who built a
//! file, not that it is the newest: whoever wants exactly one file names its digest.

use std::path::{Path, PathBuf};

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

const ALGORITHM: &str = "ed25519:";
const PUBLIC_KEY_BYTES: usize = 32;
/// Much more than a signature needs.
const LONGEST: u64 = 4096;

/// Why a file counts as not signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("there is no signature at {}", .0.display())]
    Missing(PathBuf),
    #[error("{} is no signature: one line, `ed25519:` and base64", .path.display())]
    Malformed { path: PathBuf },
    #[error("the signature is not of this very file, as {name}, by the key {key}")]
    Wrong { name: String, key: String },
    #[error("the key is no `ed25519:` key of {PUBLIC_KEY_BYTES} bytes in base64")]
    BadKey,
}

/// Where the signature of a file lies: beside it, `NAME.wasm.sig`.
pub fn signature_of(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".sig");
    file.with_file_name(name)
}

/// A key to sign with. Prints nothing of itself.
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// A new key, and the text to keep it by.
    ///
    /// # Errors
    /// `BadKey` if the machine gives no random numbers.
    pub fn generate() -> Result<(Self, Zeroizing<String>), SignatureError> {
        let pair = Ed25519KeyPair::generate().map_err(|_| SignatureError::BadKey)?;
        let document = pair.to_pkcs8().map_err(|_| SignatureError::BadKey)?;
        let text = format!("{ALGORITHM}{}\n", STANDARD.encode(document.as_ref()));
        Ok((SigningKey(pair), Zeroizing::new(text)))
    }

    /// The key that [`SigningKey::generate`] gave as text.
    ///
    /// # Errors
    /// `BadKey`.
    pub fn parse(text: &str) -> Result<Self, SignatureError> {
        let bytes = Zeroizing::new(decode(text).ok_or(SignatureError::BadKey)?);
        Ed25519KeyPair::from_pkcs8(&bytes)
            .map(SigningKey)
            .map_err(|_| SignatureError::BadKey)
    }

    /// What others know this key by: `ed25519:<base64>`.
    pub fn public(&self) -> String {
        format!("{ALGORITHM}{}", STANDARD.encode(self.0.public_key()))
    }

    /// The content of a signature's file. `digest` is `sha256:<hex>`.
    pub fn sign(&self, name: &str, digest: &str) -> String {
        let signature = self.0.sign(&statement(name, digest));
        format!("{ALGORITHM}{}\n", STANDARD.encode(signature))
    }
}

/// Whether the signature beside `file` is one by `key` of a plugin of this name and digest.
///
/// # Errors
/// What is wrong with it.
pub fn verify(file: &Path, key: &str, name: &str, digest: &str) -> Result<(), SignatureError> {
    let path = signature_of(file);
    let missing = |_| SignatureError::Missing(path.clone());
    let malformed = || SignatureError::Malformed { path: path.clone() };
    if std::fs::metadata(&path).map_err(missing)?.len() > LONGEST {
        return Err(malformed());
    }
    let text = std::fs::read_to_string(&path).map_err(missing)?;
    let signature = decode(&text).ok_or_else(malformed)?;
    let public = check_key(key)?;
    UnparsedPublicKey::new(&ED25519, public)
        .verify(&statement(name, digest), &signature)
        .map_err(|_| SignatureError::Wrong {
            name: name.into(),
            key: key.trim().into(),
        })
}

/// The bytes of a public key.
///
/// # Errors
/// `BadKey`.
pub fn check_key(key: &str) -> Result<Vec<u8>, SignatureError> {
    decode(key)
        .filter(|bytes| bytes.len() == PUBLIC_KEY_BYTES)
        .ok_or(SignatureError::BadKey)
}

/// What is signed. The first line keeps the key's signatures of other things apart.
fn statement(name: &str, digest: &str) -> Vec<u8> {
    format!("windlass plugin, signed 1\n{name}\n{digest}\n").into_bytes()
}

fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text.trim().strip_prefix(ALGORITHM)?).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_this_name_digest_and_key_are_what_was_signed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.wasm");
        let (key, text) = SigningKey::generate().unwrap();
        let public = key.public();
        assert_eq!(
            verify(&file, &public, "a", "sha256:1"),
            Err(SignatureError::Missing(dir.path().join("a.wasm.sig")))
        );
        // Signed with the key as it was kept.
        let kept = SigningKey::parse(&text).unwrap();
        std::fs::write(signature_of(&file), kept.sign("a", "sha256:1")).unwrap();
        assert_eq!(verify(&file, &public, "a", "sha256:1"), Ok(()));
        let (stranger, _) = SigningKey::generate().unwrap();
        for (key, name, digest) in [
            (&stranger.public(), "a", "sha256:1"),
            (&public, "b", "sha256:1"),
            (&public, "a", "sha256:2"),
        ] {
            let wrong = verify(&file, key, name, digest).unwrap_err();
            assert!(matches!(wrong, SignatureError::Wrong { .. }), "{wrong}");
        }
        std::fs::write(signature_of(&file), "nonsense").unwrap();
        let wrong = verify(&file, &public, "a", "sha256:1").unwrap_err();
        assert!(matches!(wrong, SignatureError::Malformed { .. }), "{wrong}");
    }
}
