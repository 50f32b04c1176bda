//! The floor: the bare CLI in a bare pod on the same cluster, with the same program and backend.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;
use windlass_operator::PULUMI_IMAGE;

use super::site::{Kind, PATIENCE, Site, contents};
use crate::setup::{Trouble, failed};

/// How long the parts took, in seconds.
#[derive(Clone, Copy)]
pub struct Floor {
    /// From the POST of the pod to the end of the first `pulumi up`, with `stack init` and `config set` before it.
    pub cold: f64,
    /// `pulumi up` without changes.
    pub warm: f64,
    /// `config set`, then `pulumi up`.
    pub config: f64,
}

/// The end of each part, in seconds since 1970, is a line of a file. `/tmp` is the pod's own.
const SCRIPT: &str = r#"set -e
mkdir -p /tmp/work && cd /tmp/work
printf '%s' "$PROGRAM" > Pulumi.yaml
now() { date +%s.%N >> "/state/$PROJECT.new"; }
up() { pulumi up --yes --skip-preview --non-interactive --color=never --stack "$STACK"; }
pulumi stack init --non-interactive "$STACK"
pulumi config set --stack "$STACK" greeting hello
up
now
up
now
pulumi config set --stack "$STACK" greeting salut
up
now
mv "/state/$PROJECT.new" "/state/$PROJECT.times"
"#;

/// Runs one bare pod to its end.
///
/// # Errors
/// The CLI fails in it.
pub async fn measure(site: &Site, name: &str) -> Result<Floor, Trouble> {
    let mut program = contents();
    program["name"] = json!(name);
    program["runtime"] = json!("yaml");
    let variable = |name: &str, value: String| json!({"name": name, "value": value});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "pulumi",
                "image": PULUMI_IMAGE,
                "command": ["sh", "-c", SCRIPT],
                "env": [
                    variable("PROJECT", name.to_owned()),
                    variable("STACK", format!("organization/{name}/dev")),
                    variable("PROGRAM", program.to_string()),
                    variable("HOME", "/tmp".to_owned()),
                    variable("PULUMI_HOME", "/tmp/pulumi".to_owned()),
                    variable("PULUMI_BACKEND_URL", "file:///state".to_owned()),
                    variable("PULUMI_CONFIG_PASSPHRASE", "bench".to_owned()),
                    variable("PULUMI_SKIP_UPDATE_CHECK", "true".to_owned()),
                    variable("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "true".to_owned()),
                ],
                "volumeMounts": [
                    {"name": "state", "mountPath": "/state"}, {"name": "own", "mountPath": "/tmp"},
                ],
            }],
            "volumes": [site.state_volume(), {"name": "own", "emptyDir": {}}],
        },
    });
    let begun = SystemTime::now();
    site.create(Kind::Pod, &pod).await?;
    let times = ended(site, name).await?;
    let [first, second, third] = times[..] else {
        return failed(format!("{} times of three", times.len()));
    };
    let begun = begun.duration_since(UNIX_EPOCH)?.as_secs_f64();
    Ok(Floor {
        cold: first - begun,
        warm: second - first,
        config: third - second,
    })
}

async fn ended(site: &Site, name: &str) -> Result<Vec<f64>, Trouble> {
    let file: PathBuf = site.operator.state().join(format!("{name}.times"));
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Ok(text) = std::fs::read_to_string(&file) {
            return Ok(text.lines().map(str::parse).collect::<Result<_, _>>()?);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let namespace = &site.operator.namespace;
    let said = site.operator.kubelet.logs(namespace, name, "pulumi");
    failed(format!("the bare CLI: {}", said.unwrap_or_default()))
}
