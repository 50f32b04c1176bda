//! What a component is, read from its bytes before anything of it is compiled.

use wasmparser::{Encoding, Parser, Payload, Validator, WasmFeatures};

use crate::error::LoadError;

/// Version of the contract that this host provides, without the patch.
const CONTRACT: (u64, u64) = (0, 1);

/// Interfaces without authority, which every component may import.
const FREE: [&str; 4] = ["types", "log", "config", "credentials"];

/// WASI packages of which a guest's standard library may import; all of them are stubs here.
const STUBS: [&str; 4] = ["wasi:io/", "wasi:cli/", "wasi:clocks/", "wasi:random/"];

/// Which abilities a component exports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exports {
    pub source: bool,
    pub backend: bool,
    pub health: bool,
}

/// What the bytes say.
#[derive(Clone, Debug, Default)]
pub struct Inspected {
    pub exports: Exports,
    /// Interfaces of the contract that need a grant (`git`, `http`, ...).
    pub interfaces: Vec<String>,
    /// Imports that nobody provides.
    pub foreign: Vec<String>,
}

/// Validates the whole file and reads its imports and exports.
///
/// # Errors
/// `CoreModule`, `NotAComponent`, `Invalid` (a truncated file too), `ContractVersion`, `NoExports`.
pub fn inspect(bytes: &[u8]) -> Result<Inspected, LoadError> {
    if !bytes.starts_with(b"\0asm") {
        return Err(LoadError::NotAComponent);
    }
    let features = WasmFeatures::default() | WasmFeatures::COMPONENT_MODEL;
    match header(bytes)? {
        Encoding::Module => return Err(LoadError::CoreModule),
        Encoding::Component => {}
    }
    Validator::new_with_features(features)
        .validate_all(bytes)
        .map_err(|error| LoadError::Invalid(error.to_string()))?;
    names(bytes)
}

fn header(bytes: &[u8]) -> Result<Encoding, LoadError> {
    match Parser::new(0).parse_all(bytes).next() {
        Some(Ok(Payload::Version { encoding, .. })) => Ok(encoding),
        Some(Err(error)) => Err(LoadError::Invalid(error.to_string())),
        _ => Err(LoadError::NotAComponent),
    }
}

fn names(bytes: &[u8]) -> Result<Inspected, LoadError> {
    let invalid = |error: wasmparser::BinaryReaderError| LoadError::Invalid(error.to_string());
    let mut found = Inspected::default();
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(invalid)? {
            // Modules and components inside have import lists of their own, which are the outer one's business.
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    import_name(import.map_err(invalid)?.name.name, &mut found)?;
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    export_name(export.map_err(invalid)?.name.name, &mut found.exports)?;
                }
            }
            _ => {}
        }
    }
    if found.exports == Exports::default() {
        return Err(LoadError::NoExports);
    }
    found.interfaces.sort();
    found.interfaces.dedup();
    Ok(found)
}

fn import_name(name: &str, found: &mut Inspected) -> Result<(), LoadError> {
    if let Some(interface) = ours(name)? {
        match interface {
            "secrets" | "kube" | "http" | "git" | "cache" => {
                found.interfaces.push(interface.to_owned())
            }
            free if FREE.contains(&free) => {}
            _ => found.foreign.push(name.to_owned()),
        }
    } else if !STUBS.iter().any(|package| name.starts_with(package)) {
        found.foreign.push(name.to_owned());
    }
    Ok(())
}

fn export_name(name: &str, exports: &mut Exports) -> Result<(), LoadError> {
    match ours(name)? {
        Some("source-provider") => exports.source = true,
        Some("backend") => exports.backend = true,
        Some("health-check") => exports.health = true,
        _ => {}
    }
    Ok(())
}

/// The interface of a name of our package, if its version is one that this host has.
fn ours(name: &str) -> Result<Option<&str>, LoadError> {
    let Some(rest) = name.strip_prefix("windlass:plugin/") else {
        return Ok(None);
    };
    let (interface, version) = rest.split_once('@').unwrap_or((rest, ""));
    let mut numbers = version.split('.').map(str::parse::<u64>);
    let has = match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => (u64::MAX, 0),
    };
    if has == CONTRACT {
        return Ok(Some(interface));
    }
    let build = format!(
        "build the plugin with windlass-sdk {}.{}",
        CONTRACT.0, CONTRACT.1
    );
    let help = if has > CONTRACT && !version.is_empty() {
        format!(
            "upgrade Windlass to one that provides {}.{}, or {build}",
            has.0, has.1
        )
    } else {
        build
    };
    Err(LoadError::ContractVersion {
        wants: if version.is_empty() {
            "no version".into()
        } else {
            version.into()
        },
        has: format!("{}.{}.x", CONTRACT.0, CONTRACT.1),
        help,
    })
}
