//! Wires the ports and runs the engine, for as long as this process leads.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use tokio::task::JoinSet;
use windlass_api::names::{AUTO_COMPONENT_LABEL, COMPONENT_WORKSPACE};
use windlass_api::{Program, Stack, Update, Workspace};
use windlass_core::snapshot::Config;
use windlass_engine::{Runner, Settings};
use windlass_fetch::{FetchConfig, Fetcher, Poller, WorkerCommand};
use windlass_tasks::{HeldOutputs, PlaceTasks, ProgressNotes, Subscriptions};
use windlass_wasm::outside::http::HttpClient;
use windlass_wasm::{Builtins, HostOptions, Network, PluginHost, Policy};

use crate::agents::Agents;
use crate::api::{Cluster, set_deadline};
use crate::api_server::ApiServer;
use crate::certificates::{CertificateError, Certificates};
use crate::clock;
use crate::config::OperatorConfig;
use crate::digests::OutputDigests;
use crate::events::Events;
use crate::follow::Follow;
use crate::healths::Healths;
use crate::instances::Instances;
use crate::lease::acquire;
use crate::links::Links;
use crate::metrics::{Counters, Metered, Metrics};
use crate::observe::Steps;
use crate::outside::KubeOutside;
use crate::place::KubePlace;
use crate::programs::Statuses;
use crate::references::References;
use crate::store::KubeStore;
use crate::watch::{Readiness, start};
use crate::world::World;

/// Updates kept per Stack, beside those of a day.
const KEEP_UPDATES: usize = 10;

/// Why the operator cannot run.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    #[error(
        "no cluster: {0}. Run in a pod with a service account, or set KUBECONFIG to a file that names one"
    )]
    NoCluster(String),
    #[error(transparent)]
    Definitions(#[from] crate::definitions::DefinitionError),
    #[error("the policy: {0}")]
    Policy(String),
    #[error("{path}: {message}")]
    Damaged { path: String, message: String },
    #[error("fetching: {0}")]
    Fetch(String),
    #[error("plugins: {0}")]
    Plugins(String),
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
}

/// An operator that watches, and acts while it leads.
pub struct Operator {
    config: OperatorConfig,
    cluster: Cluster,
    world: Arc<World>,
    readiness: Arc<Readiness>,
    plugins: PluginHost,
    fetcher: Fetcher,
    metrics: Arc<Metrics>,
    outside: Arc<KubeOutside>,
    watches: JoinSet<()>,
}

impl Operator {
    /// Loads the plugins and begins to watch.
    ///
    /// # Errors
    /// What this process needs is missing or cannot be used.
    pub async fn open(config: OperatorConfig) -> Result<Operator, OperatorError> {
        private(&config.data_dir)?;
        set_deadline(config.api_timeout);
        let counters = Counters::default();
        let (client, url) = client(config.kubeconfig.as_deref()).await?;
        let cluster = Cluster {
            client,
            instance: config.lease.pod.as_str().into(),
            counters: counters.clone(),
        };
        crate::definitions::check(&cluster).await?;
        let mut api_server = ApiServer::find(&cluster, &url, config.namespaces.is_empty()).await;
        if config.allow_loopback {
            api_server = api_server.without_loopback();
        }
        let world = Arc::new(World::default());
        let readiness = Arc::new(Readiness::default());
        let mut watches = JoinSet::new();
        let namespaces = &config.namespaces;
        let (tasks, ready) = (&mut watches, &readiness);
        start::<Stack>(tasks, &world, &cluster, namespaces, None, ready);
        start::<Program>(tasks, &world, &cluster, namespaces, None, ready);
        start::<Workspace>(tasks, &world, &cluster, namespaces, None, ready);
        start::<Update>(tasks, &world, &cluster, namespaces, None, ready);
        let pods = format!("{AUTO_COMPONENT_LABEL}={COMPONENT_WORKSPACE}");
        start::<Pod>(tasks, &world, &cluster, namespaces, Some(&pods), ready);
        let fetcher = fetcher(&config, &api_server)?;
        if let Some(gap) = fetcher.sandbox_gap() {
            tracing::warn!(%gap, "the sandbox of the fetching process is incomplete");
        }
        let outside = Arc::new(KubeOutside {
            cluster: cluster.clone(),
            world: Arc::clone(&world),
            subscriptions: Subscriptions::new(Poller::new(fetcher.clone())),
            http: HttpClient::new(network(&config, &api_server)),
        });
        let plugins = plugins(&config, &api_server, Arc::clone(&outside)).await?;
        let metrics = Metrics::new(
            counters,
            Arc::clone(&world),
            plugins.clone(),
            fetcher.clone(),
        );
        Ok(Operator {
            config,
            cluster,
            world,
            readiness,
            plugins,
            fetcher,
            metrics: Arc::new(metrics),
            outside,
            watches,
        })
    }

    /// Whether every watch has listed.
    pub fn readiness(&self) -> Arc<Readiness> {
        Arc::clone(&self.readiness)
    }

    pub(crate) fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    pub(crate) fn world(&self) -> Arc<World> {
        Arc::clone(&self.world)
    }

    pub(crate) fn cluster(&self) -> Cluster {
        self.cluster.clone()
    }

    /// Leads whenever it can, until `stop` ends. Runs that go on stay with their agents.
    ///
    /// # Errors
    /// The certificates of the operator cannot be used.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), OperatorError> {
        let mut stop = std::pin::pin!(stop);
        let reloading = {
            let plugins = self.plugins.clone();
            tokio::spawn(async move { plugins.watch(Duration::from_secs(1)).await })
        };
        let suffix = format!("{:x}", std::process::id());
        loop {
            let (cluster, lease) = (self.cluster.clone(), self.config.lease.clone());
            let mut leader = tokio::select! {
                leader = acquire(&cluster, &lease, &suffix) => leader,
                () = &mut stop => break,
            };
            let stopped = {
                let epoch = leader.epoch;
                tokio::select! {
                    led = self.lead(epoch) => { led?; false }
                    () = leader.lost() => false,
                    () = &mut stop => true,
                }
            };
            self.world.follow();
            if stopped {
                leader.release().await;
                break;
            }
        }
        reloading.abort();
        self.watches.shutdown().await;
        Ok(())
    }

    fn events(&self) -> Events {
        Events {
            cluster: self.cluster.clone(),
        }
    }

    /// Acts, until dropped. Returns only if another process has led since.
    async fn lead(&mut self, epoch: u64) -> Result<(), OperatorError> {
        self.readiness.ready().await;
        let namespace = &self.config.lease.namespace;
        let certificates = Arc::new(Certificates::open(self.cluster.clone(), namespace).await?);
        let agents = Arc::new(Agents::new(
            Arc::clone(&self.world),
            Arc::clone(&certificates),
        ));
        agents.lead(epoch);
        let references = Arc::new(References::new(
            self.cluster.clone(),
            Arc::clone(&self.world),
        ));
        let healths = Healths::new(
            self.cluster.clone(),
            Arc::clone(&self.world),
            self.plugins.clone(),
            self.config.namespaces.clone(),
        );
        let outputs = Arc::new(HeldOutputs::default());
        let instances = Arc::new(Instances::new(
            self.cluster.clone(),
            Arc::clone(&self.world),
            Arc::clone(&agents),
            Arc::clone(&certificates),
            self.config.clone(),
        ));
        let store = Arc::new(KubeStore {
            cluster: self.cluster.clone(),
            world: Arc::clone(&self.world),
            references: Arc::clone(&references),
            healths: Arc::clone(&healths),
            digests: OutputDigests::new(self.cluster.clone()),
            outputs: Arc::clone(&outputs),
            instances: Arc::clone(&instances),
            events: self.events(),
        });
        let follow = Arc::new(Follow::new(
            self.cluster.clone(),
            Arc::clone(&self.world),
            self.config.namespaces.clone(),
        ));
        let notes = Arc::new(ProgressNotes::new(self.config.progress));
        let place = Arc::new(KubePlace {
            cluster: self.cluster.clone(),
            agents: Arc::clone(&agents),
            follow,
            outside: Arc::clone(&self.outside),
            notes: Arc::clone(&notes),
        });
        let tasks = Arc::new(PlaceTasks::new(
            place,
            self.plugins.clone(),
            self.fetcher.clone(),
            outputs,
        ));
        let settings = Settings {
            epoch,
            config: Config {
                default_idle_seconds: self.config.idle_seconds,
                keep_updates: KEEP_UPDATES,
                workspace_path: true,
            },
        };
        let counters = &self.metrics.counters;
        let steps = Steps {
            counters: counters.clone(),
        };
        let (runner, handle) = Runner::new(
            settings,
            metered(Arc::clone(&store), counters),
            metered(tasks, counters),
            Arc::new(steps),
            self.config.max_runs,
            clock,
        );
        counters.set_engine(Some(runner.stats()));
        self.outside.subscriptions.tells(handle.clone());
        self.world.lead(handle.clone());
        // All of it ends with this future: whoever does not lead does nothing.
        let mut beside = JoinSet::new();
        beside.spawn({
            let references = Arc::clone(&references);
            async move { references.look_for_missing().await }
        });
        beside.spawn(async move { healths.look_again().await });
        beside.spawn({
            let (certificates, world) = (Arc::clone(&certificates), Arc::clone(&self.world));
            async move { certificates.keep(&world).await }
        });
        beside.spawn({
            let instances = Arc::clone(&instances);
            async move { instances.keep().await }
        });
        {
            let store = Arc::clone(&store);
            beside.spawn(async move { store.keep_progress(&notes).await });
        }
        beside.spawn({
            let (links, world) = (Links::new(self.cluster.clone()), Arc::clone(&self.world));
            async move { links.keep(&world).await }
        });
        if let Some(advertised) = &self.config.program_address {
            let statuses = Statuses::new(self.cluster.clone(), self.events(), advertised);
            let world = Arc::clone(&self.world);
            beside.spawn(async move { statuses.keep(&world).await });
        }
        let guard = Clear(Arc::clone(&agents), counters.clone());
        tokio::select! {
            () = runner.run(false) => {}
            () = agents.deposed() => {}
        }
        drop(guard);
        Ok(())
    }
}

/// A port whose numbers are counted.
fn metered<T>(inner: Arc<T>, counters: &Counters) -> Arc<Metered<T>> {
    Arc::new(Metered {
        inner,
        counters: counters.clone(),
    })
}

/// A client of the cluster that the file names, and where its API server is; without a file that of the pod this runs in,
/// else of the usual kubeconfig.
pub(crate) async fn client(
    kubeconfig: Option<&Path>,
) -> Result<(Client, http::Uri), OperatorError> {
    let mut config = match kubeconfig {
        Some(path) => {
            let named = |error: kube::config::KubeconfigError| {
                OperatorError::NoCluster(format!("{}: {error}", path.display()))
            };
            let file = kube::config::Kubeconfig::read_from(path).map_err(named)?;
            kube::Config::from_custom_kubeconfig(file, &Default::default())
                .await
                .map_err(named)?
        }
        None => kube::Config::infer()
            .await
            .map_err(|error| OperatorError::NoCluster(error.to_string()))?,
    };
    // Every request here has a deadline, and whoever asks knows when to ask again.
    config.default_retry = false;
    let url = config.cluster_url.clone();
    let client =
        Client::try_from(config).map_err(|error| OperatorError::NoCluster(error.to_string()))?;
    Ok((client, url))
}

/// Drops the connections of a leader that leads no more, however it ended.
struct Clear(Arc<Agents>, Counters);

impl Drop for Clear {
    fn drop(&mut self) {
        self.0.clear();
        self.1.set_engine(None);
    }
}

fn private(path: &Path) -> Result<(), OperatorError> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| OperatorError::Io(path.display().to_string(), error))
}

fn network(config: &OperatorConfig, api_server: &ApiServer) -> Network {
    Network {
        loopback: config.allow_loopback,
        api_server: api_server.texts(),
        scripted: false,
    }
}

fn fetcher(config: &OperatorConfig, api_server: &ApiServer) -> Result<Fetcher, OperatorError> {
    let (program, args) = config.fetch_worker.clone();
    let mut fetch = FetchConfig::new(
        config.data_dir.join("trees"),
        WorkerCommand { program, args },
    );
    fetch.allow_loopback = config.allow_loopback;
    fetch.denied = api_server.addresses.iter().copied().collect();
    if let Ok(path) = std::env::var("SSL_CERT_FILE") {
        fetch.extra_ca_pem = std::fs::read_to_string(path).ok();
    }
    Fetcher::new(fetch).map_err(|error| OperatorError::Fetch(error.to_string()))
}

async fn plugins(
    config: &OperatorConfig,
    api_server: &ApiServer,
    outside: Arc<KubeOutside>,
) -> Result<PluginHost, OperatorError> {
    let policy = match &config.policy {
        Some(path) => {
            Policy::read(path).map_err(|error| OperatorError::Policy(error.to_string()))?
        }
        None => Policy::default(),
    };
    let builtins = match &config.builtin_digests {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| OperatorError::Io(path.display().to_string(), error))?;
            let digests = serde_json::from_str(&text).map_err(|error| OperatorError::Damaged {
                path: path.display().to_string(),
                message: error.to_string(),
            })?;
            Builtins(digests)
        }
        None => Builtins::default(),
    };
    let options = HostOptions {
        plugin_dirs: config.plugin_dirs.clone(),
        cache_dir: config.data_dir.join("code"),
        policy,
        builtins,
        leave_idle: true,
        file_urls: false,
        network: network(config, api_server),
        threads: 0,
    };
    PluginHost::new(options, outside)
        .await
        .map_err(|error| OperatorError::Plugins(error.to_string()))
}
