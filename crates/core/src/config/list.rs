//! Keys of a drive file whose value is a list of tables, such as `stack.stages` and `faults`.

use serde_json::{Value as Json, json};

use super::document::{Node, Value};
use super::refused::refused_entry_problems;
use super::section::{self, Section};
use super::value::{KeyFault, KeyType};
use crate::problem::Problem;

impl<T: Section + Default> KeyType for Vec<T> {
    fn kind() -> String {
        let keys: Vec<&str> = T::default().keys().iter().map(|key| key.name).collect();
        format!("list of tables with the keys {}", keys.join(", "))
    }
    fn schema() -> Json {
        json!({ "type": "array", "items": section::schema(&T::default()) })
    }
    fn read(_: &str, node: &Node) -> Result<Vec<T>, KeyFault> {
        let Value::Array(items) = &node.value else {
            return Err(KeyFault::NotAllowed);
        };
        let mut problems = Vec::new();
        let read = items.iter().map(|item| read_list_table(item, &mut problems)).collect();
        if problems.is_empty() { Ok(read) } else { Err(KeyFault::Inside(problems)) }
    }
    fn write(&self, _: &str) -> Json {
        self.iter().map(|item| Json::Object(section::values(item))).collect()
    }
}

/// Reads one table of a list into a section. Adds the problems of its entries to `problems`.
pub(crate) fn read_list_table<T: Section + Default>(node: &Node, problems: &mut Vec<Problem>) -> T {
    let mut item = T::default();
    let Value::Table(table) = &node.value else {
        let found = format!("{} holds {}", item.path(), node.quote);
        problems.push(node.place.problem(found, "tables"));
        return item;
    };
    for entry in table {
        if let Err(fault) = item.set(&entry.key, &entry.node) {
            problems.extend(refused_entry_problems(fault, entry, &item, &[&item]));
        }
    }
    item
}
