//! Threads for computing, apart from the asynchronous runtime's, shared fairly between namespaces.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::error::PluginError;

/// Jobs that may wait, all namespaces together.
const WAITING: usize = 4096;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    /// Jobs by namespace.
    jobs: HashMap<String, VecDeque<Job>>,
    /// Namespaces with jobs, each once, in the order in which they get a turn.
    turns: VecDeque<String>,
    waiting: usize,
    closed: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

/// The threads. They end when the last handle is dropped, after the job at hand.
pub struct Threads(Arc<Shared>);

impl Threads {
    /// # Errors
    /// The system's, if it gives no threads.
    pub fn new(count: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            wake: Condvar::new(),
        });
        for index in 0..count {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name(format!("wasm-{index}"))
                .spawn(move || work(&shared))?;
        }
        Ok(Threads(shared))
    }

    /// Runs the job when the namespace has its turn.
    ///
    /// # Errors
    /// `Busy` if too many jobs are waiting.
    pub async fn run<T: Send + 'static>(
        &self,
        namespace: &str,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PluginError> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let job = Box::new(move || {
            // Whoever asked may have gone: then there is nothing to compute.
            if !sender.is_closed() {
                let _ = sender.send(job());
            }
        });
        {
            let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
            if queue.waiting >= WAITING {
                return Err(PluginError::Busy);
            }
            queue.waiting += 1;
            let jobs = queue.jobs.entry(namespace.to_owned()).or_default();
            jobs.push_back(job);
            if jobs.len() == 1 {
                queue.turns.push_back(namespace.to_owned());
            }
        }
        self.0.wake.notify_one();
        receiver
            .await
            .map_err(|_| PluginError::Host("the computing thread ended".into()))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.0
            .queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .closed = true;
        self.0.wake.notify_all();
    }
}

fn work(shared: &Shared) {
    loop {
        let job = {
            let mut queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                if let Some(job) = next(&mut queue) {
                    break job;
                }
                if queue.closed {
                    return;
                }
                queue = shared
                    .wake
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        };
        // A panic of the host is one call's failure: its sender is dropped. The thread goes on.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
            tracing::error!("a plugin evaluation panicked in the host");
        }
    }
}

/// One job of the namespace whose turn it is; the namespace goes to the end of the line.
fn next(queue: &mut Queue) -> Option<Job> {
    let namespace = queue.turns.pop_front()?;
    let jobs = queue.jobs.get_mut(&namespace)?;
    let job = jobs.pop_front();
    if jobs.is_empty() {
        queue.jobs.remove(&namespace);
    } else {
        queue.turns.push_back(namespace);
    }
    queue.waiting = queue.waiting.saturating_sub(1);
    job
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn a_busy_namespace_does_not_keep_another_waiting() {
        let threads = Threads::new(1).unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let blocker = threads.run("a", move || gate.recv().unwrap());
        let mut rest = Vec::new();
        for (namespace, number) in [("a", 1), ("a", 2), ("a", 3), ("b", 4)] {
            let order = order.clone();
            rest.push(threads.run(namespace, move || order.lock().unwrap().push(number)));
        }
        // join_all polls in order, so all are queued before the gate opens.
        let (_, _, ()) = tokio::join!(blocker, futures::future::join_all(rest), async {
            open.send(()).unwrap()
        });
        let order = order.lock().unwrap().clone();
        assert!(
            order.iter().position(|it| *it == 4).unwrap() < 2,
            "{order:?}"
        );
    }
}
