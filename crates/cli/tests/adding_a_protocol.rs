//! The example of `docs/adding-a-protocol.md`: its code is the tree's, and every command knows the drive.

mod common;

use std::fs;
use std::path::Path;

use common::{ROOT, phaselink, printed};

#[test]
fn protocol_page_code_equals_the_example_folder() {
    let page = fs::read_to_string(Path::new(ROOT).join("crates/cli/docs/adding-a-protocol.md")).unwrap();
    let sources = sources();
    let blocks: Vec<&str> =
        page.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap().trim_end()).collect();
    assert!(blocks.len() >= 8, "{} blocks", blocks.len());
    for block in blocks {
        assert!(sources.contains(block), "not in the tree:\n{block}");
    }
}

/// The example's folder, and the list.
fn sources() -> String {
    let protocols = Path::new(ROOT).join("crates/core/src/protocol");
    let files = fs::read_dir(protocols.join("ramdisk")).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.chain([protocols.join("mod.rs")]).map(|file| fs::read_to_string(file).unwrap());
    texts.collect::<Vec<_>>().join("\n")
}

#[test]
fn all_commands_accept_the_example_protocol() {
    assert!(printed("check ramdisk --set ramdisk.slots=8").contains("slots                   8  --set"));
    assert!(printed("compare ramdisk nvme --bs 4k --iodepth 1 --ios 200").contains("ramdisk"));
    assert!(printed("predict ramdisk").contains("command parser"));
    assert!(printed("trace ramdisk").contains("doorbell, 48 B"));
    assert!(printed("check").contains("ramdisk"));
}

#[test]
fn wrong_key_of_the_example_protocol_is_reported() {
    let ran = phaselink("run ramdisk --set ramdisk.slot=3");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("did you mean slots?"), "{}", ran.stderr);
}

#[test]
fn example_protocol_keeps_data_with_splits_and_few_slots() {
    for more in ["--bs 4k --iodepth 16", "--bs 512k --iodepth 2", "--bs 512 --iodepth 32 --set ramdisk.slots=3"] {
        let text = printed(&format!("run ramdisk --rw randrw --size 8m --number-ios 400 --verify {more}"));
        assert!(text.contains("data_errors"), "{text}");
        let errors = text.lines().find(|line| line.contains("data_errors")).unwrap();
        assert_eq!(errors.split_whitespace().last(), Some("0"), "{more}: {text}");
    }
}
