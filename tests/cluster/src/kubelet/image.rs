//! What stands for images: parts of the host, and files put where an image would have them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::launch::Mount;
use crate::tools;

/// What a container finds below `/` beside its volumes, and the image's own settings.
#[derive(Debug, Clone, Default)]
pub struct Image {
    mounts: Vec<Mount>,
    links: Vec<(PathBuf, PathBuf)>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) command: Vec<String>,
    pub(crate) user: Option<(u32, u32)>,
    pub(crate) working_dir: Option<PathBuf>,
}

/// The search path of nearly every image.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What programs and TLS libraries read in `/etc`. Users, hosts and names are the container's own.
const ETC: [&str; 9] = [
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "nsswitch.conf",
    "pki",
    "ssl",
];

impl Image {
    /// Nothing but what `with_file` adds: an image of static binaries.
    pub fn empty() -> Self {
        Self {
            env: vec![("PATH".to_owned(), PATH.to_owned())],
            ..Self::default()
        }
    }

    /// The programs and libraries of this machine, read-only; nothing of its data, nothing in
    /// `/usr/local`.
    pub fn host() -> Self {
        let mut image = Self::empty();
        for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
            let path = Path::new("/").join(name);
            match std::fs::read_link(&path) {
                Ok(target) => image.links.push((path, target)),
                Err(_) if path.is_dir() => image.bind(&path, &path),
                Err(_) => {}
            }
        }
        let usr = std::fs::read_dir("/usr").into_iter().flatten().flatten();
        for entry in usr.filter(|entry| entry.file_name() != "local") {
            image.bind(&entry.path(), &entry.path());
        }
        for name in ETC {
            let path = Path::new("/etc").join(name);
            if path.exists() {
                image.bind(&path, &path);
            }
        }
        image
    }

    /// `host` with `pulumi` and our own binaries in `/usr/local/bin`, and the agent where its own
    /// image has it: what an operator's and what a
    /// user's image hold.
    pub fn usual() -> Self {
        let mut image = Self::host();
        let tools = tools::tools_folder();
        let binaries = tools::binaries_folder();
        for (folder, name) in [
            (&tools, "pulumi"),
            (&tools, "pulumi-language-yaml"),
            (&binaries, "windlass"),
            (&binaries, "windlass-agent"),
        ] {
            let path = folder.join(name);
            if path.exists() {
                image = image.with_file(Path::new("/usr/local/bin").join(name), path);
            }
        }
        let agent = binaries.join("windlass-agent");
        if agent.exists() {
            image = image.with_file("/windlass-agent", agent);
        }
        image
    }

    /// Adds a file or folder of the host, read-only.
    #[must_use]
    pub fn with_file(mut self, target: impl AsRef<Path>, source: impl AsRef<Path>) -> Self {
        // A link would be followed on the host anyway, but its target may move.
        let source = source.as_ref();
        let source = source.canonicalize().unwrap_or_else(|_| source.to_owned());
        self.bind(&source, target.as_ref());
        self
    }

    /// Sets a variable that the pod's own come after.
    #[must_use]
    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets what runs if the pod has no `command`.
    #[must_use]
    pub fn with_entrypoint(mut self, argv: &[&str]) -> Self {
        self.entrypoint = argv.iter().map(|part| (*part).to_owned()).collect();
        self
    }

    /// Sets what the entrypoint is given if the pod has no `args`.
    #[must_use]
    pub fn with_command(mut self, argv: &[&str]) -> Self {
        self.command = argv.iter().map(|part| (*part).to_owned()).collect();
        self
    }

    /// Sets the user and group that it runs as if the pod does not say.
    #[must_use]
    pub fn with_user(mut self, uid: u32, gid: u32) -> Self {
        self.user = Some((uid, gid));
        self
    }

    /// Sets where it starts if the pod does not say.
    #[must_use]
    pub fn with_working_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.working_dir = Some(path.into());
        self
    }

    fn bind(&mut self, source: &Path, target: &Path) {
        self.mounts.push(Mount {
            source: source.to_owned(),
            target: target.to_owned(),
            read_only: true,
        });
    }

    pub(crate) fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    pub(crate) fn links(&self) -> &[(PathBuf, PathBuf)] {
        &self.links
    }
}

/// Which image a name stands for.
#[derive(Debug, Clone)]
pub struct Images {
    named: BTreeMap<String, Image>,
    fallback: Option<Image>,
}

impl Default for Images {
    /// Every name is `Image::usual`, but for those of registries below `.invalid`, which exist no
    /// more here than anywhere.
    fn default() -> Self {
        Self {
            named: BTreeMap::new(),
            fallback: Some(Image::usual()),
        }
    }
}

impl Images {
    /// No image at all.
    pub fn none() -> Self {
        Self {
            named: BTreeMap::new(),
            fallback: None,
        }
    }

    /// Lets a name, exactly as pods have it, stand for an image.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, image: Image) -> Self {
        self.set(name, image);
        self
    }

    /// As `with`.
    pub fn set(&mut self, name: impl Into<String>, image: Image) {
        self.named.insert(name.into(), image);
    }

    pub(crate) fn find(&self, name: &str) -> Option<Image> {
        if let Some(image) = self.named.get(name) {
            return Some(image.clone());
        }
        let registry = name.split('/').next().unwrap_or_default();
        let registry = registry.split(':').next().unwrap_or_default();
        if registry.ends_with(".invalid") {
            return None;
        }
        self.fallback.clone()
    }
}
