//! The certificates that are used: the operator's as a client, a workspace's as a server.

use jiff::Timestamp;
use rcgen::string::Ia5String;
use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
};
use windlass_api::identity::{OPERATOR, WorkspaceIdentity};
use zeroize::Zeroizing;

use crate::authority::{CLOCKS_DIFFER, days, pair_in, required_text};
use crate::material::{Material, dated, split, whole};
use crate::{Authority, Kind, PkiError, SecretData};

/// How long the operator's certificate lasts.
pub const OPERATOR_DAYS: i64 = 7;
/// How long a workspace's certificate lasts. Its pod may live longer: the mounted Secret is renewed.
pub const WORKSPACE_DAYS: i64 = 30;

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const ROOTS: &str = "ca.crt";

/// One side's own certificate and key, and the authorities that it believes of the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    own: Material,
    roots: String,
}

/// What is due for a [`Leaf`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    None,
    /// The other side's authorities changed: [`Leaf::with_roots`].
    Roots,
    /// A new certificate is to be issued.
    Certificate,
}

fn issue(
    issuer: &Authority,
    wanted: Kind,
    uri: &str,
    usage: ExtendedKeyUsagePurpose,
    lasts_days: i64,
    now: Timestamp,
) -> Result<Material, PkiError> {
    if issuer.kind() != wanted {
        return Err(PkiError::WrongAuthority {
            key: CERTIFICATE,
            wanted,
        });
    }
    let not_before = whole(now - CLOCKS_DIFFER)?;
    // Nothing outlives its issuer: verifiers would refuse it, and the retired issuer is believed until its own end.
    let not_after = whole((now + days(lasts_days)).min(issuer.issues_until()))?;
    if not_after <= now {
        return Err(PkiError::AuthorityExpired(issuer.issues_until()));
    }
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "windlass");
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    params.subject_alt_names = vec![SanType::URI(Ia5String::try_from(uri)?)];
    let params = dated(params, not_before, not_after)?;
    let pair = KeyPair::generate()?;
    Ok(Material {
        certificate: params.signed_by(&pair, &issuer.issuer()?)?.pem(),
        key: Zeroizing::new(pair.serialize_pem()),
        not_before,
        not_after,
    })
}

impl Leaf {
    /// The operator's client certificate, and the workspaces that it believes.
    pub fn operator(
        operators: &Authority,
        workspaces: &Authority,
        now: Timestamp,
    ) -> Result<Leaf, PkiError> {
        let usage = ExtendedKeyUsagePurpose::ClientAuth;
        Ok(Leaf {
            own: issue(
                operators,
                Kind::Operators,
                OPERATOR,
                usage,
                OPERATOR_DAYS,
                now,
            )?,
            roots: workspaces.bundle(),
        })
    }

    /// The server certificate of one incarnation of a workspace, and the operators that its agent believes.
    pub fn workspace(
        identity: &WorkspaceIdentity,
        workspaces: &Authority,
        operators: &Authority,
        now: Timestamp,
    ) -> Result<Leaf, PkiError> {
        let usage = ExtendedKeyUsagePurpose::ServerAuth;
        let uri = identity.to_string();
        Ok(Leaf {
            own: issue(
                workspaces,
                Kind::Workspaces,
                &uri,
                usage,
                WORKSPACE_DAYS,
                now,
            )?,
            roots: operators.bundle(),
        })
    }

    /// The same certificate with the other side's authorities of today.
    pub fn with_roots(self, peer: &Authority) -> Leaf {
        let Leaf { own, roots: _ } = self;
        Leaf {
            own,
            roots: peer.bundle(),
        }
    }

    /// When a new certificate is to be issued: after two thirds of the time.
    pub fn renew_after(&self) -> Timestamp {
        let whole = self.own.not_after.duration_since(self.own.not_before);
        self.own.not_before + whole * 2 / 3
    }

    /// When the certificate ends.
    pub fn expires_at(&self) -> Timestamp {
        self.own.not_after
    }

    /// What is due. `peer` is the authority of the other side.
    pub fn renewal(&self, peer: &Authority, now: Timestamp) -> Renewal {
        if now >= self.renew_after() {
            Renewal::Certificate
        } else if self.roots != peer.bundle() {
            Renewal::Roots
        } else {
            Renewal::None
        }
    }

    /// PEM of the own certificate.
    pub fn certificate(&self) -> &str {
        &self.own.certificate
    }

    /// PEM of the private key.
    pub fn key(&self) -> &Zeroizing<String> {
        &self.own.key
    }

    /// PEM of the other side's authorities, one or several.
    pub fn roots(&self) -> &str {
        &self.roots
    }

    /// For the Secret: `tls.crt`, `tls.key`, `ca.crt`.
    pub fn to_secret_data(&self) -> SecretData {
        let Leaf { own, roots } = self;
        SecretData::from([
            (CERTIFICATE.to_owned(), own.certificate.clone().into_bytes()),
            (KEY.to_owned(), own.key.as_bytes().to_vec()),
            (ROOTS.to_owned(), roots.clone().into_bytes()),
        ])
    }

    /// Reads a Secret back.
    pub fn from_secret_data(data: &SecretData) -> Result<Leaf, PkiError> {
        let (own, _) =
            pair_in(data, CERTIFICATE, KEY)?.ok_or(PkiError::KeyMissing { key: CERTIFICATE })?;
        let roots = required_text(data, ROOTS)?;
        if split(&roots).is_empty() {
            return Err(PkiError::Unreadable {
                key: ROOTS,
                message: "it holds no certificate".to_owned(),
            });
        }
        Ok(Leaf { own, roots })
    }
}
