//! kill -9 of each of the three processes at random moments of a run's whole life: no run lost or repeated, no lock left,
//! outputs right.
//!
//! The moments come from seeds that are printed; `WINDLASS_CHAOS_SEED` gives one again, or `random` for a new one.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_e2e::moments::Moments;
use windlass_e2e::stored::{is_ready, is_true};
use windlass_e2e::world::{Running, World, eventually, eventually_or, provider};

/// Longer than any round takes, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(240);

/// A Stack whose one resource takes its time and notes what is done to it, and the process that watches it.
struct Chaos {
    world: World,
    /// None only while it is being killed.
    running: Option<Running>,
    round: usize,
}

impl Chaos {
    /// Up and ready, its first run behind it.
    fn new() -> Option<Chaos> {
        let world = World::new()?;
        provider(&world)?;
        world.stack(
            "slow",
            "organization/slow/dev",
            "programRef: {name: slow}\n",
        );
        let mut chaos = Chaos {
            world,
            running: None,
            round: 0,
        };
        chaos.ask();
        chaos.running = Some(chaos.world.start(&[]));
        chaos.ready();
        Some(chaos)
    }

    /// Asks for the value of this round.
    fn ask(&self) {
        let program = format!(
            "apiVersion: pulumi.com/v1\nkind: Program\nmetadata:\n  name: slow\nprogram:\n  resources:\n    thing:\n      \
             type: windlasstest:index:Thing\n      properties: {{value: \"v{}\", sleepMs: 500, logFile: \
             {}/ops.log}}\n  outputs:\n    value: ${{thing.value}}\n",
            self.round,
            self.world.path().display()
        );
        self.world.write("program.yaml", &program);
    }

    fn next_round(&mut self) {
        self.round += 1;
        self.ask();
    }

    /// Waits for the value of this round.
    fn ready(&self) {
        let value = format!("v{}", self.round);
        let stack = || self.world.stored_stack("slow");
        let wrong = || {
            let log = self.running.as_ref().map(Running::log).unwrap_or_default();
            let end: Vec<&str> = log.lines().rev().take(15).collect();
            format!(
                "output {value}; {:?}; last messages, newest first:\n{}",
                stack().map(|stack| stack["status"].clone()),
                end.join("\n")
            )
        };
        eventually_or(PATIENCE, wrong, || {
            stack().filter(|stack| {
                is_ready(stack) && stack["status"]["outputs"]["value"] == value.as_str()
            })
        });
    }

    /// From the edit to the recorded end, of a round that nobody disturbs.
    fn life(&mut self) -> Duration {
        let begun = Instant::now();
        self.next_round();
        self.ready();
        begun.elapsed()
    }

    /// What the resource was asked to do, as its provider saw it.
    fn operations(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.world.path().join("ops.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// Changes of the resource that were begun, and that were carried out.
    fn changes(&self) -> (usize, usize) {
        let operations = self.operations();
        let count = |names: [&str; 2]| {
            operations
                .iter()
                .filter(|line| names.iter().any(|name| line.starts_with(name)))
                .count()
        };
        (
            count(["create-begun ", "update-begun "]),
            count(["create ", "update "]),
        )
    }

    /// Every Update since the first `before` of them, all of them over, by how they ended: (succeeded, never begun, lost).
    fn ends(&self, before: usize) -> (usize, usize, usize) {
        let updates = self.world.updates("slow");
        let mut ends = (0, 0, 0);
        for update in &updates {
            assert!(is_true(update, "Complete"), "{update}");
            let sequence = update["spec"]["intent"]["sequence"].as_u64().unwrap();
            if sequence as usize <= before {
                continue;
            }
            let summary = &update["status"]["summary"];
            // What is false is left out.
            let reached_engine = summary["reachedEngine"] == true;
            match summary["state"].as_str() {
                Some("succeeded") => ends.0 += 1,
                Some("failed") if !reached_engine => ends.1 += 1,
                Some("lost") => ends.2 += 1,
                other => panic!("{other:?}: {update}"),
            }
        }
        ends
    }

    fn sequence(&self) -> usize {
        let stack = self.world.stored_stack("slow").unwrap();
        stack["status"]["lastUpdate"]["sequence"].as_u64().unwrap() as usize
    }

    /// A run goes on at this very moment.
    fn runs(&self) -> bool {
        let open =
            |update: &Value| update["status"]["run"].is_object() && !is_true(update, "Complete");
        self.world.updates("slow").iter().any(open)
    }

    fn cli(&self) -> Option<i32> {
        let found = self.world.processes();
        let cli = found
            .iter()
            .find(|(_, line)| line.contains("/pulumi ") && line.contains(" up "));
        cli.map(|(pid, _)| *pid)
    }

    /// Nothing is left of a round but what stays: no lock, no process of the CLI or its plugins.
    fn clean(&self) {
        assert!(self.world.locks().is_empty(), "{:?}", self.world.locks());
        let left = || {
            let mut all = self.world.processes();
            all.retain(|(_, line)| {
                !line.contains("windlass-agent serve") && !line.contains("/windlass local")
            });
            all
        };
        eventually_or(
            Duration::from_secs(20),
            || format!("{:?}", left()),
            || left().is_empty().then_some(()),
        );
    }
}

fn kill(pid: i32) {
    let _ = Command::new("kill")
        .arg("-9")
        .arg(pid.to_string())
        .stderr(Stdio::null())
        .status();
}

/// Strikes once in each round, at moments that follow from seeds. `strike` is told the moment in words, and the number of
/// the last Update before the round; it waits until all is well again. Each round's work is done exactly once, and
/// enough of the strikes fall into a run.
fn strike_at_moments(chaos: &mut Chaos, mut strike: impl FnMut(&mut Chaos, &str, usize)) {
    let life = chaos.life().max(chaos.life());
    let (mut struck, mut rounds) = (0, 0);
    for moments in Moments::all() {
        for moment in moments.within(life) {
            let at = format!("seed {}, {moment:?} of {life:?}", moments.seed);
            let before = chaos.sequence();
            chaos.next_round();
            std::thread::sleep(moment);
            struck += usize::from(chaos.runs());
            rounds += 1;
            strike(chaos, &at, before);
            let all = chaos.round + 1;
            assert_eq!(
                chaos.changes(),
                (all, all),
                "{at}: {:?}",
                chaos.operations()
            );
            chaos.clean();
        }
    }
    eprintln!("{struck} of {rounds} in a run");
    assert!(struck * 4 >= rounds, "{struck} of {rounds}");
}

#[test]
fn killing_windlass_local_leaves_the_run_alone() {
    let Some(mut chaos) = Chaos::new() else {
        return;
    };
    strike_at_moments(&mut chaos, |chaos, at, before| {
        chaos.running.take().unwrap().kill();
        chaos.running = Some(chaos.world.start(&[]));
        chaos.ready();
        // One Update for each round, which did its work once: nothing was lost, nothing was done twice.
        assert_eq!(chaos.ends(before), (1, 0, 0), "{at}");
    });
}

#[test]
fn killing_an_agent_loses_nothing() {
    let Some(mut chaos) = Chaos::new() else {
        return;
    };
    strike_at_moments(&mut chaos, |chaos, at, before| {
        let agent = eventually(PATIENCE, "the agent", || {
            let found = chaos.world.processes();
            found
                .into_iter()
                .find(|(_, line)| line.contains("windlass-agent serve"))
        });
        kill(agent.0);
        chaos.ready();
        // An Update whose operation the agent had not begun is over without it; another one does the work.
        let (succeeded, never_begun, lost) = chaos.ends(before);
        assert_eq!((succeeded, lost), (1, 0), "{at}");
        assert!(never_begun <= 1, "{at}: {never_begun}");
        if never_begun > 0 {
            eprintln!("{at}: before it began");
        }
    });
}

#[test]
fn killing_the_cli_is_mended_by_the_next_run() {
    let Some(mut chaos) = Chaos::new() else {
        return;
    };
    let mut life = Duration::ZERO;
    for _ in 0..2 {
        chaos.next_round();
        eventually(PATIENCE, "the CLI", || chaos.cli());
        let begun = Instant::now();
        eventually(PATIENCE, "its end", || chaos.cli().is_none().then_some(()));
        life = life.max(begun.elapsed());
        chaos.ready();
    }
    let (mut struck, mut rounds) = (0, 0);
    for moments in Moments::all() {
        for moment in moments.within(life) {
            let at = format!("seed {}, {moment:?} of {life:?}", moments.seed);
            let before = (chaos.sequence(), chaos.changes());
            chaos.next_round();
            // The CLI is there for a part of the round only.
            let cli = eventually(PATIENCE, "the CLI", || chaos.cli());
            std::thread::sleep(moment);
            kill(cli);
            rounds += 1;
            chaos.ready();
            // What was cut off is recorded as lost, once, and the next run settles it.
            let (succeeded, never_begun, lost) = chaos.ends(before.0);
            assert_eq!((succeeded, never_begun), (1, 0), "{at}");
            assert!(lost <= 1, "{at}: {lost}");
            struck += lost;
            // The provider may have done the work before its engine was gone: then it is done again, and no more.
            let (begun, done) = chaos.changes();
            let (begun, done) = (begun - before.1.0, done - before.1.1);
            assert!(
                (1..=1 + lost).contains(&done),
                "{at}: {:?}",
                chaos.operations()
            );
            assert!(
                (1..=1 + lost).contains(&begun),
                "{at}: {:?}",
                chaos.operations()
            );
            chaos.clean();
        }
    }
    eprintln!("{struck} of {rounds} cut off");
    assert!(struck * 4 >= rounds, "{struck} of {rounds}");
}
