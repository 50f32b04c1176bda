//! Computes what plugins make of secrets: derived keys, signatures, texts.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use aws_lc_rs::{digest, hmac};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use windlass_sdk::{Derivation, ErrorClass, Fault, Form, Signature};
use zeroize::Zeroizing;

use crate::vault::no_text;

/// Longest text that a plugin can join, bytes.
const TEXT_BYTES: usize = 64 << 10;

/// A key from a key.
pub fn derive(how: Derivation, key: &[u8], prefix: &[u8], payload: &[u8]) -> Zeroizing<Vec<u8>> {
    match how {
        Derivation::Sha256 => {
            let mut context = digest::Context::new(&digest::SHA256);
            for part in [prefix, key, payload] {
                context.update(part);
            }
            Zeroizing::new(context.finish().as_ref().to_vec())
        }
        Derivation::HmacSha256 => {
            let whole = Zeroizing::new([prefix, key].concat());
            hmac_sha256(&whole, payload)
        }
    }
}

/// A signature, as bytes.
///
/// # Errors
/// `invalid` for a key that cannot sign.
pub fn sign(how: Signature, key: &[u8], payload: &[u8]) -> Result<Zeroizing<Vec<u8>>, Fault> {
    match how {
        Signature::HmacSha256 => Ok(hmac_sha256(key, payload)),
        Signature::Rs256 => {
            let pair = rsa(key).ok_or_else(|| {
                invalid(
                    "the key to sign with is no RSA private key of 2048 to 8192 bits in unencrypted PEM (PKCS#1 or PKCS#8)",
                )
            })?;
            let mut signature = Zeroizing::new(vec![0; pair.public_modulus_len()]);
            pair.sign(
                &RSA_PKCS1_SHA256,
                &SystemRandom::new(),
                payload,
                &mut signature,
            )
            .map_err(|_| invalid("the key to sign with cannot sign"))?;
            Ok(signature)
        }
    }
}

fn hmac_sha256(key: &[u8], payload: &[u8]) -> Zeroizing<Vec<u8>> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    Zeroizing::new(hmac::sign(&key, payload).as_ref().to_vec())
}

fn rsa(pem: &[u8]) -> Option<RsaKeyPair> {
    match PrivateKeyDer::from_pem_slice(pem).ok()? {
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()).ok(),
        PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).ok(),
        _ => None,
    }
}

/// Bytes as they stand in a text.
///
/// # Errors
/// `invalid` for plain bytes that are no text.
pub fn form(form: Form, value: &[u8]) -> Result<Zeroizing<String>, Fault> {
    Ok(Zeroizing::new(match form {
        Form::Plain => std::str::from_utf8(value)
            .map_err(|_| no_text())?
            .to_owned(),
        Form::Hex => hex::encode(value),
        Form::Base64 => STANDARD.encode(value),
        Form::Base64Url => URL_SAFE_NO_PAD.encode(value),
    }))
}

/// Appends to a text.
///
/// # Errors
/// `invalid` where it becomes too long.
pub fn append(text: &mut Zeroizing<String>, piece: &str) -> Result<(), Fault> {
    if text.len() + piece.len() > TEXT_BYTES {
        return Err(Fault {
            reason: "SecretTooLarge".into(),
            ..invalid("a text with secrets in it is longer than 64 KiB")
        });
    }
    text.push_str(piece);
    Ok(())
}

fn invalid(message: &str) -> Fault {
    Fault {
        class: ErrorClass::Invalid,
        reason: "SecretInvalid".into(),
        message: message.into(),
        retry_after_ms: None,
    }
}
