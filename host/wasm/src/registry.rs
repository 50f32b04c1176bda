//! The set of plugins that is served, and what became of the others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use serde::{Serialize, Serializer};

use crate::error::{LoadError, PluginError};
use crate::load::{Loader, Plugin};
use crate::signature::signature_of;

/// One set. Built aside, then swapped in whole.
#[derive(Default)]
pub struct Set {
    slots: BTreeMap<String, Slot>,
    claims: BTreeMap<String, Claim>,
}

/// One plugin name.
#[derive(Clone)]
struct Slot {
    file: PathBuf,
    stamp: Option<Stamp>,
    /// What would be served, if nobody else claimed the same: the newest file that loaded.
    loaded: Option<Arc<Plugin>>,
    /// Why the file that lies there is not served.
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
    /// Of the served version.
    pub digest: String,
    pub version: String,
    pub summary: String,
    /// `source:TYPE`, `backend:SCHEME`, `health:GROUP/KIND`.
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
        Set { slots, claims }
    }

    /// The plugin for a claim.
    ///
    /// # Errors
    /// `Unknown`, or `NotServed` if somebody refused would have it.
    pub fn find(&self, claim: &str) -> Result<Arc<Plugin>, PluginError> {
        match self.claims.get(claim) {
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

    /// The plugin of a name.
    pub fn by_name(&self, name: &str) -> Option<Arc<Plugin>> {
        self.claims.values().find_map(|claim| match claim {
            Claim::Served(plugin) if plugin.name == name => Some(plugin.clone()),
            _ => None,
        })
    }

    /// Every plugin that a file lies there for.
    pub fn list(&self) -> Vec<PluginStatus> {
        let now = Instant::now();
        self.slots
            .iter()
            .map(|(name, slot)| {
                let plugin = slot.loaded.as_deref();
                PluginStatus {
                    name: name.clone(),
                    file: slot.file.clone(),
                    serving: self.by_name(name).is_some(),
                    builtin: plugin.is_some_and(|plugin| plugin.builtin),
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
                slot.error = slot.error.take().filter(|error| {
                    !matches!(error, LoadError::NameTaken { claim, .. } if !claim.starts_with("file "))
                });
            }
            None => {}
        }
    }
    let served = |claimants: &[Arc<Plugin>]| {
        claimants
            .iter()
            .find(|it| !refused.contains_key(&it.name))
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
