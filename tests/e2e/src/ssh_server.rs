//! A real ssh server for tests: OpenSSH's `sshd`, one process per connection, with keys of its own.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::git_repo::TestRepo;

/// The server. Ends with everything it started when dropped.
pub struct SshServer {
    dir: tempfile::TempDir,
    port: u16,
    user: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    ended: AtomicBool,
    connections: Mutex<Vec<(Child, TcpStream)>>,
}

impl SshServer {
    /// Starts it.
    ///
    /// # Errors
    /// What this machine lacks, in a sentence for a skip.
    pub fn start() -> Result<Self, String> {
        Self::start_with("AcceptEnv GIT_PROTOCOL")
    }

    /// Starts one that is not told which protocol a client wants, as sshd comes in most distributions.
    ///
    /// # Errors
    /// As [`SshServer::start`].
    pub fn start_deaf() -> Result<Self, String> {
        Self::start_with("")
    }

    fn start_with(setting: &str) -> Result<Self, String> {
        let sshd = program("sshd").ok_or("there is no sshd: install openssh-server")?;
        for client in ["ssh", "ssh-keygen"] {
            program(client).ok_or("there is no OpenSSH client: install openssh-client")?;
        }
        // As root, sshd insists on this directory, which the service's own start would make.
        let is_root = fs::metadata("/proc/self").is_ok_and(|it| {
            use std::os::unix::fs::MetadataExt as _;
            it.uid() == 0
        });
        if is_root {
            fs::create_dir_all("/run/sshd").map_err(|err| format!("/run/sshd: {err}"))?;
        }
        Self::serve(sshd, setting).map_err(|err| format!("sshd cannot be started: {err}"))
    }

    fn serve(sshd: PathBuf, setting: &str) -> io::Result<Self> {
        let dir = tempfile::tempdir()?;
        keygen(&dir.path().join("host"), "ed25519", "", &[])?;
        fs::write(dir.path().join("authorized"), b"")?;
        let at = dir.path().display();
        let config = format!(
            "HostKey {at}/host\nPidFile none\nAuthorizedKeysFile {at}/authorized\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n\
             {setting}\nLogLevel VERBOSE\nLoginGraceTime 20\nUseDNS no\n"
        );
        fs::write(dir.path().join("config"), config)?;
        let user = Command::new("id").arg("-un").output()?.stdout;
        let user = String::from_utf8_lossy(&user).trim().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared::default());
        let (noted, place) = (Arc::clone(&shared), dir.path().to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if noted.ended.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(connection) = answer(&sshd, &place, stream) {
                    noted
                        .connections
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(connection);
                }
            }
        });
        Ok(SshServer {
            dir,
            port,
            user,
            shared,
        })
    }

    /// A repository that the server serves, made if there is none.
    pub fn repo(&self, name: &str) -> io::Result<TestRepo> {
        TestRepo::create(&self.dir.path().join("repos").join(name))
    }

    /// The address of a repository; spaces in its name are encoded.
    pub fn url(&self, name: &str) -> String {
        let path = self.dir.path().join("repos").join(name);
        let path = path.display().to_string().replace(' ', "%20");
        format!("ssh://{}@127.0.0.1:{}{path}", self.user, self.port)
    }

    /// Its line of known_hosts.
    pub fn known_hosts(&self) -> io::Result<String> {
        let public = fs::read_to_string(self.dir.path().join("host.pub"))?;
        Ok(format!("[127.0.0.1]:{} {}", self.port, public.trim()))
    }

    /// Makes a private key and lets it in. `kind` is ssh-keygen's; `more` are its further arguments.
    pub fn authorize(&self, kind: &str, passphrase: &str, more: &[&str]) -> io::Result<String> {
        let (private, public) = make_key(kind, passphrase, more)?;
        fs::OpenOptions::new()
            .append(true)
            .open(self.dir.path().join("authorized"))?
            .write_all(public.as_bytes())?;
        Ok(private)
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.shared
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// What sshd logged, for whoever looks for the cause of a failed test.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        // Wakes the thread, which sees the end.
        TcpStream::connect(("127.0.0.1", self.port)).ok();
        let mut connections = self
            .shared
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (child, stream) in connections.iter_mut() {
            stream.shutdown(Shutdown::Both).ok();
            child.kill().ok();
            child.wait().ok();
        }
    }
}

fn answer(sshd: &Path, dir: &Path, stream: TcpStream) -> io::Result<(Child, TcpStream)> {
    let log = File::options()
        .create(true)
        .append(true)
        .open(dir.join("log"))?;
    let input = OwnedFd::from(stream.try_clone()?);
    let output = OwnedFd::from(stream.try_clone()?);
    let child = Command::new(sshd)
        .args(["-i", "-e", "-f"])
        .arg(dir.join("config"))
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(log))
        .spawn()?;
    Ok((child, stream))
}

/// A key pair, as text: private, public.
///
/// # Errors
/// ssh-keygen's.
pub fn make_key(kind: &str, passphrase: &str, more: &[&str]) -> io::Result<(String, String)> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("key");
    keygen(&file, kind, passphrase, more)?;
    let public = fs::read_to_string(dir.path().join("key.pub"))?;
    Ok((fs::read_to_string(file)?, public))
}

fn keygen(file: &Path, kind: &str, passphrase: &str, more: &[&str]) -> io::Result<()> {
    let done = Command::new("ssh-keygen")
        .args(["-q", "-t", kind, "-N", passphrase, "-C", "test", "-f"])
        .arg(file)
        .args(more)
        .stdin(Stdio::null())
        .output()?;
    if done.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(io::Error::other(format!("ssh-keygen: {stderr}")))
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/usr/bin".into()])
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}
