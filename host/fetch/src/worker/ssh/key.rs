//! The private key as the program wants it: without a passphrase, since nobody is there to be asked for one.

use ssh_key::{LineEnding, PrivateKey};

use crate::error::FetchError;

/// The key as text, decrypted if it is encrypted.
pub(super) fn open(key: &str, passphrase: Option<&str>) -> Result<String, FetchError> {
    // A key that was pasted may have lost its last line break, or come with those of another system.
    let key = format!("{}\n", key.replace("\r\n", "\n").trim());
    if !key.starts_with("-----BEGIN ") {
        return Err(invalid("it is no private key in OpenSSH's or PEM form"));
    }
    if !key.starts_with("-----BEGIN OPENSSH PRIVATE KEY-----") {
        // The old forms encrypt with what is known in the header.
        return if key.contains("ENCRYPTED") {
            Err(invalid(
                "the private key is encrypted in an old form; convert it with ssh-keygen -p -f FILE",
            ))
        } else {
            Ok(key)
        };
    }
    let parsed = match (PrivateKey::from_openssh(&key), passphrase) {
        (Ok(parsed), _) => parsed,
        // Of a kind that is not known here, such as ECDSA: ssh may know it.
        (Err(_), None) => return Ok(key),
        (Err(_), Some(_)) => {
            return Err(invalid(
                "the private key is damaged, or of a kind that is not read here with a passphrase (ed25519 and RSA are)",
            ));
        }
    };
    if !parsed.is_encrypted() {
        return Ok(key);
    }
    let Some(passphrase) = passphrase else {
        return Err(invalid(
            "the private key needs a passphrase, and none is given",
        ));
    };
    let opened = parsed
        .decrypt(passphrase)
        .map_err(|_| invalid("the passphrase does not open the private key"))?;
    let text = opened
        .to_openssh(LineEnding::LF)
        .map_err(|_| invalid("the private key cannot be written"))?;
    Ok(text.to_string())
}

fn invalid(detail: &str) -> FetchError {
    FetchError::CredentialInvalid {
        detail: detail.to_owned(),
    }
}
