//! Probes: asking a container whether it has started, is alive, is ready.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::container::Running;
use super::node::Node;
use super::state::PodCell;

/// Probes a container until its liveness probe ends it. Without one it never comes back.
pub async fn all(node: &Arc<Node>, cell: &PodCell, container: &Container, running: &Running) {
    let watched = Watched {
        node,
        cell,
        container,
        running,
    };
    if let Some(probe) = &container.startup_probe {
        if !watched.until_started(probe).await {
            return watched.end("startup", probe).await;
        }
        cell.record(&container.name, |record| {
            record.started = true;
            record.ready = container.readiness_probe.is_none();
        });
    }
    let readiness = async {
        match &container.readiness_probe {
            Some(probe) => watched.readiness(probe).await,
            None => std::future::pending().await,
        }
    };
    let liveness = async {
        match &container.liveness_probe {
            Some(probe) => watched.until_dead(probe).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = readiness => {}
        () = liveness => {}
    }
}

struct Watched<'a> {
    node: &'a Arc<Node>,
    cell: &'a PodCell,
    container: &'a Container,
    running: &'a Running,
}

impl Watched<'_> {
    async fn until_started(&self, probe: &Probe) -> bool {
        delay(probe).await;
        let mut failures = 0;
        loop {
            match self.ask(probe).await {
                Ok(()) => return true,
                Err(why) => self.unhealthy("Startup", &why),
            }
            failures += 1;
            if failures >= threshold(probe.failure_threshold, 3) {
                return false;
            }
            tokio::time::sleep(period(probe)).await;
        }
    }

    async fn readiness(&self, probe: &Probe) {
        delay(probe).await;
        let (mut successes, mut failures) = (0, 0);
        loop {
            match self.ask(probe).await {
                Ok(()) => (successes, failures) = (successes + 1, 0),
                Err(why) => {
                    (successes, failures) = (0, failures + 1);
                    self.unhealthy("Readiness", &why);
                }
            }
            if successes >= threshold(probe.success_threshold, 1) {
                self.cell
                    .record(&self.container.name, |record| record.ready = true);
            } else if failures >= threshold(probe.failure_threshold, 3) {
                self.cell
                    .record(&self.container.name, |record| record.ready = false);
            }
            tokio::time::sleep(period(probe)).await;
        }
    }

    async fn until_dead(&self, probe: &Probe) {
        delay(probe).await;
        let mut failures = 0;
        loop {
            match self.ask(probe).await {
                Ok(()) => failures = 0,
                Err(why) => {
                    failures += 1;
                    self.unhealthy("Liveness", &why);
                }
            }
            if failures >= threshold(probe.failure_threshold, 3) {
                return self.end("liveness", probe).await;
            }
            tokio::time::sleep(period(probe)).await;
        }
    }

    fn unhealthy(&self, kind: &str, why: &str) {
        let message = format!("{kind} probe failed: {why}");
        self.node.event(self.cell, "Warning", "Unhealthy", &message);
    }

    async fn end(&self, kind: &str, probe: &Probe) {
        let message = format!(
            "Container {} failed {kind} probe, will be restarted",
            self.container.name
        );
        self.node.event(self.cell, "Normal", "Killing", &message);
        let pod = self.cell.pod();
        let of_pod = pod
            .spec
            .as_ref()
            .and_then(|s| s.termination_grace_period_seconds);
        let grace = probe
            .termination_grace_period_seconds
            .or(of_pod)
            .unwrap_or(30);
        let grace = Duration::from_secs(u64::try_from(grace).unwrap_or_default());
        self.running.stop(grace).await;
    }

    /// # Errors
    /// Why the answer is no.
    async fn ask(&self, probe: &Probe) -> Result<(), String> {
        let seconds = probe.timeout_seconds.unwrap_or(1).max(1);
        let limit = Duration::from_secs(u64::from(seconds.unsigned_abs()));
        let asked = async {
            if let Some(exec) = &probe.exec {
                let argv = exec.command.clone().unwrap_or_default();
                let output = self.running.exec(&self.node.helper, &argv, limit).await?;
                if output.status.success() {
                    return Ok(());
                }
                let text = [output.stdout, output.stderr].concat();
                return Err(String::from_utf8_lossy(&text).trim().to_owned());
            }
            if let Some(socket) = &probe.tcp_socket {
                let (host, port) = self.target(socket.host.as_deref(), &socket.port)?;
                return connect(host, port).await.map(drop);
            }
            if let Some(get) = &probe.http_get {
                let (host, port) = self.target(get.host.as_deref(), &get.port)?;
                return http(host, port, get.path.as_deref().unwrap_or("/")).await;
            }
            Err("this kind of probe does not exist on this node".to_owned())
        };
        match tokio::time::timeout(limit, asked).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("timeout after {seconds}s")),
        }
    }

    fn target(&self, host: Option<&str>, port: &IntOrString) -> Result<(Ipv4Addr, u16), String> {
        let host = match host {
            None | Some("") => self.cell.address,
            Some(host) => host.parse().map_err(|_| format!("{host} is no address"))?,
        };
        let number = match port {
            IntOrString::Int(number) => Some(*number),
            IntOrString::String(name) => {
                let ports = self.container.ports.iter().flatten();
                ports
                    .filter(|port| port.name.as_ref() == Some(name))
                    .map(|port| port.container_port)
                    .next()
            }
        };
        let number = number.and_then(|number| u16::try_from(number).ok());
        Ok((
            host,
            number.ok_or_else(|| format!("couldn't find port: {port:?}"))?,
        ))
    }
}

async fn connect(host: Ipv4Addr, port: u16) -> Result<TcpStream, String> {
    TcpStream::connect((host, port))
        .await
        .map_err(|error| format!("dial tcp {host}:{port}: {error}"))
}

async fn http(host: Ipv4Addr, port: u16, path: &str) -> Result<(), String> {
    let mut stream = connect(host, port).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n");
    let failed = |error: std::io::Error| format!("Get http://{host}:{port}{path}: {error}");
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut answer = Vec::new();
    stream
        .take(1024)
        .read_to_end(&mut answer)
        .await
        .map_err(failed)?;
    let text = String::from_utf8_lossy(&answer);
    let code = text.split_whitespace().nth(1).unwrap_or_default();
    match code.parse() {
        Ok(200..400_u16) => Ok(()),
        _ => Err(format!("HTTP probe failed with statuscode: {code}")),
    }
}

async fn delay(probe: &Probe) {
    let seconds = probe.initial_delay_seconds.unwrap_or_default().max(0);
    tokio::time::sleep(Duration::from_secs(u64::from(seconds.unsigned_abs()))).await;
}

fn period(probe: &Probe) -> Duration {
    let seconds = probe
        .period_seconds
        .filter(|seconds| *seconds > 0)
        .unwrap_or(10);
    Duration::from_secs(u64::from(seconds.unsigned_abs()))
}

fn threshold(stated: Option<i32>, default: i32) -> i32 {
    stated.filter(|count| *count > 0).unwrap_or(default)
}
