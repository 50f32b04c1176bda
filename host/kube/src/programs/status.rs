//! The status of Programs: where their archives are to be had. Written by the leader, and only when it says something else.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use windlass_api::lenient::Lenient;
use windlass_api::names::PROGRAM_STATUS_MANAGER;
use windlass_api::program::{Artifact, ProgramStatus};
use windlass_api::{ObjectMeta, Program};
use windlass_core::decision::Event;
use windlass_engine::Key;

use crate::api::{ApiError, Cluster, readable};
use crate::events::Events;
use crate::programs::archive::{Archive, archive};
use crate::world::World;

/// How long to wait after a write that failed; doubled up to the second.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Keeps the status of all Programs true.
pub struct Statuses {
    cluster: Cluster,
    events: Events,
    /// What the archives' addresses begin with, without a slash at the end.
    base: String,
    /// What was packed and found right, by Program: its uid, its generation and the digest.
    seen: HashMap<Key, (Option<String>, i64, Option<String>)>,
}

impl Statuses {
    /// `advertised` is where the server is reached: `HOST:PORT` or a URL.
    pub fn new(cluster: Cluster, events: Events, advertised: &str) -> Statuses {
        Statuses {
            cluster,
            events,
            base: base(advertised),
            seen: HashMap::new(),
        }
    }

    /// Looks at every Program that changes. Never returns.
    pub async fn keep(mut self, world: &World) {
        let mut pause = FIRST_PAUSE;
        loop {
            let news = world.archives.news();
            let programs = world.programs.all();
            let mut failed = false;
            for program in &programs {
                if let Err(error) = self.look(world, program).await {
                    let key = identity(&program.metadata).map(|(key, _)| key.to_string());
                    tracing::warn!(program = key, %error, "writing the status of a Program");
                    failed = true;
                }
            }
            self.seen
                .retain(|key, _| world.programs.get(&key.namespace, &key.name).is_some());
            if !failed {
                pause = FIRST_PAUSE;
                news.await;
                continue;
            }
            let rest = tokio::time::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
            tokio::select! {
                () = rest => {}
                () = news => {}
            }
        }
    }

    async fn look(&mut self, world: &World, program: &Program) -> Result<(), ApiError> {
        let metadata = &program.metadata;
        let Some((key, generation)) = identity(metadata) else {
            return Ok(());
        };
        if metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let stored = program.status.clone().unwrap_or_default();
        // Packing is the dear part: done once per generation.
        let known = self.seen.get(&key);
        let known = known.filter(|(uid, seen, _)| *uid == metadata.uid && *seen == generation);
        if let Some((_, _, digest)) = known {
            let shown = stored
                .artifact
                .as_ref()
                .and_then(|artifact| artifact.digest.as_ref());
            let address = self.address(&key, generation);
            let there = stored
                .artifact
                .as_ref()
                .is_none_or(|artifact| artifact.url == address);
            if shown == digest.as_ref() && there && stored.observed_generation == Some(generation) {
                return Ok(());
            }
        }
        let packed = archive(program);
        let digest = packed.as_ref().ok().map(|packed| packed.digest.clone());
        let told = known.is_some();
        let wanted = ProgramStatus {
            observed_generation: Some(generation),
            artifact: packed
                .as_ref()
                .ok()
                .map(|packed| self.artifact(&key, generation, packed, stored.artifact.as_ref())),
        };
        if let Err(why) = &packed
            && !told
        {
            tracing::warn!(program = %key, why, "a Program cannot be packed");
            self.events.program(program, &invalid(why));
        }
        if wanted != stored {
            self.write(world, &key, metadata, &wanted).await?;
        }
        self.seen
            .insert(key, (metadata.uid.clone(), generation, digest));
        Ok(())
    }

    fn address(&self, key: &Key, generation: i64) -> String {
        let Key { namespace, name } = key;
        format!("{}/programs/{namespace}/{name}/{generation}", self.base)
    }

    /// What is to be said of an archive. The time stays while the rest does.
    fn artifact(
        &self,
        key: &Key,
        generation: i64,
        packed: &Archive,
        stored: Option<&Artifact>,
    ) -> Artifact {
        let Key { namespace, name } = key;
        let mut artifact = Artifact {
            path: format!("programs/{namespace}/{name}/{generation}.tar.gz"),
            url: self.address(key, generation),
            revision: generation.to_string(),
            digest: Some(packed.digest.clone()),
            last_update_time: Time(jiff::Timestamp::now()),
            size: i64::try_from(packed.bytes.len()).ok(),
            metadata: Default::default(),
        };
        if let Some(stored) = stored {
            let now = std::mem::replace(
                &mut artifact.last_update_time,
                stored.last_update_time.clone(),
            );
            if artifact != *stored {
                artifact.last_update_time = now;
            }
        }
        artifact
    }

    async fn write(
        &self,
        world: &World,
        key: &Key,
        metadata: &ObjectMeta,
        status: &ProgramStatus,
    ) -> Result<(), ApiError> {
        let object = json!({
            "apiVersion": "pulumi.com/v1",
            "kind": "Program",
            // Only of what was looked at: what came since is looked at in its turn.
            "metadata": {
                "name": key.name,
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
            },
            "status": status,
        });
        let answer: Result<Lenient<Program>, ApiError> = self
            .cluster
            .apply_status(&key.namespace, &key.name, &object, PROGRAM_STATUS_MANAGER)
            .await;
        match answer {
            Ok(program) => {
                world.took(readable(program)?);
                Ok(())
            }
            // The watch will tell.
            Err(ApiError::Conflict | ApiError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn identity(metadata: &ObjectMeta) -> Option<(Key, i64)> {
    let key = Key::new(metadata.namespace.clone()?, metadata.name.clone()?);
    Some((key, metadata.generation?))
}

fn invalid(why: &str) -> Event {
    Event {
        warning: true,
        reason: "ProgramInvalid".to_owned(),
        message: why.to_owned(),
    }
}

/// An address as the beginning of URLs.
fn base(advertised: &str) -> String {
    let advertised = advertised.trim_end_matches('/');
    if advertised.contains("://") {
        advertised.to_owned()
    } else {
        format!("http://{advertised}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_scheme_gets_one() {
        assert_eq!(base("operator.ns:80"), "http://operator.ns:80");
        assert_eq!(base("https://op.example/"), "https://op.example");
    }
}
