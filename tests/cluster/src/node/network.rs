//! The node's network: a bridge of its own on this machine, with a range of its own.
//!
//! Pods reach the bridge's address and each other, this machine reaches pods, and nothing is routed
//! further: no gateway, no translation of addresses, no setting of the kernel is changed.

use std::net::Ipv4Addr;
use std::process::Command;

use crate::error::{Error, Result};

/// Begins the names of our bridges.
const PREFIX: &str = "windlass";

/// A bridge.
#[derive(Debug, Clone)]
pub struct Bridge {
    number: u8,
}

impl Bridge {
    /// Makes one, with a name and range that nobody has; removes those that killed predecessors left.
    ///
    /// # Errors
    /// `Unable` when this machine refuses, or has no range left.
    pub fn make() -> Result<Self> {
        remove_abandoned();
        let taken = addresses();
        let start = (std::process::id() % 200) as u8;
        let mut refused = String::new();
        for number in (0..200).map(|step| (start + step) % 200) {
            let bridge = Self { number };
            let range = format!(" 10.217.{number}.");
            if taken.contains(&range) {
                continue;
            }
            // The kernel gives a name once.
            match ip(&["link", "add", &bridge.name(), "type", "bridge"]) {
                Ok(_) => return bridge.configured(),
                Err(why) => refused = why,
            }
            if !refused.contains("File exists") {
                break;
            }
        }
        Err(Error::Unable(format!(
            "a real node needs a network bridge, which cannot be made: {refused}"
        )))
    }

    fn configured(self) -> Result<Self> {
        let name = self.name();
        let owner = format!(
            "windlass-test:{}",
            owner_of(std::process::id()).unwrap_or_default()
        );
        let address = format!("{}/24", self.address());
        let done = ip(&["link", "set", &name, "alias", &owner])
            .and_then(|_| ip(&["address", "add", &address, "dev", &name]))
            .and_then(|_| ip(&["link", "set", &name, "up"]));
        done.map_err(|why| {
            let _ = ip(&["link", "delete", &name]);
            Error::Unable(format!("the network bridge {name} cannot be set up: {why}"))
        })?;
        Ok(self)
    }

    /// The interface's name, at most 15 characters. The node's cgroup has it too.
    pub fn name(&self) -> String {
        format!("{PREFIX}{}", self.number)
    }

    /// The address of this machine on it: the node's.
    pub fn address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 217, self.number, 1)
    }

    /// The network for the container runtime: a list of plugins as JSON.
    pub fn plugins(&self, state: &std::path::Path) -> serde_json::Value {
        let range = |last| Ipv4Addr::new(10, 217, self.number, last).to_string();
        serde_json::json!({
            "cniVersion": "0.4.0",
            "name": self.name(),
            "plugins": [{
                "type": "bridge",
                "bridge": self.name(),
                "isGateway": false,
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "dataDir": state,
                    "ranges": [[{
                        "subnet": format!("{}/24", range(0)),
                        "rangeStart": range(10), "rangeEnd": range(250),
                    }]],
                },
            }],
        })
    }
}

/// Tells a process from a later one with its number: the number, and when it started.
fn owner_of(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name, which may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let started = fields.split(' ').nth(19)?;
    Some(format!("{pid}:{started}"))
}

/// Deletes the bridges of processes that are gone, as after a power cut for all but the kernel.
fn remove_abandoned() {
    let interfaces = std::fs::read_dir("/sys/class/net").into_iter().flatten();
    for interface in interfaces.flatten() {
        let alias = std::fs::read_to_string(interface.path().join("ifalias")).unwrap_or_default();
        let Some(owner) = alias.trim().strip_prefix("windlass-test:") else {
            continue;
        };
        let pid = owner.split(':').next().and_then(|pid| pid.parse().ok());
        if pid.and_then(owner_of).as_deref() != Some(owner) {
            let _ = ip(&["link", "delete", &interface.file_name().to_string_lossy()]);
        }
    }
}

/// Every address and route of this machine, each after a space.
fn addresses() -> String {
    let shown = |what: &[&str]| ip(what).unwrap_or_default();
    let all = shown(&["-4", "address"]) + &shown(&["-4", "route", "show", "table", "all"]);
    all.lines().map(|line| format!(" {line}\n")).collect()
}

fn ip(arguments: &[&str]) -> std::result::Result<String, String> {
    let output = Command::new("ip")
        .args(arguments)
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}
