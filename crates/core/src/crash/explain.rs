//! Explanation of a crash image in words: each write that is missing or torn, and the rule that allows the drive to
//! lose it.
//!
//! Rules are clauses of the interface's specification, and keys of the drive file. Embedded drives, databases on them
//! and `phaselink crash` all use these sentences.

use std::collections::BTreeSet;

use super::image::{Image, RequestLoss};
use super::recording::{Durability, RecordedCommand, RecordedOp, Recording};
use super::timeline::CutTimeline;
use crate::drive::Drive;
use crate::request::Op;

/// Clauses of an interface's specification that allow a drive to lose data in a power failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossClauses {
    /// Clause that allows the loss of a command in flight.
    pub flying: String,
    /// Clause that allows the loss of a completed write, if no later flush has completed.
    pub completed: String,
    /// Clause that allows a write larger than the atomic unit to be torn.
    pub torn: String,
}

impl LossClauses {
    /// Returns the clauses of NVM Express, which an NBD server and the recordings made through it follow, too.
    pub fn of_nvm_express() -> LossClauses {
        LossClauses {
            flying: "NVM Express: nothing is promised of a command without a completion".into(),
            completed: "NVM Express Base Specification 2.0, Flush command: only what was completed before a flush was submitted \
                        is durable when that completes"
                .into(),
            torn: "NVM Command Set Specification 1.0, section 2.1.4: AWUPF".into(),
        }
    }

    /// Returns clauses for an interface without a specification of its own, by its name. `has_flush` is true if it has
    /// a flush command.
    pub fn other_interface_clauses(interface: &str, has_flush: bool) -> LossClauses {
        let completed = match has_flush {
            true => format!("{interface}: a flush makes durable only what was completed before it was submitted"),
            false => format!("{interface} has no command that flushes"),
        };
        LossClauses {
            flying: format!("{interface}: only a completion says that the drive has the data"),
            completed,
            torn: format!("{interface} has no atomic write beyond a block"),
        }
    }
}

/// Sentence in reports that says which changes of a zone a power failure loses.
const ORDER_OF_ZONES: &str = "What a zone loses are its latest changes, and its write pointer is behind the others (Zoned Namespace Command \
                              Set Specification 1.1, section 2.1: a zone is written in order).";

/// Rules that allow one drive to lose data in a power failure: clauses of its interface, and its own configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveLossRules {
    clauses: LossClauses,
    /// Text that names the keys of the drive file, or the property of the recorded drive, by which a completed write
    /// can be lost.
    keys: String,
}

impl DriveLossRules {
    /// Returns the rules by which a drive of this configuration may lose data in a power failure.
    pub fn of(drive: &Drive) -> DriveLossRules {
        let keys = format!(
            "the drive file allows it with media.acknowledge = \"{}\" and buffer.power_loss_protection = {}",
            drive.media.acknowledge.name(),
            drive.buffer.power_loss_protection
        );
        let own = drive.protocol().loss_clauses();
        let clauses = own.unwrap_or_else(|| {
            LossClauses::other_interface_clauses(drive.interface.name(), drive.limits().supports(Op::Flush))
        });
        DriveLossRules { clauses, keys }
    }

    /// Returns the rules by which a power failure may lose recorded writes. A recording names no drive, so that they
    /// are those of NVM Express.
    pub fn of_recording(recording: &Recording) -> DriveLossRules {
        let keys = match recording.rules.durability {
            Durability::OnFlush => "the recorded drive keeps a write once it is flushed",
            Durability::OnAcknowledgement => "the recorded drive keeps a write once it has completed",
        };
        DriveLossRules { clauses: LossClauses::of_nvm_express(), keys: keys.into() }
    }

    /// Returns the sentence for a request that completed with an error: the drive may have its old or its new data.
    fn failed_request_sentence(&self) -> String {
        String::from("It had failed, and a drive may have the old or the new data after an error, until a later flush.")
    }

    /// Returns a sentence with the rule that allows the loss of request `place` in this state of the drive.
    fn loss_sentence(&self, state: &CrashState<'_>, place: usize, loss: &RequestLoss) -> String {
        let LossClauses { flying, completed, torn } = &self.clauses;
        let rule = match (state.failed.contains(&place), state.timeline.had_completed(place, state.image.cut)) {
            (true, _) => self.failed_request_sentence(),
            (false, false) => format!("It was in flight ({flying})."),
            (false, true) => format!(
                "It had completed into a volatile buffer, and no later flush had completed ({completed}; {}).",
                self.keys
            ),
        };
        match loss {
            RequestLoss::All => rule,
            RequestLoss::AllBut(_) => {
                let atomic_bytes = state.recording.rules.atomic_bytes;
                format!("{rule} A write of more than {atomic_bytes} bytes may be torn ({torn}).")
            }
        }
    }

    /// Returns the sentences with the rules that allow all losses of a state. Each comes once, in the order of the
    /// requests, and the rule of zones last.
    pub fn applied(&self, state: &CrashState<'_>) -> Vec<String> {
        let mut rules = Vec::new();
        for (&place, loss) in &state.image.lost {
            let rule = self.loss_sentence(state, place, loss);
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        if state.image.lost.keys().any(|&place| state.recording.zone(place).is_some()) {
            rules.push(ORDER_OF_ZONES.into());
        }
        rules
    }

    /// Returns a sentence for each request whose state after the power failure differs from what reads returned before.
    /// It is missing, torn, or present although it failed; the sentence gives the rule that allows that.
    pub fn explanation(&self, state: &CrashState<'_>) -> Vec<String> {
        let CrashState { recording, image, failed, .. } = *state;
        let explain = |(&place, loss): (&usize, &RequestLoss)| {
            let lost = match loss {
                RequestLoss::All => String::from("is missing"),
                RequestLoss::AllBut(there) => {
                    let blocks = there.iter().map(|(first, last)| last - first + 1).sum::<u32>();
                    format!("is torn: {blocks} of its {} blocks are there", recording.pieces(place))
                }
            };
            format!("{} {lost}. {}", named(recording, place), self.loss_sentence(state, place, loss))
        };
        // Reads return the old data after a failed write. If that write is wholly lost, reads cannot tell the
        // difference, so do not list it as missed.
        let is_missed =
            |(place, loss): &(&usize, &RequestLoss)| !failed.contains(place) || !matches!(loss, RequestLoss::All);
        let missed = image.lost.iter().filter(is_missed).map(explain);
        let appeared = failed.iter().filter(|place| !image.lost.contains_key(place));
        let appeared = appeared.map(|&place| {
            format!("{} is there, although it had failed. {}", named(recording, place), self.failed_request_sentence())
        });
        missed.chain(appeared).collect()
    }
}

/// State of a drive after a power failure, with the recorded requests from which it follows.
#[derive(Clone, Copy, Debug)]
pub struct CrashState<'a> {
    /// Recording of the drive's requests and completions.
    pub recording: &'a Recording,
    /// Positions in the recording (power cuts) at which each request becomes durable.
    pub timeline: &'a CutTimeline,
    /// State of the drive: the cut, and the requests that are lost.
    pub image: &'a Image,
    /// Indices of the recorded requests that completed with an error.
    pub failed: &'a BTreeSet<usize>,
}

/// Returns a text for a request with its size and offset, as the subject of a sentence.
fn named(recording: &Recording, place: usize) -> String {
    let RecordedCommand { kind, offset, bytes, .. } = &recording.requests[place];
    let name = match kind {
        RecordedOp::Write(_) => "write",
        RecordedOp::Zero => "write zeroes",
        RecordedOp::Trim => "discard",
        RecordedOp::Reset => "zone reset",
        RecordedOp::Finish => "zone finish",
        RecordedOp::Flush => "flush",
    };
    format!("The {name} of {bytes} bytes at {offset}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::recording::{DurabilityRules, RecordedEventKind};

    #[test]
    fn loss_explanation_cites_clauses_and_keys_for_all_interfaces() {
        for (name, clause) in [("nvme", "NVM Express Base Specification"), ("cxl", "cxl"), ("ramdisk", "ramdisk")] {
            let rules = DriveLossRules::of(&Drive::shipped(name).unwrap());
            assert!(rules.clauses.completed.starts_with(clause), "{name}: {rules:?}");
            assert!(rules.keys.contains("buffer.power_loss_protection = "), "{name}: {rules:?}");
        }
    }

    #[test]
    fn loss_rule_shared_by_several_losses_is_evaluated_once() {
        let write = |offset| RecordedCommand {
            kind: RecordedOp::Write(vec![1; 1024].into()),
            offset,
            bytes: 1024,
            durable: false,
        };
        let recording = Recording {
            capacity_bytes: 8192,
            rules: DurabilityRules { block_bytes: 512, atomic_bytes: 512, durability: Durability::OnFlush },
            zones: None,
            requests: vec![write(0), write(1024), write(2048)],
            lines: Vec::new(),
            events: [
                RecordedEventKind::Arrived(0),
                RecordedEventKind::Completed(0),
                RecordedEventKind::Arrived(1),
                RecordedEventKind::Completed(1),
                RecordedEventKind::Arrived(2),
            ]
            .into(),
            prepared: 0,
        };
        let timeline = CutTimeline::new(&recording);
        let image = Image::parse("cut=5,missing=1-2,torn=3:1", &recording, &timeline).unwrap();
        let (failed, rules) = (BTreeSet::new(), DriveLossRules::of_recording(&recording));
        let state = CrashState { recording: &recording, timeline: &timeline, image: &image, failed: &failed };
        let applied = rules.applied(&state);
        assert!(applied.len() == 2 && applied[0].contains("Flush command"), "{applied:?}");
        assert!(applied[1].contains("in flight") && applied[1].contains("more than 512 bytes"), "{applied:?}");
        let lines = rules.explanation(&state);
        assert_eq!(lines.len(), 3);
        assert!(
            lines[2].starts_with("The write of 1024 bytes at 2048 is torn: 1 of its 2 blocks are there. It was in")
        );
    }
}
