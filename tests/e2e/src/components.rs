//! The SDK's examples as components.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::world::workspace_root;

/// This workspace's target folder.
pub fn target() -> PathBuf {
    let root = workspace_root();
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || root.canonicalize().unwrap_or(root).join("target"),
        PathBuf::from,
    )
}

/// An example of this workspace as a component, built once per process.
pub fn example(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let target = target().join("components");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .current_dir(workspace_root())
            .args(["build", "--quiet", "--profile", "component"])
            .args(["--target", "wasm32-wasip2", "--target-dir"])
            .arg(&target)
            .args(["-p", "source-s3", "-p", "source-oci"])
            .env_remove("RUSTFLAGS")
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "the examples do not build"
        );
        target.join("wasm32-wasip2/component")
    });
    folder.join(format!("{}.wasm", name.replace('-', "_")))
}
