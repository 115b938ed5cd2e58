//! Types for Python that are made from the schema of documents and the registry of figures.

use serde_json::{Map, Value};

use expect_test::expect_file;
use phaselink_core::results::documents::schema;
use phaselink_core::results::{FIGURES, Figure};

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
    let figure = |figure: &Figure| {
        let kind = if figure.may_be_unknown { "float | None" } else { "float" };
        format!("    @property\n    def {}(self) -> {kind}: ...\n", figure.name)
    };
    let figures: String = FIGURES.iter().map(figure).collect();
    let types: String = definitions.iter().map(|(name, definition)| declared(name, definition)).collect();
    expect_file!["../../../python/python/phaselink/_documents.pyi"].assert_eq(&format!("{HEAD}{figures}\n{types}"));
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
