//! Strict checks, which count host behaviour that the specification leaves undefined, or forbids without asking
//! controllers to detect it.
//!
//! Behaviour is counted by its kind, which helps the author of a driver. No command gets another status because of a
//! strict check.

use std::collections::BTreeSet;

use phaselink_core::protocol::nvme::commands::{self, Action};
use phaselink_core::protocol::nvme::rules::Limits;
use phaselink_core::protocol::nvme::spec::layout::ReservedDwordBits;
use phaselink_core::protocol::nvme::spec::{FLAGS, PAGE_BYTES, Status, SubmissionEntry};

use crate::device::tally::UndefinedBehaviour;

macro_rules! behaviours {
    ($($name:ident: $kind:literal, $what:literal, $section:literal;)*) => {
        $(
            #[doc = concat!("Behaviour that strict checks count: ", $what, ".")]
            pub static $name: UndefinedBehaviour = UndefinedBehaviour { kind: $kind, what: $what, section: $section };
        )*
        /// Every kind of behaviour that strict checks count.
        pub static ALL: &[&UndefinedBehaviour] = &[$(&$name),*];
    };
}

behaviours! {
    REGISTER_ACCESS: "register-access",
        "a write to a register is shorter than a word or not aligned", "Base 3.1";
    RESERVED_REGISTER_BITS: "reserved-register-bits",
        "a reserved bit of a register is set, or a read-only register is written", "Base 3.1.3";
    ENABLE_BEFORE_DISABLED: "enable-before-disabled",
        "CC.EN is set while CSTS.RDY is 1", "Base 3.1.3.5";
    DISABLE_BEFORE_READY: "disable-before-ready",
        "CC.EN is cleared while CSTS.RDY is 0: the host has not waited for CAP.TO", "Base 3.1.3.5";
    CONFIGURATION_WHILE_ENABLED: "configuration-while-enabled",
        "command set, page size or arbitration is changed while CC.EN is 1", "Base 3.1.3.5";
    ADMIN_QUEUE_WHILE_ENABLED: "admin-queue-while-enabled",
        "the admin queue is moved while CC.EN is 1", "Base 3.1.3.8 to 3.1.3.10";
    MASK_WITH_VECTORS: "mask-with-vectors",
        "INTMS or INTMC is written while MSI-X is enabled", "Base 3.1.3.3 and 3.1.3.4";
    DOORBELL_BEFORE_READY: "doorbell-before-ready",
        "a doorbell is written before CSTS.RDY is 1", "Base 3.5.1";
    DOORBELL_STALE: "doorbell-stale",
        "a doorbell is written with the value that it already has", "Base 5.2, Invalid Doorbell Write Value";
    DOORBELL_VALUE: "doorbell-value",
        "a doorbell is written with an index that its queue does not have", "Base 5.2, Invalid Doorbell Write Value";
    DOORBELL_OF_NO_QUEUE: "doorbell-of-no-queue",
        "the doorbell of a queue that does not exist is written", "Base 5.2, Write to Invalid Doorbell Register";
    DOORBELL_ACCESS: "doorbell-access",
        "a write to a doorbell is shorter than a word or not aligned", "PCIe Transport 3.1.2";
    RESERVED_COMMAND_BITS: "reserved-command-bits",
        "a reserved bit of a command is set", "Base 3.3.3.1";
    COMMAND_IDENTIFIER: "command-identifier",
        "a command has the identifier of another one in flight in its queue", "Base 3.3.3.1";
    PRP_NOT_ALIGNED: "prp-not-aligned",
        "the first PRP entry is not at a multiple of 4 bytes", "Base 4.1.1";
    PRP_OFFSET: "prp-offset",
        "a PRP entry that has to be a page, or a list of them, begins in the middle of one", "Base 4.1.1";
    PRP_WITHOUT_NEED: "prp-without-need",
        "the second PRP entry, which is reserved if the first is enough, is not 0", "Base 4.1.1";
    ABORT_OF_UNKNOWN: "abort-of-unknown",
        "Abort names a command that is not in flight", "Base 5.1";
    SUBMISSION_OVERRUN: "submission-overrun",
        "more commands are submitted than the queue has room for: entries are overwritten before they are fetched", "Base 3.3.1.5";
    COMPLETION_TORN: "completion-torn",
        "a completion is taken while its first double word is still the old one", "Base 3.3.3.2";
    COMPLETION_STALE: "completion-stale",
        "a completion is taken before its phase tag is inverted", "Base 3.3.3.2";
    QUEUE_BEYOND_MQES: "queue-beyond-mqes",
        "an I/O queue is to have more entries than CAP.MQES allows", "Base 3.1.3.1, 5.4 and 5.5";
    QUEUE_OVERLAP: "queue-overlap",
        "a queue is to be where another queue is", "Base 5.4 and 5.5, PRP Entry 1";
    DMA_OVERLAP: "dma-overlap",
        "a range of DMA addresses is mapped that overlaps another one", "vfio-user 0.1, VFIO_USER_DMA_MAP";
}

/// Strict checks of one queue set: counts of undefined behaviour by kind, and the commands in flight.
#[derive(Clone, Debug, Default)]
pub struct StrictQueueChecks {
    counts: Vec<(&'static UndefinedBehaviour, u64)>,
    /// Submission queue and command identifier of each command in flight.
    in_flight: BTreeSet<(u16, u16)>,
}

impl StrictQueueChecks {
    /// Counts one occurrence of an undefined behaviour.
    pub fn count(&mut self, behaviour: &'static UndefinedBehaviour) {
        match self.counts.iter_mut().find(|(counted, _)| counted.kind == behaviour.kind) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((behaviour, 1)),
        }
    }

    /// Counts `times` occurrences of an undefined behaviour.
    pub fn count_occurrences(&mut self, times: u64, behaviour: &'static UndefinedBehaviour) {
        (0..times).for_each(|_| self.count(behaviour));
    }

    fn count_if(&mut self, is_seen: bool, behaviour: &'static UndefinedBehaviour) {
        if is_seen {
            self.count(behaviour);
        }
    }

    /// Returns the counts of undefined behaviour since the last call, and sets them to zero.
    pub fn take(&mut self) -> Vec<(&'static UndefinedBehaviour, u64)> {
        std::mem::take(&mut self.counts)
    }

    /// Checks a fetched command for reserved bits and for a command identifier that is in use. `reserved` are the
    /// reserved bits of its row in the table of admin or I/O commands.
    pub fn on_command(&mut self, queue: u16, entry: &SubmissionEntry, reserved: ReservedDwordBits) {
        self.count_if(has_reserved_bits(entry, reserved), &RESERVED_COMMAND_BITS);
        let is_new = self.in_flight.insert((queue, entry.command_id));
        self.count_if(!is_new, &COMMAND_IDENTIFIER);
    }

    /// Checks the PRP entries of a command after its PRP lists have been read. `checked` is the result of the command's
    /// check.
    pub fn check_prp_entries(&mut self, entry: &SubmissionEntry, checked: &Result<commands::Command, Status>) {
        let data = match checked {
            Ok(command) => command.data.runs(),
            Err(Status::INVALID_PRP_OFFSET) if !entry.prp1.is_multiple_of(4) => return self.count(&PRP_NOT_ALIGNED),
            Err(Status::INVALID_PRP_OFFSET) => return self.count(&PRP_OFFSET),
            Err(_) => return,
        };
        let bytes: u64 = data.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
        let is_enough = bytes > 0 && entry.prp1 % PAGE_BYTES + bytes <= PAGE_BYTES;
        self.count_if(!entry.has_sgl_pointer() && is_enough && entry.prp2 != 0, &PRP_WITHOUT_NEED);
    }

    /// Removes a completed command from the commands in flight.
    pub fn on_completion(&mut self, queue: u16, command_id: u16) {
        self.in_flight.remove(&(queue, command_id));
    }

    /// Counts an Abort whose submission queue and command identifier belong to no command in flight.
    pub fn check_abort_target(&mut self, queue: u16, command_id: u16) {
        let is_known = self.in_flight.contains(&(queue, command_id));
        self.count_if(!is_known, &ABORT_OF_UNKNOWN);
    }

    /// Removes the commands of a deleted submission queue from those in flight; of all queues if `queue` is none.
    pub fn forget_deleted_queue(&mut self, queue: Option<u16>) {
        self.in_flight.retain(|(other, _)| queue.is_some_and(|queue| queue != *other));
    }
}

/// Returns the reserved bits of an I/O command on namespaces with these limits (NVM Command Set Specification 1.0,
/// sections 3.2.1 to 3.2.8, and the other command sets). Unknown opcodes have none.
pub fn reserved_bits(opcode: u8, limits: &Limits) -> ReservedDwordBits {
    let row = Action::ROWS.iter().find(|row| row.opcode == opcode && limits.kind.offers(row.set));
    row.map_or([0; 6], |row| row.reserved)
}

/// Returns true if the command has a reserved bit set in dword 0 or in dwords 10 to 15.
fn has_reserved_bits(entry: &SubmissionEntry, reserved: ReservedDwordBits) -> bool {
    let of_dwords = reserved.iter().zip(entry.dwords).any(|(reserved, dword)| reserved & dword != 0);
    of_dwords || entry.flags & !FLAGS != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use phaselink_core::drive::Drive;
    use phaselink_core::media::keys::KeyLayout;
    use phaselink_core::protocol::nvme::commands::opcode;
    use phaselink_core::protocol::nvme::rules::{KeyValueLimits, NamespaceKind};

    #[test]
    fn undefined_behaviours_have_unique_kinds_and_sections() {
        let names: BTreeSet<&str> = ALL.iter().map(|behaviour| behaviour.kind).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(ALL.iter().all(|behaviour| behaviour.section.contains(|letter: char| letter.is_ascii_digit())));
    }

    #[test]
    fn only_undefined_bits_count_as_reserved() {
        let blocks = Limits::of(&Drive::shipped("nvme").expect("a shipped drive"));
        let layout = KeyLayout { capacity_bytes: 1 << 20, granule_bytes: 512, keys_max: 24 };
        let key_value = KeyValueLimits { layout, key_bytes_max: 16, value_bytes_max: 4096, reports_missing: true };
        let keys = Limits { kind: NamespaceKind::Keyed(key_value), ..blocks };
        let has = |entry: &SubmissionEntry, limits| has_reserved_bits(entry, reserved_bits(entry.opcode, limits));
        let entry = |opcode, dwords| SubmissionEntry { opcode, dwords, ..SubmissionEntry::default() };
        // Use FUA, limited retry, a directive, and hints in the low byte of dword 13.
        for fine in [
            entry(opcode::WRITE, [1, 2, 7 | 0b1101 << 28 | 1 << 20, 0x12_0000_u32 | 0xff, 0, 0]),
            entry(opcode::READ, [1, 2, 7 | 1 << 24, 0xff, 0, 0]),
            entry(opcode::WRITE_ZEROES, [0, 0, 1 << 25, 0, 0, 0]),
            entry(opcode::DATASET_MANAGEMENT, [255, 7, 0, 0, 0, 0]),
        ] {
            assert!(!has(&fine, &blocks), "{fine:?}");
        }
        for wrong in [
            entry(opcode::FLUSH, [1, 0, 0, 0, 0, 0]),
            entry(opcode::READ, [0, 0, 1 << 16, 0, 0, 0]),
            entry(opcode::WRITE, [0, 0, 0, 1 << 8, 0, 0]),
            SubmissionEntry { flags: 1 << 2, ..entry(opcode::READ, [0; 6]) },
        ] {
            assert!(has(&wrong, &blocks), "{wrong:?}");
        }
        for (fine, wrong) in [
            (entry(opcode::STORE, [9, 0x0710, 0, 0, 1, 2]), entry(opcode::STORE, [9, 1 << 11, 0, 0, 0, 0])),
            (entry(opcode::RETRIEVE, [9, 0x0110, 0, 0, 1, 2]), entry(opcode::RETRIEVE, [9, 1 << 9, 0, 0, 0, 0])),
            (entry(opcode::LIST, [9, 0x10, 0, 0, 1, 2]), entry(opcode::LIST, [9, 1 << 8, 0, 0, 0, 0])),
            (entry(opcode::EXIST, [0, 0x10, 0, 0, 1, 2]), entry(opcode::EXIST, [1, 0, 0, 0, 0, 0])),
        ] {
            assert!(!has(&fine, &keys) && has(&wrong, &keys), "{fine:?} {wrong:?}");
        }
    }
}
