//! Tests of the JSON Schema of documents: references, completeness and descriptions.

use serde_json::Value;

use super::schema;
use crate::results::FIGURES;

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
fn all_schema_references_resolve() {
    let schema = schema();
    let mut found = Vec::new();
    visit(&schema, "$ref", &mut found);
    assert!(found.len() > 20);
    for reference in found {
        assert!(schema.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
}

#[test]
fn run_and_sweep_schemas_contain_all_figures() {
    let definitions = &schema()["definitions"];
    for of in [&definitions["SweepRow"], &definitions["RunFigures"]] {
        assert!(FIGURES.iter().all(|figure| of["properties"][figure.name]["description"] == figure.about), "{of:#}");
    }
}

#[test]
fn schema_descriptions_are_complete_sentences() {
    let schema = schema();
    let mut found = Vec::new();
    visit(&schema, "description", &mut found);
    assert!(found.len() > 150, "{}", found.len());
    for text in found {
        assert!(text.ends_with('.') && !text.contains("ikewise") && !text.starts_with("Of "), "{text}");
    }
}

#[test]
fn all_schema_keys_have_a_description() {
    let schema = schema();
    for (name, definition) in schema["definitions"].as_object().expect("definitions") {
        for (key, value) in definition["properties"].as_object().into_iter().flatten() {
            assert!(value["description"].is_string(), "{name}.{key}: {value}");
        }
    }
}
