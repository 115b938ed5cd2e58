//! Sections of a drive file. Each is declared once, by `section!`, which makes its struct, defaults, reader and
//! explanations.
//!
//! `section!` turns a list of keys into a plain struct with public fields, and implements [`Section`] for it. Through
//! that trait, the reader, `phaselink check` and the results handle all sections alike.
//!
//! A key that has no effect on a drive without a certain part ends its row with `, needs PART`, or with several parts
//! (see [`Part`]). One that has no effect while another key of its section has the default ends with `, with KEY`. Such
//! a key is refused if the user gives it for a drive that lacks one of these.
//!
//! Conditions between keys of one section are functions of its struct, which a list `conditions` after the keys names.

use serde_json::{Map, Value as Json, json};

use super::document::Node;
use super::part::Part;
use super::value::KeyFault;
use crate::problem::BrokenCondition;

/// Description of one key of a drive file: name, meaning, default and allowed values.
#[derive(Debug)]
pub struct KeyDescription {
    /// Name of the key as in a drive file, unit included: `read_ns`.
    pub name: &'static str,
    /// Meaning of a drive file's key, printed by `phaselink check` and in the list of all keys
    /// (`crates/cli/docs/keys.md`).
    pub about: &'static str,
    /// Default value of the key, in the key's unit.
    pub default: Json,
    /// Text with the type and bounds of the key's value, in the key's unit.
    pub allowed: String,
    /// Function that returns the JSON Schema of the key's type and bounds. Called only when a schema is printed.
    pub schema: fn() -> Json,
}

/// Conditions without which a key of a drive file has no effect.
#[derive(Debug)]
pub struct KeyConditions {
    /// Full name of the key, section first.
    pub key: &'static str,
    /// Parts of the drive that the key needs.
    pub parts: &'static [Part],
    /// Full names of keys of the same section that must differ from their defaults.
    pub with: &'static [&'static str],
}

/// Section of a drive file: a TOML table with a fixed set of keys.
pub trait Section {
    /// Returns the name of the section's table; empty for the keys above all tables.
    fn path(&self) -> &'static str;
    /// Returns the meaning of the drive file's section as a whole, as text.
    fn about(&self) -> &'static str;
    /// Returns the descriptions of all keys of the section, in the order in which they are explained.
    fn keys(&self) -> Vec<KeyDescription>;
    /// Sets one key to the value that a file gives it. If the key or value is refused, the section stays unchanged.
    fn set(&mut self, key: &str, node: &Node) -> Result<(), KeyFault>;
    /// Returns the conditions without which keys of the section have no effect, in the order of [`Section::keys`].
    fn needs(&self) -> &'static [KeyConditions];
    /// Returns the conditions between keys of this section alone that their values break.
    fn broken_conditions(&self) -> Vec<BrokenCondition>;
    /// Returns the name and current value of each key, in the key's unit and in the order of [`Section::keys`].
    fn values(&self) -> Vec<(&'static str, Json)>;
    /// Sets all keys of the drive file's section to their defaults.
    fn reset(&mut self);
}

macro_rules! section {
    (
        $(#[doc = $about:literal])+
        pub struct $section:ident ($path:literal) {
            $(
                $(#[doc = $doc:literal])+
                $key:ident => $field:ident: $type:ty = $default:expr, $allowed:expr
                    $(, needs $($part:ident)+)? $(, with $switch:ident)?;
            )+
        }
        $(conditions [$($condition:path),+ $(,)?])?
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

            fn keys(&self) -> Vec<$crate::config::section::KeyDescription> {
                use $crate::config::value::{AllowedValues, KeyType};
                let default = $section::default();
                vec![$(
                    $crate::config::section::KeyDescription {
                        name: stringify!($key),
                        about: concat!($($doc),+).trim(),
                        default: default.$field.write(stringify!($key)),
                        allowed: AllowedValues::<$type>::describe(&$allowed, stringify!($key)),
                        schema: || AllowedValues::<$type>::schema(&$allowed, stringify!($key)),
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

            fn needs(&self) -> &'static [$crate::config::section::KeyConditions] {
                &[$(
                    $crate::config::section::KeyConditions {
                        key: concat!($path, ".", stringify!($key)),
                        parts: &[$($($crate::config::part::Part::$part),+)?],
                        with: &[$(concat!($path, ".", stringify!($switch)))?],
                    },
                )+]
            }

            fn broken_conditions(&self) -> Vec<$crate::problem::BrokenCondition> {
                let conditions: &[fn(&$section) -> Option<$crate::problem::BrokenCondition>] = &[$($($condition),+)?];
                conditions.iter().filter_map(|condition| condition(self)).collect()
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

/// Returns the full name of a key, section first: `media.read_ns`. `path` is empty for the keys above all tables.
pub fn full_key_name(path: &str, key: &str) -> String {
    match path {
        "" => String::from(key),
        _ => format!("{path}.{key}"),
    }
}

/// Returns a JSON object with the name and value of each key of a section.
pub(crate) fn values(section: &impl Section) -> serde_json::Map<String, Json> {
    section.values().into_iter().map(|(key, value)| (String::from(key), value)).collect()
}

/// Returns the JSON Schema of a section, which allows its own keys and no others.
pub(crate) fn schema(section: &dyn Section) -> Json {
    let property = |key: KeyDescription| {
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
