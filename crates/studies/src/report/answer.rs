//! Questions and answers of verbs: reads a question from JSON, renders an answer as JSON, text and page.

use std::fmt::Display;
use std::ops::RangeInclusive;

use phaselink_core::problem::{Problem, Problems};
use phaselink_core::workload;
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{Prose, headed};
use crate::results::documents::value;

/// Answer of a verb: one value, which is rendered as JSON document, text and page.
pub trait Answer: Serialize + JsonSchema + Sized {
    /// Verb in the head of the document and in the schema, such as `breakeven`.
    const VERB: &'static str;

    /// Returns the answer as text for people.
    fn text(&self) -> Prose;

    /// Returns the answer as an HTML page, or none if the verb has no page.
    fn page(&self) -> Option<String> {
        None
    }

    /// Returns the JSON document that `phaselink VERB --json` prints.
    fn document(&self) -> Value {
        headed(Self::VERB, value(self))
    }
}

/// Reads a question from the text of a JSON object. Keys that are left out have their defaults.
///
/// # Errors
/// A text that is not a JSON object, all keys that the question does not have, and all values that a key does not allow.
pub fn read_question<Q: DeserializeOwned>(text: &str) -> Result<Q, Problems> {
    question_from_keys(serde_json::from_str(text).map_err(not_a_json_object_problem)?)
}

/// Reads a question from the keys of a JSON object. Keys that are left out have their defaults.
///
/// # Errors
/// All keys that the question does not have, and all values that a key does not allow.
pub fn question_from_keys<Q: DeserializeOwned>(keys: Map<String, Value>) -> Result<Q, Problems> {
    // serde's errors do not name the key, so parse each key alone before parsing all of them together.
    let problems = keys.iter().filter_map(|(key, value)| {
        let alone = Map::from_iter([(key.clone(), value.clone())]);
        let error = serde_json::from_value::<Q>(Value::Object(alone)).err()?.to_string();
        let (found, allowed) = error.split_once("; allowed: ").unwrap_or((&error, ""));
        Some(Problem::new("question", None, format!("{key}: {found}"), allowed))
    });
    Problems(problems.collect()).or(())?;
    Ok(serde_json::from_value(Value::Object(keys)).map_err(not_a_json_object_problem)?)
}

fn not_a_json_object_problem(error: serde_json::Error) -> Problem {
    Problem::new("question", None, error.to_string(), "a JSON object")
}

/// Returns a problem if the value of an option lies outside its range.
pub fn outside<T: PartialOrd + Display>(option: &str, value: T, range: RangeInclusive<T>) -> Option<Problem> {
    let allowed = || format!("{} to {}", range.start(), range.end());
    let problem = || Problem::new("command line", None, format!("{option} {value}"), allowed());
    (!range.contains(&value)).then(problem)
}

/// Parses the size of a block in bytes, such as `4k`; none for a text that is not a size, or for 0.
pub fn parse_block_bytes(text: &str) -> Option<u32> {
    workload::bytes(text).and_then(|bytes| u32::try_from(bytes).ok()).filter(|bytes| *bytes > 0)
}

/// Reads block sizes from a question in JSON: a list of texts such as `4k`.
///
/// # Errors
/// A text that is not a size, or a size of 0.
pub fn block_sizes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    let wrong = |text: &str| D::Error::custom(format!("size `{text}`; allowed: a number of bytes, or a size as in 4k"));
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| parse_block_bytes(text).ok_or_else(|| wrong(text))).collect()
}

#[cfg(test)]
mod tests {
    use crate::breakeven::BreakEvenQuestion;

    #[test]
    fn all_problems_of_a_question_are_reported_with_their_keys() {
        let question = r#"{"bs": ["4x"], "drives": "two", "host_iops": null, "size": 1}"#;
        let found = super::read_question::<BreakEvenQuestion>(question).expect_err("three problems").to_string();
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines[0], "question: bs: size `4x`; allowed: a number of bytes, or a size as in 4k");
        assert_eq!(lines[1], "question: drives: invalid type: string \"two\", expected u32");
        assert!(lines[2].starts_with("question: size: unknown field `size`"), "{found}");
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn omitted_question_keys_take_their_defaults() {
        let question: BreakEvenQuestion = super::read_question("{}").expect("a question");
        let answer = question.answer().expect("an answer");
        assert_eq!(answer.times.iter().map(|time| time.block_bytes).collect::<Vec<_>>(), [512, 1024, 2048, 4096]);
    }
}
