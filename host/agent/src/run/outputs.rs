//! Secret outputs: the events only say that they are secret.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use windlass_api::run::{OutputValue, RunRequest};

use super::context::{Context, Workspace};
use crate::cli::{Cli, Given};
use crate::crypter::Crypter;
use crate::environment::{self, Env};
use crate::events::SECRET_MARK;
use crate::file_backend::{Lookup, StackState};

type Outputs = BTreeMap<String, OutputValue>;

/// Why secret outputs are missing from a result.
#[derive(Debug, thiserror::Error)]
#[error("secret outputs could not be read: {0}")]
pub struct OutputsError(String);

/// Gives secret outputs their values. On an error they are taken out: a mask must not pass for a value.
pub async fn reveal(context: &Context, outputs: &mut Outputs) -> Result<(), OutputsError> {
    if !outputs.values().any(|o| o.secret) {
        return Ok(());
    }
    if from_state(context, outputs).is_some() {
        return Ok(());
    }
    let revealed = ask(&context.cli, &context.env, &context.request.stack, outputs).await;
    if revealed.is_err() {
        outputs.retain(|_, o| !o.secret);
    }
    revealed
}

/// From the state file, with the stack's own key: no process.
fn from_state(context: &Context, outputs: &mut Outputs) -> Option<()> {
    let Lookup::Found(StackState {
        secrets,
        outputs: stored,
        ..
    }) = context.file_stack.as_ref()?.state()
    else {
        return None;
    };
    let secrets = secrets.filter(|s| s.kind == "passphrase")?;
    let salt = secrets.state.get("salt")?.as_str()?;
    let passphrase = environment::passphrase(&context.env)?;
    let crypter = context.workspace.crypter(&passphrase, salt).ok()?;
    let mut opened = BTreeMap::new();
    for name in outputs
        .iter()
        .filter(|(_, o)| o.secret)
        .map(|(name, _)| name)
    {
        opened.insert(name.clone(), open(stored.get(name)?, &crypter)?);
    }
    for (name, value) in opened {
        outputs.insert(
            name,
            OutputValue {
                value,
                secret: true,
            },
        );
    }
    Some(())
}

/// Opens every secret inside a value; each holds JSON.
fn open(value: &Value, crypter: &Crypter) -> Option<Value> {
    Some(match value {
        Value::Object(fields)
            if fields.get(SECRET_MARK.0).and_then(Value::as_str) == Some(SECRET_MARK.1) =>
        {
            let plain = crypter.decrypt(fields.get("ciphertext")?.as_str()?).ok()?;
            open(&serde_json::from_str(&plain).ok()?, crypter)?
        }
        Value::Object(fields) => {
            let mut opened = Map::new();
            for (name, value) in fields {
                opened.insert(name.clone(), open(value, crypter)?);
            }
            Value::Object(opened)
        }
        Value::Array(items) => Value::Array(
            items
                .iter()
                .map(|v| open(v, crypter))
                .collect::<Option<_>>()?,
        ),
        plain => plain.clone(),
    })
}

/// Asks the CLI for the values of all secret outputs.
pub async fn reread(
    workspace: &Workspace,
    request: &RunRequest,
    outputs: &mut Outputs,
) -> Result<(), OutputsError> {
    let failed = |e: &dyn std::fmt::Display| OutputsError(e.to_string());
    let mut env = workspace.env_with(&request.env);
    let cli = workspace.finder.find(&env).await.map_err(|e| failed(&e))?;
    let token = workspace.login(request, &env).await;
    if let Some(token) = token.map_err(|e| failed(&e))? {
        env.insert(crate::login::TOKEN.to_owned(), token.as_str().to_owned());
    }
    ask(&cli, &env, &request.stack, outputs).await
}

async fn ask(cli: &Cli, env: &Env, stack: &str, outputs: &mut Outputs) -> Result<(), OutputsError> {
    let args = [
        "stack",
        "output",
        "--json",
        "--show-secrets",
        "--stack",
        stack,
    ]
    .map(str::to_owned);
    let cwd = env
        .get("PULUMI_HOME")
        .cloned()
        .unwrap_or_else(|| "/".to_owned());
    let said = cli
        .say(env, std::path::Path::new(&cwd), &args, Given::default())
        .await
        .map_err(|e| OutputsError(e.to_string()))?;
    if said.code != Some(0) {
        let cause = said
            .stderr
            .lines()
            .find(|l| l.starts_with("error: "))
            .unwrap_or("error: no reason given");
        return Err(OutputsError(cause.to_owned()));
    }
    let mut values: BTreeMap<String, Value> = serde_json::from_slice(&said.stdout)
        .map_err(|_| OutputsError("the CLI's answer is not JSON".into()))?;
    for (name, output) in outputs.iter_mut().filter(|(_, o)| o.secret) {
        output.value = values
            .remove(name)
            .ok_or_else(|| OutputsError(format!("the stack has no output {name:?} any more")))?;
    }
    Ok(())
}
