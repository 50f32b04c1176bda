//! The components' files and arguments.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use super::ports::Ports;
use super::{Component, Options};
use crate::error::{At as _, Result};
use crate::pki::{Authority, token_keys};
use crate::tools;

/// Where the API server writes who asked what, below the control plane's folder.
pub const AUDIT_LOG: &str = "audit.log";
/// The controller manager's kubeconfig, below the control plane's folder.
pub const MANAGER_KUBECONFIG: &str = "controller-manager.kubeconfig";

/// The address of the Service `default/kubernetes`: the first of the range below.
const SERVICE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
const SERVICE_RANGE: &str = "10.96.0.0/24";

/// Who asked what, without contents; what is logged when a request arrives says nothing more.
const AUDIT_POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
 "omitStages": ["RequestReceived"], "omitManagedFields": true, "rules": [{"level": "Metadata"}]}"#;

/// Writes certificates, keys and policies.
pub fn write_files(folder: &Path, authority: &Authority) -> Result<()> {
    let server = authority.server(SERVICE_ADDRESS)?;
    let itself = authority.client("kube-apiserver", Some("system:masters"))?;
    let (token_key, token_public_key) = token_keys()?;
    for (name, content) in [
        ("ca.crt", authority.certificate()),
        ("apiserver.crt", server.certificate),
        ("apiserver.key", server.key),
        ("apiserver-client.crt", itself.certificate),
        ("apiserver-client.key", itself.key),
        ("service-accounts.key", token_key),
        ("service-accounts.pub", token_public_key),
        ("audit-policy.json", AUDIT_POLICY.to_owned()),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, content).at(&path)?;
    }
    Ok(())
}

/// A component's command.
pub fn command(
    component: Component,
    folder: &Path,
    ports: Ports,
    options: &Options,
) -> Result<Command> {
    let mut command = Command::new(tools::tool(component.name())?);
    // Certificate and key files are named relative to it.
    command.current_dir(folder).env_remove("KUBECONFIG");
    // Three Go programs beside the tests: less garbage kept is worth the time it takes to collect.
    command.env("GOGC", "50");
    match component {
        Component::Etcd => command.args(etcd(ports)),
        Component::ApiServer => command
            .args(apiserver(ports))
            .args(&options.apiserver_arguments),
        Component::ControllerManager => command
            .args(manager(options))
            .args(&options.controller_manager_arguments),
    };
    Ok(command)
}

fn etcd(ports: Ports) -> Vec<String> {
    let clients = format!("http://127.0.0.1:{}", ports.etcd_clients);
    let peers = format!("http://127.0.0.1:{}", ports.etcd_peers);
    vec![
        "--name=test".to_owned(),
        "--data-dir=etcd".to_owned(),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=test={peers}"),
        // The data need not survive the machine; they do survive the process.
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

fn apiserver(ports: Ports) -> Vec<String> {
    vec![
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd_clients),
        format!("--secure-port={}", ports.apiserver),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        // An endpoint for Service default/kubernetes may not be on loopback; nothing here uses it.
        "--endpoint-reconciler-type=none".to_owned(),
        "--tls-cert-file=apiserver.crt".to_owned(),
        "--tls-private-key-file=apiserver.key".to_owned(),
        "--client-ca-file=ca.crt".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-account-key-file=service-accounts.pub".to_owned(),
        "--service-account-signing-key-file=service-accounts.key".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        format!("--service-cluster-ip-range={SERVICE_RANGE}"),
        "--allow-privileged=true".to_owned(),
        // How it reaches kubelets, for logs and exec, and who it is to them.
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--kubelet-client-certificate=apiserver-client.crt".to_owned(),
        "--kubelet-client-key=apiserver-client.key".to_owned(),
        "--audit-policy-file=audit-policy.json".to_owned(),
        format!("--audit-log-path={AUDIT_LOG}"),
        // A request is in the log before its answer is with the client: tests count at once.
        "--audit-log-mode=blocking-strict".to_owned(),
        "--shutdown-delay-duration=0s".to_owned(),
        "--profiling=false".to_owned(),
    ]
}

fn manager(options: &Options) -> Vec<String> {
    vec![
        format!("--kubeconfig={MANAGER_KUBECONFIG}"),
        "--service-account-private-key-file=service-accounts.key".to_owned(),
        "--use-service-account-credentials=true".to_owned(),
        "--root-ca-file=ca.crt".to_owned(),
        "--leader-elect=false".to_owned(),
        "--controllers=*".to_owned(),
        // Nobody asks it for its metrics.
        "--secure-port=0".to_owned(),
        "--node-monitor-period=1s".to_owned(),
        format!(
            "--node-monitor-grace-period={}ms",
            options.node_monitor_grace.as_millis()
        ),
        "--profiling=false".to_owned(),
    ]
}
