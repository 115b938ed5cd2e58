//! A drive's processors and flash in closed form: least time of a lone request, and its demands on dies, channels and
//! buffer.

use super::Parts;
use super::demand::Demands;
use super::media::Access;
use super::workload::{Class, Workload};
use crate::config::{Acknowledge, Mapping, PlaneReads, Precondition};
use crate::media::flash::layout::FlashLayout;
use crate::media::flash::{FlashCosts, shape};
use crate::media::processors::DriveProcessors;
use crate::media::translation::TranslationShape;
use crate::media::translation::stationary::write_amplification;
use crate::request::DataDirection;
use crate::time::{Span, Time};

impl Parts<'_> {
    /// True if a translation layer is in front of the memory.
    pub fn is_mapped(&self) -> bool {
        self.drive.translation.mapping == Mapping::Page
    }

    /// True if the drive has processors or a translation layer in front of its memory.
    pub fn has_inside(&self) -> bool {
        self.is_mapped() || DriveProcessors::of(&self.drive.controller).is_some()
    }

    /// Time of a lone command in the drive's processors and logic.
    pub fn firmware(&self, direction: DataDirection) -> Span {
        let firmware = DriveProcessors::of(&self.drive.controller);
        firmware.map_or(Span::ZERO, |mut firmware| firmware.admit(Time::ZERO, direction).since(Time::ZERO))
    }

    /// Adds the demand of a request on the drive's processors, at least that of one command.
    pub fn demand_firmware(&self, demands: &mut Demands, class: &Class) {
        let controller = &self.drive.controller;
        let core = if class.direction == DataDirection::Read { controller.read_core } else { controller.write_core };
        demands.add("drive processors", controller.cores.into(), core, 1.0);
    }

    /// Time of a request in flash. A read is known exactly if all its bytes surely come out of one page and all pages
    /// take equally long. A write has only a lower bound, because the buffer may be full.
    pub fn flash_access(&self, workload: &Workload, class: &Class) -> Access {
        let least = self.flash_least(workload, class);
        let bounded = Access { idle: least, waited: Span::ZERO, least, regular: false };
        if class.direction == DataDirection::Write || self.may_be_buffered(workload) {
            return bounded;
        }
        let pages_alike = self.flash_reads().iter().all(|read| *read == self.flash_reads()[0]);
        let unit = u64::from(self.drive.translation.unit_bytes);
        let in_one_unit =
            class.aligned && unit.is_multiple_of(class.bytes.into()) && workload.offset.is_multiple_of(unit);
        match pages_alike && in_one_unit {
            true => {
                let idle = self.flash_read_alone(self.flash_reads()[0], class.bytes);
                Access { idle, least: idle, regular: true, ..bounded }
            }
            false => bounded,
        }
    }

    /// Time from the start of the array read until the data can start towards the host.
    fn flash_read_alone(&self, array: Span, bytes: u32) -> Span {
        let (costs, chunk) = (FlashCosts::of(&self.drive.media), self.drive.data_payload_bytes());
        let there = |bytes| Time::ZERO + costs.command + array + costs.bus.transfer_time(bytes) + costs.ecc_decode;
        self.link.stream_start_time(bytes, chunk, there(bytes.min(chunk)), there(bytes)).since(Time::ZERO)
    }

    fn flash_least(&self, workload: &Workload, class: &Class) -> Span {
        let (costs, buffer) = (FlashCosts::of(&self.drive.media), &self.drive.buffer);
        let late = self.drive.media.acknowledge == Acknowledge::Late;
        match class.direction {
            DataDirection::Write if late => buffer.command + costs.program,
            DataDirection::Write => buffer.command + buffer.page * u64::from(class.bytes) / 4096,
            DataDirection::Read if self.may_be_buffered(workload) => Span::ZERO,
            DataDirection::Read => {
                let array = self.flash_reads().into_iter().min().unwrap_or_default();
                costs.command + array + costs.ecc_decode
            }
        }
    }

    /// Array read times of the pages of a word line.
    fn flash_reads(&self) -> Vec<Span> {
        let media = &self.drive.media;
        FlashCosts::of(media).reads[..(media.program_bytes / media.stripe_bytes) as usize].to_vec()
    }

    /// True if reads may be served without the cells: data that was just written, never written, or read ahead.
    fn may_be_buffered(&self, workload: &Workload) -> bool {
        let writes = workload.classes.iter().any(|class| class.direction == DataDirection::Write);
        let ahead = workload.sequential && self.drive.buffer.read_ahead_kib > 0;
        writes || ahead || self.drive.translation.precondition == Precondition::None
    }

    /// Adds the demands of a request on dies, channels and buffer.
    pub fn demand_flash(&self, demands: &mut Demands, workload: &Workload, class: &Class) {
        let (media, costs) = (&self.drive.media, FlashCosts::of(&self.drive.media));
        let (channels, dies) =
            (f64::from(media.channels), f64::from(media.banks_per_channel) * f64::from(media.channels));
        let bytes = f64::from(class.bytes);
        let transfer = costs.bus.transfer_time(1 << 20).as_ns() / f64::from(1 << 20);
        if class.direction == DataDirection::Read {
            let independent = media.plane_reads == PlaneReads::Independent;
            let planes = if independent { f64::from(media.planes) } else { 1.0 };
            let from_cells = if self.may_be_buffered(workload) { 0.0 } else { 1.0 };
            let rows = (bytes / f64::from(media.stripe_bytes)).ceil();
            // A read of many rows may begin and end within one.
            let array = self.flash_least(workload, class).saturating_sub(costs.ecc_decode);
            demands.add("flash dies", dies * planes, array, (rows - 1.0).max(1.0) * from_cells);
            return demands.add("flash channels", channels, Span::from_ns_f64(bytes * transfer), from_cells);
        }
        demands.add("write buffer", 1.0, self.drive.buffer.page, bytes / 4096.0);
        let leaving = self.leaving_bytes(workload, class);
        let moved = leaving * (self.amplification(workload) - 1.0);
        let lines = (leaving + moved) / f64::from(media.program_bytes);
        let least_read = self.flash_reads().into_iter().min().unwrap_or_default() + costs.command;
        let blocks = (leaving + moved) / (f64::from(media.stripe_bytes) * f64::from(media.block_pages));
        demands.add("flash dies", dies, costs.program, lines);
        demands.add("flash dies", dies, least_read, moved / f64::from(media.stripe_bytes));
        demands.add("flash dies", dies, costs.erase, blocks * if moved > 0.0 { 1.0 } else { 0.0 });
        demands.add("flash channels", channels, Span::from_ns_f64((leaving + 2.0 * moved) * transfer), 1.0);
    }

    /// Bytes of a write that have to leave the buffer. Data that still fits into it at the end is not counted, nor data
    /// that is overwritten there.
    fn leaving_bytes(&self, workload: &Workload, class: &Class) -> f64 {
        let (capacity, line) = ((self.drive.buffer.capacity_kib << 10) as f64, self.line_bytes());
        let share_kept = match workload.written_bytes {
            Some(written) => (1.0 - capacity / written.max(1) as f64).max(0.0),
            None => 1.0,
        };
        let region = workload.region_bytes.max(1) as f64;
        let again = if workload.sequential { 0.0 } else { (line / region).min(1.0) };
        let together = if workload.sequential { f64::from(workload.threads) } else { 1.0 };
        let around = if workload.sequential && region < 2.0 * line { 0.0 } else { 1.0 };
        f64::from(class.bytes) * share_kept * (1.0 - again) * around / together
    }

    fn line_bytes(&self) -> f64 {
        let layout = FlashLayout::of(&self.drive.media, &self.drive.translation);
        f64::from(layout.line_units()) * f64::from(layout.unit_bytes)
    }

    /// Write amplification: writes to the cells for each write of the user. Known for random writes all over a drive in
    /// its steady state; otherwise at least one.
    fn amplification(&self, workload: &Workload) -> f64 {
        let translation = &self.drive.translation;
        let whole = workload.region_bytes >= self.drive.media.capacity_mib << 20;
        let steady = translation.precondition == Precondition::Random && translation.wear_gap_erases == 0;
        let one_unit = workload.classes.iter().all(|class| class.bytes <= translation.unit_bytes);
        if !(steady && whole && one_unit && !workload.sequential) {
            return 1.0;
        }
        let TranslationShape { units, block_units, blocks, victim_policy, .. } = shape(&self.drive.media, translation);
        write_amplification(victim_policy, block_units, f64::from(blocks) * f64::from(block_units) / units as f64 - 1.0)
    }
}
