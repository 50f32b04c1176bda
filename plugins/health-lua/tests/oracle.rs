//! Argo CD's own interpreter, set up as Argo CD does it (`tests/tools/lua-oracle`), on the table of cases and on thousands of
//! objects made from those of `rules.yaml`: it must say what we say.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::{CASES, Case, NOW, RULES, cases, judge};
use health_lua::config::Script;
use health_lua::vm::Limits;
use health_lua::{Failure, Verdict};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde::Deserialize;
use serde_json::{Value, json};

/// Objects that are made from those of the rules.
const OBJECTS: usize = 3_000;

#[derive(Debug, Deserialize)]
struct Rule {
    name: String,
    #[serde(default, rename = "openLibs")]
    open_libs: bool,
    script: String,
    objects: Vec<Value>,
}

/// A verdict as far as both interpreters must agree: not on the words of errors.
#[derive(Debug, PartialEq)]
enum Said {
    Health(String, String),
    Empty,
    Error,
}

impl Said {
    fn ours(verdict: &Result<Verdict, Failure>) -> Said {
        match verdict {
            Ok(Verdict::Health(status, message)) => {
                Said::Health(format!("{status:?}"), without_addresses(message))
            }
            Ok(Verdict::Empty) => Said::Empty,
            Err(_) => Said::Error,
        }
    }

    fn theirs(line: &Value) -> Said {
        let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        if line["empty"] == true {
            Said::Empty
        } else if line["error"].is_string() {
            Said::Error
        } else {
            Said::Health(text("status"), without_addresses(&text("message")))
        }
    }
}

/// `table: 0xc0de` says where it is, which is nobody's business.
fn without_addresses(text: &str) -> String {
    let mut parts = text.split("0x");
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        clean.push_str("0x");
        clean.push_str(part.trim_start_matches(|it: char| it.is_ascii_hexdigit()));
    }
    clean
}

fn oracle() -> Option<PathBuf> {
    let tools = std::env::var_os("WINDLASS_TOOLS_DIR").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/tools"),
        PathBuf::from,
    );
    let program = tools.join("lua-oracle");
    if program.is_file() {
        return Some(program);
    }
    let reason = "no lua-oracle in target/tools; `cargo xtask tools lua` makes it";
    println!("SKIP: {reason}");
    if let Some(log) = std::env::var_os("WINDLASS_SKIP_LOG") {
        let mut log = std::fs::OpenOptions::new().append(true).open(log).unwrap();
        writeln!(log, "{reason}").unwrap();
    }
    None
}

/// What the oracle says to each question, a script's index and an object.
fn ask(program: PathBuf, scripts: &[Script], questions: &[(usize, Value)]) -> Vec<Value> {
    let mut child = Command::new(program)
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let scripts: Vec<Value> = scripts
        .iter()
        .map(|script| json!({"text": script.text, "openLibs": script.open_libs}))
        .collect();
    let mut input = child.stdin.take().unwrap();
    let mut text = format!("{}\n", json!(scripts));
    for (script, object) in questions {
        text.push_str(&format!(
            "{}\n",
            json!({"script": script, "object": object})
        ));
    }
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let answers: Vec<Value> = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    writer.join().unwrap().unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(answers.len(), questions.len());
    answers
}

#[test]
fn the_table_is_argo_cds() {
    let Some(program) = oracle() else { return };
    let cases = cases(CASES);
    let scripts: Vec<Script> = cases.iter().map(script).collect();
    let questions: Vec<(usize, Value)> = cases
        .iter()
        .enumerate()
        .map(|(at, case)| (at, case.object.clone()))
        .collect();
    let answers = ask(program, &scripts, &questions);
    let mut wrong = Vec::new();
    for (case, answer) in cases.iter().zip(&answers) {
        let same = Said::ours(&judge(case, NOW)) == Said::theirs(answer);
        // A difference that is gone is no longer to be told of.
        if same == case.differs.is_some() {
            wrong.push(format!("{}: {answer}, not {:?}", case.name, case.expected));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn script(case: &Case) -> Script {
    Script {
        text: case.script.clone(),
        open_libs: case.open_libs,
    }
}

#[test]
fn thousands_of_odd_objects_are_judged_alike() {
    let Some(program) = oracle() else { return };
    let rules: Vec<Rule> = serde_saphyr::from_str(RULES).unwrap();
    let scripts: Vec<Script> = rules
        .iter()
        .map(|rule| Script {
            text: rule.script.clone(),
            open_libs: rule.open_libs,
        })
        .collect();
    let mut runner = TestRunner::deterministic();
    let change = (any::<prop::sample::Index>(), value());
    let made = (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        prop::collection::vec(change, 0..4),
    );
    let questions: Vec<(usize, Value)> = (0..OBJECTS)
        .map(|_| {
            let (rule, object, changes) = made.new_tree(&mut runner).unwrap().current();
            let rule = rule.index(rules.len());
            let mut object = object.get(&rules[rule].objects).clone();
            for (place, change) in changes {
                alter(&mut object, &place, change);
            }
            (rule, object)
        })
        .collect();
    let answers = ask(program, &scripts, &questions);
    let (mut errors, mut wrong) = (0, Vec::new());
    for ((rule, object), answer) in questions.iter().zip(&answers) {
        let found = health_lua::judge(&scripts[*rule], object, NOW, &Limits::default());
        let theirs = Said::theirs(answer);
        errors += usize::from(theirs == Said::Error);
        if Said::ours(&found) != theirs {
            let name = &rules[*rule].name;
            wrong.push(format!(
                "{name}: {object}\n  ours:   {found:?}\n  theirs: {answer}"
            ));
        }
    }
    // The smallest say it best.
    wrong.sort_by_key(String::len);
    wrong.truncate(10);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Neither all errors nor none.
    assert!(
        (OBJECTS / 20..OBJECTS * 3 / 4).contains(&errors),
        "{errors}"
    );
}

/// What stands in the place of a field; none takes the field away.
fn value() -> impl Strategy<Value = Option<Value>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec![0.0, 1.0, -1.0, 2.0, 2.5, 100_000.0, 4_294_967_296.0])
            .prop_map(Value::from),
        prop::sample::select(vec![
            "", "True", "False", "Ready", "Healthy", "Running", "a b", "5", "1e3", "0x10", "é",
            "v3.14", "up", "-7",
        ])
        .prop_map(Value::from),
    ];
    let tree = leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec(
                (
                    prop::sample::select(vec!["type", "status", "message", "a"]),
                    inner
                ),
                0..3
            )
            .prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    });
    prop_oneof![1 => Just(None), 4 => tree.prop_map(Some)]
}

/// Changes one of the places of an object below its top.
fn alter(object: &mut Value, place: &prop::sample::Index, change: Option<Value>) {
    let mut places = Vec::new();
    collect(object, String::new(), &mut places);
    if places.is_empty() {
        return;
    }
    let pointer: &String = place.get(&places);
    match change {
        Some(value) => *object.pointer_mut(pointer).unwrap() = value,
        None => {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            match object.pointer_mut(parent).unwrap() {
                Value::Object(fields) => {
                    fields.remove(name);
                }
                Value::Array(items) => {
                    items.remove(name.parse().unwrap());
                }
                _ => {}
            }
        }
    }
}

fn collect(value: &Value, at: String, places: &mut Vec<String>) {
    let mut below = |name: String, value: &Value| {
        let place = format!("{at}/{name}");
        places.push(place.clone());
        collect(value, place, places);
    };
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, value)| below(name.clone(), value)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(index, value)| below(index.to_string(), value)),
        _ => {}
    }
}
