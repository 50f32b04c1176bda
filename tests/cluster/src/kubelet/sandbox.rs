//! What a container is made of on this machine: its image, its root, its mounts.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::image::Image;
use super::node::Node;
use super::state::{Now, PodCell};
use crate::launch::{Launch, Mount, Process};

/// Between two looks for an image that there is not: every other time the last look is told of, then the wait.
const PULL_PAUSE: Duration = Duration::from_secs(1);

/// Finds a container's image; waits, as a kubelet does, as long as there is none.
pub async fn image(node: &Arc<Node>, cell: &PodCell, container: &Container) -> Image {
    let name = container.image.as_deref().unwrap_or_default();
    let mut tries = 0_u32;
    loop {
        if let Some(image) = node.image(name) {
            return image;
        }
        let never = container.image_pull_policy.as_deref() == Some("Never");
        let (reason, message) = if never {
            (
                "ErrImageNeverPull",
                format!("Container image {name:?} is not present with pull policy of Never"),
            )
        } else if tries.is_multiple_of(2) {
            (
                "ErrImagePull",
                format!(
                    "failed to pull and unpack image {name:?}: failed to resolve image: {name}: not found"
                ),
            )
        } else {
            (
                "ImagePullBackOff",
                format!("Back-off pulling image {name:?}"),
            )
        };
        cell.record(&container.name, |record| {
            record.now = Now::waiting(reason, &message)
        });
        if never || tries.is_multiple_of(2) {
            node.event(cell, "Warning", "Failed", &message);
        } else {
            node.event(cell, "Normal", "BackOff", &message);
        }
        tries += 1;
        tokio::time::sleep(PULL_PAUSE).await;
    }
}

/// The host name that a pod's containers see.
pub fn hostname(cell: &PodCell, spec: &PodSpec) -> String {
    let stated = spec.hostname.as_deref().filter(|name| !name.is_empty());
    let name = stated.unwrap_or(&cell.name);
    name.chars().take(63).collect()
}

/// The file that a container writes its last words to.
pub fn termination_message(cell: &PodCell, container: &str) -> PathBuf {
    cell.folder.join(format!("{container}.termination"))
}

/// Prepares a container's folder, and says what it is to be made of.
///
/// # Errors
/// When the folder cannot be written, or a mount has no volume.
pub fn launch(
    cell: &PodCell,
    spec: &PodSpec,
    container: &Container,
    image: &Image,
    volumes: &BTreeMap<String, PathBuf>,
    process: Process,
    number: u64,
) -> Result<Launch, String> {
    let unusable = |error: std::io::Error| format!("container folder: {error}");
    let root = cell
        .folder
        .join(format!("root-{}-{number}", container.name));
    folders(&root).map_err(unusable)?;
    let last_words = termination_message(cell, &container.name);
    std::fs::write(&last_words, "").map_err(unusable)?;
    set_mode(&last_words, 0o666).map_err(unusable)?;

    let mut mounts = image.mounts().to_vec();
    let hostname = hostname(cell, spec);
    let etc = cell.folder.join("etc");
    users_and_hosts(&etc, &hostname, cell).map_err(unusable)?;
    for name in ["passwd", "group", "hosts", "hostname", "resolv.conf"] {
        mounts.push(Mount {
            source: etc.join(name),
            target: Path::new("/etc").join(name),
            read_only: false,
        });
    }
    let stated = container.termination_message_path.as_deref();
    mounts.push(Mount {
        source: last_words,
        target: stated.unwrap_or("/dev/termination-log").into(),
        read_only: false,
    });
    for wanted in container.volume_mounts.iter().flatten() {
        let source = volumes.get(&wanted.name);
        let source = source.ok_or_else(|| format!("no volume {:?}", wanted.name))?;
        let source = match wanted.sub_path.as_deref() {
            None | Some("") => source.clone(),
            Some(path) => source.join(path),
        };
        mounts.push(Mount {
            source,
            target: wanted.mount_path.clone().into(),
            read_only: wanted.read_only == Some(true) || is_projection(spec, &wanted.name),
        });
    }
    // A volume inside of another comes after it.
    let own = image.mounts().len();
    mounts[own..].sort_by_key(|mount| mount.target.components().count());
    let security = container.security_context.as_ref();
    Ok(Launch {
        root,
        mounts,
        links: image.links().to_vec(),
        hostname,
        process,
        read_only_root: security.and_then(|s| s.read_only_root_filesystem) == Some(true),
        no_new_privileges: security.and_then(|s| s.allow_privilege_escalation) == Some(false),
        log: cell.log(&container.name),
    })
}

/// Secrets and the like are read-only whatever the mount says.
fn is_projection(spec: &PodSpec, volume: &str) -> bool {
    let found = spec
        .volumes
        .iter()
        .flatten()
        .find(|known| known.name == volume);
    found.is_some_and(|volume| volume.empty_dir.is_none() && volume.host_path.is_none())
}

fn folders(root: &Path) -> std::io::Result<()> {
    for (name, mode) in [
        ("", 0o755),
        ("tmp", 0o1777),
        ("var/tmp", 0o1777),
        ("root", 0o700),
        ("home/pulumi", 0o755),
        ("run", 0o755),
        ("etc", 0o755),
        ("usr/local/bin", 0o755),
    ] {
        let path = root.join(name);
        std::fs::create_dir_all(&path)?;
        set_mode(&path, mode)?;
    }
    match chown(root.join("home/pulumi"), Some(1000), Some(1000)) {
        // Where there is only one user, it owns everything.
        Err(error) if error.kind() != std::io::ErrorKind::PermissionDenied => Err(error),
        _ => Ok(()),
    }
}

fn users_and_hosts(etc: &Path, hostname: &str, cell: &PodCell) -> std::io::Result<()> {
    std::fs::create_dir_all(etc)?;
    let passwd = "root:x:0:0:root:/root:/bin/sh\n\
                  pulumi:x:1000:1000::/home/pulumi:/bin/sh\n\
                  nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
    let group = "root:x:0:\npulumi:x:1000:\nnogroup:x:65534:\n";
    let hosts = format!("127.0.0.1\tlocalhost\n{}\t{hostname}\n", cell.address);
    for (name, text) in [
        ("passwd", passwd.to_owned()),
        ("group", group.to_owned()),
        ("hosts", hosts),
        ("hostname", format!("{hostname}\n")),
        // There is no DNS of the cluster.
        (
            "resolv.conf",
            std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default(),
        ),
    ] {
        let path = etc.join(name);
        if !path.exists() {
            std::fs::write(&path, text)?;
        }
    }
    Ok(())
}

fn set_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}
