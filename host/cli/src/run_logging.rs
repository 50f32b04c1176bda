//! The logging options of the Pulumi Kubernetes Operator, in the words of this program.

use clap::{Args, ValueEnum};

use crate::args::{LogFormat, Logging};
use crate::run_args::boolean;

/// What a level lets through: of this program's own crates, whose names begin alike, more than of others'.
const INFO: &str = "warn,windlass=info";
const DEBUG: &str = "info,windlass=debug";

#[derive(Debug, Args)]
#[command(next_help_heading = "Options of the Pulumi Kubernetes Operator")]
pub struct Zap {
    /// What is logged: debug, info, error, panic, or a number, 1 for debug and more for everything. -v and RUST_LOG
    /// override it.
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    zap_log_level: Option<Level>,
    /// json is --log-format json, console is --log-format text.
    #[arg(long, value_enum, value_name = "ENCODER")]
    zap_encoder: Option<Encoder>,
    /// Log for developers: debug, as text, unless the other options say otherwise.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_name = "BOOL", value_parser = boolean, action = clap::ArgAction::Set)]
    zap_devel: bool,
    /// Accepted and without effect: there are no stack traces in the log.
    #[arg(long, value_name = "LEVEL")]
    zap_stacktrace_level: Option<String>,
    /// Accepted and without effect: times are RFC 3339, which is an ISO 8601.
    #[arg(long, value_name = "ENCODING")]
    zap_time_encoding: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Encoder {
    Json,
    Console,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Error,
    Info,
    Debug,
    Everything,
}

fn level(text: &str) -> Result<Level, String> {
    match text.to_ascii_lowercase().as_str() {
        "debug" => Ok(Level::Debug),
        "info" => Ok(Level::Info),
        "error" | "panic" => Ok(Level::Error),
        number => match number.parse::<u8>() {
            Ok(1) => Ok(Level::Debug),
            Ok(2..) => Ok(Level::Everything),
            _ => Err("write debug, info, error, panic or a number from 1".to_owned()),
        },
    }
}

impl Zap {
    /// Says in `logging` what these options mean.
    pub fn apply(&self, logging: &mut Logging) {
        let Zap {
            zap_log_level,
            zap_encoder,
            zap_devel,
            zap_stacktrace_level: _,
            zap_time_encoding: _,
        } = self;
        let level = zap_log_level.or(zap_devel.then_some(Level::Debug));
        logging.filter = level.map(|level| match level {
            Level::Error => "error",
            Level::Info => INFO,
            Level::Debug => DEBUG,
            Level::Everything => "debug",
        });
        match zap_encoder {
            Some(Encoder::Json) => logging.log_format = LogFormat::Json,
            Some(Encoder::Console) => logging.log_format = LogFormat::Text,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn logging(args: &[&str]) -> Logging {
        let mut cli = Cli::try_parse_from(["windlass", "run"].iter().chain(args)).unwrap();
        let Command::Run(run) = &cli.command else {
            panic!("not run")
        };
        run.zap.apply(&mut cli.logging);
        cli.logging
    }

    /// Of the Deployment and of the chart of the Pulumi Kubernetes Operator.
    #[test]
    fn the_arguments_of_existing_deployments_are_understood() {
        let deployment = [
            "--metrics-bind-address=:8443",
            "--leader-elect",
            "--health-probe-bind-address=:8081",
            "--program-fs-adv-addr=pulumi-kubernetes-operator.$(POD_NAMESPACE):80",
            "--zap-log-level=info",
            "--zap-encoder=console",
            "--zap-time-encoding=iso8601",
        ];
        let logging = logging(&deployment);
        assert_eq!(logging.filter, Some(INFO));
        assert_eq!(logging.log_format, LogFormat::Text);
        let all = [
            "--metrics-bind-address=:8383",
            "--metrics-secure=false",
            "--enable-http2=true",
            "--leader-elect=true",
            "--kube-api-timeout=30s",
            "--leader-election-lease-duration=60s",
            "--program-fs-addr=:9090",
            "--zap-devel",
            "--zap-stacktrace-level=error",
            "--kubeconfig=/x",
        ];
        Cli::try_parse_from(["windlass", "run"].iter().chain(&all)).unwrap();
    }

    #[test]
    fn levels_are_those_of_zap() {
        assert_eq!(logging(&["--zap-devel"]).filter, Some(DEBUG));
        let quiet = logging(&["--zap-devel", "--zap-log-level=error"]);
        assert_eq!(quiet.filter, Some("error"));
        assert_eq!(logging(&["--zap-log-level=5"]).filter, Some("debug"));
        assert_eq!(logging(&[]).filter, None);
        assert_eq!(logging(&["--zap-encoder=json"]).log_format, LogFormat::Json);
        assert!(level("0").is_err() && level("loud").is_err());
    }
}
