//! JSON Schema of all documents that `--json` prints, derived from their types.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use crate::breakeven::BreakEvenAnswer;
use crate::ecc::EccAnswer;
use crate::endurance::EnduranceAnswer;
use crate::export::ExportAnswer;
use crate::fit::sheet::SheetAnswer;
use crate::knee::KneeAnswer;
use crate::kvcache::KvCacheAnswer;
use crate::report::Answer;
use crate::results::documents::*;
use crate::validate::tails::TailsAnswer;
use crate::whatif::WhatIfAnswer;
use phaselink_core::shipped::SCHEMA_BASE;

/// Returns the JSON Schema of results, in draft 7 as that of drive files.
///
/// Every object is closed: a document with a key that the schema lacks is invalid, so that the schema cannot become
/// outdated.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft07().for_serialize().into_generator();
    let verbs = [
        document::<RunDocument>(&mut generator, "run", "run"),
        document::<CompareDocument>(&mut generator, "compare", "compare"),
        document::<CrashDocument>(&mut generator, "crash", "crash"),
        document::<PredictDocument>(&mut generator, "predict", "predict"),
        document::<SweepDocument>(&mut generator, "sweep", "sweep"),
        document::<SearchDocument>(&mut generator, "search", "sweep"),
        document::<FitDocument>(&mut generator, "fit", "fit"),
        document::<DmaDocument>(&mut generator, "dma", "dma"),
        document::<ReproduceDocument>(&mut generator, "reproduce", "reproduce"),
        document::<ValidateDocument>(&mut generator, "validate", "validate"),
        document::<FoldsDocument>(&mut generator, "folds", "validate"),
        answer::<BreakEvenAnswer>(&mut generator),
        answer::<EnduranceAnswer>(&mut generator),
        answer::<EccAnswer>(&mut generator),
        answer::<ExportAnswer>(&mut generator),
        answer::<KneeAnswer>(&mut generator),
        answer::<KvCacheAnswer>(&mut generator),
        answer::<SheetAnswer>(&mut generator),
        answer::<TailsAnswer>(&mut generator),
        answer::<WhatIfAnswer>(&mut generator),
        document::<TraceInfoDocument>(&mut generator, "trace-info", "trace-info"),
    ];
    let mut definitions = generator.take_definitions(true);
    let any: Vec<Value> = verbs.iter().map(|(name, _)| json!({ "$ref": format!("#/definitions/{name}") })).collect();
    definitions.extend(verbs);
    if let Some(own) = definitions.get_mut("RunResult") {
        add_common_header(own, "run");
    }
    definitions.values_mut().for_each(forbid_other_keys);
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": format!("{SCHEMA_BASE}/results.json"),
        "title": "Results of phaselink",
        "description": "Documents that `phaselink VERB --json` prints. Units stand last in a key; null stands for an unknown value.",
        "oneOf": any,
        "definitions": definitions,
    })
}

/// Returns the name and the JSON Schema of a document. Adds the common header, except to documents in fio's format.
fn document<T: JsonSchema>(generator: &mut SchemaGenerator, name: &str, verb: &str) -> (String, Value) {
    let mut schema = Schema::to_value(T::json_schema(generator));
    if name != "run" {
        add_common_header(&mut schema, verb);
    }
    (String::from(name), schema)
}

/// Returns the name and the JSON Schema of the document of an answer.
fn answer<A: Answer>(generator: &mut SchemaGenerator) -> (String, Value) {
    document::<A>(generator, A::VERB, A::VERB)
}

/// Adds the keys of the common header (`version` and `verb`) to the schema of a document.
fn add_common_header(schema: &mut Value, verb: &str) {
    let version = json!({ "type": "string", "description": "Version of phaselink that printed the document." });
    let verb =
        json!({ "const": verb, "description": "Command of phaselink that printed the document, such as `run`." });
    for (key, value) in [("version", version), ("verb", verb)] {
        schema["properties"][key] = value;
        if let Some(required) = schema["required"].as_array_mut() {
            required.push(json!(key));
        }
    }
}

/// Forbids additional keys in each object that lists its keys. Also removes number formats, and line breaks in
/// descriptions.
fn forbid_other_keys(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("properties")
                && !object.contains_key("additionalProperties")
                && is_object_schema(object)
            {
                object.insert(String::from("additionalProperties"), json!(false));
            }
            if object.get("format").is_some_and(Value::is_string) {
                object.remove("format");
            }
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            object.values_mut().for_each(forbid_other_keys);
        }
        Value::Array(items) => items.iter_mut().for_each(forbid_other_keys),
        _ => {}
    }
}

/// True for the schema of an object; false for an object's list of properties, which may have one named `properties`.
fn is_object_schema(object: &serde_json::Map<String, Value>) -> bool {
    object.get("type").is_some_and(|kind| kind == "object")
}

#[cfg(test)]
mod tests;
