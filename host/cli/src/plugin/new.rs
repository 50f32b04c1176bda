//! `windlass plugin new NAME`: a project that builds, with a test and a README.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::error::{AtPath, Error, Result};
use crate::plugin::templates::{self, WIT, WORLD};
use crate::plugin_args::{Kind, Language, NewArgs};
use crate::print;

const LONGEST: usize = 48;

/// Names of the host's own plugins and crates.
const TAKEN: [&str; 11] = [
    "source-git",
    "source-flux",
    "source-program",
    "backend-cloud",
    "backend-diy",
    "health-argocd",
    "health-lua",
    "windlass",
    "windlass-sdk",
    "windlass-sdk-test",
    "test",
];

/// Writes the project into a new directory of the plugin's name.
///
/// # Errors
/// A bad name, a directory that exists, an SDK that is not found, and of the file system.
pub fn new(args: &NewArgs) -> Result<ExitCode> {
    check_name(&args.name).map_err(Error::Arguments)?;
    let sdk = match args.lang {
        Language::Rust => Some(find_sdk(args.sdk_path.as_deref())?),
        Language::Js | Language::Python => None,
    };
    let words = Words::of(args, sdk.as_deref());
    let folder = PathBuf::from(&args.name);
    if let Err(error) = std::fs::create_dir(&folder) {
        return Err(match error.kind() {
            std::io::ErrorKind::AlreadyExists => Error::BadFile {
                path: folder,
                message: "exists already, and nothing is overwritten; take another name or place"
                    .to_owned(),
            },
            _ => Error::File {
                path: folder,
                source: error,
            },
        });
    }
    for (path, text) in templates::files(args.lang, args.kind) {
        write(&folder.join(path), &words.fill(text))?;
    }
    if args.lang != Language::Rust {
        write(&folder.join("wit/world.wit"), &words.fill(WORLD))?;
        for (name, text) in WIT {
            write(&folder.join("wit/deps/windlass-plugin").join(name), text)?;
        }
    }
    print::out(&format!(
        "{name}: a {kind} plugin in {folder}/\n\n{next}",
        name = args.name,
        kind = kind_word(args.kind),
        folder = folder.display(),
        next = words.fill(next(args.lang)),
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn next(language: Language) -> &'static str {
    match language {
        Language::Rust => {
            "next:\n  cd @NAME@\n  cargo build --release --target wasm32-wasip2\n  \
             windlass plugin policy target/wasm32-wasip2/release/@CRATE@.wasm > policy.yaml\n  \
             windlass plugin check target/wasm32-wasip2/release/@CRATE@.wasm --policy policy.yaml"
        }
        Language::Js => {
            "next:\n  cd @NAME@\n  npm install\n  npm run build\n  \
             windlass plugin policy @NAME@.wasm > policy.yaml\n  \
             windlass plugin check @NAME@.wasm --policy policy.yaml"
        }
        Language::Python => {
            "next:\n  cd @NAME@\n  python3 -m venv .venv && .venv/bin/pip install -r requirements.txt\n  \
             .venv/bin/componentize-py -d wit -w component componentize --stub-wasi app -o @NAME@.wasm\n  \
             windlass plugin policy @NAME@.wasm > policy.yaml\n  \
             windlass plugin check @NAME@.wasm --policy policy.yaml"
        }
    }
}

/// What the templates leave open.
struct Words(Vec<(&'static str, String)>);

impl Words {
    fn of(args: &NewArgs, sdk: Option<&Path>) -> Words {
        let name = &args.name;
        let kind = kind_word(args.kind);
        let short = name
            .strip_prefix(kind)
            .and_then(|rest| rest.strip_prefix('-'))
            .unwrap_or(name);
        let (imports, export, function, input): (&[&str], _, _, _) = match args.kind {
            Kind::Source => (
                &["log", "config", "kube"],
                "source-provider",
                "resolve",
                "stack.yaml",
            ),
            Kind::Health => (&["log", "config"], "health-check", "assess", "object.yaml"),
            Kind::Backend => (&["log", "config"], "backend", "open", "stack.yaml"),
        };
        let imports: Vec<String> = imports
            .iter()
            .map(|interface| format!("  import windlass:plugin/{interface}@0.1.0;"))
            .collect();
        let sdk = sdk.map(Path::to_path_buf).unwrap_or_default();
        let test = sdk.with_file_name("windlass-sdk-test");
        Words(vec![
            ("@NAME@", name.clone()),
            ("@CRATE@", name.replace('-', "_")),
            ("@TYPE@", camel(short)),
            ("@SHORT@", short.to_owned()),
            ("@IMPORTS@", imports.join("\n")),
            ("@FUNCTION@", function.to_owned()),
            ("@INPUT@", input.to_owned()),
            // Last: it stands before a version's @.
            ("@EXPORT@", export.to_owned()),
            ("@SDK_TEST@", toml_text(&test)),
            ("@SDK@", toml_text(&sdk)),
        ])
    }

    fn fill(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (word, value)| {
            text.replace(word, value)
        })
    }
}

fn toml_text(path: &Path) -> String {
    path.display()
        .to_string()
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Source => "source",
        Kind::Health => "health",
        Kind::Backend => "backend",
    }
}

/// `blue-shelf` as `BlueShelf`.
fn camel(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    name.split('-').map(word).collect()
}

/// The reason why a plugin cannot be called so.
fn check_name(name: &str) -> std::result::Result<(), String> {
    let wrong = |why: &str| Err(format!("a plugin cannot be called {name:?}: {why}"));
    let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || !name.bytes().all(fine) {
        return wrong("use lower case letters, digits and hyphens, as in source-shelf");
    }
    if name
        .split('-')
        .any(|word| !word.starts_with(|letter: char| letter.is_ascii_lowercase()))
    {
        return wrong("every word between hyphens must begin with a letter");
    }
    if name.len() > LONGEST {
        return wrong(&format!("it may have {LONGEST} characters"));
    }
    if TAKEN.contains(&name) {
        return wrong("that name is Windlass' own");
    }
    if !name.contains('-') {
        return wrong(
            "two words at least keep it apart from what it serves, as in source-shelf for `shelf`",
        );
    }
    Ok(())
}

/// The SDK's folder: the named one, or that of the clone of Windlass that this directory or this program is in.
fn find_sdk(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(named) = named {
        let real = std::fs::canonicalize(named).at(named)?;
        if is_sdk(&real) {
            return Ok(real);
        }
        return Err(Error::BadFile {
            path: named.to_owned(),
            message:
                "is not the folder of windlass-sdk; in a clone of Windlass it is sdk/windlass-sdk"
                    .to_owned(),
        });
    }
    let places = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    let found = places.iter().flatten().find_map(|place| {
        place
            .ancestors()
            .map(|folder| folder.join("sdk/windlass-sdk"))
            .find(|folder| is_sdk(folder))
    });
    found.ok_or_else(|| {
        Error::Arguments(
            "windlass-sdk is on no registry yet: clone Windlass and name its folder with --sdk-path \
             CLONE/sdk/windlass-sdk"
                .to_owned(),
        )
    })
}

fn is_sdk(folder: &Path) -> bool {
    std::fs::read_to_string(folder.join("Cargo.toml"))
        .is_ok_and(|text| text.contains("name = \"windlass-sdk\""))
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).at(folder)?;
    }
    std::fs::write(path, text).at(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    fn args(name: &str, kind: Kind, lang: Language) -> NewArgs {
        NewArgs {
            name: name.to_owned(),
            kind,
            lang,
            sdk_path: None,
        }
    }

    #[test]
    fn bad_names_are_refused_with_the_reason() {
        let long = format!("source-{}", "a".repeat(LONGEST));
        for (name, why) in [
            ("", "lower case"),
            ("Source-Shelf", "lower case"),
            ("source_shelf", "lower case"),
            ("source/../shelf", "lower case"),
            ("source--shelf", "begin with a letter"),
            ("-shelf", "begin with a letter"),
            ("source-", "begin with a letter"),
            ("source-3d", "begin with a letter"),
            ("source-git", "Windlass' own"),
            ("shelf", "two words"),
            (long.as_str(), "characters"),
        ] {
            let refused = check_name(name).err().unwrap_or_default();
            assert!(refused.contains(why), "{name:?}: {refused}");
        }
        assert_eq!(check_name("source-blue-shelf2"), Ok(()));
    }

    #[test]
    fn no_word_of_a_template_is_left_open() {
        for lang in Language::value_variants() {
            for kind in Kind::value_variants() {
                let name = format!("{}-blue-shelf", kind_word(*kind));
                let words = Words::of(
                    &args(&name, *kind, *lang),
                    Some(Path::new("/w/sdk/windlass-sdk")),
                );
                let mut files = templates::files(*lang, *kind);
                files.push(("wit/world.wit", WORLD));
                for (path, text) in files {
                    let filled = words.fill(text);
                    let open = filled.split_whitespace().find(|word| {
                        word.matches('@').count() > 1 && !word.starts_with("windlass:")
                    });
                    assert_eq!(open, None, "{lang:?} {kind:?} {path}");
                }
            }
        }
    }

    #[test]
    fn what_a_plugin_serves_is_its_name_without_the_kind() {
        let words = Words::of(
            &args("source-blue-shelf", Kind::Source, Language::Rust),
            None,
        );
        assert_eq!(
            words.fill("@SHORT@ @TYPE@ @CRATE@"),
            "blue-shelf BlueShelf source_blue_shelf"
        );
        let words = Words::of(&args("my-rule", Kind::Health, Language::Rust), None);
        assert_eq!(words.fill("@SHORT@ @TYPE@"), "my-rule MyRule");
        assert_eq!(words.fill("/@EXPORT@@0.1.0"), "/health-check@0.1.0");
    }
}
