//! Types that a key of a drive file may have: how values are read, written, bounded and described.

use std::ops::RangeInclusive;

use serde_json::{Value as Json, json};

use super::document::{Node, Value};
use crate::number::{real, whole};
use crate::problem::{Problem, is_unprintable};
use crate::spelling;
use crate::time::Span;

/// Reason why a section refuses an entry of a drive file.
#[derive(Debug)]
pub enum KeyFault {
    /// Value has the wrong type or is outside the allowed bounds.
    NotAllowed,
    /// Value is an unknown name. Holds the most similar known name.
    UnknownName(Option<&'static str>),
    /// Key does not exist in the section of the drive file.
    UnknownKey,
    /// Value is a list with problems in its items, each with its own position in the file.
    Inside(Vec<Problem>),
}

/// Type that keys of a drive file may have. The argument `key` is the key's name, whose last word is its unit.
pub(crate) trait KeyType: Sized {
    /// Returns a text that describes values of this type, without bounds, such as `whole number`.
    fn kind() -> String;
    /// Returns the JSON Schema of this type, without the key's bounds.
    fn schema() -> Json;
    /// Converts a value of a drive file, given in the key's unit, to this type.
    fn read(key: &str, node: &Node) -> Result<Self, KeyFault>;
    /// Converts this value to JSON in the key's unit. [`KeyType::read`] of the result gives an equal value.
    fn write(&self, key: &str) -> Json;
}

/// Set of values that a key of a drive file allows.
pub(crate) trait AllowedValues<T> {
    /// True if the key allows `value`.
    fn allows(&self, value: &T) -> bool;
    /// Returns a text that describes the allowed values, in the key's unit.
    fn describe(&self, key: &str) -> String;
    /// Returns the JSON Schema of the allowed values, in the key's unit.
    fn schema(&self, key: &str) -> Json;
}

/// Set of all values of a key's type.
pub(crate) struct Any;

/// Returns the set of all values of a key's type, for use in `section!`.
pub(crate) const fn any() -> Any {
    Any
}

/// Converts a value of a drive file to the type of the key, and checks that the key allows it.
pub(crate) fn read<T: KeyType>(key: &str, node: &Node, allowed: &impl AllowedValues<T>) -> Result<T, KeyFault> {
    let value = T::read(key, node)?;
    if allowed.allows(&value) { Ok(value) } else { Err(KeyFault::NotAllowed) }
}

impl<T: KeyType> AllowedValues<T> for Any {
    fn allows(&self, _: &T) -> bool {
        true
    }
    fn describe(&self, _: &str) -> String {
        T::kind()
    }
    fn schema(&self, _: &str) -> Json {
        T::schema()
    }
}

impl<T: KeyType + PartialOrd> AllowedValues<T> for RangeInclusive<T> {
    fn allows(&self, value: &T) -> bool {
        self.contains(value)
    }
    fn describe(&self, key: &str) -> String {
        let bound = |value: &T| readable(&value.write(key));
        let bounds = format!("{} from {} to {}", T::kind(), bound(self.start()), bound(self.end()));
        [&bounds, unit(key)].join(" ").trim_end().into()
    }
    fn schema(&self, key: &str) -> Json {
        let mut schema = T::schema();
        schema["minimum"] = self.start().write(key);
        schema["maximum"] = self.end().write(key);
        schema
    }
}

impl<T: KeyType + PartialEq, const N: usize> AllowedValues<T> for [T; N] {
    fn allows(&self, value: &T) -> bool {
        self.contains(value)
    }
    fn describe(&self, key: &str) -> String {
        let values: Vec<String> = self.iter().map(|value| readable(&value.write(key))).collect();
        values.join(", ")
    }
    fn schema(&self, key: &str) -> Json {
        json!({ "enum": self.iter().map(|value| value.write(key)).collect::<Vec<_>>() })
    }
}

macro_rules! integers {
    ($($integer:ty)+) => {$(
        impl KeyType for $integer {
            fn kind() -> String {
                String::from("whole number")
            }
            fn schema() -> Json {
                json!({ "type": "integer", "minimum": <$integer>::MIN, "maximum": <$integer>::MAX })
            }
            fn read(_: &str, node: &Node) -> Result<$integer, KeyFault> {
                match node.value {
                    Value::Integer(integer) => <$integer>::try_from(integer).map_err(|_| KeyFault::NotAllowed),
                    _ => Err(KeyFault::NotAllowed),
                }
            }
            fn write(&self, _: &str) -> Json {
                Json::from(*self)
            }
        }
    )+};
}

integers!(u8 u16 u32 u64);

impl KeyType for f64 {
    fn kind() -> String {
        String::from("number")
    }
    fn schema() -> Json {
        json!({ "type": "number" })
    }
    fn read(_: &str, node: &Node) -> Result<f64, KeyFault> {
        match node.value {
            Value::Integer(integer) => Ok(integer as f64),
            Value::Float(float) => Ok(float),
            _ => Err(KeyFault::NotAllowed),
        }
    }
    fn write(&self, _: &str) -> Json {
        Json::from(*self)
    }
}

impl KeyType for bool {
    fn kind() -> String {
        String::from("true or false")
    }
    fn schema() -> Json {
        json!({ "type": "boolean" })
    }
    fn read(_: &str, node: &Node) -> Result<bool, KeyFault> {
        match node.value {
            Value::Boolean(boolean) => Ok(boolean),
            _ => Err(KeyFault::NotAllowed),
        }
    }
    fn write(&self, _: &str) -> Json {
        Json::from(*self)
    }
}

/// Largest number of characters in a text value. Names and reasons are printed in tables and headings, whose cells have
/// lengths below 2^16.
const TEXT_CHARACTERS_MAX: usize = 1000;

/// True if a text fits on one printed line: no unprintable characters, and not too long.
fn fits_on_one_line(text: &str) -> bool {
    text.chars().count() <= TEXT_CHARACTERS_MAX && !text.contains(is_unprintable)
}

impl KeyType for String {
    fn kind() -> String {
        format!("text in quotes, a line of at most {TEXT_CHARACTERS_MAX} characters")
    }
    fn schema() -> Json {
        json!({ "type": "string", "maxLength": TEXT_CHARACTERS_MAX })
    }
    fn read(_: &str, node: &Node) -> Result<String, KeyFault> {
        match &node.value {
            Value::String(text) if fits_on_one_line(text) => Ok(text.clone()),
            _ => Err(KeyFault::NotAllowed),
        }
    }
    fn write(&self, _: &str) -> Json {
        Json::from(self.as_str())
    }
}

/// Time spans are read in the unit that the key's name ends in, as a whole or fractional number. They are stored in
/// whole picoseconds.
impl KeyType for Span {
    fn kind() -> String {
        String::from("number")
    }
    fn schema() -> Json {
        json!({ "type": "number", "minimum": 0 })
    }
    fn read(key: &str, node: &Node) -> Result<Span, KeyFault> {
        let ps = picoseconds_per_unit(key);
        let in_ps = match node.value {
            Value::Integer(integer) => u64::try_from(integer).ok().and_then(|units| units.checked_mul(ps)),
            Value::Float(units) if units >= 0.0 => Some(whole((units * real(ps)).round())),
            _ => None,
        };
        in_ps.map(Span::from_ps).ok_or(KeyFault::NotAllowed)
    }
    fn write(&self, key: &str) -> Json {
        let ps = picoseconds_per_unit(key);
        match self.as_ps().is_multiple_of(ps) {
            true => Json::from(self.as_ps() / ps),
            false => Json::from(real(self.as_ps()) / real(ps)),
        }
    }
}

/// Gives each variant of an enum its name in drive files, and implements [`KeyType`] with these names.
macro_rules! names {
    ($choice:ident { $($name:literal => $variant:ident),+ $(,)? }) => {
        impl $choice {
            const NAMES: &[&'static str] = &[$($name),+];

            /// Returns the name of this variant in drive files.
            pub const fn name(self) -> &'static str {
                match self {
                    $($choice::$variant => $name,)+
                }
            }

            /// Returns the variant with this name in drive files, or `None`.
            fn named(name: &str) -> Option<$choice> {
                match name {
                    $($name => Some($choice::$variant),)+
                    _ => None,
                }
            }
        }

        impl $crate::config::value::KeyType for $choice {
            fn kind() -> String {
                $choice::NAMES.join(", ")
            }
            fn schema() -> serde_json::Value {
                serde_json::json!({ "enum": $choice::NAMES })
            }
            fn read(
                _: &str,
                node: &$crate::config::document::Node,
            ) -> Result<$choice, $crate::config::value::KeyFault> {
                let name = $crate::config::value::text(node)?;
                $choice::named(name).ok_or_else(|| $crate::config::value::unknown_name(name, $choice::NAMES))
            }
            fn write(&self, _: &str) -> serde_json::Value {
                serde_json::Value::from(self.name())
            }
        }
    };
}
pub(crate) use names;

/// Returns the text of a TOML string. Any other type of value is refused.
pub(crate) fn text(node: &Node) -> Result<&str, KeyFault> {
    match &node.value {
        Value::String(text) => Ok(text),
        _ => Err(KeyFault::NotAllowed),
    }
}

/// Returns the reason for refusing an unknown name, with the most similar of the known ones.
pub(crate) fn unknown_name(name: &str, known: &'static [&'static str]) -> KeyFault {
    KeyFault::UnknownName(spelling::nearest(name, known.iter().copied()))
}

/// Endings of key names and their units. The first ending that fits applies.
const UNITS: &[(&str, &str)] = &[
    ("_bytes_per_ns", "B/ns"),
    ("_mib_per_s", "MiB/s"),
    ("_ns", "ns"),
    ("_us", "us"),
    ("_ms", "ms"),
    ("_s", "s"),
    ("_bytes", "bytes"),
    ("_kib", "KiB"),
    ("_mib", "MiB"),
    ("_bits", "bits"),
    ("_ghz", "GHz"),
    ("_w", "W"),
    ("_iops", "IOPS"),
    ("volts_min", "V"),
    ("volts_max", "V"),
];

/// Returns the unit that a key's name ends in, such as `ns`, or an empty text.
pub fn unit(key: &str) -> &'static str {
    UNITS.iter().find(|(suffix, _)| key.ends_with(suffix)).map_or("", |(_, unit)| unit)
}

/// Returns the name of a key without its unit: `read` for `read_ns`.
pub(crate) fn stem(key: &str) -> &str {
    let is_unit = |(suffix, _): &&(&str, &str)| key.len() > suffix.len() && key.ends_with(suffix);
    let suffix = UNITS.iter().find(is_unit).map_or("", |(suffix, _)| *suffix);
    &key[..key.len() - suffix.len()]
}

/// Returns the number of picoseconds in the unit of time that a key's name ends in.
///
/// # Panics
/// If the key's name does not end in a unit of time.
fn picoseconds_per_unit(key: &str) -> u64 {
    match unit(key) {
        "ns" => 1_000,
        "us" => 1_000_000,
        "ms" => 1_000_000_000,
        "s" => 1_000_000_000_000,
        _ => panic!("the name of the key {key} does not end in a unit of time (_ns, _us, _ms or _s)"),
    }
}

/// Returns a value as text for people. Whole numbers from 10,000 on are grouped by `_` in threes, which TOML accepts.
pub(crate) fn readable(value: &Json) -> String {
    match value.as_f64() {
        Some(number) if number >= 10_000.0 && number.fract() == 0.0 => grouped(&number.to_string()),
        Some(number) => number.to_string(),
        None => value.to_string(),
    }
}

fn grouped(digits: &str) -> String {
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push('_');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::super::document::{Place, parse_value};
    use super::*;

    fn span(key: &str, text: &str) -> Option<Span> {
        Span::read(key, &parse_value(&Place::whole("t"), text).unwrap()).ok()
    }

    #[test]
    fn span_is_read_in_the_unit_of_its_key() {
        assert_eq!(span("read_ns", "110"), Some(Span::from_ns(110)));
        assert_eq!(span("read_us", "0.11"), Some(Span::from_ns(110)));
        assert_eq!(span("read_ms", "1e-3"), Some(Span::from_us(1)));
        assert_eq!(span("read_s", "2"), Some(Span::from_s(2)));
        assert_eq!(span("read_ns", "2.4004"), Some(Span::from_ps(2400)));
    }

    #[test]
    fn negative_or_non_numeric_span_is_refused() {
        for text in ["-1", "-0.0001", "nan", "-inf", "'1'", "true", "99999999999999999999"] {
            assert_eq!(span("read_ns", text), None, "{text}");
        }
    }

    #[test]
    fn written_span_reads_back_to_the_picosecond() {
        for ps in [0, 1, 999, 2_400, 110_000, 1_234_567_891, 99_999_999_999_999] {
            for key in ["a_ns", "a_us", "a_ms", "a_s"] {
                let written = Span::from_ps(ps).write(key).to_string();
                assert_eq!(span(key, &written), Some(Span::from_ps(ps)), "{written} {key}");
            }
        }
    }

    #[test]
    fn bounds_are_printed_in_the_unit_of_the_key() {
        let bounds = Span::from_ns(1)..=Span::from_s(100);
        assert_eq!(bounds.describe("max_latency_us"), "number from 0.001 to 100_000_000 us");
        assert_eq!((1..=127_u16).describe("credits"), "whole number from 1 to 127");
        assert_eq!([64_u32, 128].describe("boundary_bytes"), "64, 128");
    }
}
