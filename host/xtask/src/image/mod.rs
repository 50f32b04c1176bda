//! `cargo xtask image`: the operator's image as an OCI archive, with no daemon and no registry.
//!
//! The same sources and packages give the same bytes: entries are sorted, times are those of the commit (or of
//! SOURCE_DATE_EPOCH), owners are numbers. What is inside is told by a list beside it, in the form of SPDX.

mod archive;
mod debian;
mod layer;
mod sbom;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{AtPath, Error, Result};
use crate::place::{Place, write_atomically};
use crate::plugins;
use crate::process::{capture, cargo, run};
use crate::{agent_static, cross, doctor, reproducible};
use archive::{Image, Packed};
pub use debian::Package;
use layer::Root;

/// The user of the operator's pods.
const USER: u32 = 65532;
/// Where the operator's own files are.
const HOME: &str = "/opt/windlass";

/// What to make.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// For which machines; several, separated by commas, make one image for all of them; this one's if absent.
    #[arg(long, value_name = "PLATFORM", value_delimiter = ',')]
    platform: Vec<Platform>,
    /// From the binaries that `cargo xtask build` made, without their symbols and not compressed: for tests.
    #[arg(long)]
    debug_build: bool,
    /// The image's name, with registry, without tag.
    #[arg(
        long,
        default_value = "docker.io/windlass/windlass",
        value_name = "NAME"
    )]
    name: String,
    /// The image's tag; the version if absent.
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Where the archive goes; <target>/image/windlass-VERSION-OS[-ARCHITECTURE].oci.tar if absent. The list of its contents
    /// goes beside it.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// A kind of machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Platform {
    #[value(name = "linux/amd64")]
    Amd64,
    #[value(name = "linux/arm64")]
    Arm64,
}

impl Platform {
    fn of_this_machine() -> Result<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(Self::Amd64),
            "aarch64" => Ok(Self::Arm64),
            other => Err(Error::Failed(format!(
                "images are made for amd64 and arm64; this machine is {other}: name one with --platform"
            ))),
        }
    }

    /// As OCI, Go and Debian name it.
    fn architecture(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As Rust and GNU name it.
    fn machine(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }
}

/// Makes the archive and the list of its contents.
///
/// # Errors
/// When something does not compile; when Debian's packages cannot be had; without a toolchain for another platform.
pub fn make(place: &Place, options: &Options) -> Result<()> {
    let here = Platform::of_this_machine()?;
    let mut platforms = Vec::new();
    for platform in &options.platform {
        if !platforms.contains(platform) {
            platforms.push(*platform);
        }
    }
    if platforms.is_empty() {
        platforms.push(here);
    }
    for platform in &platforms {
        if *platform != here && options.debug_build {
            return Err(Error::Failed(format!(
                "--debug-build takes what was built for this machine, linux/{}; leave one of the two away",
                here.architecture()
            )));
        }
        if *platform != here {
            cross::possible(platform.machine())?;
        }
    }
    let folder = place.target.join("image");
    std::fs::create_dir_all(&folder).at(&folder)?;
    let (revision, time) = commit(place)?;
    let version = env!("CARGO_PKG_VERSION");
    let tag = options.tag.as_deref().unwrap_or(version);
    let output = options.output.clone().unwrap_or_else(|| {
        let kind = match platforms[..] {
            [one] => format!("-{}", one.architecture()),
            _ => String::new(),
        };
        folder.join(format!("windlass-{version}-linux{kind}.oci.tar"))
    });
    let mut images = Vec::new();
    for platform in &platforms {
        let binaries = if options.debug_build {
            debug_binaries(place, &folder)?
        } else {
            release_binaries(place, *platform, here)?
        };
        let image = Image {
            architecture: platform.architecture(),
            version,
            revision: &revision,
            time,
            user: USER,
            entrypoint: &format!("{HOME}/bin/windlass"),
            compressed: !options.debug_build,
        };
        let list = match platforms[..] {
            [_] => output.with_extension("spdx.json"),
            _ => output.with_extension(format!("{}.spdx.json", image.architecture)),
        };
        images.push(packed(place, &options.name, &image, &binaries, &list)?);
    }
    let written = archive::write(&options.name, tag, time, images, &output)?;
    println!(
        "{} ({:.1} MB)",
        output.display(),
        written.bytes as f64 / 1e6
    );
    println!("{}:{tag} sha256:{}", options.name, written.digest);
    Ok(())
}

/// An image of one kind of machine; the list of its contents is written.
fn packed(
    place: &Place,
    name: &str,
    image: &Image,
    binaries: &Binaries,
    list: &Path,
) -> Result<Packed> {
    let folder = place.target.join("image/packages");
    let packages = debian::packages(&folder, image.architecture)?;
    let layers = [system(&packages)?, own(place, binaries)?];
    let packed = archive::pack(image, &layers).at(list)?;
    let text = sbom::list(place, &packages, name, image, &packed.digest)?;
    write_atomically(list, text.as_bytes())?;
    println!("{} ({} Debian packages)", list.display(), packages.len());
    Ok(packed)
}

/// The programs of the image, as they were built.
struct Binaries {
    windlass: PathBuf,
    agent: PathBuf,
}

fn debug_binaries(place: &Place, folder: &Path) -> Result<Binaries> {
    let smaller = |name: &str| {
        let (from, to) = (
            place.binaries().join(name),
            folder.join(format!("{name}.stripped")),
        );
        run(Command::new("strip").arg("-o").args([&to, &from]))?;
        Ok(to)
    };
    Ok(Binaries {
        windlass: smaller("windlass")?,
        agent: smaller("windlass-agent")?,
    })
}

fn release_binaries(place: &Place, platform: Platform, here: Platform) -> Result<Binaries> {
    plugins::make(place, false)?;
    let machine = platform.machine();
    let agent = agent_static::make_for(place, machine)?;
    let triple = format!("{machine}-unknown-linux-gnu");
    doctor::rust_target(
        place,
        &triple,
        "the operator of an image is built for its machines",
    )?;
    let mut build = cargo();
    build.current_dir(&place.root).args([
        "build",
        "--release",
        "--locked",
        "-p",
        "windlass",
        "--bin",
        "windlass",
        "--target",
        &triple,
    ]);
    if platform != here {
        cross::with_gnu(&mut build, machine);
    }
    reproducible::of_rust(&mut build, place);
    build.env(cross::flags_variable(&triple), reproducible::of_c(place));
    run(&mut build)?;
    let windlass = place.target.join(triple).join("release/windlass");
    reproducible::require_silent(place, &windlass)?;
    Ok(Binaries { windlass, agent })
}

/// The commit and its time in seconds since the epoch; SOURCE_DATE_EPOCH wins over that.
fn commit(place: &Place) -> Result<(String, u64)> {
    let mut git = Command::new("git");
    git.current_dir(&place.root)
        .args(["log", "-1", "--format=%H %ct"]);
    let told = capture(&mut git)?;
    let (revision, time) = told.split_once(' ').unwrap_or((&told, "0"));
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let time = epoch.as_deref().unwrap_or(time);
    let time = time.trim().parse().map_err(|_| {
        Error::Failed(format!(
            "SOURCE_DATE_EPOCH is {time:?}: write seconds since 1970 in digits"
        ))
    })?;
    Ok((revision.to_owned(), time))
}

/// The layer of the system: Debian's files, and the few that installing its packages would make.
fn system(packages: &[Package]) -> Result<Root> {
    let mut root = Root::default();
    for (link, target) in [
        ("bin", "usr/bin"),
        ("lib", "usr/lib"),
        ("lib64", "usr/lib64"),
    ] {
        root.link(link, target);
    }
    let mut authorities = Vec::new();
    for package in packages {
        package.unpack(&mut root, &mut authorities)?;
    }
    root.file("etc/ssl/certs/ca-certificates.crt", 0o644, authorities);
    let passwd = format!(
        "root:x:0:0:root:/root:/sbin/nologin\nwindlass:x:{USER}:{USER}::/var/lib/windlass:/sbin/nologin\n"
    );
    root.file("etc/passwd", 0o644, passwd.into_bytes());
    root.file(
        "etc/group",
        0o644,
        format!("root:x:0:\nwindlass:x:{USER}:\n").into_bytes(),
    );
    root.file("etc/nsswitch.conf", 0o644, b"hosts: files dns\n".to_vec());
    root.folder("tmp", 0o1777, 0);
    root.folder("var/lib/windlass", 0o700, USER);
    Ok(root)
}

/// The layer of the operator: its program, the agent for workspaces, the built-in components.
fn own(place: &Place, binaries: &Binaries) -> Result<Root> {
    let mut root = Root::default();
    let read = |path: &Path| std::fs::read(path).at(path);
    let home = HOME.trim_start_matches('/');
    root.file(
        &format!("{home}/bin/windlass"),
        0o755,
        read(&binaries.windlass)?,
    );
    root.file("windlass-agent", 0o755, read(&binaries.agent)?);
    let list = place.plugins().join("digests.json");
    root.file(&format!("{home}/plugins/digests.json"), 0o644, read(&list)?);
    for name in plugins::BUILT_IN {
        let file = format!("{name}.wasm");
        let path = place.plugins().join(&file);
        root.file(&format!("{home}/plugins/{file}"), 0o644, read(&path)?);
    }
    let licence = place.root.join("LICENSE");
    root.file("usr/share/doc/windlass/LICENSE", 0o644, read(&licence)?);
    Ok(root)
}
