//! Evaluations of two built-in components in fresh instances, through the host as it is used; beside them the same
//! crates called natively.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use health_lua::config::Scripts;
use health_lua::vm::Limits;
use serde_json::{Value, json};
use windlass_sdk::{
    Answer, ErrorClass, Fault, GitRef, HttpRequest, HttpResponse, ObjectRef, Question,
    SourceRequest,
};
use windlass_wasm::{
    Builtins, Checked, Credential, Grants, HostOptions, Network, Outside, PluginHost, Policy,
    Scope, SecretValue, Work,
};

use crate::samples::{Samples, Unit, timed};
use crate::setup::{Setup, Trouble, failed};
use crate::table::Row;

const HEAD: &str = "1111111111111111111111111111111111111111";
const KIND: &str = "pulumi.com/Stack";
/// Size of the object that is assessed.
const OBJECT_BYTES: usize = 4096;
const WARM_UP: usize = 50;

/// Answers every question about refs from memory, and nothing else.
pub struct Memory;

impl Outside for Memory {
    fn kube_get<'a>(
        &'a self,
        _: &'a Scope,
        _: &'a ObjectRef,
    ) -> BoxFuture<'a, Result<Option<Value>, Fault>> {
        Box::pin(async { Ok(None) })
    }

    fn secret<'a>(
        &'a self,
        _: &'a Scope,
        _: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<SecretValue, Fault>> {
        Box::pin(async { Ok(SecretValue::NoSecret) })
    }

    fn git_refs<'a>(
        &'a self,
        _: &'a Scope,
        _: &'a Checked,
        _: &'a [String],
        _: Option<&'a Credential>,
    ) -> BoxFuture<'a, Result<Vec<GitRef>, Fault>> {
        Box::pin(async { Ok(refs()) })
    }

    fn http_send<'a>(
        &'a self,
        _: &'a Scope,
        _: &'a HttpRequest,
        _: &'a Checked,
        _: Option<&'a Credential>,
        _: &'a Grants,
        _: usize,
    ) -> BoxFuture<'a, Result<HttpResponse, Fault>> {
        Box::pin(async { Err(fault("there is no network here")) })
    }
}

fn fault(message: &str) -> Fault {
    Fault {
        class: ErrorClass::Unavailable,
        reason: "NotInMemory".to_owned(),
        message: message.to_owned(),
        retry_after_ms: None,
    }
}

fn refs() -> Vec<GitRef> {
    vec![GitRef {
        name: "refs/heads/main".to_owned(),
        oid: HEAD.to_owned(),
        peeled: None,
    }]
}

/// Lines of a script as teams have them.
const SCRIPT: &str = "
local hs = {status = 'Progressing', message = 'Waiting for the operator to observe the latest spec change'}
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return hs
end
local verdicts = {Stalled = 'Degraded', Reconciling = 'Progressing', Ready = 'Healthy'}
for _, wanted in ipairs({'Stalled', 'Reconciling', 'Ready'}) do
  for _, condition in ipairs(obj.status.conditions or {}) do
    if condition.type == wanted and condition.status == 'True' then
      hs.status = verdicts[wanted]
      hs.message = condition.message
      return hs
    end
  end
end
return hs
";

/// A host over a directory of plugins; the built-ins among them are those whose digests `digests` lists.
///
/// # Errors
/// Of the machine, or of that file.
pub async fn host(plugins: &Path, digests: &Path, cache: &Path) -> Result<PluginHost, Trouble> {
    host_with(plugins, digests, cache, Policy::default()).await
}

async fn host_with(
    plugins: &Path,
    digests: &Path,
    cache: &Path,
    policy: Policy,
) -> Result<PluginHost, Trouble> {
    let digests: BTreeMap<String, String> = serde_json::from_slice(&std::fs::read(digests)?)?;
    let options = HostOptions {
        plugin_dirs: vec![plugins.to_owned()],
        cache_dir: cache.to_owned(),
        policy,
        builtins: Builtins(digests),
        leave_idle: false,
        file_urls: true,
        network: Network::default(),
        threads: 0,
    };
    Ok(PluginHost::new(options, Arc::new(Memory)).await?)
}

/// Measures.
///
/// # Errors
/// `Skipped` without the components; an evaluation that gives something else than it should.
pub fn measure(setup: &Setup) -> Result<Vec<Row>, Trouble> {
    let plugins = setup.plugins()?;
    let cache = tempfile::tempdir()?;
    let count = setup.count(5000, 200);
    setup.runtime.block_on(async {
        let host = host(
            &plugins,
            &plugins.join("digests.json"),
            &cache.path().join("code"),
        )
        .await?;
        let mut rows = vec![health(&host, count).await?, resolve(&host, count).await?];
        for scripts in [1, 20] {
            let policy = json!({"plugins": {"health-lua": {"config": argocd_cm(scripts)}}});
            let policy = Policy::parse(&policy.to_string()).or_else(failed)?;
            let host = host_with(
                &plugins,
                &plugins.join("digests.json"),
                &cache.path().join("code"),
                policy,
            )
            .await?;
            rows.push(script(&host, scripts, count).await?);
        }
        Ok(rows)
    })
}

/// As many kinds with a script, a Stack's among them.
fn argocd_cm(scripts: usize) -> Value {
    let mut config = json!({"resource.customizations.health.pulumi.com_Stack": SCRIPT});
    for number in 1..scripts {
        config[format!("resource.customizations.health.example.org_Kind{number}")] = json!(SCRIPT);
    }
    config
}

async fn script(host: &PluginHost, scripts: usize, count: usize) -> Result<Row, Trouble> {
    let object = object(OBJECT_BYTES);
    let work = work(json!({}));
    let expected = health_argocd::assess(&object);
    let mut ours = Vec::with_capacity(count);
    for at in 0..count + WARM_UP {
        let text = object.clone();
        let begun = std::time::Instant::now();
        let done = host.assess(KIND, text, "{}".to_owned(), &work).await;
        let took = crate::samples::seconds(begun.elapsed());
        if done.result? != expected {
            return failed("the script's verdict is not the built-in rule's");
        }
        if at >= WARM_UP {
            ours.push(took);
        }
    }
    let (read, _) = Scripts::read(&argocd_cm(scripts));
    let limits = Limits::default();
    let native = (0..count)
        .map(|_| timed(|| black_box(health_lua::assess(&read, black_box(&object), 0, &limits))).0)
        .collect();
    let how = format!(
        "health-lua, {scripts} configured, a Stack of {OBJECT_BYTES} bytes, one instance each; peer: the crate natively"
    );
    let name = if scripts == 1 {
        "evaluation: Lua script".to_owned()
    } else {
        format!("evaluation: Lua script of {scripts}")
    };
    Ok(Row::new(&name, Samples::tail(Unit::Seconds, ours), how)
        .beside(Samples::tail(Unit::Seconds, native)))
}

async fn health(host: &PluginHost, count: usize) -> Result<Row, Trouble> {
    let object = object(OBJECT_BYTES);
    let work = work(json!({}));
    let expected = health_argocd::assess(&object);
    let mut ours = Vec::with_capacity(count);
    for at in 0..count + WARM_UP {
        let text = object.clone();
        let begun = std::time::Instant::now();
        let done = host.assess(KIND, text, "{}".to_owned(), &work).await;
        let took = crate::samples::seconds(begun.elapsed());
        if done.result? != expected {
            return failed("the component's verdict is not the crate's");
        }
        if at >= WARM_UP {
            ours.push(took);
        }
    }
    let native = (0..count)
        .map(|_| timed(|| black_box(health_argocd::assess(black_box(&object)))).0)
        .collect();
    let how = format!(
        "health-argocd, a Stack of {OBJECT_BYTES} bytes, one instance each; peer: the crate natively"
    );
    Ok(Row::new(
        "evaluation: health",
        Samples::tail(Unit::Seconds, ours),
        how,
    )
    .beside(Samples::tail(Unit::Seconds, native)))
}

async fn resolve(host: &PluginHost, count: usize) -> Result<Row, Trouble> {
    // An address as a number: looking up a name would be measured else.
    let spec = json!({"stack": "organization/app/dev", "projectRepo": "https://10.0.0.7/app", "branch": "main"});
    let work = work(spec.clone());
    let mut ours = Vec::with_capacity(count);
    for at in 0..count + WARM_UP {
        let begun = std::time::Instant::now();
        let done = host.resolve("git", &work, None).await;
        let took = crate::samples::seconds(begun.elapsed());
        if done.result?.resolution.revision != HEAD {
            return failed("another commit than the one in memory");
        }
        if at >= WARM_UP {
            ours.push(took);
        }
    }
    let request = SourceRequest {
        metadata: work.metadata.clone(),
        spec,
        previous: None,
        now_ms: work.now_ms,
    };
    let answer = |question: &Question| match question {
        Question::GitRefs { .. } => Ok(Answer::Refs { refs: refs() }),
        _ => Err(fault("not in memory")),
    };
    let mut native = Vec::with_capacity(count);
    for _ in 0..count {
        let (took, done) = timed(|| {
            windlass_sdk::native::evaluate(
                |host| source_git::resolve(host, black_box(&request)),
                answer,
            )
        });
        if done?.0.revision != HEAD {
            return failed("another commit than the one in memory, natively");
        }
        native.push(took);
    }
    let how = "source-git, a branch: one question answered from memory, so two instances; peer: the crate natively";
    Ok(Row::new(
        "evaluation: resolve",
        Samples::tail(Unit::Seconds, ours),
        how,
    )
    .beside(Samples::tail(Unit::Seconds, native)))
}

fn work(spec: Value) -> Work {
    Work {
        namespace: "apps".to_owned(),
        name: "web".to_owned(),
        metadata: json!({"name": "web", "namespace": "apps", "generation": 1}),
        spec,
        now_ms: 1_790_000_000_000,
    }
}

/// A Stack as a cluster stores it, of exactly this size: its outputs fill it up.
fn object(bytes: usize) -> String {
    let at = "2026-01-01T00:00:00Z";
    let condition = |name: &str, status: &str| {
        json!({"type": name, "status": status, "reason": "ProcessingCompleted", "lastTransitionTime": at,
               "message": "the stack has been processed and is up to date"})
    };
    let mut stack = json!({
        "apiVersion": "pulumi.com/v1",
        "kind": "Stack",
        "metadata": {"name": "web", "namespace": "apps", "generation": 3, "uid": "0d8a4f5e", "creationTimestamp": at,
                     "finalizers": ["finalizer.stack.pulumi.com"]},
        "spec": {"stack": "organization/app/prod", "projectRepo": "https://git.example/app", "branch": "main"},
        "status": {"observedGeneration": 3, "conditions": [condition("Ready", "True")],
                   "lastUpdate": {"state": "succeeded", "generation": 3, "type": "up"}, "outputs": {}},
    });
    let mut number = 0;
    while stack.to_string().len() + 64 < bytes {
        let name = format!("output{number:03}");
        stack["status"]["outputs"][name] = json!("0123456789abcdef");
        number += 1;
    }
    let rest = bytes.saturating_sub(stack.to_string().len() + "\"rest\":\"\",".len());
    stack["status"]["outputs"]["rest"] = json!("x".repeat(rest));
    stack.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_is_a_healthy_stack_of_its_size() {
        let object = object(OBJECT_BYTES);
        assert_eq!(object.len(), OBJECT_BYTES);
        assert_eq!(
            health_argocd::assess(&object).status,
            windlass_sdk::HealthStatus::Healthy
        );
    }
}
