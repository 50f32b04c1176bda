//! The examples serve Stacks: `source-s3` from a bucket whose server checks the signature itself, `source-oci` from a registry that
//! wants a token.
#![allow(clippy::unwrap_used)]

mod servers;

use servers::{Bucket, Registry};
use windlass_author::{Author, Ended, example};

const PROGRAM: &str = "name: shop\nruntime: yaml\nresources:\n  one:\n    type: pulumi:Stash\n    properties: {input: REVISION}\n\
                       outputs:\n  said: ${one.input}\n";

fn bundle(said: &str) -> Vec<u8> {
    let mut packed = tar::Builder::new(flate2::write::GzEncoder::new(
        Vec::new(),
        flate2::Compression::fast(),
    ));
    let text = PROGRAM.replace("REVISION", said);
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    packed
        .append_data(&mut header, "infra/Pulumi.yaml", text.as_bytes())
        .unwrap();
    packed.into_inner().unwrap().finish().unwrap()
}

/// Installs the example, writes its policy and deploys once.
fn deploy(author: &Author, name: &str) -> Ended {
    let file = example(name);
    let file = file.to_str().unwrap();
    let installed = author.windlass(&["plugin", "install", file, "--plugin-dir", "plugins"]);
    assert_eq!(installed.code, 0, "{}", installed.all());
    let policy = author.windlass(&["plugin", "policy", file]);
    assert_eq!(policy.code, 0, "{}", policy.all());
    std::fs::write(author.folder().join("policy.yaml"), &policy.stdout).unwrap();
    once(author)
}

fn once(author: &Author) -> Ended {
    let line = "windlass local --once --output json --data-dir data --policy policy.yaml \
                --plugin-dir \"$WINDLASS_PLUGIN_DIR\" --plugin-dir plugins manifests";
    author.sh(std::path::Path::new(""), line)
}

fn said(ended: &Ended) -> serde_json::Value {
    ended.json()["stacks"][0]["outputs"]["said"].clone()
}

fn reason(ended: &Ended) -> String {
    ended.json()["stacks"][0].to_string()
}

#[test]
fn a_bundle_in_a_bucket() {
    let Some(author) = Author::new() else { return };
    let bucket = Bucket::start("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
    bucket.put("/programs/shop/the web.tar.gz", bundle("first"));
    let secret = |key: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: s3}}\nstringData: {{key: {key:?}}}\n"
        );
        author.world().write("secret.yaml", &text);
    };
    secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
    author.world().stack(
        "shop",
        "organization/shop/dev",
        &format!(
            "source:\n  type: s3\n  endpoint: {}\n  region: eu-central-1\n  bucket: programs\n  key: shop/the web.tar.gz\n  \
             accessKeyId: AKIDEXAMPLE\n  secretAccessKey: {{type: Secret, secret: {{name: s3, key: key}}}}\n  dir: infra\n",
            bucket.url()
        ),
    );
    let first = deploy(&author, "source-s3");
    assert_eq!(first.code, 0, "{}", first.all());
    assert_eq!(said(&first), "first");
    assert_eq!(
        bucket.refused(),
        0,
        "each request was signed as the server expects"
    );

    bucket.put("/programs/shop/the web.tar.gz", bundle("second"));
    let second = once(&author);
    assert_eq!(second.code, 0, "{}", second.all());
    assert_eq!(said(&second), "second");

    // Another key signs otherwise, and the server is what says so.
    secret("another");
    let refused = once(&author);
    assert_eq!(refused.code, 1, "{}", refused.all());
    assert!(
        reason(&refused).contains("CredentialsRefused"),
        "{}",
        refused.all()
    );
    assert!(bucket.refused() > 0);
}

#[test]
fn an_artifact_in_a_registry_that_wants_a_token() {
    let Some(author) = Author::new() else { return };
    let registry = Registry::start("robot", "pa55w0rd");
    registry.push("team/shop", "v1", bundle("first"));
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: registry}\nstringData: {password: pa55w0rd}\n";
    author.world().write("secret.yaml", secret);
    author.world().stack(
        "shop",
        "organization/shop/dev",
        &format!(
            "source:\n  type: oci\n  image: {}/team/shop:v1\n  insecure: true\n  username: robot\n  password: {{type: Secret, secret: {{name: \
             registry, key: password}}}}\n  dir: infra\n",
            registry.address()
        ),
    );
    let first = deploy(&author, "source-oci");
    assert_eq!(first.code, 0, "{}", first.all());
    assert_eq!(said(&first), "first");

    // The tag moves.
    registry.push("team/shop", "v1", bundle("second"));
    let second = once(&author);
    assert_eq!(second.code, 0, "{}", second.all());
    assert_eq!(said(&second), "second");

    author
        .world()
        .write("secret.yaml", &secret.replace("pa55w0rd", "wrong"));
    let refused = once(&author);
    assert_eq!(refused.code, 1, "{}", refused.all());
    assert!(
        reason(&refused).contains("CredentialsRefused"),
        "{}",
        refused.all()
    );
    // The token was nobody's to see.
    let stored: String = author
        .world()
        .stored()
        .iter()
        .map(|row| row.text.clone())
        .collect();
    assert!(!stored.contains(registry.token()) && !stored.contains("pa55w0rd"));
}
