//! The set of plugins that is served, and what became of the others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use serde::{Serialize, Serializer};
use windlass_sdk::glob::{self, Glob};

use crate::error::{LoadError, PluginError};
use crate::load::{Loader, Plugin};
use crate::signature::signature_of;

/// One set. Built aside, then swapped in whole.
#[derive(Default)]
pub struct Set {
    slots: BTreeMap<String, Slot>,
    claims: BTreeMap<String, Claim>,
    /// Claims of health that are patterns, the one that says most first.
    patterns: Vec<(Glob, Arc<Plugin>)>,
}

/// One plugin name.
#[derive(Clone)]
struct Slot {
    file: PathBuf,
    stamp: Option<Stamp>,
    /// What would be served, if nobody else claimed the same: the newest file that loaded.
    loaded: Option<Arc<Plugin>>,
    /// Why the file that lies there is not served; nothing is loaded and nothing is wrong with one that is left idle.
    error: Option<LoadError>,
}

/// A file that has not changed, nor the signature beside it, is not read again.
type Stamp = (FileStamp, Option<FileStamp>);
type FileStamp = (SystemTime, u64, u64);

#[derive(Clone)]
enum Claim {
    Served(Arc<Plugin>),
    Refused { plugin: String, why: LoadError },
}

/// What an administrator wants to know of one plugin.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    pub name: String,
    pub file: PathBuf,
    /// A version of it is being served (not necessarily the file's).
    pub serving: bool,
    pub builtin: bool,
    /// A built-in that decides nothing, for the policy has no configuration for it; it is not even compiled.
    pub idle: bool,
    /// Of the served version.
    pub digest: String,
    pub version: String,
    pub summary: String,
    /// `source:TYPE`, `backend:SCHEME`, `health:GROUP/KIND` (or a pattern for it).
    pub claims: Vec<String>,
    /// The machine code came from the cache.
    pub cached: bool,
    /// Calls are refused for now.
    pub paused: bool,
    /// Why the file is not served.
    #[serde(serialize_with = "reason_and_message")]
    pub error: Option<LoadError>,
}

fn reason_and_message<S: Serializer>(
    error: &Option<LoadError>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let shown = error.as_ref().map(|error| {
        BTreeMap::from([
            ("reason", error.reason().to_owned()),
            ("message", error.to_string()),
        ])
    });
    shown.serialize(serializer)
}

impl Set {
    /// Reads the directories. What has not changed since `self` is taken over; a changed file that does not load leaves
    /// its predecessor serving.
    pub fn reload(&self, loader: &Loader, dirs: &[PathBuf]) -> Set {
        let mut slots: BTreeMap<String, Slot> = BTreeMap::new();
        for file in dirs.iter().flat_map(|dir| components(dir)) {
            let name = file
                .file_stem()
                .and_then(|stem| stem.to_str())
                .unwrap_or_default()
                .to_owned();
            if let Some(first) = slots.get_mut(&name) {
                first.error = Some(LoadError::NameTaken {
                    claim: format!("file {name}.wasm"),
                    others: vec![file.display().to_string()],
                });
                continue;
            }
            let stamp = stamp(&file);
            let old = self.slots.get(&name);
            let unchanged = old
                .is_some_and(|old| old.stamp.is_some() && old.stamp == stamp && old.file == file);
            let slot = match old {
                Some(old) if unchanged => old.clone(),
                _ if loader.is_idle(&file, &name) => Slot {
                    file,
                    stamp,
                    loaded: None,
                    error: None,
                },
                _ => {
                    let (loaded, error) = match loader.load(&file) {
                        Ok(plugin) => (Some(Arc::new(plugin)), None),
                        Err(error) => (old.and_then(|old| old.loaded.clone()), Some(error)),
                    };
                    Slot {
                        file,
                        stamp,
                        loaded,
                        error,
                    }
                }
            };
            slots.insert(name, slot);
        }
        let claims = settle(&mut slots);
        let patterns = patterns(&claims);
        Set {
            slots,
            claims,
            patterns,
        }
    }

    /// The plugin for a claim: who names it, else who names a pattern for it. A built-in that the administrator has not
    /// configured comes after both: its rule is a default.
    ///
    /// # Errors
    /// `Unknown`, or `NotServed` if somebody refused would have it.
    pub fn find(&self, claim: &str) -> Result<Arc<Plugin>, PluginError> {
        let exact = self.claims.get(claim);
        let is_default =
            matches!(exact, Some(Claim::Served(plugin)) if plugin.builtin && !plugin.configured);
        if (exact.is_none() || is_default)
            && let Some(plugin) = self.by_pattern(claim)
        {
            return Ok(plugin);
        }
        match exact {
            Some(Claim::Served(plugin)) => Ok(plugin.clone()),
            Some(Claim::Refused { plugin, why }) => Err(PluginError::NotServed {
                claim: claim.into(),
                plugin: plugin.clone(),
                why: why.clone(),
            }),
            None => Err(PluginError::Unknown {
                claim: claim.into(),
            }),
        }
    }

    /// Kinds of the core group are matched by their name alone.
    fn by_pattern(&self, claim: &str) -> Option<Arc<Plugin>> {
        let kind = claim.strip_prefix("health:")?;
        let kind = kind.strip_prefix('/').unwrap_or(kind);
        self.patterns
            .iter()
            .find(|(glob, _)| glob.matches(kind))
            .map(|(_, plugin)| plugin.clone())
    }

    /// The plugin of a name, unless another one claims what it does. One that is not configured may claim nothing.
    pub fn by_name(&self, name: &str) -> Option<Arc<Plugin>> {
        let slot = self.slots.get(name)?;
        let is_refused = slot.error.as_ref().is_some_and(is_settled);
        slot.loaded.clone().filter(|_| !is_refused)
    }

    /// Every plugin that a file lies there for.
    pub fn list(&self) -> Vec<PluginStatus> {
        let now = Instant::now();
        self.slots
            .iter()
            .map(|(name, slot)| {
                let plugin = slot.loaded.as_deref();
                let idle = slot.loaded.is_none() && slot.error.is_none();
                PluginStatus {
                    name: name.clone(),
                    file: slot.file.clone(),
                    serving: self.by_name(name).is_some(),
                    builtin: idle || plugin.is_some_and(|plugin| plugin.builtin),
                    idle,
                    digest: plugin
                        .map(|plugin| plugin.digest.clone())
                        .unwrap_or_default(),
                    version: plugin
                        .map(|plugin| plugin.descriptor.version.clone())
                        .unwrap_or_default(),
                    summary: plugin
                        .map(|plugin| plugin.descriptor.summary.clone())
                        .unwrap_or_default(),
                    claims: plugin.map(claims_of).unwrap_or_default(),
                    cached: plugin.is_some_and(|plugin| plugin.cached),
                    paused: plugin.is_some_and(|plugin| plugin.breaker.is_open(now)),
                    error: slot.error.clone(),
                }
            })
            .collect()
    }

    /// Whether the directories look as they did at the last reload.
    pub fn is_current(&self, dirs: &[PathBuf]) -> bool {
        let mut found = BTreeMap::new();
        for file in dirs.iter().flat_map(|dir| components(dir)) {
            let name = file
                .file_stem()
                .and_then(|stem| stem.to_str())
                .unwrap_or_default()
                .to_owned();
            found.entry(name).or_insert_with(|| stamp(&file));
        }
        found.len() == self.slots.len()
            && self
                .slots
                .iter()
                .all(|(name, slot)| slot.stamp.is_some() && found.get(name) == Some(&slot.stamp))
    }
}

/// Who gets which name. Built-ins win; of others that claim the same, none is served at all.
fn settle(slots: &mut BTreeMap<String, Slot>) -> BTreeMap<String, Claim> {
    let loaded: Vec<Arc<Plugin>> = slots
        .values()
        .filter_map(|slot| slot.loaded.clone())
        .collect();
    let mut wanted: BTreeMap<String, Vec<Arc<Plugin>>> = BTreeMap::new();
    for plugin in &loaded {
        for claim in claims_of(plugin) {
            wanted.entry(claim).or_default().push(plugin.clone());
        }
    }
    let mut refused: BTreeMap<String, LoadError> = BTreeMap::new();
    for (claim, claimants) in &wanted {
        for loser in claimants
            .iter()
            .filter(|it| !it.builtin && claimants.len() > 1)
        {
            let others = claimants
                .iter()
                .filter(|it| it.name != loser.name)
                .map(|it| it.name.clone())
                .collect();
            refused.insert(
                loser.name.clone(),
                LoadError::NameTaken {
                    claim: claim.clone(),
                    others,
                },
            );
        }
    }
    for (name, slot) in slots.iter_mut() {
        match refused.get(name) {
            Some(why) => slot.error = Some(why.clone()),
            // The other claimant has gone.
            None if slot.loaded.is_some() => {
                slot.error = slot.error.take().filter(|error| !is_settled(error));
            }
            None => {}
        }
    }
    let served = |claimants: &[Arc<Plugin>]| {
        // Among built-ins the one that the administrator configured.
        claimants
            .iter()
            .filter(|it| !refused.contains_key(&it.name))
            .min_by_key(|it| !it.configured)
            .cloned()
            .map(Claim::Served)
    };
    wanted
        .into_iter()
        .filter_map(|(claim, claimants)| {
            let kept = served(&claimants).or_else(|| {
                let first = claimants.first()?;
                let why = refused.get(&first.name)?.clone();
                Some(Claim::Refused {
                    plugin: first.name.clone(),
                    why,
                })
            })?;
            Some((claim, kept))
        })
        .collect()
}

/// Whether it is about a claim, and not about the file.
fn is_settled(error: &LoadError) -> bool {
    matches!(error, LoadError::NameTaken { claim, .. } if !claim.starts_with("file "))
}

/// The patterns among the claims, those that say more first, else in the order of their bytes.
fn patterns(claims: &BTreeMap<String, Claim>) -> Vec<(Glob, Arc<Plugin>)> {
    let mut found: Vec<(Glob, Arc<Plugin>)> = claims
        .iter()
        .filter_map(|(claim, by)| match (claim.strip_prefix("health:"), by) {
            (Some(kind), Claim::Served(plugin)) if glob::is_pattern(kind) => {
                Some((Glob::new(kind).ok()?, plugin.clone()))
            }
            _ => None,
        })
        .collect();
    found.sort_by_key(|(glob, _)| std::cmp::Reverse(glob.literals()));
    found
}

fn claims_of(plugin: &Plugin) -> Vec<String> {
    let descriptor = &plugin.descriptor;
    let of = |kind: &'static str, names: &[String]| {
        names
            .iter()
            .map(|name| format!("{kind}:{name}"))
            .collect::<Vec<_>>()
    };
    let mut claims = of("source", &descriptor.sources);
    claims.extend(of("backend", &descriptor.backends));
    claims.extend(of("health", &descriptor.health_kinds));
    claims
}

/// The components of a directory by name. One that cannot be read is empty: it may appear later.
fn components(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "wasm")
        })
        .collect();
    files.sort();
    files
}

fn stamp(file: &Path) -> Option<Stamp> {
    Some((file_stamp(file)?, file_stamp(&signature_of(file))))
}

fn file_stamp(file: &Path) -> Option<FileStamp> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}
