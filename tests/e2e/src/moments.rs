//! Moments at which tests of chaos strike: drawn from a seed that is printed and can be given again.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// Says which moments are used: a number gives those of this seed alone, `random` adds those of a new one to the usual.
pub const SEED_VARIABLE: &str = "WINDLASS_CHAOS_SEED";

/// What is used when nothing is said.
const USUAL: [u64; 2] = [3, 11];

/// As many runs as a test has to live through, whatever the seeds.
const RUNS: u32 = 20;

/// Parts of a life, each in one of as many equal pieces of it as there are runs, in no order.
#[derive(Debug, Clone)]
pub struct Moments {
    pub seed: u64,
    parts: Vec<f64>,
}

impl Moments {
    /// The moments of one seed.
    pub fn of(seed: u64, runs: u32) -> Moments {
        let mut state = seed;
        let mut pieces: Vec<u32> = (0..runs).collect();
        for last in (1..pieces.len()).rev() {
            let other = (next(&mut state) * (last + 1) as f64) as usize;
            pieces.swap(last, other.min(last));
        }
        let parts = pieces
            .into_iter()
            .map(|piece| (f64::from(piece) + next(&mut state)) / f64::from(runs))
            .collect();
        Moments { seed, parts }
    }

    /// Those that a test lives through, all in all at least [`RUNS`]. The seeds are printed.
    pub fn all() -> Vec<Moments> {
        let asked = std::env::var(SEED_VARIABLE).unwrap_or_default();
        let all = match asked.as_str() {
            "" => usual(),
            "random" => {
                let seed = RandomState::new().hash_one(std::process::id()) % 1_000_000;
                let mut all = usual();
                all.push(Moments::of(seed, RUNS));
                all
            }
            number => match number.parse() {
                Ok(seed) => vec![Moments::of(seed, RUNS)],
                Err(_) => panic!("{SEED_VARIABLE}={number}: write a number, or `random`"),
            },
        };
        for Moments { seed, parts } in &all {
            eprintln!("{SEED_VARIABLE}={seed}: {} runs", parts.len());
        }
        all
    }

    /// The moments in a life of this length.
    pub fn within(&self, life: Duration) -> impl Iterator<Item = Duration> + '_ {
        self.parts.iter().map(move |part| life.mul_f64(*part))
    }
}

fn usual() -> Vec<Moments> {
    let each = RUNS / USUAL.len() as u32;
    USUAL.map(|seed| Moments::of(seed, each)).to_vec()
}

/// SplitMix64, as a number from 0 up to 1.
fn next(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^= mixed >> 31;
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_moments_spread_over_the_whole_life() {
        let life = Duration::from_secs(20);
        let once: Vec<_> = Moments::of(7, 20).within(life).collect();
        let again: Vec<_> = Moments::of(7, 20).within(life).collect();
        let other: Vec<_> = Moments::of(8, 20).within(life).collect();
        assert_eq!(once, again);
        assert_ne!(once, other);
        let mut seconds: Vec<u64> = once.iter().map(Duration::as_secs).collect();
        assert!(!seconds.is_sorted());
        seconds.sort_unstable();
        assert_eq!(seconds, (0..20).collect::<Vec<_>>());
    }
}
