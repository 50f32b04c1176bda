//! Components built once, and an outside made of data.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use windlass_sdk::{ErrorClass, Fault, GitRef, HttpRequest, HttpResponse, ObjectRef};
use windlass_wasm::outside::http::HttpClient;
use windlass_wasm::{
    Builtins, Checked, Credential, Grants, HostOptions, Network, Outside, PluginHost, Policy,
    Scope, SecretValue, Work,
};
use zeroize::Zeroizing;

pub const BUILTINS: [&str; 7] = [
    "source-git",
    "source-flux",
    "source-program",
    "backend-cloud",
    "backend-diy",
    "health-argocd",
    "health-lua",
];

/// The folder of the built-in components: given by the environment, or built here, once per process.
pub fn builtin_dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| match std::env::var_os("WINDLASS_PLUGIN_DIR") {
        Some(dir) => dir.into(),
        None => build(&BUILTINS),
    })
}

/// Builds packages as components. A target directory of its own, since the one in use may be locked by whoever runs
/// this test; a second build finds everything fresh.
pub fn build(packages: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .find(|dir| dir.join("Cargo.lock").exists())
        .unwrap();
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let target = target.join("components");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args([
        "build",
        "--quiet",
        "--profile",
        "component",
        "--target",
        "wasm32-wasip2",
    ]);
    cargo.arg("--target-dir").arg(&target);
    for package in packages {
        cargo.args(["-p", package]);
    }
    // What the outer cargo set for its own build is not for this one.
    for name in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
    ] {
        cargo.env_remove(name);
    }
    assert!(
        cargo.status().unwrap().success(),
        "the components do not build"
    );
    let out = target.join("wasm32-wasip2/component");
    for package in packages {
        let built = out.join(format!("{}.wasm", package.replace('-', "_")));
        let named = out.join(format!("{package}.wasm"));
        let fresh = std::fs::read(&built).unwrap();
        if std::fs::read(&named).is_ok_and(|old| old == fresh) {
            continue;
        }
        // Renamed into place: another process may be reading.
        let aside = out.join(format!("{package}.{}", std::process::id()));
        std::fs::write(&aside, fresh).unwrap();
        std::fs::rename(&aside, &named).unwrap();
    }
    out
}

pub fn digest(file: &Path) -> String {
    format!(
        "sha256:{}",
        hex::encode(Sha256::digest(std::fs::read(file).unwrap()))
    )
}

/// The digests of the built-ins, as a build of the binary would know them.
pub fn builtins() -> Builtins {
    let digests = BUILTINS.iter().map(|name| {
        (
            (*name).to_owned(),
            digest(&builtin_dir().join(format!("{name}.wasm"))),
        )
    });
    Builtins(digests.collect())
}

/// Answers from tables; counts what is asked.
#[derive(Default)]
pub struct Table {
    /// `Kind/name`.
    pub objects: Mutex<HashMap<String, Value>>,
    /// `name/key`.
    pub secrets: BTreeMap<String, String>,
    pub refs: Vec<GitRef>,
    /// Passwords that the Git server refuses.
    pub refused: Mutex<Vec<String>>,
    pub asked: Mutex<Vec<String>>,
    pub http: Option<HttpClient>,
}

impl Table {
    fn note(&self, text: String) {
        self.asked.lock().unwrap().push(text);
    }

    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Outside for Table {
    fn kube_get<'a>(
        &'a self,
        scope: &'a Scope,
        object: &'a ObjectRef,
    ) -> BoxFuture<'a, Result<Option<Value>, Fault>> {
        let ObjectRef { kind, name, .. } = object;
        self.note(format!("kube {}/{kind}/{name}", scope.namespace));
        let found = self
            .objects
            .lock()
            .unwrap()
            .get(&format!("{kind}/{name}"))
            .cloned();
        Box::pin(async move { Ok(found) })
    }

    fn secret<'a>(
        &'a self,
        _: &'a Scope,
        name: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<SecretValue, Fault>> {
        self.note(format!("secret {name}/{key}"));
        let found = match self.secrets.get(&format!("{name}/{key}")) {
            Some(value) => SecretValue::Value(Zeroizing::new(value.clone().into_bytes())),
            None if self
                .secrets
                .keys()
                .any(|it| it.starts_with(&format!("{name}/"))) =>
            {
                SecretValue::NoKey
            }
            None => SecretValue::NoSecret,
        };
        Box::pin(async move { Ok(found) })
    }

    fn git_refs<'a>(
        &'a self,
        _: &'a Scope,
        url: &'a Checked,
        prefixes: &'a [String],
        credential: Option<&'a Credential>,
    ) -> BoxFuture<'a, Result<Vec<GitRef>, Fault>> {
        let password = match credential {
            Some(Credential::Basic { username, password }) => {
                format!("{}:{}", **username, **password)
            }
            Some(Credential::SshKey {
                private_key,
                passphrase,
                known_hosts,
            }) => {
                let text = |it: &Option<Zeroizing<String>>| {
                    it.as_ref().map_or("-".to_owned(), |it| it.to_string())
                };
                format!(
                    "key {} {} {}",
                    **private_key,
                    text(passphrase),
                    text(known_hosts)
                )
            }
            Some(_) => "other".into(),
            None => "none".into(),
        };
        let refused = self
            .refused
            .lock()
            .unwrap()
            .iter()
            .any(|it| password.ends_with(it.as_str()));
        self.note(format!("git {} {prefixes:?} {password}", url.url));
        Box::pin(async move {
            if refused {
                return Err(Fault {
                    class: ErrorClass::Denied,
                    reason: "CredentialsRefused".into(),
                    message: "refused".into(),
                    retry_after_ms: None,
                });
            }
            Ok(self.refs.clone())
        })
    }

    fn http_send<'a>(
        &'a self,
        _: &'a Scope,
        request: &'a HttpRequest,
        url: &'a Checked,
        credential: Option<&'a Credential>,
        grants: &'a Grants,
        longest: usize,
    ) -> BoxFuture<'a, Result<HttpResponse, Fault>> {
        self.note(format!("http {} {}", request.method, request.url));
        Box::pin(async move {
            match &self.http {
                Some(client) => client.send(request, url, credential, grants, longest).await,
                None => Err(Fault {
                    class: ErrorClass::Unavailable,
                    reason: "NoNetwork".into(),
                    message: "this test has no network".into(),
                    retry_after_ms: None,
                }),
            }
        })
    }
}

/// A host over `dir`, with a code cache shared by all tests of this build.
pub async fn host(
    dirs: &[&Path],
    policy: Policy,
    network: Network,
    outside: Arc<Table>,
) -> PluginHost {
    let options = HostOptions {
        plugin_dirs: dirs.iter().map(|dir| dir.to_path_buf()).collect(),
        cache_dir: builtin_dir().join("code-cache"),
        policy,
        builtins: builtins(),
        leave_idle: false,
        file_urls: true,
        network,
        threads: 2,
    };
    PluginHost::new(options, outside).await.unwrap()
}

/// A directory with the built-ins.
pub fn installed() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in BUILTINS {
        let file = format!("{name}.wasm");
        std::fs::copy(builtin_dir().join(&file), dir.path().join(&file)).unwrap();
    }
    dir
}

pub fn work(spec: Value) -> Work {
    Work {
        namespace: "apps".into(),
        name: "web".into(),
        metadata: json!({"name": "web", "namespace": "apps", "generation": 1}),
        spec,
        now_ms: 1_790_000_000_000,
    }
}
