//! One declaration per section of a drive file: the struct, its defaults, its reader and its explanation.
//!
//! `section!` turns a list of keys into a plain struct with public fields, and into [`Section`], through
//! which the reader, `phaselink check` and the results see all sections alike.

use serde_json::Value as Json;

use super::document::{Entry, Node, Value};
use super::problem::Problem;
use super::suggest;
use super::value::Fault;

/// A key and what is to be said of it.
pub(crate) struct Key {
    pub name: &'static str,
    /// Meaning.
    pub about: &'static str,
    pub default: Json,
    /// Type and bounds, in the key's unit.
    pub allowed: String,
}

/// A group of keys: a table in drive files.
pub(crate) trait Section {
    /// The table's name, empty for the keys above all tables.
    fn path(&self) -> &'static str;
    fn about(&self) -> &'static str;
    /// Its keys, in the order in which they are explained.
    fn keys(&self) -> Vec<Key>;
    /// Take the value of one key; leaves the section as it was on a fault.
    fn set(&mut self, key: &str, node: &Node) -> Result<(), Fault>;
    /// Value of each key in its unit, in the order of [`Section::keys`].
    fn values(&self) -> Vec<(&'static str, Json)>;
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
                    },
                )+]
            }

            fn set(
                &mut self,
                key: &str,
                node: &$crate::config::document::Node,
            ) -> Result<(), $crate::config::value::Fault> {
                match key {
                    $(stringify!($key) => self.$field = $crate::config::value::read(key, node, &$allowed)?,)+
                    _ => return Err($crate::config::value::Fault::UnknownKey),
                }
                Ok(())
            }

            fn values(&self) -> Vec<(&'static str, serde_json::Value)> {
                use $crate::config::value::KeyType;
                vec![$((stringify!($key), self.$field.write(stringify!($key))),)+]
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

/// Read a section that stands as one item of a list; its problems join `problems`.
pub(crate) fn read_item<T: Section + Default>(node: &Node, problems: &mut Vec<Problem>) -> T {
    let mut item = T::default();
    let Value::Table(table) = &node.value else {
        let found = format!("{} holds {}", item.path(), node.quote);
        problems.push(node.place.problem(found, "tables"));
        return item;
    };
    for entry in table {
        if let Err(fault) = item.set(&entry.key, &entry.node) {
            problems.extend(problems_of(fault, entry, &item, &[&item]));
        }
    }
    item
}

/// What to tell of an entry that `section` did not take; `all` sections are searched for the key that was meant.
pub(crate) fn problems_of(fault: Fault, entry: &Entry, section: &dyn Section, all: &[&dyn Section]) -> Vec<Problem> {
    let key = full_name(section.path(), &entry.key);
    let is = format!("{key} is {}", entry.node.quote);
    match fault {
        Fault::Inside(problems) => problems,
        Fault::UnknownKey => vec![suggest::unknown_key(entry, section, all)],
        Fault::NotAllowed => vec![entry.place.problem(is, allowed(section, &entry.key))],
        Fault::UnknownName(nearest) => {
            let found = is + &suggest::question(nearest);
            vec![entry.place.problem(found, allowed(section, &entry.key))]
        }
    }
}

fn allowed(section: &dyn Section, key: &str) -> String {
    let key = section.keys().into_iter().find(|known| known.name == key);
    key.map_or(String::new(), |key| key.allowed)
}
