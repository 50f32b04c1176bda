//! Counting tests: what a test binary printed, and the closing line of everything.

use std::fmt;
use std::ops::AddAssign;

/// How many tests ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: u64,
    pub failed: u64,
    /// Tests that could not run here, and said so, or are marked as ignored.
    pub skipped: u64,
}

impl Tally {
    /// Adds up the `test result:` lines of the standard test harness. A binary that ended badly
    /// without saying which test failed (it crashed, or was ended) is one failure; one that has a
    /// harness of its own is one test.
    pub fn of_output(output: &str, ended_well: bool) -> Self {
        let mut tally = Self::default();
        let mut results = 0;
        for line in output.lines() {
            // A test that prints without a newline can stand before it on the same line.
            let Some((_, counts)) = line.split_once("test result: ") else {
                continue;
            };
            let Some(of_line) = Self::of_counts(counts) else {
                continue;
            };
            results += 1;
            tally += of_line;
        }
        if !ended_well && tally.failed == 0 {
            tally.failed = 1;
        }
        if ended_well && results == 0 {
            tally.passed = 1;
        }
        tally
    }

    /// Reads `ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.05s`.
    fn of_counts(counts: &str) -> Option<Self> {
        let (_verdict, counts) = counts.split_once(". ")?;
        let mut tally = Self::default();
        let mut known = 0;
        for part in counts.split("; ") {
            let Some((number, what)) = part.split_once(' ') else {
                continue;
            };
            let field = match what {
                "passed" => &mut tally.passed,
                "failed" => &mut tally.failed,
                "ignored" => &mut tally.skipped,
                _ => continue,
            };
            *field = number.parse().ok()?;
            known += 1;
        }
        (known == 3).then_some(tally)
    }

    /// The harness counts a test that skipped itself as passed; this puts it where it belongs.
    pub fn skip(&mut self, tests: u64) {
        let moved = tests.min(self.passed);
        self.passed -= moved;
        self.skipped += tests;
    }

    /// True when nothing ran at all.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        let Self {
            passed,
            failed,
            skipped,
        } = other;
        self.passed += passed;
        self.failed += failed;
        self.skipped += skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    const LINE: &str = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered \
                        out; finished in 0.05s\n";

    fn tally(passed: u64, failed: u64, skipped: u64) -> Tally {
        Tally {
            passed,
            failed,
            skipped,
        }
    }

    #[test]
    fn adds_up_every_result_line() {
        let output = format!("running 13 tests\n....\n{LINE}\nsome noise{LINE}");
        assert_eq!(Tally::of_output(&output, true), tally(24, 0, 2));
    }

    #[test]
    fn reads_failures() {
        let output = "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered \
                      out; finished in 1.20s";
        assert_eq!(Tally::of_output(output, false), tally(3, 2, 0));
    }

    #[test]
    fn a_crash_is_a_failure_even_without_a_result() {
        assert_eq!(Tally::of_output("running 3 tests\n", false), tally(0, 1, 0));
        assert_eq!(Tally::of_output(LINE, false), tally(12, 1, 1));
    }

    #[test]
    fn a_harness_of_its_own_is_one_test() {
        assert_eq!(Tally::of_output("all good", true), tally(1, 0, 0));
    }

    #[test]
    fn text_of_a_test_that_looks_like_a_result_is_not_counted() {
        let output = format!("test result: nothing. of interest\n{LINE}");
        assert_eq!(Tally::of_output(&output, true), tally(12, 0, 1));
    }

    #[test]
    fn a_test_that_skipped_itself_is_not_counted_as_passed() {
        let mut all = tally(10, 0, 1);
        all.skip(3);
        assert_eq!(all.to_string(), "7 passed, 0 failed, 4 skipped");
    }
}
