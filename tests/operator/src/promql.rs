//! What Prometheus itself makes of alerts and queries, asked through `tests/tools/promql-oracle`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use windlass_cluster::{skip, tools_folder};

use crate::exposition::Samples;

/// Series in the notation of promtool's unit tests, with a value for each minute, and how long they have been so.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Case {
    pub series: BTreeMap<String, String>,
    pub after: String,
}

impl Case {
    /// Samples that have been as they are for a time, as in `1h`.
    pub fn staying(samples: &Samples, after: &str) -> Self {
        let series = samples
            .iter()
            .map(|(name, value)| (name.clone(), format!("{value}x900")));
        Self {
            series: series.collect(),
            after: after.to_owned(),
        }
    }
}

/// An alert that fires.
#[derive(Debug, Clone, Deserialize)]
pub struct Alert {
    pub alert: String,
    pub labels: BTreeMap<String, String>,
    pub summary: String,
    pub description: String,
}

#[derive(Serialize)]
struct Questions<'a> {
    cases: &'a [Case],
    queries: &'a [String],
}

#[derive(Deserialize)]
struct Answers {
    firing: Vec<Vec<Alert>>,
    metrics: Vec<Vec<String>>,
}

/// Prometheus with a file of rules.
pub struct PromQl {
    program: PathBuf,
    rules: PathBuf,
}

impl PromQl {
    /// One with these rules; None, with a visible reason, where the program is not built.
    pub fn of_rules(rules: &Path) -> Option<Self> {
        let program = tools_folder().join("promql-oracle");
        if !program.is_file() {
            skip("promql-oracle is not built; `cargo xtask tools promql` makes it");
            return None;
        }
        Some(Self {
            program,
            rules: rules.to_owned(),
        })
    }

    /// The alerts that fire in each case.
    ///
    /// # Panics
    /// When a rule or a series is not one.
    pub fn firing(&self, cases: &[Case]) -> Vec<Vec<Alert>> {
        self.ask(cases, &[]).firing
    }

    /// The metrics that each query asks for.
    ///
    /// # Panics
    /// When one is no query.
    pub fn metrics(&self, queries: &[String]) -> Vec<Vec<String>> {
        self.ask(&[], queries).metrics
    }

    fn ask(&self, cases: &[Case], queries: &[String]) -> Answers {
        let mut child = Command::new(&self.program)
            .arg(&self.rules)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("promql-oracle");
        let questions = serde_json::to_vec(&Questions { cases, queries }).expect("JSON");
        // It reads all of it before it says anything.
        let mut stdin = child.stdin.take().expect("its input");
        stdin.write_all(&questions).expect("it reads");
        drop(stdin);
        let output = child.wait_with_output().expect("promql-oracle");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        serde_json::from_slice(&output.stdout).expect("answers")
    }
}
