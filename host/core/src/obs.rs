//! What is known of something outside: the result of a task, and why it was asked.

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::time::Timestamp;

/// An observation. Dropping one at any moment is allowed: it is made again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Obs<T> {
    #[default]
    Unknown,
    /// A task is out. What was known before stays at hand.
    Pending {
        since: Timestamp,
        cause: String,
        /// The failure that this attempt follows.
        failed: Option<(Failure, i64)>,
        last: Option<Known<T>>,
    },
    Known(Known<T>),
    Failed {
        at: Timestamp,
        cause: String,
        failure: Failure,
        /// Failures in a row for this cause, from 1.
        attempts: i64,
        retry_at: Option<Timestamp>,
        last: Option<Known<T>>,
    },
}

/// A value, when it was learned, and for which question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Known<T> {
    pub at: Timestamp,
    pub cause: String,
    pub value: T,
}

/// What an observation says about a question that is asked now.
#[derive(Debug, PartialEq)]
pub enum Answer<'a, T> {
    /// Nobody has asked yet, or what is known answers another question: start the task.
    Ask,
    /// The task is out since then.
    Waiting(Timestamp),
    Is(&'a Known<T>),
    /// Failed; tried again at `retry_at` (due now if that has passed: then start the task).
    Failed {
        failure: &'a Failure,
        attempts: i64,
        retry_at: Option<Timestamp>,
    },
}

impl<T> Obs<T> {
    /// The newest value, whatever it was asked for.
    pub fn last(&self) -> Option<&Known<T>> {
        match self {
            Obs::Unknown => None,
            Obs::Known(known) => Some(known),
            Obs::Pending { last, .. } | Obs::Failed { last, .. } => last.as_ref(),
        }
    }

    /// Reads the observation as the answer to the question `cause`.
    pub fn answer(&self, cause: &str) -> Answer<'_, T> {
        match self {
            Obs::Unknown => Answer::Ask,
            // An attempt that follows a failure shows the failure until it is over: nothing flaps.
            Obs::Pending {
                since,
                cause: asked,
                failed: Some((failure, attempts)),
                ..
            } if asked == cause => Answer::Failed {
                failure,
                attempts: *attempts,
                retry_at: Some(*since),
            },
            Obs::Pending {
                since,
                cause: asked,
                ..
            } if asked == cause => Answer::Waiting(*since),
            Obs::Pending { .. } => Answer::Ask,
            Obs::Known(known) if known.cause == cause => Answer::Is(known),
            Obs::Known(_) => Answer::Ask,
            Obs::Failed {
                cause: asked,
                failure,
                attempts,
                retry_at,
                ..
            } if asked == cause => Answer::Failed {
                failure,
                attempts: *attempts,
                retry_at: *retry_at,
            },
            Obs::Failed { .. } => Answer::Ask,
        }
    }
}
