//! The Rust projects that `plugin new` writes: they build, they pass their own tests, they are formatted and free of warnings.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use windlass_author::Author;

// The one of kind source is built and tested by the tutorial.
#[test]
fn health_and_backend_build_and_pass_their_own_tests() {
    let Some(author) = Author::new() else { return };
    for (name, kind, claim) in [
        (
            "health-blue-widget",
            "health",
            "health:example.org/BlueWidget",
        ),
        ("backend-acme", "backend", "backend:acme"),
    ] {
        let made = author.sh(
            Path::new(""),
            &format!("windlass plugin new {name} --kind {kind}"),
        );
        assert_eq!(made.code, 0, "{}", made.all());
        author.share_builds(name);
        let tested = author.sh(Path::new(name), "cargo test --quiet 2>&1");
        assert_eq!(tested.code, 0, "{name}: {}", tested.all());
        assert!(
            !tested.stdout.contains("warning"),
            "{name}: {}",
            tested.stdout
        );
        let file = format!(
            "{name}/target/wasm32-wasip2/release/{}.wasm",
            name.replace('-', "_")
        );
        let checked = author.windlass(&["plugin", "check", "--output", "json", &file]);
        assert_eq!(checked.code, 0, "{}", checked.all());
        assert_eq!(checked.json()["provides"][0], claim);
        // The preset of the release profile: without it a component has megabytes.
        let size = std::fs::metadata(author.folder().join(&file))
            .unwrap()
            .len();
        assert!(size < 400 << 10, "{name} has {size} bytes");
    }
}

#[test]
fn what_exists_is_not_overwritten_and_bad_names_make_nothing() {
    let Some(author) = Author::new() else { return };
    let taken = author.folder().join("source-shelf");
    std::fs::create_dir(&taken).unwrap();
    std::fs::write(taken.join("Cargo.toml"), "mine").unwrap();
    let refused = author.windlass(&["plugin", "new", "source-shelf", "--kind", "source"]);
    assert_eq!(refused.code, 2, "{}", refused.all());
    assert!(
        refused.stderr.contains("nothing is overwritten"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        std::fs::read_to_string(taken.join("Cargo.toml")).unwrap(),
        "mine"
    );
    assert_eq!(std::fs::read_dir(&taken).unwrap().count(), 1);

    let refused = author.windlass(&["plugin", "new", "Source_Shelf", "--kind", "source"]);
    assert_eq!(refused.code, 2, "{}", refused.all());
    assert!(
        refused.stderr.contains("lower case letters"),
        "{}",
        refused.stderr
    );
    assert!(!author.folder().join("Source_Shelf").exists());

    let nowhere = [
        "plugin",
        "new",
        "source-other",
        "--kind",
        "source",
        "--sdk-path",
        "/etc",
    ];
    let refused = author.windlass(&nowhere);
    assert_eq!(refused.code, 2, "{}", refused.all());
    assert!(
        refused.stderr.contains("sdk/windlass-sdk"),
        "{}",
        refused.stderr
    );
    assert!(!author.folder().join("source-other").exists());
}
