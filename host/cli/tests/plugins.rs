//! `plugin`, `health` and `replay` with the real plugin host.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::{Ran, fixture, plugins, run, windlass};
use serde_json::{Value, json};

fn check(file: &Path) -> Ran {
    let ran = run(windlass()
        .args(["plugin", "check", "--output", "json"])
        .arg(file));
    assert!(ran.stderr.is_empty(), "{}", ran.stderr);
    ran
}

fn reason(ran: &Ran) -> String {
    let status: Value = serde_json::from_str(&ran.stdout).unwrap();
    status["error"]["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn files_that_are_no_components_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&str, &[u8], &str); 3] = [
        ("text.wasm", b"hello", "NotAComponent"),
        ("core.wasm", b"\0asm\x01\0\0\0", "CoreModule"),
        ("cut.wasm", b"\0asm\x0d\0\x01\0\x01", "Invalid"),
    ];
    for (name, bytes, wanted) in cases {
        let file = dir.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        let ran = check(&file);
        assert_eq!((ran.code, reason(&ran).as_str()), (2, wanted), "{name}");
    }
    let missing = run(windlass()
        .args(["plugin", "check"])
        .arg(dir.path().join("no.wasm")));
    assert_eq!(missing.code, 2);
    assert!(missing.stderr.contains("no.wasm"), "{}", missing.stderr);
}

#[test]
fn a_truncated_plugin_is_refused_and_the_whole_one_is_good() {
    let Some(plugins) = plugins() else { return };
    let whole = std::fs::read(plugins.join("health-argocd.wasm")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("health_other.wasm");
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let ran = check(&file);
    assert_eq!((ran.code, reason(&ran).as_str()), (2, "Invalid"));

    let ran = check(&plugins.join("health-argocd.wasm"));
    let status: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    assert_eq!(status["builtin"], json!(true));
    assert_eq!(status["provides"], json!(["health:pulumi.com/Stack"]));

    // As cargo names it, beside no list of digests: the same bytes, the installed name.
    let copy = dir.path().join("health_argocd.wasm");
    std::fs::write(&copy, &whole).unwrap();
    let ran = run(windlass()
        .args(["plugin", "check"])
        .arg(&copy)
        .env("WINDLASS_PLUGIN_DIR", &plugins));
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.contains("installed as health-argocd.wasm"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_list_shows_what_is_served_and_why_the_rest_is_not() {
    let Some(plugins) = plugins() else { return };
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("broken.wasm"), b"\0asm\x01\0\0\0").unwrap();
    let mut command = windlass();
    command
        .args(["plugin", "list", "--plugin-dir"])
        .arg(&plugins);
    let good = run(&mut command);
    assert_eq!(good.code, 0, "{}{}", good.stdout, good.stderr);
    for text in [
        "source-git",
        "source:git",
        "source:flux",
        "backend:file",
        "backend:https",
        "health:pulumi.com/Stack",
        "built in",
        "not configured",
    ] {
        assert!(good.stdout.contains(text), "{text}: {}", good.stdout);
    }
    let mixed = run(command.arg("--plugin-dir").arg(dir.path()));
    assert_eq!(mixed.code, 1);
    assert!(
        mixed.stdout.contains("broken: a core module"),
        "{}",
        mixed.stdout
    );
}

#[test]
fn health_judges_the_stacks_in_a_file() {
    let Some(plugins) = plugins() else { return };
    let mut command = windlass();
    command
        .arg("health")
        .arg(fixture("health.yaml"))
        .arg("--plugin-dir")
        .arg(&plugins);
    let table = run(&mut command);
    assert_eq!(table.code, 1, "{}", table.stderr);
    assert!(
        table.stdout.contains("Stack default/good"),
        "{}",
        table.stdout
    );
    let json = run(command.args(["--output", "json"]));
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let verdicts: Vec<(&str, &str)> = json["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|verdict| {
            (
                verdict["name"].as_str().unwrap(),
                verdict["status"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(verdicts, [("good", "Healthy"), ("stuck", "Degraded")]);
    assert!(
        json["objects"][1]["message"]
            .as_str()
            .unwrap()
            .contains("the disk is full")
    );
}

#[test]
fn scripts_of_an_argocd_cm_judge_beside_the_built_in_rules() {
    let Some(plugins) = plugins() else { return };
    if !plugins.join("health-lua.wasm").is_file() {
        println!("SKIP: health-lua.wasm is not among the built-in plugins: cargo xtask plugins");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let cm = dir.path().join("argocd-cm.yaml");
    let text = "apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cm}
data:
  resource.customizations.healt.example.org_Odd: x
  resource.customizations.health.pulumi.com_Stack: |
    return {status = 'Suspended', message = 'by ' .. obj.metadata.name}
";
    std::fs::write(&cm, text).unwrap();
    let mut command = windlass();
    command
        .arg("health")
        .arg(fixture("health.yaml"))
        .arg("--argocd-cm")
        .arg(&cm)
        .arg("--plugin-dir")
        .arg(&plugins);
    let table = run(&mut command);
    // The script's verdict is the one that holds, and it is no bad one.
    assert_eq!(table.code, 0, "{}{}", table.stdout, table.stderr);
    for wanted in ["by good", "ARGOCD-CM", "the disk is full"] {
        assert!(table.stdout.contains(wanted), "{}", table.stdout);
    }
    for wanted in ["type healt not supported", "app.kubernetes.io/part-of"] {
        assert!(table.stderr.contains(wanted), "{}", table.stderr);
    }
    let json = run(command.args(["--output", "json"]));
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let stuck = &json["objects"][1];
    assert_eq!(stuck["argocdCm"]["status"], "Suspended");
    assert_eq!(stuck["builtIn"]["status"], "Degraded");
}

#[test]
fn health_of_what_is_no_object_is_bad_input() {
    let Some(plugins) = plugins() else { return };
    let dir = tempfile::tempdir().unwrap();
    for (text, wanted) in [
        ("just: text", "apiVersion"),
        ("{broken", "not valid YAML"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}",
            "no object in it",
        ),
    ] {
        let file = dir.path().join("object.yaml");
        std::fs::write(&file, text).unwrap();
        let ran = run(windlass()
            .arg("health")
            .arg(&file)
            .arg("--plugin-dir")
            .arg(&plugins));
        assert_eq!(ran.code, 2, "{text}: {}", ran.stderr);
        assert!(ran.stderr.contains(wanted), "{text}: {}", ran.stderr);
    }
}

#[test]
fn a_call_is_recorded_and_replayed() {
    let Some(plugins) = plugins() else { return };
    let dir = tempfile::tempdir().unwrap();
    let transcript = dir.path().join("resolve.json");
    let ran = run(windlass()
        .args(["plugin", "run"])
        .arg(plugins.join("source-program.wasm"))
        .arg("resolve")
        .arg(fixture("program-stack.yaml"))
        .arg("--save")
        .arg(&transcript));
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("asks"), "{}", ran.stdout);
    assert!(ran.stdout.contains("\"revision\""), "{}", ran.stdout);

    let replay = |file: &Path| {
        run(windlass()
            .args(["replay", "--plugin-dir"])
            .arg(&plugins)
            .arg(file))
    };
    let same = replay(&transcript);
    assert_eq!(same.code, 0, "{}{}", same.stdout, same.stderr);
    assert!(
        same.stdout.contains("same result as recorded"),
        "{}",
        same.stdout
    );

    // The answer that it was given decides: with another one the result is another.
    let text = std::fs::read_to_string(&transcript).unwrap();
    let mut record: Value = serde_json::from_str(&text).unwrap();
    record["asked"][0]["answer"]["Ok"]["object"] = Value::Null;
    std::fs::write(&transcript, record.to_string()).unwrap();
    let other = replay(&transcript);
    assert_eq!(other.code, 1, "{}{}", other.stdout, other.stderr);
    assert!(other.stdout.contains("DIFFERENT"), "{}", other.stdout);
}

#[test]
fn a_function_that_the_plugin_lacks_is_bad_input() {
    let Some(plugins) = plugins() else { return };
    let ran = run(windlass()
        .args(["plugin", "run"])
        .arg(plugins.join("health-argocd.wasm"))
        .arg("resolve")
        .arg(fixture("program-stack.yaml")));
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("provides no source"), "{}", ran.stderr);
}
