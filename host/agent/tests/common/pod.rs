//! A workspace as in a pod: its agent listens over TLS, with certificates in a mounted Secret.
#![allow(dead_code, clippy::unwrap_used)]

use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jiff::Timestamp;
use windlass_agent::{AgentClient, ClientError, ClientTls};
use windlass_api::identity::WorkspaceIdentity;
use windlass_pki::{Authority, Kind, Leaf, SecretData};

use super::common::{Bench, until, wait_for};

/// A `pulumi` that says its version, answers short commands, and runs until a file `go` is there.
pub const SHIM: &str = r#"#!/bin/sh
case "$*" in
  *version*) echo v3.259.0; exit 0;;
  *"stack init"*) exit 0;;
esac
echo "it runs"
trap 'echo interrupted; exit 255' INT
while [ ! -e "$GO" ]; do sleep 0.05; done
echo "it ends"
"#;

/// Turns a directory as the kubelet turns a mounted Secret.
pub fn publish(dir: &Path, data: &SecretData) {
    let n = std::fs::read_dir(dir).map_or(0, |d| d.count());
    let version = format!("..version_{n}");
    let real = dir.join(&version);
    std::fs::create_dir_all(&real).unwrap();
    for (name, content) in data {
        std::fs::write(real.join(name), content).unwrap();
        let link = dir.join(name);
        if std::fs::symlink_metadata(&link).is_err() {
            symlink(format!("..data/{name}"), link).unwrap();
        }
    }
    symlink(&version, dir.join("..data_tmp")).unwrap();
    std::fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
}

pub struct Pod {
    pub bench: Bench,
    pub operators: Authority,
    pub workspaces: Authority,
    pub identity: WorkspaceIdentity,
    pub address: SocketAddr,
}

pub fn identity(incarnation: &str) -> WorkspaceIdentity {
    WorkspaceIdentity::new("team-a", "5e1f-workspace", incarnation).unwrap()
}

pub fn client_tls(leaf: &Leaf) -> ClientTls {
    ClientTls::new(
        leaf.certificate().as_bytes(),
        leaf.key().as_bytes(),
        leaf.roots().as_bytes(),
    )
    .unwrap()
}

impl Pod {
    /// A pod whose `pulumi` is the shim.
    pub async fn with_shim() -> Pod {
        let mut bench = Bench::new(Path::new("/nonexistent"));
        bench.shim(SHIM);
        let go = bench.path("go").display().to_string();
        bench.env.insert("GO".into(), go);
        bench.program("p", "name: p\nruntime: yaml\n");
        Pod::start(bench).await
    }

    pub async fn start(bench: Bench) -> Pod {
        let now = Timestamp::now();
        let operators = Authority::new(Kind::Operators, now).unwrap();
        let workspaces = Authority::new(Kind::Workspaces, now).unwrap();
        let identity = identity("i-1");
        let leaf = Leaf::workspace(&identity, &workspaces, &operators, now).unwrap();
        publish(&bench.path("tls"), &leaf.to_secret_data());
        let address = "127.0.0.1:0".parse().unwrap();
        let mut pod = Pod {
            bench,
            operators,
            workspaces,
            identity,
            address,
        };
        pod.serve().await;
        pod
    }

    pub fn tls_dir(&self) -> PathBuf {
        self.bench.path("tls")
    }

    pub fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-agent"));
        command.arg(subcommand);
        command.env_clear().envs(&self.bench.env);
        command.env("WINDLASS_STATE_DIR", self.bench.path("state"));
        command
    }

    /// Starts the agent and learns its port.
    pub async fn serve(&mut self) {
        let mut command = self.command("serve");
        command.args(["--interrupt-grace-seconds", "30"]);
        command.arg("--mounts").arg(self.bench.path("mounts"));
        self.begin(command).await;
    }

    /// Starts an agent as a command says, and learns its port.
    pub async fn begin(&mut self, mut command: Command) {
        let log = self.bench.next_log();
        let file = |name: &str| std::fs::File::create(log.with_extension(name)).unwrap();
        command.args(["--listen", "127.0.0.1:0"]);
        command.arg("--tls-dir").arg(self.tls_dir());
        command.arg("--workspace").arg(self.bench.path("workspace"));
        command.stdin(Stdio::null());
        command.stdout(file("out")).stderr(file("err"));
        self.bench.agent = Some(command.spawn().unwrap());
        let mut address = None;
        until("the agent to listen", || {
            let said = std::fs::read_to_string(log.with_extension("err")).unwrap();
            address = said
                .lines()
                .find_map(|l| l.split_once("address=")?.1.trim().parse().ok());
            address.is_some()
        })
        .await;
        self.address = address.unwrap();
    }

    /// The operator as it should be.
    pub fn operator(&self) -> ClientTls {
        client_tls(&Leaf::operator(&self.operators, &self.workspaces, Timestamp::now()).unwrap())
    }

    pub async fn connect(&self) -> AgentClient {
        let tls = self.operator();
        let client = wait_for("the agent", || {
            AgentClient::connect_tls(self.address, &tls, &self.identity, 1)
        })
        .await;
        client.hello().await.unwrap();
        client
    }

    /// What becomes of one who tries to speak to the agent.
    pub async fn attempt(
        &self,
        tls: &ClientTls,
        expected: &WorkspaceIdentity,
    ) -> Result<(), ClientError> {
        let client = AgentClient::connect_tls(self.address, tls, expected, 1).await?;
        client.hello().await.map(drop)
    }
}
