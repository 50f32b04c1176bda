//! The processes of the operator beside the first one.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use k8s_openapi::api::rbac::v1::PolicyRule;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use windlass_cluster::Identity;
use windlass_e2e::world::plugin_dir;

use crate::{AGENT_IMAGE, Operator, PULUMI_IMAGE, backend};

/// Another process of the operator, as a second pod of its Deployment would run it. It ends with this value.
pub struct Replica {
    child: Child,
    log: PathBuf,
}

impl<K> Operator<K> {
    /// `windlass run`, not yet started.
    pub(crate) fn command(
        &self,
        identity: &str,
        data: &Path,
        [port, programs_port]: [u16; 2],
        log: &Path,
    ) -> Command {
        let log = std::fs::File::create(log).expect("a log");
        let mut command = Command::new(backend::binaries().join("windlass"));
        command
            .args(["run", "-v", "--namespace", "operator"])
            .args(["--identity", identity])
            .args(["--agent-image", AGENT_IMAGE])
            .args(["--workspace-image", PULUMI_IMAGE])
            .arg("--data-dir")
            .arg(data)
            .arg("--plugin-dir")
            .arg(plugin_dir())
            .arg("--health-probe-bind-address")
            .arg(format!("127.0.0.1:{port}"))
            .arg("--program-fs-addr")
            .arg(format!("127.0.0.1:{programs_port}"))
            .args(["--leader-election-lease-duration", self.lease[0]])
            .args(["--leader-election-renew-deadline", self.lease[1]])
            .args(["--leader-election-retry-period", self.lease[2]])
            .arg("--allow-loopback")
            .args(&self.arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log);
        command
    }

    /// Starts another replica, which asks the API server as somebody else.
    pub fn replica(&self, identity: &str, kubeconfig: &Path) -> Replica {
        let dir = self.dir.path();
        let log = dir.join(format!("{identity}.log"));
        let ports = [crate::free_port(), crate::free_port()];
        let mut command = self.command(identity, &dir.join(identity), ports, &log);
        let child = command
            .env("KUBECONFIG", kubeconfig)
            .spawn()
            .expect("windlass run");
        Replica { child, log }
    }

    /// Somebody who may do everything, told apart from others in the audit log, and a kubeconfig of his.
    pub async fn somebody(&self, name: &str) -> (Identity, PathBuf) {
        let who = Identity::user(name);
        let everything = || Some(vec!["*".to_owned()]);
        let rule = PolicyRule {
            api_groups: everything(),
            resources: everything(),
            verbs: vec!["*".to_owned()],
            ..PolicyRule::default()
        };
        let granted = self.plane.grant(&who, None, vec![rule]).await;
        granted.expect("the rights");
        let kubeconfig = self.plane.kubeconfig_as(&who).await.expect("a kubeconfig");
        (who, kubeconfig)
    }

    /// Stops the operator's process without ending it (SIGSTOP), until `thaw`.
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets a frozen operator go on.
    pub fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("a running operator");
        kill(pid(child), signal).expect("a signal");
    }
}

impl Replica {
    /// What it has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Asks it to end, and waits. Its exit code, and all that it has said.
    pub fn terminate(mut self) -> (Option<i32>, String) {
        let _ = kill(pid(&self.child), Signal::SIGTERM);
        let ended = self.child.wait().ok();
        (ended.and_then(|status| status.code()), self.log())
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}
