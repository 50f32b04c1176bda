//! `windlass run`.

use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use windlass_kube::{LeaseSettings, Operator, OperatorConfig, serve};

use crate::error::{Error, Result};
use crate::place;
use crate::run_args::OperatorArgs;

/// Runs the operator until it is asked to end.
///
/// # Errors
/// Of the arguments, the machine and the cluster. What becomes of a Stack is in its status.
pub async fn run(args: OperatorArgs) -> Result<ExitCode> {
    let plugin_dirs = args.plugins.dirs()?;
    let OperatorArgs {
        namespaces,
        namespace,
        identity,
        agent_image,
        agent_image_pull_policy,
        workspace_image,
        max_runs,
        workspace_idle_seconds,
        data_dir,
        endpoints,
        kube_api_timeout,
        kubeconfig,
        leader_elect: _,
        leader_election_lease_duration,
        leader_election_renew_deadline,
        leader_election_retry_period,
        allow_loopback,
        zap: _,
        plugins,
        progress,
    } = args;
    let host = std::env::var("HOSTNAME").ok();
    let pod = identity
        .or_else(|| host.clone())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| format!("windlass-{}", std::process::id()));
    let config = OperatorConfig {
        kubeconfig,
        api_timeout: kube_api_timeout,
        program_address: endpoints.program_address(host.as_deref()),
        namespaces: namespaces
            .into_iter()
            .filter(|name| !name.is_empty())
            .collect(),
        lease: LeaseSettings {
            namespace,
            pod,
            duration: leader_election_lease_duration,
            renew_deadline: leader_election_renew_deadline,
            retry_period: leader_election_retry_period,
        },
        data_dir,
        builtin_digests: place::digests(&plugin_dirs),
        plugin_dirs,
        policy: plugins.policy,
        fetch_worker: place::fetch_worker()?,
        agent_image,
        agent_image_pull_policy,
        workspace_image,
        max_runs,
        idle_seconds: workspace_idle_seconds,
        allow_loopback,
        progress: progress.pace(),
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("asked to end; runs that go on stay with their agents");
    };
    let cluster = |error: String| Error::Cluster(error);
    tokio::pin!(stop);
    // It compiles components when it opens, which can take longer than a pod has for its end.
    let operator = tokio::select! {
        opened = Operator::open(config) => opened.map_err(|error| cluster(error.to_string()))?,
        () = &mut stop => return Ok(ExitCode::SUCCESS),
    };
    let serving = serve::start(&operator, &endpoints.config())
        .await
        .map_err(|error| cluster(error.to_string()))?;
    let ran = operator.run(stop).await;
    drop(serving);
    ran.map_err(|error| cluster(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}
