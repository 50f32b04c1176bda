//! The agent as it lives in a pod: brought in, probed, first of its processes, visited by people.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/pod.rs"]
mod pod;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command};

use common::{Bench, STASH, ended, file, run, tools, until};
use pod::{Pod, publish};
use windlass_agent::AgentClient;
use windlass_api::run::{InterruptCause, Operation, ProgramSource, RunState};

const AGENT: &str = env!("CARGO_BIN_EXE_windlass-agent");

#[test]
fn install_needs_nothing_but_itself() {
    let share = tempfile::tempdir().unwrap();
    let dest = share.path().join("agent");
    let workspace = share.path().join("workspace");
    let install = |dest: &Path, workspace: &str| {
        let mut command = Command::new(AGENT);
        command.env_clear().arg("install").arg(dest);
        command.args(["--workspace", workspace]).output().unwrap()
    };
    // Over an older one that is running: its file must not be written to.
    std::fs::copy("/bin/sleep", &dest).unwrap();
    let mut old = Command::new(&dest).arg("60").spawn().unwrap();
    let said = install(&dest, workspace.to_str().unwrap());
    old.kill().unwrap();
    old.wait().unwrap();
    assert!(said.status.success(), "{said:?}");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&dest), mode(&workspace)), (0o755, 0o777));
    let version = Command::new(&dest).arg("version").output().unwrap();
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("windlass-agent "));
    let left: Vec<_> = std::fs::read_dir(share.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 2, "{left:?}");

    // What somebody made of the workspace before stays, even a link to what is not here.
    std::fs::remove_dir(&workspace).unwrap();
    symlink("/app/program", &workspace).unwrap();
    assert!(
        install(share.path(), workspace.to_str().unwrap())
            .status
            .success()
    );
    assert_eq!(
        std::fs::read_link(&workspace).unwrap(),
        Path::new("/app/program")
    );
    let other = share.path().join("none");
    assert!(install(&dest, "").status.success());
    assert!(!other.exists());

    let nowhere = install(&share.path().join("no/such/agent"), "");
    let said = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert!(
        !nowhere.status.success() && said.contains("no/such/agent"),
        "{said}"
    );
}

#[tokio::test]
async fn a_probe_says_whether_the_agent_listens() {
    let mut pod = Pod::with_shim().await;
    let probe = |pod: &Pod| pod.command("probe").output().unwrap();
    let listening = probe(&pod);
    assert!(listening.status.success(), "{listening:?}");
    // The socket is no way in: it answers and hears nothing.
    let socket = pod.bench.path("state/probe.sock");
    let client = AgentClient::connect(&socket, u64::MAX).await;
    let spoken = match client {
        Ok(client) => client.hello().await.map(drop),
        Err(e) => Err(e),
    };
    assert!(spoken.is_err());
    pod.connect().await;

    pod.bench.kill_agent();
    let killed = probe(&pod);
    let said = String::from_utf8_lossy(&killed.stderr).into_owned();
    assert!(!killed.status.success() && said.contains("does not listen"));
    // Come back with the socket's file in its way.
    pod.serve().await;
    assert!(probe(&pod).status.success());
}

#[tokio::test]
async fn a_visitor_needs_no_flags_and_is_told_of_a_run() {
    let pod = Pod::with_shim().await;
    let client = pod.connect().await;
    let exec = |args: &[&str]| pod.command("exec").args(args).output().unwrap();
    let request = pod.bench.request("r-1", Operation::Up, "p");
    client.start_run(&request).await.unwrap();
    let out = pod.bench.path("agent-1.out");
    until("the run", || {
        std::fs::read_to_string(&out).unwrap().contains("it runs")
    })
    .await;
    let busy = exec(&["--", "pulumi", "stack"]);
    let said = String::from_utf8_lossy(&busy.stderr).into_owned();
    assert!(!busy.status.success(), "{said}");
    for word in ["busy", "\"r-1\"", "--wait"] {
        assert!(said.contains(word), "{said}");
    }
    std::fs::write(pod.bench.path("go"), "").unwrap();
    assert_eq!(ended(&client, "r-1").await.state, RunState::Succeeded);
    let version = exec(&["--", "pulumi", "version"]);
    assert_eq!(String::from_utf8_lossy(&version.stdout).trim(), "v3.259.0");
    // The container's output is the CLI's, and nothing of the agent's own.
    let shown = std::fs::read_to_string(&out).unwrap();
    assert_eq!(shown, "up | it runs\nup | it ends\n");
    let own = std::fs::read_to_string(pod.bench.path("agent-1.err")).unwrap();
    assert!(own.contains("serving") && !own.contains("it runs"), "{own}");
}

#[tokio::test]
async fn the_memory_that_kubernetes_gives_is_accepted_in_any_form() {
    for limit in ["67108864", "", "64Mi"] {
        let mut bench = Bench::new(Path::new("/nonexistent"));
        bench.shim(pod::SHIM);
        bench.env.insert("AGENT_MEMLIMIT".into(), limit.into());
        bench.env.insert("POD_IP".into(), String::new());
        let pod = Pod::start(bench).await;
        pod.connect().await;
        let said = std::fs::read_to_string(pod.bench.path("agent-1.err")).unwrap();
        assert_eq!(said.contains("AGENT_MEMLIMIT"), limit == "64Mi", "{said}");
    }
}

#[tokio::test]
async fn a_mounted_value_is_read_at_each_run() {
    let Some(tools) = tools() else { return };
    let bench = Bench::new(&tools);
    let program =
        "name: m\nruntime: yaml\nconfig:\n  word: {type: string}\noutputs:\n  word: ${word}\n";
    bench.program("m", program);
    let object = bench.path("mounts/secrets/db");
    let password = |value: &str| publish(&object, &[("password".into(), value.into())].into());
    password("first-canary");
    let pod = Pod::start(bench).await;
    let client = pod.connect().await;
    let path = object.join("password").display().to_string();
    let mut request = pod.bench.request("m-1", Operation::Up, "m");
    request.config = vec![file("word", &path, false, true)];
    let word = |result: &windlass_api::run::RunResult| {
        assert_eq!(result.state, RunState::Succeeded, "{result:?}");
        result.outputs.as_ref().unwrap()["word"].value.clone()
    };
    assert_eq!(word(&run(&client, &request).await), "first-canary");
    password("second-canary");
    request.id = "m-2".into();
    assert_eq!(word(&run(&client, &request).await), "second-canary");

    let reason = |result: windlass_api::run::RunResult| {
        let reason = result.failure.and_then(|f| f.reason).unwrap_or_default();
        (reason, result.message)
    };
    request.id = "m-3".into();
    request.config = vec![file(
        "word",
        &object.join("user").display().to_string(),
        false,
        true,
    )];
    let (missing, said) = reason(run(&client, &request).await);
    assert_eq!(missing, "ConfigFileMissing");
    assert!(said.contains("\"db\" has no key \"user\""), "{said}");
    request.id = "m-4".into();
    request.config = vec![file("word", "/etc/passwd", false, true)];
    let (outside, said) = reason(run(&client, &request).await);
    assert_eq!(outside, "ConfigFileOutside", "{said}");
    assert!(!pod.bench.logs().contains("canary"));
}

/// A tree of one program in a folder `infra`.
fn tree() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(STASH.len() as u64);
    header.set_mode(0o644);
    builder
        .append_data(&mut header, "infra/Pulumi.yaml", STASH.as_bytes())
        .unwrap();
    builder.into_inner().unwrap()
}

#[tokio::test]
async fn a_visitor_finds_the_program_and_its_stack_in_the_workspace() {
    let Some(tools) = tools() else { return };
    let mut bench = Bench::new(&tools);
    bench.env.remove("PULUMI_OPTION_PARALLEL");
    // As a Stack's own environment says it: a bare CLI in the pod sees nothing else.
    let backend = bench.backend();
    bench.env.insert("PULUMI_BACKEND_URL".into(), backend);
    // Without it the CLI looks for the home of this very user.
    let home = bench.path(".pulumi").display().to_string();
    bench.env.insert("PULUMI_HOME".into(), home);
    let pod = Pod::start(bench).await;
    let client = pod.connect().await;
    client
        .put_tree("sha256:aa", std::io::Cursor::new(tree()))
        .await
        .unwrap();
    let mut request = pod.bench.request("t-1", Operation::Up, "stash");
    request.program = ProgramSource::Tree {
        digest: "sha256:aa".into(),
        dir: "infra".into(),
    };
    assert_eq!(run(&client, &request).await.state, RunState::Succeeded);

    let workspace = pod.bench.path("workspace");
    assert!(workspace.join("Pulumi.yaml").is_file());
    let mut bare = Command::new(tools.join("pulumi"));
    bare.args(["stack", "--show-name"]).current_dir(&workspace);
    bare.env_clear().envs(&pod.bench.env);
    let mut by_link = Command::new("sh");
    let cd = format!("cd {} && pulumi stack --show-name", workspace.display());
    by_link.args(["-c", &cd]).env_clear().envs(&pod.bench.env);
    let mut by_agent = pod.command("exec");
    by_agent
        .args(["--", "pulumi", "stack", "--show-name"])
        .current_dir(&workspace);
    for mut command in [bare, by_link, by_agent] {
        let said = command.output().unwrap();
        assert!(said.status.success(), "{command:?} {said:?}");
        assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "dev");
    }
}

#[tokio::test]
async fn the_program_is_in_place_before_the_pods_own_init_containers() {
    let mut pod = Pod::with_shim().await;
    pod.bench.kill_agent();
    let workspace = pod.bench.path("workspace");
    let receive = |pod: &Pod| pod.command("receive");
    pod.begin(receive(&pod)).await;
    let client = pod.connect().await;
    let early = pod.bench.request("r-1", Operation::Up, "p");
    let refused = client.start_run(&early).await.unwrap_err();
    assert!(refused.to_string().contains("only receives"), "{refused}");
    let send = async |client: &AgentClient, dir: &str| {
        client
            .show_tree("sha256:aa", dir, std::io::Cursor::new(tree()))
            .await
    };
    // Somebody's files are not replaced, and no place outside is shown.
    let theirs = send(&client, "infra").await.unwrap_err();
    assert!(theirs.to_string().contains("left as it is"), "{theirs}");
    std::fs::remove_dir_all(&workspace).unwrap();
    std::fs::create_dir(&workspace).unwrap();
    for wrong in ["other", "../..", "/etc"] {
        let error = send(&client, wrong).await.unwrap_err();
        assert!(error.to_string().contains("no directory"), "{error}");
    }
    send(&client, "infra").await.unwrap();
    drop(client);
    let status = pod.bench.agent.take().unwrap().wait().unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(
        std::fs::read_to_string(workspace.join("Pulumi.yaml")).unwrap(),
        STASH
    );

    // Again, as after a restart of the node: it waits for the word, and ends badly without it.
    pod.begin(receive(&pod)).await;
    pod.connect().await;
    let mut agent = pod.bench.agent.take().unwrap();
    let pid = agent.id().to_string();
    Command::new("kill").arg(pid).status().unwrap();
    assert_eq!(agent.wait().unwrap().code(), Some(1));
}

/// A shell as the first process of a PID namespace of its own, or a visible skip.
fn namespace() -> Option<Vec<&'static str>> {
    let ways: [&[&str]; 2] = [
        &["--pid", "--fork", "--kill-child", "--mount-proc"],
        &[
            "--user",
            "--map-root-user",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ],
    ];
    for way in ways {
        let tried = Command::new("unshare").args(way).arg("true").output();
        if tried.is_ok_and(|o| o.status.success()) {
            return Some(way.to_vec());
        }
    }
    eprintln!("SKIP: no PID namespace can be made here (unshare)");
    None
}

/// The agent as process 1.
struct First {
    pod: Pod,
    unshare: Child,
}

impl Drop for First {
    fn drop(&mut self) {
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}

/// Children of a process.
fn children(pid: u32) -> Vec<(u32, String)> {
    let stat = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (head, rest) = text.rsplit_once(") ")?;
        let name = head.split_once('(')?.1.to_owned();
        let mut fields = rest.split(' ');
        let state = fields.next()?.to_owned();
        Some((
            fields.next()?.parse::<u32>().ok()?,
            format!("{name} {state}"),
        ))
    };
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter_map(|p| {
            stat(p)
                .filter(|(parent, _)| *parent == pid)
                .map(|s| (p, s.1))
        })
        .collect()
}

async fn first(way: &[&str]) -> First {
    let mut pod = Pod::with_shim().await;
    pod.bench.kill_agent();
    let mut command = Command::new("unshare");
    command.args(way).arg(AGENT).arg("serve");
    command.args(["--interrupt-grace-seconds", "30"]);
    command.arg("--state-dir").arg(pod.bench.path("state"));
    command.env_clear().envs(&pod.bench.env);
    pod.begin(command).await;
    let unshare = pod.bench.agent.take().unwrap();
    First { pod, unshare }
}

#[tokio::test]
async fn process_1_lets_the_cli_finish_and_ends_well() {
    let Some(namespace) = namespace() else { return };
    let mut first = first(&namespace).await;
    let client = first.pod.connect().await;
    let request = first.pod.bench.request("r-1", Operation::Up, "p");
    client.start_run(&request).await.unwrap();
    let out = first.pod.bench.path("agent-2.out");
    until("the run", || {
        std::fs::read_to_string(&out).unwrap().contains("it runs")
    })
    .await;
    let watching = tokio::spawn({
        let client = client.clone();
        async move { ended(&client, "r-1").await }
    });
    // The kubelet's signal goes to process 1 alone.
    let one = children(first.unshare.id())[0].0;
    Command::new("kill").arg(one.to_string()).status().unwrap();
    let result = watching.await.unwrap();
    assert_eq!(result.state, RunState::Cancelled, "{result:?}");
    assert_eq!(
        result.failure.unwrap().interrupted,
        Some(InterruptCause::AgentStopping)
    );
    drop(client);
    let status = first.unshare.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(
        std::fs::read_to_string(&out)
            .unwrap()
            .contains("interrupted")
    );
    let journal = std::fs::read_to_string(first.pod.bench.path("state/journal.jsonl")).unwrap();
    let last = journal.lines().last().unwrap();
    assert!(last.contains("r-1") && last.contains("cancelled"), "{last}");
}

#[tokio::test]
async fn process_1_reaps_what_others_leave() {
    let Some(namespace) = namespace() else { return };
    let first = first(&namespace).await;
    let one = children(first.unshare.id())[0].0;
    let end = first.pod.bench.path("end");
    // Its parent is gone at once, as that of a plugin that a person's command left.
    let orphan = format!(
        "sh -c 'while [ ! -e {} ]; do sleep 0.05; done' >/dev/null 2>&1 & exit 0",
        end.display()
    );
    let entered = Command::new("nsenter")
        .args(["--pid", "--mount", "--target", &one.to_string()])
        .args(["sh", "-c", &orphan])
        .output();
    if !entered.is_ok_and(|o| o.status.success()) {
        eprintln!("SKIP: the PID namespace cannot be entered here (nsenter)");
        return;
    }
    until("the orphan to be process 1's", || !children(one).is_empty()).await;
    std::fs::write(end, "").unwrap();
    until("the orphan to be reaped", || children(one).is_empty()).await;
}
