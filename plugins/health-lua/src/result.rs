//! What a script returned, as Argo CD takes it: through JSON into two texts.

use std::collections::BTreeMap;

use lua_rs_runtime::{Function, Lua, LuaError, Table, Value as LuaValue};
use windlass_sdk::HealthStatus;

use crate::Verdict;

/// What Argo CD says of a code that it does not know.
pub const INVALID_CODE: &str = "Lua returned an invalid health status";

/// Entries of everything that is returned; more is not looked through.
const MAX_ENTRIES: usize = 20_000;

/// How deep tables may lie in one another.
const MAX_DEPTH: usize = 100;

/// As far as the verdict depends on it.
enum Json {
    Text(String),
    /// Of a type that is no text.
    Other,
    List,
    Object(BTreeMap<String, Json>),
}

/// The verdict in what a script returned; `next` is the function of that name.
///
/// # Errors
/// The text of Argo CD's error.
pub fn verdict(lua: &Lua, returned: &LuaValue, next: &Function) -> Result<Verdict, String> {
    let table = match returned {
        LuaValue::Nil => return Ok(Verdict::Empty),
        LuaValue::Table(table) => table,
        other => {
            return Err(format!(
                "expect table output from Lua script, not {}",
                type_name(other)
            ));
        }
    };
    let mut reader = Reader {
        next,
        seen: lua.create_table().map_err(failed)?,
        entries: 0,
    };
    let Json::Object(fields) = reader.table(table, 0)? else {
        return Ok(Verdict::Empty);
    };
    // Names of fields are compared without their case; of two that are the same so, the last in the order of their bytes
    // holds. A field of another type empties the whole result.
    let (mut status, mut message) = (String::new(), String::new());
    for (name, value) in fields {
        let field = match name.to_ascii_lowercase().as_str() {
            "status" => &mut status,
            "message" => &mut message,
            _ => continue,
        };
        match value {
            Json::Text(text) => *field = text,
            _ => return Ok(Verdict::Empty),
        }
    }
    let status = match status.as_str() {
        "Healthy" => HealthStatus::Healthy,
        "Progressing" => HealthStatus::Progressing,
        "Degraded" => HealthStatus::Degraded,
        "Suspended" => HealthStatus::Suspended,
        "Missing" => HealthStatus::Missing,
        "Unknown" => HealthStatus::Unknown,
        _ => return Ok(Verdict::Health(HealthStatus::Unknown, INVALID_CODE.into())),
    };
    Ok(Verdict::Health(status, message))
}

struct Reader<'a> {
    next: &'a Function,
    /// Tables: one that is met twice cannot be written as JSON, says Argo CD.
    seen: Table,
    entries: usize,
}

impl Reader<'_> {
    fn value(&mut self, value: &LuaValue, depth: usize) -> Result<Json, String> {
        match value {
            LuaValue::Table(table) => self.table(table, depth),
            LuaValue::String(text) => {
                let bytes = text.as_bytes().map_err(failed)?;
                Ok(Json::Text(String::from_utf8_lossy(&bytes).into_owned()))
            }
            LuaValue::Number(number) if !number.is_finite() => {
                Err(format!("json: unsupported value: {number}"))
            }
            LuaValue::Nil | LuaValue::Boolean(_) | LuaValue::Integer(_) | LuaValue::Number(_) => {
                Ok(Json::Other)
            }
            other => Err(format!("cannot encode {} to JSON", type_name(other))),
        }
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<Json, String> {
        if depth > MAX_DEPTH {
            return Err(format!(
                "tables more than {MAX_DEPTH} deep in what the script returned"
            ));
        }
        let met: Option<bool> = self.seen.get(table).map_err(failed)?;
        if met.is_some() {
            return Err("cannot encode recursively nested tables to JSON".into());
        }
        self.seen.set(table, true).map_err(failed)?;
        let (mut texts, mut numbers) = (BTreeMap::new(), Vec::new());
        let mut key = LuaValue::Nil;
        loop {
            let (found, value): (LuaValue, LuaValue) =
                self.next.call((table.clone(), key)).map_err(failed)?;
            match &found {
                LuaValue::Nil => break,
                LuaValue::String(text) => {
                    let bytes = text.as_bytes().map_err(failed)?;
                    let name = String::from_utf8_lossy(&bytes).into_owned();
                    let value = self.value(&value, depth + 1)?;
                    texts.insert(name, value);
                }
                // A key that is whole comes as an integer.
                LuaValue::Number(_) | LuaValue::Integer(_) => {
                    self.value(&value, depth + 1)?;
                    numbers.push(as_f64(&found));
                }
                _ => return Err(INVALID_KEYS.into()),
            }
            key = found;
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err(format!(
                    "more than {MAX_ENTRIES} entries in what the script returned"
                ));
            }
        }
        if numbers.is_empty() {
            return Ok(if texts.is_empty() {
                Json::List
            } else {
                Json::Object(texts)
            });
        }
        if !texts.is_empty() {
            return Err(INVALID_KEYS.into());
        }
        numbers.sort_by(f64::total_cmp);
        let is_list = (1_u32..)
            .zip(&numbers)
            .all(|(at, key)| f64::from(at) == *key);
        if is_list {
            Ok(Json::List)
        } else {
            Err("cannot encode sparse array".into())
        }
    }
}

fn as_f64(value: &LuaValue) -> f64 {
    match value {
        LuaValue::Number(number) => *number,
        LuaValue::Integer(number) => *number as f64,
        _ => f64::NAN,
    }
}

const INVALID_KEYS: &str = "cannot encode mixed or invalid key types";

fn failed(error: LuaError) -> String {
    format!("cannot read what the script returned: {error:?}")
}

/// As the language names types.
pub fn type_name(value: &LuaValue) -> &'static str {
    match value {
        LuaValue::Nil => "nil",
        LuaValue::Boolean(_) => "boolean",
        LuaValue::Integer(_) | LuaValue::Number(_) => "number",
        LuaValue::String(_) => "string",
        LuaValue::Table(_) => "table",
        LuaValue::Function(_) => "function",
        LuaValue::UserData(_) | LuaValue::LightUserData(_) => "userdata",
        LuaValue::Thread(_) => "thread",
    }
}
