//! Keys of a drive that a fit determines: start values and search ranges.

use serde_json::Value as Json;

use phaselink_core::config::StackStage;
use phaselink_core::config::section::{self, Section};
use phaselink_core::config::value;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::stage_and_cost_of_key;
use phaselink_core::problem::{Problem, Problems, all};
use phaselink_core::spelling;

/// Extent of the search range as a factor: from the start value divided by it to the start value multiplied by it.
const REACH: f64 = 100.0;

/// Numeric key of a drive that a fit determines, with its start value and search range.
#[derive(Clone, Debug, PartialEq)]
pub struct FitKey {
    /// Full name of the key, such as `media.read_ns`; for a cost of a software stage, `stack.stages.NAME.submit_ns`.
    pub name: String,
    /// Unit of the key's value, such as `ns`; an empty text if it has none.
    pub unit: &'static str,
    /// Value of the key at which the search starts, in the key's unit.
    pub start: f64,
    /// Smallest value of the key that the search tries, in the key's unit.
    pub low: f64,
    /// Largest value of the key that the search tries, in the key's unit.
    pub high: f64,
}

/// Returns the keys of these names in a drive, with their search ranges.
///
/// # Errors
/// Each name that is given twice, and each that is not a positive number on which the drive's results can depend.
pub fn keys(drive: &Drive, names: &[String]) -> Result<Vec<FitKey>, Problems> {
    let twice = names.iter().enumerate().filter(|(place, name)| names[..*place].contains(name));
    let twice = twice.map(|(_, name)| problem(name, "the key is given twice", "each key once"));
    let keys = all(names.iter().map(|name| key(drive, name).map_err(Problems::from)));
    let twice: Vec<Problem> = twice.collect();
    if twice.is_empty() { keys } else { Err(Problems(twice)) }
}

/// Returns the key of this name in a drive, with its start value and search range.
fn key(drive: &Drive, name: &str) -> Result<FitKey, Problem> {
    let schema = schema(drive, name).ok_or_else(|| unknown(name))?;
    let section = name.split_once('.').map_or("", |(section, _)| section);
    if !drive.has_part_in(section) {
        let found = format!("{} has another interface", drive.name);
        return Err(problem(name, &found, "keys that results of the drive can depend on"));
    }
    if schema["type"] != "number" {
        let allowed = "a number with fractions; try the values of others with phaselink sweep";
        return Err(problem(name, "the key cannot be fitted", allowed));
    }
    let start = drive.value_of(name).and_then(|value| value.as_f64()).unwrap_or(0.0);
    if start <= 0.0 {
        let allowed = format!("a value above 0 to start from, as in --set {name}=10");
        return Err(problem(name, &format!("it starts at {start}"), &allowed));
    }
    let bound = |end: &str| schema[end].as_f64();
    Ok(FitKey {
        name: String::from(name),
        unit: value::unit(name),
        start,
        low: bound("minimum").map_or(start / REACH, |minimum| minimum.max(start / REACH)),
        high: bound("maximum").map_or(start * REACH, |maximum| maximum.min(start * REACH)),
    })
}

/// Returns the JSON Schema of a drive's key, or of a cost of a software stage. `None` if the drive has no such key.
fn schema(drive: &Drive, name: &str) -> Option<Json> {
    let of = |section: &dyn Section, key: &str| {
        section.keys().into_iter().find(|known| known.name == key).map(|known| (known.schema)())
    };
    if let Some((_, cost)) = stage_and_cost_of_key(name) {
        drive.value_of(name)?;
        return of(&StackStage::default(), cost);
    }
    let (path, key) = name.split_once('.')?;
    let section = drive.sections().into_iter().find(|section| section.path() == path)?;
    of(section, key)
}

fn unknown(name: &str) -> Problem {
    let names = Drive::settable_key_names();
    let meant = spelling::question(spelling::nearest(name, names.iter().map(String::as_str)));
    let example = section::full_key_name("media", "read_ns");
    problem(name, &format!("there is no such key{meant}"), &format!("SECTION.KEY, as in {example}"))
}

fn problem(name: &str, found: &str, allowed: &str) -> Problem {
    Problem::new(format!("--keys {name}"), None, found, allowed)
}
