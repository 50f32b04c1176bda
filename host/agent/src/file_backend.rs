//! What a backend in a directory lets the agent read without a CLI process: state, salt, locks.
//!
//! Every function answers `None` when it cannot tell (another backend, a compressed or foreign file); the caller then
//! asks the CLI.

mod torn;

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use windlass_api::run::LockInfo;

use crate::events::counted;

pub use torn::LEFT_AFTER;

/// One stack in a directory backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStack {
    root: PathBuf,
    project: String,
    stack: String,
}

#[derive(Deserialize)]
struct StateFile {
    checkpoint: Checkpoint,
}

#[derive(Deserialize)]
struct Checkpoint {
    latest: Option<Latest>,
}

#[derive(Default, Deserialize)]
struct Latest {
    secrets_providers: Option<SecretsProvider>,
    #[serde(default)]
    resources: Option<Vec<Resource>>,
}

/// Who seals the secrets of a stack.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SecretsProvider {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub state: Value,
}

#[derive(Deserialize)]
struct Resource {
    urn: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    outputs: Value,
}

/// The state of a stack, as far as it matters here.
#[derive(Debug, Default)]
pub struct StackState {
    pub secrets: Option<SecretsProvider>,
    pub resources: u32,
    /// Of the stack itself; secrets sealed.
    pub outputs: Value,
}

/// Whether the backend knows a stack.
#[derive(Debug)]
pub enum Lookup {
    Missing,
    Found(StackState),
    /// It is there, and not in a form that is read here.
    Opaque,
}

#[derive(Deserialize)]
struct LockFile {
    pid: i64,
    username: String,
    hostname: String,
    timestamp: String,
}

/// A single name of a file, as project and stack names must be.
fn plain_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

impl FileStack {
    /// Of a backend URL and a name `organization/PROJECT/STACK`; none for any other.
    pub fn locate(url: &str, canonical: &str, home: Option<&str>) -> Option<FileStack> {
        let path = url.strip_prefix("file://")?;
        let path = path.split('?').next()?;
        let root = match path.strip_prefix('~') {
            Some(rest) => Path::new(home?).join(rest.trim_start_matches('/')),
            None => PathBuf::from(path),
        };
        let mut names = canonical.split('/');
        let (Some("organization"), Some(project), Some(stack), None) =
            (names.next(), names.next(), names.next(), names.next())
        else {
            return None;
        };
        let usable =
            root.is_absolute() && root.is_dir() && plain_name(project) && plain_name(stack);
        usable.then(|| FileStack {
            root,
            project: project.into(),
            stack: stack.into(),
        })
    }

    pub fn state(&self) -> Lookup {
        let dir = self.root.join(".pulumi/stacks").join(&self.project);
        if ["gz", "zst"]
            .iter()
            .any(|ext| dir.join(format!("{}.json.{ext}", self.stack)).exists())
        {
            return Lookup::Opaque;
        }
        let bytes = match std::fs::read(dir.join(format!("{}.json", self.stack))) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Lookup::Missing,
            Err(_) => return Lookup::Opaque,
        };
        let Ok(StateFile {
            checkpoint: Checkpoint { latest },
        }) = serde_json::from_slice(&bytes)
        else {
            return Lookup::Opaque;
        };
        let Latest {
            secrets_providers,
            resources,
        } = latest.unwrap_or_default();
        let mut state = StackState {
            secrets: secrets_providers,
            resources: 0,
            outputs: Value::Null,
        };
        for Resource { urn, kind, outputs } in resources.unwrap_or_default() {
            state.resources += u32::from(counted(&urn, &kind));
            if kind == "pulumi:pulumi:Stack" {
                state.outputs = outputs;
            }
        }
        Lookup::Found(state)
    }

    fn lock_dir(&self) -> PathBuf {
        self.root
            .join(".pulumi/locks/organization")
            .join(&self.project)
            .join(&self.stack)
    }

    /// Locks that stand now. A file that is no lock blocks the CLI all the same: it is told with empty fields.
    pub fn locks(&self) -> Vec<LockInfo> {
        let Ok(entries) = std::fs::read_dir(self.lock_dir()) else {
            return Vec::new();
        };
        entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.ends_with(".json"))
            .map(|id| {
                let read = std::fs::read(self.lock_dir().join(&id)).ok();
                let lock = read.and_then(|b| serde_json::from_slice::<LockFile>(&b).ok());
                let (user, hostname, pid, created) = lock
                    .map(
                        |LockFile {
                             pid,
                             username,
                             hostname,
                             timestamp,
                         }| (username, hostname, pid, timestamp),
                    )
                    .unwrap_or_default();
                LockInfo {
                    id,
                    user,
                    hostname,
                    pid,
                    created,
                    gone: false,
                }
            })
            .collect()
    }

    /// Takes away one lock by its identity; false if it is not there any more. No other lock is touched.
    pub fn release(&self, id: &str) -> std::io::Result<bool> {
        if !plain_name(id) || !id.ends_with(".json") {
            return Ok(false);
        }
        let file = self.lock_dir().join(id);
        match std::fs::remove_file(&file) {
            Ok(()) => {
                let _ = std::fs::remove_file(self.lock_dir().join(format!("{id}.attrs")));
                Ok(true)
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// Reads the locks out of the CLI's refusal, one line per lock:
/// `  URL: created by USER@HOST (pid N) at TIME`.
pub fn locks_in_text(text: &str) -> Vec<LockInfo> {
    text.lines()
        .filter_map(|line| {
            let (url, rest) = line.trim().split_once(": created by ")?;
            let (who, rest) = rest.split_once(" (pid ")?;
            let (pid, created) = rest.split_once(") at ")?;
            let (user, hostname) = who.rsplit_once('@')?;
            let id = url.split('?').next()?.rsplit('/').next()?;
            Some(LockInfo {
                id: id.to_owned(),
                user: user.to_owned(),
                hostname: hostname.to_owned(),
                pid: pid.parse().ok()?,
                created: created.trim().to_owned(),
                gone: false,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn locks_are_read_from_the_refusal_and_from_the_directory() {
        let text = "error: the stack is currently locked by 1 lock(s). Either wait …\n  \
            file:///d/state/.pulumi/locks/organization/P/S/0b.json?no_tmp_dir=true: created by root@host-1 (pid 17) at 2026-11-21T09:56:18Z\n";
        let lock = LockInfo {
            id: "0b.json".into(),
            user: "root".into(),
            hostname: "host-1".into(),
            pid: 17,
            created: "2026-11-21T09:56:18Z".into(),
            gone: false,
        };
        assert_eq!(locks_in_text(text), std::slice::from_ref(&lock));

        let dir = tempfile::tempdir().unwrap();
        let url = format!("file://{}?metadata=skip", dir.path().display());
        let stack = FileStack::locate(&url, "organization/P/S", None).unwrap();
        assert!(stack.locks().is_empty());
        std::fs::create_dir_all(stack.lock_dir()).unwrap();
        let body = r#"{"pid":17,"username":"root","hostname":"host-1","timestamp":"2026-11-21T09:56:18Z"}"#;
        std::fs::write(stack.lock_dir().join("0b.json"), body).unwrap();
        std::fs::write(stack.lock_dir().join("0b.json.attrs"), "{}").unwrap();
        assert_eq!(stack.locks(), [lock]);
        assert!(!stack.release("other.json").unwrap() && !stack.release("../S/0b.json").unwrap());
        assert!(stack.release("0b.json").unwrap());
        assert!(stack.locks().is_empty());
    }

    #[test]
    fn only_a_directory_backend_is_read() {
        assert_eq!(
            FileStack::locate("s3://bucket", "organization/P/S", None),
            None
        );
        let dir = tempfile::tempdir().unwrap();
        let url = format!("file://{}", dir.path().display());
        for name in [
            "S",
            "P/S",
            "other/P/S",
            "organization/../S",
            "organization/P/S/x",
        ] {
            assert_eq!(FileStack::locate(&url, name, None), None, "{name}");
        }
        let stack = FileStack::locate(&url, "organization/P/S", None).unwrap();
        assert!(matches!(stack.state(), Lookup::Missing));
        std::fs::create_dir_all(dir.path().join(".pulumi/stacks/P")).unwrap();
        let file = dir.path().join(".pulumi/stacks/P/S.json");
        std::fs::write(
            &file,
            "{\"version\":3,\"checkpoint\":{\"stack\":\"organization/P/S\"}}",
        )
        .unwrap();
        assert!(matches!(
            stack.state(),
            Lookup::Found(StackState {
                secrets: None,
                resources: 0,
                ..
            })
        ));
        std::fs::write(&file, "{\"version\":3").unwrap();
        assert!(matches!(stack.state(), Lookup::Opaque));
    }
}
