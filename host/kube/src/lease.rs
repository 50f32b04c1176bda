//! Who leads: the lease that the Pulumi Kubernetes Operator uses too, so that never both work on the same Stacks.
//!
//! The count of transitions grows with every process that takes the lease: it is the epoch by which agents refuse an
//! earlier leader. When it may be taken and when it is lost is decided in `windlass_core::leadership`, which the
//! simulator uses too; here is what reads and writes it.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::PostParams;
use tokio::time::Instant;
use windlass_api::ObjectMeta;
use windlass_api::names::LEASE;
use windlass_core::leadership::{Candidate, Tenure, identity, next_epoch};

use crate::api::{ApiError, Cluster};

/// How often giving the lease back is tried: more than one write of ours can hardly be on its way.
const RELEASE_ATTEMPTS: usize = 3;

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
    clock: Instant,
    tenure: Tenure,
    /// Grows with every process that leads.
    pub epoch: u64,
}

/// Waits until this process leads. `suffix` tells it from others of the same pod.
pub async fn acquire(cluster: &Cluster, settings: &LeaseSettings, suffix: &str) -> Leader {
    let identity = identity(&settings.pod, suffix);
    let clock = Instant::now();
    let mut candidate = Candidate::new(settings.pod.clone());
    let mut waiting_for: Option<String> = None;
    loop {
        let begun = clock.elapsed();
        let mut wait = settings.retry_period;
        match attempt(cluster, settings, &identity, &mut candidate, clock).await {
            Ok(Attempt::Taken(held)) => {
                let epoch = transitions(held.spec.as_ref());
                tracing::info!(epoch, identity, "leading");
                return Leader {
                    cluster: cluster.clone(),
                    settings: settings.clone(),
                    identity,
                    held: *held,
                    clock,
                    tenure: Tenure::new(begun, settings.duration, settings.renew_deadline),
                    epoch,
                };
            }
            Ok(Attempt::Held { holder, ends_in }) => {
                wait = wait.min(ends_in);
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
        tokio::time::sleep(wait).await;
    }
}

enum Attempt {
    Taken(Box<Lease>),
    Held { holder: String, ends_in: Duration },
}

async fn attempt(
    cluster: &Cluster,
    settings: &LeaseSettings,
    identity: &str,
    candidate: &mut Candidate<LeaseSpec>,
    clock: Instant,
) -> Result<Attempt, ApiError> {
    let LeaseSettings {
        namespace,
        pod: _,
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
    let lasts = spec
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map_or(*duration, Duration::from_secs);
    if !candidate.may_take(spec.clone(), &holder, lasts, clock.elapsed()) {
        let ends_in = candidate.takes_in(lasts, clock.elapsed());
        let ends_in = ends_in.unwrap_or(lasts);
        return Ok(Attempt::Held { holder, ends_in });
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
    let epoch = next_epoch(transitions(before));
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: i32::try_from(duration.as_secs()).ok(),
        acquire_time: Some(now.clone()),
        renew_time: Some(now),
        lease_transitions: i32::try_from(epoch).ok(),
        ..before.cloned().unwrap_or_default()
    }
}

fn transitions(spec: Option<&LeaseSpec>) -> u64 {
    spec.and_then(|spec| spec.lease_transitions)
        .and_then(|count| u64::try_from(count).ok())
        .unwrap_or_default()
}

impl Leader {
    /// Renews the lease and returns when it is lost: another process holds it, or it could not be renewed for too long.
    pub async fn lost(&mut self) {
        loop {
            tokio::time::sleep(self.settings.retry_period).await;
            // Frozen for longer than the lease lasts: whatever it says now, another may have led.
            if self.tenure.slept_through(self.clock.elapsed()) {
                tracing::warn!("the lease could not be renewed in time");
                return;
            }
            let mut lease = self.held.clone();
            if let Some(spec) = &mut lease.spec {
                spec.renew_time = Some(MicroTime(jiff::Timestamp::now()));
            }
            let begun = self.clock.elapsed();
            let left = self.tenure.left(begun).max(Duration::from_millis(100));
            let renewal = replace(&self.cluster, &self.settings.namespace, &lease);
            match tokio::time::timeout(left, renewal).await {
                Ok(Ok(lease)) => {
                    self.held = lease;
                    self.tenure.renew(begun);
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
            if self.tenure.over(self.clock.elapsed()) {
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
    pub async fn release(mut self) {
        for _ in 0..RELEASE_ATTEMPTS {
            let mut lease = self.held.clone();
            if let Some(spec) = &mut lease.spec {
                let second = SignedDuration::from_secs(1);
                spec.holder_identity = None;
                spec.lease_duration_seconds = i32::try_from(second.as_secs()).ok();
            }
            match replace(&self.cluster, &self.settings.namespace, &lease).await {
                Ok(_) => tracing::info!("the lease is given back"),
                // A renewal that was interrupted may have been written all the same.
                Err(ApiError::Conflict) if self.still_ours().await => continue,
                Err(error) => tracing::warn!(%error, "giving the lease back"),
            }
            return;
        }
    }
}
