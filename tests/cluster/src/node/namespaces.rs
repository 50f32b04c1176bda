//! The node's own mount and PID namespaces: what it mounts nobody else sees, and with their first
//! process everything ends that was ever started in them, containers included.
//!
//! That first process reads a pipe whose other end only the test's process holds: however that one
//! ends, the node goes too. A shell outside then removes the little that is not in a namespace.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{At as _, Error, Result};

/// `$1`: the node's folder, `$2`: the name of its bridge and cgroup, `$3`: what runs inside.
const OUTSIDE: &str = r#"
unshare --mount --pid --fork --kill-child --propagation private -- sh -c "$3" node "$1"
ip link delete "$2" 2>/dev/null
find /sys/fs/cgroup -depth -type d -path "*/$2-node*" -exec rmdir {} + 2>/dev/null
rm -rf "$1"
"#;

/// The shell's own process as those outside see it is told before `/proc` becomes that of the
/// namespace. What programs write to fixed places stays in here. A kubelet sets kernel parameters of
/// the whole machine: it writes to files of its own instead.
const INSIDE: &str = r#"
set -e
read -r pid rest < /proc/self/stat
mount --make-rshared /
mount -t proc proc /proc
mkdir -p /var/lib/cni
for folder in /run /var/log /var/lib/cni; do mount -t tmpfs tmpfs $folder; done
mkdir -p /run/netns /run/lock
for parameter in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
  kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  if [ -e /proc/sys/$parameter ]; then
    file=$1/parameter-$(echo $parameter | tr / -)
    cat /proc/sys/$parameter > $file
    mount --bind $file /proc/sys/$parameter
  fi
done
echo "$pid"
exec >&2
cat > /dev/null
"#;

/// Far beyond what the kernel takes to end everything in a namespace.
const END_LIMIT: Duration = Duration::from_secs(60);

/// The namespaces. They end, with all that runs in them, when this is dropped.
pub struct Namespaces {
    shell: Child,
    /// The first process in them, as this machine sees it.
    first: String,
    path: String,
}

impl Namespaces {
    /// Makes them. From now on `folder`, the bridge and the cgroup of this `name` are removed at the
    /// end.
    ///
    /// # Errors
    /// `Unable` when this machine refuses.
    pub fn make(folder: &Path, name: &str, path: &str) -> Result<Self> {
        let log = folder.join("namespaces.log");
        let errors = File::create_new(&log).at(&log)?;
        let mut said = File::open(&log).at(&log)?;
        let mut shell = Command::new("sh")
            .args(["-c", OUTSIDE, "node"])
            .args([folder.as_os_str(), name.as_ref(), INSIDE.as_ref()])
            .env("PATH", path)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            // An interrupt from the terminal must not end it before it has done its work.
            .process_group(0)
            .spawn()
            .map_err(|source| Error::Process {
                what: "cannot start the node's sh".to_owned(),
                source,
            })?;
        let mut first = String::new();
        if let Some(stdout) = shell.stdout.take() {
            BufReader::new(stdout).read_line(&mut first).at(&log)?;
        }
        let first = first.trim().to_owned();
        let made = Self {
            shell,
            first,
            path: path.to_owned(),
        };
        if made.first.is_empty() {
            // The file may have lost its name since, with the folder.
            let mut why = String::new();
            let _ = said.read_to_string(&mut why);
            return Err(Error::Unable(format!(
                "a real node cannot have namespaces of its own here: {}",
                why.trim()
            )));
        }
        Ok(made)
    }

    /// A program inside.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.first, "--mount", "--pid", "--"])
            .arg(program)
            .env("PATH", &self.path)
            .current_dir("/");
        command
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let deadline = Instant::now() + END_LIMIT;
        while Instant::now() < deadline && matches!(self.shell.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
