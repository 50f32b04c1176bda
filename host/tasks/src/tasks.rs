//! The engine's tasks: ask plugins, fetch trees, drive runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncRead;
use tokio_stream::StreamExt;
use windlass_agent::{ClientError, RunEvent};
use windlass_api::Stack;
use windlass_api::run::{ProgramSource, ProjectInfo};
use windlass_core::by_hand;
use windlass_core::decision::TaskKind;
use windlass_core::failure::{Failure, FailureClass};
use windlass_core::request::run_request;
use windlass_core::snapshot::{Resolution, RunEnd, Session, Tree};
use windlass_core::spec::{SourceKind, check};
use windlass_engine::{Found, Key, TaskInput, Tasks};
use windlass_fetch::{Artifact as FetchArtifact, FetchError, Fetcher, TreeRequest};
use windlass_sdk::Artifact;
use windlass_wasm::{PluginHost, Work};

use crate::failures::{agent_failure, fetch_failure, invalid, plugin_failure, unavailable};
use crate::held::HeldOutputs;
use crate::login::exchange;
use crate::place::Place;
use crate::subscriptions::fetch_credential;

/// Tasks over plugins, the fetcher and the agents of a place.
pub struct PlaceTasks<P> {
    pub place: Arc<P>,
    pub plugins: PluginHost,
    pub fetcher: Fetcher,
    pub outputs: Arc<HeldOutputs>,
    /// Credentials of resolved artifacts, by Stack: they never stand in a snapshot.
    credentials: Mutex<HashMap<Key, Option<windlass_fetch::Credential>>>,
    /// Runs that ended under this process's eyes.
    pub(crate) ended_runs: AtomicU32,
}

impl<P: Place> PlaceTasks<P> {
    pub fn new(
        place: Arc<P>,
        plugins: PluginHost,
        fetcher: Fetcher,
        outputs: Arc<HeldOutputs>,
    ) -> PlaceTasks<P> {
        PlaceTasks {
            place,
            plugins,
            fetcher,
            outputs,
            credentials: Mutex::default(),
            ended_runs: AtomicU32::new(0),
        }
    }

    /// Runs that ended under this process's eyes.
    pub fn ended_runs(&self) -> u32 {
        self.ended_runs.load(Ordering::Relaxed)
    }

    /// The Stack is gone: what is remembered of it goes.
    pub fn forget(&self, key: &Key) {
        self.credentials
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
    }
}

impl<P: Place> Tasks for PlaceTasks<P> {
    async fn run(&self, input: TaskInput) -> Result<Found, Failure> {
        let stack =
            by_hand::stack(&input.objects).ok_or_else(|| unavailable("the Stack is gone"))?;
        let stack = &stack;
        match &input.kind {
            TaskKind::Resolve { fresh } => {
                if *fresh {
                    self.place.look_afresh(&input.key);
                }
                self.resolve(&input, stack).await.map(Found::Source)
            }
            TaskKind::Fetch { resolution } => {
                self.fetch(&input, stack, resolution).await.map(Found::Tree)
            }
            TaskKind::OpenBackend { project } => self
                .open(&input, stack, project.as_deref())
                .await
                .map(Found::Backend),
            TaskKind::Deliver { program, instance } => self
                .deliver(&input, stack, program, instance)
                .await
                .map(|()| Found::Delivered),
            TaskKind::Run { update, instance } => self
                .drive(&input, stack, update, instance)
                .await
                .map(|end| Found::Run(Box::new(end))),
            TaskKind::Cancel { update, instance } => {
                let client = self.place.client(&input.key, instance).await?;
                match client.cancel_run(update).await {
                    // It is over, or was never there: its own task says which.
                    Ok(()) | Err(ClientError::UnknownRun(_)) => Ok(Found::Cancelling),
                    Err(error) => Err(agent_failure(&error)),
                }
            }
        }
    }
}

impl<P: Place> PlaceTasks<P> {
    async fn resolve(&self, input: &TaskInput, stack: &Stack) -> Result<Resolution, Failure> {
        let checked = check(stack, P::WORKSPACE_PATH)
            .map_err(|error| invalid("SpecInvalid", error.to_string()))?;
        let SourceKind::Provider(provider) = checked.source else {
            return Err(invalid(
                "SpecInvalid",
                "the Stack names no source".to_owned(),
            ));
        };
        let work = work(input, stack);
        let errors = self
            .plugins
            .validate(&provider, &work)
            .await
            .result
            .map_err(|error| plugin_failure(&error))?;
        if !errors.is_empty() {
            let text: Vec<String> = errors.into_iter().map(|error| error.message).collect();
            return Err(invalid("SpecInvalid", text.join("; ")));
        }
        let watched = self
            .plugins
            .watches(&provider, &work)
            .await
            .result
            .map_err(|error| plugin_failure(&error))?;
        self.place.follows(&input.key, watched);
        let previous = stack
            .status
            .as_ref()
            .and_then(|status| status.last_update.as_ref())
            .and_then(|last| last.last_attempted_commit.as_deref());
        let resolved = self
            .plugins
            .resolve(&provider, &work, previous)
            .await
            .result
            .map_err(|e| plugin_failure(&e))?;
        let credential = resolved.credential.as_ref().map(fetch_credential);
        self.credentials
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(input.key.clone(), credential);
        let windlass_sdk::Resolution {
            revision,
            artifact,
            dir,
            poll_after_ms,
        } = resolved.resolution;
        self.place
            .polls(&input.key, poll_after_ms.map(Duration::from_millis));
        let workspace_path = matches!(artifact, Artifact::WorkspacePath { .. });
        if workspace_path && !P::WORKSPACE_PATH {
            return Err(invalid(
                "SourceUnsupported",
                "a program that lies in an image needs a cluster".to_owned(),
            ));
        }
        let artifact = serde_json::to_value(artifact)
            .map_err(|error| invalid("SourceInvalid", error.to_string()))?;
        Ok(Resolution {
            revision,
            dir,
            poll_after_ms,
            workspace_path,
            artifact,
        })
    }

    async fn fetch(
        &self,
        input: &TaskInput,
        stack: &Stack,
        resolution: &Resolution,
    ) -> Result<Tree, Failure> {
        let held = self
            .credentials
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&input.key)
            .cloned();
        let credential = match held {
            Some(credential) => credential,
            None => {
                self.resolve(input, stack).await?;
                let held = self
                    .credentials
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                held.get(&input.key).cloned().flatten()
            }
        };
        let artifact: Artifact = serde_json::from_value(resolution.artifact.clone())
            .map_err(|error| invalid("SourceInvalid", error.to_string()))?;
        let artifact = match artifact {
            Artifact::GitTree {
                url,
                commit,
                auth: _,
                depth: _,
            } => FetchArtifact::GitTree { url, commit },
            Artifact::Archive {
                url,
                digest,
                auth: _,
            } => FetchArtifact::Archive { url, digest },
            Artifact::Files { files } => FetchArtifact::Files(contents(files)),
            Artifact::WorkspacePath { .. } | Artifact::Other { .. } => {
                let text =
                    "the source provider answers with an artifact that this version cannot fetch";
                return Err(invalid("SourceUnsupported", text.to_owned()));
            }
        };
        let tree = self
            .fetcher
            .fetch(TreeRequest {
                artifact,
                credential,
            })
            .await
            .map_err(|e| fetch_failure(&e))?;
        let subtree = self
            .fetcher
            .subtree_digest(&tree.digest, &resolution.dir)
            .await
            .map_err(|error| fetch_failure(&error))?;
        let project = self.project(&tree.digest, &resolution.dir).await?;
        let program = ProgramSource::Tree {
            digest: tree.digest.clone(),
            dir: resolution.dir.clone(),
        };
        Ok(Tree {
            program,
            subtree,
            project: Some(project),
        })
    }

    /// Name and runtime from the project file of a stored tree.
    async fn project(&self, digest: &str, dir: &str) -> Result<ProjectInfo, Failure> {
        let reader = self
            .fetcher
            .open(digest, Some(dir))
            .await
            .map_err(|error| fetch_failure(&error))?;
        let found = tokio::task::spawn_blocking(move || crate::project::read(reader)).await;
        match found {
            Ok(Ok(project)) => Ok(project),
            Ok(Err(error)) => Err(invalid("ProjectInvalid", error.to_string())),
            Err(error) => Err(unavailable(&error.to_string())),
        }
    }

    pub(crate) async fn open(
        &self,
        input: &TaskInput,
        stack: &Stack,
        project: Option<&str>,
    ) -> Result<Session, Failure> {
        let url = self.place.backend_url(stack).await?;
        let done = self
            .plugins
            .open_backend(&url, project, &stack.spec.stack, &work(input, stack))
            .await;
        let session = done.result.map_err(|error| plugin_failure(&error))?;
        Ok(Session {
            stack: session.stack,
            env: session.env,
            login: exchange(session.login),
        })
    }

    /// Starts the run unless it was, and follows it to its end.
    async fn drive(
        &self,
        input: &TaskInput,
        stack: &Stack,
        update: &str,
        instance: &str,
    ) -> Result<RunEnd, Failure> {
        let ours = windlass_core::run::ours(stack, &input.objects.updates)
            .chain(by_hand::started(&input.objects))
            .find(|ours| ours.name == update)
            .ok_or_else(|| unavailable("the Update is gone"))?;
        let client = self.place.client(&input.key, instance).await?;
        let known = client
            .list_runs()
            .await
            .map_err(|e| agent_failure(&e))?
            .iter()
            .any(|run| run.id == update);
        if !known {
            if let ProgramSource::Tree { digest, .. } = &ours.intent.program
                && !client
                    .has_tree(digest)
                    .await
                    .map_err(|error| agent_failure(&error))?
            {
                let stream = self.stored(input, stack, digest).await?;
                client
                    .put_tree(digest, stream)
                    .await
                    .map_err(|error| agent_failure(&error))?;
            }
            self.login_is_the_adapters(input, stack, ours.intent)
                .await?;
            let mounts = self.place.mounts(&input.key, stack).await?;
            let request = if ours.update.spec.intent.is_some() {
                run_request(stack, ours, input.epoch, &mounts)
            } else {
                let workspace = input.objects.by_hand.as_ref();
                by_hand::request(stack, workspace, ours, input.epoch, &mounts)
            };
            client
                .start_run(&request)
                .await
                .map_err(|error| agent_failure(&error))?;
        }
        let mut events = client
            .watch_run(update, 0)
            .await
            .map_err(|error| agent_failure(&error))?;
        while let Some(event) = events.next().await {
            match event.map_err(|error| agent_failure(&error))? {
                RunEvent::Progress(progress) => self.place.progress(&input.key, update, &progress),
                RunEvent::Log(line) => self.place.log(&input.key, &line.text),
                RunEvent::Result(result) => {
                    return Ok(self.ended(input, stack, update, *result).await);
                }
            }
        }
        Err(Failure::new(
            FailureClass::Unavailable,
            "WatchEnded",
            "the agent stopped telling of the run",
        ))
    }

    /// Puts the program where the workspace's own init containers look for it.
    async fn deliver(
        &self,
        input: &TaskInput,
        stack: &Stack,
        program: &ProgramSource,
        instance: &str,
    ) -> Result<(), Failure> {
        let ProgramSource::Tree { digest, dir } = program else {
            return Err(invalid(
                "SourceUnsupported",
                "only a fetched program can be delivered".to_owned(),
            ));
        };
        let client = self.place.client(&input.key, instance).await?;
        let stream = self.stored(input, stack, digest).await?;
        client
            .show_tree(digest, dir, stream)
            .await
            .map_err(|error| agent_failure(&error))?;
        Ok(())
    }

    /// A stored tree as a tar stream.
    async fn stored(
        &self,
        input: &TaskInput,
        stack: &Stack,
        digest: &str,
    ) -> Result<impl AsyncRead + Send + Unpin + 'static, Failure> {
        let reader = match self.fetcher.open(digest, None).await {
            Ok(reader) => reader,
            // Collected since: the resolution that is known now may still lead there.
            Err(FetchError::TreeNotStored { .. }) => {
                let resolution = self.resolve(input, stack).await?;
                self.fetch(input, stack, &resolution).await?;
                self.fetcher
                    .open(digest, None)
                    .await
                    .map_err(|error| fetch_failure(&error))?
            }
            Err(error) => return Err(fetch_failure(&error)),
        };
        Ok(crate::stream::from_blocking(reader))
    }
}

/// The files of a program; the fetcher checks their paths.
fn contents(files: Vec<windlass_sdk::File>) -> BTreeMap<String, Vec<u8>> {
    files
        .into_iter()
        .map(|file| (file.path, file.content))
        .collect()
}

/// What a plugin sees of the Stack.
pub fn work(input: &TaskInput, stack: &Stack) -> Work {
    Work {
        namespace: input.key.namespace.clone(),
        name: input.key.name.clone(),
        metadata: json!({
            "name": input.key.name,
            "namespace": input.key.namespace,
            "uid": stack.metadata.uid,
            "generation": stack.metadata.generation,
            "annotations": stack.metadata.annotations,
            "labels": stack.metadata.labels,
        }),
        spec: serde_json::to_value(&stack.spec).unwrap_or_default(),
        now_ms: u64::try_from(input.now.0).unwrap_or_default(),
    }
}
