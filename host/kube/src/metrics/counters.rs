//! What is counted while it happens. Cheap to clone: clones share everything.
//!
//! Labels are closed sets: kinds, verbs, results, classes. What there is one of per object is read when it is asked for
//! (see `objects`), and so goes with its object.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use windlass_engine::{Reading, Stats};

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ApiLabels {
    pub kind: String,
    pub verb: &'static str,
    pub result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct VerbLabels {
    pub verb: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RunLabels {
    /// `up`, `preview`, `refresh`, `destroy`.
    pub operation: String,
    /// `succeeded`, `failed`, `cancelled`, `lost`.
    pub outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OperationLabels {
    pub operation: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ClassLabels {
    pub class: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TaskLabels {
    /// `resolve`, `fetch`, `open`, `run`, `cancel`.
    pub task: &'static str,
    /// `ok` or the class of the failure.
    pub result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct InFlightLabels {
    pub task: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct KindLabels {
    pub kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReconcileLabels {
    pub controller: &'static str,
    pub result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ControllerLabels {
    pub controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CodeLabels {
    pub code: u16,
}

/// The name under which the Pulumi Kubernetes Operator's metrics know the loop over Stacks.
pub const STACK_CONTROLLER: &str = "stack-controller";

/// What is counted while it happens.
#[derive(Clone)]
pub struct Counters {
    pub api: Family<ApiLabels, Counter>,
    api_seconds: Histograms<VerbLabels>,
    pub runs_started: Family<OperationLabels, Counter>,
    pub runs_superseded: Family<OperationLabels, Counter>,
    pub run_failures: Family<ClassLabels, Counter>,
    pub run_seconds: Histograms<RunLabels>,
    pub run_wait_seconds: Histograms<OperationLabels>,
    pub task_seconds: Histograms<TaskLabels>,
    pub tasks_in_flight: Family<InFlightLabels, Gauge>,
    pub watch_restarts: Family<KindLabels, Counter>,
    pub watch_errors: Family<KindLabels, Counter>,
    pub artifact_requests: Family<CodeLabels, Counter>,
    pub metrics_requests: Family<CodeLabels, Counter>,
    reconciles: Family<ReconcileLabels, Counter>,
    reconcile_errors: Family<ControllerLabels, Counter>,
    reconcile_seconds: Histograms<ControllerLabels>,
    /// The loop's own numbers, while this process leads.
    engine: Arc<RwLock<Option<Arc<Stats>>>>,
}

impl Default for Counters {
    fn default() -> Counters {
        let quick: fn() -> Histogram = || {
            Histogram::new([
                0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
            ])
        };
        let long: fn() -> Histogram = || {
            Histogram::new([
                0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0,
                7200.0,
            ])
        };
        Counters {
            api: Family::default(),
            api_seconds: Family::new_with_constructor(quick),
            runs_started: Family::default(),
            runs_superseded: Family::default(),
            run_failures: Family::default(),
            run_seconds: Family::new_with_constructor(long),
            run_wait_seconds: Family::new_with_constructor(long),
            task_seconds: Family::new_with_constructor(long),
            tasks_in_flight: Family::default(),
            watch_restarts: Family::default(),
            watch_errors: Family::default(),
            artifact_requests: Family::default(),
            metrics_requests: Family::default(),
            reconciles: Family::default(),
            reconcile_errors: Family::default(),
            reconcile_seconds: Family::new_with_constructor(quick),
            engine: Arc::default(),
        }
    }
}

impl Counters {
    /// A request to the API server was answered, or was not.
    pub fn asked(&self, kind: &str, verb: &'static str, result: &'static str, took: Duration) {
        let labels = ApiLabels {
            kind: kind.to_owned(),
            verb,
            result,
        };
        self.api.get_or_create(&labels).inc();
        self.api_seconds
            .get_or_create(&VerbLabels { verb })
            .observe(took.as_secs_f64());
    }

    /// The loop has looked at a key, as controllers of controller-runtime would count it.
    pub fn stepped(&self, result: &'static str, took: Duration) {
        let controller = STACK_CONTROLLER;
        self.reconciles
            .get_or_create(&ReconcileLabels { controller, result })
            .inc();
        self.reconcile_seconds
            .get_or_create(&ControllerLabels { controller })
            .observe(took.as_secs_f64());
    }

    /// A key could not be looked at, or a write of it was not done.
    pub fn step_failed(&self) {
        let controller = STACK_CONTROLLER;
        let result = "error";
        self.reconciles
            .get_or_create(&ReconcileLabels { controller, result })
            .inc();
        self.reconcile_errors
            .get_or_create(&ControllerLabels { controller })
            .inc();
    }

    /// The numbers of the loop that runs from now on; none: this process does not lead.
    pub fn set_engine(&self, stats: Option<Arc<Stats>>) {
        *self.engine.write().unwrap_or_else(PoisonError::into_inner) = stats;
    }

    /// The loop's numbers as they are now; none while another process leads.
    pub fn engine(&self) -> Option<Reading> {
        let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner);
        engine.as_ref().map(|stats| stats.read())
    }

    /// Names all of it. Counters get their `_total` when they are written.
    pub fn register(&self, registry: &mut Registry) {
        let Counters {
            api,
            api_seconds,
            runs_started,
            runs_superseded,
            run_failures,
            run_seconds,
            run_wait_seconds,
            task_seconds,
            tasks_in_flight,
            watch_restarts,
            watch_errors,
            artifact_requests,
            metrics_requests,
            reconciles,
            reconcile_errors,
            reconcile_seconds,
            engine: _,
        } = self.clone();
        registry.register(
            "windlass_api_requests",
            "Requests to the API server by kind, verb and result; watches are not among them",
            api,
        );
        registry.register(
            "windlass_api_request_duration_seconds",
            "How long requests to the API server took",
            api_seconds,
        );
        registry.register(
            "windlass_runs_started",
            "Pulumi operations that were handed to an agent",
            runs_started,
        );
        registry.register(
            "windlass_runs_superseded",
            "Pulumi operations that were given up before they started, for what they pinned had changed",
            runs_superseded,
        );
        registry.register(
            "windlass_run_failures",
            "Pulumi operations that did not succeed, by class of failure",
            run_failures,
        );
        registry.register(
            "windlass_run_duration_seconds",
            "How long Pulumi operations took in their workspace, by operation and outcome",
            run_seconds,
        );
        registry.register(
            "windlass_run_wait_seconds",
            "How long Pulumi operations waited between being asked for and starting",
            run_wait_seconds,
        );
        registry.register(
            "windlass_task_duration_seconds",
            "How long the work beside the queue took: resolving sources, fetching trees, opening backends, following runs",
            task_seconds,
        );
        registry.register(
            "windlass_tasks_in_flight",
            "Work beside the queue that goes on now",
            tasks_in_flight,
        );
        registry.register(
            "windlass_watch_restarts",
            "Times that a watch had to list everything again",
            watch_restarts,
        );
        registry.register(
            "windlass_watch_errors",
            "Errors of watches; each is tried again",
            watch_errors,
        );
        registry.register(
            "windlass_program_artifact_requests",
            "Requests for archives of Programs by status code",
            artifact_requests,
        );
        registry.register(
            "windlass_metrics_requests",
            "Requests for these metrics by status code",
            metrics_requests,
        );
        registry.register(
            "controller_runtime_reconcile",
            "Total number of reconciliations per controller",
            reconciles,
        );
        registry.register(
            "controller_runtime_reconcile_errors",
            "Total number of reconciliation errors per controller",
            reconcile_errors,
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "Length of time per reconciliation per controller",
            reconcile_seconds,
        );
    }
}
