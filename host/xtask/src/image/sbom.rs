//! What is in the image, in the form of SPDX 2.3: Debian's packages and the crates of both binaries.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::archive::{Image, rfc3339};
use super::debian::Package;
use crate::binaries::PACKAGES;
use crate::error::{Error, Result};
use crate::place::Place;
use crate::plugins::BUILT_IN;
use crate::process::{capture, cargo};

/// The list as text. `name` is the image's with registry, `digest` that of its manifest.
///
/// # Errors
/// When cargo cannot read the workspace.
pub fn list(
    place: &Place,
    packages: &[Package],
    name: &str,
    image: &Image,
    digest: &str,
) -> Result<String> {
    let mut command = cargo();
    command
        .current_dir(&place.root)
        .args(["metadata", "--locked", "--format-version", "1"]);
    let metadata: Value =
        serde_json::from_str(&capture(&mut command)?).map_err(|error| Error::UnexpectedOutput {
            command: "cargo metadata".to_owned(),
            what: error.to_string(),
        })?;
    let mut described: Vec<Value> = packages.iter().map(of_debian).collect();
    described.extend(crates(&metadata).into_iter().map(of_cargo));
    let whole = json!({
        "SPDXID": "SPDXRef-image",
        "name": name,
        "versionInfo": image.version,
        "downloadLocation": "NOASSERTION",
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
        "checksums": [{"algorithm": "SHA256", "checksumValue": digest}],
        "externalRefs": [reference(&format!("pkg:oci/windlass@sha256:{digest}?arch={}", image.architecture))],
    });
    let mut relations = vec![relation("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-image")];
    relations.extend(described.iter().map(|package| {
        let part = package["SPDXID"].as_str().unwrap_or_default();
        relation("SPDXRef-image", "CONTAINS", part)
    }));
    described.insert(0, whole);
    let document = json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": format!("windlass-{}-linux-{}", image.version, image.architecture),
        "documentNamespace": format!("https://windlass.dev/spdx/sha256-{digest}"),
        "creationInfo": {"created": rfc3339(image.time), "creators": ["Tool: cargo-xtask-image"]},
        "packages": described,
        "relationships": relations,
    });
    Ok(format!("{document:#}\n"))
}

fn relation(one: &str, kind: &str, other: &str) -> Value {
    json!({"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other})
}

fn reference(locator: &str) -> Value {
    json!({
        "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator,
    })
}

/// A name as SPDX lets it be.
fn identity(kind: &str, name: &str, version: &str) -> String {
    let good = |c: char| {
        if c.is_ascii_alphanumeric() || c == '.' {
            c
        } else {
            '-'
        }
    };
    let text: String = format!("{name}-{version}").chars().map(good).collect();
    format!("SPDXRef-{kind}-{text}")
}

fn of_debian(package: &Package) -> Value {
    let Package {
        name,
        version,
        architecture,
        digest,
        ..
    } = package;
    let escaped = version
        .replace('+', "%2B")
        .replace(':', "%3A")
        .replace('~', "%7E");
    json!({
        "SPDXID": identity("deb", name, version),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "checksums": [{"algorithm": "SHA256", "checksumValue": digest}],
        "externalRefs": [reference(&format!("pkg:deb/debian/{name}@{escaped}?arch={architecture}"))],
    })
}

fn of_cargo(package: &Value) -> Value {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let (name, version) = (text("name"), text("version"));
    let licence = match text("license") {
        "" => "NOASSERTION".to_owned(),
        // The form of old.
        licence => licence.replace('/', " OR "),
    };
    let location = match text("source") {
        "" => "NOASSERTION".to_owned(),
        _ => format!("https://crates.io/api/v1/crates/{name}/{version}/download"),
    };
    json!({
        "SPDXID": identity("crate", name, version),
        "name": name,
        "versionInfo": version,
        "downloadLocation": location,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
        "externalRefs": [reference(&format!("pkg:cargo/{name}@{version}"))],
    })
}

/// The crates that the binaries and the components are linked from, by name and version. Those for other kinds of machines
/// are among them: better one too many.
fn crates(metadata: &Value) -> Vec<&Value> {
    let each = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let mut needs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in each(&metadata["resolve"]["nodes"]) {
        let linked = each(&node["deps"]).into_iter().filter(|dependency| {
            let kinds = each(&dependency["dep_kinds"]);
            kinds.iter().any(|kind| kind["kind"].is_null())
        });
        let names = linked.filter_map(|dependency| Some(dependency["pkg"].as_str()?.to_owned()));
        let id = node["id"].as_str().unwrap_or_default().to_owned();
        needs.insert(id, names.collect());
    }
    let all = metadata["packages"].as_array();
    let named = |package: &&Value| {
        let name = package["name"].as_str().unwrap_or_default();
        package["source"].is_null() && (PACKAGES.contains(&name) || BUILT_IN.contains(&name))
    };
    let ours = all.into_iter().flatten().filter(named);
    let mut open: Vec<String> = ours
        .filter_map(|package| Some(package["id"].as_str()?.to_owned()))
        .collect();
    let mut linked = BTreeSet::new();
    while let Some(id) = open.pop() {
        if let Some(more) = needs.get(&id)
            && linked.insert(id)
        {
            open.extend(more.iter().cloned());
        }
    }
    let mut found: Vec<&Value> = all
        .into_iter()
        .flatten()
        .filter(|package| package["id"].as_str().is_some_and(|id| linked.contains(id)))
        .collect();
    found.sort_by_key(|package| (package["name"].as_str(), package["version"].as_str()));
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn what_is_linked_is_listed_and_what_tests_and_builds_need_is_not() {
        let dependency = |id: &str, kind: Value| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let package = |name: &str| json!({"id": name, "name": name, "version": "1.0.0", "source": null, "license": "MIT/X"});
        let packages = ["windlass", "linked", "deeper", "builder", "tester"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": {"nodes": [
                {"id": "windlass", "deps": [
                    dependency("linked", Value::Null), dependency("builder", "build".into()), dependency("tester", "dev".into()),
                ]},
                {"id": "linked", "deps": [dependency("deeper", Value::Null)]},
                {"id": "deeper", "deps": []}, {"id": "builder", "deps": []}, {"id": "tester", "deps": []},
            ]},
        });
        let found = crates(&metadata);
        let names: Vec<_> = found
            .iter()
            .map(|package| package["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["deeper", "linked", "windlass"]);
        let described = of_cargo(found[0]);
        assert_eq!(described["SPDXID"], "SPDXRef-crate-deeper-1.0.0");
        assert_eq!(described["licenseDeclared"], "MIT OR X");
    }
}
