//! The child process itself gone wrong: what it cannot reach, and what its parent
//! does not believe.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{fetch, fetcher, fetcher_with, git_tree};
use windlass_fetch::{Credential, Fetcher, Probe, WorkerCommand};

#[tokio::test]
async fn the_child_reaches_nothing_but_its_folder() {
    let (fetcher, store) = fetcher();
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, b"canary").unwrap();
    let read: Vec<PathBuf> = [
        secret.clone(),
        "/etc/passwd".into(),
        "/etc/shadow".into(),
        "/proc/self/environ".into(),
        format!("/proc/{}/environ", std::process::id()).into(),
        format!("/proc/{}/mem", std::process::id()).into(),
        store.path().join("index"),
    ]
    .into();
    let write: Vec<PathBuf> = [
        outside.path().join("new"),
        secret,
        "/tmp/windlass-probe".into(),
    ]
    .into();
    let execute: Vec<PathBuf> = ["/bin/true".into(), "/usr/bin/git".into()].into();
    let tried = read.len() + write.len() + execute.len();
    let mut write_all = write;
    write_all.push("inside".into());
    let probe = Probe {
        read,
        write: write_all,
        execute,
        ..Probe::default()
    };
    let mut found = fetcher.probe(probe).await.unwrap();
    assert_eq!(found.remove("environment").unwrap(), "");
    if let Some(gap) = fetcher.sandbox_gap() {
        windlass_e2e::world::skip(gap);
        return;
    }
    assert_eq!(found.remove("write inside").unwrap(), "ok");
    assert_eq!(found.len(), tried);
    for (what, outcome) in found {
        assert!(outcome.contains("Permission denied"), "{what}: {outcome}");
    }
}

#[tokio::test]
async fn too_much_memory_or_time_ends_the_child_alone() {
    let (fetcher, _dir) = fetcher_with(|_| {});
    let greedy = Probe {
        allocate: 300 << 20,
        ..Probe::default()
    };
    assert_eq!(
        fetcher.probe(greedy).await.unwrap_err().reason(),
        "MemoryExceeded"
    );
    let modest = Probe {
        allocate: 100 << 20,
        ..Probe::default()
    };
    fetcher.probe(modest).await.unwrap();
    assert!(
        fetcher.stats().peak_child_rss > 100 << 20,
        "memory is measured"
    );
    let (fetcher, _dir) = fetcher_with(|config| config.limits.wall = Duration::from_secs(2));
    let silent = Probe {
        hang: true,
        ..Probe::default()
    };
    assert_eq!(
        fetcher.probe(silent).await.unwrap_err().reason(),
        "TimedOut"
    );
}

#[test]
fn the_child_ends_with_its_parent() {
    let scratch = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_windlass-fetch-worker"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let probe = serde_json::to_value(Probe {
        hang: true,
        ..Probe::default()
    })
    .unwrap();
    let request = serde_json::json!({
        "operation": {"probe": probe},
        "credential": null,
        "limits": windlass_fetch::Limits::default(),
        "extra_ca_pem": null,
        "proxy": null,
        "unsupported": "refuse",
        "allow_file": false,
        "reach": {"loopback": false, "denied": []},
        "scratch": scratch.path(),
    });
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{request}").unwrap();
    // What the kernel does when a parent dies, however it dies.
    drop(stdin);
    let mut answer = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut answer)
        .unwrap();
    assert_eq!(
        (child.wait().unwrap().code(), answer.as_str()),
        (Some(3), "")
    );
}

/// A fetcher whose child runs this shell script in its scratch directory.
fn scripted(script: &str) -> (Fetcher, tempfile::TempDir) {
    let args = vec!["-c".to_owned(), format!("read -r request\n{script}")];
    fetcher_with(|config| {
        config.worker = WorkerCommand {
            program: "/bin/sh".into(),
            args,
        };
        config.limits.wall = Duration::from_secs(5);
        config.limits.bytes = 1 << 20;
    })
}

const EXPORTED: &str = r#"echo '{"result":{"Ok":"exported"},"peak_rss":1,"sandbox_gap":null}'"#;

#[tokio::test]
async fn the_parent_does_not_believe_the_child() {
    let line = |path: &str, kind: &str, size: u64| {
        format!(r#"echo '{{"path":"{path}","kind":"{kind}","offset":0,"size":{size}}}' >> entries"#)
    };
    let content = "echo hello > content";
    for (script, reason) in [
        (
            format!("/bin/ln -s /etc/passwd content; {}", line("a", "file", 10)),
            "WorkerFailed",
        ),
        (
            format!("/usr/bin/mkfifo content; {}", line("a", "file", 10)),
            "WorkerFailed",
        ),
        (
            format!("{content}; /bin/ln -s /etc/passwd entries"),
            "WorkerFailed",
        ),
        (
            format!("{content}; {}", line("../../x", "file", 1)),
            "NameForbidden",
        ),
        (
            format!("{content}; {}", line(".git/hooks/x", "file", 1)),
            "NameForbidden",
        ),
        (
            format!("echo ../../x > content; {}", line("a", "symlink", 7)),
            "SymlinkEscapes",
        ),
        (
            format!(
                "{content}; {}; {}",
                line("a", "file", 1),
                line("a", "file", 1)
            ),
            "NameForbidden",
        ),
        (
            format!("{content}; {}", line("a", "file", 1 << 40)),
            "TooManyBytes",
        ),
        (
            format!("{content}; {}", line("a", "file", 100)),
            "WorkerFailed",
        ),
        ("true".to_owned(), "WorkerFailed"),
    ] {
        let (fetcher, dir) = scripted(&format!("{script}; {EXPORTED}"));
        let err = fetch(&fetcher, "https://example.com/r.git", &"1".repeat(40))
            .await
            .unwrap_err();
        assert_eq!(err.reason(), reason, "{script}: {err}");
        assert_eq!(
            std::fs::read_dir(dir.path().join("trees")).unwrap().count(),
            0
        );
    }
    // The harness itself works: a good export is taken.
    let (fetcher, _dir) = scripted(&format!("{content}; {}; {EXPORTED}", line("a", "file", 5)));
    fetch(&fetcher, "https://example.com/r.git", &"1".repeat(40))
        .await
        .unwrap();
}

#[tokio::test]
async fn strange_answers_and_ends_are_errors() {
    for script in [
        "exit 7",
        "kill -9 $$",
        "echo nonsense",
        r#"echo '{"result":{"Ok":"readable"},"peak_rss":1}'"#,
    ] {
        let (fetcher, _dir) = scripted(script);
        let err = fetch(&fetcher, "https://example.com/r.git", &"1".repeat(40))
            .await
            .unwrap_err();
        assert_eq!(err.reason(), "WorkerFailed", "{script}");
    }
    // Filling the disk is noticed while it happens.
    let (fetcher, _dir) = scripted("while :; do /bin/head -c 10000000 /dev/zero >> content; done");
    let err = fetch(&fetcher, "https://example.com/r.git", &"1".repeat(40))
        .await
        .unwrap_err();
    assert_eq!(err.reason(), "TooManyBytes", "{err}");
    assert!(Path::new("/bin/head").exists());
}

#[tokio::test]
async fn a_credential_is_in_no_argument_environment_or_file() {
    let seen = tempfile::tempdir().unwrap();
    let seen = seen.path();
    let copy = |from: &str, to: &str| format!("/bin/cat {from} > {}/{to};", seen.display());
    // The shell gets the request on its standard input, as the child does.
    let script = [
        copy("/proc/$$/cmdline", "arguments"),
        copy("/proc/$$/environ", "environment"),
        copy("* /dev/null", "files"),
        format!("echo \"$request\" > {}/request;", seen.display()),
        "echo canary-token >&2; exit 1".to_owned(),
    ]
    .concat();
    let (fetcher, store) = scripted(&script);
    let credential = Some(Credential::Bearer {
        token: "canary-token".into(),
    });
    let request = git_tree("https://example.com/r.git", &"1".repeat(40), credential);
    let err = fetcher.fetch(request.clone()).await.unwrap_err();
    assert!(!format!("{err} {err:?} {request:?}").contains("canary"));
    let read =
        |name: &str| String::from_utf8_lossy(&std::fs::read(seen.join(name)).unwrap()).into_owned();
    for name in ["arguments", "environment", "files"] {
        let text = read(name);
        // The script itself has the word once, where it complains.
        let word = text.replace("echo canary-token", "");
        assert!(!word.contains("canary"), "{name}");
    }
    assert!(
        read("request").contains("canary-token"),
        "the child was not given it at all"
    );
    let left = Command::new("grep")
        .args(["-r", "canary"])
        .arg(store.path())
        .output()
        .unwrap();
    assert!(left.stdout.is_empty());
}
