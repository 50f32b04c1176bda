//! A program for init containers that wait for it.

use windlass_api::run::ProgramSource;

use crate::decide::Live;
use crate::decision::TaskKind;
use crate::digest::digest;
use crate::obs::Answer;
use crate::snapshot::Instance;

/// Has the program delivered to an instance that waits for it. What is being done, for the condition.
pub(crate) fn deliver(
    live: &mut Live<'_>,
    program: &ProgramSource,
    instance: &Instance,
    boot_id: &str,
) -> String {
    let cause = digest(&(program, &instance.uid, boot_id));
    let task = TaskKind::Deliver {
        program: program.clone(),
        instance: instance.uid.clone(),
    };
    match live.s.seen.program.answer(&cause) {
        Answer::Ask | Answer::Waiting(_) => live.draft.task(cause, task),
        // What is seen of the pod is a moment old.
        Answer::Is(_) => {}
        Answer::Failed {
            failure, retry_at, ..
        } => {
            let message = format!(
                "putting the program into the workspace: {}",
                failure.message
            );
            live.draft.retry(retry_at, cause, task);
            return message;
        }
    }
    // No news of its own: it would be one more write of the status.
    "waiting for workspace readiness".to_owned()
}
