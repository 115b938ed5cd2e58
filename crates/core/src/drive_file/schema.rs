//! JSON Schema of drive files, with which editors complete keys, show their meanings and mark mistakes.
//!
//! The schema does not express conditions between keys; [`Drive::from_toml`] checks them.

use serde_json::{Value as Json, json};

use super::{needs, presets, shipped, stages};
use crate::config::UncertainConstant;
use crate::config::section::{self, Section};
use crate::drive::Drive;
use crate::shipped::SCHEMA_BASE;

/// Returns the JSON Schema of drive files in draft 7, which is the draft that TOML editors read.
pub fn schema() -> Json {
    let blank = Drive::blank();
    let mut schema = section::schema(&blank.header());
    schema["$schema"] = Json::from("http://json-schema.org/draft-07/schema#");
    schema["$id"] = Json::from(format!("{SCHEMA_BASE}/drive.json"));
    schema["title"] = Json::from("phaselink drive file");
    schema["description"] =
        Json::from("Description of a drive: its memory, link, host and the protocol between host and device");
    let properties = &mut schema["properties"];
    properties["preset"] = preset_key_schema("Drive from which this drive starts", shipped::names().collect());
    for section in blank.sections() {
        properties[section.path()] = section_schema(section);
    }
    for (key, about) in stages::PLACES {
        let stage = &mut properties["stack"]["properties"]["stages"]["items"]["properties"];
        stage[key] = json!({ "type": "string", "description": about });
    }
    for (list, about) in [
        ("fitted", "Uncertain constants whose value was chosen so that a published result comes out"),
        ("assumed", "Uncertain constants whose value is assumed because no source gives it"),
    ] {
        properties[list] = list_of_doubts(about);
    }
    schema
}

/// Returns the JSON Schema of a section, with its `preset` if the section has presets.
fn section_schema(described: &dyn Section) -> Json {
    let mut schema = section::schema(described);
    for (key, needed) in described.keys().iter().zip(needs::descriptions(described)) {
        if let Some(needed) = needed {
            schema["properties"][key.name]["description"] = Json::from(format!("{}. Needs {needed}", key.about));
        }
    }
    if presets::has(described.path()) {
        let names = presets::rows(described.path()).iter().map(|row| row.key.as_str()).collect();
        let about = format!("Preset from which the section [{}] starts", described.path());
        schema["properties"]["preset"] = preset_key_schema(&about, names);
    }
    schema
}

/// Returns the JSON Schema of a key `preset`, whose value is one of `names` or the path of a file.
fn preset_key_schema(about: &str, names: Vec<&str>) -> Json {
    json!({
        "description": format!("{about}: the name of a shipped one, or the path of a file"),
        "anyOf": [{ "enum": names }, { "type": "string", "pattern": "(/|\\.toml$)" }],
    })
}

/// Returns the JSON Schema of a list `fitted` or `assumed` of uncertain constants.
fn list_of_doubts(about: &str) -> Json {
    let mut item = section::schema(&UncertainConstant::default());
    item["required"] = json!(["key", "why"]);
    json!({ "type": "array", "description": about, "items": item })
}

#[cfg(test)]
mod tests {
    use super::super::layers;
    use super::*;
    use crate::config::document::{self, Value};

    fn at(path: &str) -> Json {
        schema().pointer(path).cloned().unwrap_or_else(|| panic!("no {path}"))
    }

    #[test]
    fn key_schema_has_type_bounds_meaning_and_default() {
        let key = at("/properties/link/properties/lanes");
        assert!(key["enum"].as_array().is_some_and(|lanes| lanes.contains(&json!(16)) && !lanes.contains(&json!(3))));
        let span = at("/properties/media/properties/read_ns");
        assert_eq!(span["type"], "number");
        assert!(span["minimum"].as_f64() < span["maximum"].as_f64(), "{span}");
        assert!(span["description"].is_string() && span["default"].is_number());
        let name = at("/properties/interface");
        assert!(name["enum"].as_array().is_some_and(|names| names.contains(&json!("nvme"))));
        assert_eq!(at("/properties/nvme/additionalProperties"), false);
    }

    #[test]
    fn key_schema_states_what_the_key_needs() {
        let about = |path: &str| String::from(at(path)["description"].as_str().expect("a description"));
        assert!(about("/properties/translation/properties/policy").ends_with(". Needs translation.mapping = \"page\""));
        assert!(about("/properties/cxl/properties/cache_ns").ends_with(". Needs cxl.cache_mib above 0"));
        assert!(!about("/properties/media/properties/read_ns").contains("Needs"));
    }

    #[test]
    fn list_schema_has_the_keys_of_its_items() {
        let stage = at("/properties/stack/properties/stages/items/properties");
        assert_eq!(stage["name"]["type"], "string");
        assert_eq!(stage["submit_ns"]["type"], "number");
    }

    /// True if a value fits a schema; handles only the keywords that this schema uses.
    fn fits_schema(value: &Value, schema: &Json) -> bool {
        if let Some(ways) = schema["anyOf"].as_array() {
            return ways.iter().any(|way| fits_schema(value, way));
        }
        if let Some(choices) = schema["enum"].as_array() {
            return choices.iter().any(|choice| is_schema_choice(value, choice));
        }
        match value {
            Value::Table(entries) => {
                let known = |key: &str| schema["properties"].get(key);
                schema["type"] == "object"
                    && entries
                        .iter()
                        .all(|entry| known(&entry.key).is_some_and(|schema| fits_schema(&entry.node.value, schema)))
            }
            Value::Array(items) => {
                schema["type"] == "array" && items.iter().all(|item| fits_schema(&item.value, &schema["items"]))
            }
            Value::String(text) => schema["type"] == "string" && (schema["pattern"].is_null() || layers::is_path(text)),
            Value::Boolean(_) => schema["type"] == "boolean",
            Value::Integer(integer) => {
                (schema["type"] == "integer" || schema["type"] == "number")
                    && is_within_schema_bounds(*integer as f64, schema)
            }
            Value::Float(float) => schema["type"] == "number" && is_within_schema_bounds(*float, schema),
            _ => false,
        }
    }

    fn is_schema_choice(value: &Value, choice: &Json) -> bool {
        match value {
            Value::String(text) => choice == text,
            Value::Integer(integer) => choice.as_f64() == Some(*integer as f64),
            Value::Float(float) => choice.as_f64() == Some(*float),
            _ => false,
        }
    }

    fn is_within_schema_bounds(number: f64, schema: &Json) -> bool {
        schema["minimum"].as_f64().is_none_or(|least| number >= least)
            && schema["maximum"].as_f64().is_none_or(|most| number <= most)
    }

    fn is_file_valid_by_schema(file: &str, text: &str, schema: &Json) -> bool {
        let document = document::parse(file, text);
        assert!(document.problems.is_empty(), "{file}");
        fits_schema(&Value::Table(document.table), schema)
    }

    #[test]
    fn shipped_drives_fit_the_schema_as_file_and_resolved() {
        let schema = schema();
        for name in shipped::names() {
            let shipped = shipped::find(name).unwrap();
            assert!(is_file_valid_by_schema(shipped.file, shipped.text, &schema), "{name}");
            let whole = Drive::shipped(name).unwrap().to_toml();
            assert!(is_file_valid_by_schema(name, &whole, &schema), "{name}, whole");
        }
    }

    #[test]
    fn file_with_wrong_name_type_or_bound_violates_the_schema() {
        let schema = schema();
        for text in [
            "speed = 1",
            "preset = \"no-such-drive\"",
            "interface = \"sata\"",
            "[link]\nlanes = 3",
            "[link]\nlane = 4",
            "[link]\npreset = \"gen9\"",
            "[media]\nread_ns = -1",
            "[media]\nread_ns = \"110\"",
            "[media]\nchannels = 1.5",
            "[[stack.stages]]\nnama = \"x\"",
        ] {
            assert!(!is_file_valid_by_schema("drive.toml", text, &schema), "{text}");
            assert!(Drive::from_toml("drive.toml", text, &[]).is_err(), "{text}");
        }
    }
}
