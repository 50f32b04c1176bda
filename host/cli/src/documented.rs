//! What `deploy/README.md` says of flags, values and reasons is what there is.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::CommandFactory as _;
use serde_json::Value;

use crate::args::Cli;

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    let path = repository().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The part of the README below a heading.
fn section(heading: &str) -> String {
    let text = read("deploy/README.md");
    let (_, below) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    below.split("\n## ").next().unwrap().to_owned()
}

/// The words in code style in the first column of its tables.
fn first_column(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let words = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    words.map(str::to_owned).collect()
}

#[test]
fn every_flag_of_run_is_in_the_table_with_its_variable_and_default() {
    let mut cli = Cli::command();
    cli.build();
    let run = cli.find_subcommand("run").unwrap();
    let mut rows = Vec::new();
    for argument in run.get_arguments() {
        let (Some(flag), false) = (argument.get_long(), argument.is_hide_set()) else {
            continue;
        };
        if flag == "help" {
            continue;
        }
        let code = |text: String| {
            if text.is_empty() {
                text
            } else {
                format!("`{text}`")
            }
        };
        let variable = argument
            .get_env()
            .map(|name| name.to_string_lossy().into_owned());
        let defaults = argument.get_default_values().iter();
        let default: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
        let default = match argument.get_action() {
            clap::ArgAction::Count => String::new(),
            _ => default.join(","),
        };
        let help = argument
            .get_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        let help = help.trim_end_matches('.').replace('|', "\\|");
        rows.push(format!(
            "| `--{flag}` | {} | {} | {help} |",
            code(variable.unwrap_or_default()),
            code(default)
        ));
    }
    let text = section("Flags of `windlass run`");
    let missing: Vec<_> = rows.iter().filter(|row| !text.contains(*row)).collect();
    assert!(
        missing.is_empty(),
        "rows that the table is to have: {missing:#?}"
    );
    assert_eq!(
        first_column(&text).len(),
        rows.len(),
        "flags that are no more"
    );
}

/// The names of values by their paths, down to what is no table of its own.
fn paths(value: &Value, before: &str, all: &mut Vec<(String, Value)>) {
    const WHOLE: [&str; 4] = [
        "podSecurityContext",
        "securityContext",
        "resources",
        "labels",
    ];
    for (name, value) in value.as_object().unwrap() {
        let path = format!("{before}{name}");
        let table = value.as_object().is_some_and(|table| !table.is_empty());
        if table && !WHOLE.contains(&name.as_str()) {
            paths(value, &format!("{path}."), all);
        } else {
            all.push((path, value.clone()));
        }
    }
}

#[test]
fn every_value_of_the_chart_is_in_the_table_with_its_default() {
    let values: Value = serde_saphyr::from_str(&read("deploy/helm/windlass/values.yaml")).unwrap();
    let mut all = Vec::new();
    paths(&values, "", &mut all);
    let rows: Vec<_> = all
        .iter()
        .map(|(path, value)| format!("| `{path}` | `{value}` |"))
        .collect();
    let wanted = format!("| value | default |\n|---|---|\n{}", rows.join("\n"));
    assert!(
        section("Values").contains(&wanted),
        "the table is to be:\n\n{wanted}\n"
    );
}

#[test]
fn every_reason_is_explained() {
    let sources = read("host/api/src/conditions.rs") + &read("host/core/src/phase.rs");
    let (_, reasons) = sources.split_once("pub mod stack_reason").unwrap();
    let constants = reasons.lines().filter(|line| line.contains(": &str = \""));
    let wanted: BTreeSet<String> = constants
        .map(|line| line.split('"').nth(1).unwrap().to_owned())
        .collect();
    assert!(wanted.len() > 30, "{wanted:?}");
    let explained = first_column(&section("Troubleshoot"));
    let missing: Vec<_> = wanted.difference(&explained).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
