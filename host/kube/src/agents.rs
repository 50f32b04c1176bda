//! One connection to the agent of every workspace that runs, made within milliseconds of its listening and made again when
//! it breaks.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use windlass_agent::{AgentClient, ClientError};
use windlass_api::identity::WorkspaceIdentity;
use windlass_engine::Key;

use crate::certificates::Certificates;
use crate::world::World;

/// The agent's port, as NetworkPolicies know it.
pub const PORT: u16 = 50051;
/// The first pause between two attempts; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How often a connected agent is asked whether it is still there.
const PING: Duration = Duration::from_secs(10);
/// How long an agent may be silent before it counts as one that cannot be reached.
const PATIENCE: Duration = Duration::from_secs(20);

/// One process of an agent: a container that starts again is another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    pub pod_uid: String,
    pub container_id: String,
    pub address: IpAddr,
    pub identity: WorkspaceIdentity,
}

/// What is known of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contact {
    /// Not reached yet, or not any more, since a moment ago.
    Dialling,
    Connected {
        boot_id: String,
        /// The CLI's version, or why it cannot be used.
        pulumi: Result<String, String>,
    },
    /// Not reached for a while, and why.
    Silent(String),
}

struct Entry {
    agent: Agent,
    contact: Contact,
    client: Option<AgentClient>,
    task: AbortHandle,
}

/// All connections.
pub struct Agents {
    world: Arc<World>,
    certificates: Arc<Certificates>,
    epoch: AtomicU64,
    entries: Mutex<HashMap<Key, Entry>>,
    deposed: Notify,
}

impl Agents {
    pub fn new(world: Arc<World>, certificates: Arc<Certificates>) -> Agents {
        Agents {
            world,
            certificates,
            epoch: AtomicU64::new(0),
            entries: Mutex::default(),
            deposed: Notify::new(),
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on requests carry this epoch. Connections of an earlier one are dropped.
    pub fn lead(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::SeqCst);
        self.clear();
    }

    /// Drops every connection.
    pub fn clear(&self) {
        for (_, entry) in self.entries().drain() {
            entry.task.abort();
        }
    }

    /// Returns when an agent has seen a later leader.
    pub async fn deposed(&self) {
        self.deposed.notified().await;
    }

    /// What is known of this agent. The first question begins to dial.
    pub fn contact(self: &Arc<Self>, key: &Key, agent: Agent) -> Contact {
        let mut entries = self.entries();
        if let Some(entry) = entries.get(key) {
            if entry.agent == agent {
                return entry.contact.clone();
            }
            entry.task.abort();
        }
        let task = tokio::spawn(Arc::clone(self).follow(key.clone(), agent.clone())).abort_handle();
        entries.insert(
            key.clone(),
            Entry {
                agent,
                contact: Contact::Dialling,
                client: None,
                task,
            },
        );
        Contact::Dialling
    }

    /// The workspace has no running agent.
    pub fn gone(&self, key: &Key) {
        if let Some(entry) = self.entries().remove(key) {
            entry.task.abort();
        }
    }

    /// The connection to the agent of this very pod.
    pub fn client(&self, key: &Key, pod_uid: &str) -> Option<AgentClient> {
        let entries = self.entries();
        let entry = entries.get(key)?;
        (entry.agent.pod_uid == pod_uid)
            .then(|| entry.client.clone())
            .flatten()
    }

    /// What is known of the agent of this very pod.
    pub fn known(&self, key: &Key, pod_uid: &str) -> Option<(Agent, Contact)> {
        let entries = self.entries();
        let entry = entries.get(key)?;
        (entry.agent.pod_uid == pod_uid).then(|| (entry.agent.clone(), entry.contact.clone()))
    }

    async fn follow(self: Arc<Self>, key: Key, agent: Agent) {
        let mut pause = FIRST_PAUSE;
        let mut silent_since = Instant::now();
        loop {
            match self.dial(&agent).await {
                Ok((client, contact)) => {
                    self.set(&key, &agent, contact, Some(client.clone()));
                    pause = FIRST_PAUSE;
                    while let Ok(Ok(_)) = tokio::time::timeout(PING, ping(&client)).await {}
                    silent_since = Instant::now();
                    self.set(&key, &agent, Contact::Dialling, None);
                }
                Err(ClientError::StaleEpoch(_)) => {
                    tracing::warn!(%key, "an agent has seen a later leader");
                    self.deposed.notify_one();
                    return;
                }
                Err(error) => {
                    if silent_since.elapsed() > PATIENCE {
                        self.set(&key, &agent, Contact::Silent(error.to_string()), None);
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    async fn dial(&self, agent: &Agent) -> Result<(AgentClient, Contact), ClientError> {
        let client = AgentClient::connect_tls(
            SocketAddr::new(agent.address, PORT),
            &self.certificates.tls(),
            &agent.identity,
            self.epoch.load(Ordering::SeqCst),
        )
        .await?;
        let info = client.hello().await?;
        let contact = Contact::Connected {
            boot_id: info.boot_id,
            pulumi: info.pulumi,
        };
        Ok((client, contact))
    }

    fn set(&self, key: &Key, agent: &Agent, contact: Contact, client: Option<AgentClient>) {
        {
            let mut entries = self.entries();
            let Some(entry) = entries.get_mut(key).filter(|entry| entry.agent == *agent) else {
                return;
            };
            entry.client = client;
            if entry.contact == contact {
                return;
            }
            entry.contact = contact;
        }
        self.world.tell(key.clone());
    }
}

/// Waits a while, then asks whether the agent is there.
async fn ping(client: &AgentClient) -> Result<(), ClientError> {
    tokio::time::sleep(PING / 2).await;
    client.hello().await.map(|_| ())
}
