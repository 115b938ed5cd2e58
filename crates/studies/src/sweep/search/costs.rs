//! Cost of a drive, computed from prices that a user gives for keys of the drive's configuration.

use phaselink_core::drive::Drive;
use phaselink_core::problem::{Problem, Problems};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Example of a price list that comes with the program, as TOML text.
pub const EXAMPLES: &str = include_str!("example.costs.toml");

/// Price list for the parts of a drive, from which a search computes the drive's cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriceList {
    /// Unit of the prices, such as `USD`.
    pub unit: String,
    base: f64,
    /// Price for each unit of a numeric key of the drive, such as each lane, by key.
    each: BTreeMap<String, f64>,
    /// Price for each GiB of the memory's capacity, by memory technology.
    gib: BTreeMap<String, f64>,
    /// Price for a particular value of a key of the drive, by key and value.
    value: BTreeMap<String, BTreeMap<String, f64>>,
}

impl PriceList {
    /// Parses a price list in TOML. `file` is its name in messages.
    ///
    /// # Errors
    /// All entries that are not valid prices.
    pub fn parse(file: &str, text: &str) -> Result<PriceList, Problems> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
            Problem::new(file, line, error.message().to_string(), "TOML")
        })?;
        let mut costs = PriceList::default();
        let mut problems = Problems::default();
        for (key, value) in &table {
            let read = match (key.as_str(), value) {
                ("unit", Value::String(unit)) => {
                    costs.unit.clone_from(unit);
                    Some(())
                }
                ("base", value) => price(value).map(|base| costs.base = base),
                ("each", Value::Table(table)) => prices(table).map(|each| costs.each = each),
                ("gib", Value::Table(table)) => prices(table).map(|gib| costs.gib = gib),
                ("value", Value::Table(table)) => prices_by_value(table).map(|value| costs.value = value),
                _ => None,
            };
            if read.is_none() {
                let allowed = "unit = \"USD\", base = 50, and [each], [gib] and [value.KEY] with a price for each name";
                problems.0.push(Problem::new(file, line_of(text, key), format!("`{key}`"), allowed));
            }
        }
        problems.or(costs)
    }

    /// Returns a price list whose only price is 1 for each unit of this key, so that the smallest value is the
    /// cheapest.
    pub fn of_key(key: &str) -> PriceList {
        PriceList { unit: key.into(), each: [(key.into(), 1.0)].into(), ..PriceList::default() }
    }

    /// Returns the cost of a drive: the sum of all prices that apply to it.
    ///
    /// # Errors
    /// Prices of keys that the drive does not have, and values of the drive without a price.
    pub fn of(&self, file: &str, drive: &Drive) -> Result<f64, Problems> {
        let resolved = drive.resolved();
        let mut problems = Problems::default();
        let mut sum = self.base;
        for (key, price) in &self.each {
            match lookup(&resolved, key).and_then(Json::as_f64) {
                Some(count) => sum += price * count,
                None => problems.0.push(Problem::new(
                    file,
                    None,
                    format!("a price for each {key}"),
                    "keys with numbers of the drive",
                )),
            }
        }
        if !self.gib.is_empty() {
            let technology = word(lookup(&resolved, "media.technology"));
            let mib = lookup(&resolved, "media.capacity_mib").and_then(Json::as_f64).unwrap_or(0.0);
            match self.gib.get(&technology) {
                Some(price) => sum += price * mib / 1024.0,
                None => problems.0.push(Problem::new(
                    file,
                    None,
                    format!("no price for a GiB of {technology}"),
                    format!("{technology} in [gib]"),
                )),
            }
        }
        for (key, prices) in &self.value {
            let value = word(lookup(&resolved, key));
            match prices.get(&value) {
                Some(price) => sum += price,
                None => problems.0.push(Problem::new(
                    file,
                    None,
                    format!("no price for {key} = {value}"),
                    format!("{value} in [value.\"{key}\"]"),
                )),
            }
        }
        problems.or(sum)
    }
}

fn lookup<'a>(resolved: &'a Json, key: &str) -> Option<&'a Json> {
    // The path of a section may contain dots, so the key is the part after the last dot.
    match key.rsplit_once('.') {
        Some((section, key)) => resolved.get(section)?.get(key),
        None => resolved.get(key),
    }
}

fn word(value: Option<&Json>) -> String {
    match value {
        Some(Json::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::from("nothing"),
    }
}

/// Returns a TOML value as a price. `None` if it is not a finite number of 0 or more.
fn price(value: &Value) -> Option<f64> {
    let number = value.as_float().or_else(|| value.as_integer().map(|it| it as f64));
    number.filter(|price| price.is_finite() && *price >= 0.0)
}

/// Returns the prices in a TOML table by key, which may be dotted (`link.lanes`) or quoted. `None` if one is invalid.
fn prices(table: &Table) -> Option<BTreeMap<String, f64>> {
    let mut found = Vec::new();
    collect(table, &mut Vec::new(), &mut found)?;
    Some(found.into_iter().map(|(path, price)| (path.join("."), price)).collect())
}

/// Returns the prices in a TOML table by key and value; the last part of each name is the value. `None` if one is
/// invalid.
fn prices_by_value(table: &Table) -> Option<BTreeMap<String, BTreeMap<String, f64>>> {
    let mut found = Vec::new();
    collect(table, &mut Vec::new(), &mut found)?;
    let mut values: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    for (mut path, price) in found {
        let value = path.pop().filter(|_| !path.is_empty())?;
        values.entry(path.join(".")).or_default().insert(value, price);
    }
    Some(values)
}

/// Adds each price in a TOML table and its subtables to `found`, with the names that lead to it. `None` if an entry is
/// no price.
fn collect(table: &Table, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, f64)>) -> Option<()> {
    for (name, value) in table {
        path.push(name.clone());
        match value {
            Value::Table(inner) => collect(inner, path, found)?,
            value => found.push((path.clone(), price(value)?)),
        }
        path.pop();
    }
    Some(())
}

fn line_of(text: &str, key: &str) -> Option<usize> {
    let is_of_key = |line: &str| line.trim_start().trim_start_matches('[').trim_start().starts_with(key);
    text.lines().position(is_of_key).map(|place| place + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: &str = "unit = \"EUR\"\nbase = 10\n[each]\n\"link.lanes\" = 2\n[gib]\npcm = 4\ndram = 8\n[value.\"link.generation\"]\n2 = 1\n3 = 5\n";

    #[test]
    fn drive_cost_is_the_sum_of_its_priced_parts() {
        let costs = PriceList::parse("c", PRICES).expect("right");
        // The drive has four lanes of generation 2 and 640 MiB.
        assert_eq!(costs.of("c", &Drive::shipped("nvme").expect("shipped")), Ok(10.0 + 8.0 + 2.5 + 1.0));
        let bare = PRICES.replace('"', "").replace("EUR", "\"EUR\"");
        assert_eq!(PriceList::parse("c", &bare), Ok(costs));
        assert_eq!(PriceList::of_key("link.lanes").of("c", &Drive::shipped("nvme").expect("shipped")), Ok(4.0));
    }

    #[test]
    fn missing_and_unused_prices_are_reported() {
        let told = |text: &str| {
            let costs = PriceList::parse("c", text).expect("prices");
            costs.of("c", &Drive::shipped("nvme").expect("shipped")).expect_err("wrong").to_string()
        };
        assert!(told("[gib]\ndram = 8\n").contains("no price for a GiB of pcm"));
        assert!(told("[each]\n\"link.laness\" = 8\n").contains("a price for each link.laness"));
        assert!(told("[value.\"link.generation\"]\n5 = 8\n").contains("no price for link.generation = 2"));
    }

    #[test]
    fn invalid_price_is_reported_with_its_line() {
        let told = |text: &str| PriceList::parse("c", text).expect_err("wrong").to_string();
        assert!(told("unit = \"EUR\"\nbase = -1\n").starts_with("c:2: `base`"));
        assert!(told("[each]\n\"link.lanes\" = \"two\"\n").starts_with("c:1: `each`"));
        assert!(told("x = 1\n").starts_with("c:1: `x`"));
        assert!(told("[value]\nx = 1\n").starts_with("c:1: `value`"));
        assert!(told("[each\n").starts_with("c:1: "));
    }

    #[test]
    fn example_price_list_covers_all_shipped_drives() {
        let costs = PriceList::parse("examples", EXAMPLES).expect("right");
        for name in phaselink_core::drive_file::shipped::names() {
            costs
                .of("examples", &Drive::shipped(name).expect("shipped"))
                .unwrap_or_else(|problems| panic!("{name}: {problems}"));
        }
    }
}
