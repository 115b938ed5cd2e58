//! The controller's registers as a latch: what the host has written, and what it reads (Base Specification 2.0, section
//! 3.1.3).
//!
//! Writing has no effect but here; the controller looks at what has been written when its turn comes. So a host may
//! write at any moment, also while the controller waits for that host's memory.

use phaselink_core::protocol::nvme::rules::Limits;

use super::{VERSION, strict};
use crate::device::tally::Undefined;

/// Bytes before the doorbells.
pub const REGISTER_BYTES: u64 = 0x1000;

/// Offsets (figure 35).
mod at {
    pub(super) const CAP: u64 = 0x00;
    pub(super) const CAP_HIGH: u64 = 0x04;
    pub(super) const VS: u64 = 0x08;
    pub(super) const INTMS: u64 = 0x0c;
    pub(super) const INTMC: u64 = 0x10;
    pub(super) const CC: u64 = 0x14;
    pub(super) const CSTS: u64 = 0x1c;
    pub(super) const AQA: u64 = 0x24;
    pub(super) const ASQ: u64 = 0x28;
    pub(super) const ASQ_HIGH: u64 = 0x2c;
    pub(super) const ACQ: u64 = 0x30;
    pub(super) const ACQ_HIGH: u64 = 0x34;
    pub(super) const CRTO: u64 = 0x68;
}

/// Time within which the controller is ready, in units of 500 ms: it always is at once, and hosts that share a busy
/// processor with it are not to give up.
const TIMEOUT: u64 = 20;
/// CAP (figure 36) without MQES: queues contiguous (CQR), the NVM command set, controller ready with media (CRWMS),
/// doorbells 4 bytes apart, pages of 4 KiB and no others.
const CAPABILITIES: u64 = 1 << 16 | TIMEOUT << 24 | 1 << 37 | 1 << 59;

/// CC.EN (figure 46).
const ENABLE: u32 = 1;
/// Bits of CC that a host may set: EN, CSS, MPS, AMS, SHN, IOSQES, IOCQES, CRIME.
const CONFIGURATION_BITS: u32 = 0x01ff_fff1;

/// Those that are set before the controller is enabled: CSS, MPS, AMS.
const CONFIGURED_BEFORE: u32 = 0x3ff0;

/// CSTS (figure 47): ready, fatal, and the two bits of shutdown.
const READY: u32 = 1;
const FATAL: u32 = 1 << 1;
const SHUTDOWN_COMPLETE: u32 = 0b10 << 2;
const SHUTDOWN_BITS: u32 = 0b11 << 2;

/// What the registers hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registers {
    capabilities: u64,
    configuration: u32,
    status: u32,
    admin_entries: u32,
    admin_submission: u64,
    admin_completion: u64,
    /// INTMS and INTMC: vectors that are masked, for interrupts by pin.
    pub masked: u32,
    /// The host has disabled the controller, or reset it, and the controller has yet to follow.
    pub reset: bool,
    /// Interrupts by pin may have been held up and are due again.
    pub recheck: bool,
    /// A doorbell has been rung that no queue can have.
    pub invalid_doorbell: bool,
    /// What the host has done that is undefined, where that is looked for, until it is counted.
    seen: Option<Vec<&'static Undefined>>,
}

impl Registers {
    /// Those of a controller with these limits, just switched on.
    pub fn new(limits: &Limits) -> Registers {
        Registers::with(CAPABILITIES | u64::from(limits.entries_field()))
    }

    fn with(capabilities: u64) -> Registers {
        Registers {
            capabilities,
            configuration: 0,
            status: 0,
            admin_entries: 0,
            admin_submission: 0,
            admin_completion: 0,
            masked: 0,
            reset: false,
            recheck: false,
            invalid_doorbell: false,
            seen: None,
        }
    }

    /// From now on, look for what the specification leaves undefined.
    pub fn watch(&mut self) {
        self.seen.get_or_insert_default();
    }

    /// Whether that is looked for.
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.seen.is_some()
    }

    /// The host has done this, which counts if it is looked for.
    pub fn note(&mut self, is_seen: bool, behaviour: &'static Undefined) {
        if let Some(seen) = self.seen.as_mut().filter(|_| is_seen) {
            seen.push(behaviour);
        }
    }

    /// What has been seen since the last time.
    #[inline]
    pub fn take_seen(&mut self) -> Vec<&'static Undefined> {
        self.seen.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What a host reads from `offset` on, of any length; beyond the registers, zeros.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        for (place, byte) in into.iter_mut().enumerate() {
            let at = offset.saturating_add(place as u64);
            *byte = self.word(at & !3).to_le_bytes()[(at & 3) as usize];
        }
    }

    fn word(&self, offset: u64) -> u32 {
        match offset {
            at::CAP => self.capabilities as u32,
            at::CAP_HIGH => (self.capabilities >> 32) as u32,
            at::VS => VERSION,
            at::INTMS | at::INTMC => self.masked,
            at::CC => self.configuration,
            at::CSTS => self.status,
            at::AQA => self.admin_entries,
            at::ASQ => self.admin_submission as u32,
            at::ASQ_HIGH => (self.admin_submission >> 32) as u32,
            at::ACQ => self.admin_completion as u32,
            at::ACQ_HIGH => (self.admin_completion >> 32) as u32,
            at::CRTO => TIMEOUT as u32,
            _ => 0,
        }
    }

    /// Whether the registers that mask interrupts by pin begin there.
    pub fn masks(offset: u64) -> bool {
        matches!(offset, at::INTMS | at::INTMC)
    }

    /// A host writes from `offset` on. What is no whole number of words has no effect, as the specification leaves it
    /// open (section 3.1).
    pub fn write(&mut self, offset: u64, from: &[u8]) {
        let (words, rest) = from.as_chunks();
        if !rest.is_empty() || !offset.is_multiple_of(4) {
            return self.note(true, &strict::REGISTER_ACCESS);
        }
        for (place, word) in (0..).zip(words) {
            self.write_word(offset.saturating_add(place * 4), u32::from_le_bytes(*word));
        }
    }

    fn write_word(&mut self, offset: u64, value: u32) {
        if self.is_watched() {
            self.look_at_write(offset, value);
        }
        let low = |whole: u64| whole & !0xffff_ffff | u64::from(value & !0xfff);
        let high = |whole: u64| whole & 0xffff_ffff | u64::from(value) << 32;
        match offset {
            at::INTMS => self.masked |= value,
            at::INTMC => {
                self.masked &= !value;
                self.recheck = true;
            }
            at::CC => self.configure(value),
            // The admin queue changes only while the controller is disabled (sections 3.1.3.8 to 3.1.3.10).
            _ if self.is_enabled() => {}
            at::AQA => self.admin_entries = value & 0x0fff_0fff,
            at::ASQ => self.admin_submission = low(self.admin_submission),
            at::ASQ_HIGH => self.admin_submission = high(self.admin_submission),
            at::ACQ => self.admin_completion = low(self.admin_completion),
            at::ACQ_HIGH => self.admin_completion = high(self.admin_completion),
            _ => {}
        }
    }

    /// Whether writing a word is left undefined.
    fn look_at_write(&mut self, offset: u64, value: u32) {
        let reserved = match offset {
            at::CC => {
                self.look_at_configuration(value);
                value & !CONFIGURATION_BITS
            }
            at::AQA => value & !0x0fff_0fff,
            at::ASQ | at::ACQ => value & 0xfff,
            at::INTMS | at::INTMC | at::ASQ_HIGH | at::ACQ_HIGH => 0,
            // What only the controller writes, or nobody.
            _ => u32::MAX,
        };
        self.note(reserved != 0, &strict::RESERVED_REGISTER_BITS);
        let is_of_admin_queue = (at::AQA..=at::ACQ_HIGH).contains(&offset);
        self.note(is_of_admin_queue && self.is_enabled(), &strict::ADMIN_QUEUE_WHILE_ENABLED);
    }

    fn look_at_configuration(&mut self, value: u32) {
        let (was_enabled, is_ready) = (self.is_enabled(), self.is_ready());
        let enables = value & ENABLE != 0;
        self.note(!was_enabled && enables && is_ready, &strict::ENABLE_BEFORE_DISABLED);
        self.note(was_enabled && !enables && !is_ready, &strict::DISABLE_BEFORE_READY);
        let changed = (self.configuration ^ value) & CONFIGURED_BEFORE;
        self.note(was_enabled && enables && changed != 0, &strict::CONFIGURATION_WHILE_ENABLED);
    }

    fn configure(&mut self, value: u32) {
        let was_enabled = self.is_enabled();
        self.configuration = value & CONFIGURATION_BITS;
        self.reset |= was_enabled && !self.is_enabled();
    }

    /// Everything is as after power-on, and the controller is to follow.
    pub fn reset_device(&mut self) {
        *self = Registers { reset: true, seen: self.seen.take(), ..Registers::with(self.capabilities) };
    }

    /// CC.EN.
    pub fn is_enabled(&self) -> bool {
        self.configuration & ENABLE != 0
    }

    /// CC.SHN: whether the host wants to switch off.
    pub fn wants_shutdown(&self) -> bool {
        matches!(self.configuration >> 14 & 3, 1 | 2)
    }

    /// Whether the host asks for something that is there: the NVM command set, pages of 4 KiB, round robin.
    pub fn is_configuration_valid(&self) -> bool {
        let (command_set, page, arbitration) =
            (self.configuration >> 4 & 7, self.configuration >> 7 & 15, self.configuration >> 11 & 7);
        command_set == 0 && page == 0 && arbitration == 0
    }

    /// CC.IOSQES and CC.IOCQES: powers of two of the sizes of entries.
    pub fn entry_sizes(&self) -> (u32, u32) {
        (self.configuration >> 16 & 15, self.configuration >> 20 & 15)
    }

    /// Address and entries of the admin submission queue, and of its completion queue.
    pub fn admin_queues(&self) -> [(u64, u32); 2] {
        let entries = |shift: u32| (self.admin_entries >> shift & 0xfff) + 1;
        [(self.admin_submission, entries(0)), (self.admin_completion, entries(16))]
    }

    /// CSTS.RDY.
    pub fn set_ready(&mut self, ready: bool) {
        self.status = if ready { READY } else { 0 };
    }

    /// Whether it is set.
    pub fn is_ready(&self) -> bool {
        self.status & READY != 0
    }

    /// CSTS.CFS: only a reset helps.
    pub fn set_fatal(&mut self) {
        self.status |= FATAL;
    }

    /// Whether it is set.
    pub fn is_fatal(&self) -> bool {
        self.status & FATAL != 0
    }

    /// CSTS.SHST: it is safe to switch off; or no longer.
    pub fn set_shut_down(&mut self, down: bool) {
        self.status = self.status & !SHUTDOWN_BITS | if down { SHUTDOWN_COMPLETE } else { 0 };
    }

    /// Whether it is.
    pub fn is_shut_down(&self) -> bool {
        self.status & SHUTDOWN_BITS == SHUTDOWN_COMPLETE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(registers: &Registers, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        registers.read(offset, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    #[test]
    fn a_register_reads_the_same_whole_in_halves_and_in_bytes() {
        let registers = Registers::with(CAPABILITIES | 63);
        let mut whole = [0; 8];
        registers.read(0, &mut whole);
        let halves = u64::from(word(&registers, 0)) | u64::from(word(&registers, 4)) << 32;
        assert_eq!(u64::from_le_bytes(whole), halves);
        let mut byte = [0];
        registers.read(3, &mut byte);
        assert_eq!(byte[0], TIMEOUT as u8);
        assert_eq!((word(&registers, 0) & 0xffff, word(&registers, 8)), (63, 0x0002_0000));
        // CMBSZ, PMRCAP: none of it is there.
        assert_eq!((word(&registers, 0x3c), word(&registers, 0xe00)), (0, 0));
    }

    #[test]
    fn the_admin_queue_can_be_moved_only_while_the_controller_is_disabled() {
        let mut registers = Registers::with(CAPABILITIES);
        registers.write(0x28, &0x1234_5678_9abc_def0_u64.to_le_bytes());
        registers.write(0x24, &0x00ff_003f_u32.to_le_bytes());
        assert_eq!(registers.admin_queues(), [(0x1234_5678_9abc_d000, 64), (0, 256)]);
        registers.write(0x14, &1_u32.to_le_bytes());
        registers.write(0x28, &[0; 8]);
        assert_eq!(registers.admin_queues()[0].0, 0x1234_5678_9abc_d000);
    }

    #[test]
    fn disabling_is_kept_until_the_controller_has_followed_even_if_it_is_enabled_again_before() {
        let mut registers = Registers::with(CAPABILITIES);
        for value in [1_u32, 0, 1] {
            registers.write(0x14, &value.to_le_bytes());
        }
        assert!(registers.reset && registers.is_enabled());
    }

    /// Base Specification 2.0, sections 3.1.3.5 and 3.1.3.8 to 3.1.3.10.
    #[test]
    fn only_reserved_bits_of_what_a_host_may_write_are_reported() {
        for (offset, value) in
            [(at::CC, CONFIGURATION_BITS), (at::AQA, 0x0fff_0fff), (at::ASQ, !0xfff), (at::ACQ, !0xfff)]
        {
            let reserved = |value: u32| {
                let mut registers = Registers::with(CAPABILITIES);
                registers.watch();
                registers.write(offset, &value.to_le_bytes());
                registers.take_seen().contains(&&strict::RESERVED_REGISTER_BITS)
            };
            assert!(!reserved(value) && reserved(!value), "register {offset:x}");
        }
    }

    #[test]
    fn what_is_no_whole_word_changes_nothing() {
        let mut registers = Registers::with(CAPABILITIES);
        registers.write(0x14, &[1]);
        registers.write(0x16, &1_u32.to_le_bytes());
        registers.write(u64::MAX - 3, &[1; 8]);
        assert_eq!(registers, Registers::with(CAPABILITIES));
    }
}
