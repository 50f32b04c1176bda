//! Configuration of every kind reaches the program, and secret values nothing else.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/things.rs"]
mod things;

use std::path::Path;

use common::{Bench, PASSPHRASE, env_var, file, inline, provider, run, tools};
use serde_json::json;
use windlass_api::run::{ConfigItem, ConfigValue, Operation, RunState};

const PROGRAM: &str = "name: conf
runtime: yaml
config:
  plain: {type: string}
  number: {type: integer}
  zero: {type: string}
  word: {type: string}
  fromFile: {type: string}
  fromEnv: {type: string}
  shape: {type: object}
  base: {type: string}
resources:
  a:
    type: windlasstest:index:Thing
    properties:
      value: ${plain}
      secretOut: ${word}
outputs:
  plain: ${plain}
  number: ${number}
  zero: ${zero}
  word: ${word}
  fromFile: ${fromFile}
  fromEnv: ${fromEnv}
  shape: ${shape}
  base: ${base}
  made: ${a.secret}
";

fn items() -> Vec<ConfigItem> {
    let path = |key: &str, value, secret| ConfigItem {
        key: key.into(),
        path: true,
        value: ConfigValue::Inline { value },
        secret,
    };
    vec![
        inline("plain", json!("p"), false),
        inline("conf:number", json!(42), false),
        inline("zero", json!("0123"), false),
        inline("word", json!("inline-canary-1"), true),
        file("fromFile", "mounts/secret", false, true),
        env_var("fromEnv", "FROM_ENV_TOKEN", true),
        path("shape.list[0]", json!("x"), false),
        path("shape.deep", json!("nested-canary-2"), true),
    ]
}

fn bench(tools: &Path, provider: &Path) -> Bench {
    let mut bench = Bench::with_provider(tools, provider);
    bench.program("conf", PROGRAM);
    std::fs::write(
        bench.path("workspace/conf/Pulumi.dev.yaml"),
        "config:\n  conf:base: from the program\n  conf:plain: loses\n",
    )
    .unwrap();
    std::fs::create_dir(bench.path("workspace/mounts")).unwrap();
    std::fs::write(bench.path("workspace/mounts/secret"), "file-canary-3").unwrap();
    bench
        .env
        .insert("FROM_ENV_TOKEN".into(), "env-canary-4".into());
    // Notes the arguments and the names of variables of every CLI process, then is the CLI.
    bench.shim(&format!(
        "#!/bin/sh\n{{ echo \"ARGS $*\"; env | cut -d= -f1 | tr '\\n' ' '; echo; }} >>{}\nexec {}/pulumi \"$@\"\n",
        bench.path("recorded").display(),
        tools.display()
    ));
    bench
}

/// Every file below a folder that holds a text.
fn files_with(dir: &Path, text: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files_with(&entry.path(), text, found);
        } else if kind.is_file() {
            let bytes = std::fs::read(entry.path()).unwrap();
            if bytes.windows(text.len()).any(|w| w == text.as_bytes()) {
                found.push(entry.path().display().to_string());
            }
        }
    }
}

fn assert_values(result: &windlass_api::run::RunResult) {
    assert_eq!(result.state, RunState::Succeeded, "{result:?}");
    let outputs = result.outputs.as_ref().unwrap();
    let value = |name: &str| (outputs[name].value.clone(), outputs[name].secret);
    assert_eq!(value("plain"), (json!("p"), false));
    assert_eq!(value("number"), (json!(42), false));
    assert_eq!(value("zero"), (json!("0123"), false));
    assert_eq!(value("base"), (json!("from the program"), false));
    assert_eq!(value("word"), (json!("inline-canary-1"), true));
    assert_eq!(value("fromFile"), (json!("file-canary-3"), true));
    assert_eq!(value("fromEnv"), (json!("env-canary-4"), true));
    assert_eq!(value("made"), (json!("inline-canary-1"), true));
    assert_eq!(outputs["shape"].value["deep"], json!("nested-canary-2"));
    assert_eq!(outputs["shape"].value["list"], json!(["x"]));
}

#[tokio::test]
async fn every_kind_of_value_and_no_secret_where_it_does_not_belong() {
    let (Some(tools), Some(provider)) = (tools(), provider()) else {
        return;
    };
    let mut bench = bench(&tools, &provider);
    let client = bench.start().await;
    let mut request = bench.request("c-1", Operation::Up, "conf");
    request.config = items();
    assert_values(&run(&client, &request).await);

    // Once the stack is there, nothing but the operation itself is a process.
    std::fs::remove_file(bench.path("recorded")).unwrap();
    request.id = "c-2".into();
    let again = run(&client, &request).await;
    assert_values(&again);
    assert_eq!(again.changes.get("same"), Some(&2), "{again:?}");
    let recorded = std::fs::read_to_string(bench.path("recorded")).unwrap();
    assert_eq!(
        recorded.lines().filter(|l| l.starts_with("ARGS")).count(),
        1,
        "{recorded}"
    );
    assert!(!recorded.contains("PULUMI_OPTION_PARALLEL"), "{recorded}");

    // After a restart the journal has no values: they are read again.
    bench.kill_agent();
    let client = bench.start().await;
    assert_values(&client.wait_run("c-2").await.unwrap());
    client.shutdown().await.unwrap();
    bench.agent.take().unwrap().wait().unwrap();

    for canary in [
        "inline-canary-1",
        "nested-canary-2",
        "file-canary-3",
        "env-canary-4",
        PASSPHRASE,
    ] {
        let mut found = Vec::new();
        files_with(bench.home.path(), canary, &mut found);
        let allowed = bench.path("workspace/mounts/secret").display().to_string();
        found.retain(|f| *f != allowed);
        assert!(found.is_empty(), "{canary} is in {found:?}");
    }
}

#[tokio::test]
async fn a_key_that_is_elsewhere_is_used_by_the_cli_alone() {
    let (Some(tools), Some(provider)) = (tools(), provider()) else {
        return;
    };
    let mut bench = bench(&tools, &provider);
    // Compression hides the state from the agent, as a bucket would.
    bench
        .env
        .insert("PULUMI_DIY_BACKEND_GZIP".into(), "true".into());
    let client = bench.start().await;
    let mut request = bench.request("k-1", Operation::Up, "conf");
    request.config = items();
    assert_values(&run(&client, &request).await);
    request.id = "k-2".into();
    assert_values(&run(&client, &request).await);
    bench.kill_agent();
    for canary in [
        "inline-canary-1",
        "nested-canary-2",
        "file-canary-3",
        "env-canary-4",
    ] {
        let mut found = Vec::new();
        files_with(bench.home.path(), canary, &mut found);
        found.retain(|f| !f.ends_with("mounts/secret"));
        assert!(found.is_empty(), "{canary} is in {found:?}");
    }
}
