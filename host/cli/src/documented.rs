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

/// The constants of a module of reasons in `host/api/src/conditions.rs`.
fn constants(module: &str) -> BTreeSet<String> {
    let text = read("host/api/src/conditions.rs");
    let (_, below) = text.split_once(&format!("pub mod {module} {{")).unwrap();
    let (body, _) = below.split_once("\n}").unwrap();
    let lines = body.lines().filter(|line| line.contains(": &str = \""));
    lines
        .map(|line| line.split('"').nth(1).unwrap().to_owned())
        .collect()
}

/// The words that look like reasons in what a source file says in quotes, without its tests.
fn quoted(text: &str) -> BTreeSet<String> {
    let text = text.split("#[cfg(test)]").next().unwrap();
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let words = code.flat_map(|line| line.split('"').skip(1).step_by(2));
    let reason = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.chars().skip(1).any(|c| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_alphabetic())
    };
    words.filter(reason).map(str::to_owned).collect()
}

/// The reasons that end runs: those of the host's judgement, and those of the built-in plugins for backends.
fn of_runs() -> BTreeSet<String> {
    let mut all = constants("update_reason");
    for source in [
        "host/tasks/src/judge.rs",
        "host/tasks/src/login.rs",
        "sdk/windlass-sdk/src/cli/outcome.rs",
        "plugins/backend-cloud/src/classify.rs",
        "plugins/backend-diy/src/classify.rs",
    ] {
        let found = quoted(&read(source));
        assert!(!found.is_empty(), "{source} has no reasons any more");
        all.extend(found);
    }
    // Other failures of the agent and the cluster are tried again within the same run; these end it.
    let failures = read("host/tasks/src/failures.rs");
    let ends = |line: &&str| {
        line.contains("(FailureClass::Invalid, \"") || line.contains("\"Unavailable\"")
    };
    let lines: Vec<_> = failures.lines().filter(ends).collect();
    all.extend(quoted(&lines.join("\n")));
    all
}

/// The table of the README that begins with this sentence.
fn table(sentence: &str) -> BTreeSet<String> {
    let text = section("Troubleshoot");
    let (_, below) = text.split_once(sentence).unwrap();
    let rows: Vec<_> = below
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    first_column(&rows.join("\n"))
}

#[test]
fn every_reason_is_explained() {
    let mut of_stacks = constants("stack_reason");
    let phases = read("host/core/src/phase.rs");
    let constants_of_phases = phases.lines().filter(|line| line.contains(": &str = \""));
    of_stacks.extend(constants_of_phases.flat_map(quoted));
    let of_runs = of_runs();
    assert!(
        of_runs.contains("RunLost") && of_runs.len() > 50,
        "{of_runs:?}"
    );
    for (sentence, wanted) in [
        ("By the reason of a condition of a Stack:", of_stacks),
        (
            "By the reason of a condition of a Workspace:",
            constants("workspace_reason"),
        ),
        (
            "By the reason of a condition of an Update, which is one run:",
            of_runs,
        ),
    ] {
        let explained = table(sentence);
        let missing: Vec<_> = wanted.difference(&explained).collect();
        assert!(missing.is_empty(), "{sentence} lacks {missing:?}");
        let gone: Vec<_> = explained.difference(&wanted).collect();
        assert!(
            gone.is_empty(),
            "{sentence} has {gone:?}, which are no more"
        );
    }
}
