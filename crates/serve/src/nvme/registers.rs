//! Controller registers (Base Specification 2.0, section 3.1.3), as the host writes and reads them.
//!
//! A write changes only this module. The controller acts on it later, in
//! [`Controller::update`](super::Controller::update). So a host may write at any moment, even while the controller
//! waits for that host's memory.

use phaselink_core::number::{length, low_u32};
use phaselink_core::protocol::nvme::rules::Limits;

use super::kinds::{BLOCK_COMMAND_SET, FURTHER_COMMAND_SETS, KindRow};
use super::limits::VERSION;
use super::strict;
use crate::device::tally::UndefinedBehaviour;

/// Length in bytes of the register space, after which the doorbells begin.
pub const REGISTER_BYTES: u64 = 0x1000;

/// Byte offsets of the controller registers.
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

/// Value of CAP.TO: most time until CSTS.RDY changes, in units of 500 ms. The controller is ready at once; the long
/// timeout is for hosts that share a busy processor with it.
const READY_TIMEOUT: u64 = 20;
/// Value of CAP without MQES and CSS: contiguous queues (CQR), weighted round robin arbitration (AMS), controller ready
/// with media (CRMS), doorbells 4 bytes apart, and pages of 4 KiB only.
const CAPABILITIES: u64 = 1 << 16 | 1 << 17 | READY_TIMEOUT << 24 | 1 << 59;
/// Value of CC.CSS that selects all supported I/O command sets.
const ALL_COMMAND_SETS: u32 = 0b110;

/// Value of CC.AMS for weighted round robin with urgent priority class.
const WEIGHTED_ROUND_ROBIN: u32 = 1;

/// Enable bit CC.EN.
const ENABLE: u32 = 1;
/// Bits of CC that a host may set: EN, CSS, MPS, AMS, SHN, IOSQES, IOCQES, CRIME.
const CONFIGURATION_BITS: u32 = 0x01ff_fff1;

/// Bits of CC that may change only while the controller is disabled: CSS, MPS, AMS.
const FIXED_WHILE_ENABLED: u32 = 0x3ff0;

/// Ready bit CSTS.RDY.
const READY: u32 = 1;
/// Controller fatal status bit CSTS.CFS.
const FATAL: u32 = 1 << 1;
/// Value of CSTS.SHST for "shutdown processing complete", in its place in CSTS.
const SHUTDOWN_COMPLETE: u32 = 0b10 << 2;
/// Mask of CSTS.SHST in CSTS.
const SHUTDOWN_BITS: u32 = 0b11 << 2;

/// Register values, and the register changes that the controller has yet to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerRegisters {
    capabilities: u64,
    configuration: u32,
    status: u32,
    admin_entries: u32,
    admin_submission: u64,
    admin_completion: u64,
    /// Interrupt vectors that the host has masked by INTMS, for pin-based interrupts.
    pub masked: u32,
    /// True if the host has disabled or reset the controller, until the controller has acted on it.
    pub reset: bool,
    /// True if the host has unmasked pin-based interrupts, so that unread completions must raise one again.
    pub interrupts_unmasked: bool,
    /// True if the host has written the doorbell of a queue that cannot exist, until that is reported.
    pub invalid_doorbell: bool,
    /// Undefined host behaviour seen since the last [`ControllerRegisters::take_undefined`], or none if strict checks are off.
    undefined: Option<Vec<&'static UndefinedBehaviour>>,
}

impl ControllerRegisters {
    /// Returns the registers of a controller with these limits after power-on.
    pub fn new(limits: &Limits) -> ControllerRegisters {
        let command_sets = KindRow::of(&limits.kind).capabilities;
        ControllerRegisters::with(CAPABILITIES | command_sets | u64::from(limits.entries_field()))
    }

    fn with(capabilities: u64) -> ControllerRegisters {
        ControllerRegisters {
            capabilities,
            configuration: 0,
            status: 0,
            admin_entries: 0,
            admin_submission: 0,
            admin_completion: 0,
            masked: 0,
            reset: false,
            interrupts_unmasked: false,
            invalid_doorbell: false,
            undefined: None,
        }
    }

    /// Turns strict checks of register writes on.
    pub fn check_strictly(&mut self) {
        self.undefined.get_or_insert_default();
    }

    /// Returns true if strict checks of register writes are on.
    #[inline]
    pub fn is_strict(&self) -> bool {
        self.undefined.is_some()
    }

    /// Records undefined behaviour of the host if `is_seen` is true and strict checks are on.
    pub fn note(&mut self, is_seen: bool, behaviour: &'static UndefinedBehaviour) {
        if let Some(undefined) = self.undefined.as_mut().filter(|_| is_seen) {
            undefined.push(behaviour);
        }
    }

    /// Returns the undefined host behaviour seen since the last call.
    #[inline]
    pub fn take_undefined(&mut self) -> Vec<&'static UndefinedBehaviour> {
        self.undefined.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Copies register bytes from `offset` on into `into`. Bytes that belong to no register read as zeros.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        for (place, byte) in into.iter_mut().enumerate() {
            let at = offset.saturating_add(length(place));
            *byte = self.word(at & !3).to_le_bytes()[(at & 3) as usize];
        }
    }

    fn word(&self, offset: u64) -> u32 {
        match offset {
            at::CAP => low_u32(self.capabilities),
            at::CAP_HIGH => low_u32(self.capabilities >> 32),
            at::VS => VERSION,
            at::INTMS | at::INTMC => self.masked,
            at::CC => self.configuration,
            at::CSTS => self.status,
            at::AQA => self.admin_entries,
            at::ASQ => low_u32(self.admin_submission),
            at::ASQ_HIGH => low_u32(self.admin_submission >> 32),
            at::ACQ => low_u32(self.admin_completion),
            at::ACQ_HIGH => low_u32(self.admin_completion >> 32),
            at::CRTO => low_u32(READY_TIMEOUT),
            _ => 0,
        }
    }

    /// Returns true if INTMS or INTMC begins at `offset`.
    pub fn is_interrupt_mask(offset: u64) -> bool {
        matches!(offset, at::INTMS | at::INTMC)
    }

    /// Writes registers from `offset` on. A write that is unaligned, or no whole number of 32-bit words, has no effect.
    /// The specification leaves its result undefined (section 3.1).
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
        if self.is_strict() {
            self.check_register_write(offset, value);
        }
        let low = |whole: u64| whole & !0xffff_ffff | u64::from(value & !0xfff);
        let high = |whole: u64| whole & 0xffff_ffff | u64::from(value) << 32;
        match offset {
            at::INTMS => self.masked |= value,
            at::INTMC => {
                self.masked &= !value;
                self.interrupts_unmasked = true;
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

    /// Records the undefined behaviour in the write of a 32-bit word to a register, for strict checks.
    fn check_register_write(&mut self, offset: u64, value: u32) {
        let reserved = match offset {
            at::CC => {
                self.check_configuration_write(value);
                value & !CONFIGURATION_BITS
            }
            at::AQA => value & !0x0fff_0fff,
            at::ASQ | at::ACQ => value & 0xfff,
            at::INTMS | at::INTMC | at::ASQ_HIGH | at::ACQ_HIGH => 0,
            // Read-only registers, and offsets without a register.
            _ => u32::MAX,
        };
        self.note(reserved != 0, &strict::RESERVED_REGISTER_BITS);
        let is_of_admin_queue = (at::AQA..=at::ACQ_HIGH).contains(&offset);
        self.note(is_of_admin_queue && self.is_enabled(), &strict::ADMIN_QUEUE_WHILE_ENABLED);
    }

    /// Records the undefined behaviour in a write to CC, for strict checks.
    fn check_configuration_write(&mut self, value: u32) {
        let (was_enabled, is_ready) = (self.is_enabled(), self.is_ready());
        let enables = value & ENABLE != 0;
        self.note(!was_enabled && enables && is_ready, &strict::ENABLE_BEFORE_DISABLED);
        self.note(was_enabled && !enables && !is_ready, &strict::DISABLE_BEFORE_READY);
        let changed = (self.configuration ^ value) & FIXED_WHILE_ENABLED;
        self.note(was_enabled && enables && changed != 0, &strict::CONFIGURATION_WHILE_ENABLED);
    }

    fn configure(&mut self, value: u32) {
        let was_enabled = self.is_enabled();
        self.configuration = value & CONFIGURATION_BITS;
        self.reset |= was_enabled && !self.is_enabled();
    }

    /// Sets all registers to their values after power-on, for a function-level reset of the PCI device.
    pub fn reset_device(&mut self) {
        *self = ControllerRegisters {
            reset: true,
            undefined: self.undefined.take(),
            ..ControllerRegisters::with(self.capabilities)
        };
    }

    /// Returns true if CC.EN is set.
    pub fn is_enabled(&self) -> bool {
        self.configuration & ENABLE != 0
    }

    /// Returns true if CC.SHN requests a normal or an abrupt shutdown.
    pub fn is_shutdown_requested(&self) -> bool {
        matches!(self.configuration >> 14 & 3, 1 | 2)
    }

    /// Returns true if CC selects supported values: pages of 4 KiB, an arbitration mechanism, and the NVM command set,
    /// or all command sets if the drive has others.
    pub fn is_configuration_valid(&self) -> bool {
        let (command_set, page, arbitration) =
            (self.configuration >> 4 & 7, self.configuration >> 7 & 15, self.configuration >> 11 & 7);
        let has_others = self.capabilities & FURTHER_COMMAND_SETS != 0;
        let has_blocks = self.capabilities & BLOCK_COMMAND_SET != 0;
        let is_supported = command_set == 0 && has_blocks || command_set == ALL_COMMAND_SETS && has_others;
        is_supported && page == 0 && arbitration <= WEIGHTED_ROUND_ROBIN
    }

    /// Returns true if CC.AMS selects weighted round robin arbitration.
    pub fn is_arbitration_weighted(&self) -> bool {
        self.configuration >> 11 & 7 == WEIGHTED_ROUND_ROBIN
    }

    /// Returns CC.IOSQES and CC.IOCQES, the binary logarithms of the queue entry sizes.
    pub fn queue_entry_sizes(&self) -> (u32, u32) {
        (self.configuration >> 16 & 15, self.configuration >> 20 & 15)
    }

    /// Returns host address and number of entries of the admin submission queue, then of the admin completion queue
    /// (ASQ, ACQ, AQA).
    pub fn admin_queue_attributes(&self) -> [(u64, u32); 2] {
        let entries = |shift: u32| (self.admin_entries >> shift & 0xfff) + 1;
        [(self.admin_submission, entries(0)), (self.admin_completion, entries(16))]
    }

    /// Sets CSTS.RDY, and clears all other bits of CSTS.
    pub fn set_ready(&mut self, is_ready: bool) {
        self.status = if is_ready { READY } else { 0 };
    }

    /// Returns true if CSTS.RDY is set.
    pub fn is_ready(&self) -> bool {
        self.status & READY != 0
    }

    /// Sets CSTS.CFS: the controller accepts no command until it is reset.
    pub fn set_fatal_status(&mut self) {
        self.status |= FATAL;
    }

    /// Returns true if CSTS.CFS is set.
    pub fn is_fatal(&self) -> bool {
        self.status & FATAL != 0
    }

    /// Sets CSTS.SHST to "shutdown processing complete", or back to "normal operation".
    pub fn set_shut_down(&mut self, is_shut_down: bool) {
        self.status = self.status & !SHUTDOWN_BITS | if is_shut_down { SHUTDOWN_COMPLETE } else { 0 };
    }

    /// Returns true if CSTS.SHST says that shutdown processing is complete.
    pub fn is_shut_down(&self) -> bool {
        self.status & SHUTDOWN_BITS == SHUTDOWN_COMPLETE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(registers: &ControllerRegisters, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        registers.read(offset, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    #[test]
    fn register_reads_agree_for_all_access_sizes() {
        let registers = ControllerRegisters::with(BLOCK_COMMAND_SET | CAPABILITIES | 63);
        let mut whole = [0; 8];
        registers.read(0, &mut whole);
        let halves = u64::from(word(&registers, 0)) | u64::from(word(&registers, 4)) << 32;
        assert_eq!(u64::from_le_bytes(whole), halves);
        let mut byte = [0];
        registers.read(3, &mut byte);
        assert_eq!(byte[0], READY_TIMEOUT as u8);
        assert_eq!((word(&registers, 0) & 0xffff, word(&registers, 8)), (63, 0x0002_0000));
        // CMBSZ and PMRCAP: the controller has no such memory.
        assert_eq!((word(&registers, 0x3c), word(&registers, 0xe00)), (0, 0));
    }

    #[test]
    fn admin_queue_registers_are_writable_only_while_disabled() {
        let mut registers = ControllerRegisters::with(BLOCK_COMMAND_SET | CAPABILITIES);
        registers.write(0x28, &0x1234_5678_9abc_def0_u64.to_le_bytes());
        registers.write(0x24, &0x00ff_003f_u32.to_le_bytes());
        assert_eq!(registers.admin_queue_attributes(), [(0x1234_5678_9abc_d000, 64), (0, 256)]);
        registers.write(0x14, &1_u32.to_le_bytes());
        registers.write(0x28, &[0; 8]);
        assert_eq!(registers.admin_queue_attributes()[0].0, 0x1234_5678_9abc_d000);
    }

    #[test]
    fn disabling_is_noticed_even_if_the_host_enables_again() {
        let mut registers = ControllerRegisters::with(BLOCK_COMMAND_SET | CAPABILITIES);
        for value in [1_u32, 0, 1] {
            registers.write(0x14, &value.to_le_bytes());
        }
        assert!(registers.reset && registers.is_enabled());
    }

    /// Base Specification 2.0, sections 3.1.3.5 and 3.1.3.8 to 3.1.3.10, define the reserved bits.
    #[test]
    fn strict_checks_report_only_reserved_register_bits() {
        for (offset, value) in
            [(at::CC, CONFIGURATION_BITS), (at::AQA, 0x0fff_0fff), (at::ASQ, !0xfff), (at::ACQ, !0xfff)]
        {
            let reserved = |value: u32| {
                let mut registers = ControllerRegisters::with(BLOCK_COMMAND_SET | CAPABILITIES);
                registers.check_strictly();
                registers.write(offset, &value.to_le_bytes());
                registers.take_undefined().contains(&&strict::RESERVED_REGISTER_BITS)
            };
            assert!(!reserved(value) && reserved(!value), "register {offset:x}");
        }
    }

    #[test]
    fn partial_word_write_changes_no_register() {
        let mut registers = ControllerRegisters::with(BLOCK_COMMAND_SET | CAPABILITIES);
        registers.write(0x14, &[1]);
        registers.write(0x16, &1_u32.to_le_bytes());
        registers.write(u64::MAX - 3, &[1; 8]);
        assert_eq!(registers, ControllerRegisters::with(BLOCK_COMMAND_SET | CAPABILITIES));
    }
}
