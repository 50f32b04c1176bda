#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use windlass_sdk::native::{Answers, evaluate};
use windlass_sdk::{
    Answer, Artifact, ErrorClass, Fault, Question, Resolution, SourceProvider, SourceRequest,
};

use super::{Program, resolve, yaml};

fn run(spec: Value, program: Option<Value>) -> Result<Resolution, Fault> {
    let request = SourceRequest {
        spec,
        ..SourceRequest::default()
    };
    let answer = |question: &Question| {
        let Question::KubeGet { object } = question else {
            panic!("asked {question:?}")
        };
        assert_eq!(
            (object.group_kind().as_str(), object.name.as_str()),
            ("pulumi.com/Program", "web")
        );
        Ok(Answer::Object {
            object: program.clone(),
        })
    };
    evaluate(|host| resolve(host, &request), answer).map(|(resolution, _)| resolution)
}

fn text(resolution: &Resolution, path: &str) -> String {
    let Artifact::Files { files } = &resolution.artifact else {
        panic!("no files")
    };
    let file = files.iter().find(|file| file.path == path).unwrap();
    String::from_utf8(file.content.clone()).unwrap()
}

#[test]
fn a_program_becomes_two_files() {
    let program = json!({
        "metadata": {"name": "web", "generation": 7},
        "program": {
            "configuration": {"size": {"type": "Number", "default": 2}},
            "resources": {"answer": {"type": "pulumi:Stash", "properties": {"input": "yes", "list": ["on", 1, {}], "empty": []}}},
            "outputs": {"out": "${answer.output}", "yes": null},
            "packages": {"random": "4.0.0"}
        }
    });
    let found = run(json!({"programRef": {"name": "web"}}), Some(program)).unwrap();
    assert_eq!(found.revision, "7");
    assert_eq!(found.poll_after_ms, None);
    assert_eq!(
        text(&found, "Pulumi.yaml"),
        "name: \"web\"\nruntime: \"yaml\"\npackages:\n  random: \"4.0.0\"\n"
    );
    let expected = r#"config:
  size:
    type: "Number"
    default: 2
resources:
  answer:
    type: "pulumi:Stash"
    properties:
      input: "yes"
      list:
        - "on"
        - 1
        - {}
      empty: []
outputs:
  out: "${answer.output}"
  "yes": null
"#;
    assert_eq!(text(&found, "Main.yaml"), expected);
}

#[test]
fn odd_characters_are_escaped() {
    assert_eq!(
        yaml::emit(&json!({"a b": "\u{7f}\u{2028}\"\n\u{e9}"})),
        "\"a b\": \"\\u007f\\u2028\\\"\\n\u{e9}\"\n"
    );
    assert_eq!(yaml::emit(&json!([[1, 2], []])), "-\n  - 1\n  - 2\n- []\n");
}

#[test]
fn a_missing_program_may_come() {
    let fault = run(json!({"programRef": {"name": "web"}}), None).unwrap_err();
    assert_eq!(
        (fault.class, fault.reason.as_str()),
        (ErrorClass::Unavailable, "SourceUnavailable")
    );
    assert!(
        fault
            .message
            .starts_with("unable to retrieve program for stack")
    );
}

#[test]
fn what_is_no_program_is_refused() {
    let fault = run(
        json!({"programRef": {"name": "web"}}),
        Some(json!({"metadata": {"generation": 1}})),
    )
    .unwrap_err();
    assert_eq!(
        (fault.class, fault.reason.as_str()),
        (ErrorClass::Invalid, "ProgramInvalid")
    );
    assert_eq!(run(json!({}), None).unwrap_err().reason, "SpecInvalid");
    assert_eq!(
        Program::validate(&Answers::new(vec![]), &json!({}))[0].field,
        "programRef.name"
    );
}
