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

fn secret(author: &Author, name: &str, value: &str) {
    let text = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{key: {value:?}}}\n"
    );
    author.world().write(&format!("secret-{name}.yaml"), &text);
}

/// A Stack with a secret of its own that the server does not take: the server is what says so, and the plugin passes it on.
fn is_refused(author: &Author, spec: &str) {
    secret(author, "wrong", "another");
    author
        .world()
        .stack("refused", "organization/shop/refused", spec);
    let refused = once(author);
    assert_eq!(refused.code, 1, "{}", refused.all());
    let document = refused.json();
    let rows = document["stacks"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == "refused").unwrap();
    assert!(
        row["message"]
            .as_str()
            .unwrap()
            .contains("refuses the credentials"),
        "{row}"
    );
}

#[test]
fn a_bundle_in_a_bucket() {
    let Some(author) = Author::new() else { return };
    let key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    let bucket = Bucket::start("AKIDEXAMPLE", key);
    bucket.put("/programs/shop/the web.tar.gz", bundle("first"));
    secret(&author, "good", key);
    let spec = |secret: &str| {
        format!(
            "source:\n  type: s3\n  endpoint: {}\n  region: eu-central-1\n  bucket: programs\n  key: shop/the web.tar.gz\n  \
             accessKeyId: AKIDEXAMPLE\n  secretAccessKey: {{type: Secret, secret: {{name: {secret}, key: key}}}}\n  dir: infra\n  \
             pollSeconds: 1\n",
            bucket.url()
        )
    };
    author
        .world()
        .stack("shop", "organization/shop/dev", &spec("good"));
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

    is_refused(&author, &spec("wrong"));
    assert!(bucket.refused() > 0);
}

#[test]
fn an_artifact_in_a_registry_that_wants_a_token() {
    let Some(author) = Author::new() else { return };
    let registry = Registry::start("robot", "pa55w0rd");
    registry.push("team/shop", "v1", bundle("first"));
    secret(&author, "good", "pa55w0rd");
    let spec = |secret: &str| {
        format!(
            "source:\n  type: oci\n  image: {}/team/shop:v1\n  insecure: true\n  username: robot\n  password: {{type: Secret, \
             secret: {{name: {secret}, key: key}}}}\n  dir: infra\n  pollSeconds: 1\n",
            registry.address()
        )
    };
    author
        .world()
        .stack("shop", "organization/shop/dev", &spec("good"));
    let first = deploy(&author, "source-oci");
    assert_eq!(first.code, 0, "{}", first.all());
    assert_eq!(said(&first), "first");

    // The tag moves.
    registry.push("team/shop", "v1", bundle("second"));
    let second = once(&author);
    assert_eq!(second.code, 0, "{}", second.all());
    assert_eq!(said(&second), "second");

    is_refused(&author, &spec("wrong"));
    // The token was nobody's to see.
    let stored = author.world().stored();
    let stored: String = stored.iter().map(|row| row.text.as_str()).collect();
    assert!(!stored.is_empty() && !stored.contains(registry.token()));
}
