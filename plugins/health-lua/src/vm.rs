//! One script over one object, in an interpreter of its own.

use lua_rs_runtime::{
    Function, Lua, LuaError, LuaVersion, Result as LuaResult, Sandbox, SandboxConfig, TripReason,
    Value as LuaValue, Variadic,
};
use serde_json::Value;

use crate::config::Script;
use crate::time::{self, Date};
use crate::{Failure, Verdict, object, result};

/// What a script may cost. The component's own limits, around all of it, are the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Instructions of the interpreter, steps of patterns among them. They bound how deep calls can be too: the interpreter's
    /// stack is not counted as memory, and the component's 64 MiB hold what 400 000 instructions can put there.
    pub instructions: u64,
    /// Of everything that the script holds, the object too.
    pub memory_bytes: usize,
    /// Longest script.
    pub script_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            instructions: 400_000,
            memory_bytes: 16 << 20,
            script_bytes: 256 << 10,
        }
    }
}

/// Instructions between two looks at the limits: a text can double in two, so each counts.
const INTERVAL: u32 = 1;

/// As Argo CD names a script in messages.
const CHUNK: &str = "=<string>";

const PRELUDE: &str = include_str!("prelude.lua");

/// Runs the script. `now` is in seconds since the epoch.
///
/// # Errors
/// Whatever keeps the script from an answer.
pub fn run(script: &Script, object: &Value, now: i64, limits: &Limits) -> Result<Verdict, Failure> {
    if script.text.len() > limits.script_bytes {
        return Err(Failure::TooLong {
            limit: limits.script_bytes,
        });
    }
    let machine = Machine::new(script.open_libs, object, now, limits)?;
    let outcome = machine.lua.load(&script.text).set_name(CHUNK).eval();
    let returned: Variadic<LuaValue> = outcome.map_err(|error| machine.failure(&error, limits))?;
    // Of several results Argo CD looks at the last.
    let last = returned.last().unwrap_or(&LuaValue::Nil);
    result::verdict(&machine.lua, last, &machine.next).map_err(Failure::Result)
}

struct Machine {
    lua: Lua,
    sandbox: Sandbox,
    /// From before the script could replace it.
    next: Function,
}

impl Machine {
    fn new(open: bool, object: &Value, now: i64, limits: &Limits) -> Result<Self, Failure> {
        let setup = |error: LuaError| Failure::Setup(text(&error));
        let lua = Lua::try_new_versioned(LuaVersion::V52).map_err(setup)?;
        let globals = lua.globals();
        let next: Function = globals.get("next").map_err(setup)?;
        prepare(&lua, open, now).map_err(setup)?;
        let value = object::to_lua(&lua, object).map_err(setup)?;
        globals.set("obj", value).map_err(setup)?;
        let nothing = lua.create_table().map_err(setup)?;
        globals.set("actionParams", nothing).map_err(setup)?;
        let sandbox = lua
            .install_sandbox(SandboxConfig {
                instruction_limit: Some(limits.instructions),
                memory_limit_bytes: Some(limits.memory_bytes),
                check_interval: INTERVAL,
                remove_globals: Vec::new(),
            })
            .map_err(setup)?;
        Ok(Machine { lua, sandbox, next })
    }

    fn failure(&self, error: &LuaError, limits: &Limits) -> Failure {
        match self.sandbox.tripped() {
            Some(TripReason::Instructions) => Failure::Instructions {
                limit: limits.instructions,
            },
            Some(TripReason::Memory) => Failure::Memory {
                limit: limits.memory_bytes,
            },
            None => match error {
                LuaError::Memory => Failure::Memory {
                    limit: limits.memory_bytes,
                },
                _ => Failure::Script(text(error)),
            },
        }
    }
}

/// Makes the globals those that Argo CD's scripts have.
fn prepare(lua: &Lua, open: bool, now: i64) -> LuaResult<()> {
    let civil = lua.create_function(|_, args: Variadic<f64>| -> LuaResult<Variadic<f64>> {
        let args: Vec<i64> = args.iter().map(|it| *it as i64).collect();
        Ok(match args[..] {
            [year, month, day, hour, minute, second] => {
                vec![time::seconds(year, month, day, hour, minute, second) as f64]
            }
            [seconds] => {
                let date = Date::of(seconds);
                [
                    date.year,
                    date.month,
                    date.day,
                    date.hour,
                    date.minute,
                    date.second,
                    date.weekday,
                ]
                .map(|it| it as f64)
                .to_vec()
            }
            _ => Vec::new(),
        }
        .into())
    })?;
    let date = lua.create_function(|_, (format, seconds): (String, f64)| {
        Ok(Date::of(seconds as i64).format(&format))
    })?;
    let prelude: Function = lua.load(PRELUDE).set_name("=prelude").eval()?;
    prelude.call(Variadic::from(vec![
        LuaValue::Boolean(open),
        LuaValue::Number(now as f64),
        LuaValue::Function(civil),
        LuaValue::Function(date),
    ]))
}

/// What an error says. What a script throws need not be text.
fn text(error: &LuaError) -> String {
    match error {
        LuaError::Runtime(value) | LuaError::Syntax(value) => match value.as_string() {
            Some(text) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
            None => format!("an error that is a {}", value.type_name()),
        },
        LuaError::Memory => "not enough memory".into(),
        other => format!("{other:?}"),
    }
}
