//! Objects as scripts see them.

use lua_rs_runtime::{Lua, Result, Value as LuaValue};
use serde_json::Value;

/// A JSON value in Lua. Numbers are floating; what is null is not there, in lists too, which close up.
///
/// # Errors
/// If it needs more memory than there may be.
pub fn to_lua(lua: &Lua, value: &Value) -> Result<LuaValue> {
    Ok(match value {
        Value::Null => LuaValue::Nil,
        Value::Bool(truth) => LuaValue::Boolean(*truth),
        Value::Number(number) => LuaValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => LuaValue::String(lua.create_string(text)?),
        Value::Array(items) => {
            let table = lua.create_table()?;
            let present = items.iter().filter(|item| !item.is_null());
            for (at, item) in present.enumerate() {
                table.set(at + 1, to_lua(lua, item)?)?;
            }
            LuaValue::Table(table)
        }
        Value::Object(fields) => {
            let table = lua.create_table()?;
            for (name, field) in fields.iter().filter(|(_, field)| !field.is_null()) {
                table.set(name.as_str(), to_lua(lua, field)?)?;
            }
            LuaValue::Table(table)
        }
    })
}
