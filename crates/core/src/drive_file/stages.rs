//! The list `stack.stages` as a file gives it: a whole list, or stages to be inserted into the preset's list.

use crate::config::document::{Entry, Node, Place, Value};
use crate::config::value::{KeyFault, KeyType};
use crate::config::{Stack, StackStage};
use crate::problem::Problem;
use crate::spelling;

/// Keys that say where a stage is inserted into the preset's list, with their meanings.
pub(super) const PLACES: [(&str, &str); 2] = [
    ("before", "Name of a stage of the preset: this stage joins the preset's list immediately before it"),
    ("after", "Name of a stage of the preset: this stage joins the preset's list immediately after it"),
];

/// Applies a list of stages to a software stack. Stages with a `before` or `after` are inserted into the stack one
/// after the other; a list in which no stage has one replaces the stack's list.
pub(super) fn take(stack: &mut Stack, list: &Node) -> Result<(), KeyFault> {
    let Value::Array(items) = &list.value else { return Err(KeyFault::NotAllowed) };
    let (places, items): (Vec<Vec<Entry>>, Vec<Node>) = items.iter().map(split_stage_position).unzip();
    let value = Value::Array(items.clone());
    let stages: Vec<StackStage> = KeyType::read("stages", &Node { value, ..list.clone() })?;
    if places.iter().all(Vec::is_empty) {
        stack.stages = stages;
        return Ok(());
    }
    let (mut joined, mut problems) = (stack.stages.clone(), Vec::new());
    for ((stage, place), item) in stages.into_iter().zip(&places).zip(&items) {
        match position(&joined, &stage, place, &item.place) {
            Ok(position) => joined.insert(position, stage),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        stack.stages = joined;
        return Ok(());
    }
    Err(KeyFault::Inside(problems))
}

/// Splits an item of the list into its entries `before` and `after`, and the stage without them.
fn split_stage_position(item: &Node) -> (Vec<Entry>, Node) {
    let Value::Table(table) = &item.value else { return (Vec::new(), item.clone()) };
    let is_place = |entry: &Entry| PLACES.iter().any(|(key, _)| *key == entry.key);
    let (places, keys) = table.iter().cloned().partition(is_place);
    (places, Node { value: Value::Table(keys), ..item.clone() })
}

/// Returns the index in `stages` at which a further stage is inserted; `places` are its entries `before` and `after`.
fn position(stages: &[StackStage], stage: &StackStage, places: &[Entry], item: &Place) -> Result<usize, Problem> {
    let [place] = places else {
        let found = format!("stack.stages \"{}\" has {} of the keys before and after", stage.name, places.len());
        return Err(item.problem(found, "exactly one of before and after in each stage of the list, or in none"));
    };
    let Value::String(wanted) = &place.node.value else {
        let found = format!("stack.stages.{} is {}", place.key, place.node.quote);
        return Err(place.place.problem(found, "the name of a stage in quotes"));
    };
    let mut names = stages.iter().map(|stage| stage.name.as_str());
    let found = match place.key.as_str() {
        "before" => names.position(|name| name == wanted),
        _ => stages.iter().rposition(|stage| stage.name == *wanted).map(|last| last + 1),
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
        let meant = spelling::question(spelling::nearest(wanted, names.iter().copied()));
        let found =
            format!("stack.stages \"{}\" goes {} \"{wanted}\", which is no stage{meant}", stage.name, place.key);
        place.place.problem(found, names.join(", "))
    })
}
