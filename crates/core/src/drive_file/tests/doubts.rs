//! Tests of uncertain constants: every one is listed, and overrides move it as far as its range says.

use super::super::doubts::stage_and_cost_of_key;
use super::super::{presets, shipped};
use super::*;
use crate::config::{UncertainConstant, UncertaintyCause};

/// Lines that give a key a value and call it assumed or fitted: the table that the line is in, the key, and the word.
fn marked_lines(text: &str) -> Vec<(String, String, &'static str)> {
    let mut table = String::new();
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with('[') {
            table = line.trim_matches(['[', ']', '"']).to_owned();
        }
        let Some((given, comment)) = line.split_once('#') else { continue };
        let Some((key, _)) = given.split_once('=') else { continue };
        let is_key = key.trim().chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        let word = ["assumed", "fitted"].into_iter().find(|word| comment.contains(word));
        if let (true, Some(word), false) = (is_key, word, comment.contains("without effect")) {
            found.push((table.clone(), String::from(key.trim()), word));
        }
    }
    found
}

#[test]
fn marked_lines_of_shipped_drives_are_in_their_lists() {
    let not_keys = ["preset"];
    for shipped in shipped::all() {
        let drive = Drive::from_toml(shipped.file, shipped.text, &[]).unwrap();
        for (section, key, word) in marked_lines(shipped.text) {
            let key = format!("{section}.{key}");
            let list = if word == "fitted" { &drive.fitted } else { &drive.assumed };
            let is_listed = list.iter().any(|doubt| doubt.key == key);
            assert!(is_listed || not_keys.iter().any(|name| key.ends_with(name)), "{}: {key} {word}", shipped.file);
        }
    }
}

#[test]
fn marked_lines_of_presets_are_in_their_lists() {
    for file in ["host", "link", "dma", "fabric", "root_complex", "power", "media", "stack"] {
        let path = format!("{}/presets/{file}.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        for (preset, key, word) in marked_lines(&text) {
            let drive = read(&format!("interface = 'nvme'\n[{file}]\npreset = '{preset}'\n")).unwrap();
            let list = if word == "fitted" { &drive.fitted } else { &drive.assumed };
            let key = format!("{file}.{key}");
            assert!(list.iter().any(|doubt| doubt.key == key), "{preset}: {key} {word}");
        }
    }
}

/// Every preset in a drive of its own, and every shipped drive.
fn drives_and_presets() -> Vec<Drive> {
    let alone = |preset: &presets::Preset| {
        read(&format!("interface = 'nvme'\n[{}]\npreset = '{}'\n", preset.section, preset.name)).unwrap()
    };
    let shipped = shipped::names().map(|name| Drive::shipped(name).unwrap());
    presets::all().iter().map(alone).chain(shipped).collect()
}

#[test]
fn uncertain_constants_name_keys_with_values_in_range() {
    for drive in drives_and_presets() {
        for doubt in drive.assumed.iter().chain(&drive.fitted) {
            let value = drive.value_of(&doubt.key);
            let value = value.unwrap_or_else(|| panic!("{}: {} is no key", drive.name, doubt.key));
            assert!(doubt.why.len() > 5, "{}", doubt.key);
            if doubt.is_range() {
                let value = value.as_f64().unwrap_or_else(|| panic!("{}: {} is no number", drive.name, doubt.key));
                let (low, high) = doubt.range(value);
                assert!((low..=high).contains(&value) && low < high, "{}: {} {value}", drive.name, doubt.key);
            }
        }
    }
}

fn moved(drive: &Drive, cause: UncertaintyCause, doubt: &UncertainConstant) -> Vec<Drive> {
    let ends = drive.extremes(cause, doubt).into_iter();
    let text = drive.to_toml();
    ends.map(|end| Drive::from_toml("d", &text, &[end]).unwrap_or_else(|found| panic!("{found}"))).collect()
}

#[test]
fn range_ends_of_a_constant_are_its_extremes() {
    // These drives cover each protocol and kind of memory. `phaselink reproduce --depends` checks all constants.
    for name in ["dc-express", "moneta", "pss", "capi-pcm-next", "cxl", "nvm-model-dram"] {
        let drive = Drive::shipped(name).unwrap();
        for (cause, doubt) in drive.relevant_uncertain_constants() {
            let ends = moved(&drive, cause, doubt);
            assert!(!ends.is_empty(), "{}: {}", drive.name, doubt.key);
            for end in ends {
                assert_ne!(end.value_of(&doubt.key), drive.value_of(&doubt.key), "{}: {}", drive.name, doubt.key);
            }
        }
    }
}

#[test]
fn extremes_of_a_fitted_constant_are_at_least_ten_percent_away() {
    let text = "preset = 'nvme'\n[[fitted]]\nkey = 'media.command_ns'\nlow = 193\nhigh = 195\nwhy = 'a narrow one'\n";
    let drive = read(text).unwrap();
    let doubts = drive.relevant_uncertain_constants();
    let (cause, doubt) = doubts.iter().find(|(_, doubt)| doubt.key == "media.command_ns").unwrap();
    let ends: Vec<f64> = moved(&drive, *cause, doubt)
        .iter()
        .map(|end| end.value_of("media.command_ns").unwrap().as_f64().unwrap())
        .collect();
    assert!((ends[0] - 174.6).abs() < 0.01 && (ends[1] - 213.4).abs() < 0.01, "{ends:?}");
}

#[test]
fn overriding_stage_costs_leaves_other_costs_unchanged() {
    let drive = Drive::shipped("disk-raid").unwrap();
    let key = |name: &str| drive.assumed.iter().chain(&drive.fitted).find(|doubt| doubt.key.ends_with(name)).unwrap();
    let values = [(key("I/O scheduler.submit_ns"), 70.0), (key("dequeue.lock_lines"), 12.0)];
    let overrides = drive.overrides_for(&values);
    let moved = Drive::from_toml("d", &drive.to_toml(), &overrides).unwrap();
    assert_eq!(moved.value_of("stack.stages.I/O scheduler.submit_ns"), Some(70.into()));
    assert_eq!(moved.value_of("stack.stages.dequeue.lock_lines"), Some(12.into()));
    assert_eq!(moved.value_of("stack.stages.application.submit_ns"), Some(426.into()));
    assert_eq!(stage_and_cost_of_key("stack.stages.I/O scheduler.submit_ns"), Some(("I/O scheduler", "submit_ns")));
    assert_eq!(stage_and_cost_of_key("media.read_ns"), None);
}

#[test]
fn mark_of_a_default_is_dropped_once_a_layer_gives_a_value() {
    let blank = read("interface = 'nvme'\n").unwrap();
    let is_doubted = |drive: &Drive| drive.assumed.iter().any(|doubt| doubt.key == "nvme.parse_ns");
    assert!(is_doubted(&blank));
    assert!(!is_doubted(&read("interface = 'nvme'\n[nvme]\nparse_ns = 32\n").unwrap()));
}

#[test]
fn uncertain_constants_of_other_protocols_are_omitted() {
    let drive = Drive::shipped("nvme-polled").unwrap();
    assert!(drive.relevant_uncertain_constants().iter().all(|(_, doubt)| !doubt.key.starts_with("moneta.")));
    assert!(drive.relevant_uncertain_constants().iter().any(|(_, doubt)| doubt.key.starts_with("nvme.")));
}
