//! Who leads: the lease that the Pulumi Kubernetes Operator uses too, so that never both work on the same Stacks.
//!
//! The count of transitions grows with every process that takes the lease: it is the epoch by which agents refuse an
//! earlier leader. A process that finds its own pod's name in the lease takes it back at once: whoever held it there is
//! gone.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::PostParams;
use tokio::time::Instant;
use windlass_api::ObjectMeta;
use windlass_api::names::LEASE;

use crate::api::{ApiError, Cluster};

/// How the lease is held. The names are those of the Pulumi Kubernetes Operator's settings.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// Namespace of the lease: the operator's own.
    pub namespace: String,
    /// Name of this process's pod: stays the same when its container starts again.
    pub pod: String,
    /// How long others wait after the holder's last word.
    pub duration: Duration,
    /// How long the holder goes on without being able to renew.
    pub renew_deadline: Duration,
    /// How often the lease is looked at.
    pub retry_period: Duration,
}

/// Leadership, for as long as [`Leader::lost`] has not returned.
pub struct Leader {
    cluster: Cluster,
    settings: LeaseSettings,
    identity: String,
    held: Lease,
    /// Grows with every process that leads.
    pub epoch: u64,
}

/// Waits until this process leads. `suffix` tells it from others of the same pod.
pub async fn acquire(cluster: &Cluster, settings: &LeaseSettings, suffix: &str) -> Leader {
    let identity = format!("{}_{suffix}", settings.pod);
    // What was last seen in the lease and since when: clocks of other machines are not trusted.
    let mut seen: Option<(LeaseSpec, Instant)> = None;
    let mut waiting_for: Option<String> = None;
    loop {
        match attempt(cluster, settings, &identity, &mut seen).await {
            Ok(Attempt::Taken(held)) => {
                let epoch = transitions(&held);
                tracing::info!(epoch, identity, "leading");
                return Leader {
                    cluster: cluster.clone(),
                    settings: settings.clone(),
                    identity,
                    held: *held,
                    epoch,
                };
            }
            Ok(Attempt::Held(holder)) => {
                if waiting_for.as_ref() != Some(&holder) {
                    tracing::info!(
                        holder,
                        "another process leads; waiting for its lease to end"
                    );
                    waiting_for = Some(holder);
                }
            }
            Err(ApiError::Conflict | ApiError::AlreadyExists) => continue,
            Err(error) => tracing::warn!(%error, "looking at the lease"),
        }
        tokio::time::sleep(settings.retry_period).await;
    }
}

enum Attempt {
    Taken(Box<Lease>),
    Held(String),
}

async fn attempt(
    cluster: &Cluster,
    settings: &LeaseSettings,
    identity: &str,
    seen: &mut Option<(LeaseSpec, Instant)>,
) -> Result<Attempt, ApiError> {
    let LeaseSettings {
        namespace,
        pod,
        duration,
        renew_deadline: _,
        retry_period: _,
    } = settings;
    let Some(mut lease) = cluster.get::<Lease>(namespace, LEASE).await? else {
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(LEASE.into()),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(taken(None, identity, *duration)),
        };
        let api: Api<Lease> = cluster.api(namespace);
        let params = PostParams::default();
        let made = cluster
            .ask::<Lease, _>("create", api.create(&params, &lease))
            .await?;
        return Ok(Attempt::Taken(Box::new(made)));
    };
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.clone().unwrap_or_default();
    let ours = holder
        .rsplit_once('_')
        .is_some_and(|(holder, _)| holder == pod);
    if !ours && !holder.is_empty() {
        let since = match seen {
            Some((before, since)) if *before == spec => *since,
            _ => {
                let now = Instant::now();
                *seen = Some((spec.clone(), now));
                now
            }
        };
        let lasts = spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(*duration, Duration::from_secs);
        if since.elapsed() < lasts {
            return Ok(Attempt::Held(holder));
        }
    }
    lease.spec = Some(taken(Some(&spec), identity, *duration));
    replace(cluster, namespace, &lease)
        .await
        .map(|lease| Attempt::Taken(Box::new(lease)))
}

/// Only if nobody else has written it since.
async fn replace(cluster: &Cluster, namespace: &str, lease: &Lease) -> Result<Lease, ApiError> {
    let api: Api<Lease> = cluster.api(namespace);
    let params = PostParams::default();
    cluster
        .ask::<Lease, _>("update", api.replace(LEASE, &params, lease))
        .await
}

fn taken(before: Option<&LeaseSpec>, identity: &str, duration: Duration) -> LeaseSpec {
    let now = MicroTime(jiff::Timestamp::now());
    let transitions = before
        .and_then(|spec| spec.lease_transitions)
        .unwrap_or_default();
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: i32::try_from(duration.as_secs()).ok(),
        acquire_time: Some(now.clone()),
        renew_time: Some(now),
        lease_transitions: Some(transitions.saturating_add(1)),
        ..before.cloned().unwrap_or_default()
    }
}

fn transitions(lease: &Lease) -> u64 {
    lease
        .spec
        .as_ref()
        .and_then(|spec| spec.lease_transitions)
        .and_then(|count| u64::try_from(count).ok())
        .unwrap_or_default()
}

impl Leader {
    /// Renews the lease and returns when it is lost: another process holds it, or it could not be renewed for too long.
    pub async fn lost(&mut self) {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(self.settings.retry_period).await;
            // Frozen for longer than the lease lasts: whatever it says now, another may have led.
            if renewed.elapsed() > self.settings.duration {
                tracing::warn!("the lease could not be renewed in time");
                return;
            }
            let mut lease = self.held.clone();
            if let Some(spec) = &mut lease.spec {
                spec.renew_time = Some(MicroTime(jiff::Timestamp::now()));
            }
            let begun = Instant::now();
            let left = self
                .settings
                .renew_deadline
                .saturating_sub(renewed.elapsed());
            let renewal = replace(&self.cluster, &self.settings.namespace, &lease);
            match tokio::time::timeout(left.max(Duration::from_millis(100)), renewal).await {
                Ok(Ok(lease)) => {
                    self.held = lease;
                    renewed = begun;
                    continue;
                }
                Ok(Err(ApiError::Conflict)) => {
                    if !self.still_ours().await {
                        tracing::warn!("another process has taken the lease");
                        return;
                    }
                }
                Ok(Err(error)) => tracing::warn!(%error, "renewing the lease"),
                Err(_) => {}
            }
            if renewed.elapsed() > self.settings.renew_deadline {
                tracing::warn!("the lease could not be renewed in time");
                return;
            }
        }
    }

    /// Somebody wrote the lease: whose is it?
    async fn still_ours(&mut self) -> bool {
        let found = self
            .cluster
            .get::<Lease>(&self.settings.namespace, LEASE)
            .await;
        match found {
            Ok(Some(lease)) => {
                let holder = lease
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.holder_identity.as_deref());
                let ours = holder == Some(&self.identity);
                if ours {
                    self.held = lease;
                }
                ours
            }
            Ok(None) => false,
            // Not known: the deadline decides.
            Err(_) => true,
        }
    }

    /// Gives the lease back, so that the next process need not wait for its end.
    pub async fn release(self) {
        let mut lease = self.held;
        if let Some(spec) = &mut lease.spec {
            let second = SignedDuration::from_secs(1);
            spec.holder_identity = None;
            spec.lease_duration_seconds = i32::try_from(second.as_secs()).ok();
        }
        match replace(&self.cluster, &self.settings.namespace, &lease).await {
            Ok(_) => tracing::info!("the lease is given back"),
            Err(error) => tracing::debug!(%error, "giving the lease back"),
        }
    }
}
