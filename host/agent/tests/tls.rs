//! Who may speak to an agent on a cluster, and whom the operator takes for one.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/pod.rs"]
mod pod;

use std::sync::Arc;

use common::{ended, until};
use jiff::{SignedDuration, Timestamp};
use pod::{Pod, client_tls, identity, publish};
use rcgen::string::Ia5String;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_agent::{AgentClient, ClientError, ClientTls};
use windlass_api::identity::OPERATOR;
use windlass_api::run::{Operation, RunState};
use windlass_pki::{Authority, Kind, Leaf};

const DAY: SignedDuration = SignedDuration::from_hours(24);

#[track_caller]
fn assert_refused(attempt: Result<(), ClientError>) {
    match attempt {
        Err(ClientError::Untrusted { message, .. })
            if message.contains("refused the operator's certificate") => {}
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_not_believed(attempt: Result<(), ClientError>, why: &str) {
    match attempt {
        Err(ClientError::Untrusted { message, .. }) if message.contains(why) => {}
        other => panic!("{other:?}"),
    }
}

/// A client's certificate of an authority with any name and usage.
fn certificate(
    by: &Authority,
    name: Option<&str>,
    usage: ExtendedKeyUsagePurpose,
    pod: &Pod,
) -> ClientTls {
    let data = by.to_secret_data();
    let text = |key: &str| String::from_utf8(data[key].clone()).unwrap();
    let issuer = Issuer::from_ca_cert_pem(
        &text("tls.crt"),
        KeyPair::from_pem(&text("tls.key")).unwrap(),
    )
    .unwrap();
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![usage];
    params.subject_alt_names = match name {
        Some(name) => vec![SanType::URI(Ia5String::try_from(name).unwrap())],
        None => vec![SanType::DnsName(Ia5String::try_from("operator").unwrap())],
    };
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    let roots = pod.workspaces.bundle();
    ClientTls::new(
        certificate.as_bytes(),
        key.serialize_pem().as_bytes(),
        roots.as_bytes(),
    )
    .unwrap()
}

#[tokio::test]
async fn the_operator_is_served() {
    let pod = Pod::with_shim().await;
    let info = pod.connect().await.hello().await.unwrap();
    assert_eq!(info.pulumi, Ok("3.259.0".to_owned()));
}

#[tokio::test]
async fn nobody_else_is() {
    let pod = Pod::with_shim().await;
    let now = Timestamp::now();
    let good = pod.identity.clone();

    // Another tenant's workspace with its own certificate, which is a server's and of the other authority.
    let theirs = identity("other");
    let workspace = Leaf::workspace(&theirs, &pod.workspaces, &pod.workspaces, now).unwrap();
    assert_refused(pod.attempt(&client_tls(&workspace), &good).await);
    // Even if it were a client's, and named as the operator is.
    let client = ExtendedKeyUsagePurpose::ClientAuth;
    let named = certificate(&pod.workspaces, Some(OPERATOR), client.clone(), &pod);
    assert_refused(pod.attempt(&named, &good).await);

    // An authority that only claims to be the operators'.
    let others = Authority::new(Kind::Operators, now).unwrap();
    let other = Leaf::operator(&others, &pod.workspaces, now).unwrap();
    assert_refused(pod.attempt(&client_tls(&other), &good).await);

    // The operators' authority, and not the operator.
    let mut wrong = vec![certificate(
        &pod.operators,
        Some(OPERATOR),
        ExtendedKeyUsagePurpose::ServerAuth,
        &pod,
    )];
    let name = theirs.to_string();
    for name in [
        Some(name.as_str()),
        Some("windlass://operator2"),
        Some("https://operator"),
        None,
    ] {
        wrong.push(certificate(&pod.operators, name, client.clone(), &pod));
    }
    for tls in &wrong {
        assert_refused(pod.attempt(tls, &good).await);
    }
    // And the same way of making one is served with the right name: nothing else was wrong with them.
    let right = certificate(&pod.operators, Some(OPERATOR), client, &pod);
    pod.attempt(&right, &good).await.unwrap();
}

#[tokio::test]
async fn an_expired_operator_is_not_served() {
    let mut pod = Pod::with_shim().await;
    let before = Timestamp::now() - DAY * 30;
    pod.operators = Authority::new(Kind::Operators, before).unwrap();
    let leaf = Leaf::workspace(
        &pod.identity,
        &pod.workspaces,
        &pod.operators,
        Timestamp::now(),
    )
    .unwrap();
    publish(&pod.tls_dir(), &leaf.to_secret_data());
    let expired = Leaf::operator(&pod.operators, &pod.workspaces, before).unwrap();
    assert!(expired.expires_at() < Timestamp::now());
    assert_refused(pod.attempt(&client_tls(&expired), &pod.identity).await);
    pod.attempt(&pod.operator(), &pod.identity).await.unwrap();
}

#[tokio::test]
async fn nobody_poses_as_a_workspace() {
    let pod = Pod::with_shim().await;
    let now = Timestamp::now();
    // An agent of another workspace, or of an earlier incarnation of this one.
    let attempt = pod.attempt(&pod.operator(), &identity("i-2")).await;
    assert_not_believed(attempt, "windlass://workspace/team-a/5e1f-workspace/i-1");
    // One whose certificate is of another authority.
    let others = Authority::new(Kind::Workspaces, now).unwrap();
    let operator = client_tls(&Leaf::operator(&pod.operators, &others, now).unwrap());
    assert_not_believed(pod.attempt(&operator, &pod.identity).await, "certificate");
    // The operator's own certificate does not make a server.
    let leaf = Leaf::operator(&pod.operators, &pod.operators, now).unwrap();
    publish(&pod.tls_dir(), &leaf.to_secret_data());
    let both = pod.operators.bundle() + &pod.workspaces.bundle();
    let operator = ClientTls::new(
        leaf.certificate().as_bytes(),
        leaf.key().as_bytes(),
        both.as_bytes(),
    )
    .unwrap();
    assert_not_believed(pod.attempt(&operator, &pod.identity).await, "certificate");
    // One whose time is over.
    let before = now - DAY * 60;
    let old = Authority::new(Kind::Workspaces, before).unwrap();
    let expired = Leaf::workspace(&pod.identity, &old, &pod.operators, before).unwrap();
    publish(&pod.tls_dir(), &expired.to_secret_data());
    let operator = client_tls(&Leaf::operator(&pod.operators, &old, now).unwrap());
    assert_not_believed(pod.attempt(&operator, &pod.identity).await, "expired");
}

/// Believes every server: these tests are about what the agent does.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// What the agent says to one with, or without, the operator's certificate.
async fn shake_hands(
    pod: &Pod,
    version: &'static SupportedProtocolVersion,
    own: Option<&Leaf>,
) -> std::io::Result<()> {
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody));
    let mut config = match own {
        Some(leaf) => {
            let chain = CertificateDer::pem_slice_iter(leaf.certificate().as_bytes())
                .map(Result::unwrap)
                .collect();
            let key = PrivateKeyDer::from_pem_slice(leaf.key().as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(pod.address).await?;
    let name = ServerName::from(pod.address.ip());
    let mut stream = tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await?;
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?;
    // The agent's first words in HTTP/2.
    stream.read_exact(&mut [0; 9]).await.map(drop)
}

#[tokio::test]
async fn no_certificate_an_old_version_and_plain_text_are_refused() {
    let pod = Pod::with_shim().await;
    let operator = Leaf::operator(&pod.operators, &pod.workspaces, Timestamp::now()).unwrap();
    let tls13 = &rustls::version::TLS13;
    shake_hands(&pod, tls13, Some(&operator)).await.unwrap();
    let nobody = shake_hands(&pod, tls13, None).await.unwrap_err();
    assert!(
        nobody.to_string().contains("CertificateRequired"),
        "{nobody}"
    );
    let old = shake_hands(&pod, &rustls::version::TLS12, Some(&operator))
        .await
        .unwrap_err();
    assert!(old.to_string().contains("ProtocolVersion"), "{old}");

    let mut plain = TcpStream::connect(pod.address).await.unwrap();
    plain
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said).await;
    // An alert of TLS, or nothing.
    assert!(
        said.is_empty() || (said[0] == 21 && said.len() < 16),
        "{said:?}"
    );
    // Nothing of this troubles the operator.
    pod.attempt(&pod.operator(), &pod.identity).await.unwrap();
}

/// A run, both of whose ends see every certificate change in the middle.
#[tokio::test]
async fn certificates_change_while_a_run_goes_on() {
    let mut pod = Pod::with_shim().await;
    let client = pod.connect().await;
    let request = pod.bench.request("r-1", Operation::Up, "p");
    client.start_run(&request).await.unwrap();
    let watching = tokio::spawn({
        let client = client.clone();
        async move { ended(&client, "r-1").await }
    });
    let out = pod.bench.path("agent-1.out");
    until("the run", || {
        std::fs::read_to_string(&out).unwrap().contains("it runs")
    })
    .await;

    // The operators' authority is succeeded: for a time both are believed.
    let now = Timestamp::now();
    let first = pod.operator();
    let successor = Authority::new(Kind::Operators, now).unwrap();
    let second = client_tls(&Leaf::operator(&successor, &pod.workspaces, now).unwrap());
    assert_refused(pod.attempt(&second, &pod.identity).await);
    let renewed = |operators: String, pod: &Pod| {
        let mut data = Leaf::workspace(&pod.identity, &pod.workspaces, &pod.operators, now)
            .unwrap()
            .to_secret_data();
        data.insert("ca.crt".into(), operators.into_bytes());
        publish(&pod.tls_dir(), &data);
    };
    renewed(pod.operators.bundle() + &successor.bundle(), &pod);
    pod.attempt(&first, &pod.identity).await.unwrap();
    pod.attempt(&second, &pod.identity).await.unwrap();
    renewed(successor.bundle(), &pod);
    assert_refused(pod.attempt(&first, &pod.identity).await);
    pod.attempt(&second, &pod.identity).await.unwrap();
    pod.operators = successor;

    // Then the workspaces'.
    pod.workspaces = Authority::new(Kind::Workspaces, now).unwrap();
    renewed(pod.operators.bundle(), &pod);
    assert_not_believed(pod.attempt(&second, &pod.identity).await, "certificate");
    pod.attempt(&pod.operator(), &pod.identity).await.unwrap();

    // Half of a change is not used.
    let broken = [("tls.key".to_owned(), b"no key".to_vec())];
    publish(&pod.tls_dir(), &broken.into());
    pod.attempt(&pod.operator(), &pod.identity).await.unwrap();

    // The connection from before is as it was, and so is the run.
    assert_eq!(
        client.hello().await.unwrap().open_run.as_deref(),
        Some("r-1")
    );
    std::fs::write(pod.bench.path("go"), "").unwrap();
    assert_eq!(watching.await.unwrap().state, RunState::Succeeded);
}

#[tokio::test]
async fn an_agent_without_certificates_does_not_start() {
    let pod = Pod::with_shim().await;
    let state = pod.bench.path("other-state");
    let empty = pod.bench.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let said = pod
        .command("serve")
        .args(["--listen", "127.0.0.1:0"])
        .arg("--state-dir")
        .arg(state)
        .arg("--tls-dir")
        .arg(empty)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.status.success() && text.contains("tls.crt"), "{text}");
}

#[tokio::test]
async fn many_strangers_do_not_keep_the_operator_out_for_long() {
    let pod = Pod::with_shim().await;
    let mut strangers = Vec::new();
    for _ in 0..64 {
        strangers.push(TcpStream::connect(pod.address).await.unwrap());
    }
    let client = AgentClient::connect_tls(pod.address, &pod.operator(), &pod.identity, 1)
        .await
        .unwrap();
    client.hello().await.unwrap();
    drop(strangers);
}
