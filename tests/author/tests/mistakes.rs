//! What an author gets wrong, and the words that help. Other versions of the contract; signatures.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use windlass_author::{Author, Ended};
use windlass_e2e::world::plugin_dir;

/// A component of our own under another name, so that nothing takes it for a built-in: the digests are not at hand.
fn check(author: &Author, name: &str, bytes: &[u8]) -> Ended {
    let file = author.folder().join(name);
    std::fs::write(&file, bytes).unwrap();
    let empty = author.folder().join("no-plugins");
    std::fs::create_dir_all(&empty).unwrap();
    let mut command = std::process::Command::new("bash");
    let line = format!(
        "WINDLASS_PLUGIN_DIR={} windlass plugin check {}",
        empty.display(),
        file.display()
    );
    author.run(command.args(["-c", &line]))
}

fn health_argocd() -> Vec<u8> {
    std::fs::read(plugin_dir().join("health-argocd.wasm")).unwrap()
}

/// The component as a build against another version of the contract would have made it: both names are of the same length.
fn of_contract(version: &str) -> Vec<u8> {
    let mut bytes = health_argocd();
    let old = b"@0.1.0";
    let places: Vec<usize> = (0..bytes.len() - old.len())
        .filter(|at| bytes[*at..].starts_with(old))
        .filter(|at| {
            let before = &bytes[at.saturating_sub(40)..*at];
            before.windows(16).any(|part| part == b"windlass:plugin/")
        })
        .collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at + 1..at + old.len()].copy_from_slice(version.as_bytes());
    }
    bytes
}

#[test]
fn another_version_of_the_contract_loads_or_is_refused_with_the_remedy() {
    let Some(author) = Author::new() else { return };
    let ended = check(&author, "health_argocd.wasm", &of_contract("0.1.7"));
    assert_eq!(ended.code, 0, "{}", ended.all());
    for (version, remedy) in [
        (
            "0.2.0",
            "upgrade Windlass to one that provides 0.2, or build the plugin with windlass-sdk 0.1",
        ),
        (
            "1.0.0",
            "upgrade Windlass to one that provides 1.0, or build the plugin with windlass-sdk 0.1",
        ),
        ("0.0.9", "build the plugin with windlass-sdk 0.1"),
    ] {
        let ended = check(&author, "health_argocd.wasm", &of_contract(version));
        assert_eq!(ended.code, 2, "{version}: {}", ended.all());
        for words in [
            format!("@{version}"),
            "provides 0.1.x".to_owned(),
            remedy.to_owned(),
            "ContractVersion".to_owned(),
        ] {
            assert!(
                ended.stdout.contains(&words),
                "{version}, {words}: {}",
                ended.stdout
            );
        }
    }
}

#[test]
fn a_debug_build_of_40_mib_is_told_how_to_become_small() {
    let Some(author) = Author::new() else { return };
    let mut bytes = health_argocd();
    bytes.resize(40 << 20, 0);
    let ended = check(&author, "health-argocd.wasm", &bytes);
    assert_eq!(ended.code, 2, "{}", ended.all());
    for words in ["41943040 bytes", "--release", "opt-level = \"s\""] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }
}

#[test]
fn a_name_that_differs_from_the_files_is_said_with_both() {
    let Some(author) = Author::new() else { return };
    let ended = check(&author, "health-other.wasm", &health_argocd());
    assert_eq!(ended.code, 2, "{}", ended.all());
    for words in ["\"health-argocd\"", "\"health-other\"", "(Descriptor)"] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }
}

#[test]
fn what_is_wanted_and_not_granted_is_said_with_the_way_to_the_policy() {
    let Some(author) = Author::new() else { return };
    let file = windlass_author::example("source-oci");
    let bytes = std::fs::read(file).unwrap();
    let ended = check(&author, "source_oci.wasm", &bytes);
    assert_eq!(ended.code, 2, "{}", ended.all());
    for words in [
        "windlass:plugin/http",
        "windlass:plugin/secrets",
        "windlass plugin policy FILE",
    ] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }
    // And the policy that it prints is one under which it is served.
    let line = "windlass plugin policy source_oci.wasm > policy.yaml && windlass plugin check source_oci.wasm --policy policy.yaml";
    let ended = author.sh(Path::new(""), line);
    assert_eq!(ended.code, 0, "{}", ended.all());
}

#[test]
fn install_refuses_what_would_not_be_served_and_leaves_the_old_file() {
    let Some(author) = Author::new() else { return };
    let dir = author.folder().join("plugins");
    std::fs::create_dir(&dir).unwrap();
    let good = windlass_author::example("source-oci");
    let bytes = std::fs::read(&good).unwrap();
    let bad = author.folder().join("source_oci.wasm");
    let install = |file: &Path| {
        author.windlass(&[
            "plugin",
            "install",
            file.to_str().unwrap(),
            "--plugin-dir",
            "plugins",
        ])
    };
    let ended = install(&good);
    assert_eq!(ended.code, 0, "{}", ended.all());
    assert!(ended.stdout.contains("anyHost: true"), "{}", ended.stdout);
    std::fs::write(&bad, &bytes[..bytes.len() / 2]).unwrap();
    let ended = install(&bad);
    assert_eq!(ended.code, 2, "{}", ended.all());
    assert_eq!(std::fs::read(dir.join("source-oci.wasm")).unwrap(), bytes);
    let names: Vec<PathBuf> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(
        names,
        [dir.join("source-oci.wasm")],
        "nothing is left beside it"
    );

    // A built-in is not replaced where its digest lies.
    std::fs::copy(plugin_dir().join("digests.json"), dir.join("digests.json")).unwrap();
    let ended = author.windlass(&[
        "plugin",
        "install",
        good.to_str().unwrap(),
        "--plugin-dir",
        "plugins",
        "--name",
        "source-git",
    ]);
    assert_eq!(ended.code, 2, "{}", ended.all());
}

#[test]
fn a_policy_can_want_a_signature_instead_of_a_digest() {
    let Some(author) = Author::new() else { return };
    std::fs::copy(
        windlass_author::example("source-oci"),
        author.folder().join("source_oci.wasm"),
    )
    .unwrap();
    let sh = |line: &str| author.sh(Path::new(""), line);
    let made = sh("windlass plugin keygen author.key && windlass plugin keygen other.key");
    assert_eq!(made.code, 0, "{}", made.all());
    // Neither key is overwritten.
    assert_eq!(sh("windlass plugin keygen author.key").code, 2);
    let policy =
        sh("windlass plugin policy source_oci.wasm --signed-by author.key.pub > policy.yaml");
    assert_eq!(policy.code, 0, "{}", policy.all());
    let check = "windlass plugin check source_oci.wasm --policy policy.yaml";
    let unsigned = sh(check);
    assert_eq!(unsigned.code, 2, "{}", unsigned.all());
    assert!(
        unsigned.stdout.contains("(Signature)"),
        "{}",
        unsigned.stdout
    );

    let signed = sh("windlass plugin sign source_oci.wasm --key other.key");
    assert_eq!(signed.code, 0, "{}", signed.all());
    assert_eq!(sh(check).code, 2);
    assert_eq!(
        sh("windlass plugin verify source_oci.wasm --key author.key.pub").code,
        1
    );

    let signed = sh("windlass plugin sign source_oci.wasm --key author.key");
    assert_eq!(signed.code, 0, "{}", signed.all());
    assert_eq!(
        sh("windlass plugin verify source_oci.wasm --key author.key.pub").code,
        0
    );
    let served = sh(check);
    assert_eq!(served.code, 0, "{}", served.all());
    // The signature goes where the file goes.
    let installed = sh("windlass plugin install source_oci.wasm --plugin-dir plugins");
    assert_eq!(installed.code, 0, "{}", installed.all());
    let listed = sh("windlass plugin list --plugin-dir plugins --policy policy.yaml");
    assert_eq!(listed.code, 0, "{}", listed.all());
    // One byte more, and it is another file.
    let other = sh(
        "printf '\\0\\2\\1x' >> source_oci.wasm && windlass plugin verify source_oci.wasm --key author.key.pub",
    );
    assert_eq!(other.code, 1, "{}", other.all());
}

#[test]
fn a_bench_says_what_a_call_costs() {
    let Some(author) = Author::new() else { return };
    let file = plugin_dir().join("health-argocd.wasm");
    let object = author.folder().join("stack.yaml");
    let text = "apiVersion: pulumi.com/v1\nkind: Stack\nmetadata: {name: a, generation: 1}\nspec: {stack: dev}\n";
    std::fs::write(&object, text).unwrap();
    let arguments = [
        "plugin",
        "bench",
        file.to_str().unwrap(),
        "assess",
        "stack.yaml",
        "--times",
        "20",
        "--output",
        "json",
    ];
    let ended = author.windlass(&arguments);
    assert_eq!(ended.code, 0, "{}", ended.all());
    let figures = ended.json();
    assert_eq!(figures["function"], "assess");
    assert_eq!(figures["times"], 20);
    let of = |field: &str| figures[field].as_f64().unwrap();
    assert!(
        of("p50Micros") > 0.0 && of("p50Micros") <= of("p99Micros"),
        "{figures}"
    );
    // An instance has at least a page of memory, and no more than its limit.
    assert!(
        (65_536.0..=67_108_864.0).contains(&of("memoryBytes")),
        "{figures}"
    );
    let table = author.windlass(&arguments[..5]);
    for words in ["load, compiling", "p99", "memory of an instance"] {
        assert!(table.stdout.contains(words), "{words}: {}", table.all());
    }
}
