//! Wires the ports and runs the engine over a directory of manifests.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use windlass_api::Stack;
use windlass_core::Decision;
use windlass_core::snapshot::{Config, Snapshot};
use windlass_engine::{Handle, Key, Observer, Runner, Settings, StoreError};
use windlass_fetch::{FetchConfig, Fetcher, Poller, WorkerCommand};
use windlass_tasks::{HeldOutputs, PlaceTasks, Subscriptions};
use windlass_wasm::outside::http::HttpClient;
use windlass_wasm::{Builtins, HostOptions, Network, PluginHost, Policy};

use crate::clock;
use crate::config::{LocalConfig, LocalObserver};
use crate::db::{Db, Side, kind};
use crate::error::{AtPath, LocalError};
use crate::objects;
use crate::once::{idle, retry_failed};
use crate::outside::LocalOutside;
use crate::place::LocalPlace;
use crate::progress::Progress;
use crate::report::rows;
use crate::rows::StackRow;
use crate::store::LocalStore;
use crate::sync::{Synced, sync};
use crate::watch::Watcher;
use crate::workspaces::Workspaces;

/// Updates kept per Stack, beside those of a day.
const KEEP_UPDATES: usize = 10;

/// A reconciler of one directory, ready to run.
pub struct Local {
    config: LocalConfig,
    notes: Arc<Progress>,
    db: Arc<Db>,
    store: Arc<LocalStore>,
    tasks: Arc<PlaceTasks<LocalPlace>>,
    outside: Arc<LocalOutside>,
    workspaces: Arc<Workspaces>,
    runner: Runner<LocalStore, PlaceTasks<LocalPlace>, Steps>,
    handle: Handle,
    known: BTreeSet<Key>,
    /// Held for as long as this process works on the directory.
    lock: Flock<File>,
    begun: Instant,
}

/// Speaks to a running [`Local`].
#[derive(Clone)]
pub struct LocalHandle(Handle);

impl LocalHandle {
    /// Ends the work politely: runs that go on stay with their agents, and the next start goes on with them.
    pub fn detach(&self) {
        self.0.stop();
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Report {
    pub rows: Vec<StackRow>,
    pub elapsed: Duration,
    /// Runs that ended meanwhile.
    pub runs: u32,
}

/// Saves what decisions were made from, and passes news on.
pub struct Steps {
    db: Arc<Db>,
    observer: Arc<dyn LocalObserver>,
    last: Mutex<std::collections::HashMap<Key, String>>,
}

impl Observer for Steps {
    fn stepped(&self, key: &Key, snapshot: &Snapshot, decision: &Decision) {
        self.observer.stepped(key, snapshot, decision);
        // Saved when the decision is another one, not for every look.
        let digest = windlass_core::digest::digest(decision);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.insert(key.clone(), digest.clone()) == Some(digest) {
            return;
        }
        if let Err(error) = self
            .db
            .put_side(Side::Snapshots, &key.namespace, &key.name, snapshot)
        {
            tracing::warn!(%key, %error, "saving a snapshot");
        }
    }

    fn store_failed(&self, key: &Key, error: &StoreError) {
        self.observer.problem(Some(key), &error.to_string());
    }
}

impl Local {
    /// Opens the data directory, loads the plugins, reads the manifests. The second part holds warnings.
    ///
    /// # Errors
    /// Manifests or a policy that cannot be used, a data directory that is in use, a missing program.
    pub async fn open(
        config: LocalConfig,
        observer: Arc<dyn LocalObserver>,
    ) -> Result<(Local, Vec<String>), LocalError> {
        let begun = Instant::now();
        let mut config = config;
        let private = |path: &std::path::Path| {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .at(path)
        };
        private(&config.data_dir)?;
        config.data_dir = std::fs::canonicalize(&config.data_dir).at(&config.data_dir)?;
        if !config.agent.exists() {
            return Err(LocalError::Missing {
                what: "windlass-agent",
                path: config.agent.clone(),
            });
        }
        let lock = lock(&config)?;
        let db = Arc::new(Db::open(&config.store_path())?);
        let epoch = next_epoch(&db).map_err(|error| db.fatal(error))?;
        let notes = Arc::new(Progress::new(
            Arc::clone(&db),
            observer,
            config.progress,
            clock,
        ));
        let observer: Arc<dyn LocalObserver> = notes.clone();
        let fetcher = fetcher(&config)?;
        if let Some(gap) = fetcher.sandbox_gap() {
            observer.problem(
                None,
                &format!("the sandbox of the fetching process is incomplete: {gap}"),
            );
        }
        let outside = Arc::new(LocalOutside {
            db: Arc::clone(&db),
            subscriptions: Subscriptions::new(Poller::new(fetcher.clone())),
            http: HttpClient::new(network()),
        });
        let plugins = plugins(&config, Arc::clone(&outside)).await?;
        let workspaces = Arc::new(Workspaces::new(
            Arc::clone(&db),
            &config.data_dir,
            config.agent.clone(),
            epoch,
            clock,
        ));
        let outputs = Arc::new(HeldOutputs::default());
        let store = Arc::new(LocalStore {
            db: Arc::clone(&db),
            workspaces: Arc::clone(&workspaces),
            outputs: Arc::clone(&outputs),
            observer: Arc::clone(&observer),
            handle: tokio::sync::OnceCell::new(),
            destroy: config.destroy,
        });
        let place = Arc::new(LocalPlace {
            db: Arc::clone(&db),
            workspaces: Arc::clone(&workspaces),
            observer: Arc::clone(&observer),
            outside: Arc::clone(&outside),
        });
        let tasks = Arc::new(PlaceTasks::new(place, plugins, fetcher, outputs));
        let settings = Settings {
            epoch,
            config: Config {
                default_idle_seconds: config.idle_seconds,
                keep_updates: KEEP_UPDATES,
                workspace_path: false,
            },
        };
        let steps = Arc::new(Steps {
            db: Arc::clone(&db),
            observer: Arc::clone(&observer),
            last: Mutex::default(),
        });
        let (runner, handle) = Runner::new(
            settings,
            Arc::clone(&store),
            Arc::clone(&tasks),
            steps,
            config.parallel,
            clock,
        );
        workspaces.wakes(handle.clone());
        outside.subscriptions.tells(handle.clone());
        let _ = store.handle.set(handle.clone());
        let synced =
            sync(&db, &config.manifests, config.destroy).map_err(|error| db.fatal(error))?;
        let Synced {
            warnings,
            errors,
            stacks,
            ..
        } = synced;
        if !errors.is_empty() {
            return Err(LocalError::BadInput(errors));
        }
        for key in &stacks {
            handle.wake(key.clone());
        }
        if config.once {
            retry_failed(&store, &stacks)?;
        }
        let local = Local {
            config,
            notes,
            db,
            store,
            tasks,
            outside,
            workspaces,
            runner,
            handle,
            known: stacks,
            lock,
            begun,
        };
        Ok((local, warnings))
    }

    pub fn handle(&self) -> LocalHandle {
        LocalHandle(self.handle.clone())
    }

    /// Runs until detached, or with `once` until nothing goes on any more.
    ///
    /// # Errors
    /// The store fails at the end.
    pub async fn run(self) -> Result<Report, LocalError> {
        let Local {
            config,
            notes,
            db,
            store,
            tasks,
            outside,
            workspaces,
            runner,
            handle,
            known,
            lock,
            begun,
        } = self;
        let watcher = Watcher {
            config: config.clone(),
            db: Arc::clone(&db),
            store: Arc::clone(&store),
            outside,
            workspaces: Arc::clone(&workspaces),
            handle: handle.clone(),
            observer: notes.clone(),
            known: known.clone(),
            complaints: Vec::new(),
        };
        let watching = tokio::spawn(watcher.watch());
        let reloading = {
            let plugins = tasks.plugins.clone();
            tokio::spawn(async move { plugins.watch(Duration::from_secs(1)).await })
        };
        let collecting = tokio::spawn(collect_trees(Arc::clone(&db), tasks.fetcher.clone()));
        let noting = tokio::spawn(notes.keep());
        runner.run(config.once).await;
        noting.abort();
        collecting.abort();
        watching.abort();
        reloading.abort();
        let rows = rows(&db, &tasks, &known)
            .await
            .map_err(|error| db.fatal(error))?;
        if config.once {
            let idle = idle(&db, &known).map_err(|error| db.fatal(error))?;
            workspaces.stop_all(&idle).await;
            for key in idle.iter().filter(|key| is_gone(&db, key)) {
                if let Err(error) = workspaces.forget(key) {
                    tracing::warn!(%key, %error, "removing the files of a workspace");
                }
            }
        }
        drop(lock);
        Ok(Report {
            rows,
            elapsed: begun.elapsed(),
            runs: tasks.ended_runs(),
        })
    }
}

/// One process at a time works on a data directory. The lock goes with the process, however it ends.
fn lock(config: &LocalConfig) -> Result<Flock<File>, LocalError> {
    use std::io::{Read as _, Seek as _, Write as _};
    let path = config.data_dir.join("lock");
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .at(&path)?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut lock) => {
            lock.set_len(0).at(&path)?;
            lock.rewind().at(&path)?;
            write!(lock, "{}", std::process::id()).at(&path)?;
            Ok(lock)
        }
        Err((mut file, _)) => {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            Err(LocalError::InUse {
                path: config.data_dir.clone(),
                pid,
            })
        }
    }
}

/// Each process that works on the directory has a higher epoch than those before it: agents refuse the older.
fn next_epoch(db: &Db) -> Result<u64, crate::db::DbError> {
    let before: u64 = db.side(Side::Workspaces, "", "epoch")?.unwrap_or(0);
    db.put_side(Side::Workspaces, "", "epoch", &(before + 1))?;
    Ok(before + 1)
}

/// This machine is its owner's: servers of its own may be reached.
fn network() -> Network {
    Network {
        loopback: true,
        ..Network::default()
    }
}

fn fetcher(config: &LocalConfig) -> Result<Fetcher, LocalError> {
    let (program, args) = config.fetch_worker.clone();
    let mut fetch = FetchConfig::new(
        config.data_dir.join("trees"),
        WorkerCommand { program, args },
    );
    fetch.allow_file_urls = true;
    fetch.allow_loopback = true;
    if let Ok(path) = std::env::var("SSL_CERT_FILE") {
        fetch.extra_ca_pem = std::fs::read_to_string(path).ok();
    }
    Fetcher::new(fetch).map_err(|error| LocalError::Fetch(error.to_string()))
}

async fn plugins(
    config: &LocalConfig,
    outside: Arc<LocalOutside>,
) -> Result<PluginHost, LocalError> {
    let policy = match &config.policy {
        Some(path) => Policy::read(path).map_err(|error| LocalError::Policy(error.to_string()))?,
        None => Policy::default(),
    };
    let builtins = match &config.builtin_digests {
        Some(path) => {
            let text = std::fs::read_to_string(path).at(path)?;
            let digests = serde_json::from_str(&text).map_err(|error| LocalError::Damaged {
                path: path.clone(),
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
        file_urls: true,
        network: network(),
        threads: 0,
    };
    PluginHost::new(options, outside)
        .await
        .map_err(|error| LocalError::Plugins(error.to_string()))
}

/// Whether the Stack is no longer stored.
fn is_gone(db: &Db, key: &Key) -> bool {
    db.get::<Stack>(kind::STACK, &key.namespace, &key.name)
        .is_ok_and(|found| found.is_none())
}

/// Drops trees that no Update names, once they are a day old; every few hours.
async fn collect_trees(db: Arc<Db>, fetcher: Fetcher) {
    const GRACE: Duration = Duration::from_secs(24 * 3600);
    const PAUSE: Duration = Duration::from_secs(6 * 3600);
    loop {
        match objects::trees_in_use(&db) {
            Ok(keep) => match fetcher.gc(keep, GRACE).await {
                Ok(report) => tracing::debug!(?report, "collected trees"),
                Err(error) => tracing::warn!(%error, "collecting trees"),
            },
            Err(error) => tracing::warn!(%error, "collecting trees"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
