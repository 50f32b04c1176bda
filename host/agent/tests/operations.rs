//! Each operation with the real CLI, on programs that need nothing but it.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Bench, STASH, run, tools};
use serde_json::json;
use windlass_api::run::{Operation, ProgramSource, RunState};

#[tokio::test]
async fn a_stack_comes_up_stays_and_goes() {
    let Some(tools) = tools() else { return };
    let mut bench = Bench::new(&tools);
    bench.program("stash", STASH);
    let client = bench.start().await;

    let up = run(&client, &bench.request("up-1", Operation::Up, "stash")).await;
    assert_eq!(up.state, RunState::Succeeded, "{up:?}");
    assert_eq!(up.changes.get("create"), Some(&2));
    assert_eq!(up.resources, Some(1));
    assert!(up.reached_engine);
    let outputs = up.outputs.unwrap();
    assert_eq!(
        (outputs["word"].value.clone(), outputs["word"].secret),
        (json!("hello"), false)
    );
    assert_eq!(up.project.unwrap().runtime, "yaml");

    let again = run(&client, &bench.request("up-2", Operation::Up, "stash")).await;
    assert_eq!(again.changes.get("same"), Some(&2), "{again:?}");

    let preview = run(
        &client,
        &bench.request("preview-1", Operation::Preview, "stash"),
    )
    .await;
    assert_eq!(
        (preview.state, preview.outputs),
        (RunState::Succeeded, None)
    );

    let refresh = run(
        &client,
        &bench.request("refresh-1", Operation::Refresh, "stash"),
    )
    .await;
    assert_eq!(refresh.state, RunState::Succeeded, "{refresh:?}");
    assert_eq!(refresh.outputs.unwrap()["word"].value, json!("hello"));

    let mut destroy = bench.request("destroy-1", Operation::Destroy, "stash");
    destroy.program = ProgramSource::ProjectOnly {
        name: "stash".into(),
        runtime: "yaml".into(),
    };
    let destroy = run(&client, &destroy).await;
    assert_eq!(
        (destroy.state, destroy.resources),
        (RunState::Succeeded, Some(0)),
        "{destroy:?}"
    );
    assert_eq!(bench.locks("stash"), 0);
}
