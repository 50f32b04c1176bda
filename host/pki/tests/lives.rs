//! Authorities and certificates through years that nobody waits for.
#![allow(clippy::unwrap_used)]

use jiff::{SignedDuration, Timestamp};
use pretty_assertions::assert_eq;
use windlass_api::identity::{OPERATOR, WorkspaceIdentity};
use windlass_pki::{Authority, Kind, Leaf, PkiError, Renewal, SecretData};
use x509_parser::pem::Pem;
use x509_parser::prelude::{GeneralName, X509Certificate};

const DAY: SignedDuration = SignedDuration::from_hours(24);

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn identity() -> WorkspaceIdentity {
    WorkspaceIdentity::new("team-a", "0b9e", "i-1").unwrap()
}

fn blocks(pem: &str) -> Vec<Pem> {
    Pem::iter_from_buffer(pem.as_bytes())
        .collect::<Result<_, _>>()
        .unwrap()
}

/// Whether one of the bundle's certificates signed this one.
fn signed_by_one_of(leaf: &str, bundle: &str) -> bool {
    let leaf = blocks(leaf);
    let leaf = leaf[0].parse_x509().unwrap();
    blocks(bundle).iter().any(|b| {
        let authority = b.parse_x509().unwrap();
        leaf.verify_signature(Some(authority.public_key())).is_ok()
    })
}

fn uris(certificate: &X509Certificate<'_>) -> Vec<String> {
    let names = certificate.subject_alternative_name().unwrap().unwrap();
    let uri = |n: &GeneralName<'_>| match n {
        GeneralName::URI(uri) => (*uri).to_owned(),
        other => panic!("{other:?}"),
    };
    names.value.general_names.iter().map(uri).collect()
}

#[test]
fn each_side_gets_its_name_and_its_usage() {
    let operators = Authority::new(Kind::Operators, start()).unwrap();
    let workspaces = Authority::new(Kind::Workspaces, start()).unwrap();
    let operator = Leaf::operator(&operators, &workspaces, start()).unwrap();
    let workspace = Leaf::workspace(&identity(), &workspaces, &operators, start()).unwrap();
    for (leaf, name, client, server, bundle) in [
        (
            &operator,
            OPERATOR.to_owned(),
            true,
            false,
            operators.bundle(),
        ),
        (
            &workspace,
            identity().to_string(),
            false,
            true,
            workspaces.bundle(),
        ),
    ] {
        let pem = blocks(leaf.certificate());
        let certificate = pem[0].parse_x509().unwrap();
        assert_eq!(uris(&certificate), [name]);
        let usage = certificate.extended_key_usage().unwrap().unwrap().value;
        assert_eq!((usage.client_auth, usage.server_auth), (client, server));
        assert!(!certificate.is_ca());
        assert!(signed_by_one_of(leaf.certificate(), &bundle));
    }
    assert_eq!(operator.roots(), workspaces.bundle());
    assert_eq!(workspace.roots(), operators.bundle());
    let wrong = Leaf::operator(&workspaces, &operators, start());
    assert!(matches!(wrong, Err(PkiError::WrongAuthority { .. })));
}

#[test]
fn secrets_go_both_ways_and_wrong_ones_are_named() {
    let operators = Authority::new(Kind::Operators, start()).unwrap();
    let workspaces = Authority::new(Kind::Workspaces, start()).unwrap();
    let data = operators.to_secret_data();
    assert_eq!(
        Authority::from_secret_data(Kind::Operators, &data).unwrap(),
        operators
    );
    let other = Authority::from_secret_data(Kind::Workspaces, &data).unwrap_err();
    assert!(matches!(other, PkiError::WrongAuthority { .. }), "{other}");

    let leaf = Leaf::operator(&operators, &workspaces, start()).unwrap();
    let data = leaf.to_secret_data();
    assert_eq!(Leaf::from_secret_data(&data).unwrap(), leaf);
    for key in ["tls.crt", "tls.key", "ca.crt"] {
        let mut less = data.clone();
        less.remove(key);
        let missing = Leaf::from_secret_data(&less).unwrap_err();
        assert!(missing.to_string().contains(key), "{missing}");
        let mut broken = data.clone();
        broken.insert(key.to_owned(), b"\xff canary-79".to_vec());
        let broken = Leaf::from_secret_data(&broken).unwrap_err();
        assert!(!broken.to_string().contains("canary-79"), "{broken}");
    }
    let mut mixed = data;
    mixed.insert(
        "tls.key".to_owned(),
        workspaces.to_secret_data()["tls.key"].clone(),
    );
    let mixed = Leaf::from_secret_data(&mixed).unwrap_err();
    assert!(matches!(mixed, PkiError::KeyMismatch { .. }), "{mixed}");
    assert!(Leaf::from_secret_data(&SecretData::new()).is_err());
}

#[test]
fn private_keys_are_not_shown() {
    let operators = Authority::new(Kind::Operators, start()).unwrap();
    let leaf = Leaf::operator(&operators, &operators, start()).unwrap();
    let key = leaf.key().lines().nth(1).unwrap();
    let shown = format!("{operators:?} {leaf:?}");
    assert!(
        !shown.contains(key) && !shown.contains("PRIVATE"),
        "{shown}"
    );
}

#[test]
fn certificates_are_renewed_after_two_thirds_and_bundles_at_once() {
    let operators = Authority::new(Kind::Operators, start()).unwrap();
    let workspaces = Authority::new(Kind::Workspaces, start()).unwrap();
    let leaf = Leaf::workspace(&identity(), &workspaces, &operators, start()).unwrap();
    let early = start() + DAY * 19;
    let late = start() + DAY * 21;
    assert_eq!(leaf.renewal(&operators, early), Renewal::None);
    assert_eq!(leaf.renewal(&operators, late), Renewal::Certificate);
    let others = Authority::new(Kind::Operators, start()).unwrap();
    assert_eq!(leaf.renewal(&others, early), Renewal::Roots);
    let leaf = leaf.with_roots(&others);
    assert_eq!(leaf.renewal(&others, early), Renewal::None);
}

#[test]
fn three_years_pass_and_no_certificate_in_use_is_ever_unknown() {
    let mut operators = Authority::new(Kind::Operators, start()).unwrap();
    let workspaces = Authority::new(Kind::Workspaces, start()).unwrap();
    let mut now = start();
    let mut leaf = Leaf::operator(&operators, &workspaces, now).unwrap();
    // What a workspace's mount shows: six days behind.
    let mut seen = vec![operators.bundle(); 6];
    let mut issuers = std::collections::BTreeSet::new();
    for _ in 0..3 * 365 {
        now += DAY;
        if let Some(then) = operators.advance(now).unwrap() {
            assert_eq!(then.advance(now).unwrap(), None, "done at once");
            operators =
                Authority::from_secret_data(Kind::Operators, &then.to_secret_data()).unwrap();
        }
        assert!(operators.advances_at() > now);
        if leaf.renewal(&workspaces, now) == Renewal::Certificate {
            leaf = Leaf::operator(&operators, &workspaces, now).unwrap();
        }
        seen.push(operators.bundle());
        let behind = seen.remove(0);
        assert!(leaf.expires_at() > now);
        assert!(signed_by_one_of(leaf.certificate(), &behind), "at {now}");
        assert!(blocks(&operators.bundle()).len() <= 3);
        issuers.insert(operators.bundle().lines().take(5).collect::<String>());
    }
    assert_eq!(issuers.len(), 4, "the authority changed about once a year");
}

#[test]
fn nobody_looked_for_years() {
    let operators = Authority::new(Kind::Operators, start()).unwrap();
    for days in [270, 280, 364, 366, 1000] {
        let now = start() + DAY * days;
        let then = operators.advance(now).unwrap().unwrap_or(operators.clone());
        assert!(then.advances_at() > now, "{days}");
        let leaf = Leaf::operator(&then, &then, now).unwrap();
        assert!(leaf.expires_at() > now, "{days}");
        assert!(signed_by_one_of(leaf.certificate(), &then.bundle()));
        let old = blocks(&operators.bundle())[0].contents.clone();
        let known = blocks(&then.bundle()).iter().any(|b| b.contents == old);
        assert_eq!(known, days < 365, "{days}");
    }
}
