//! The steps of a load, in order: size, validity, digest, grants, code, trial, descriptor.

use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Linker;
use windlass_sdk::Descriptor;
use windlass_sdk::glob::{self, Glob};

use super::{CodeCache, Exports, inspect};
use crate::breaker::Breaker;
use crate::call::{Call, Output};
use crate::error::{LoadError, PluginError};
use crate::grants::{Builtins, Grants};
use crate::guest::plugin::{Compiled, RoundEnd};
use crate::guest::round::Round;
use crate::limits::Limits;
use crate::policy::{PluginPolicy, Policy};
use crate::signature;

/// A plugin that can be served.
pub struct Plugin {
    pub name: String,
    /// `sha256:<hex>` of the file.
    pub digest: String,
    pub builtin: bool,
    pub descriptor: Descriptor,
    pub grants: Grants,
    pub limits: Arc<Limits>,
    /// JSON of the administrator's configuration.
    pub config: Arc<str>,
    /// Whether there is any.
    pub configured: bool,
    /// Whether the machine code came from the cache.
    pub cached: bool,
    pub compiled: Compiled,
    pub breaker: Breaker,
}

/// What a file says of itself, before anybody granted it anything.
#[derive(Clone, Debug)]
pub struct Examined {
    /// `sha256:<hex>` of the file.
    pub digest: String,
    pub bytes: u64,
    /// Host interfaces that it imports and that need a grant.
    pub interfaces: Vec<String>,
    pub descriptor: Descriptor,
}

/// Everything that loading needs.
pub struct Loader {
    pub engine: Engine,
    pub linker: Linker<Round>,
    pub cache: CodeCache,
    pub builtins: Builtins,
    pub policy: Policy,
    /// Whether what would decide nothing is left alone.
    pub leave_idle: bool,
    /// Whether `file:` URLs can be granted at all.
    pub file_urls: bool,
}

impl Loader {
    /// Whether a file is a built-in that would decide nothing as things are, so that there is no need to compile it.
    pub fn is_idle(&self, path: &Path, name: &str) -> bool {
        let policy = self.policy.plugins.get(name);
        if !self.leave_idle || policy.is_some_and(|policy| policy.config.is_some()) {
            return false;
        }
        let Some(known) = self.builtins.idle_without_config(name) else {
            return false;
        };
        let bytes = read(path, Limits::CEILING.file_bytes);
        bytes.is_ok_and(|bytes| digest(&bytes) == known)
    }

    /// Loads one file. Blocks for as long as a compilation takes.
    ///
    /// # Errors
    /// The first step that refuses.
    pub fn load(&self, path: &Path) -> Result<Plugin, LoadError> {
        let name = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default()
            .to_owned();
        let none = PluginPolicy::default();
        let policy = self.policy.plugins.get(&name).unwrap_or(&none);
        let limits = Arc::new(policy.limits.clone().unwrap_or_default().capped());
        let bytes = read(path, limits.file_bytes)?;
        let inspected = inspect(&bytes)?;
        let digest = digest(&bytes);
        let (allowed, builtin) = self.allowed(path, &name, &digest, policy)?;
        if !inspected.foreign.is_empty() {
            return Err(LoadError::ImportsDenied {
                imports: inspected.foreign,
            });
        }
        let denied: Vec<String> = inspected
            .interfaces
            .iter()
            .filter(|interface| !allowed.interfaces.contains(interface))
            .map(|interface| format!("windlass:plugin/{interface}"))
            .collect();
        if !denied.is_empty() {
            return Err(LoadError::ImportsDenied { imports: denied });
        }
        let (component, cached) = self
            .cache
            .component(&self.engine, &digest, &bytes)
            .map_err(|error| LoadError::Compile(format!("{error:#}")))?;
        let compiled = Compiled::new(&self.linker, &component, inspected.exports)?;
        let config: Arc<str> = policy
            .config
            .as_ref()
            .map_or_else(|| "{}".into(), |config| config.to_string().into());
        let descriptor = describe(&compiled, &limits, &config)?;
        check(&name, &descriptor, inspected.exports)?;
        let grants = allowed
            .effective(&descriptor.wants, &inspected.interfaces)
            .map_err(|missing| LoadError::GrantsMissing { missing })?;
        Ok(Plugin {
            name,
            digest,
            builtin,
            descriptor,
            grants,
            limits,
            config,
            configured: policy.config.is_some(),
            cached,
            compiled,
            breaker: Breaker::default(),
        })
    }

    /// Reads what a file says of itself. It is compiled and asked to describe itself, without any grant and under the
    /// usual limits; whether a policy allows what it wants is not looked at.
    ///
    /// # Errors
    /// The first step of a load that would refuse it under every policy.
    pub fn examine(&self, path: &Path, name: &str) -> Result<Examined, LoadError> {
        let limits = Arc::new(Limits {
            file_bytes: Limits::CEILING.file_bytes,
            ..Limits::default()
        });
        let bytes = read(path, limits.file_bytes)?;
        let inspected = inspect(&bytes)?;
        let digest = digest(&bytes);
        if !inspected.foreign.is_empty() {
            return Err(LoadError::ImportsDenied {
                imports: inspected.foreign,
            });
        }
        let (component, _) = self
            .cache
            .component(&self.engine, &digest, &bytes)
            .map_err(|error| LoadError::Compile(format!("{error:#}")))?;
        let compiled = Compiled::new(&self.linker, &component, inspected.exports)?;
        let descriptor = describe(&compiled, &limits, &"{}".into())?;
        check(name, &descriptor, inspected.exports)?;
        Ok(Examined {
            digest,
            bytes: bytes.len() as u64,
            interfaces: inspected.interfaces,
            descriptor,
        })
    }

    fn allowed(
        &self,
        path: &Path,
        name: &str,
        digest: &str,
        policy: &PluginPolicy,
    ) -> Result<(Grants, bool), LoadError> {
        if let Some(mut grants) = self.builtins.grants(name, digest) {
            grants.file_urls &= self.file_urls;
            // Beyond what a built-in needs: kinds of this cluster's own, for the one that asks for such.
            grants.kinds.extend(policy.kinds.iter().cloned());
            return Ok((grants, true));
        }
        if self.builtins.0.contains_key(name) {
            return Err(LoadError::BuiltinName { name: name.into() });
        }
        if let Some(key) = &policy.public_key {
            signature::verify(path, key, name, digest).map_err(LoadError::Signature)?;
        }
        let mut grants = Grants::allowed(policy);
        match (&policy.digest, grants.dangerous()) {
            (Some(wants), _) if wants != digest => {
                return Err(LoadError::DigestMismatch {
                    wants: wants.clone(),
                    has: digest.into(),
                });
            }
            (None, Some(grants)) if policy.public_key.is_none() => {
                return Err(LoadError::DigestRequired { grants });
            }
            _ => {}
        }
        grants.file_urls &= self.file_urls;
        Ok((grants, false))
    }
}

/// `sha256:<hex>`.
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

fn read(path: &Path, limit: u64) -> Result<Vec<u8>, LoadError> {
    let unreadable = |error: std::io::Error| LoadError::Unreadable(error.to_string());
    let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
    if bytes > limit {
        return Err(LoadError::TooLarge { bytes, limit });
    }
    std::fs::read(path).map_err(unreadable)
}

/// The trial call. It also finds signatures that differ inside an exported interface, which wasmtime checks only when
/// it makes an instance.
fn describe(
    compiled: &Compiled,
    limits: &Arc<Limits>,
    config: &Arc<str>,
) -> Result<Descriptor, LoadError> {
    let round = Round::new(Arc::default(), config.clone(), 0, limits.clone());
    let error = match compiled.run(&Call::Describe, round) {
        RoundEnd::Done(done) => match done.output {
            Output::Descriptor(descriptor) => return Ok(*descriptor),
            _ => PluginError::Host("describe gave something else".into()),
        },
        RoundEnd::Ask { .. } => {
            return Err(LoadError::Descriptor("describe asks questions".into()));
        }
        RoundEnd::Failed { error, .. } => error,
    };
    match error {
        PluginError::BadResult { message, .. } => Err(LoadError::Descriptor(message)),
        error => Err(LoadError::Trial(Box::new(error))),
    }
}

fn check(name: &str, descriptor: &Descriptor, exports: Exports) -> Result<(), LoadError> {
    let wrong = |message: &str| Err(LoadError::Descriptor(message.to_owned()));
    if descriptor.name != name {
        return Err(LoadError::Descriptor(format!(
            "the plugin calls itself {:?}, the file {name:?}",
            descriptor.name
        )));
    }
    if !descriptor.sources.is_empty() && !exports.source {
        return wrong("it names sources, but exports no source-provider");
    }
    if !descriptor.backends.is_empty() && !exports.backend {
        return wrong("it names backends, but exports no backend");
    }
    if !descriptor.health_kinds.is_empty() && !exports.health {
        return wrong("it names health kinds, but exports no health-check");
    }
    if let Some(error) = &descriptor.config_error {
        return Err(LoadError::Config(error.clone()));
    }
    for kind in &descriptor.health_kinds {
        if glob::is_pattern(kind)
            && let Err(error) = Glob::new(kind)
        {
            return Err(LoadError::Descriptor(format!(
                "the health kind {kind:?} is no pattern: {error}"
            )));
        }
    }
    // What a plugin with a schema provides may depend on a configuration that is not there yet.
    if descriptor.config_schema.is_none()
        && descriptor.sources.is_empty()
        && descriptor.backends.is_empty()
        && descriptor.health_kinds.is_empty()
    {
        return wrong("it names no source, backend or health kind");
    }
    Ok(())
}
