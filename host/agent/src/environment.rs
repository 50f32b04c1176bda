//! The environment of every CLI process: the workspace's own, without what would harm, with what a run needs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::redact::Redactor;

/// Variables and nothing else: a CLI process starts from an empty environment.
pub type Env = BTreeMap<String, String>;

/// Names, separated by commas, of the variables whose values come from Secrets. For the agent alone.
pub const SECRET_VARIABLES: &str = "WINDLASS_SECRET_VARIABLES";

/// Variables that are never handed on. `PULUMI_OPTION_*` would change a command behind the agent's back, and
/// `PULUMI_OPTION_PARALLEL` makes every command of the CLI panic; the others make the CLI believe that an assistant
/// runs it, and sign up for an account of its own.
fn refused(name: &str) -> bool {
    name.starts_with("PULUMI_OPTION_")
        || ["CODEX_", "CURSOR_", "CLAUDE", "GEMINI_"]
            .iter()
            .any(|p| name.starts_with(p))
        || matches!(
            name,
            "AI_AGENT"
                | "CLAUDECODE"
                | "PULUMI_DEV"
                | "PULUMI_CONFIG"
                | "PULUMI_CONFIG_SECRET_KEYS"
                | SECRET_VARIABLES
        )
}

/// What an adapter may not set either: it would choose the program that runs.
fn refused_to_adapters(name: &str) -> bool {
    refused(name) || matches!(name, "PATH" | "IFS" | "ENV" | "BASH_ENV") || name.starts_with("LD_")
}

const DEFAULT_PATH: &str =
    "/pulumi/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The CLI's home where workspaces share a machine: each has its own.
pub fn own_home(state_dir: &Path) -> PathBuf {
    state_dir.join("pulumi-home")
}

/// The CLI's home in a pod: where the CLI of a person in a shell looks too, and where the image may have plugins. If
/// nothing can be written there, the agent's own.
pub fn home_in_pod(env: &Env, state_dir: &Path) -> PathBuf {
    let usual = env
        .get("HOME")
        .filter(|h| !h.is_empty())
        .map(|h| PathBuf::from(h).join(".pulumi"));
    let writable = |dir: &PathBuf| {
        let mark = dir.join(format!(".windlass-{}", std::process::id()));
        let written = std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&mark, ""));
        let _ = std::fs::remove_file(&mark);
        written.is_ok()
    };
    usual
        .filter(writable)
        .unwrap_or_else(|| own_home(state_dir))
}

/// Makes the environment of one run. `own` is the workspace's, `added` the backend adapter's, `home` the CLI's home
/// unless one of them names another.
pub fn compose(own: &Env, added: &Env, home: &Path) -> Env {
    let mut env: Env = own
        .iter()
        .filter(|(k, _)| !refused(k))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    env.extend(
        added
            .iter()
            .filter(|(k, _)| !refused_to_adapters(k))
            .map(|(k, v)| (k.clone(), v.clone())),
    );
    let home = home.display().to_string();
    for (name, value) in [
        ("PATH", DEFAULT_PATH),
        ("PULUMI_HOME", &home),
        ("HOME", &home),
    ] {
        env.entry(name.to_owned())
            .or_insert_with(|| value.to_owned());
    }
    for (name, value) in [
        ("PULUMI_SKIP_UPDATE_CHECK", "true"),
        ("PULUMI_DEBUG_COMMANDS", "true"),
        ("PULUMI_AUTOMATION_API", "true"),
        // A workspace has no settings file of its own: without this the CLI makes a new salt each time.
        ("PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER", "true"),
        ("PULUMI_CREDENTIAL_STORE", "plaintext"),
        ("PULUMI_DISABLE_CI_DETECTION", "1"),
        ("PULUMI_SUPPRESS_NEO_LINK", "true"),
        ("PULUMI_NEO", "false"),
    ] {
        env.insert(name.to_owned(), value.to_owned());
    }
    env
}

/// Makes `PULUMI_HOME` and keeps the CLI from writing a log for every process: no variable turns that off.
pub fn prepare_home(env: &Env) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let Some(home) = env.get("PULUMI_HOME") else {
        return Ok(());
    };
    let home = PathBuf::from(home);
    // It may hold credentials.
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&home)?;
    let logs = home.join("logs");
    if std::fs::symlink_metadata(&logs).is_err() {
        // A home that is read-only writes no logs anyway.
        let _ = std::os::unix::fs::symlink("/dev/null", logs);
    }
    Ok(())
}

/// The passphrase, if the environment has one. An empty variable is a passphrase; the variable wins over the file.
pub fn passphrase(env: &Env) -> Option<String> {
    if let Some(passphrase) = env.get("PULUMI_CONFIG_PASSPHRASE") {
        return Some(passphrase.clone());
    }
    let file = env
        .get("PULUMI_CONFIG_PASSPHRASE_FILE")
        .filter(|f| !f.is_empty())?;
    Some(std::fs::read_to_string(file).ok()?.trim().to_owned())
}

/// Marks as secret what comes from Secrets (`own` is the workspace's environment, which may say so), what the names of
/// variables say is secret, and passwords in addresses.
pub fn note_secrets(own: &Env, env: &Env, redactor: &mut Redactor) {
    if let Some(passphrase) = passphrase(env) {
        redactor.add(&passphrase);
    }
    let told = own.get(SECRET_VARIABLES).map_or("", String::as_str);
    for name in told.split(',') {
        if let Some(value) = env.get(name) {
            redactor.add(value);
        }
    }
    for (name, value) in env {
        if let Some(password) = password_in(value) {
            redactor.add(password);
        }
        let name = name.to_ascii_uppercase();
        let telling = [
            "SECRET",
            "TOKEN",
            "PASSWORD",
            "PASSPHRASE",
            "PRIVATE_KEY",
            "ACCESS_KEY",
            "CREDENTIALS",
        ];
        let place = name.ends_with("_FILE") || name.ends_with("_PATH") || name.ends_with("_STORE");
        if telling.iter().any(|t| name.contains(t))
            && !place
            && !matches!(value.as_str(), "true" | "false")
        {
            redactor.add(value);
        }
    }
}

/// The password of an address such as `postgres://user:password@host/db`.
fn password_in(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password)
}

/// Reads lines of `NAME=value`, as init containers leave them behind: `export`, quotes and comments are understood.
pub fn read_env_file(path: &Path) -> std::io::Result<Env> {
    let text = std::fs::read_to_string(path)?;
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('#'));
    Ok(lines
        .filter_map(|line| line.strip_prefix("export ").unwrap_or(line).split_once('='))
        .map(|(name, value)| {
            let value = value.trim();
            let bare = ['"', '\'']
                .iter()
                .find_map(|q| value.strip_prefix(*q)?.strip_suffix(*q))
                .unwrap_or(value);
            (name.trim().to_owned(), bare.to_owned())
        })
        .collect())
}

/// Finds a program on the `PATH` of an environment.
pub fn which(program: &str, env: &Env) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let path = env.get("PATH")?;
    std::env::split_paths(path)
        .map(|dir| dir.join(program))
        .find(|file| {
            std::fs::metadata(file)
                .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Env {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn harmful_variables_do_not_pass() {
        let own = env(&[
            ("PULUMI_OPTION_PARALLEL", "4"),
            ("AI_AGENT", "x"),
            ("MINE", "1"),
            ("LD_PRELOAD", "own"),
        ]);
        let added = env(&[
            ("PATH", "/evil"),
            ("LD_PRELOAD", "evil"),
            ("PULUMI_BACKEND_URL", "file:///s"),
            ("MINE", "2"),
        ]);
        let env = compose(&own, &added, &own_home(Path::new("/state")));
        assert!(!env.contains_key("PULUMI_OPTION_PARALLEL") && !env.contains_key("AI_AGENT"));
        assert_eq!(env["PATH"], DEFAULT_PATH);
        assert_eq!(
            (env["LD_PRELOAD"].as_str(), env["MINE"].as_str()),
            ("own", "2")
        );
        assert_eq!(env["PULUMI_HOME"], "/state/pulumi-home");
    }

    #[test]
    fn a_pods_home_is_the_users_where_it_can_be() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let home = dir.path().join("home");
        let named = env(&[("HOME", home.to_str().unwrap())]);
        assert_eq!(home_in_pod(&named, &state), home.join(".pulumi"));
        assert_eq!(std::fs::read_dir(home.join(".pulumi")).unwrap().count(), 0);
        // A file is no home, whoever asks.
        std::fs::write(dir.path().join("file"), "").unwrap();
        let file = dir.path().join("file");
        for bad in ["", file.to_str().unwrap()] {
            let bad = env(&[("HOME", bad)]);
            assert_eq!(home_in_pod(&bad, &state), own_home(&state));
        }
    }

    #[test]
    fn secrets_are_told_by_list_by_name_and_by_address() {
        let own = env(&[
            (SECRET_VARIABLES, "QUIET,ABSENT"),
            ("QUIET", "quiet-value"),
            ("API_TOKEN", "token-value"),
            (
                "PULUMI_BACKEND_URL",
                "postgres://me:pass-word@db:5432/x?a=b@c",
            ),
            ("REGION", "eu-west-1"),
        ]);
        let composed = compose(&own, &Env::new(), Path::new("/state"));
        assert!(!composed.contains_key(SECRET_VARIABLES));
        let mut redactor = Redactor::default();
        note_secrets(&own, &composed, &mut redactor);
        assert_eq!(
            redactor.redact("quiet-value token-value pass-word eu-west-1"),
            "[secret] [secret] [secret] eu-west-1"
        );
        assert_eq!(password_in("https://example.com/a:b@c"), None);
    }

    #[test]
    fn env_files_and_passphrases() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("env");
        std::fs::write(&file, "# c\nexport A=\"x y\"\nB='z'\n\nC=a=b\nnothing\n").unwrap();
        assert_eq!(
            read_env_file(&file).unwrap(),
            env(&[("A", "x y"), ("B", "z"), ("C", "a=b")])
        );
        let phrase = dir.path().join("phrase");
        std::fs::write(&phrase, " word\n").unwrap();
        let both = env(&[
            ("PULUMI_CONFIG_PASSPHRASE", ""),
            ("PULUMI_CONFIG_PASSPHRASE_FILE", phrase.to_str().unwrap()),
        ]);
        assert_eq!(passphrase(&both).unwrap(), "");
        let one = env(&[("PULUMI_CONFIG_PASSPHRASE_FILE", phrase.to_str().unwrap())]);
        assert_eq!(passphrase(&one).unwrap(), "word");
        assert_eq!(passphrase(&env(&[])), None);
    }
}
