//! What a Stack may cost: writes and tasks within an hour, steps within a second.

use crate::monitor::Broken;
use crate::plan::{HOUR, SECOND};
use crate::world::{Place, World};

/// Writes of one Stack in one hour, and tasks likewise, that no weather excuses.
const HOURLY: u64 = 1500;
/// Steps of one Stack at one moment.
const AT_ONCE: u64 = 40;

impl World {
    pub fn count_write(&mut self, place: Place) {
        self.monitor.writes += 1;
        self.count(place, 1, 0);
    }

    pub fn count_task(&mut self, place: Place) {
        self.monitor.tasks += 1;
        self.count(place, 0, 1);
    }

    fn count(&mut self, place: Place, writes: u64, tasks: u64) {
        let hour = self.now / HOUR;
        let entry = self.monitor.hourly.entry(place).or_insert((hour, 0, 0));
        if entry.0 != hour {
            *entry = (hour, 0, 0);
        }
        if self.operators.len() < 2 {
            entry.1 += writes;
            entry.2 += tasks;
        }
        let (writes, tasks) = (entry.1, entry.2);
        if writes > HOURLY || tasks > HOURLY {
            self.broken(Broken::Bounded, || {
                format!("place {place}: {writes} writes and {tasks} tasks within an hour")
            });
        }
    }

    pub fn count_step(&mut self, place: Place) {
        self.monitor.steps += 1;
        let now = self.now;
        let two = self.operators.len() > 1;
        let entry = self.monitor.instant.entry(place).or_insert((now, 0));
        // Two leaders see each other's writes and answer them for as long as both live.
        if now - entry.0 > SECOND || two {
            *entry = (now, 0);
        }
        entry.1 += 1;
        let steps = entry.1;
        if steps > AT_ONCE {
            self.broken(Broken::Bounded, || {
                format!("place {place}: {steps} steps within a second")
            });
        }
    }
}
