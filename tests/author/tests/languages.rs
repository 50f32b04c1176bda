//! JavaScript and Python: the templates and the example, built with the tools that their READMEs name.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use windlass_author::Author;
use windlass_e2e::world::{skip, workspace_root};

/// The commands that are there, or a visible reason.
fn has(author: &Author, programs: &[&str], what_for: &str) -> bool {
    for program in programs {
        if author
            .sh(Path::new(""), &format!("command -v {program}"))
            .code
            != 0
        {
            skip(&format!("there is no {program}, which builds {what_for}"));
            return false;
        }
    }
    true
}

fn sh(author: &Author, folder: &str, line: &str) -> String {
    let ended = author.sh(Path::new(folder), line);
    assert_eq!(ended.code, 0, "{folder}$ {line}\n{}", ended.all());
    ended.stdout
}

/// Installs what `package.json` in `folder` names; None, with a visible reason, where the registry cannot be reached.
fn npm_install(author: &Author, folder: &str) -> Option<PathBuf> {
    let ended = author.sh(Path::new(folder), "npm install --no-audit --no-fund 2>&1");
    if ended.code != 0 {
        let last = ended.stdout.lines().last().unwrap_or_default();
        skip(&format!("npm cannot install componentize-qjs here: {last}"));
        return None;
    }
    Some(author.folder().join(folder).join("node_modules"))
}

#[test]
fn javascript() {
    let Some(author) = Author::new() else { return };
    if !has(&author, &["node", "npm"], "JavaScript plugins") {
        return;
    }
    let mut tools: Option<PathBuf> = None;
    for kind in ["source", "health", "backend"] {
        let name = format!("{kind}-made-in-js");
        sh(
            &author,
            "",
            &format!("windlass plugin new {name} --kind {kind} --lang js"),
        );
        match &tools {
            // The same tools for all.
            Some(tools) => {
                std::os::unix::fs::symlink(tools, author.folder().join(&name).join("node_modules"))
                    .unwrap();
            }
            None => match npm_install(&author, &name) {
                Some(installed) => tools = Some(installed),
                None => return,
            },
        }
        sh(&author, &name, "npm run build");
        let answered = sh(&author, &name, "npm test");
        let wanted = match kind {
            "source" => "made-in-js-program@7",
            "health" => "\"status\": \"Healthy\"",
            _ => "organization/shop/web-prod",
        };
        assert!(answered.contains(wanted), "{answered}");
        sh(
            &author,
            &name,
            &format!(
                "windlass plugin policy {name}.wasm > policy.yaml && windlass plugin check {name}.wasm --policy policy.yaml"
            ),
        );
    }
    example(&author);
    mistakes(&author);
}

/// `sdk/examples/health-certificate`, with the objects beside it.
fn example(author: &Author) {
    let from = workspace_root().join("sdk/examples/health-certificate");
    let copied = format!(
        "cp -rL {} certificate",
        std::fs::canonicalize(from).unwrap().display()
    );
    sh(author, "", &copied);
    let tools = author.folder().join("source-made-in-js/node_modules");
    std::os::unix::fs::symlink(tools, author.folder().join("certificate/node_modules")).unwrap();
    sh(author, "certificate", "npm run build");
    for (object, status, words) in [
        ("issued", "Healthy", "2030-01-01"),
        ("issuing", "Progressing", "Issuing certificate"),
        ("failed", "Degraded", "rate limited"),
    ] {
        let line = format!(
            "windlass plugin run --output json health-certificate.wasm assess test/{object}.yaml"
        );
        let verdict: serde_json::Value =
            serde_json::from_str(&sh(author, "certificate", &line)).unwrap();
        assert_eq!(verdict["result"]["status"], status, "{verdict}");
        assert!(
            verdict["result"]["message"]
                .as_str()
                .unwrap()
                .contains(words),
            "{verdict}"
        );
    }
}

/// What the tools let through, and the host says.
fn mistakes(author: &Author) {
    let source = author.folder().join("health-made-in-js/index.js");
    let good = std::fs::read_to_string(&source).unwrap();
    let summary = "summary: 'Health of a MadeInJs',";
    for (old, new, reason, words) in [
        (
            "JSON.stringify({",
            "String({",
            "Descriptor",
            "mend `describe`",
        ),
        (
            "describe: () =>",
            "describe: async () =>",
            "",
            "a promise is no answer",
        ),
        (
            summary,
            "summary: [].none.of.it,",
            "Trial",
            "mend `describe`",
        ),
        (
            "name: 'health-made-in-js'",
            "name: 'other'",
            "Descriptor",
            "\"other\"",
        ),
        (summary, "summary: 'x'.repeat(1 << 30),", "Trial", ""),
    ] {
        assert!(good.contains(old), "{old}");
        std::fs::write(&source, good.replacen(old, new, 1)).unwrap();
        sh(author, "health-made-in-js", "npm run build");
        let checked = author.windlass(&[
            "plugin",
            "check",
            "health-made-in-js/health-made-in-js.wasm",
        ]);
        assert_eq!(checked.code, 2, "{new}: {}", checked.all());
        for wanted in [reason, words] {
            assert!(
                checked.stdout.contains(wanted),
                "{new}, {wanted}: {}",
                checked.stdout
            );
        }
    }
    // An exception is told, with the place that it comes from.
    let wrong = good.replacen("const ready =", "status.nothing.of.it; const ready =", 1);
    assert_ne!(wrong, good);
    std::fs::write(&source, wrong).unwrap();
    sh(author, "health-made-in-js", "npm run build");
    exception_is_told(
        author,
        "health-made-in-js",
        "assess test/object.yaml",
        &["TypeError", "of undefined", "at assess"],
    );
    // An interface that is used and not asked for.
    std::fs::write(&source, good).unwrap();
    let world = author.folder().join("health-made-in-js/wit/world.wit");
    let text = std::fs::read_to_string(&world).unwrap();
    let more = "import windlass:plugin/log@0.1.0;\n  import windlass:plugin/http@0.1.0;";
    std::fs::write(
        &world,
        text.replace("import windlass:plugin/log@0.1.0;", more),
    )
    .unwrap();
    sh(author, "health-made-in-js", "npm run build");
    let checked = author.windlass(&[
        "plugin",
        "check",
        "health-made-in-js/health-made-in-js.wasm",
    ]);
    assert_eq!(checked.code, 2, "{}", checked.all());
    assert!(
        checked.stdout.contains("windlass:plugin/http"),
        "{}",
        checked.stdout
    );
}

/// A call of the component in this folder ends with these words of an exception that nobody caught.
fn exception_is_told(author: &Author, name: &str, call: &str, words: &[&str]) {
    let line = format!("windlass plugin run {name}.wasm {call}");
    let ended = author.sh(Path::new(name), &line);
    assert_eq!(ended.code, 1, "{}", ended.all());
    let error = ended.stderr.split_once("error:").unwrap_or_default().1;
    for word in ["PluginPanic"].iter().chain(words) {
        assert!(error.contains(word), "{word}: {}", ended.all());
    }
}

#[test]
fn python() {
    let Some(author) = Author::new() else { return };
    if !has(&author, &["python3"], "Python plugins") {
        return;
    }
    let name = "backend-names";
    sh(
        &author,
        "",
        &format!("windlass plugin new {name} --kind backend --lang python"),
    );
    let install = "python3 -m venv .venv && .venv/bin/pip install -q -r requirements.txt 2>&1";
    let ended = author.sh(Path::new(name), install);
    if ended.code != 0 {
        let last = ended.stdout.lines().last().unwrap_or_default();
        skip(&format!("pip cannot install componentize-py here: {last}"));
        return;
    }
    let build = format!(
        ".venv/bin/componentize-py -d wit -w component componentize --stub-wasi app -o {name}.wasm"
    );
    sh(&author, name, &build);
    sh(&author, name, &format!("windlass plugin check {name}.wasm"));
    let opened = sh(
        &author,
        name,
        &format!(
            "windlass plugin run {name}.wasm open test/stack.yaml --answers test/answers.yaml"
        ),
    );
    assert!(
        opened.contains("organization/shop/web-prod") && opened.contains("s3://states"),
        "{opened}"
    );
    // The rule refuses in its own words.
    sh(&author, name, "sed -i s/web-prod/prod/ test/stack.yaml");
    let refused = author.sh(
        Path::new(name),
        &format!("windlass plugin run {name}.wasm open test/stack.yaml"),
    );
    assert_eq!(refused.code, 1, "{}", refused.all());
    assert!(
        refused.stderr.contains("StackNameInvalid"),
        "{}",
        refused.all()
    );
    sh(
        &author,
        name,
        "sed -i 's/parts = asked/parts = len(asked)/' app.py",
    );
    sh(&author, name, &build);
    let call = "open test/stack.yaml";
    exception_is_told(&author, name, call, &["TypeError", "open, line"]);
}
