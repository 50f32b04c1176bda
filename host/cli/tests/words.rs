//! Help, versions and the sentences for wrong arguments.

#![allow(clippy::unwrap_used)]

mod common;

use common::{run, windlass};

#[test]
fn help_names_every_command_and_teaches_by_example() {
    let help = run(windlass().arg("--help"));
    assert_eq!(help.code, 0);
    for command in [
        "local", "status", "logs", "explain", "replay", "cancel", "plugin", "health", "crds",
        "version",
    ] {
        assert!(
            help.stdout.contains(&format!("\n  {command} ")),
            "{command}: {}",
            help.stdout
        );
    }
    assert!(help.stdout.contains("windlass local --once manifests/"));
    assert!(help.stdout.contains("Exit codes: 0"));
    assert!(
        !help.stdout.contains("fetch-worker"),
        "a hidden command shows"
    );
}

#[test]
fn every_command_has_help_without_escapes() {
    let commands: [&[&str]; 13] = [
        &["local"],
        &["status"],
        &["logs"],
        &["explain"],
        &["replay"],
        &["cancel"],
        &["health"],
        &["crds"],
        &["version"],
        &["plugin"],
        &["plugin", "list"],
        &["plugin", "check"],
        &["plugin", "run"],
    ];
    for command in commands {
        let help = run(windlass().args(command).arg("--help"));
        assert_eq!(help.code, 0, "{command:?}");
        assert!(help.stdout.contains("Usage: windlass"), "{command:?}");
        assert!(!help.stdout.contains('\u{1b}'), "{command:?}");
    }
    let local = run(windlass().args(["local", "--help"]));
    for option in [
        "--once",
        "--parallel",
        "--output",
        "--data-dir",
        "--plugin-dir",
        "--policy",
        "--destroy",
        "--keep-idle",
        "--no-progress",
    ] {
        assert!(local.stdout.contains(option), "{option}");
    }
}

#[test]
fn wrong_arguments_are_bad_input() {
    for arguments in [
        &["local"][..],
        &["local", "--parallel", "0", "."],
        &["nonsense"],
        &["logs"],
        &["explain", "a/"],
    ] {
        let ran = run(windlass().args(arguments));
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.stderr);
        assert!(
            ran.stdout.is_empty() && !ran.stderr.is_empty(),
            "{arguments:?}"
        );
    }
    let ran = run(windlass().args(["explain", "a/"]));
    assert!(
        ran.stderr.contains("NAME or NAMESPACE/NAME"),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_version_is_for_people_and_programs() {
    let text = run(windlass().arg("version"));
    assert!(
        text.stdout
            .starts_with(concat!("windlass ", env!("CARGO_PKG_VERSION")))
    );
    let json = run(windlass().args(["version", "--output", "json"]));
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn without_a_data_directory_it_says_which_option_names_one() {
    let empty = tempfile::tempdir().unwrap();
    for command in [
        &["status"][..],
        &["logs", "app"],
        &["explain", "app"],
        &["cancel", "app"],
    ] {
        let ran = run(windlass().args(command).current_dir(empty.path()));
        assert_eq!(ran.code, 2, "{command:?}");
        assert!(
            ran.stderr.contains("--data-dir"),
            "{command:?}: {}",
            ran.stderr
        );
    }
}
