//! Parts of a drive in front of the memory banks: its processors, the rate limits of a volume, injected bank faults,
//! and for flash its write buffer and translation layer.

use super::bank::{Bank, BankProgramPolicy};
use super::bank_faults::BankFaults;
use super::flash::Flash;
use super::processors::{DriveProcessorTimes, DriveProcessors};
use super::timing::ChannelBus;
use super::volume::VolumeLimits;
use super::{Media, ReadTiming, WriteTiming};
use crate::config::{self, Fault, FaultSubject, Mapping};
use crate::data::persistence::{DurabilityNotes, DurabilityStep};
use crate::faults::Rule;
use crate::request::DataDirection;
use crate::time::{Span, Time};

/// Parts of a drive in front of its memory banks: processors, rate limits, bank faults, and flash, which replaces the
/// banks.
#[derive(Clone, Debug, Default)]
pub(super) struct DriveInternals {
    processors: Option<DriveProcessors>,
    /// Rate limits and network latency of a volume; `None` if the drive is not a rate-limited volume.
    volume: Option<Box<VolumeLimits>>,
    flash: Option<Flash>,
    /// Injected bank faults, with the queues in front of the faulty banks.
    bank_faults: Option<BankFaults>,
    /// True if the banks' write buffers acknowledge writes and lose their content in a power failure. Never true for
    /// flash.
    is_volatile: bool,
    /// Record of the writes that survive a loss of power, for runs that track this; flash keeps a record of its own.
    notes: Option<DurabilityNotes>,
}

impl DriveInternals {
    /// True if a part in front of the banks can change the time of an access: processors, rate limits, flash or a bank
    /// fault.
    pub(super) fn delays_accesses(&self) -> bool {
        self.processors.is_some() || self.volume.is_some() || self.flash.is_some() || self.bank_faults.is_some()
    }
}

impl Media {
    /// Returns this memory behind the processors of a drive, if its controller has any.
    pub fn behind_processors(mut self, controller: &config::Controller, seed: u64) -> Media {
        if let Some(processors) = DriveProcessors::of(controller) {
            self.internals.get_or_insert_default().processors = Some(processors.with_random_pipeline(controller, seed));
        }
        self
    }

    /// Returns this memory with the write buffer and the translation layer of a drive: one that maps pages has flash in
    /// place of banks. The configurations must have been checked.
    pub fn behind_translation(
        mut self,
        media: &config::Media,
        buffer: &config::Buffer,
        translation: &config::Translation,
        placement: &config::DataPlacement,
        seed: u64,
    ) -> Media {
        if translation.mapping == Mapping::Page {
            let flash = Flash::placed(media, buffer, translation, placement, seed);
            self.internals.get_or_insert_default().flash = Some(flash);
        } else if media.acknowledges_early() && !buffer.power_loss_protection {
            self.internals.get_or_insert_default().is_volatile = true;
        }
        self
    }

    /// Returns this memory with the configured zones, if it is flash and the zones have dies of their own; any other
    /// memory stays as it is.
    pub fn with_zones(
        mut self,
        media: &config::Media,
        translation: &config::Translation,
        zones: &config::Zoning,
    ) -> Media {
        if let Some(flash) = self.flash_mut() {
            flash.add_zones(media, translation, zones);
        }
        self
    }

    /// Returns this memory behind the rate limits and the network of a volume, if the configuration has any.
    pub fn limited(mut self, volume: &config::Volume, capacity_mib: u64) -> Media {
        if let Some(limits) = VolumeLimits::of(volume, capacity_mib) {
            self.internals.get_or_insert_default().volume = Some(Box::new(limits));
        }
        self
    }

    /// Returns the rate limits of this volume, with their state; `None` if the drive is not a rate-limited volume.
    pub fn volume(&self) -> Option<&VolumeLimits> {
        self.internals.as_ref()?.volume.as_deref()
    }

    /// Returns this memory with those of the fault rules that apply to banks; `seed` determines their random numbers.
    pub fn with_faults(mut self, faults: &[Fault], seed: u64) -> Media {
        self.add_faults(Rule::about(FaultSubject::Bank, faults, seed));
        self
    }

    /// Adds fault rules for banks, which apply to accesses from now on.
    pub fn add_faults(&mut self, rules: Vec<Rule>) {
        if rules.is_empty() {
            return;
        }
        let (read, program) = (self.timing.command + self.timing.read, self.timing.command + self.timing.program);
        let bank_faults = &mut self.internals.get_or_insert_default().bank_faults;
        bank_faults.get_or_insert_with(|| BankFaults::new(self.interleave, read, program)).extend(rules);
    }

    /// Removes the rule of a bank fault that has ended; does nothing if there is no such rule.
    pub fn remove_fault(&mut self, fault: &Fault) {
        if let Some(bank_faults) = self.internals.as_mut().and_then(|internals| internals.bank_faults.as_mut()) {
            bank_faults.remove(fault);
        }
    }

    /// Returns a pair for each bank fault rule: the name of its counter and the number of injections so far.
    pub fn fault_counts(&self) -> Vec<(&'static str, u64)> {
        let bank_faults = self.internals.as_ref().and_then(|internals| internals.bank_faults.as_ref());
        bank_faults.map_or(Vec::new(), |bank_faults| bank_faults.counts().collect())
    }

    /// Starts to record the writes that survive a loss of power. If `is_protected` is true, writes in write buffers
    /// survive too.
    pub fn follow_power(&mut self, is_protected: bool) {
        let internals = self.internals.get_or_insert_default();
        match &mut internals.flash {
            Some(flash) => flash.follow_power(is_protected),
            None => internals.notes = Some(DurabilityNotes::new(is_protected)),
        }
    }

    /// Removes and returns the changes of durable data since the last call: which bytes change the cells, and when.
    pub fn take_durability_steps(&mut self) -> Vec<DurabilityStep> {
        self.notes().map_or(Vec::new(), DurabilityNotes::take)
    }

    /// Records that a volatile buffer of the device, in front of this memory, has accepted bytes at `at`. The buffer
    /// writes them to this memory later.
    pub fn hold(&mut self, at: Time, offset: u64, bytes: u32) {
        if let Some(notes) = self.notes() {
            notes.hold(at, offset, bytes);
        }
    }

    /// Cuts the power at `now`: drops all accesses in flight, and empties all buffers and queues. The content of the
    /// cells is kept.
    pub fn cut_power(&mut self, now: Time) {
        self.banks.fill(Bank::default());
        self.buses.fill(ChannelBus::default());
        self.admitted = Time::ZERO;
        if let Some(internals) = &mut self.internals {
            internals.processors.iter_mut().for_each(DriveProcessors::cut_power);
            internals.flash.iter_mut().for_each(Flash::cut_power);
            internals.bank_faults.iter_mut().for_each(BankFaults::cut_power);
            internals.volume.iter_mut().for_each(|volume| volume.cut_power(now));
        }
    }

    pub(crate) fn notes(&mut self) -> Option<&mut DurabilityNotes> {
        let internals = self.internals.as_mut()?;
        match &mut internals.flash {
            Some(flash) => flash.notes(),
            None => internals.notes.as_mut(),
        }
    }

    /// Records that buffered writes to the `bytes` from `offset` are programmed from `now` on and are in the cells at
    /// `until`.
    pub(super) fn note_buffer_flush(&mut self, now: Time, offset: u64, bytes: u64, until: Time) {
        if let Some(notes) = self.notes() {
            notes.program(offset, bytes, now, until);
        }
    }

    /// True if the memory has nothing in front of its banks: no processors, rate limits, faults, flash or durability
    /// record.
    pub fn is_bare(&self) -> bool {
        self.internals.is_none()
    }

    /// Returns the flash of this drive; `None` if the drive has no translation layer.
    pub fn flash(&self) -> Option<&Flash> {
        self.internals.as_ref()?.flash.as_ref()
    }

    /// Writes `bytes` from `offset` as [`Media::write`] does. Flash with data placement puts them into the stream that
    /// the host has chosen.
    pub fn write_to_stream(&mut self, now: Time, offset: u64, bytes: u32, stream: u8) -> WriteTiming {
        if let Some(flash) = self.flash_mut() {
            flash.select_stream(stream);
        }
        let timing = self.write(now, offset, bytes);
        if let Some(flash) = self.flash_mut() {
            flash.select_stream(0);
        }
        timing
    }

    /// Makes the next write of flash a Zone Append, which has a service time of its own. Does nothing on other memories.
    pub fn mark_append(&mut self) {
        if let Some(flash) = self.flash_mut() {
            flash.mark_append();
        }
    }

    /// Makes a host-selected stream of flash continue in a new reclaim unit. Does nothing on memory without such
    /// streams.
    pub fn begin_unit(&mut self, now: Time, stream: u8) {
        if let Some(flash) = self.flash_mut() {
            flash.begin_unit(now, stream);
        }
    }

    pub(crate) fn flash_mut(&mut self) -> Option<&mut Flash> {
        self.internals.as_mut()?.flash.as_mut()
    }

    /// Flushes all write buffers that lose their content without power. Returns the time at which everything written so
    /// far survives a loss of power: `now` if it already does.
    pub fn flush_volatile_buffers(&mut self, now: Time) -> Time {
        match &mut self.internals {
            Some(internals) if internals.is_volatile => self.flush_bank_buffers(now),
            Some(internals) => internals.flash.as_mut().map_or(now, |flash| flash.flush(now)),
            None => now,
        }
    }

    /// Deallocates the `bytes` from `offset` (trim) in the flash translation layer; does nothing on other memories.
    pub fn discard(&mut self, offset: u64, bytes: u64) {
        if let Some(flash) = self.flash_mut() {
            flash.discard(offset, bytes);
        }
    }

    #[inline(never)]
    pub(super) fn read_through_internals(
        &mut self,
        now: Time,
        offset: u64,
        bytes: u32,
        first_bytes: u32,
    ) -> ReadTiming {
        let DriveProcessorTimes { dispatched, admitted: at } = self.admit(now, DataDirection::Read);
        let passed = self.pass_volume_limits(at, DataDirection::Read, offset, bytes);
        self.admitted = self.pass_bank_faults(passed, DataDirection::Read, offset, bytes);
        let timing = match self.flash_mut() {
            Some(flash) => flash.read(now, passed, offset, bytes, first_bytes),
            // The delay of a bank fault precedes the access, like a wait for a busy bank.
            None => self.read_with_ecc(now, offset, bytes, first_bytes),
        };
        self.admitted = at;
        let timing = ReadTiming { dispatched, admitted: at, ..timing };
        timing.later(self.network(DataDirection::Read))
    }

    pub(super) fn write_through_internals(
        &mut self,
        now: Time,
        offset: u64,
        bytes: u32,
        policy: BankProgramPolicy,
    ) -> WriteTiming {
        if self.internals.is_none() {
            return self.write_pieces(now, offset, bytes, policy);
        }
        let DriveProcessorTimes { dispatched, admitted: at } = self.admit(now, DataDirection::Write);
        let passed = self.pass_volume_limits(at, DataDirection::Write, offset, bytes);
        self.admitted = self.pass_bank_faults(passed, DataDirection::Write, offset, bytes);
        let network = self.network(DataDirection::Write);
        let timing = match self.flash_mut() {
            Some(flash) => flash.write(now, passed, offset, bytes).later(network),
            None => {
                let timing = self.write_pieces(now, offset, bytes, policy).later(network);
                if let Some(notes) = self.notes() {
                    notes.hand(now, offset, bytes, timing.buffered_at, timing.programmed_at);
                }
                timing
            }
        };
        self.admitted = at;
        WriteTiming { dispatched, admitted: at, ..timing }
    }

    fn admit(&mut self, now: Time, direction: DataDirection) -> DriveProcessorTimes {
        let processors = self.internals.as_mut().and_then(|internals| internals.processors.as_mut());
        let unhindered = DriveProcessorTimes { dispatched: now, admitted: now };
        processors.map_or(unhindered, |processors| processors.admit(now, direction))
    }

    /// Passes an access through the rate limits of a volume, and returns the instant at which it passes; `at` without
    /// limits. The wait counts as a wait for a bank.
    fn pass_volume_limits(&mut self, at: Time, direction: DataDirection, offset: u64, bytes: u32) -> Time {
        let volume = self.internals.as_mut().and_then(|internals| internals.volume.as_mut());
        volume.map_or(at, |volume| volume.pass(at, direction, offset, bytes))
    }

    /// Returns the network latency of an access to a volume; zero for other drives.
    fn network(&self, direction: DataDirection) -> Span {
        self.volume().map_or(Span::ZERO, |volume| volume.latency(direction))
    }

    fn pass_bank_faults(&mut self, at: Time, direction: DataDirection, offset: u64, bytes: u32) -> Time {
        let bank_faults = self.internals.as_mut().and_then(|internals| internals.bank_faults.as_mut());
        bank_faults.map_or(at, |bank_faults| bank_faults.admit(at, direction, offset, bytes))
    }
}
