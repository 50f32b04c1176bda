//! The agent's side: its certificate from mounted files, and clients that are the operator.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use windlass_api::identity::OPERATOR;

use super::{ALPN, TlsError, check_name, material, provider};

/// `tls.crt`, `tls.key` and `ca.crt` of a mounted Secret, as they are now.
///
/// The kubelet changes a mounted Secret by turning a symbolic link. Each new connection looks whether the files are
/// others than before; connections that are open stay as they are.
#[derive(Debug)]
pub struct ServerFiles {
    dir: PathBuf,
    known: Mutex<Known>,
}

struct Known {
    stamp: Stamp,
    config: Arc<ServerConfig>,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Known")
    }
}

const NAMES: [&str; 3] = ["tls.crt", "tls.key", "ca.crt"];

/// Tells one state of the files from another: device, inode, length and time of each.
type Stamp = [Option<(u64, u64, u64, i64, i64)>; 3];

fn stamp(dir: &Path) -> Stamp {
    NAMES.map(|name| {
        let meta = fs::metadata(dir.join(name)).ok()?;
        Some((
            meta.dev(),
            meta.ino(),
            meta.len(),
            meta.mtime(),
            meta.mtime_nsec(),
        ))
    })
}

impl ServerFiles {
    /// Reads the files for the first time.
    pub fn open(dir: PathBuf) -> Result<ServerFiles, TlsError> {
        // Before reading: a change in between is seen at the next connection.
        let stamp = stamp(&dir);
        let config = load(&dir)?;
        Ok(ServerFiles {
            dir,
            known: Mutex::new(Known { stamp, config }),
        })
    }

    /// What the next connection is to be judged by. Files that cannot be used leave what was known before.
    pub fn current(&self) -> Arc<ServerConfig> {
        let now = stamp(&self.dir);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.stamp != now {
            known.stamp = now;
            match load(&self.dir) {
                Ok(config) => {
                    tracing::info!(dir = %self.dir.display(), "read the changed certificates");
                    known.config = config;
                }
                Err(e) => tracing::warn!("the changed certificates are not used: {e}"),
            }
        }
        known.config.clone()
    }
}

fn load(dir: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let read = |name: &str| {
        let path = dir.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok((path.display().to_string(), zeroize::Zeroizing::new(bytes))),
            Err(source) => Err(TlsError::FileUnreadable { path, source }),
        }
    };
    let [certificate, key, authorities] = NAMES;
    let (what, pem) = read(certificate)?;
    let chain = material::chain(&what, &pem)?;
    let (what, pem) = read(key)?;
    let key = material::key(&what, &pem)?;
    let (what, pem) = read(authorities)?;
    let roots = material::roots(&what, &pem)?;
    let verifier = OperatorVerifier {
        chain: WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build()?,
    };
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    // A resumed session would not be judged by today's files.
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Believes the operator and nobody else who has a certificate of the same authority.
#[derive(Debug)]
struct OperatorVerifier {
    chain: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for OperatorVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // The operator has one certificate: it needs no hints, and nobody else does.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self
            .chain
            .verify_client_cert(end_entity, intermediates, now)?;
        check_name(end_entity, OPERATOR)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}
