//! What a simulation is asked to be: how large, how long, how rough, and with which fault planted.

use crate::planted::Planted;

pub const SECOND: i64 = 1000;
pub const MINUTE: i64 = 60 * SECOND;
pub const HOUR: i64 = 60 * MINUTE;
pub const DAY: i64 = 24 * HOUR;

/// One simulation. Two runs of the same plan are the same run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub stacks: usize,
    /// Places with a Workspace that somebody made by hand, and no Stack.
    pub workshops: usize,
    /// Milliseconds of life with users and faults.
    pub live: i64,
    /// Milliseconds that the fleet then has to converge, undisturbed.
    pub heal: i64,
    pub weather: Weather,
    /// The Stacks are found as the Pulumi Kubernetes Operator left them, Ready.
    pub taken_over: bool,
    /// Runs at a time.
    pub max_runs: usize,
    /// Processes of the operator.
    pub replicas: usize,
    pub lease: Terms,
    pub planted: Option<Planted>,
}

/// On which terms the lease is held, in milliseconds.
#[derive(Clone, Debug)]
pub struct Terms {
    /// How long others wait after the holder's last word.
    pub lasts: i64,
    /// How long the holder goes on without being able to renew.
    pub deadline: i64,
    /// How often it is looked at.
    pub retry: i64,
}

impl Terms {
    const QUICK: Terms = Terms {
        lasts: 15 * SECOND,
        deadline: 10 * SECOND,
        retry: 2 * SECOND,
    };
    /// The defaults of the Pulumi Kubernetes Operator.
    const USUAL: Terms = Terms {
        lasts: 60 * SECOND,
        deadline: 45 * SECOND,
        retry: 10 * SECOND,
    };
}

/// How rough the world is. Probabilities are per occasion, intervals in milliseconds between two occasions of the fleet.
#[derive(Clone, Debug)]
pub struct Weather {
    /// The operator dies at a write.
    pub crash_at_write: f64,
    /// Something happens to a process of the operator: it dies,
    pub crash_every: i64,
    /// or is frozen for a while, so that another takes over while it still believes that it leads,
    pub freezes: f64,
    /// or else does not reach the store for a while.
    pub cut_off: f64,
    pub write_refused: f64,
    /// The write happens, its answer gets lost.
    pub answer_lost: f64,
    /// Something else changes between two writes of a step.
    pub interject: f64,
    /// A read comes from the cache instead of the store.
    pub stale_read: f64,
    /// The cache lags by up to so much.
    pub max_lag: i64,
    pub event_dropped: f64,
    /// Everything is looked at again.
    pub relist_every: i64,
    pub pod_trouble_every: i64,
    /// A trouble hits a workspace where something runs, if there is one.
    pub trouble_aims: f64,
    pub start_fails: f64,
    /// A message between operator and agent, or a task's answer, gets lost.
    pub message_lost: f64,
    pub user_every: i64,
    pub push_every: i64,
    pub bad_revision: f64,
    pub outage_every: i64,
    pub run_unavailable: f64,
    /// A run does not end by itself.
    pub run_hangs: f64,
    /// Seconds a run takes.
    pub run_seconds: (i64, i64),
    /// Seconds between looks at a branch, as written in the Stacks.
    pub poll_seconds: i64,
}

impl Weather {
    /// Nothing goes wrong and nobody comes by.
    pub fn still() -> Weather {
        Weather {
            crash_at_write: 0.0,
            crash_every: 0,
            freezes: 0.0,
            cut_off: 0.0,
            write_refused: 0.0,
            answer_lost: 0.0,
            interject: 0.0,
            stale_read: 0.0,
            max_lag: 0,
            event_dropped: 0.0,
            relist_every: 10 * MINUTE,
            pod_trouble_every: 0,
            trouble_aims: 0.0,
            start_fails: 0.0,
            message_lost: 0.0,
            user_every: 0,
            push_every: 0,
            bad_revision: 0.0,
            outage_every: 0,
            run_unavailable: 0.0,
            run_hangs: 0.0,
            run_seconds: (5, 120),
            poll_seconds: 600,
        }
    }

    /// A fleet in daily use: everything goes wrong at some time, nothing often.
    pub fn ordinary() -> Weather {
        Weather {
            crash_at_write: 0.0005,
            crash_every: 2 * DAY,
            freezes: 0.3,
            cut_off: 0.2,
            write_refused: 0.001,
            answer_lost: 0.001,
            interject: 0.0,
            stale_read: 0.2,
            max_lag: 2 * SECOND,
            event_dropped: 0.001,
            relist_every: DAY,
            pod_trouble_every: 8 * HOUR,
            trouble_aims: 0.3,
            start_fails: 0.02,
            message_lost: 0.002,
            user_every: 2 * HOUR,
            push_every: DAY,
            bad_revision: 0.05,
            outage_every: 2 * DAY,
            run_unavailable: 0.01,
            run_hangs: 0.002,
            run_seconds: (5, 900),
            poll_seconds: 24 * 3600,
        }
    }

    /// Everything goes wrong all the time.
    pub fn heavy() -> Weather {
        Weather {
            crash_at_write: 0.02,
            crash_every: 20 * MINUTE,
            freezes: 0.4,
            cut_off: 0.3,
            write_refused: 0.02,
            answer_lost: 0.02,
            interject: 0.03,
            stale_read: 0.6,
            max_lag: 20 * SECOND,
            event_dropped: 0.05,
            relist_every: 10 * MINUTE,
            pod_trouble_every: 5 * MINUTE,
            trouble_aims: 0.8,
            start_fails: 0.1,
            message_lost: 0.05,
            user_every: 3 * MINUTE,
            push_every: 20 * MINUTE,
            bad_revision: 0.25,
            outage_every: HOUR,
            run_unavailable: 0.08,
            run_hangs: 0.03,
            run_seconds: (5, 600),
            poll_seconds: 300,
        }
    }
}

impl Plan {
    /// A few Stacks, half a day, everything goes wrong.
    pub fn rough(seed: u64) -> Plan {
        Plan {
            seed,
            stacks: 4,
            workshops: 1,
            live: 3 * HOUR,
            heal: 8 * HOUR,
            weather: Weather::heavy(),
            taken_over: false,
            max_runs: 3,
            replicas: 2,
            lease: Terms::QUICK,
            planted: None,
        }
    }

    /// Two hundred Stacks, thirty days.
    pub fn month(seed: u64) -> Plan {
        Plan {
            seed,
            stacks: 200,
            workshops: 6,
            live: 30 * DAY,
            heal: 2 * DAY,
            weather: Weather::ordinary(),
            taken_over: false,
            max_runs: 20,
            replicas: 2,
            lease: Terms::USUAL,
            planted: None,
        }
    }

    /// Idle Ready Stacks of the Pulumi Kubernetes Operator, one hour.
    pub fn takeover(seed: u64, stacks: usize) -> Plan {
        Plan {
            seed,
            stacks,
            workshops: 0,
            live: HOUR,
            heal: 0,
            weather: Weather::still(),
            taken_over: true,
            max_runs: 3,
            replicas: 1,
            lease: Terms::USUAL,
            planted: None,
        }
    }

    /// Nothing fails: what a fleet costs when all is well.
    pub fn calm(seed: u64) -> Plan {
        let weather = Weather {
            user_every: 2 * HOUR,
            push_every: 6 * HOUR,
            ..Weather::still()
        };
        Plan {
            seed,
            stacks: 12,
            workshops: 0,
            live: 2 * DAY,
            heal: 0,
            weather,
            taken_over: false,
            max_runs: 20,
            replicas: 1,
            lease: Terms::USUAL,
            planted: None,
        }
    }

    /// The same with a fault, in weather that does not hide it.
    pub fn with(mut self, planted: Planted) -> Plan {
        self.planted = Some(planted);
        if planted == Planted::EpochIgnored {
            // Only a leader that wakes up after another has spoken shows it.
            self.weather.freezes = 1.0;
            self.weather.crash_every /= 10;
        }
        if planted == Planted::CancelIgnored {
            // Only a run that never ends by itself, and whose pod lives, shows it.
            self.weather.run_hangs = 0.5;
            self.weather.pod_trouble_every *= 4;
        }
        self
    }
}
