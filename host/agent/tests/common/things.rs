//! Programs of the test provider's resource.
#![allow(dead_code)]

use std::path::Path;

/// A program of things: each a name and its properties, one `key: value` per line.
pub fn things(project: &str, things: &[(&str, &str)]) -> String {
    let mut yaml = format!("name: {project}\nruntime: yaml\nresources:\n");
    for (name, properties) in things {
        yaml += &format!("  {name}:\n    type: windlasstest:index:Thing\n    properties:\n");
        for line in properties.lines().map(str::trim).filter(|l| !l.is_empty()) {
            yaml += &format!("      {line}\n");
        }
    }
    yaml
}

/// How often an operation was carried out, as the provider wrote it down.
pub fn count(log: &Path, line: &str) -> usize {
    std::fs::read_to_string(log).map_or(0, |t| t.lines().filter(|l| *l == line).count())
}
