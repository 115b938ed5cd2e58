//! Tests of the texts of keys, which stand alone in docs/keys.md, in the drive schema and in editors.

use std::collections::BTreeSet;

use crate::config::section::Section;
use crate::config::{Fault, StackStage, UncertainConstant};
use crate::drive::Drive;

/// Beginnings of texts that need another text to be understood, or that are a clause instead of a sentence.
const LEANING: [&str; 12] = [
    "The same",
    "It ",
    "Those ",
    "That of",
    "Likewise",
    "All of them",
    "They ",
    "What ",
    "Whether ",
    "How ",
    "Who ",
    "Where ",
];

#[test]
fn key_texts_of_a_section_are_distinct_and_self_contained() {
    let drive = Drive::blank();
    let header = drive.header();
    let (fault, stage, constant) = (Fault::default(), StackStage::default(), UncertainConstant::default());
    let lists: [&dyn Section; 4] = [&header, &fault, &stage, &constant];
    let parts: [&dyn Section; 16] = [
        &drive.link,
        &drive.switch,
        &drive.peer,
        &drive.dma,
        &drive.host,
        &drive.root_complex,
        &drive.stack,
        &drive.power,
        &drive.media,
        &drive.controller,
        &drive.buffer,
        &drive.translation,
        &drive.volume,
        &drive.zones,
        &drive.placement,
        &drive.key_value,
    ];
    for section in lists.into_iter().chain(parts) {
        let keys = section.keys();
        let texts: BTreeSet<&str> = keys.iter().map(|key| key.about).collect();
        assert_eq!(texts.len(), keys.len(), "two keys of [{}] share a text", section.path());
        let leaning = keys.iter().find(|key| LEANING.iter().any(|start| key.about.starts_with(start)));
        let leaning = leaning.map(|key| (key.name, key.about));
        assert_eq!(leaning, None, "a text of [{}] needs another one to be understood", section.path());
    }
}
