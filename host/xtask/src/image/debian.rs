//! Debian's packages: which, from where, and which of their files.
//!
//! apt says what is current and where; what it brings is checked against the digest that apt's signed lists have.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest as _, Sha256};
use tar::EntryType;

use super::layer::Root;
use crate::error::{AtPath, Error, Result};
use crate::process::{find_on_path, run, spelled};

/// What is asked for, with the files that are taken of it beside its libraries. All libraries that they depend on come
/// along; programs and scripts that they depend on do not.
const WANTED: [(&str, &[&str]); 6] = [
    (
        "base-files",
        &["usr/lib/os-release", "etc/os-release", "etc/debian_version"],
    ),
    ("ca-certificates", &[]),
    (
        "git",
        &[
            "usr/bin/git",
            "usr/lib/git-core/git-remote-http",
            "usr/lib/git-core/git-remote-https",
        ],
    ),
    ("libc6", &[]),
    ("libgcc-s1", &[]),
    ("openssh-client", &["usr/bin/ssh"]),
];
/// Where the certificates of authorities are in their package.
const AUTHORITIES: &str = "usr/share/ca-certificates/mozilla/";

/// A package, downloaded.
#[derive(Debug, Clone)]
pub struct Package {
    pub name: String,
    pub version: String,
    pub architecture: String,
    /// Of the file, SHA-256 in hex.
    pub digest: String,
    /// Names of packages that it needs.
    needs: Vec<String>,
    /// What Debian says of it.
    paragraph: String,
    file: PathBuf,
}

/// Brings the packages into `folder` where they are not there yet; sorted by name.
///
/// # Errors
/// `MissingProgram` where there is no apt; when a package is not what the lists say.
pub fn packages(folder: &Path, architecture: &str) -> Result<Vec<Package>> {
    for program in ["apt-cache", "apt-get", "dpkg-deb"] {
        if find_on_path(program, None).is_none() {
            return Err(Error::MissingProgram {
                program: program.to_owned(),
                why: "git, ssh and the C library of the image are Debian's packages",
                how: "make the image on Debian, or with deploy/image/Dockerfile",
            });
        }
    }
    std::fs::create_dir_all(folder).at(folder)?;
    let mut found: BTreeMap<String, Package> = BTreeMap::new();
    let mut open: BTreeSet<String> = WANTED.iter().map(|(name, _)| (*name).to_owned()).collect();
    while !open.is_empty() {
        let names: Vec<String> = std::mem::take(&mut open).into_iter().collect();
        for package in shown(&names, architecture, folder)? {
            let libraries = package.needs.iter().filter(|name| is_library(name));
            open.extend(libraries.cloned());
            found.insert(package.name.clone(), package);
        }
        let unknown: Vec<_> = names
            .iter()
            .filter(|name| !found.contains_key(*name))
            .collect();
        if !unknown.is_empty() {
            return Err(Error::Failed(format!(
                "apt knows no {unknown:?} for {architecture}: run `apt-get update`; for another architecture first \
                 `dpkg --add-architecture {architecture}`"
            )));
        }
        open.retain(|name| !found.contains_key(name));
    }
    let packages: Vec<Package> = found.into_values().collect();
    for package in &packages {
        package.fetch(folder, architecture)?;
    }
    Ok(packages)
}

fn is_library(name: &str) -> bool {
    // zlib's package is named after the library, not after its file.
    let named = name.starts_with("lib") || name == "zlib1g";
    named && !name.ends_with("-perl") && !name.ends_with("-data")
}

/// What apt's lists say of the packages that would be installed, as far as they know them.
fn shown(names: &[String], architecture: &str, folder: &Path) -> Result<Vec<Package>> {
    let ask = |names: &[String]| {
        let mut command = Command::new("apt-cache");
        command.args(["show", "--no-all-versions"]).args(names);
        // It fails when it does not know one of them, and tells of the others.
        let output = command.stderr(Stdio::null()).output();
        let output = output.map_err(|source| Error::CommandUnusable {
            command: spelled(&command),
            source,
        })?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = text
            .split("\n\n")
            .filter_map(|paragraph| read(paragraph, folder));
        Ok::<Vec<Package>, Error>(told.collect())
    };
    let of = |name: &String| format!("{name}:{architecture}");
    let mut found = ask(&names.iter().map(of).collect::<Vec<_>>())?;
    // Those for every machine have no architecture of their own.
    let mut rest = names.to_vec();
    rest.retain(|name| found.iter().all(|package| package.name != *name));
    if !rest.is_empty() {
        found.extend(ask(&rest)?);
    }
    if found.is_empty() {
        // The lists of a new machine are empty.
        run(Command::new("apt-get").args(["-q", "update"]))?;
        found = ask(names)?;
    }
    found.retain(|package| ["all", architecture].contains(&package.architecture.as_str()));
    Ok(found)
}

/// Reads a paragraph of apt's lists.
fn read(text: &str, folder: &Path) -> Option<Package> {
    let paragraph = text.split("\n\n").next()?;
    let field = |name: &str| {
        let line = paragraph
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        Some(line.split_once(':')?.1.trim())
    };
    let mut needs = Vec::new();
    for name in ["Depends", "Pre-Depends"] {
        for part in field(name).unwrap_or_default().split(',') {
            // The first alternative is Debian's choice.
            let first = part.split('|').next().unwrap_or_default();
            let bare = first.split(['(', ':']).next().unwrap_or_default().trim();
            if !bare.is_empty() {
                needs.push(bare.to_owned());
            }
        }
    }
    let file = Path::new(field("Filename")?).file_name()?;
    Some(Package {
        name: field("Package")?.to_owned(),
        version: field("Version")?.to_owned(),
        architecture: field("Architecture")?.to_owned(),
        digest: field("SHA256")?.to_owned(),
        needs,
        paragraph: format!("{}\n", paragraph.trim_end()),
        file: folder.join(file),
    })
}

impl Package {
    fn is_there(&self) -> bool {
        let content = std::fs::read(&self.file).unwrap_or_default();
        hex::encode(Sha256::digest(&content)) == self.digest
    }

    fn fetch(&self, folder: &Path, architecture: &str) -> Result<()> {
        if self.is_there() {
            return Ok(());
        }
        let of = match self.architecture.as_str() {
            "all" => self.name.clone(),
            _ => format!("{}:{architecture}", self.name),
        };
        let mut command = Command::new("apt-get");
        command
            .current_dir(folder)
            .args(["-q", "download", "-o", "APT::Sandbox::User=root"])
            .arg(format!("{of}={}", self.version));
        run(&mut command)?;
        // apt writes the epoch of a version into the name of the file, the archive does not.
        let epoch = self.version.replace(':', "%3a");
        let named = folder.join(format!("{}_{epoch}_{}.deb", self.name, self.architecture));
        if named.is_file() && named != self.file {
            std::fs::rename(&named, &self.file).at(&named)?;
        }
        if self.is_there() {
            return Ok(());
        }
        Err(Error::BadFile {
            path: self.file.clone(),
            what: format!("it is not the package {of} {} of apt's lists", self.version),
        })
    }

    /// Adds what is taken of the package to an image: named programs, shared libraries where the loader looks, the licence,
    /// and for scanners what Debian says of it. Certificates go to `authorities`.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn unpack(&self, root: &mut Root, authorities: &mut Vec<u8>) -> Result<()> {
        let mut command = Command::new("dpkg-deb");
        command.arg("--fsys-tarfile").arg(&self.file);
        let output = command.output().at(&self.file)?;
        let bad = |what: String| Error::BadFile {
            path: self.file.clone(),
            what,
        };
        if !output.status.success() {
            return Err(bad(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        let named = WANTED.iter().find(|(name, _)| *name == self.name);
        let named = named.map_or(&[][..], |(_, files)| files);
        let mut tar = tar::Archive::new(output.stdout.as_slice());
        for entry in tar.entries().at(&self.file)? {
            let mut entry = entry.at(&self.file)?;
            let path = entry.path().at(&self.file)?.display().to_string();
            let path = merged(path.trim_start_matches("./"));
            let kind = entry.header().entry_type();
            let authority = path.starts_with(AUTHORITIES) && kind == EntryType::Regular;
            let licence = path == format!("usr/share/doc/{}/copyright", self.name);
            if !(authority || licence || is_shared_library(&path) || named.contains(&path.as_str()))
            {
                continue;
            }
            match kind {
                EntryType::Regular => {
                    let mut content = Vec::new();
                    entry.read_to_end(&mut content).at(&self.file)?;
                    if authority {
                        authorities.extend(content);
                        continue;
                    }
                    let mode = entry.header().mode().at(&self.file)?;
                    root.file(&path, mode & 0o755, content);
                }
                EntryType::Symlink => {
                    let target = entry.link_name().at(&self.file)?;
                    let target = target.ok_or_else(|| bad(format!("{path} leads nowhere")))?;
                    root.link(&path, &target.display().to_string());
                }
                _ => {}
            }
        }
        let told = format!("var/lib/dpkg/status.d/{}", self.name);
        root.file(&told, 0o644, self.paragraph.clone().into_bytes());
        Ok(())
    }
}

/// Where a file is once `/bin`, `/lib` and `/lib64` are links into `/usr`.
fn merged(path: &str) -> String {
    let first = path.split('/').next().unwrap_or_default();
    match first {
        "bin" | "lib" | "lib64" => format!("usr/{path}"),
        _ => path.to_owned(),
    }
}

/// A library, or the loader, in a folder that the loader searches: not those of plugins below it.
fn is_shared_library(path: &str) -> bool {
    let Some((folder, name)) = path.rsplit_once('/') else {
        return false;
    };
    let searched = folder == "usr/lib64"
        || folder == "usr/lib"
        || folder
            .strip_prefix("usr/lib/")
            .is_some_and(|rest| rest.ends_with("-linux-gnu"));
    searched && (name.ends_with(".so") || name.contains(".so."))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pretty_assertions::assert_eq;

    const SHOWN: &str = "\
Package: openssh-client
Version: 1:9.2p1-2
Architecture: amd64
Depends: adduser, libc6 (>= 2.36), libedit2 | libedit3, libssl3:any (>= 3)
Description: secure shell
 Depends: on nothing
Filename: pool/main/o/openssh/openssh-client_9.2p1-2_amd64.deb
SHA256: 42c2

Package: another
";

    #[test]
    fn paragraphs_of_apt_are_read() {
        let package = read(SHOWN, Path::new("/x")).unwrap();
        assert_eq!(package.version, "1:9.2p1-2");
        assert_eq!(package.needs, ["adduser", "libc6", "libedit2", "libssl3"]);
        assert_eq!(
            package.file,
            Path::new("/x/openssh-client_9.2p1-2_amd64.deb")
        );
        assert!(!package.paragraph.contains("another"));
        assert!(read("Package: virtual\n", Path::new("/x")).is_none());
    }

    #[test]
    fn libraries_come_along_and_scripts_and_plugins_do_not() {
        let come: Vec<_> = ["libssl3", "perl", "zlib1g", "liberror-perl", "adduser"]
            .into_iter()
            .filter(|name| is_library(name))
            .collect();
        assert_eq!(come, ["libssl3", "zlib1g"]);
        for (path, is) in [
            ("lib/x86_64-linux-gnu/libc.so.6", true),
            ("lib64/ld-linux-x86-64.so.2", true),
            ("lib/ld-linux-aarch64.so.1", true),
            ("usr/lib/x86_64-linux-gnu/gconv/ISO.so", false),
            ("usr/lib/git-core/git-remote-http", false),
            ("usr/share/doc/x.so", false),
        ] {
            assert_eq!(is_shared_library(&merged(path)), is, "{path}");
        }
    }
}
