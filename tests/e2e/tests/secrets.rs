//! A canary in every place where a secret may stand is found nowhere but where it belongs.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use windlass_e2e::world::{World, files_with};

const CONFIG: &str = "canary-config-7f3a";
const ENVIRONMENT: &str = "canary-environment-51bd";
const OUTPUT: &str = "canary-output-9c2e";
const LITERAL: &str = "canary-literal-e0d4";

const PROGRAM: &str = "apiVersion: pulumi.com/v1\nkind: Program\nmetadata:\n  name: keeper\nprogram:\n  resources:\n    one:\n      \
                       type: pulumi:Stash\n      properties: {input: {fn::secret: \"${token}\"}}\n    two:\n      type: \
                       pulumi:Stash\n      properties: {input: {fn::secret: \"canary-output-9c2e\"}}\n  outputs:\n    kept: \
                       ${one.input}\n    made: ${two.input}\n    plain: shown\n";

/// A `pulumi` in front of the real one that records its arguments.
fn recorder(world: &World) -> (String, PathBuf) {
    let dir = world.path().join("recorder");
    std::fs::create_dir(&dir).unwrap();
    let record = world.path().join("recorded");
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$*\" >> {}\nexec {}/pulumi \"$@\"\n",
        record.display(),
        world.tools().display()
    );
    let file = dir.join("pulumi");
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!(
        "{}:{}:/usr/bin:/bin",
        dir.display(),
        world.tools().display()
    );
    (path, record)
}

#[test]
fn canaries_stay_where_they_belong() {
    let Some(world) = World::new() else { return };
    world.write("program.yaml", PROGRAM);
    world.write(
        "secret.yaml",
        &format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: keeper}}\nstringData: {{token: {CONFIG}, environment: \
             {ENVIRONMENT}}}\n"
        ),
    );
    let spec = format!(
        "programRef: {{name: keeper}}\nsecretsRef:\n  keeper:token: {{type: Secret, secret: {{name: keeper, key: \
         token}}}}\n  keeper:other: {{type: Literal, literal: {{value: {LITERAL}}}}}\n"
    );
    world.stack("keeper", "organization/keeper/dev", &spec);
    let file = world.manifests().join("keeper.yaml");
    let text = std::fs::read_to_string(&file).unwrap().replace(
        "  envRefs:\n",
        "  envRefs:\n    QUIET: {type: Secret, secret: {name: keeper, key: environment}}\n",
    );
    world.write("keeper.yaml", &text);

    let (path, record) = recorder(&world);
    let ended = world.once_with(&["-v"], &[("PATH", &path)]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let row = ended.row("keeper");
    assert_eq!(row["outputs"]["kept"], "[secret]");
    assert_eq!(row["outputs"]["made"], "[secret]");
    assert_eq!(row["outputs"]["plain"], "shown");

    // A failure that would quote it.
    world.write(
        "program.yaml",
        &PROGRAM.replace(
            "plain: shown",
            "plain: {fn::invoke: {function: \"no:such:${token}\"}}",
        ),
    );
    let failed = world.once_with(&["-v"], &[("PATH", &path)]);
    assert_eq!(failed.code, Some(1), "{}", failed.stderr);

    let recorded = std::fs::read_to_string(&record).unwrap();
    assert!(recorded.contains("up --non-interactive"), "{recorded}");
    let explained = world.windlass(&["explain", "keeper"]);
    let logs = world.windlass(&["logs", "keeper"]);
    for canary in [CONFIG, ENVIRONMENT, OUTPUT, LITERAL] {
        for (what, text) in [
            ("arguments", &recorded),
            ("standard output", &ended.stdout),
            ("messages", &ended.stderr),
            ("output after the failure", &failed.stdout),
            ("messages after the failure", &failed.stderr),
            ("explanation", &explained.stdout),
            ("log", &logs.stdout),
        ] {
            assert!(!text.contains(canary), "{canary} in {what}");
        }
        // The store keeps Secrets, as etcd does; mounts are what the kubelet would mount; a program's own text is its own.
        let may = ["/data/store.db", "/files/mounts/", "/manifests/"];
        let program = ["/data/trees/", "/state/trees/", "/data/workspaces/"];
        let mut allowed = may.to_vec();
        if canary == OUTPUT {
            allowed.extend(program);
        }
        let found = files_with(world.path(), canary, &allowed);
        assert!(found.is_empty(), "{canary} in {found:?}");
    }
}
