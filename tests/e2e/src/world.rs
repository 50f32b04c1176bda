//! A directory of manifests, a data directory and a state directory of their own, and the real `windlass` over them.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Everything that a test of `windlass local` needs. Its processes end with it.
pub struct World {
    dir: TempDir,
    binaries: PathBuf,
    tools: PathBuf,
}

/// How a `windlass` process ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// The JSON document on stdout.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }

    /// The row of one Stack.
    pub fn row(&self, name: &str) -> Value {
        let document = self.json();
        let rows = document["stacks"].as_array().cloned().unwrap_or_default();
        rows.into_iter()
            .find(|row| row["name"] == name)
            .unwrap_or_else(|| panic!("no Stack {name} in {document}\n{}", self.stderr))
    }
}

impl World {
    /// A new world, or None with a visible reason where the real CLI is not at hand.
    pub fn new() -> Option<World> {
        let target = workspace_root().join("target");
        let from = |variable: &str, default: PathBuf| {
            std::env::var_os(variable).map_or(default, PathBuf::from)
        };
        let tools = from("WINDLASS_TOOLS_DIR", target.join("tools"));
        let binaries = from("WINDLASS_BIN_DIR", target.join("debug"));
        if !tools.join("pulumi").exists() {
            skip(&format!(
                "there is no pulumi in {}; `cargo xtask tools` makes it",
                tools.display()
            ));
            return None;
        }
        for binary in ["windlass", "windlass-agent"] {
            assert!(
                binaries.join(binary).exists(),
                "{} is not built; `cargo xtask test` builds it first",
                binaries.join(binary).display()
            );
        }
        let dir = tempfile::Builder::new()
            .prefix("w")
            .tempdir()
            .expect("a temporary directory");
        for sub in ["manifests", "data", "state"] {
            std::fs::create_dir(dir.path().join(sub)).expect("a directory");
        }
        Some(World {
            dir,
            binaries,
            tools,
        })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    pub fn binaries(&self) -> &Path {
        &self.binaries
    }

    pub fn tools(&self) -> &Path {
        &self.tools
    }

    pub fn manifests(&self) -> PathBuf {
        self.path().join("manifests")
    }

    /// The backend's URL.
    pub fn state(&self) -> String {
        format!("file://{}", self.path().join("state").display())
    }

    /// Writes a manifest. `@STATE@` becomes the backend's URL.
    pub fn write(&self, file: &str, text: &str) {
        let path = self.manifests().join(file);
        // Whole at once: a watching process never sees half a file.
        let mut temporary = tempfile::NamedTempFile::new_in(self.path()).expect("a file");
        temporary
            .write_all(text.replace("@STATE@", &self.state()).as_bytes())
            .expect("a file");
        temporary.persist(path).expect("a file");
    }

    pub fn remove(&self, file: &str) {
        std::fs::remove_file(self.manifests().join(file)).expect("the manifest");
    }

    /// A Stack with the passphrase from a literal, its other fields given as YAML below `spec`.
    pub fn stack(&self, name: &str, stack: &str, spec: &str) {
        let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
        self.write(
            &format!("{name}.yaml"),
            &format!(
                "apiVersion: pulumi.com/v1\nkind: Stack\nmetadata:\n  name: {name}\nspec:\n  stack: {stack}\n  \
                 backend: @STATE@\n  envRefs:\n    PULUMI_CONFIG_PASSPHRASE: {{type: Literal, literal: {{value: \
                 test}}}}\n{spec}"
            ),
        );
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.binaries.join("windlass"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = [self.tools.clone(), self.binaries.clone()];
        let folders = own.into_iter().chain(std::env::split_paths(&path));
        command
            .args(arguments)
            .env("PATH", std::env::join_paths(folders).expect("a PATH"))
            .env("WINDLASS_PLUGIN_DIR", plugin_dir())
            .current_dir(self.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs `windlass local --once` over the manifests, with a JSON report.
    pub fn once(&self) -> Ended {
        self.once_with(&[], &[])
    }

    /// The same with more arguments and variables.
    pub fn once_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
        let mut command = self.local(&["--once", "--output", "json"]);
        command.args(arguments).envs(variables.iter().copied());
        ended(
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("windlass"),
        )
    }

    /// `windlass local` with these arguments, not yet started.
    pub fn local(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&["local"]);
        command
            .arg("--data-dir")
            .arg(self.data())
            .args(arguments)
            .arg(self.manifests());
        command
    }

    /// Starts `windlass local` and leaves it running, its messages in a file.
    pub fn start(&self, arguments: &[&str]) -> Running {
        self.start_with(arguments, &[])
    }

    /// The same with more variables.
    pub fn start_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Running {
        let log = self.path().join("windlass.log");
        let open = || {
            std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(&log)
                .expect("a log")
        };
        let child = self
            .local(arguments)
            .envs(variables.iter().copied())
            .stdout(open())
            .stderr(open())
            // As a shell starts it: Ctrl-C is a signal to all of the group.
            .process_group(0)
            .spawn()
            .expect("windlass");
        Running { child, log }
    }

    /// Another command of the binary on this data directory.
    pub fn windlass(&self, arguments: &[&str]) -> Ended {
        self.begin(arguments).end()
    }

    /// A command that needs no data directory.
    pub fn command_ended(&self, arguments: impl IntoIterator<Item = String>) -> Ended {
        let mut command = self.command(&[]);
        command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        ended(command.spawn().expect("windlass"))
    }

    /// The same, going on.
    pub fn begin(&self, arguments: &[&str]) -> Begun {
        let mut command = self.command(arguments);
        command.arg("--data-dir").arg(self.data());
        Begun(
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("windlass"),
        )
    }

    /// Processes that belong to this world, by the directory in their command line: (pid, command line).
    pub fn processes(&self) -> Vec<(i32, String)> {
        let mine = self.path().display().to_string();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<i32>().ok())
            else {
                continue;
            };
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let cwd = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
            if pid != std::process::id() as i32
                && (line.contains(&mine) || cwd.starts_with(self.path()))
            {
                found.push((pid, line));
            }
        }
        found
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // By pid, and only what names this world's own directory.
        for (pid, _) in self.processes() {
            let _ = Command::new("kill")
                .arg("-9")
                .arg(pid.to_string())
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// A command that goes on and ends by itself.
pub struct Begun(Child);

impl Begun {
    /// Waits for its end.
    pub fn end(self) -> Ended {
        ended(self.0)
    }
}

/// A `windlass local` that goes on.
pub struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// What Ctrl-C does at a terminal.
    pub fn interrupt(&self) {
        self.signal("INT");
    }

    /// Sends a signal to the group, of which it is the first.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .arg(format!("-{name}"))
            .arg("--")
            .arg(format!("-{}", self.child.id()))
            .status();
        assert!(sent.is_ok_and(|status| status.success()), "SIG{name}");
    }

    /// Waits for its end.
    pub fn wait(mut self, limit: Duration) -> Option<i32> {
        eventually(limit, "the end of windlass", || {
            match self.child.try_wait() {
                Ok(Some(status)) => Some(status.code()),
                _ => None,
            }
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ended(child: Child) -> Ended {
    let output = child.wait_with_output().expect("windlass");
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Waits until there is something, at most this long.
pub fn eventually<T>(limit: Duration, what: &str, look: impl FnMut() -> Option<T>) -> T {
    eventually_or(limit, || what.to_owned(), look)
}

/// The same, with what is wrong told by a function that looks when the time is over.
pub fn eventually_or<T>(
    limit: Duration,
    what: impl Fn() -> String,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < limit, "not within {limit:?}: {}", what());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Says visibly that a test did not run, and why.
pub fn skip(reason: &str) {
    eprintln!("SKIP: {reason}");
    if let Some(path) = std::env::var_os("WINDLASS_SKIP_LOG")
        && let Ok(mut file) = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
    {
        let _ = writeln!(file, "{reason}");
    }
}

pub fn workspace_root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where the built-in plugins are.
pub fn plugin_dir() -> PathBuf {
    std::env::var_os("WINDLASS_PLUGIN_DIR")
        .map_or_else(|| workspace_root().join("target/plugins"), PathBuf::from)
}

/// Puts the tests' Pulumi provider on the PATH of a world. None, with a visible reason, where it is not built.
pub fn provider(world: &World) -> Option<()> {
    let binary = world.binaries.join("pulumi-resource-windlasstest");
    if binary.exists() {
        return Some(());
    }
    skip(&format!(
        "{} is not built; `cargo xtask test` builds it first",
        binary.display()
    ));
    None
}
