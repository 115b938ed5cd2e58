//! One declaration per section of a drive file: the struct, its defaults, its reader and its explanation.
//!
//! `section!` turns a list of keys into a plain struct with public fields, and into [`Section`], through
//! which the reader, `phaselink check` and the results see all sections alike.

use serde_json::{Map, Value as Json, json};

use super::document::Node;
use super::value::KeyFault;

/// A key and what is to be said of it.
pub(crate) struct Key {
    pub name: &'static str,
    /// Meaning.
    pub about: &'static str,
    pub default: Json,
    /// Type and bounds, in the key's unit.
    pub allowed: String,
    /// The same as a JSON Schema, made when it is asked for.
    pub schema: fn() -> Json,
}

/// A group of keys: a table in drive files.
pub(crate) trait Section {
    /// The table's name, empty for the keys above all tables.
    fn path(&self) -> &'static str;
    fn about(&self) -> &'static str;
    /// Its keys, in the order in which they are explained.
    fn keys(&self) -> Vec<Key>;
    /// Take the value of one key; leaves the section as it was on a fault.
    fn set(&mut self, key: &str, node: &Node) -> Result<(), KeyFault>;
    /// Value of each key in its unit, in the order of [`Section::keys`].
    fn values(&self) -> Vec<(&'static str, Json)>;
    /// Bring every key back to its default.
    fn reset(&mut self);
}

macro_rules! section {
    (
        $(#[doc = $about:literal])+
        pub struct $section:ident ($path:literal) {
            $(
                $(#[doc = $doc:literal])+
                $key:ident => $field:ident: $type:ty = $default:expr, $allowed:expr;
            )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $section {
            $(
                $(#[doc = $doc])+
                pub $field: $type,
            )+
        }

        impl Default for $section {
            fn default() -> $section {
                $section { $($field: $default,)+ }
            }
        }

        impl $crate::config::section::Section for $section {
            fn path(&self) -> &'static str {
                $path
            }

            fn about(&self) -> &'static str {
                concat!($($about),+).trim()
            }

            fn keys(&self) -> Vec<$crate::config::section::Key> {
                use $crate::config::value::{Allowed, KeyType};
                let default = $section::default();
                vec![$(
                    $crate::config::section::Key {
                        name: stringify!($key),
                        about: concat!($($doc),+).trim(),
                        default: default.$field.write(stringify!($key)),
                        allowed: Allowed::<$type>::describe(&$allowed, stringify!($key)),
                        schema: || Allowed::<$type>::schema(&$allowed, stringify!($key)),
                    },
                )+]
            }

            fn set(
                &mut self,
                key: &str,
                node: &$crate::config::document::Node,
            ) -> Result<(), $crate::config::value::KeyFault> {
                match key {
                    $(stringify!($key) => self.$field = $crate::config::value::read(key, node, &$allowed)?,)+
                    _ => return Err($crate::config::value::KeyFault::UnknownKey),
                }
                Ok(())
            }

            fn values(&self) -> Vec<(&'static str, serde_json::Value)> {
                use $crate::config::value::KeyType;
                vec![$((stringify!($key), self.$field.write(stringify!($key))),)+]
            }

            fn reset(&mut self) {
                *self = $section::default();
            }
        }
    };
}
pub(crate) use section;

pub(crate) use super::value::{any, names};

/// A key's name with its section's: `media.read_ns`.
pub(crate) fn full_name(path: &str, key: &str) -> String {
    match path {
        "" => String::from(key),
        _ => format!("{path}.{key}"),
    }
}

/// All values of a section by key.
pub(crate) fn values(section: &impl Section) -> serde_json::Map<String, Json> {
    section.values().into_iter().map(|(key, value)| (String::from(key), value)).collect()
}

/// The JSON Schema of a section: its keys and no others.
pub(crate) fn schema(section: &dyn Section) -> Json {
    let property = |key: Key| {
        let mut schema = (key.schema)();
        schema["description"] = Json::from(key.about);
        schema["default"] = key.default;
        (String::from(key.name), schema)
    };
    let properties: Map<String, Json> = section.keys().into_iter().map(property).collect();
    json!({
        "type": "object",
        "description": section.about(),
        "properties": properties,
        "additionalProperties": false,
    })
}
