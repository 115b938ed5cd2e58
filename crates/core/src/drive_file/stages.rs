//! The list of a stack's stages, as a file gives it: all of them, or some that join those that are there.

use crate::config::document::{Entry, Node, Place, Value};
use crate::config::value::{KeyFault, KeyType};
use crate::config::{Stack, Stage};
use crate::problem::Problem;
use crate::spelling;

/// The keys of a stage that joins others.
pub(super) const PLACES: [(&str, &str); 2] = [
    ("before", "Name of the stage of the preset before which this one joins the list, instead of replacing it"),
    ("after", "The same of the stage after which it does"),
];

/// Take a list of stages. Those that say what they go `before` or `after` join the stack, one after the other; a list in
/// which none says so is the stack.
pub(super) fn take(stack: &mut Stack, list: &Node) -> Result<(), KeyFault> {
    let Value::Array(items) = &list.value else { return Err(KeyFault::NotAllowed) };
    let (places, items): (Vec<Vec<Entry>>, Vec<Node>) = items.iter().map(divided).unzip();
    let value = Value::Array(items.clone());
    let stages: Vec<Stage> = KeyType::read("stages", &Node { value, ..list.clone() })?;
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

/// What an item says of its place, and the stage without that.
fn divided(item: &Node) -> (Vec<Entry>, Node) {
    let Value::Table(table) = &item.value else { return (Vec::new(), item.clone()) };
    let is_place = |entry: &Entry| PLACES.iter().any(|(key, _)| *key == entry.key);
    let (places, keys) = table.iter().cloned().partition(is_place);
    (places, Node { value: Value::Table(keys), ..item.clone() })
}

/// Where among these stages a further one goes.
fn position(stages: &[Stage], stage: &Stage, places: &[Entry], item: &Place) -> Result<usize, Problem> {
    let [place] = places else {
        let found =
            format!("stack.stages \"{}\" says {} what it goes before or after", stage.name, times(places.len()));
        return Err(item.problem(found, "before or after in each stage of the list, or in none"));
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
        let found = format!("stack.stages \"{}\" goes {} \"{wanted}\", which is none{meant}", stage.name, place.key);
        place.place.problem(found, names.join(", "))
    })
}

fn times(count: usize) -> &'static str {
    if count == 0 { "nowhere" } else { "twice" }
}
