//! Types for Python that are made from the schemas of documents and drives, the registry of figures and the options of jobs.

use serde_json::{Map, Value};

use expect_test::expect_file;
use phaselink_core::drive_file;
use phaselink_core::workload::options::OPTIONS;
use phaselink_studies::results::{FIGURES, Figure};
use phaselink_studies::schema::schema;

const HEAD: &str = "\"\"\"Documents and figures as types. Made by a test from the schema of results and the registry of figures; `make snapshots`
renews it.\"\"\"

from typing import Any, Literal, TypedDict

from typing_extensions import NotRequired

class Figures:
";

#[test]
fn python_stubs_have_all_documents_and_figures() {
    let schema = schema();
    let definitions = schema["definitions"].as_object().expect("definitions");
    let figure = |figure: &Figure| {
        let kind = if figure.may_be_unknown { "float | None" } else { "float" };
        format!("    @property\n    def {}(self) -> {kind}: ...\n", figure.name)
    };
    let figures: String = FIGURES.iter().map(figure).collect();
    let types: String = definitions.iter().map(|(name, definition)| type_declaration(name, definition)).collect();
    expect_file!["../../../python/python/phaselink/_documents.pyi"].assert_eq(&format!("{HEAD}{figures}\n{types}"));
}

const OPTIONS_HEAD: &str = "\"\"\"Keywords of calls as types: options of a job, and sections of a drive with their keys. Made by a test from the
program's own tables; `make snapshots` renews it.\"\"\"

from collections.abc import Sequence
from typing import Any, Literal, TypedDict

Value = bool | int | float | str | Sequence[int | float | str]

";

/// Parameters of `compare` that are options of a job, too.
const SIZES: [&str; 3] = ["bs", "iodepth", "numjobs"];
/// Parameters of functions of Python that have the names of options.
const PARAMETERS: [&str; 2] = ["verify", "name"];

#[test]
fn python_stubs_have_all_job_options_and_drive_sections() {
    let schema = drive_file::schema();
    let properties = schema["properties"].as_object().expect("sections");
    let sections: Vec<_> = properties.iter().filter(|(_, schema)| schema["type"] == "object").collect();
    let class = |name: &str| name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect::<String>();
    let mut text = String::from(OPTIONS_HEAD);
    for (name, section) in &sections {
        text += &format!("class {}Section(TypedDict, total=False):\n", class(name));
        for (key, value) in section["properties"].as_object().into_iter().flatten() {
            text += &format!("    {key}: {}\n", key_value_type(key, value));
        }
        text += "\n";
    }
    text += "class Sections(TypedDict, total=False):\n";
    text += &sections.iter().map(|(name, _)| format!("    {name}: {}Section | str\n", class(name))).collect::<String>();
    text += "\nclass CompareOptions(Sections, total=False):\n";
    let names = OPTIONS
        .iter()
        .flat_map(|option| option.names)
        .filter(|name| !PARAMETERS.contains(*name) && !name.contains('-'));
    let (sizes, others): (Vec<&str>, Vec<&str>) = names.partition(|name| SIZES.contains(*name));
    let keys = |names: &[&str]| names.iter().map(|name| format!("    {name}: Value\n")).collect::<String>();
    text += &format!("{}\nclass RunOptions(CompareOptions, total=False):\n{}", keys(&others), keys(&sizes));
    expect_file!["../../../python/python/phaselink/_options.pyi"].assert_eq(&text);
}

/// Type of the values of a key. Numbers of a choice are any numbers, because variables of a program have no narrower type.
fn key_value_type(key: &str, schema: &Value) -> String {
    let choices = schema["enum"].as_array().map(Vec::as_slice).unwrap_or_default();
    match choices {
        _ if key == "preset" => String::from("str"),
        [first, ..] if first.is_number() => String::from("int"),
        _ => kind(schema),
    }
}

/// Name of a definition in Python: documents of verbs are called for the verb.
fn class(name: &str) -> String {
    match name.chars().next().is_some_and(char::is_lowercase) {
        true => name.split('-').map(|word| word[..1].to_uppercase() + &word[1..]).collect::<String>() + "Document",
        false => String::from(name),
    }
}

fn type_declaration(name: &str, definition: &Value) -> String {
    let class = class(name);
    match definition["properties"].as_object() {
        Some(keys) if definition["additionalProperties"] == false => {
            typed_dict_text(&class, keys, &definition["required"])
        }
        _ => format!("{class} = {}\n", kind(definition).trim_matches('"')),
    }
}

fn typed_dict_text(class: &str, keys: &Map<String, Value>, required: &Value) -> String {
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
            return union_type_text(items(key).iter().map(kind));
        }
    }
    if !items("enum").is_empty() {
        let words: Vec<String> = items("enum").iter().map(Value::to_string).collect();
        return format!("Literal[{}]", words.join(", "));
    }
    match &schema["type"] {
        Value::Array(kinds) => union_type_text(kinds.iter().map(|kind| plain(kind, schema))),
        one => plain(one, schema),
    }
}

fn union_type_text(kinds: impl Iterator<Item = String>) -> String {
    let mut kinds: Vec<String> = kinds.collect();
    kinds.dedup();
    // In Python, a union with a forward reference must be quoted as a whole.
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
