//! What hosts do that the specification leaves undefined, or tells them not to do without asking controllers to notice: counted
//! by kind, for whoever writes a driver. Nothing is answered differently because of it.
//!
//! Sections are those of the NVM Express Base Specification 2.0 where no other is named.

use std::collections::BTreeSet;

use phaselink_core::protocol::nvme::rules;
use phaselink_core::protocol::nvme::spec::{FLAGS, PAGE_BYTES, Status, SubmissionEntry, admin, opcode};

use crate::device::tally::Undefined;

macro_rules! behaviours {
    ($($name:ident: $kind:literal, $what:literal, $section:literal;)*) => {
        $(#[doc = $what] pub static $name: Undefined = Undefined { kind: $kind, what: $what, section: $section };)*
        /// All of them.
        pub static ALL: &[&Undefined] = &[$(&$name),*];
    };
}

behaviours! {
    REGISTER_ACCESS: "register-access",
        "a register is written in part, or not at its beginning", "Base 3.1";
    RESERVED_REGISTER_BITS: "reserved-register-bits",
        "reserved bits of a register are set, or one that cannot be written is", "Base 3.1.3";
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
        "a doorbell is rung before CSTS.RDY is 1", "Base 3.5.1";
    DOORBELL_STALE: "doorbell-stale",
        "a doorbell is given the value that it has", "Base 5.2, Invalid Doorbell Write Value";
    DOORBELL_VALUE: "doorbell-value",
        "a doorbell is given a value that its queue cannot have", "Base 5.2, Invalid Doorbell Write Value";
    DOORBELL_OF_NO_QUEUE: "doorbell-of-no-queue",
        "a doorbell is rung that no queue has", "Base 5.2, Write to Invalid Doorbell Register";
    DOORBELL_ACCESS: "doorbell-access",
        "a doorbell is written in part, or not at its beginning", "PCIe Transport 3.1.2";
    RESERVED_COMMAND_BITS: "reserved-command-bits",
        "reserved bits of a command are set", "Base 3.3.3.1";
    COMMAND_IDENTIFIER: "command-identifier",
        "a command has the identifier of one that is under way in its queue", "Base 3.3.3.1";
    PRP_NOT_ALIGNED: "prp-not-aligned",
        "the first PRP entry is not at a multiple of 4 bytes", "Base 4.1.1";
    PRP_OFFSET: "prp-offset",
        "a PRP entry that has to be a page, or a list of them, begins in the middle of one", "Base 4.1.1";
    PRP_WITHOUT_NEED: "prp-without-need",
        "the second PRP entry, which is reserved if the first is enough, is not 0", "Base 4.1.1";
    ABORT_OF_UNKNOWN: "abort-of-unknown",
        "Abort names a command that is not under way", "Base 5.1";
}

/// What is known of a host's behaviour.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    counts: Vec<(&'static Undefined, u64)>,
    /// Queue and identifier of each command that has not been answered.
    under_way: BTreeSet<(u16, u16)>,
}

impl Watch {
    /// It has been seen.
    pub fn note(&mut self, behaviour: &'static Undefined) {
        match self.counts.iter_mut().find(|(counted, _)| counted.kind == behaviour.kind) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((behaviour, 1)),
        }
    }

    fn note_if(&mut self, is_seen: bool, behaviour: &'static Undefined) {
        if is_seen {
            self.note(behaviour);
        }
    }

    /// What has been seen since the last time.
    pub fn take(&mut self) -> Vec<(&'static Undefined, u64)> {
        std::mem::take(&mut self.counts)
    }

    /// A command has been taken from a queue.
    pub fn on_command(&mut self, queue: u16, entry: &SubmissionEntry) {
        self.note_if(has_reserved(queue, entry), &RESERVED_COMMAND_BITS);
        let is_new = self.under_way.insert((queue, entry.command_id));
        self.note_if(!is_new, &COMMAND_IDENTIFIER);
    }

    /// It has been checked, with its lists.
    pub fn on_checked(&mut self, entry: &SubmissionEntry, checked: &Result<rules::Command, Status>) {
        let data = match checked {
            Ok(command) => command.data.runs(),
            Err(Status::INVALID_PRP_OFFSET) if !entry.prp1.is_multiple_of(4) => return self.note(&PRP_NOT_ALIGNED),
            Err(Status::INVALID_PRP_OFFSET) => return self.note(&PRP_OFFSET),
            Err(_) => return,
        };
        let bytes: u64 = data.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
        let is_enough = bytes > 0 && entry.prp1 % PAGE_BYTES + bytes <= PAGE_BYTES;
        self.note_if(!entry.is_sgl() && is_enough && entry.prp2 != 0, &PRP_WITHOUT_NEED);
    }

    /// A command is answered.
    pub fn on_answer(&mut self, queue: u16, command_id: u16) {
        self.under_way.remove(&(queue, command_id));
    }

    /// The host asks to abort a command.
    pub fn on_abort(&mut self, queue: u16, command_id: u16) {
        let is_known = self.under_way.contains(&(queue, command_id));
        self.note_if(!is_known, &ABORT_OF_UNKNOWN);
    }

    /// The commands of a queue are nobody's any more; those of all, if none is named.
    pub fn forget(&mut self, queue: Option<u16>) {
        self.under_way.retain(|(other, _)| queue.is_some_and(|queue| queue != *other));
    }
}

/// Reserved bits of command dwords 10 to 15.
type Reserved = [u32; 6];

const ALL_BITS: u32 = u32::MAX;
/// Nothing is said in any of them.
const NO_PARAMETERS: Reserved = [ALL_BITS; 6];
/// Of the commands that name blocks, in dword 12: bits 16 to 19 of a write (bits 20 to 23 are a directive's type), 16 to 23 of
/// the others; bit 25 of all but Write Zeroes.
const WRITE_TWELVE: u32 = 0x020f_0000;
const READ_TWELVE: u32 = 0x02ff_0000;
const ZERO_TWELVE: u32 = 0x00ff_0000;

/// Those of a command (NVM Command Set Specification 1.0, sections 3.2.1 to 3.2.8; Base Specification, sections 5.1 to 5.7);
/// none where many are defined and this host's business is its own.
fn reserved(queue: u16, opcode: u8) -> Reserved {
    match (queue, opcode) {
        (0, admin::DELETE_SUBMISSION_QUEUE | admin::DELETE_COMPLETION_QUEUE) => {
            [0xffff_0000, ALL_BITS, ALL_BITS, ALL_BITS, ALL_BITS, ALL_BITS]
        }
        (0, admin::ABORT) => [0, ALL_BITS, ALL_BITS, ALL_BITS, ALL_BITS, ALL_BITS],
        (0, admin::ASYNC_EVENT_REQUEST | admin::KEEP_ALIVE) => NO_PARAMETERS,
        (0, _) => [0; 6],
        (_, opcode::FLUSH) => NO_PARAMETERS,
        (_, opcode::READ) => [0, 0, READ_TWELVE, 0xffff_ff00, 0, 0],
        (_, opcode::WRITE) => [0, 0, WRITE_TWELVE, 0x0000_ff00, 0, 0],
        (_, opcode::COMPARE | opcode::VERIFY) => [0, 0, READ_TWELVE, ALL_BITS, 0, 0],
        (_, opcode::WRITE_ZEROES) => [0, 0, ZERO_TWELVE, ALL_BITS, 0, 0],
        (_, opcode::DATASET_MANAGEMENT) => [0xffff_ff00, 0xffff_fff8, ALL_BITS, ALL_BITS, ALL_BITS, ALL_BITS],
        _ => [0; 6],
    }
}

fn has_reserved(queue: u16, entry: &SubmissionEntry) -> bool {
    let of_dwords =
        reserved(queue, entry.opcode).iter().zip(entry.dwords).any(|(reserved, dword)| reserved & dword != 0);
    of_dwords || entry.flags & !FLAGS != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_name_of_its_own_and_a_section() {
        let names: BTreeSet<&str> = ALL.iter().map(|behaviour| behaviour.kind).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(ALL.iter().all(|behaviour| behaviour.section.contains(|letter: char| letter.is_ascii_digit())));
    }

    #[test]
    fn reserved_bits_are_those_that_nothing_is_said_in() {
        let entry = |opcode, dwords| SubmissionEntry { opcode, dwords, ..SubmissionEntry::default() };
        // FUA, limited retry, a directive, hints for the whole of dword 13's low byte.
        for fine in [
            entry(opcode::WRITE, [1, 2, 7 | 0b1101 << 28 | 1 << 20, 0x12_0000_u32 | 0xff, 0, 0]),
            entry(opcode::READ, [1, 2, 7 | 1 << 24, 0xff, 0, 0]),
            entry(opcode::WRITE_ZEROES, [0, 0, 1 << 25, 0, 0, 0]),
            entry(opcode::DATASET_MANAGEMENT, [255, 7, 0, 0, 0, 0]),
        ] {
            assert!(!has_reserved(1, &fine), "{fine:?}");
        }
        for wrong in [
            entry(opcode::FLUSH, [1, 0, 0, 0, 0, 0]),
            entry(opcode::READ, [0, 0, 1 << 16, 0, 0, 0]),
            entry(opcode::WRITE, [0, 0, 0, 1 << 8, 0, 0]),
            SubmissionEntry { flags: 1 << 2, ..entry(opcode::READ, [0; 6]) },
        ] {
            assert!(has_reserved(1, &wrong), "{wrong:?}");
        }
        assert!(has_reserved(0, &entry(admin::KEEP_ALIVE, [0, 0, 0, 0, 0, 1])));
        assert!(!has_reserved(0, &entry(admin::IDENTIFY, [1, 0, 0, 0, 0, 0])));
    }
}
