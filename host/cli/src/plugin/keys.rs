//! `windlass plugin keygen`, `sign` and `verify`.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use windlass_wasm::{SignatureError, SigningKey, signature_of};
use zeroize::Zeroizing;

use crate::error::{AtPath, Error, FAILED, Result};
use crate::{plugins, print};

/// Writes a new key and its public half; neither file may exist.
///
/// # Errors
/// Of the file system.
pub fn keygen(file: &Path) -> Result<ExitCode> {
    let mut public_file = file.as_os_str().to_owned();
    public_file.push(".pub");
    let public_file = PathBuf::from(public_file);
    let (key, text) = SigningKey::generate().map_err(|error| bad(file, &error))?;
    write_new(file, &text, 0o600)?;
    write_new(&public_file, &format!("{}\n", key.public()), 0o644)?;
    print::out(&format!(
        "{}: keep it secret\n{}: for the policies of those who trust you (publicKey: {})",
        file.display(),
        public_file.display(),
        key.public()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the signature beside the file.
///
/// # Errors
/// Of the file system; a key that is none.
pub fn sign(file: &Path, key: &Path, name: Option<&str>) -> Result<ExitCode> {
    let text = Zeroizing::new(std::fs::read_to_string(key).at(key)?);
    let signing = SigningKey::parse(&text).map_err(|_| Error::BadFile {
        path: key.to_owned(),
        message: "not a key to sign with; `windlass plugin keygen` makes one".to_owned(),
    })?;
    let name = name.map_or_else(|| plugins::installed_name(file), str::to_owned);
    let digest = digest_of(file)?;
    let signature = signature_of(file);
    std::fs::write(&signature, signing.sign(&name, &digest)).at(&signature)?;
    print::out(&format!(
        "{}: {name} with digest {digest}, signed by {}",
        signature.display(),
        signing.public()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Says whether the signature holds; exit code 1 if not.
///
/// # Errors
/// Of the file system.
pub fn verify(file: &Path, key: &Path, name: Option<&str>) -> Result<ExitCode> {
    let public = std::fs::read_to_string(key).at(key)?;
    let name = name.map_or_else(|| plugins::installed_name(file), str::to_owned);
    let digest = digest_of(file)?;
    match windlass_wasm::verify(file, public.trim(), &name, &digest) {
        Ok(()) => {
            print::out(&format!(
                "{}: {name} with digest {digest}, signed by {}",
                file.display(),
                public.trim()
            ))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(SignatureError::BadKey) => Err(Error::BadFile {
            path: key.to_owned(),
            message: "not a public key; `windlass plugin keygen` writes one as FILE.pub".to_owned(),
        }),
        Err(error) => {
            print::out(&format!("{}: not signed: {error}", file.display()))?;
            Ok(ExitCode::from(FAILED))
        }
    }
}

fn digest_of(file: &Path) -> Result<String> {
    Ok(windlass_wasm::digest(&std::fs::read(file).at(file)?))
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .at(path)?;
    file.write_all(text.as_bytes()).at(path)
}

fn bad(file: &Path, error: &SignatureError) -> Error {
    Error::BadFile {
        path: file.to_owned(),
        message: error.to_string(),
    }
}
