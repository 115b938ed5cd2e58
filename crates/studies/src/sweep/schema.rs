//! JSON Schema of sweep plans, with which editors complete keys, show their meanings and mark mistakes.

use serde_json::{Value as Json, json};

use crate::results::FIGURES;
use phaselink_core::drive::Drive;
use phaselink_core::shipped::SCHEMA_BASE;

/// Returns the JSON Schema of sweep plans in draft 7, which TOML editors read. Options of the job are not listed: their
/// values are checked when a plan is read.
pub fn schema() -> Json {
    let figures: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
    let axis = axis();
    let mut keys_together = axis.clone();
    keys_together["properties"]["zip"] = json!({
        "type": "array",
        "minItems": 1,
        "items": axis,
        "description": "Keys that vary together, each with as many values",
    });
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": format!("{SCHEMA_BASE}/sweep.json"),
        "title": "phaselink sweep plan",
        "description": "What is swept, over which values, and what is kept of each run",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "drive": { "type": "string", "description": "Name of a shipped drive, or path of a drive file" },
            "set": {
                "type": "array",
                "items": { "type": "string", "pattern": "=" },
                "description": "Overrides of the drive, as after --set",
            },
            "job": {
                "description": "Table of fio options, or path of a fio job file",
                "anyOf": [{ "type": "string" }, { "type": "object" }],
            },
            "seed": {
                "description": "Seed of all random numbers, or a list of seeds, with each of which every point runs",
                "default": 1,
                "anyOf": [
                    { "type": "integer", "minimum": 0 },
                    { "type": "array", "minItems": 1, "items": { "type": "integer", "minimum": 0 } },
                ],
            },
            "columns": {
                "type": "array",
                "items": { "enum": figures },
                "description": "Figures in the output",
            },
            "axis": {
                "type": "array",
                "items": keys_together,
                "description": "Parameters that vary; the first varies slowest",
            },
        },
    })
}

/// Returns the JSON Schema of an axis of a sweep plan with a single key.
fn axis() -> Json {
    let mut names = Drive::settable_key_names();
    names.push(String::from("drive"));
    let number = json!({ "type": "number" });
    let about = |kind: &Json, text: &str| {
        let mut schema = kind.clone();
        schema["description"] = Json::from(text);
        schema
    };
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "key": {
                "description": "Parameter of the drive, or job.OPTION for an option of fio",
                "anyOf": [{ "enum": names }, { "type": "string" }],
            },
            "values": { "type": "array", "minItems": 1, "description": "The listed values" },
            "powers_of_two": {
                "type": "array", "minItems": 2, "maxItems": 2, "items": number,
                "description": "All powers of two from the first number to the last",
            },
            "from": about(&number, "First value of a range"),
            "to": about(&number, "Last value of a range"),
            "step": about(&number, "Difference between values"),
            "factor": about(&number, "Ratio between values"),
            "count": { "type": "integer", "minimum": 2, "description": "Number of values" },
            "spacing": { "enum": ["linear", "logarithmic"], "description": "Spacing of a range with a count" },
            "round": { "type": "boolean", "description": "Round values to whole numbers, and drop repeated ones" },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_keys_of_a_plan_equal_those_that_are_read() {
        let refused = super::super::Plan::parse("p.sweep.toml", "drve = 'nvme'\n").unwrap_err().to_string();
        let schema = schema();
        for key in schema["properties"].as_object().unwrap().keys() {
            assert!(refused.contains(key.as_str()), "{key} is not read: {refused}");
        }
        let text = "drive = 'nvme'\n[[axis]]\nkey = 'link.lanes'\nvalus = [1]\n";
        let refused = super::super::Plan::parse("p.sweep.toml", text).unwrap_err().to_string();
        let keys = schema["properties"]["axis"]["items"]["properties"].as_object().unwrap().keys();
        for key in keys.filter(|key| *key != "zip") {
            assert!(refused.contains(key.as_str()), "{key} of an axis is not read: {refused}");
        }
        assert!(schema["$id"].as_str().unwrap().ends_with("/sweep.json"));
    }
}
