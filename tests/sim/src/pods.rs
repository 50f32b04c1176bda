//! Workspaces: instances that start, fall, come back, vanish, and are at last proven dead.

use std::collections::BTreeMap;

use windlass_core::snapshot::{Instance, InstancePhase, RunEnd, WorkspaceView};
use windlass_core::time::Timestamp;
use windlass_engine::Found;

use crate::agent::Process;
use crate::plan::{HOUR, MINUTE, SECOND};
use crate::planted::Planted;
use crate::world::{Event, Place, Ticket, World};

const ENDED_SHOWN: usize = 20;

/// One instance, with the agent in it.
#[derive(Clone, Debug)]
pub struct Pod {
    pub uid: String,
    pub digest: String,
    pub boot: u64,
    pub phase: PodPhase,
    /// The store has an object for it.
    pub visible: bool,
    pub max_epoch: u64,
    /// Runs that the agent knows. None: begun, and no end was seen.
    pub journal: BTreeMap<String, Option<RunEnd>>,
    pub process: Option<Process>,
    pub idle_since: i64,
    /// Its init containers wait for the program.
    pub receives: bool,
    /// Uid of the Stack that it belongs to.
    pub owner: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPhase {
    Starting,
    Receiving,
    Failing,
    Ready,
    Down,
    Unreachable,
    Stopping,
}

impl Pod {
    pub fn boot_id(&self) -> String {
        format!("{}-boot-{}", self.uid, self.boot)
    }

    fn instance(&self) -> Instance {
        let phase = match self.phase {
            PodPhase::Starting => InstancePhase::Starting {
                message: String::new(),
            },
            PodPhase::Failing => InstancePhase::Failing {
                reason: "ImagePullBackOff".into(),
                message: "the image cannot be pulled".into(),
            },
            PodPhase::Receiving => InstancePhase::Receiving {
                boot_id: self.boot_id(),
            },
            PodPhase::Ready => InstancePhase::Ready {
                boot_id: self.boot_id(),
            },
            PodPhase::Down => InstancePhase::Down,
            PodPhase::Unreachable => InstancePhase::Unreachable {
                message: "the node does not report".into(),
            },
            PodPhase::Stopping => InstancePhase::Stopping,
        };
        Instance {
            uid: self.uid.clone(),
            hostname: hostname(&self.uid),
            node: None,
            spec_digest: self.digest.clone(),
            phase,
            idle_since: Timestamp(self.idle_since),
        }
    }
}

/// By which a lock names its holder; never used again.
pub fn hostname(pod: &str) -> String {
    format!("host-{pod}")
}

impl World {
    pub fn pod(&mut self, place: Place, uid: &str) -> Option<&mut Pod> {
        self.homes[place].pods.iter_mut().find(|pod| pod.uid == uid)
    }

    pub fn current_pod(&mut self, place: Place) -> Option<&mut Pod> {
        self.homes[place].pods.iter_mut().find(|pod| pod.visible)
    }

    /// Stores what is to be seen of the workspace.
    pub fn publish(&mut self, place: Place) {
        let home = &mut self.homes[place];
        let skip = home.ended.len().saturating_sub(ENDED_SHOWN);
        let view = WorkspaceView {
            current: home.pods.iter().find(|pod| pod.visible).map(Pod::instance),
            ended: home.ended[skip..].to_vec(),
        };
        if *home.workspace.now() != view {
            home.workspace.change(|stored| *stored = view);
            self.changed(place);
        }
    }

    /// Makes an instance, or brings a fallen one back.
    pub fn ensure_pod(
        &mut self,
        place: Place,
        digest: &str,
        source_first: bool,
        owner: Option<String>,
    ) {
        let number = self.number();
        let now = self.now;
        let forget = self.plan.planted == Some(Planted::JournalForgotten);
        let fails = self.rng.chance(self.weather.start_fails);
        let (uid, boot) = match self.current_pod(place) {
            None => {
                let uid = format!("pod-{number}");
                self.homes[place].pods.push(Pod {
                    uid: uid.clone(),
                    digest: digest.to_owned(),
                    boot: 1,
                    phase: if fails {
                        PodPhase::Failing
                    } else {
                        PodPhase::Starting
                    },
                    visible: true,
                    max_epoch: 0,
                    journal: BTreeMap::new(),
                    process: None,
                    idle_since: now,
                    receives: source_first,
                    owner,
                });
                (uid, 1)
            }
            Some(pod) if pod.phase == PodPhase::Down => {
                pod.phase = PodPhase::Starting;
                pod.boot += 1;
                if forget {
                    pod.journal.clear();
                }
                (pod.uid.clone(), pod.boot)
            }
            Some(_) => return,
        };
        self.monitor.pods_made += 1;
        self.note(|| format!("{uid} boot {boot} of place {place} starts (fails: {fails})"));
        let delay = if fails {
            self.rng.between(MINUTE, 20 * MINUTE)
        } else {
            self.rng.between(500, 20 * SECOND)
        };
        self.later(
            delay,
            Event::PodReady {
                place,
                pod: uid,
                boot,
            },
        );
        self.publish(place);
    }

    pub fn pod_ready(&mut self, place: Place, uid: &str, boot: u64) {
        let now = self.now;
        if let Some(pod) = self.pod(place, uid)
            && pod.boot == boot
            && matches!(pod.phase, PodPhase::Starting | PodPhase::Failing)
        {
            pod.phase = if pod.receives {
                PodPhase::Receiving
            } else {
                PodPhase::Ready
            };
            pod.idle_since = now;
            self.publish(place);
        }
    }

    /// Puts the program in place; the init containers that waited for it take their time.
    pub fn ask_deliver(&mut self, ticket: Ticket, epoch: u64, instance: &str) {
        let place = ticket.place;
        let lost = self.rng.chance(self.weather.message_lost);
        let waits = self.pod(place, instance).filter(|pod| {
            pod.phase == PodPhase::Receiving && pod.visible && epoch >= pod.max_epoch
        });
        let Some(pod) = waits.filter(|_| !lost) else {
            self.fail(ticket, "AgentUnreachable", "nobody takes the program in");
            return;
        };
        pod.max_epoch = epoch;
        pod.receives = false;
        pod.phase = PodPhase::Starting;
        let boot = pod.boot;
        let delay = self.rng.between(500, 20 * SECOND);
        let pod = instance.to_owned();
        self.later(delay, Event::PodReady { place, pod, boot });
        // The answer may be lost on its way.
        if self.rng.chance(self.weather.message_lost) {
            self.fail(ticket, "AgentUnreachable", "the connection was lost");
        } else {
            self.answer(ticket, Ok(Found::Delivered));
        }
        self.publish(place);
    }

    /// Asks an instance to end. What runs in it is interrupted and may finish.
    pub fn stop_pod(&mut self, place: Place, uid: &str) {
        let Some(pod) = self.pod(place, uid) else {
            return;
        };
        if pod.phase == PodPhase::Stopping || !pod.visible {
            return;
        }
        let reachable = pod.phase != PodPhase::Unreachable;
        pod.phase = PodPhase::Stopping;
        self.note(|| format!("{uid} of place {place} is stopped"));
        if reachable {
            self.interrupt(place, uid, "agentStopping");
            let delay = self.rng.between(SECOND, 30 * SECOND);
            self.later(
                delay,
                Event::PodGone {
                    place,
                    pod: uid.to_owned(),
                },
            );
        } else {
            // Its node does not hear; it ends when the node is back.
            let delay = self.rng.between(MINUTE, HOUR);
            self.later(
                delay,
                Event::PodGone {
                    place,
                    pod: uid.to_owned(),
                },
            );
        }
        self.publish(place);
    }

    /// The end of an instance, with proof.
    pub fn pod_gone(&mut self, place: Place, uid: &str) {
        if self.pod(place, uid).is_none() {
            return;
        }
        self.note(|| format!("{uid} of place {place} is gone, proven"));
        self.kill(place, uid, false);
        let home = &mut self.homes[place];
        home.pods.retain(|pod| pod.uid != uid);
        home.ended.push(uid.to_owned());
        self.publish(place);
    }

    /// A network comes back, or a node reports what became of an instance.
    pub fn pod_heals(&mut self, place: Place, uid: &str) {
        let Some(pod) = self.pod(place, uid) else {
            return;
        };
        if !pod.visible {
            self.pod_gone(place, uid);
        } else if pod.phase == PodPhase::Unreachable {
            pod.phase = PodPhase::Ready;
            self.publish(place);
        }
    }

    /// Something happens to a workspace.
    pub fn pod_trouble(&mut self) {
        let busy: Vec<Place> = (0..self.homes.len())
            .filter(|&place| {
                self.homes[place]
                    .pods
                    .iter()
                    .any(|pod| pod.process.is_some())
            })
            .collect();
        let place = if !busy.is_empty() && self.rng.chance(self.weather.trouble_aims) {
            busy[self.rng.below(busy.len())]
        } else {
            self.rng.below(self.homes.len())
        };
        self.trouble_at(place);
    }

    pub fn trouble_at(&mut self, place: Place) {
        let kind = self.rng.below(6);
        let Some(pod) = self.current_pod(place) else {
            return;
        };
        if pod.phase == PodPhase::Stopping || pod.phase == PodPhase::Unreachable {
            return;
        }
        let uid = pod.uid.clone();
        self.note(|| format!("trouble {kind} hits {uid} of place {place}"));
        match kind {
            // The agent falls; what it runs falls with it.
            0 => {
                self.kill(place, &uid, false);
                self.fall(place, &uid);
            }
            // The agent falls alone: its run goes on without it.
            1 => self.fall(place, &uid),
            // The instance ends, with proof.
            2 => self.pod_gone(place, &uid),
            // The network between breaks for a while.
            3 => {
                if let Some(pod) = self.pod(place, &uid) {
                    if pod.phase != PodPhase::Ready {
                        return;
                    }
                    pod.phase = PodPhase::Unreachable;
                }
                let delay = self.rng.between(10 * SECOND, HOUR);
                self.later(delay, Event::Heals { place, pod: uid });
                self.publish(place);
            }
            // The object vanishes and nobody knows what became of the process, for a while.
            4 => {
                if let Some(pod) = self.pod(place, &uid) {
                    pod.visible = false;
                }
                let delay = self.rng.between(MINUTE, 2 * HOUR);
                self.later(delay, Event::Heals { place, pod: uid });
                self.publish(place);
            }
            // Only what it runs is killed.
            _ => self.kill(place, &uid, true),
        }
    }

    fn fall(&mut self, place: Place, uid: &str) {
        if let Some(pod) = self.pod(place, uid) {
            pod.phase = PodPhase::Down;
            if let Some(process) = &mut pod.process {
                process.watchers.clear();
            }
            self.publish(place);
        }
    }
}
