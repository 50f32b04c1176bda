//! Every way in which a plugin can fail, each with a class and a public reason.

use std::time::Duration;

use windlass_sdk::{ErrorClass, Fault};

use crate::signature::SignatureError;

/// Why a file is not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error("the file has {bytes} bytes, more than {limit}")]
    TooLarge { bytes: u64, limit: u64 },
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
    #[error("a core module, not a component: build it for wasm32-wasip2")]
    CoreModule,
    #[error("not a WebAssembly component")]
    NotAComponent,
    #[error("not a valid component: {0}")]
    Invalid(String),
    #[error("digest is {has}, the policy wants {wants}")]
    DigestMismatch { wants: String, has: String },
    #[error("{name} is a built-in's name, and the file is not that built-in")]
    BuiltinName { name: String },
    #[error("the policy wants the file signed: {0}")]
    Signature(SignatureError),
    #[error("the policy names no digest, and {grants} needs one")]
    DigestRequired { grants: String },
    #[error("wants windlass:plugin@{wants}, this host provides {has}: {help}")]
    ContractVersion {
        wants: String,
        has: String,
        help: String,
    },
    #[error("imports what is not provided or not granted: {}", imports.join(", "))]
    ImportsDenied { imports: Vec<String> },
    #[error("wants what the policy does not allow: {}", missing.join(", "))]
    GrantsMissing { missing: Vec<String> },
    #[error("exports none of source-provider, backend, health-check")]
    NoExports,
    #[error("cannot be compiled: {0}")]
    Compile(String),
    #[error("the descriptor is wrong: {0}")]
    Descriptor(String),
    #[error("its configuration in the policy is wrong: {0}")]
    Config(String),
    #[error("the trial call failed: {0}")]
    Trial(Box<PluginError>),
    #[error("{claim} is claimed by {} too", others.join(", "))]
    NameTaken { claim: String, others: Vec<String> },
}

impl LoadError {
    /// The variant's name.
    pub fn reason(&self) -> &'static str {
        match self {
            LoadError::TooLarge { .. } => "TooLarge",
            LoadError::Unreadable(_) => "Unreadable",
            LoadError::CoreModule => "CoreModule",
            LoadError::NotAComponent => "NotAComponent",
            LoadError::Invalid(_) => "Invalid",
            LoadError::DigestMismatch { .. } => "DigestMismatch",
            LoadError::BuiltinName { .. } => "BuiltinName",
            LoadError::Signature(_) => "Signature",
            LoadError::DigestRequired { .. } => "DigestRequired",
            LoadError::ContractVersion { .. } => "ContractVersion",
            LoadError::ImportsDenied { .. } => "ImportsDenied",
            LoadError::GrantsMissing { .. } => "GrantsMissing",
            LoadError::NoExports => "NoExports",
            LoadError::Compile(_) => "Compile",
            LoadError::Descriptor(_) => "Descriptor",
            LoadError::Config(_) => "Config",
            LoadError::Trial(_) => "Trial",
            LoadError::NameTaken { .. } => "NameTaken",
        }
    }
}

/// Why an evaluation has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    #[error("no plugin provides {claim}")]
    Unknown { claim: String },
    #[error("{claim} would be provided by {plugin}, which is not served: {why}")]
    NotServed {
        claim: String,
        plugin: String,
        why: LoadError,
    },
    #[error("computed longer than {limit_ms} ms")]
    CpuExceeded { limit_ms: u64 },
    #[error("needed more memory than {limit_bytes} bytes")]
    MemoryExceeded { limit_bytes: usize },
    #[error("needed more stack than there is")]
    StackOverflow,
    #[error("trapped: {message}")]
    Trap { message: String },
    #[error("panicked: {message}")]
    Panic { message: String },
    #[error("ended itself")]
    Exit,
    #[error("logged more than {limit_lines} lines")]
    LogFlood { limit_lines: usize },
    #[error("moved more than {limit_bytes} bytes in one call")]
    TransferExceeded { limit_bytes: usize },
    #[error("made more than {limit} values of secrets in one call")]
    TooManySecretsMade { limit: usize },
    #[error("asked more than {limit} questions")]
    TooManyQuestions { limit: u32 },
    #[error("took longer than {limit_ms} ms, waiting included")]
    Timeout { limit_ms: u64 },
    #[error("too many evaluations are waiting")]
    Busy,
    #[error("failed too often; paused for {} s", pause.as_secs())]
    BreakerOpen { pause: Duration },
    #[error("answered with something else than {expected}: {message}")]
    BadResult {
        expected: &'static str,
        message: String,
    },
    #[error("named a URL that it may not: {message}")]
    UrlDenied { message: String },
    #[error("asks for a login that it may not: {message}")]
    LoginDenied { message: String },
    #[error("replay: the plugin now asks {question}")]
    Diverged { question: String },
    #[error("the host failed: {0}")]
    Host(String),
    /// What the plugin itself says, or the host's answer that it passed on.
    #[error("{}", _0.message)]
    Fault(Fault),
}

impl PluginError {
    /// Decides whether and when to try again.
    pub fn class(&self) -> ErrorClass {
        match self {
            PluginError::Unknown { .. } => ErrorClass::NotFound,
            PluginError::UrlDenied { .. } | PluginError::LoginDenied { .. } => ErrorClass::Denied,
            PluginError::Busy
            | PluginError::Timeout { .. }
            | PluginError::BreakerOpen { .. }
            | PluginError::NotServed { .. } => ErrorClass::Unavailable,
            PluginError::CpuExceeded { .. }
            | PluginError::MemoryExceeded { .. }
            | PluginError::StackOverflow
            | PluginError::Trap { .. }
            | PluginError::Panic { .. }
            | PluginError::Exit
            | PluginError::LogFlood { .. }
            | PluginError::TransferExceeded { .. }
            | PluginError::TooManySecretsMade { .. }
            | PluginError::TooManyQuestions { .. }
            | PluginError::BadResult { .. }
            | PluginError::Diverged { .. }
            | PluginError::Host(_) => ErrorClass::Internal,
            PluginError::Fault(fault) => fault.class,
        }
    }

    /// The reason of a condition: the plugin's own, or the variant's name.
    pub fn reason(&self) -> &str {
        match self {
            PluginError::Fault(fault) => &fault.reason,
            other => other.label(),
        }
    }

    /// One of a closed set of names: what a plugin says itself goes by its class alone.
    pub fn label(&self) -> &'static str {
        match self {
            PluginError::Unknown { .. } => "PluginUnknown",
            PluginError::NotServed { .. } => "PluginNotServed",
            PluginError::CpuExceeded { .. } => "PluginCpuExceeded",
            PluginError::MemoryExceeded { .. } => "PluginMemoryExceeded",
            PluginError::StackOverflow => "PluginStackOverflow",
            PluginError::Trap { .. } => "PluginTrap",
            PluginError::Panic { .. } => "PluginPanic",
            PluginError::Exit => "PluginExit",
            PluginError::LogFlood { .. } => "PluginLogFlood",
            PluginError::TransferExceeded { .. } => "PluginTransferExceeded",
            PluginError::TooManySecretsMade { .. } => "PluginTooManySecretsMade",
            PluginError::TooManyQuestions { .. } => "PluginTooManyQuestions",
            PluginError::Timeout { .. } => "PluginTimeout",
            PluginError::Busy => "PluginBusy",
            PluginError::BreakerOpen { .. } => "PluginBreakerOpen",
            PluginError::BadResult { .. } => "PluginBadResult",
            PluginError::UrlDenied { .. } => "PluginUrlDenied",
            PluginError::LoginDenied { .. } => "PluginLoginDenied",
            PluginError::Diverged { .. } => "PluginDiverged",
            PluginError::Host(_) => "PluginHost",
            PluginError::Fault(fault) => fault_label(fault.class),
        }
    }

    /// When another try makes sense, if the error says so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            PluginError::BreakerOpen { pause } => Some(*pause),
            PluginError::Busy => Some(Duration::from_secs(1)),
            PluginError::Fault(fault) => fault.retry_after_ms.map(Duration::from_millis),
            _ => None,
        }
    }

    /// Whether it is the plugin's own doing, so that its breaker counts it. Waiting never is.
    pub fn counts(&self) -> bool {
        matches!(
            self,
            PluginError::CpuExceeded { .. }
                | PluginError::MemoryExceeded { .. }
                | PluginError::StackOverflow
                | PluginError::Trap { .. }
                | PluginError::Panic { .. }
                | PluginError::Exit
                | PluginError::LogFlood { .. }
                | PluginError::TransferExceeded { .. }
                | PluginError::TooManySecretsMade { .. }
                | PluginError::TooManyQuestions { .. }
                | PluginError::BadResult { .. }
        )
    }
}

fn fault_label(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::Invalid => "FaultInvalid",
        ErrorClass::NotFound => "FaultNotFound",
        ErrorClass::Denied => "FaultDenied",
        ErrorClass::Conflict => "FaultConflict",
        ErrorClass::Unavailable => "FaultUnavailable",
        ErrorClass::Internal => "FaultInternal",
    }
}
