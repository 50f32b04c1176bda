//! `windlass plugin install FILE --plugin-dir DIR`.

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use windlass_wasm::{Examined, PluginPolicy, signature_of};

use crate::args::Output;
use crate::error::{AtPath, Error, Result};
use crate::plugin::policy::{entry, examined};
use crate::{place, plugins, print};

/// Checks the file and moves it into the directory whole: whoever serves from there sees the old file or the new one.
///
/// # Errors
/// If no policy would have it served, if the name is a built-in's, and of the file system.
pub async fn install(
    file: &Path,
    dir: &Path,
    name: Option<&str>,
    output: Output,
) -> Result<ExitCode> {
    let name = name.map_or_else(|| plugins::installed_name(file), str::to_owned);
    let examined = examined(file, &name).await?;
    std::fs::create_dir_all(dir).at(dir)?;
    refuse_builtin(dir, &name, &examined)?;
    let target = dir.join(format!("{name}.wasm"));
    let signature = signature_of(file);
    // The signature first: a new file never lies beside the signature of an old one alone.
    if signature.is_file() {
        bring(&signature, &signature_of(&target), dir)?;
    }
    bring(file, &target, dir)?;
    let wanted = PluginPolicy::wanted(&examined);
    if output == Output::Json {
        print::json(&json!({
            "plugin": name, "file": target, "digest": examined.digest, "policy": { "plugins": { &name: wanted } },
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    print::out(&format!(
        "installed {}\n  digest  {}",
        target.display(),
        examined.digest
    ))?;
    if asks_for_something(&wanted) {
        print::out(&format!(
            "\nIt is served under a policy (--policy FILE) that allows what it asks for. Read it, then paste:\n\n{}",
            entry(&name, &wanted, &examined)
        ))?;
    } else {
        print::out("  grants  none needed: it is served without a policy")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn asks_for_something(wanted: &PluginPolicy) -> bool {
    let nothing = PluginPolicy {
        digest: wanted.digest.clone(),
        ..PluginPolicy::default()
    };
    *wanted != nothing
}

/// A built-in beside its digests is not replaced: the host would refuse the file under that name.
fn refuse_builtin(dir: &Path, name: &str, examined: &Examined) -> Result<()> {
    let Some(list) = place::digests(&[dir.to_owned()]) else {
        return Ok(());
    };
    let digests = plugins::digests_in(&list)?;
    match digests.get(name) {
        Some(digest) if *digest != examined.digest => Err(Error::BadFile {
            path: dir.join(format!("{name}.wasm")),
            message: format!(
                "{name} is a built-in's name; give the plugin another one, in `describe` and with --name"
            ),
        }),
        _ => Ok(()),
    }
}

/// Copies beside the target, then renames.
fn bring(from: &Path, to: &Path, dir: &Path) -> Result<()> {
    let mut aside = tempfile::Builder::new()
        .prefix(".installing-")
        .tempfile_in(dir)
        .at(dir)?;
    let mut source = std::fs::File::open(from).at(from)?;
    std::io::copy(&mut source, aside.as_file_mut()).at(from)?;
    aside.as_file().sync_all().at(to)?;
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    aside.as_file().set_permissions(readable).at(to)?;
    aside.persist(to).map_err(|error| error.error).at(to)?;
    Ok(())
}
