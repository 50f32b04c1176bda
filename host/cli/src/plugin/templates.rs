//! The files of a new plugin, from `sdk/templates` and `wit/`.

use crate::plugin_args::{Kind, Language};

macro_rules! template {
    ($path:literal) => {
        include_str!(concat!("../../../../sdk/templates/", $path))
    };
}

macro_rules! wit {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../../../wit/", $name)))),*]
    };
}

/// A file: its path in the project, its text with `@WORDS@` to be replaced.
pub type Template = (&'static str, &'static str);

/// The contract, for languages whose tools read it.
pub const WIT: [(&str, &str); 13] = wit!["backend.wit" "cache.wit" "config.wit" "credentials.wit" "git.wit" "health-check.wit"
    "http.wit" "kube.wit" "log.wit" "plugin.wit" "secrets.wit" "source-provider.wit" "types.wit"];

/// The world of a component in a language whose tools import all of it.
pub const WORLD: &str = template!("common/world.wit");

/// All files of a project, but for those of `wit/`.
pub fn files(language: Language, kind: Kind) -> Vec<Template> {
    let mut files = match language {
        Language::Rust => vec![
            ("Cargo.toml", template!("rust/Cargo.toml.tmpl")),
            (".gitignore", template!("rust/gitignore")),
            ("README.md", template!("rust/README.md")),
            match kind {
                Kind::Source => ("src/lib.rs", template!("rust/source/lib.rs")),
                Kind::Health => ("src/lib.rs", template!("rust/health/lib.rs")),
                Kind::Backend => ("src/lib.rs", template!("rust/backend/lib.rs")),
            },
            match kind {
                Kind::Source => ("tests/component.rs", template!("rust/source/component.rs")),
                Kind::Health => ("tests/component.rs", template!("rust/health/component.rs")),
                Kind::Backend => ("tests/component.rs", template!("rust/backend/component.rs")),
            },
        ],
        Language::Js => vec![
            ("package.json", template!("js/package.json.tmpl")),
            (".gitignore", template!("js/gitignore")),
            ("README.md", template!("js/README.md")),
            ("told.js", template!("js/told.js")),
            match kind {
                Kind::Source => ("index.js", template!("js/source/index.js")),
                Kind::Health => ("index.js", template!("js/health/index.js")),
                Kind::Backend => ("index.js", template!("js/backend/index.js")),
            },
        ],
        Language::Python => vec![
            ("requirements.txt", template!("python/requirements.txt")),
            (".gitignore", template!("python/gitignore")),
            ("README.md", template!("python/README.md")),
            ("told.py", template!("python/told.py")),
            match kind {
                Kind::Source => ("app.py", template!("python/source/app.py")),
                Kind::Health => ("app.py", template!("python/health/app.py")),
                Kind::Backend => ("app.py", template!("python/backend/app.py")),
            },
        ],
    };
    let (input, answers) = match kind {
        Kind::Source => (
            template!("common/source-stack.yaml"),
            template!("common/source-answers.yaml"),
        ),
        Kind::Health => (
            template!("common/health-object.yaml"),
            template!("common/health-answers.yaml"),
        ),
        Kind::Backend => (
            template!("common/backend-stack.yaml"),
            template!("common/backend-answers.yaml"),
        ),
    };
    let input_path = match kind {
        Kind::Health => "test/object.yaml",
        Kind::Source | Kind::Backend => "test/stack.yaml",
    };
    files.push((input_path, input));
    files.push(("test/answers.yaml", answers));
    files
}
