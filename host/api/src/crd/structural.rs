//! From the schema that a type derives to a structural one: everything inlined, one `type` a node, no null, no variants.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{kubernetes, own};

/// Where a type stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In an object of its own kind.
    Object,
    /// In a template that is merged over such an object: nothing is required or defaulted there.
    Template,
}

/// The structural schema of a type.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.meta_schema = None)
        .into_generator();
    let mut root = generator.into_root_schema_for::<T>().to_value();
    let definitions = match root.as_object_mut().and_then(|o| o.remove("$defs")) {
        Some(Value::Object(definitions)) => definitions,
        _ => Map::new(),
    };
    let types = Types { definitions };
    types.named(&T::schema_name(), &root, Place::Object)
}

struct Types {
    definitions: Map<String, Value>,
}

impl Types {
    /// The schema of a type that has a name, with what is known about the type added.
    fn named(&self, name: &str, schema: &Value, place: Place) -> Value {
        let place = if own::is_template(name) {
            Place::Template
        } else {
            place
        };
        let mut schema = self.inline(schema, place);
        if kubernetes::is_kubernetes(name) {
            // `kubectl explain pod` says it better, and this is three quarters of the size.
            drop_descriptions(&mut schema);
            kubernetes::amend(name, &mut schema, place);
        } else {
            own::amend(name, &mut schema, place);
        }
        schema
    }

    fn inline(&self, schema: &Value, place: Place) -> Value {
        let Value::Object(schema) = schema else {
            // `true`: anything at all.
            return json!({ "x-kubernetes-preserve-unknown-fields": true });
        };
        let mut out = match only_variant(schema) {
            Some(variant) => self.inline(variant, place),
            None => self.inline_object(schema, place),
        };
        // What is said about a field wins over what is said about its type.
        if let Some(description) = schema.get("description") {
            out["description"] = description.clone();
        }
        out
    }

    fn inline_object(&self, schema: &Map<String, Value>, place: Place) -> Value {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let name = reference.rsplit('/').next().unwrap_or_default();
            let definition = self.definitions.get(name).unwrap_or(&Value::Null);
            return self.named(name, definition, place);
        }
        if let Some(words) = words_of(schema) {
            return json!({ "type": "string", "enum": words });
        }
        let mut out = Map::new();
        for (key, value) in schema {
            match (key.as_str(), value) {
                // A default of a type is not one of the API; a title is the type's name.
                ("default" | "title", _) => {}
                ("type", Value::Array(types)) => {
                    let mut types = types.iter().filter(|t| *t != "null");
                    out.insert(key.clone(), types.next().cloned().unwrap_or_default());
                }
                // An API server knows no unsigned numbers.
                ("format", Value::String(format)) if format.starts_with("uint") => {
                    out.insert(key.clone(), json!("int64"));
                }
                ("properties", Value::Object(properties)) => {
                    let properties: Map<_, _> = properties
                        .iter()
                        .map(|(name, inner)| (name.clone(), self.inline(inner, place)))
                        .collect();
                    out.insert(key.clone(), Value::Object(properties));
                }
                ("items", inner) => {
                    out.insert(key.clone(), self.inline(inner, place));
                }
                ("additionalProperties", Value::Bool(false)) => {}
                ("additionalProperties", inner) => {
                    out.insert(key.clone(), self.inline(inner, place));
                }
                (_, value) => {
                    out.insert(key.clone(), value.clone());
                }
            }
        }
        Value::Object(out)
    }
}

/// The one variant that is not null, as an optional value of a named type has it.
fn only_variant(schema: &Map<String, Value>) -> Option<&Value> {
    let variants = schema.get("anyOf").or_else(|| schema.get("allOf"))?;
    let mut some = variants
        .as_array()?
        .iter()
        .filter(|variant| variant.get("type").is_none_or(|t| t != "null"));
    some.next().filter(|_| some.next().is_none())
}

/// The words of an enum whose variants hold nothing, however it is spelled.
fn words_of(schema: &Map<String, Value>) -> Option<Vec<Value>> {
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return Some(words.iter().filter(|w| !w.is_null()).cloned().collect());
    }
    if let Some(word) = schema.get("const") {
        return Some(vec![word.clone()]);
    }
    let mut words = Vec::new();
    for variant in schema.get("oneOf")?.as_array()? {
        words.extend(words_of(variant.as_object()?)?);
    }
    Some(words)
}

/// Leaves out all descriptions, but no property of that name.
pub(super) fn drop_descriptions(schema: &mut Value) {
    let Value::Object(schema) = schema else {
        return;
    };
    schema.remove("description");
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(drop_descriptions);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(key) {
            drop_descriptions(inner);
        }
    }
}

/// Leaves out what makes a value required or says how it is merged, at this level.
pub(super) fn relax(schema: &mut Value) {
    let Value::Object(schema) = schema else {
        return;
    };
    schema.remove("required");
    schema.remove("x-kubernetes-map-type");
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut().filter_map(Value::as_object_mut) {
            property.remove("x-kubernetes-list-type");
            property.remove("x-kubernetes-list-map-keys");
        }
    }
}
