//! Schema of documents: what it owes its readers, and the types for Python that are made from it.

use serde_json::{Map, Value};

use super::schema;
use crate::results::FIGURES;
use expect_test::expect_file;

const HEAD: &str = "\"\"\"Documents and figures as types. Made by a test from the schema of results and the registry of figures; `make snapshots`
renews it.\"\"\"

from typing import Any, Literal, TypedDict

from typing_extensions import NotRequired

class Figures:
";

#[test]
fn stubs_have_every_document_and_every_figure() {
    let schema = schema();
    let definitions = schema["definitions"].as_object().expect("definitions");
    let figure = |figure: &crate::results::Figure| {
        let kind = if figure.may_be_unknown { "float | None" } else { "float" };
        format!("    @property\n    def {}(self) -> {kind}: ...\n", figure.name)
    };
    let figures: String = FIGURES.iter().map(figure).collect();
    let types: String = definitions.iter().map(|(name, definition)| declared(name, definition)).collect();
    expect_file!["../../../../python/python/phaselink/_documents.pyi"].assert_eq(&format!("{HEAD}{figures}\n{types}"));
}

/// Name of a definition in Python: documents of verbs are called for the verb.
fn class(name: &str) -> String {
    match name.chars().next().is_some_and(char::is_lowercase) {
        true => name.split('-').map(|word| word[..1].to_uppercase() + &word[1..]).collect::<String>() + "Document",
        false => String::from(name),
    }
}

fn declared(name: &str, definition: &Value) -> String {
    let class = class(name);
    match definition["properties"].as_object() {
        Some(keys) if definition["additionalProperties"] == false => typed(&class, keys, &definition["required"]),
        _ => format!("{class} = {}\n", kind(definition)),
    }
}

fn typed(class: &str, keys: &Map<String, Value>, required: &Value) -> String {
    let is_required = |key: &str| required.as_array().is_some_and(|names| names.iter().any(|name| name == key));
    let key = |(key, value): (&String, &Value)| match is_required(key) {
        true => format!("        \"{key}\": {},\n", kind(value)),
        false => format!("        \"{key}\": NotRequired[{}],\n", kind(value)),
    };
    let keys: String = keys.iter().map(key).collect();
    format!("{class} = TypedDict(\n    \"{class}\",\n    {{\n{keys}    }},\n)\n")
}

/// Type of the values that fit a schema.
fn kind(schema: &Value) -> String {
    let items = |key: &str| schema[key].as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(reference) = schema["$ref"].as_str() {
        let name = class(reference.trim_start_matches("#/definitions/"));
        return format!("\"{name}\"");
    }
    if let Some(value) = schema.get("const") {
        return format!("Literal[{value}]");
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        if !items(key).is_empty() {
            return united(items(key).iter().map(kind));
        }
    }
    if !items("enum").is_empty() {
        let words: Vec<String> = items("enum").iter().map(Value::to_string).collect();
        return format!("Literal[{}]", words.join(", "));
    }
    match &schema["type"] {
        Value::Array(kinds) => united(kinds.iter().map(|kind| plain(kind, schema))),
        one => plain(one, schema),
    }
}

fn united(kinds: impl Iterator<Item = String>) -> String {
    let mut kinds: Vec<String> = kinds.collect();
    kinds.dedup();
    // A forward reference in a union has to be a text as a whole.
    match kinds.iter().any(|kind| kind.starts_with('"')) && kinds.len() > 1 {
        true => format!("\"{}\"", kinds.join(" | ").replace('"', "")),
        false => kinds.join(" | "),
    }
}

fn plain(kind: &Value, schema: &Value) -> String {
    match kind.as_str().unwrap_or_default() {
        "string" => String::from("str"),
        "integer" => String::from("int"),
        "number" => String::from("float"),
        "boolean" => String::from("bool"),
        "null" => String::from("None"),
        "array" => match schema["items"].is_object() {
            true => format!("list[{}]", self::kind(&schema["items"])),
            false => String::from("list[float]"),
        },
        "object" if schema["additionalProperties"].is_object() && !schema["properties"].is_object() => {
            format!("dict[str, {}]", self::kind(&schema["additionalProperties"]))
        }
        _ => String::from("dict[str, Any]"),
    }
}

fn visit<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get(key).and_then(Value::as_str));
            object.values().for_each(|value| visit(value, key, found));
        }
        Value::Array(items) => items.iter().for_each(|value| visit(value, key, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_to_a_definition() {
    let schema = schema();
    let mut found = Vec::new();
    visit(&schema, "$ref", &mut found);
    assert!(found.len() > 20);
    for reference in found {
        assert!(schema.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
}

#[test]
fn rows_of_sweeps_and_runs_have_every_figure() {
    let definitions = &schema()["definitions"];
    for of in [&definitions["SweepRow"], &definitions["RunFigures"]] {
        assert!(FIGURES.iter().all(|figure| of["properties"][figure.name]["description"] == figure.about), "{of:#}");
    }
}

#[test]
fn descriptions_are_sentences_that_lean_on_no_other() {
    let schema = schema();
    let mut found = Vec::new();
    visit(&schema, "description", &mut found);
    assert!(found.len() > 150, "{}", found.len());
    for text in found {
        assert!(text.ends_with('.') && !text.contains("ikewise") && !text.starts_with("Of "), "{text}");
    }
}

#[test]
fn every_key_has_a_description() {
    let schema = schema();
    for (name, definition) in schema["definitions"].as_object().expect("definitions") {
        for (key, value) in definition["properties"].as_object().into_iter().flatten() {
            assert!(value["description"].is_string(), "{name}.{key}: {value}");
        }
    }
}
