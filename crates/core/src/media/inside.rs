//! What lies in front of a memory: the drive's processors, and for flash its write buffer and translation layer.

use super::bank::{Bank, Patience};
use super::firmware::Firmware;
use super::flash::Flash;
use super::timing::Bus;
use super::trouble::Trouble;
use super::{Media, ReadTiming, WriteTiming};
use crate::config::{self, Acknowledge, Fault, FaultSubject, Mapping};
use crate::data::persistence::{Notes, Step};
use crate::faults::Rule;
use crate::request::DataDirection;
use crate::time::Time;

/// Parts in front of the banks; with flash, in place of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Inside {
    firmware: Option<Firmware>,
    flash: Option<Flash>,
    /// Banks with injected faults.
    trouble: Option<Trouble>,
    /// Whether writes are acknowledged from buffers of the banks that do not outlive power.
    is_volatile: bool,
    /// What outlives power, where that is followed.
    notes: Option<Notes>,
}

impl Inside {
    /// Whether it takes any time.
    pub(super) fn delays(&self) -> bool {
        self.firmware.is_some() || self.flash.is_some() || self.trouble.is_some()
    }
}

impl Media {
    /// This memory behind the parts of a description that has been checked.
    pub fn behind(
        mut self,
        media: &config::Media,
        controller: &config::Controller,
        buffer: &config::Buffer,
        translation: &config::Translation,
        seed: u64,
    ) -> Media {
        let is_mapped = translation.mapping == Mapping::Page;
        let flash = is_mapped.then(|| Flash::new(media, buffer, translation, seed));
        let firmware = Firmware::of(controller);
        let is_early = media.acknowledge == Acknowledge::Early;
        let is_volatile = !is_mapped && is_early && !buffer.power_loss_protection;
        if firmware.is_some() || flash.is_some() || is_volatile {
            self.inside = Some(Box::new(Inside { firmware, flash, is_volatile, ..Inside::default() }));
        }
        self
    }

    /// The same with banks in which faults happen.
    pub fn with_faults(mut self, faults: &[Fault], seed: u64) -> Media {
        self.add_faults(Rule::about(FaultSubject::Bank, faults, seed));
        self
    }

    /// Faults happen in banks from now on.
    pub fn add_faults(&mut self, rules: Vec<Rule>) {
        if rules.is_empty() {
            return;
        }
        let (read, program) = (self.timing.command + self.timing.read, self.timing.command + self.timing.program);
        let trouble = &mut self.inside.get_or_insert_default().trouble;
        trouble.get_or_insert_with(|| Trouble::new(self.interleave, read, program)).extend(rules);
    }

    /// A fault of a bank is over.
    pub fn remove_fault(&mut self, fault: &Fault) {
        if let Some(trouble) = self.inside.as_mut().and_then(|inside| inside.trouble.as_mut()) {
            trouble.remove(fault);
        }
    }

    /// How often faults have happened to banks.
    pub fn fault_counts(&self) -> Vec<(&'static str, u64)> {
        let trouble = self.inside.as_ref().and_then(|inside| inside.trouble.as_ref());
        trouble.map_or(Vec::new(), |trouble| trouble.counts().collect())
    }

    /// Note from now on what outlives power, as buffers do if they are protected.
    pub fn follow_power(&mut self, is_protected: bool) {
        let inside = self.inside.get_or_insert_default();
        match &mut inside.flash {
            Some(flash) => flash.follow_power(is_protected),
            None => inside.notes = Some(Notes::new(is_protected)),
        }
    }

    /// What has been noted since this was asked last.
    pub fn take_steps(&mut self) -> Vec<Step> {
        self.notes().map_or(Vec::new(), Notes::take)
    }

    /// A buffer of the device, in front of this memory, has taken bytes at `at`, which it will hand over later.
    pub fn hold(&mut self, at: Time, offset: u64, bytes: u32) {
        if let Some(notes) = self.notes() {
            notes.hold(at, offset, bytes);
        }
    }

    /// Power fails: nothing is under way any more, and all buffers are empty. What is in the cells stays there.
    pub fn cut_power(&mut self) {
        self.banks.fill(Bank::default());
        self.buses.fill(Bus::default());
        self.admitted = Time::ZERO;
        if let Some(inside) = &mut self.inside {
            inside.firmware.iter_mut().for_each(Firmware::cut_power);
            inside.flash.iter_mut().for_each(Flash::cut_power);
            inside.trouble.iter_mut().for_each(Trouble::cut_power);
        }
    }

    pub(crate) fn notes(&mut self) -> Option<&mut Notes> {
        let inside = self.inside.as_mut()?;
        match &mut inside.flash {
            Some(flash) => flash.notes(),
            None => inside.notes.as_mut(),
        }
    }

    /// What write buffers held of these bytes is in the cells at `until`.
    pub(super) fn note_flush(&mut self, now: Time, offset: u64, bytes: u64, until: Time) {
        if let Some(notes) = self.notes() {
            notes.program(offset, bytes, now, until);
        }
    }

    /// Whether nothing lies in front of the banks.
    pub fn is_bare(&self) -> bool {
        self.inside.is_none()
    }

    /// The inside of flash, if it is that.
    pub fn flash(&self) -> Option<&Flash> {
        self.inside.as_ref()?.flash.as_ref()
    }

    pub(crate) fn flash_mut(&mut self) -> Option<&mut Flash> {
        self.inside.as_mut()?.flash.as_mut()
    }

    /// When all that has been written outlives power, if anything of it does not at `now`.
    pub fn flush_all(&mut self, now: Time) -> Time {
        match &mut self.inside {
            Some(inside) if inside.is_volatile => self.flush_banks(now),
            Some(inside) => inside.flash.as_mut().map_or(now, |flash| flash.flush(now)),
            None => now,
        }
    }

    /// The user no longer needs these bytes.
    pub fn discard(&mut self, offset: u64, bytes: u64) {
        if let Some(flash) = self.flash_mut() {
            flash.discard(offset, bytes);
        }
    }

    #[inline(never)]
    pub(super) fn read_inside(&mut self, now: Time, offset: u64, bytes: u32, first_bytes: u32) -> ReadTiming {
        let at = self.admit(now, DataDirection::Read);
        self.admitted = self.pass_trouble(at, DataDirection::Read, offset, bytes);
        let timing = match self.flash_mut() {
            Some(flash) => flash.read(now, at, offset, bytes, first_bytes),
            // What faults cost is time before the bank, as waiting for it is.
            None => ReadTiming { admitted: at, ..self.read_corrected(now, offset, bytes, first_bytes) },
        };
        self.admitted = at;
        timing
    }

    pub(super) fn write_inside(&mut self, now: Time, offset: u64, bytes: u32, patience: Patience) -> WriteTiming {
        if self.inside.is_none() {
            return self.write_pieces(now, offset, bytes, patience);
        }
        let at = self.admit(now, DataDirection::Write);
        self.admitted = self.pass_trouble(at, DataDirection::Write, offset, bytes);
        let timing = match self.flash_mut() {
            Some(flash) => flash.write(now, at, offset, bytes),
            None => {
                let timing = self.write_pieces(now, offset, bytes, patience);
                if let Some(notes) = self.notes() {
                    notes.hand(now, offset, bytes, timing.buffered_at, timing.programmed_at);
                }
                WriteTiming { admitted: at, ..timing }
            }
        };
        self.admitted = at;
        timing
    }

    fn admit(&mut self, now: Time, direction: DataDirection) -> Time {
        let firmware = self.inside.as_mut().and_then(|inside| inside.firmware.as_mut());
        firmware.map_or(now, |firmware| firmware.admit(now, direction))
    }

    fn pass_trouble(&mut self, at: Time, direction: DataDirection, offset: u64, bytes: u32) -> Time {
        let trouble = self.inside.as_mut().and_then(|inside| inside.trouble.as_mut());
        trouble.map_or(at, |trouble| trouble.admit(at, direction, offset, bytes))
    }
}
