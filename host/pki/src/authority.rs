//! One authority through its life: the certificate that issues, the one that comes after it, those that came before.
//!
//! A successor is believed before it issues anything and its predecessor for as long as anything that it issued may be
//! in use, so that changing the authority never cuts a connection.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose};
use zeroize::Zeroizing;

use crate::material::{Material, Said, dated, key_pair, read, split, whole};
use crate::{PkiError, SecretData};

/// How long an authority's certificate lasts.
pub const AUTHORITY_DAYS: i64 = 365;
/// Its successor is made so long before its end.
pub const PREPARE_DAYS: i64 = 90;
/// A successor is only believed for so long, before it issues: every workspace's mount has it by then.
pub const SPREAD_DAYS: i64 = 7;

/// Clocks differ: certificates begin a little earlier than they are made.
pub(crate) const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_mins(10);

pub(crate) fn days(n: i64) -> SignedDuration {
    SignedDuration::from_hours(n * 24)
}

/// Whose certificates an authority issues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The operator's client certificates: agents believe it.
    Operators,
    /// The workspaces' server certificates: the operator believes it.
    Workspaces,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Operators => "windlass operators",
            Kind::Workspaces => "windlass workspaces",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An authority as it stands in its Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    kind: Kind,
    active: Material,
    next: Option<Material>,
    /// Certificates that issued before and may still be met.
    retired: Vec<String>,
}

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";
const RETIRED: &str = "retired.crt";

fn make(kind: Kind, now: Timestamp) -> Result<Material, PkiError> {
    let not_before = whole(now - CLOCKS_DIFFER)?;
    let not_after = whole(now + days(AUTHORITY_DAYS))?;
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, kind.name());
    // Nothing below it but the certificates that are used.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let params = dated(params, not_before, not_after)?;
    let pair = KeyPair::generate()?;
    Ok(Material {
        certificate: params.self_signed(&pair)?.pem(),
        key: Zeroizing::new(pair.serialize_pem()),
        not_before,
        not_after,
    })
}

fn text(data: &SecretData, key: &'static str) -> Result<Option<String>, PkiError> {
    let Some(bytes) = data.get(key) else {
        return Ok(None);
    };
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(e) => Err(PkiError::Unreadable {
            key,
            message: e.to_string(),
        }),
    }
}

pub(crate) fn pair_in(
    data: &SecretData,
    certificate: &'static str,
    key: &'static str,
) -> Result<Option<(Material, Said)>, PkiError> {
    match (text(data, certificate)?, text(data, key)?) {
        (None, None) => Ok(None),
        (Some(c), Some(k)) => Material::join(certificate, c, Zeroizing::new(k)).map(Some),
        (None, Some(_)) => Err(PkiError::KeyMissing { key: certificate }),
        (Some(_), None) => Err(PkiError::KeyMissing { key }),
    }
}

pub(crate) fn required_text(data: &SecretData, key: &'static str) -> Result<String, PkiError> {
    text(data, key)?.ok_or(PkiError::KeyMissing { key })
}

impl Authority {
    /// A new authority that issues at once: nobody believes another yet.
    pub fn new(kind: Kind, now: Timestamp) -> Result<Authority, PkiError> {
        Ok(Authority {
            kind,
            active: make(kind, now)?,
            next: None,
            retired: Vec::new(),
        })
    }

    /// Reads an authority back.
    pub fn from_secret_data(kind: Kind, data: &SecretData) -> Result<Authority, PkiError> {
        let own = |key, found: Option<(Material, Said)>| match found {
            Some((_, said)) if !said.is_authority || said.common_name != kind.name() => {
                Err(PkiError::WrongAuthority { key, wanted: kind })
            }
            other => Ok(other.map(|(material, _)| material)),
        };
        let active = own(CERTIFICATE, pair_in(data, CERTIFICATE, KEY)?)?;
        let next = own(NEXT_CERTIFICATE, pair_in(data, NEXT_CERTIFICATE, NEXT_KEY)?)?;
        let retired = split(&text(data, RETIRED)?.unwrap_or_default());
        for certificate in &retired {
            read(RETIRED, certificate)?;
        }
        Ok(Authority {
            kind,
            active: active.ok_or(PkiError::KeyMissing { key: CERTIFICATE })?,
            next,
            retired,
        })
    }

    /// For the Secret. It holds private keys.
    pub fn to_secret_data(&self) -> SecretData {
        let Authority {
            kind: _,
            active,
            next,
            retired,
        } = self;
        let mut data = SecretData::new();
        let mut put = |key: &str, text: &str| data.insert(key.to_owned(), text.into());
        put(CERTIFICATE, &active.certificate);
        put(KEY, &active.key);
        if let Some(next) = next {
            put(NEXT_CERTIFICATE, &next.certificate);
            put(NEXT_KEY, &next.key);
        }
        if !retired.is_empty() {
            put(RETIRED, &retired.concat());
        }
        data
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Everything to believe: the issuing certificate first.
    pub fn bundle(&self) -> String {
        let next = self.next.iter().map(|m| &m.certificate);
        std::iter::once(&self.active.certificate)
            .chain(next)
            .chain(&self.retired)
            .map(|c| format!("{}\n", c.trim()))
            .collect()
    }

    /// When [`Authority::advance`] will next do something.
    pub fn advances_at(&self) -> Timestamp {
        let step = match &self.next {
            Some(next) => (next.not_before + CLOCKS_DIFFER + days(SPREAD_DAYS))
                .min(self.active.not_after - days(1)),
            None => self.active.not_after - days(PREPARE_DAYS),
        };
        let ends = self
            .retired
            .iter()
            .filter_map(|c| read(RETIRED, c).ok())
            .map(|said| said.not_after);
        ends.fold(step, Timestamp::min)
    }

    /// The authority after what is due by `now`; none if nothing is.
    pub fn advance(&self, now: Timestamp) -> Result<Option<Authority>, PkiError> {
        let mut then = self.clone();
        while then.advances_at() <= now {
            then = then.step(now)?;
        }
        Ok((then != *self).then_some(then))
    }

    fn step(self, now: Timestamp) -> Result<Authority, PkiError> {
        let Authority {
            kind,
            active,
            next,
            retired,
        } = self;
        let lives = |c: &String| read(RETIRED, c).is_ok_and(|said| said.not_after > now);
        let mut retired: Vec<String> = retired.into_iter().filter(lives).collect();
        let spread = |m: &Material| m.not_before + CLOCKS_DIFFER + days(SPREAD_DAYS) <= now;
        // Nobody looked for a long time: what is over needs no overlap.
        let ending = active.not_after - days(1) <= now;
        let (active, next) = match next {
            Some(next) if next.not_after - days(1) <= now => (active, None),
            Some(next) if spread(&next) || ending => {
                if lives(&active.certificate) {
                    retired.insert(0, active.certificate);
                }
                (next, None)
            }
            Some(next) => (active, Some(next)),
            None if ending => {
                if lives(&active.certificate) {
                    retired.insert(0, active.certificate);
                }
                (make(kind, now)?, None)
            }
            None if active.not_after - days(PREPARE_DAYS) <= now => {
                (active, Some(make(kind, now)?))
            }
            None => (active, None),
        };
        Ok(Authority {
            kind,
            active,
            next,
            retired,
        })
    }

    pub(crate) fn issuer(&self) -> Result<rcgen::Issuer<'static, KeyPair>, PkiError> {
        let pair = key_pair(KEY, &self.active.key)?;
        Ok(rcgen::Issuer::from_ca_cert_pem(
            &self.active.certificate,
            pair,
        )?)
    }

    pub(crate) fn issues_until(&self) -> Timestamp {
        self.active.not_after
    }
}
