//! Targets that read from the socket at which faults are added and cleared.

use phaselink_core::drive::Drive;
use phaselink_serve::control::{Conversation, LINE_BYTES_MAX};
use phaselink_serve::device::faults::{FaultRuleScope, Faults, RULES_MAX};

use crate::Target;

/// Checks that each line has a response, that there are no more rules than allowed, and that no input is kept for long.
/// The first byte determines the pieces in which the rest arrives.
pub(super) const CONTROL: Target = Target { name: "control", run, seeds };

fn run(input: &[u8]) {
    let Some((first, bytes)) = input.split_first() else { return };
    let drive = Drive::shipped("nvme").expect("it is shipped");
    let faults =
        Faults::new(FaultRuleScope { model: first & 1 == 0, interrupts: first & 2 == 0, connections: first & 4 == 0 });
    let (mut conversation, mut answers) = (Conversation::default(), 0);
    for piece in bytes.chunks(usize::from(*first).max(1)) {
        conversation.add_input(piece);
        while let Some(answer) = conversation.answer(&drive, &faults) {
            assert!(answer.is_object() && !answer.to_string().contains('\n'), "{answer}");
            answers += 1;
        }
        assert!(conversation.kept_bytes() <= LINE_BYTES_MAX, "{} bytes are kept", conversation.kept_bytes());
    }
    let rules = faults.list();
    let rules = rules.as_array().expect("a list");
    assert!(rules.len() <= RULES_MAX);
    let is_short = bytes.split(|byte| *byte == b'\n').all(|line| line.len() < LINE_BYTES_MAX);
    if is_short {
        assert_eq!(answers, bytes.iter().filter(|byte| **byte == b'\n').count());
    }
    for rule in rules {
        let table = rule["fault"].as_object().expect("a table");
        let line: Vec<String> = table.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        let again = drive.fault_from_line("again", &line.join(", ")).expect("a rule reads back");
        assert_eq!(&again.table(), table);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "\x09add action = \"error\", operation = \"read\", every = 4\nlist\nclear 1\nlist\nclear\n",
        "\x40{ action = \"delay\", delay_us = 50, probability = 0.5 }\n{ action = \"torn-write\", first = 3 }\nlist\n",
        "\x04add action = \"slow-bank\", bank = 3, factor = 2.5\nadd action = \"retrain\", lanes = 1, from_us = 1e3\n",
        "\x00add action = \"corrupt-packet\", direction = \"to-device\", until_us = 7\nclear 9\nhelp\n\n",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}
