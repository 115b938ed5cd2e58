//! Power cuts: a device loses its commands, and of its data all that had not reached the cells or protected buffers.
//! When power is back, the host submits the requests again, as after a reset.
//!
//! A run without power cuts never asks for them: its events are counted up to the next cut, and the memory notes which
//! data outlives power only where a cut is described.

use super::{DeviceAvailability, Faults, PendingFaultEffect};
use crate::data::Data;
use crate::drive::Drive;
use crate::engine::Engine;
use crate::faults::Rule;
use crate::media::Media;
use crate::scheduler::Event;
use crate::time::{Span, Time};

impl Faults {
    /// Returns the number of the event after which power fails next; `u64::MAX` if it does not fail any more.
    fn next_cut(&self) -> u64 {
        self.events.iter().filter_map(Rule::next_trigger_event).min().unwrap_or(u64::MAX)
    }
}

/// Updates what is known to survive a loss of power with the memory's programs until now. Called before new data comes
/// to the device, because these programs concern the older data.
pub(in crate::engine) fn update_durable_programs(now: Time, media: &mut Media, data: &mut Data) {
    if let Some(durable) = data.durable_cells_mut() {
        durable.follow(now, media.take_durability_steps());
    }
}

/// Size in bytes of the unit that a power cut leaves whole in any case (assumed): a cache line.
const LINE_BYTES: u32 = 64;

impl Engine {
    /// Begins to record which data outlives a loss of power, in a run with real bytes in which power fails.
    #[cold]
    pub(in crate::engine) fn follow_power(&mut self, drive: &Drive, seed: u64) {
        let Some(data) = self.devices[0].data.as_mut().filter(|_| drive.loses_power()) else { return };
        // A write covers whole blocks, but may cover only a part of a larger atomic unit. So follow durability block by
        // block.
        let block_bytes = drive.limits().write_block_bytes.max(LINE_BYTES);
        data.follow_power(seed, block_bytes, drive.keeps_acknowledged());
        // A device that acknowledges writes only once they are in the cells makes no promise about its buffers, so do
        // not track them as durable.
        self.devices[0]
            .media
            .follow_power(drive.protocol().acknowledges_early(drive) && drive.buffer.power_loss_protection);
    }

    /// Returns the number of the event after which power fails next; `u64::MAX`, beyond all events, in most runs.
    pub(in crate::engine) fn next_cut(&self) -> u64 {
        self.faults.as_ref().map_or(u64::MAX, |faults| faults.next_cut())
    }

    /// Cuts power if the event after which it fails has been handled.
    #[cold]
    #[inline(never)]
    pub(in crate::engine) fn cut_power_if_due(&mut self) {
        let (now, events) = (self.now(), self.events());
        let Some(faults) = &mut self.faults else { return };
        let is_due = |rule: &&mut Rule| rule.next_trigger_event().is_some_and(|next| next <= events);
        let Some(rule) = faults.events.iter_mut().find(is_due) else { return };
        rule.count_effect_at(now);
        let outage = rule.fault.outage;
        self.cut_power(now, outage);
    }

    /// Cuts the power of the device, which takes commands again after `outage`. Another cut during that time starts the
    /// outage anew.
    pub(super) fn cut_power(&mut self, now: Time, outage: Span) {
        let Some(faults) = self.faults.as_mut().filter(|faults| faults.away != DeviceAvailability::ForGood) else {
            return;
        };
        let until = now + outage;
        faults.schedule(until, PendingFaultEffect::PowerOn, &mut self.shared);
        let steps = self.devices[0].media.take_durability_steps();
        if let Some(data) = &mut self.devices[0].data {
            data.cut_power(now, steps);
        }
        self.devices[0].media.cut_power(now);
        self.reset(now, DeviceAvailability::Off(until));
        // A device without power does not poll for commands either, so remove all its pending events.
        self.shared.scheduler.retain(Event::is_of_host);
    }

    /// Lets the device take commands again at the end of an outage, unless its power has failed again meanwhile or it
    /// has been removed.
    pub(super) fn on_power_restored(&mut self, now: Time) {
        let Some(mut faults) = self.faults.take() else { return };
        if faults.away == DeviceAvailability::Off(now) {
            faults.away = DeviceAvailability::No;
            self.shared.scheduler.retain(Event::is_of_host);
            self.reconnect_device(now, &faults.drive, faults.seed, false);
        }
        self.faults = Some(faults);
    }
}
