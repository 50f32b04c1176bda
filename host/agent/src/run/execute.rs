//! The way of a run through its steps.

use std::sync::Arc;

use windlass_api::run::{InterruptCause, Operation, RunProgress, RunRequest, RunResult, RunState};

use super::command::arguments;
use super::context::{Context, RunError, Workspace};
use super::follow::{Heard, Listener, Orders, follow, launch, now_ms};
use super::judge::{Verdict, judge, judge_error};
use super::{holders, outputs, prepare, sealed};
use crate::slot::Taken;

/// Runs an operation from its beginning.
pub async fn execute(
    workspace: Arc<Workspace>,
    request: RunRequest,
    slot: &Taken,
    orders: Orders,
    listener: &dyn Listener,
) -> RunResult {
    let started_at_ms = now_ms();
    stage(listener, "preparing");
    let (id, operation) = (request.id.clone(), request.operation);
    match begin(workspace, request, slot, &orders, listener, started_at_ms).await {
        Ok((context, heard)) => finish(&context, heard, started_at_ms, listener).await,
        Err((error, context)) => {
            let interrupted = matches!(error, RunError::CancelledBefore)
                .then(|| *orders.borrow())
                .flatten();
            let mut result = failed(id, operation, started_at_ms, &error, interrupted);
            if let Some(context) = context {
                result.project = Some(context.project.info.clone());
                result.message = context.redactor.redact(&result.message);
                if let Some(failure) = &mut result.failure {
                    holders::note(&context.workspace, &mut failure.locks);
                }
            }
            result
        }
    }
}

/// Listens to an operation that an agent before this one started.
pub async fn adopt(
    workspace: Arc<Workspace>,
    request: RunRequest,
    started_at_ms: i64,
    before: Option<InterruptCause>,
    orders: Orders,
    listener: &dyn Listener,
) -> RunResult {
    let (id, operation) = (request.id.clone(), request.operation);
    match Context::open(workspace, request).await {
        Ok(mut context) => {
            // What is secret was known to the agent that is gone; what can be read again is known to this one.
            let items = crate::config::resolve(
                &context.request.config,
                &context.project.info.name,
                |name, most| context.workspace.read(name, most),
                &context.env,
            );
            for item in items.unwrap_or_default().iter().filter(|i| i.secret) {
                context.redactor.add_json(&item.value);
            }
            sealed::note(&mut context);
            // Only what is read afterwards needs it.
            if let Err(e) = context.log_in().await {
                tracing::warn!("{e}");
            }
            let heard = follow(&context, None, started_at_ms, before, orders, listener).await;
            finish(&context, heard, started_at_ms, listener).await
        }
        Err(error) => {
            let mut result = failed(id, operation, started_at_ms, &error, None);
            // The operation did run; only its circumstances are gone.
            result.state = RunState::Lost;
            result.reached_engine = true;
            result
        }
    }
}

/// The result of a run whose operation was never started, because the agent was restarted before.
pub fn barred(request: &RunRequest, started_at_ms: i64) -> RunResult {
    failed(
        request.id.clone(),
        request.operation,
        started_at_ms,
        &RunError::AgentRestarted,
        None,
    )
}

fn stage(listener: &dyn Listener, stage: &str) {
    listener.progress(RunProgress {
        stage: stage.to_owned(),
        ..RunProgress::default()
    });
}

type Begun = Result<(Context, Heard), (RunError, Option<Box<Context>>)>;

async fn begin(
    workspace: Arc<Workspace>,
    request: RunRequest,
    slot: &Taken,
    orders: &Orders,
    listener: &dyn Listener,
    started_at_ms: i64,
) -> Begun {
    std::fs::create_dir_all(workspace.run_dir(&request.id)).map_err(|e| (e.into(), None))?;
    let mut context = Context::open(workspace, request)
        .await
        .map_err(|e| (e, None))?;
    match operate(&mut context, slot, orders, listener, started_at_ms).await {
        Ok(heard) => Ok((context, heard)),
        Err(error) => Err((error, Some(Box::new(context)))),
    }
}

async fn operate(
    context: &mut Context,
    slot: &Taken,
    orders: &Orders,
    listener: &dyn Listener,
    started_at_ms: i64,
) -> Result<Heard, RunError> {
    context.log_in().await?;
    if context.workspace.in_pod {
        // For the convenience of people: a run goes on without it.
        if let Err(e) = crate::visit::prepare(context) {
            tracing::warn!("a person in the pod may not find the stack: {e}");
        }
    }
    prepare::mend_backend(context).await;
    prepare::release_locks(context)?;
    prepare::write_settings(context).await?;
    sealed::note(context);
    if let Some(mark) = prepare::dependencies_mark(context) {
        stage(listener, "installing");
        let mut stop = orders.clone();
        tokio::select! {
            done = prepare::install(context, mark) => done?,
            _ = stop.wait_for(Option::is_some) => return Err(RunError::CancelledBefore),
        }
    }
    let run = async |context: &Context| {
        if orders.borrow().is_some() {
            return Err(RunError::CancelledBefore);
        }
        let args = arguments(
            &context.request,
            &context.dir.join(prepare::SETTINGS),
            &context.dir.join(crate::supervise::EVENTS),
            context.workspace.pulumi_log_level,
        );
        listener.starting();
        let child = launch(context, args, slot)?;
        Ok(follow(
            context,
            Some(child),
            started_at_ms,
            None,
            orders.clone(),
            listener,
        )
        .await)
    };
    let heard = run(context).await?;
    let code = heard.exit.and_then(|e| e.code);
    // 6: the backend does not know the stack. Where that cannot be seen beforehand it is learned here.
    if code == Some(6)
        && context.request.create
        && context.file_stack.is_none()
        && heard.interrupted.is_none()
    {
        prepare::create_stack(context).await?;
        return run(context).await;
    }
    if code == Some(1)
        && heard.interrupted.is_none()
        && !heard.digest.reached_engine
        && prepare::release_by_cli(context, &heard.stderr).await?
    {
        return run(context).await;
    }
    Ok(heard)
}

async fn finish(
    context: &Context,
    heard: Heard,
    started_at_ms: i64,
    listener: &dyn Listener,
) -> RunResult {
    let Verdict {
        state,
        mut message,
        failure,
        resources,
    } = judge(context, &heard);
    let Heard { digest, .. } = heard;
    let operation = context.request.operation;
    let mut outputs = None;
    if state == RunState::Succeeded && matches!(operation, Operation::Up | Operation::Refresh) {
        let mut progress = digest.progress("finishing");
        progress.current = None;
        listener.progress(progress);
        let mut found = digest.outputs.unwrap_or_default();
        if let Err(e) = outputs::reveal(context, &mut found).await {
            message = context.redactor.redact(&e.to_string());
        }
        outputs = Some(found);
    }
    RunResult {
        id: context.request.id.clone(),
        operation,
        state,
        started_at_ms,
        ended_at_ms: now_ms(),
        message,
        failure,
        outputs,
        changes: digest.changes,
        resources,
        permalink: permalink(context),
        project: Some(context.project.info.clone()),
        reached_engine: digest.reached_engine,
    }
}

/// The line that the CLI prints for a person to follow.
fn permalink(context: &Context) -> Option<String> {
    let text = std::fs::read_to_string(context.dir.join(crate::supervise::STDOUT)).ok()?;
    let link = text
        .lines()
        .rev()
        .find_map(|l| l.trim().strip_prefix("View Live: "))?;
    Some(link.trim().to_owned())
}

fn failed(
    id: String,
    operation: Operation,
    started_at_ms: i64,
    error: &RunError,
    interrupted: Option<InterruptCause>,
) -> RunResult {
    let Verdict {
        state,
        message,
        failure,
        resources,
    } = judge_error(error, interrupted);
    RunResult {
        id,
        operation,
        state,
        started_at_ms,
        ended_at_ms: now_ms(),
        message,
        failure,
        outputs: None,
        changes: Default::default(),
        resources,
        permalink: None,
        project: None,
        reached_engine: false,
    }
}
