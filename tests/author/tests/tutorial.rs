//! Every command of `sdk/README.md` below its first section, run as written, in its order.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use windlass_author::Author;
use windlass_e2e::manual::commands;

#[test]
fn from_nothing_to_a_plugin_that_serves_a_stack() {
    let Some(author) = Author::new() else { return };
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/README.md");
    let mut commands = commands(&std::fs::read_to_string(readme).unwrap());
    commands.retain(|command| !command.heading.contains("Set up"));
    assert!(commands.len() > 8, "{commands:?}");
    let mut folder = PathBuf::new();
    let mut served = false;
    for command in commands.iter().map(|command| &command.line) {
        if let Some(next) = command.strip_prefix("cd ") {
            folder = folder.join(next);
            continue;
        }
        // The SDK is found from where the program lies, as for whoever works in a clone.
        let ended = author.sh(&folder, command);
        assert_eq!(ended.code, 0, "$ {command}\n{}", ended.all());
        if let Some(rest) = command.strip_prefix("windlass plugin new ") {
            let project = folder.join(rest.split(' ').next().unwrap());
            author.share_builds(project.to_str().unwrap());
        }
        if command.starts_with("windlass local") {
            assert!(ended.stdout.contains("said=hello from"), "{}", ended.all());
            served = true;
        }
    }
    assert!(served, "the tutorial deploys nothing");
}
