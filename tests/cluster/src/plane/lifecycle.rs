//! Starting, waiting, stopping, pausing: what happens to the components.

use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::Api;
use nix::sys::signal::Signal;

use super::ports::Ports;
use super::{Component, ControlPlane, Options, arguments};
use crate::error::{Error, Result};
use crate::identity;
use crate::process;
use crate::watchdog::Watchdog;

/// Far beyond the seconds it takes: on two processors that several builds share, it has taken minutes.
const START_LIMIT: Duration = Duration::from_secs(300);
/// How long a component may take to end when asked.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(40);

/// The three processes; one that is stopped is `None`.
pub struct Processes {
    // Dropped in this order, so that nobody complains about a lost server at length.
    manager: Option<process::Program>,
    apiserver: Option<process::Program>,
    etcd: Option<process::Program>,
}

impl Processes {
    /// Starts all three at once and waits until the controllers work.
    pub async fn start(
        folder: &Path,
        ports: Ports,
        options: &Options,
        watchdog: &Arc<Watchdog>,
        admin: &serde_json::Value,
    ) -> Result<Self> {
        let start = |component| start(component, folder, ports, options, watchdog);
        let mut processes = Self {
            etcd: Some(start(Component::Etcd)?),
            apiserver: Some(start(Component::ApiServer)?),
            manager: None,
        };
        let client = identity::client(admin).await?;
        let deadline = Instant::now() + START_LIMIT;
        while !is_ready(&client).await {
            processes.check(folder, deadline, "the API server to be ready")?;
            tokio::time::sleep(LOOK).await;
        }
        // Its patience with an API server that is not there yet is short, its pauses are long.
        processes.manager = Some(start(Component::ControllerManager)?);
        while !super::has_account(&client, "default").await {
            processes.check(folder, deadline, "the controllers to work")?;
            tokio::time::sleep(LOOK).await;
        }
        Ok(processes)
    }

    fn slot(&mut self, component: Component) -> &mut Option<process::Program> {
        match component {
            Component::Etcd => &mut self.etcd,
            Component::ApiServer => &mut self.apiserver,
            Component::ControllerManager => &mut self.manager,
        }
    }

    /// Fails when one has ended or the time is over.
    fn check(&mut self, folder: &Path, deadline: Instant, what: &str) -> Result<()> {
        for component in Component::ALL {
            let ended = self.slot(component).as_mut().and_then(|p| p.ended());
            if let Some(status) = ended {
                return Err(Error::NotReady {
                    what: format!("{} ended with {status}", component.name()),
                    logs: log_tails(folder),
                });
            }
        }
        if Instant::now() < deadline {
            return Ok(());
        }
        Err(Error::NotReady {
            what: format!("waited {} s for {what}", START_LIMIT.as_secs()),
            logs: log_tails(folder),
        })
    }
}

fn start(
    component: Component,
    folder: &Path,
    ports: Ports,
    options: &Options,
    watchdog: &Arc<Watchdog>,
) -> Result<process::Program> {
    let command = arguments::command(component, folder, ports, options)?;
    let log = log_path(folder, component);
    process::Program::start(component.name(), command, &log, watchdog)
}

/// Whether the API server says that it is ready, and can read from etcd. It goes on saying the first
/// for a while when etcd has gone or has only just come back.
async fn is_ready(client: &Client) -> bool {
    let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else {
        return false;
    };
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let asked = async {
        client.request_text(request).await.is_ok() && namespaces.get_opt("default").await.is_ok()
    };
    let answered = tokio::time::timeout(Duration::from_secs(5), asked).await;
    answered.unwrap_or(false)
}

/// Waits for a namespace's default service account.
pub async fn default_account(client: &Client, namespace: &str, limit: Duration) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !super::has_account(client, namespace).await {
        if Instant::now() >= deadline {
            return Err(Error::NotReady {
                what: format!("no default service account in {namespace}"),
                logs: String::new(),
            });
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// The file that holds a component's output.
pub fn log_path(folder: &Path, component: Component) -> PathBuf {
    folder.join(format!("{}.log", component.name()))
}

/// The ends of all logs.
pub fn log_tails(folder: &Path) -> String {
    super::tails(folder)
}

impl ControlPlane {
    fn processes(&self) -> MutexGuard<'_, Processes> {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The component's process id, if it has been started.
    pub fn pid(&self, component: Component) -> Option<u32> {
        let mut processes = self.processes();
        processes.slot(component).as_ref().map(|p| p.pid())
    }

    /// Stops a component from running without ending it (SIGSTOP): connections stay open and
    /// nothing answers.
    ///
    /// # Errors
    /// When it cannot be signalled.
    pub fn pause(&self, component: Component) -> Result<()> {
        self.signal(component, Signal::SIGSTOP)
    }

    /// Lets a paused component go on.
    ///
    /// # Errors
    /// When it cannot be signalled.
    pub fn resume(&self, component: Component) -> Result<()> {
        self.signal(component, Signal::SIGCONT)
    }

    fn signal(&self, component: Component, signal: Signal) -> Result<()> {
        match self.processes().slot(component) {
            Some(process) => process.signal(signal),
            None => Ok(()),
        }
    }

    /// Ends a component: asks it to, and kills it if it does not.
    pub fn stop(&self, component: Component) {
        if let Some(mut process) = self.processes().slot(component).take() {
            process.stop(STOP_GRACE);
        }
    }

    /// Kills a component.
    pub fn kill(&self, component: Component) {
        if let Some(mut process) = self.processes().slot(component).take() {
            process.kill();
        }
    }

    /// Starts a component that was stopped, and waits until the API server is ready. (The
    /// controller manager gives no sign of being ready; wait for what it shall do.)
    ///
    /// # Errors
    /// `NotReady` with logs.
    pub async fn start_again(&self, component: Component) -> Result<()> {
        let process = start(
            component,
            self.folder.path(),
            self.ports,
            &self.options,
            &self.watchdog,
        )?;
        *self.processes().slot(component) = Some(process);
        let client = identity::client(&self.admin).await?;
        let deadline = Instant::now() + START_LIMIT;
        while !is_ready(&client).await {
            self.processes()
                .check(self.folder.path(), deadline, "the API server to be ready")?;
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// `stop`, then `start_again`.
    ///
    /// # Errors
    /// As `start_again`.
    pub async fn restart(&self, component: Component) -> Result<()> {
        self.stop(component);
        self.start_again(component).await
    }
}
