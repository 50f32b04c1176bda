//! The CLI's passphrase secrets: key from passphrase and salt, values under AES-256-GCM.
//!
//! Salt text: `v1:<base64 salt>:v1:<base64 nonce>:<base64 of the sealed word "pulumi">`, whose last part proves the
//! passphrase. Value text: `v1:<base64 nonce>:<base64 of what is sealed>`.

use std::num::NonZeroU32;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::pbkdf2;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The CLI's own count; a multiple of it costs about 0.2 s.
const ROUNDS: NonZeroU32 = NonZeroU32::new(1_000_000).unwrap();

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CrypterError {
    #[error("the salt of the stack's secrets is not in the form that the CLI writes")]
    SaltInvalid,
    #[error("incorrect passphrase")]
    PassphraseWrong,
    #[error("a secret of the stack is not in the form that the CLI writes")]
    CiphertextInvalid,
    #[error("a secret of the stack does not open with its passphrase")]
    DecryptFailed,
    #[error("the system gives no random numbers")]
    NoRandom,
}

/// Seals and opens the secrets of one stack.
pub struct Crypter {
    key: LessSafeKey,
    salt: String,
    fingerprint: [u8; 32],
}

impl std::fmt::Debug for Crypter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Crypter")
    }
}

fn fingerprint(passphrase: &str, salt: &str) -> [u8; 32] {
    Sha256::new()
        .chain_update(salt)
        .chain_update([0])
        .chain_update(passphrase)
        .finalize()
        .into()
}

impl Crypter {
    /// Derives the key, about 0.2 s of CPU, and checks the passphrase by the salt text.
    pub fn open(passphrase: &str, salt: &str) -> Result<Crypter, CrypterError> {
        let mut parts = salt.splitn(3, ':');
        let (Some("v1"), Some(bytes), Some(proof)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(CrypterError::SaltInvalid);
        };
        let bytes = STANDARD
            .decode(bytes)
            .map_err(|_| CrypterError::SaltInvalid)?;
        let mut key = [0u8; 32];
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            ROUNDS,
            &bytes,
            passphrase.as_bytes(),
            &mut key,
        );
        let key = UnboundKey::new(&AES_256_GCM, &key).map_err(|_| CrypterError::SaltInvalid)?;
        let crypter = Crypter {
            key: LessSafeKey::new(key),
            salt: salt.to_owned(),
            fingerprint: fingerprint(passphrase, salt),
        };
        match crypter.decrypt(proof) {
            Ok(word) if word == "pulumi" => Ok(crypter),
            Ok(_) | Err(CrypterError::DecryptFailed) => Err(CrypterError::PassphraseWrong),
            Err(e) => Err(e),
        }
    }

    /// Whether this is the crypter of that passphrase and salt.
    pub fn is_for(&self, passphrase: &str, salt: &str) -> bool {
        self.fingerprint == fingerprint(passphrase, salt)
    }

    /// The salt text, as it stands in `encryptionsalt`.
    pub fn salt(&self) -> &str {
        &self.salt
    }

    pub fn encrypt(&self, plaintext: &str) -> Result<String, CrypterError> {
        let mut nonce = [0u8; NONCE_LEN];
        aws_lc_rs::rand::fill(&mut nonce).map_err(|_| CrypterError::NoRandom)?;
        let mut sealed = plaintext.as_bytes().to_vec();
        self.key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::empty(),
                &mut sealed,
            )
            .map_err(|_| CrypterError::NoRandom)?;
        Ok(format!(
            "v1:{}:{}",
            STANDARD.encode(nonce),
            STANDARD.encode(sealed)
        ))
    }

    pub fn decrypt(&self, ciphertext: &str) -> Result<String, CrypterError> {
        let mut parts = ciphertext.splitn(3, ':');
        let (Some("v1"), Some(nonce), Some(sealed)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(CrypterError::CiphertextInvalid);
        };
        let nonce = STANDARD
            .decode(nonce)
            .map_err(|_| CrypterError::CiphertextInvalid)?;
        let nonce = Nonce::try_assume_unique_for_key(&nonce)
            .map_err(|_| CrypterError::CiphertextInvalid)?;
        let mut sealed = STANDARD
            .decode(sealed)
            .map_err(|_| CrypterError::CiphertextInvalid)?;
        let open = self
            .key
            .open_in_place(nonce, Aad::empty(), &mut sealed)
            .map_err(|_| CrypterError::DecryptFailed)?;
        String::from_utf8(open.to_vec()).map_err(|_| CrypterError::CiphertextInvalid)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A salt text for a passphrase, as the CLI would make it.
    fn salt_for(passphrase: &str) -> String {
        let salt = STANDARD.encode([7u8; 8]);
        let mut key = [0u8; 32];
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            ROUNDS,
            &[7u8; 8],
            passphrase.as_bytes(),
            &mut key,
        );
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).unwrap());
        let raw = Crypter {
            key,
            salt: String::new(),
            fingerprint: [0; 32],
        };
        format!("v1:{salt}:{}", raw.encrypt("pulumi").unwrap())
    }

    #[test]
    fn values_come_back_and_a_wrong_passphrase_is_told() {
        let salt = salt_for("right");
        let crypter = Crypter::open("right", &salt).unwrap();
        let sealed = crypter.encrypt("a value").unwrap();
        assert_ne!(
            sealed,
            crypter.encrypt("a value").unwrap(),
            "each nonce is new"
        );
        assert_eq!(crypter.decrypt(&sealed).unwrap(), "a value");
        assert!(crypter.is_for("right", &salt) && !crypter.is_for("wrong", &salt));
        assert_eq!(
            Crypter::open("wrong", &salt).unwrap_err(),
            CrypterError::PassphraseWrong
        );
        assert_eq!(
            Crypter::open("right", "v2:x").unwrap_err(),
            CrypterError::SaltInvalid
        );
        assert_eq!(
            crypter.decrypt("plain").unwrap_err(),
            CrypterError::CiphertextInvalid
        );
    }
}
