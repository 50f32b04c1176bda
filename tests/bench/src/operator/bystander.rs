//! A suspended Stack, by which one sees how soon a new generation is noticed: it makes no run.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::seen::Version;
use super::site::{Kind, PATIENCE, Site};
use crate::samples::seconds;
use crate::setup::Trouble;

const NAME: &str = "bystander";

/// How many times it was changed so far.
pub struct Bystander {
    rounds: u64,
}

impl Bystander {
    /// Creates it. The operator need not run.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn new(site: &Site) -> Result<Self, Trouble> {
        let spec = json!({"suspend": true, "programRef": {"name": "missing"}});
        site.create(Kind::Stack, &site.stack(NAME, &spec)).await?;
        Ok(Bystander { rounds: 0 })
    }

    /// Changes it; the moment before the request, and where to look for what follows.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn change(&mut self, site: &Site) -> Result<(Instant, usize), Trouble> {
        self.rounds += 1;
        let mark = site.seen.mark();
        let patch = json!({"spec": {"config": {"round": format!("r{}", self.rounds)}}});
        Ok((site.patch(NAME, &patch).await?, mark))
    }

    /// Waits until the operator has said of the last change that it has seen it.
    ///
    /// # Errors
    /// It does not in time.
    pub async fn noticed(&self, site: &Site, mark: usize) -> Result<Version, Trouble> {
        let wanted = format!("r{}", self.rounds);
        let is = |stack: &Value| {
            stack["spec"]["config"]["round"] == wanted.as_str()
                && stack["status"]["observedGeneration"] == stack["metadata"]["generation"]
        };
        site.seen.when(mark, NAME, "noticed", PATIENCE, is).await
    }

    /// Changes it again and again until told to end; how long each change took to be noticed, in seconds.
    ///
    /// # Errors
    /// As `change` and `noticed`.
    pub async fn keep_changing(
        &mut self,
        site: &Site,
        over: impl Fn() -> bool,
    ) -> Result<Vec<f64>, Trouble> {
        let mut took = Vec::new();
        while !over() {
            let (begun, mark) = self.change(site).await?;
            let noticed = self.noticed(site, mark).await?;
            took.push(seconds(noticed.at - begun));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(took)
    }
}
