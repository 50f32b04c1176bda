//! `windlass health --argocd-cm FILE`: what a team's own scripts for Argo CD say.

use std::path::Path;

use health_lua::config::Scripts;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::world;

/// The ConfigMap that Argo CD reads, by this name and with this label only.
const NAME: &str = "argocd-cm";
const LABEL: (&str, &str) = ("app.kubernetes.io/part-of", "argocd");

/// What an `argocd-cm` says, as far as Argo CD would take it.
pub struct ArgoCdCm {
    /// For the plugin.
    pub config: Value,
    /// Each a sentence.
    pub warnings: Vec<String>,
}

/// Reads the ConfigMap from a file of one or several documents.
///
/// # Errors
/// `BadFile` if there is no ConfigMap in it, or no script in that.
pub fn read(file: &Path) -> Result<ArgoCdCm> {
    let bad = |message: &str| Error::BadFile {
        path: file.to_owned(),
        message: message.to_owned(),
    };
    let text = world::read(file)?;
    let documents = world::documents(file, &text)?;
    let maps: Vec<&Value> = documents
        .iter()
        .filter(|document| document["kind"] == "ConfigMap")
        .collect();
    let named: Vec<&&Value> = maps
        .iter()
        .filter(|map| map["metadata"]["name"] == NAME)
        .collect();
    let map = match (&named[..], &maps[..]) {
        ([map], _) => map,
        ([], [map]) => map,
        ([], []) => return Err(bad("there is no ConfigMap in it")),
        ([], _) => {
            return Err(bad(
                "there are several ConfigMaps in it, and none is called argocd-cm",
            ));
        }
        _ => return Err(bad("there are several ConfigMaps called argocd-cm in it")),
    };
    let mut warnings = Vec::new();
    if map["metadata"]["name"] != NAME {
        warnings.push(format!("Argo CD reads only a ConfigMap called {NAME}"));
    }
    let (label, value) = LABEL;
    if map["metadata"]["labels"][label] != value {
        warnings.push(format!(
            "Argo CD does not see a ConfigMap without the label {label}: {value}"
        ));
    }
    let mut data = map["data"].as_object().cloned().unwrap_or_default();
    let (scripts, problems) = Scripts::read(&Value::Object(data.clone()));
    if scripts.is_empty() && problems.is_empty() {
        return Err(bad(
            "there is no health script in it, neither under resource.customizations.health.GROUP_KIND nor \
             in resource.customizations",
        ));
    }
    for problem in &problems {
        data.remove(&problem.key);
        warnings.push(format!("{problem}; the key is left out here"));
    }
    Ok(ArgoCdCm {
        config: Value::Object(relevant(data)),
        warnings,
    })
}

/// Without what is nobody's business here: an `argocd-cm` can hold much else.
fn relevant(mut data: Map<String, Value>) -> Map<String, Value> {
    data.retain(|key, _| key.starts_with("resource.customizations"));
    data
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read_text(text: &str) -> Result<ArgoCdCm> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("cm.yaml");
        std::fs::write(&file, text).unwrap();
        read(&file)
    }

    const GOOD: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cm, labels: {app.kubernetes.io/part-of: argocd}}
data:
  url: https://argocd.example.org
  resource.customizations.health.a.example_A: return {status = 'Healthy'}
";

    #[test]
    fn the_config_map_is_found_among_other_documents() {
        let found = read_text(&format!(
            "kind: Namespace\n---{GOOD}---\nkind: ConfigMap\nmetadata: {{name: x}}\n"
        ));
        let found = found.unwrap();
        assert!(found.warnings.is_empty(), "{:?}", found.warnings);
        let keys: Vec<&String> = found.config.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["resource.customizations.health.a.example_A"]);
    }

    #[test]
    fn what_argo_cd_would_not_take_is_told() {
        let text = GOOD
            .replace("argocd-cm", "other")
            .replace("{app.kubernetes.io/part-of: argocd}", "{}")
            .replace(
                "  url:",
                "  resource.customizations.healt.b.example_B: x\n  url:",
            );
        let warnings = read_text(&text).unwrap().warnings.join("\n");
        for part in [
            "called argocd-cm",
            "part-of: argocd",
            "type healt not supported",
        ] {
            assert!(warnings.contains(part), "{warnings}");
        }
    }

    #[test]
    fn files_without_scripts() {
        for (text, wanted) in [
            ("kind: Stack", "no ConfigMap"),
            ("kind: ConfigMap\ndata: {url: x}", "no health script"),
            ("kind: ConfigMap\n---\nkind: ConfigMap", "several"),
        ] {
            let error = read_text(text).err().unwrap().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
