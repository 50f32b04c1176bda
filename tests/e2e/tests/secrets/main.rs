//! A canary in every place where a secret may stand is found nowhere but where it belongs: not when all goes well, not in
//! what a failure says, not after a kill.
#![allow(clippy::unwrap_used)]

mod scene;

use std::time::Duration;

use tempfile::TempDir;
use windlass_e2e::canaries::Started;
use windlass_e2e::git_server::{Access, GitServer};
use windlass_e2e::world::{eventually, eventually_or, plugin_dir};

use scene::*;

const PATIENCE: Duration = Duration::from_secs(240);

/// Makes three secret outputs and a plain one.
fn keeper() -> String {
    format!(
        "resources:\n  one: {{type: pulumi:Stash, properties: {{input: \"${{token}}\"}}}}\n  two: {{type: pulumi:Stash, \
         properties: {{input: {{fn::secret: {OUTPUT}}}}}}}\n  three:\n    type: windlasstest:index:Thing\n    properties: \
         {{secretOut: \"${{literal}}\"}}\noutputs:\n  kept: ${{one.input}}\n  made: ${{two.input}}\n  given: \
         ${{three.secret}}\n  plain: shown\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_well_tells_no_secret() {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("private").unwrap();
    let access = Access::Basic {
        user: "git".into(),
        pass: GIT.into(),
    };
    server.set_access("private", access);
    let project = format!(
        "name: keeper\nruntime: yaml\nconfig:\n  token: {{type: string}}\n  literal: {{type: string}}\n{}",
        keeper()
    );
    repo.commit("main", &[("Pulumi.yaml", "100644", project.as_bytes())])
        .unwrap();
    let spec = format!(
        "projectRepo: {}\nbranch: main\ngitAuthSecret: git\n",
        server.url("private")
    );
    scene.stack("keeper", "@STATE@", &spec);
    // What an author keeps of a call: everything but the values.
    let input = TempDir::new().unwrap();
    let both = ["keeper.yaml", "secrets.yaml"]
        .map(|file| std::fs::read_to_string(scene.world.manifests().join(file)).unwrap());
    let manifest = input.path().join("both.yaml");
    std::fs::write(&manifest, both.join("\n---\n")).unwrap();

    tokio::task::spawn_blocking(move || {
        let ended = scene.once();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let row = ended.row("keeper");
        for (output, shown) in [
            ("kept", "[secret]"),
            ("made", "[secret]"),
            ("given", "[secret]"),
            ("plain", "shown"),
        ] {
            assert_eq!(row["outputs"][output], shown, "{row}");
        }
        scene.ask("keeper");
        let commands: Vec<String> = scene
            .recorder
            .started()
            .iter()
            .map(|process| process.arguments.join(" "))
            .collect();
        assert!(
            commands
                .iter()
                .any(|line| line.starts_with("up --non-interactive")),
            "{commands:?}"
        );
        let asked = |process: &Started| {
            let has = |pair: &(&str, &str)| {
                let mut all = process.environment.iter();
                all.any(|(name, value)| name == pair.0 && value == pair.1)
            };
            ASKED_FOR[..3].iter().all(has)
        };
        assert!(scene.recorder.started().iter().any(asked));

        let plugin = plugin_dir().join("source-git.wasm");
        let saved = scene.world.path().join("transcript.json");
        let arguments = ["plugin", "run"].map(str::to_owned).into_iter().chain([
            plugin.display().to_string(),
            "resolve".into(),
            manifest.display().to_string(),
            "--save".into(),
            saved.display().to_string(),
        ]);
        let ended = scene.world.command_ended(arguments);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(
            std::fs::read_to_string(&saved)
                .unwrap()
                .contains("refs/heads/main")
        );
        scene.heard("plugin run", &ended);
        scene.search();
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_tells_no_secret() {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("private").unwrap();
    repo.commit(
        "main",
        &[("Pulumi.yaml", "100644", b"name: p\nruntime: yaml\n")],
    )
    .unwrap();
    let access = Access::Basic {
        user: "git".into(),
        pass: GIT.into(),
    };
    server.set_access("private", access);
    let url = server.url("private");

    // A provider that quotes what it was given, and its environment.
    let thing = |properties: &str| {
        format!(
            "resources:\n  thing: {{type: windlasstest:index:Thing, properties: {{{properties}}}}}\n"
        )
    };
    scene.program(
        "provider",
        &thing("fail: \"not with ${token}, ${literal} or ${inline}\""),
    );
    scene.program("quiet", &thing("failEnv: QUIET"));
    scene.program("loud", &thing("failEnv: LOUD"));
    // The value does not fit the project's schema of its configuration.
    let shape = "projectRepo: @REPO@\nbranch: shape\ngitAuthSecret: git\n";
    let project = b"name: shape\nruntime: yaml\nconfig:\n  token: {type: integer}\n  inline: {type: boolean}\n";
    repo.commit("shape", &[("Pulumi.yaml", "100644", project)])
        .unwrap();
    scene.stack("shape", "@STATE@", &shape.replace("@REPO@", &url));
    // Git: refused, with a password in the address, with a token that is no token.
    let private = |auth: &str| format!("projectRepo: {url}\nbranch: main\n{auth}");
    scene.stack("refused", "@STATE@", &private("gitAuthSecret: wrong\n"));
    scene.stack(
        "address",
        "@STATE@",
        &private("gitAuthSecret: git\n").replace("://", &format!("://git:{GIT_URL}@")),
    );
    scene.stack(
        "token",
        "@STATE@",
        &private("gitAuth: {accessToken: {type: Secret, secret: {name: broken, key: token}}}\n"),
    );
    // A plugin that refuses an address, and a CLI that reaches no server.
    scene.stack(
        "bucket",
        &format!("s3://key:{BUCKET}@No_Bucket"),
        "programRef: {name: quiet}\n",
    );
    scene.write_program("database", &thing("failEnv: QUIET"));
    scene.stack(
        "database",
        &format!("postgres://me:{DATABASE}@127.0.0.1:1/db?sslmode=disable"),
        "programRef: {name: database}\n",
    );

    tokio::task::spawn_blocking(move || {
        let ended = scene.once();
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let mut unlike = Vec::new();
        for (name, said) in [
            ("provider", "not with [secret], [secret] or [secret]"),
            ("quiet", "refused: [secret]"),
            ("loud", "refused: [secret]"),
            ("shape", "must be of type"),
            ("refused", "refused the credentials"),
            ("address", "password"),
            ("token", "credential"),
            ("bucket", "credentials belong into the environment"),
            ("database", "127.0.0.1"),
        ] {
            let row = ended.row(name);
            let fits = row["state"] != "Ready" && row["message"].as_str().unwrap().contains(said);
            if !fits {
                unlike.push(format!("{said:?} is not said in {row}"));
            }
            scene.ask(name);
        }
        assert!(unlike.is_empty(), "{}", unlike.join("\n"));
        scene.search();
    })
    .await
    .unwrap();
}

#[test]
fn a_run_that_is_watched_and_loses_its_agent_tells_no_secret() {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    let log = scene.world.path().join("ops.log");
    scene.program(
        "slow",
        &format!(
            "resources:\n  thing:\n    type: windlasstest:index:Thing\n    properties:\n      sleepMs: 2500\n      logFile: \
             {}\n      fail: \"not with ${{token}}, ${{literal}} or ${{inline}}\"\n",
            log.display()
        ),
    );
    let path = scene.recorder.path().to_owned();
    let running = scene.world.start_with(&["-vv"], &[("PATH", &path)]);
    eventually_or(PATIENCE, || running.log(), || log.exists().then_some(()));
    let followed = scene.world.begin(&["logs", "-f", "slow"]);
    let printed = scene.world.windlass(&["logs", "slow"]);
    scene.heard("logs during the run", &printed);
    // The agent that goes on knows the inline values by what is sealed alone.
    let agent = scene
        .world
        .processes()
        .into_iter()
        .find(|(_, line)| line.contains("windlass-agent serve"));
    let killed = std::process::Command::new("kill")
        .args(["-9", &agent.unwrap().0.to_string()])
        .status();
    assert!(killed.unwrap().success());
    scene.heard("logs -f until the agent ended", &followed.end());
    let followed = eventually(PATIENCE, "another agent", || {
        let ended = scene.world.begin(&["logs", "-f", "slow"]).end();
        ended.stdout.contains("[secret]").then_some(ended)
    });
    scene.heard("logs -f", &followed);
    let said = "not with [secret], [secret] or [secret]";
    eventually_or(
        PATIENCE,
        || format!("{:?}", scene.world.stored_stack("slow")),
        || {
            let stack = scene.world.stored_stack("slow")?;
            stack["status"].to_string().contains(said).then_some(())
        },
    );
    // A retry may have come by now.
    let updates = scene.world.updates("slow");
    let failed = updates.iter().find(|one| one.to_string().contains(said));
    let failed = failed.unwrap()["metadata"]["name"].as_str().unwrap();
    scene.ask("slow");
    let kept = scene.world.windlass(&["logs", "slow", "--update", failed]);
    assert!(kept.stdout.contains(said), "{}", kept.stdout);
    drop(running);
    scene.search();
}
