//! Who leads: the lease as it is stored, and the processes that take it, renew it, lose it. What they make of it is
//! decided by the real `windlass_core::leadership`.

use std::time::Duration;

use windlass_core::leadership::{Candidate, Tenure, identity, next_epoch};

use crate::monitor::Broken;
use crate::plan::{MINUTE, SECOND, Terms};
use crate::planted::Planted;
use crate::world::{EPOCH_MS, Event, World};

/// The lease, as the store has it. It changes with every word of its holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    pub holder: String,
    pub transitions: u64,
    pub renewals: u64,
}

/// What a process is by the lease.
pub enum Standing {
    Waits(Candidate<Lease>),
    Leads {
        tenure: Tenure,
        held: Lease,
    },
    /// It has lost the lease: what it knows is worth nothing.
    Over,
}

/// What a look at the lease has changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    Nothing,
    /// It leads from now on, with this epoch.
    Leads(u64),
    Over,
}

fn millis(time: i64) -> Duration {
    Duration::from_millis(u64::try_from(time).unwrap_or(0))
}

impl Terms {
    fn tenure(&self, begun: Duration) -> Tenure {
        Tenure::new(begun, millis(self.lasts), millis(self.deadline))
    }
}

impl World {
    /// Whether a process reaches the store at this moment.
    pub fn reaches_store(&self, operator: u64) -> bool {
        self.cut.get(&operator).is_none_or(|end| *end <= self.now)
    }

    /// Until when a process is not given the processor.
    pub fn asleep_until(&self, operator: u64) -> Option<i64> {
        let end = self.asleep.get(&operator).copied()?;
        (end > self.now).then_some(end)
    }

    /// A process looks at the lease, and will again.
    pub fn look_at_lease(&mut self, operator: u64, pod: &str, standing: &mut Standing) -> Turn {
        let terms = self.plan.lease.clone();
        let now = millis(self.now - EPOCH_MS);
        let me = identity(pod, &operator.to_string());
        let planted = self.plan.planted;
        let refused = self.weather.write_refused;
        let reached = self.reaches_store(operator) && !self.rng.chance(refused);
        let mut next = terms.retry;
        let turn = match standing {
            Standing::Waits(_) if !reached => Turn::Nothing,
            Standing::Waits(candidate) => {
                let lease = self.lease.clone();
                let lasts = millis(terms.lasts);
                let holder = lease.holder.clone();
                let early = planted == Some(Planted::LeaseTakenEarly);
                if candidate.may_take(lease, &holder, lasts, now) || early {
                    self.take(operator, &me)
                } else {
                    let soon = candidate.takes_in(lasts, now).unwrap_or(lasts);
                    next = next.min(i64::try_from(soon.as_millis()).unwrap_or(next));
                    Turn::Nothing
                }
            }
            Standing::Leads { tenure, held } => {
                let heedless = planted == Some(Planted::LeaseHeldOn);
                let taken = reached && self.lease.holder != me;
                if (tenure.slept_through(now) || taken) && !heedless {
                    Turn::Over
                } else {
                    if reached && self.lease == *held {
                        self.lease.renewals += 1;
                        if !self.rng.chance(self.weather.answer_lost) {
                            held.clone_from(&self.lease);
                            tenure.renew(now);
                        }
                    } else if reached && self.lease.holder == me {
                        // Its own word, whose answer got lost.
                        held.clone_from(&self.lease);
                    }
                    if tenure.over(now) && !heedless {
                        Turn::Over
                    } else {
                        Turn::Nothing
                    }
                }
            }
            Standing::Over => return Turn::Over,
        };
        if let Turn::Leads(_) = turn {
            *standing = Standing::Leads {
                tenure: terms.tenure(now),
                held: self.lease.clone(),
            };
        } else if turn == Turn::Over {
            *standing = Standing::Over;
        }
        self.later(next.max(1), Event::Lease { operator });
        turn
    }

    fn take(&mut self, operator: u64, me: &str) -> Turn {
        let before = self.lease.transitions;
        let epoch = if self.plan.planted == Some(Planted::EpochKept) {
            before.max(1)
        } else {
            next_epoch(before)
        };
        self.lease = Lease {
            holder: me.to_owned(),
            transitions: epoch,
            renewals: 0,
        };
        if self.rng.chance(self.weather.answer_lost) {
            return Turn::Nothing;
        }
        self.check_leader(operator, epoch);
        Turn::Leads(epoch)
    }

    /// A process is about to lead: nobody else may believe the same, and nobody led in this epoch.
    fn check_leader(&mut self, operator: u64, epoch: u64) {
        // One that was asleep finds out at its next look.
        let grace = 2 * self.plan.lease.retry;
        let other = self.operators.iter().copied().find(|other| {
            let woke = self.asleep.get(other).copied().unwrap_or(i64::MIN / 2);
            *other != operator && woke + grace < self.now
        });
        if let Some(other) = other {
            self.broken(Broken::TwoLeaders, || {
                format!("operator {operator} takes the lease while {other} leads, awake")
            });
        }
        let highest = self.epoch;
        if epoch <= highest {
            self.broken(Broken::EpochReused, || {
                format!("operator {operator} leads with epoch {epoch}, {highest} was given out")
            });
        }
        self.epoch = highest.max(epoch);
    }

    /// A process gets no processor for a while, and does not know.
    pub fn freeze(&mut self, operator: u64) {
        let end = self.now + self.rng.between(SECOND, 5 * MINUTE);
        self.note(|| format!("operator {operator} is frozen until {}", end - EPOCH_MS));
        self.asleep.insert(operator, end);
    }

    /// A process reaches agents and Git, but not the store.
    pub fn cut_off(&mut self, operator: u64) {
        let delay = self.rng.between(SECOND, 5 * MINUTE);
        self.note(|| format!("operator {operator} does not reach the store for {delay} ms"));
        self.cut.insert(operator, self.now + delay);
        self.later(delay, Event::Mended { operator });
    }
}
