//! The canaries, Stacks that hold them, and the search for them.

use serde_json::Value;
use windlass_e2e::canaries::{Recorder, files_with};
use windlass_e2e::world::{Ended, World, provider};

/// Secret configuration: from a Secret, stated in the Stack in both ways.
pub const CONFIG: &str = "canary-config-7f3a";
pub const LITERAL: &str = "canary-literal-e0d4";
pub const INLINE: &str = "canary-inline-44b0";
/// Variables: one named, all of a Secret, the passphrase. None but the last has a telling name.
pub const VARIABLE: &str = "canary-variable-51bd";
pub const VARIABLES: &str = "canary-variables-0c6e";
pub const PASSPHRASE: &str = "canary-passphrase-8d21";
/// An output that the program marks as secret.
pub const OUTPUT: &str = "canary-output-9c2e";
/// Passwords of a repository: in a Secret, a wrong one, in its address, and one that no header can hold.
pub const GIT: &str = "canary-git-b7a5";
pub const GIT_WRONG: &str = "canary-wrong-11f8";
pub const GIT_URL: &str = "canary-url-6e09";
pub const GIT_TOKEN: &str = "canary-token-d3c2";
/// Passwords in backend addresses.
pub const BUCKET: &str = "canary-bucket-2a97";
pub const DATABASE: &str = "canary-database-f56b";

pub const ALL: [&str; 13] = [
    CONFIG, LITERAL, INLINE, VARIABLE, VARIABLES, PASSPHRASE, OUTPUT, GIT, GIT_WRONG, GIT_URL,
    GIT_TOKEN, BUCKET, DATABASE,
];

/// Variables that the Stacks ask for, and what may stand in them.
pub const ASKED_FOR: [(&str, &str); 4] = [
    ("QUIET", VARIABLE),
    ("LOUD", VARIABLES),
    ("PULUMI_CONFIG_PASSPHRASE", PASSPHRASE),
    ("PULUMI_BACKEND_URL", DATABASE),
];

/// A world in which everything is a canary.
pub struct Scene {
    pub world: World,
    pub recorder: Recorder,
    /// What commands printed, by what they are.
    printed: Vec<(String, String)>,
}

impl Scene {
    pub fn new() -> Option<Scene> {
        let world = World::new()?;
        provider(&world)?;
        let secrets = format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: values}}\nstringData: {{config: {CONFIG}, variable: {VARIABLE}, \
             passphrase: {PASSPHRASE}}}\n---\napiVersion: v1\nkind: Secret\nmetadata: {{name: loud}}\nstringData: {{LOUD: \
             {VARIABLES}}}\n---\napiVersion: v1\nkind: Secret\nmetadata: {{name: git}}\nstringData: {{username: git, \
             password: {GIT}}}\n---\napiVersion: v1\nkind: Secret\nmetadata: {{name: wrong}}\nstringData: {{username: git, \
             password: {GIT_WRONG}}}\n---\napiVersion: v1\nkind: Secret\nmetadata: {{name: broken}}\nstringData: {{token: \
             \"{GIT_TOKEN}\\nmore\"}}\n"
        );
        world.write("secrets.yaml", &secrets);
        let recorder = Recorder::new(&world);
        Some(Scene {
            world,
            recorder,
            printed: Vec::new(),
        })
    }

    /// A Stack with a secret in every place of its configuration and environment. `spec` says where its program is and
    /// overrides nothing.
    pub fn stack(&self, name: &str, backend: &str, spec: &str) {
        let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
        self.world.write(
            &format!("{name}.yaml"),
            &format!(
                "apiVersion: pulumi.com/v1\nkind: Stack\nmetadata: {{name: {name}}}\nspec:\n  stack: \
                 organization/{name}/dev\n  backend: {backend}\n  envRefs:\n    PULUMI_CONFIG_PASSPHRASE: {{type: Secret, \
                 secret: {{name: values, key: passphrase}}}}\n    QUIET: {{type: Secret, secret: {{name: values, key: \
                 variable}}}}\n  envSecrets: [loud]\n  secrets: {{inline: {INLINE}}}\n  secretsRef:\n    token: {{type: \
                 Secret, secret: {{name: values, key: config}}}}\n    literal: {{type: Literal, literal: {{value: \
                 {LITERAL}}}}}\n{spec}"
            ),
        );
    }

    /// Such a Stack on a Program of its own.
    pub fn program(&self, name: &str, program: &str) {
        self.write_program(name, program);
        self.stack(name, "@STATE@", &format!("programRef: {{name: {name}}}\n"));
    }

    pub fn write_program(&self, name: &str, program: &str) {
        let body: String = program.lines().map(|line| format!("  {line}\n")).collect();
        self.world.write(
            &format!("program-{name}.yaml"),
            &format!(
                "apiVersion: pulumi.com/v1\nkind: Program\nmetadata: {{name: {name}}}\nprogram:\n  configuration:\n    \
                 token: {{type: String}}\n    literal: {{type: String}}\n    inline: {{type: String}}\n{body}"
            ),
        );
    }

    pub fn heard(&mut self, what: &str, ended: &Ended) {
        let Ended {
            code: _,
            stdout,
            stderr,
        } = ended;
        self.printed
            .push((format!("{what} (stdout)"), stdout.clone()));
        self.printed
            .push((format!("{what} (stderr)"), stderr.clone()));
    }

    pub fn once(&mut self) -> Ended {
        let path = self.recorder.path().to_owned();
        let ended = self.world.once_with(&["-vv"], &[("PATH", &path)]);
        self.heard("local", &ended);
        ended
    }

    /// Everything that can be asked about a Stack.
    pub fn ask(&mut self, name: &str) {
        let snapshot = self.world.path().join(format!("{name}.snapshot"));
        let snapshot = snapshot.to_str().unwrap();
        for arguments in [
            &["status", name, "-o", "json"][..],
            &["status", name],
            &["explain", name],
            &["explain", name, "-o", "json", "--snapshot", snapshot],
            &["logs", name],
            &["replay", snapshot],
        ] {
            let ended = self.world.windlass(arguments);
            self.heard(&arguments.join(" "), &ended);
        }
    }

    /// Looks everywhere.
    pub fn search(&self) {
        let mut found = Vec::new();
        for canary in ALL {
            for (what, text) in &self.printed {
                if text.contains(canary) {
                    let line = text.lines().find(|line| line.contains(canary));
                    found.push(format!("{canary} in the output of {what}: {line:?}"));
                }
            }
            for process in self.recorder.started() {
                if process.arguments.iter().any(|one| one.contains(canary)) {
                    found.push(format!("{canary} in {:?}", process.arguments));
                }
                for (name, value) in &process.environment {
                    if value.contains(canary) && !ASKED_FOR.contains(&(name.as_str(), canary)) {
                        found.push(format!("{canary} in ${name} of {:?}", process.arguments));
                    }
                }
            }
            for file in files_with(self.world.path(), canary, &belongs(canary)) {
                found.push(format!("{canary} in {}", file.display()));
            }
            found.extend(self.in_store(canary));
        }
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    /// Rows of the store that may not hold the canary and do. It keeps Secrets, and what manifests say, as etcd does.
    fn in_store(&self, canary: &str) -> Vec<String> {
        let mut found = Vec::new();
        for row in self.world.stored() {
            if matches!(row.kind.as_str(), "Secret" | "Program") {
                continue;
            }
            let mut object = row.json();
            let stated = match row.kind.as_str() {
                "Stack" => "/spec",
                // What it was decided from, the very same words.
                "snapshots" => "/objects/stack/spec",
                // The backend's address is plain to whoever states it with a password.
                "Update" if canary == DATABASE => "/spec/intent/env",
                _ => "/none",
            };
            if let Some(stated) = object.pointer_mut(stated) {
                *stated = Value::Null;
            }
            if row.kind == "snapshots" && canary == DATABASE {
                for update in object["objects"]["updates"]
                    .as_array_mut()
                    .into_iter()
                    .flatten()
                {
                    update["spec"]["intent"]["env"] = Value::Null;
                }
                object["seen"]["backend"] = Value::Null;
            }
            if object.to_string().contains(canary) {
                found.push(format!(
                    "{canary} in {} {} of the store",
                    row.kind, row.name
                ));
            }
        }
        found
    }
}

/// Parts of paths below which a canary may lie: the manifests; the store, which is searched by rows; what the kubelet would
/// mount; and, for what a program states itself, the program.
fn belongs(canary: &str) -> Vec<&'static str> {
    let mut may = vec!["/manifests/", "/data/store.db", "/files/mounts/"];
    if canary == OUTPUT {
        may.extend(["/data/trees/", "/state/trees/"]);
    }
    if canary == DATABASE {
        // A run is started with the backend's address, and a person's commands later use the same.
        may.extend(["/state/journal.jsonl", "/state/last-run.json"]);
    }
    may
}
