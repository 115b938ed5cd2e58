//! Rules by which a drive may lose data with its power, in words: clauses of the interface's specification, and keys of the drive file.

use phaselink_core::crash::recording::{Durability, Recording};
use phaselink_core::drive::{Drive, Interface};
use phaselink_core::request::Op;

/// Rules of one drive.
#[derive(Clone, Debug)]
pub(crate) struct RuleWords {
    /// Clause that leaves a command in flight open.
    flying: String,
    /// Clause that lets a completed write be lost.
    completed: String,
    /// Clause that lets a write be torn, before the size up to which it may not.
    torn: String,
}

impl RuleWords {
    /// Returns the rules of a drive.
    pub(crate) fn of(drive: &Drive) -> RuleWords {
        let interface = drive.interface.name();
        let (flying, completed, torn) = match drive.interface {
            Interface::Nvme => (
                String::from(NVME_FLYING),
                String::from(NVME_FLUSH),
                String::from("NVM Command Set Specification 1.0, section 2.1.4: AWUPF, here `nvme.atomic_write_bytes`"),
            ),
            _ => {
                let completed = match drive.limits().supports(Op::Flush) {
                    true => {
                        format!("{interface}: a flush makes durable only what was completed before it was submitted")
                    }
                    false => format!("{interface} has no command that flushes"),
                };
                (
                    format!("{interface}: only a completion says that the drive has the data"),
                    completed,
                    format!("{interface} has no atomic write beyond a block"),
                )
            }
        };
        let acknowledge = drive.media.acknowledge.name();
        let keys = format!(
            "the drive file allows it with media.acknowledge = \"{acknowledge}\" and buffer.power_loss_protection = {}",
            drive.buffer.power_loss_protection
        );
        RuleWords { flying, completed: format!("{completed}; {keys}"), torn }
    }

    /// Returns the rules of a recording, which names no interface: `phaselink crash` takes the rules of NVMe.
    pub(crate) fn of_recording(recording: &Recording) -> RuleWords {
        let keys = match recording.rules.durability {
            Durability::OnFlush => "the recorded drive keeps a write once it is flushed",
            Durability::OnAcknowledgement => "the recorded drive keeps a write once it has completed",
        };
        RuleWords {
            flying: NVME_FLYING.into(),
            completed: format!("{NVME_FLUSH}; {keys}"),
            torn: "NVM Command Set Specification 1.0, section 2.1.4: AWUPF".into(),
        }
    }

    /// Returns the rule for a command that had no completion.
    pub(crate) fn of_flying(&self) -> String {
        format!("It was in flight ({}).", self.flying)
    }

    /// Returns the rule for a command that had completed.
    pub(crate) fn of_completed(&self) -> String {
        format!("It had completed into a volatile buffer, and no later flush had completed ({}).", self.completed)
    }

    /// Returns the rule for a command that had failed.
    pub(crate) fn of_failed(&self) -> String {
        String::from("It had failed, and a drive may have the old or the new data after an error, until a later flush.")
    }

    /// Returns the rule for a torn write, where writes of up to `atomic_bytes` are whole.
    pub(crate) fn of_torn(&self, atomic_bytes: u32) -> String {
        format!(" A write of more than {atomic_bytes} bytes may be torn ({}).", self.torn)
    }
}

const NVME_FLYING: &str = "NVM Express: nothing is promised of a command without a completion";
const NVME_FLUSH: &str = "NVM Express Base Specification 2.0, Flush command: only what was completed before a flush was submitted is \
                          durable when that completes";
