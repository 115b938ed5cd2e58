//! JSON Schema of documents, derived from their types.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::*;
use crate::shipped::SCHEMA_BASE;

/// Returns the schema of results, of draft 7 of JSON Schema as that of drive files is.
///
/// Every object is closed: a document with a key that the schema lacks does not fit, so that the schema cannot fall behind.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft07().for_serialize().into_generator();
    let verbs = [
        document::<RunDocument>(&mut generator, "run", "run"),
        document::<CompareDocument>(&mut generator, "compare", "compare"),
        document::<PredictDocument>(&mut generator, "predict", "predict"),
        document::<SweepDocument>(&mut generator, "sweep", "sweep"),
        document::<SearchDocument>(&mut generator, "search", "sweep"),
        document::<FitDocument>(&mut generator, "fit", "fit"),
        document::<DmaDocument>(&mut generator, "dma", "dma"),
        document::<ReproduceDocument>(&mut generator, "reproduce", "reproduce"),
        document::<ValidateDocument>(&mut generator, "validate", "validate"),
        document::<FoldsDocument>(&mut generator, "folds", "validate"),
        document::<TraceInfoDocument>(&mut generator, "trace-info", "trace-info"),
    ];
    let mut definitions = generator.take_definitions(true);
    let any: Vec<Value> = verbs.iter().map(|(name, _)| json!({ "$ref": format!("#/definitions/{name}") })).collect();
    definitions.extend(verbs);
    if let Some(own) = definitions.get_mut("RunResult") {
        add_head(own, "run");
    }
    definitions.values_mut().for_each(close);
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": format!("{SCHEMA_BASE}/results.json"),
        "title": "Results of phaselink",
        "description": "Documents that `phaselink VERB --json` prints. Units stand last in a key; null stands for an unknown value.",
        "oneOf": any,
        "definitions": definitions,
    })
}

/// Returns the name and the schema of a document, with its head unless the document has fio's shape.
fn document<T: JsonSchema>(generator: &mut SchemaGenerator, name: &str, verb: &str) -> (String, Value) {
    let mut schema = Schema::to_value(T::json_schema(generator));
    if name != "run" {
        add_head(&mut schema, verb);
    }
    (String::from(name), schema)
}

/// Adds the keys that every document begins with.
fn add_head(schema: &mut Value, verb: &str) {
    let version = json!({ "type": "string", "description": "Version of the program." });
    let verb = json!({ "const": verb, "description": "Verb that printed the document." });
    for (key, value) in [("version", version), ("verb", verb)] {
        schema["properties"][key] = value;
        if let Some(required) = schema["required"].as_array_mut() {
            required.push(json!(key));
        }
    }
}

/// Forbids further keys in each object that does not say what they hold, takes out formats of numbers and line breaks of comments.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("properties") && !object.contains_key("additionalProperties") && is_schema(object) {
                object.insert(String::from("additionalProperties"), json!(false));
            }
            if object.get("format").is_some_and(Value::is_string) {
                object.remove("format");
            }
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            object.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// True for the schema of an object; false for the list of its properties, which may have one named `properties`.
fn is_schema(object: &serde_json::Map<String, Value>) -> bool {
    object.get("type").is_some_and(|kind| kind == "object")
}
