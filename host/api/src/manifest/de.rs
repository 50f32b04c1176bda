//! Reads a typed value from a tree: errors carry the place and the path of the value at fault, fields that the type
//! does not know are noted.
//!
//! As the API server does, it takes a field of an object with no value (`null`) as one that is not there.

use std::cell::RefCell;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

use super::error::Problem;
use super::fault::{NodeError, Path};
use super::node::{Entry, Node, Position, Tree};

/// A field that the type does not know.
pub(crate) struct UnknownField {
    pub at: Position,
    pub path: String,
    pub suggestion: Option<&'static str>,
}

/// Reads a `T` from `node`; unknown fields are added to `unknown`.
pub(crate) fn read<'de, T: Deserialize<'de>>(
    node: &'de Node,
    path: &Path<'_>,
    unknown: &RefCell<Vec<UnknownField>>,
) -> Result<T, NodeError> {
    T::deserialize(NodeDeserializer {
        node,
        path,
        unknown,
        key_at: node.at,
        fields: &[],
        number_as_text: false,
    })
}

#[derive(Clone, Copy)]
struct NodeDeserializer<'de, 'p> {
    node: &'de Node,
    path: &'p Path<'p>,
    unknown: &'p RefCell<Vec<UnknownField>>,
    /// Place of the key that this is the value of.
    key_at: Position,
    /// Names that stand beside this one in the type it is a field of.
    fields: &'static [&'static str],
    /// Kubernetes quantities are text that is often written as a number.
    number_as_text: bool,
}

impl<'de> NodeDeserializer<'de, '_> {
    fn wrong(&self, expected: &'static str) -> NodeError {
        NodeError::new(Problem::WrongType {
            expected,
            found: self.node.kind(),
        })
        .locate(self.node.at, self.path)
    }

    fn mapping<V: Visitor<'de>>(
        self,
        entries: &'de [Entry],
        fields: &'static [&'static str],
        skip_null: bool,
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        visitor
            .visit_map(Entries {
                parent: self,
                entries: entries.iter(),
                current: None,
                fields,
                skip_null,
            })
            .map_err(|e| e.locate(self.node.at, self.path))
    }

    fn list<V: Visitor<'de>>(self, items: &'de [Node], visitor: V) -> Result<V::Value, NodeError> {
        visitor
            .visit_seq(Items {
                parent: self,
                items: items.iter().enumerate(),
            })
            .map_err(|e| e.locate(self.node.at, self.path))
    }

    /// A whole number may be written as `60.0` or `6e1`, as for the API server.
    fn whole_number<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        // Below 2^53 every whole number is exact.
        let whole = |float: &f64| float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0;
        let float = match &self.node.tree {
            Tree::Number(number) if number.is_f64() => number.as_f64().filter(whole),
            _ => None,
        };
        match float {
            Some(float) => visitor
                .visit_i64(float as i64)
                .map_err(|e: NodeError| e.locate(self.node.at, self.path)),
            None => self.number("a whole number", visitor),
        }
    }

    fn number<V: Visitor<'de>>(
        self,
        expected: &'static str,
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        match &self.node.tree {
            Tree::Number(number) => {
                // What serde_json says here quotes the number; being out of range is all that can happen.
                number
                    .deserialize_any(visitor)
                    .map_err(|_: serde_json::Error| {
                        NodeError::new(Problem::Invalid(format!(
                            "this number does not fit; it must be {expected} in range"
                        )))
                        .locate(self.node.at, self.path)
                    })
            }
            _ => Err(self.wrong(expected)),
        }
    }
}

macro_rules! whole_numbers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
            self.whole_number(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for NodeDeserializer<'de, '_> {
    type Error = NodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        let (at, path) = (self.node.at, self.path);
        match &self.node.tree {
            Tree::Null => visitor.visit_unit(),
            Tree::Bool(value) => visitor.visit_bool(*value),
            Tree::Number(_) => return self.number("a number", visitor),
            Tree::String(text) => visitor.visit_borrowed_str(text),
            Tree::List(items) => return self.list(items, visitor),
            Tree::Map(entries) => return self.mapping(entries, &[], false, visitor),
        }
        .map_err(|e: NodeError| e.locate(at, path))
    }

    whole_numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        self.number("a number", visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        self.number("a number", visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match self.node.tree {
            Tree::Bool(value) => visitor.visit_bool(value),
            _ => Err(self.wrong("a boolean")),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match &self.node.tree {
            Tree::String(text) => visitor.visit_borrowed_str(text),
            Tree::Number(number) if self.number_as_text => visitor.visit_string(number.to_string()),
            _ => return Err(self.wrong("a string")),
        }
        .map_err(|e: NodeError| e.locate(self.node.at, self.path))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match self.node.tree {
            Tree::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        self.number_as_text = name == "Quantity";
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match &self.node.tree {
            Tree::List(items) => self.list(items, visitor),
            _ => Err(self.wrong("a list")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match &self.node.tree {
            Tree::Map(entries) => self.mapping(entries, &[], false, visitor),
            _ => Err(self.wrong("a mapping")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        match &self.node.tree {
            Tree::Map(entries) => self.mapping(entries, fields, true, visitor),
            _ => Err(self.wrong("a mapping")),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        match &self.node.tree {
            Tree::String(text) => {
                let variant: StrDeserializer<'_, NodeError> = text.as_str().into_deserializer();
                visitor
                    .visit_enum(variant)
                    .map_err(|e| e.locate(self.node.at, self.path))
            }
            _ => Err(self.wrong("a string")),
        }
    }

    /// Asked for by types for a field that they do not know.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        let suggestion = match self.path {
            Path::Field(_, name) => nearest(name, self.fields),
            Path::Root | Path::Index(..) => None,
        };
        self.unknown.borrow_mut().push(UnknownField {
            at: self.key_at,
            path: self.path.to_string(),
            suggestion,
        });
        visitor.visit_unit()
    }

    forward_to_deserialize_any! { char bytes byte_buf unit unit_struct tuple tuple_struct identifier }
}

/// The known name that `name` was probably meant to be.
fn nearest(name: &str, known: &'static [&'static str]) -> Option<&'static str> {
    known
        .iter()
        .map(|candidate| {
            let same = candidate.eq_ignore_ascii_case(name);
            (
                if same {
                    1.0
                } else {
                    strsim::normalized_damerau_levenshtein(candidate, name)
                },
                *candidate,
            )
        })
        .filter(|(likeness, _)| *likeness >= 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

struct Entries<'de, 'p> {
    parent: NodeDeserializer<'de, 'p>,
    entries: std::slice::Iter<'de, Entry>,
    current: Option<&'de Entry>,
    fields: &'static [&'static str],
    skip_null: bool,
}

impl<'de> MapAccess<'de> for Entries<'de, '_> {
    type Error = NodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, NodeError> {
        let skip_null = self.skip_null;
        self.current = self
            .entries
            .find(|e| !(skip_null && matches!(e.node.tree, Tree::Null)));
        let Some(entry) = self.current else {
            return Ok(None);
        };
        let key = de::value::BorrowedStrDeserializer::new(&entry.key);
        seed.deserialize(key)
            .map(Some)
            .map_err(|e: NodeError| e.locate(entry.key_at, self.parent.path))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, NodeError> {
        let Some(entry) = self.current.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        let path = Path::Field(self.parent.path, &entry.key);
        seed.deserialize(NodeDeserializer {
            node: &entry.node,
            path: &path,
            unknown: self.parent.unknown,
            key_at: entry.key_at,
            fields: self.fields,
            number_as_text: false,
        })
    }
}

struct Items<'de, 'p> {
    parent: NodeDeserializer<'de, 'p>,
    items: std::iter::Enumerate<std::slice::Iter<'de, Node>>,
}

impl<'de> SeqAccess<'de> for Items<'de, '_> {
    type Error = NodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, NodeError> {
        let Some((index, node)) = self.items.next() else {
            return Ok(None);
        };
        let path = Path::Index(self.parent.path, index);
        seed.deserialize(NodeDeserializer {
            node,
            path: &path,
            unknown: self.parent.unknown,
            key_at: node.at,
            fields: &[],
            number_as_text: false,
        })
        .map(Some)
    }
}
