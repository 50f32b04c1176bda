//! Repositories over ssh: the `ssh` program carries what gix says.
//!
//! The program runs in this process's sandbox and is told everything by arguments: no configuration is read, no
//! agent asked, nothing forwarded, no host believed that is not known. What is secret goes through files in the
//! scratch directory, which are gone with the session.

mod key;
mod said;

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::num::NonZeroU32;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use gix::protocol::transport::Protocol;
use gix::protocol::transport::client::git::ConnectMode;
use gix::protocol::transport::client::git::blocking_io::Connection;
use gix::remote::fetch::Shallow;
use gix::remote::ref_map;

use super::git;
use crate::address::{Address, SshAddress};
use crate::credential::Credential;
use crate::error::FetchError;
use crate::reach::Reach;
use crate::wire::{RemoteRef, WorkerRequest};

// Relative, since the value of an option is split at spaces: the program runs in the scratch directory.
const KEY: &str = "ssh.key";
const KNOWN_HOSTS: &str = "ssh.known_hosts";
/// What the program itself says.
const LOG: &str = "ssh.log";
/// What the other side says.
const REMOTE: &str = "ssh.remote";

/// How long a failed program has to end by itself.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Where a fetched commit is kept in the scratch repository.
const FETCHED: &str = "refs/windlass/fetched";

type Transport = Connection<ChildStdout, ChildStdin>;

/// The refs that the server lists.
pub(super) fn refs(
    request: &WorkerRequest,
    at: &Address,
    prefixes: &[String],
) -> Result<Vec<RemoteRef>, FetchError> {
    let repo = git::scratch_repository(request, "refs.git")
        .map_err(|err| git::classify(request, at, None, &err))?;
    let (session, transport) = Session::open(request, at)?;
    let listed = git::remote_for(&repo, at, &git::specs(prefixes)).and_then(|remote| {
        let connection = remote.to_connection_with_transport(transport);
        git::list(connection, !prefixes.is_empty())
    });
    listed.map_err(|err| session.explain(request, at, None, &err))
}

/// One commit without history, in a repository of its own. A server that sshd does not tell which protocol is wanted
/// gives out only what a branch or tag points to: from such a one all of them are fetched, with their history.
pub(super) fn clone_commit(
    request: &WorkerRequest,
    at: &Address,
    commit: &str,
) -> Result<gix::Repository, FetchError> {
    let repo = git::scratch_repository(request, "repo.git")
        .map_err(|err| git::classify(request, at, None, &err))?;
    let exact = [format!("{commit}:{FETCHED}")];
    match fetch(request, at, commit, &repo, &exact, true) {
        Err(FetchError::CommitNotFound { .. }) if !gives_any_commit(request, at)? => {}
        done => return done.map(|()| repo),
    }
    let all = ["heads", "tags"].map(|kind| format!("+refs/{kind}/*:refs/{kind}/*"));
    fetch(request, at, commit, &repo, &all, false)?;
    let there = gix::ObjectId::from_hex(commit.as_bytes()).is_ok_and(|id| repo.has_object(id));
    if there {
        return Ok(repo);
    }
    Err(FetchError::CommitNotFound {
        host: at.host(),
        commit: commit.to_owned(),
    })
}

fn fetch(
    request: &WorkerRequest,
    at: &Address,
    commit: &str,
    repo: &gix::Repository,
    specs: &[String],
    shallow: bool,
) -> Result<(), FetchError> {
    let (session, transport) = Session::open(request, at)?;
    let shallow = if shallow {
        Shallow::DepthAtRemote(NonZeroU32::MIN)
    } else {
        Shallow::NoChange
    };
    let fetched = git::remote_for(repo, at, specs).and_then(|remote| {
        remote
            .to_connection_with_transport(transport)
            .prepare_fetch(gix::progress::Discard, ref_map::Options::default())?
            .with_shallow(shallow)
            .receive(gix::progress::Discard, &AtomicBool::new(false))
    });
    fetched
        .map(|_| ())
        .map_err(|err| session.explain(request, at, Some(commit), &err))
}

/// Whether the server speaks the protocol in which any commit can be asked for.
fn gives_any_commit(request: &WorkerRequest, at: &Address) -> Result<bool, FetchError> {
    let repo = git::scratch_repository(request, "refs.git")
        .map_err(|err| git::classify(request, at, None, &err))?;
    let (session, transport) = Session::open(request, at)?;
    let handshake = git::remote_for(&repo, at, &git::specs(&[])).and_then(|remote| {
        let connection = remote.to_connection_with_transport(transport);
        let (_, handshake) =
            connection.ref_map(gix::progress::Discard, ref_map::Options::default())?;
        Ok(handshake)
    });
    handshake
        .map(|handshake| handshake.server_protocol_version == Protocol::V2)
        .map_err(|err| session.explain(request, at, None, &err))
}

/// A running program. Ends with the files that it was given when dropped.
struct Session {
    child: Option<Child>,
    dir: PathBuf,
}

impl Session {
    fn open(request: &WorkerRequest, at: &Address) -> Result<(Session, Transport), FetchError> {
        let (Some(target), Some(settings)) = (at.ssh(), &request.ssh) else {
            return Err(failed("it is not told how to use ssh"));
        };
        let Some(Credential::SshKey {
            private_key,
            passphrase,
            known_hosts,
        }) = &request.credential
        else {
            return Err(FetchError::CredentialsRequired { host: at.host() });
        };
        let address = resolve(&target, &request.reach)?;
        let key = key::open(private_key, passphrase.as_deref())?;
        let mut session = Session {
            child: None,
            dir: request.scratch.clone(),
        };
        let file = |name: &str| session.dir.join(name);
        write(&file(KEY), key.as_bytes())?;
        let own = known_hosts.as_deref().unwrap_or_default();
        let known = format!("{own}\n{}", settings.known_hosts);
        write(&file(KNOWN_HOSTS), known.as_bytes())?;
        write(&file(LOG), b"")?;
        let mut child = command(&settings.program, &target, address)
            .current_dir(&session.dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::from(create(&file(REMOTE))?))
            .spawn()
            .map_err(|err| {
                failed(&format!(
                    "{} cannot be started ({err}); repositories at ssh addresses need OpenSSH's client",
                    settings.program.display()
                ))
            })?;
        let pipes = (child.stdout.take(), child.stdin.take());
        session.child = Some(child);
        let (Some(stdout), Some(stdin)) = pipes else {
            return Err(failed("ssh has no pipes"));
        };
        let transport = Connection::new(
            stdout,
            stdin,
            Protocol::V2,
            target.path,
            None::<(String, _)>,
            ConnectMode::Process,
            false,
        );
        Ok((session, transport))
    }

    /// Why it failed: by what the program and the other side said, then by what gix makes of it.
    fn explain(
        mut self,
        request: &WorkerRequest,
        at: &Address,
        commit: Option<&str>,
        err: &gix::Error,
    ) -> FetchError {
        // The other side's last words may still be on their way.
        let deadline = Instant::now() + LAST_WORDS;
        while let Some(child) = &mut self.child
            && matches!(child.try_wait(), Ok(None))
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        let by_gix = git::classify(request, at, commit, err);
        let read = |name: &str| {
            let bytes = std::fs::read(self.dir.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes[..bytes.len().min(16 << 10)]).into_owned()
        };
        said::explain(&read(LOG), &read(REMOTE), &at.host(), by_gix)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            child.kill().ok();
            child.wait().ok();
        }
        for name in [KEY, KNOWN_HOSTS] {
            std::fs::remove_file(self.dir.join(name)).ok();
        }
    }
}

fn command(program: &Path, target: &SshAddress, address: IpAddr) -> Command {
    let SshAddress {
        user,
        host,
        port,
        path,
    } = target;
    // Host keys are looked up by the name, though the connection goes to the address that was checked.
    let alias = match port {
        22 => host.clone(),
        port => format!("[{host}]:{port}"),
    };
    let mut command = Command::new(program);
    command.args(["-F", "none", "-T", "-a", "-x", "-E", LOG]);
    for option in [
        "BatchMode=yes",
        "IdentitiesOnly=yes",
        "IdentityAgent=none",
        "PreferredAuthentications=publickey",
        "StrictHostKeyChecking=yes",
        "GlobalKnownHostsFile=/dev/null",
        "UpdateHostKeys=no",
        "CheckHostIP=no",
        "ClearAllForwardings=yes",
        "PermitLocalCommand=no",
        "ProxyCommand=none",
        "ControlMaster=no",
        "ControlPath=none",
        "CanonicalizeHostname=no",
        "ConnectTimeout=10",
        "LogLevel=VERBOSE",
        "SendEnv=GIT_PROTOCOL",
    ] {
        command.args(["-o", option]);
    }
    command
        .args(["-o", &format!("IdentityFile={KEY}")])
        .args(["-o", &format!("UserKnownHostsFile={KNOWN_HOSTS}")])
        .args(["-o", &format!("HostKeyAlias={alias}")])
        .args(["-p", &port.to_string(), "-l", user, "--"])
        .arg(address.to_string())
        .arg(format!("git-upload-pack '{}'", path.replace('\'', "'\\''")))
        // Its words are read below.
        .env("LC_ALL", "C")
        .env("GIT_PROTOCOL", "version=2");
    command
}

/// The first address of the host, if all of them may be contacted. The system puts those first that it can reach.
fn resolve(target: &SshAddress, reach: &Reach) -> Result<IpAddr, FetchError> {
    let host = &target.host;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let unreachable = |detail: String| FetchError::Unreachable {
        host: host.clone(),
        detail,
    };
    let found: Vec<IpAddr> = (bare, target.port)
        .to_socket_addrs()
        .map_err(|err| unreachable(err.to_string()))?
        .map(|address| address.ip())
        .collect();
    for ip in &found {
        reach
            .check(*ip)
            .map_err(|detail| FetchError::AddressDenied {
                host: host.clone(),
                detail,
            })?;
    }
    found
        .first()
        .copied()
        .ok_or_else(|| unreachable("it has no address".to_owned()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), FetchError> {
    create(path)?
        .write_all(bytes)
        .map_err(|err| failed(&format!("a file of ssh cannot be written: {err}")))
}

fn create(path: &Path) -> Result<File, FetchError> {
    std::fs::remove_file(path).ok();
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|err| failed(&format!("a file for ssh cannot be made: {err}")))
}

fn failed(detail: &str) -> FetchError {
    FetchError::WorkerFailed {
        detail: detail.to_owned(),
    }
}
