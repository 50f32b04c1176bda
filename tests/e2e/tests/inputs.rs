//! What is wrong with manifests, sources and tools, and how each shows on the one Stack that it concerns.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use windlass_e2e::git_repo::TestRepo;
use windlass_e2e::stored::is_ready;
use windlass_e2e::world::{World, eventually, eventually_or};

const PROGRAM: &str = "apiVersion: pulumi.com/v1\nkind: Program\nmetadata:\n  name: fine\nprogram:\n  resources:\n    one: \
                       {type: pulumi:Stash, properties: {input: x}}\n  outputs: {one: \"${one.input}\"}\n";

/// A Stack that works, beside each one that does not.
fn world() -> Option<World> {
    let world = World::new()?;
    world.write("program.yaml", PROGRAM);
    world.stack(
        "fine",
        "organization/fine/dev",
        "programRef: {name: fine}\n",
    );
    Some(world)
}

/// Runs once; the sound Stack is Ready all the same; returns the state, reason and message of the other.
fn judged(world: &World, name: &str) -> (String, String, String) {
    let ended = world.once();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(ended.row("fine")["state"], "Ready", "{}", ended.stdout);
    let row = ended.row(name);
    let text = |field: &str| row[field].as_str().unwrap().to_owned();
    (text("state"), text("reason"), text("message"))
}

#[test]
fn wrong_types_and_broken_files_are_bad_input_with_their_place() {
    let Some(world) = world() else { return };
    world.stack(
        "wrong",
        "organization/wrong/dev",
        "programRef: {name: fine}\nrefresh: sometimes\n",
    );
    let ended = world.once();
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("wrong.yaml:11:12: "),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("spec.refresh"), "{}", ended.stderr);
}

#[test]
fn an_unknown_field_is_a_warning() {
    let Some(world) = world() else { return };
    world.stack(
        "fine",
        "organization/fine/dev",
        "programRef: {name: fine}\nprojctRepo: x\n",
    );
    let ended = world.once();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("projctRepo"), "{}", ended.stderr);
}

#[test]
fn specifications_that_cannot_be_run() {
    let Some(world) = world() else { return };
    let cases = [
        (
            "two",
            "programRef: {name: fine}\nprojectRepo: https://example.com/x\nbranch: main\n",
            "several sources",
        ),
        ("none", "refresh: true\n", "names no source"),
        (
            "plugin",
            "source: {type: bucket-of-mine}\n",
            "bucket-of-mine",
        ),
        (
            "commitless",
            "projectRepo: https://example.com/x\n",
            "commit",
        ),
        (
            "circle",
            "programRef: {name: fine}\nprerequisites: [{name: round}]\n",
            "circle -> round -> circle",
        ),
        (
            "round",
            "programRef: {name: fine}\nprerequisites: [{name: circle}]\n",
            "round -> circle -> round",
        ),
    ];
    for (name, spec, _) in cases {
        world.stack(name, &format!("organization/{name}/dev"), spec);
    }
    let ended = world.once();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(ended.row("fine")["state"], "Ready");
    for (name, _, expected) in cases {
        let row = ended.row(name);
        assert_eq!(
            (row["state"].as_str(), row["reason"].as_str()),
            (Some("Failed"), Some("SpecInvalid")),
            "{row}"
        );
        assert!(row["message"].as_str().unwrap().contains(expected), "{row}");
        assert_eq!(row["health"], "Degraded", "{row}");
    }
}

#[test]
fn a_backend_nobody_serves_and_a_name_it_refuses() {
    let Some(world) = world() else { return };
    world.write(
        "backend.yaml",
        "apiVersion: pulumi.com/v1\nkind: Stack\nmetadata: {name: backend}\nspec: {stack: organization/b/dev, backend: \
         \"carrier-pigeon://loft\", programRef: {name: fine}}\n",
    );
    let (state, _, message) = judged(&world, "backend");
    assert_eq!(state, "Failed");
    assert!(message.contains("carrier-pigeon"), "{message}");
    world.remove("backend.yaml");

    world.stack("named", "someone/fine/dev", "programRef: {name: fine}\n");
    let (state, reason, message) = judged(&world, "named");
    assert_eq!(
        (state.as_str(), reason.as_str()),
        ("Failed", "SpecInvalid"),
        "{message}"
    );
    assert!(message.contains("organization"), "{message}");
}

#[test]
fn a_missing_secret_is_waited_for() {
    let Some(world) = world() else { return };
    let spec = "programRef: {name: fine}\nsecretsRef:\n  fine:key: {type: Secret, secret: {name: late, key: k}}\n";
    world.stack("patient", "organization/fine/patient", spec);
    let (state, _, message) = judged(&world, "patient");
    assert_eq!(state, "Waiting", "{message}");
    assert!(message.contains("Secret \"late\""), "{message}");

    let _running = world.start(&[]);
    world.write(
        "secret.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: late}\nstringData: {k: v}\n",
    );
    eventually(Duration::from_secs(240), "patient Ready", || {
        let ended = world.windlass(&["status", "patient", "--output", "json"]);
        ended.stdout.contains("\"ready\": true").then_some(())
    });
}

#[test]
fn a_program_that_fails_and_a_passphrase_that_is_wrong() {
    let Some(world) = world() else { return };
    let broken = PROGRAM
        .replace("name: fine", "name: broken")
        .replace("${one.input}", "${two.input}");
    world.write("broken-program.yaml", &broken);
    world.stack(
        "broken",
        "organization/broken/dev",
        "programRef: {name: broken}\n",
    );
    let (state, reason, message) = judged(&world, "broken");
    assert_eq!(
        (state.as_str(), reason.as_str()),
        ("Failed", "RetryingAfterFailure"),
        "{message}"
    );
    assert!(message.contains("two"), "{message}");
    std::fs::remove_file(world.manifests().join("broken.yaml")).unwrap();

    world.stack(
        "locked",
        "organization/fine/locked",
        "programRef: {name: fine}\n",
    );
    assert_eq!(world.once().row("locked")["state"], "Ready");
    let text = std::fs::read_to_string(world.manifests().join("locked.yaml")).unwrap();
    world.write("locked.yaml", &text.replace("value: test", "value: other"));
    let (state, _, message) = judged(&world, "locked");
    assert_eq!(state, "Failed");
    assert!(message.contains("passphrase"), "{message}");
}

#[test]
fn what_is_mended_recovers_without_another_start() {
    let Some(world) = world() else { return };
    let good = "programRef: {name: fine}\n";
    let stack =
        |name: &str, spec: &str| world.stack(name, &format!("organization/fine/{name}"), spec);
    stack(
        "two",
        &format!("{good}projectRepo: https://example.com/x\nbranch: main\n"),
    );
    stack("none", "refresh: true\n");
    stack("plugin", "source: {type: bucket-of-mine}\n");
    stack(
        "circle",
        &format!("{good}prerequisites: [{{name: round}}]\n"),
    );
    stack(
        "round",
        &format!("{good}prerequisites: [{{name: circle}}]\n"),
    );
    world.stack("named", "someone/fine/named", good);
    stack("scheme", good);
    let edit = |name: &str, from: &str, to: &str| {
        let file = format!("{name}.yaml");
        let text = std::fs::read_to_string(world.manifests().join(&file)).unwrap();
        assert!(text.contains(from), "{text}");
        world.write(&file, &text.replace(from, to));
    };
    edit("scheme", &world.state(), "carrier-pigeon://coop");
    let broken = PROGRAM.replace("${one.input}", "${two.input}");
    world.write(
        "program-broken.yaml",
        &broken.replace("name: fine", "name: broken"),
    );
    world.stack(
        "broken",
        "organization/broken/dev",
        "programRef: {name: broken}\n",
    );
    stack("locked", good);
    let all = [
        "two", "none", "plugin", "circle", "round", "named", "scheme", "broken",
    ];
    let running = world.start(&[]);
    let failed = |name: &str| {
        let stack = world.stored_stack(name)?;
        let conditions = stack["status"]["conditions"].as_array()?.clone();
        let telling = ["SpecInvalid", "RetryingAfterFailure", "UpdateFailed"];
        conditions
            .iter()
            .any(|one| telling.contains(&one["reason"].as_str().unwrap_or_default()))
            .then_some(())
    };
    let ready = |name: &str| world.stored_stack(name).filter(is_ready).map(drop);
    let within = |name: &str, what: &str, look: &dyn Fn(&str) -> Option<()>| {
        let wrong = || format!("{name} {what}: {:?}", world.stored_stack(name));
        eventually_or(Duration::from_secs(240), wrong, || look(name));
    };
    for name in all {
        within(name, "failed", &failed);
    }
    within("fine", "ready", &ready);
    // The passphrase is changed to a wrong one, which is noticed.
    within("locked", "ready", &ready);
    edit("locked", "value: test", "value: other");
    within("locked", "failed", &failed);

    for name in ["two", "none", "plugin", "round", "named"] {
        stack(name, good);
    }
    edit("scheme", "carrier-pigeon://coop", &world.state());
    world.write(
        "program-broken.yaml",
        &PROGRAM.replace("name: fine", "name: broken"),
    );
    edit("locked", "value: other", "value: test");
    for name in all.into_iter().chain(["locked"]) {
        within(name, "ready", &ready);
    }
    drop(running);
}

/// A `pulumi` that says it has this version, in front of everything else on the PATH.
fn pretender(world: &World, version: &str) -> String {
    let dir = world.path().join("pretender");
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("pulumi");
    std::fs::write(&file, format!("#!/bin/sh\necho v{version}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin", dir.display())
}

#[test]
fn a_pulumi_that_is_too_old_or_missing_is_named() {
    let Some(world) = World::new() else { return };
    world.write("program.yaml", PROGRAM);
    world.stack("old", "organization/fine/old", "programRef: {name: fine}\n");
    let path = pretender(&world, "3.100.0");
    let ended = world.once_with(&[], &[("PATH", &path)]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let row = ended.row("old");
    assert_eq!(row["reason"], "PulumiVersionTooLow", "{row}");
    assert!(
        row["message"].as_str().unwrap().contains("3.100.0"),
        "{row}"
    );

    // Nothing but what git needs.
    let bare = world.path().join("bare");
    std::fs::create_dir(&bare).unwrap();
    symlink("/usr/bin/git", bare.join("git")).unwrap();
    let ended = world.once_with(&[], &[("PATH", bare.to_str().unwrap())]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(
        ended.row("old")["message"]
            .as_str()
            .unwrap()
            .contains("pulumi"),
        "{}",
        ended.stdout
    );

    // It is put in place: the next run goes well, without an edit.
    let ended = world.once();
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stderr, ended.stdout);
}

#[test]
fn hostile_repositories_hurt_their_own_stack_alone() {
    let Some(world) = world() else { return };
    let escape = TestRepo::create(&world.path().join("escape")).unwrap();
    escape
        .commit(
            "main",
            &[
                ("Pulumi.yaml", "100644", b"name: e\nruntime: yaml\n"),
                ("out", "120000", b"../../etc/passwd"),
            ],
        )
        .unwrap();
    let projectless = TestRepo::create(&world.path().join("projectless")).unwrap();
    projectless
        .commit("main", &[("README", "100644", b"nothing here")])
        .unwrap();
    for (name, repo) in [("escape", &escape), ("projectless", &projectless)] {
        let spec = format!("projectRepo: {}\nbranch: main\n", repo.file_url());
        world.stack(name, &format!("organization/{name}/dev"), &spec);
    }
    let ended = world.once();
    assert_eq!(ended.row("fine")["state"], "Ready", "{}", ended.stderr);
    for (name, expected) in [("escape", "out"), ("projectless", "Pulumi.yaml")] {
        let row = ended.row(name);
        assert_eq!(row["state"], "Failed", "{row}");
        assert!(row["message"].as_str().unwrap().contains(expected), "{row}");
    }
}
