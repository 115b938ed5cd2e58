//! Tests that set every key to the edges of what it allows, and to one step beyond.

use crate::config::document::{Place, parse_value};
use crate::config::section::Section;
use crate::config::value::unit;
use crate::drive::Drive;

fn is_value_accepted(section: &mut dyn Section, key: &str, value: &str) -> bool {
    let node = parse_value(&Place::whole("t"), value).unwrap();
    section.set(key, &node).is_ok()
}

/// Values one step below and one step above: a whole number, a picosecond, or a part in a million of the bound.
fn values_beyond_bound(kind: &str, key: &str, low: f64, high: f64) -> [String; 2] {
    if kind == "whole number" {
        return [(low as i128 - 1).to_string(), (high as i128 + 1).to_string()];
    }
    let picosecond = match unit(key) {
        "ns" => 1e-3,
        "us" => 1e-6,
        _ => 0.0,
    };
    let step = |bound: f64| {
        if picosecond > 0.0 { picosecond } else { (bound * 1e-6).max(1e-9) }
    };
    [format!("{:e}", low - step(low)), format!("{:e}", high + step(high))]
}

fn check_range_bounds(section: &mut dyn Section, key: &str, kind: &str, bounds: &str) {
    let (low, rest) = bounds.split_once(" to ").unwrap();
    let high = rest.split(' ').next().unwrap();
    assert!(is_value_accepted(section, key, low), "{key} = {low}");
    assert!(is_value_accepted(section, key, high), "{key} = {high}");
    let number = |text: &str| text.replace('_', "").parse::<f64>().unwrap();
    for value in values_beyond_bound(kind, key, number(low), number(high)) {
        assert!(!is_value_accepted(section, key, &value), "{key} = {value}");
    }
}

fn check_listed_choices(section: &mut dyn Section, key: &str, list: &[&str]) {
    for value in list {
        assert!(is_value_accepted(section, key, value), "{key} = {value}");
        let next = (value.replace('_', "").parse::<u64>().unwrap() + 1).to_string();
        assert_eq!(is_value_accepted(section, key, &next), list.contains(&next.as_str()), "{key} = {next}");
    }
}

#[test]
fn bounds_are_inclusive_for_all_keys() {
    let mut ranges = 0;
    for section in Drive::blank().sections_mut() {
        for key in section.keys() {
            let list: Vec<&str> = key.allowed.split(", ").collect();
            match key.allowed.split_once(" from ") {
                Some((kind, bounds)) => {
                    ranges += 1;
                    check_range_bounds(section, key.name, kind, bounds);
                }
                None if list[0].parse::<u64>().is_ok() => check_listed_choices(section, key.name, &list),
                None => {}
            }
        }
    }
    assert!(ranges > 50, "only {ranges} keys have bounds");
}

#[test]
fn default_values_are_allowed_for_all_keys() {
    for section in Drive::blank().sections_mut() {
        for key in section.keys() {
            let default = key.default.to_string();
            assert!(is_value_accepted(section, key.name, &default), "{} = {default}", key.name);
        }
    }
}

#[test]
fn value_of_the_wrong_type_is_refused_by_all_keys() {
    for section in Drive::blank().sections_mut() {
        for key in section.keys() {
            let is_text = key.allowed.starts_with("text in quotes");
            assert_eq!(is_value_accepted(section, key.name, "'no such name'"), is_text, "{}", key.name);
            assert!(!is_value_accepted(section, key.name, "1979-05-27"), "{}", key.name);
            assert!(!is_value_accepted(section, key.name, "{ a = 1 }"), "{}", key.name);
        }
    }
}
