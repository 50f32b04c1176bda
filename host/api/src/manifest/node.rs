//! A document as a tree in which every value knows its place.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use serde_saphyr::{Location, Spanned};

/// Line and column, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub line: u64,
    pub column: u64,
}

impl Position {
    pub(crate) const START: Self = Self { line: 1, column: 1 };
}

impl From<Location> for Position {
    fn from(location: Location) -> Self {
        // Unknown locations are line 0; the start of the file is the nearest truth.
        Self {
            line: location.line().max(1),
            column: location.column().max(1),
        }
    }
}

/// A value and where it stands. No `Debug`: it may hold secrets.
pub(crate) struct Node {
    pub at: Position,
    pub tree: Tree,
}

pub(crate) enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One entry of a mapping.
pub(crate) struct Entry {
    pub key: String,
    pub key_at: Position,
    pub node: Node,
}

/// From JSON, which knows no places: all stand at the start.
impl From<&Value> for Node {
    fn from(value: &Value) -> Self {
        let tree = match value {
            Value::Null => Tree::Null,
            Value::Bool(value) => Tree::Bool(*value),
            Value::Number(number) => Tree::Number(number.clone()),
            Value::String(text) => Tree::String(text.clone()),
            Value::Array(items) => Tree::List(items.iter().map(Self::from).collect()),
            Value::Object(fields) => {
                let entry = |(key, value): (&String, &Value)| Entry {
                    key: key.clone(),
                    key_at: Position::START,
                    node: Self::from(value),
                };
                Tree::Map(fields.iter().map(entry).collect())
            }
        };
        Self {
            at: Position::START,
            tree,
        }
    }
}

impl Node {
    /// What it is, in a reader's words. Never the value: it may be a secret.
    pub fn kind(&self) -> &'static str {
        match self.tree {
            Tree::Null => "nothing",
            Tree::Bool(_) => "a boolean",
            Tree::Number(_) => "a number",
            Tree::String(_) => "a string",
            Tree::List(_) => "a list",
            Tree::Map(_) => "a mapping",
        }
    }

    /// The entry of a mapping.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        match &self.tree {
            Tree::Map(entries) => entries.iter().find(|e| e.key == key),
            _ => None,
        }
    }

    /// The text of an entry of a mapping.
    pub fn get_str(&self, key: &str) -> Option<&str> {
        match &self.get(key)?.node.tree {
            Tree::String(text) => Some(text),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Tree>::deserialize(deserializer)?;
        Ok(Self {
            at: spanned.referenced.into(),
            tree: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Tree, E> {
        Number::from_f64(value)
            .map(Tree::Number)
            .ok_or_else(|| E::custom("a number that is infinite or not a number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Tree, E> {
        Ok(Tree::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element::<Node>()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = access.next_key::<Spanned<String>>()? {
            let node = access.next_value::<Node>()?;
            entries.push(Entry {
                key_at: key.referenced.into(),
                key: key.value,
                node,
            });
        }
        if entries.len() > MAX_ENTRIES {
            return Err(A::Error::custom("a mapping with more than 100000 entries"));
        }
        Ok(Tree::Map(entries))
    }
}

/// Looking up keys is linear; nobody writes a mapping this long.
const MAX_ENTRIES: usize = 100_000;
