//! Flash drive in closed form: least time of a lone request, and its demands on processors, dies, channels and write
//! buffer.

use super::Parts;
use super::collection::round_time;
use super::demand::ServiceDemands;
use super::media::MemoryAccessTime;
use super::workload::{Class, Workload};
use crate::config::{CollectionReadPriority, CommandBusSharing, Precondition, ReadablePages};
use crate::media::flash::admission::{AdmissionServiceTimes, AdmittedWriteCommand};
use crate::media::flash::layout::FlashUnitLayout;
use crate::media::flash::{FlashCosts, shape};
use crate::media::processors::DriveProcessors;
use crate::media::spread::ArrayTimeSpread;
use crate::number::{index, length, narrow, real, real_length, whole};
use crate::request::DataDirection;
use crate::time::{Span, Time};

/// Resource name of garbage collection, whose rounds run one after another.
pub const GARBAGE_COLLECTION: &str = "garbage collection";
/// Overwritten share of a job's region below which the job is too short to change the drive's initial state.
const SHARE_OF_SHORT: f64 = 0.01;
/// Number of flash lines above which a region has every kind of page equally often, within 1 %.
const LINES_ALIKE: f64 = 100.0;

/// Random reads of a flash drive in the mean: the share that comes from the cells, their pages, and their time.
#[derive(Clone, Debug, PartialEq)]
pub struct FlashReadMean {
    /// Share of the reads that come from the cells, 0 to 1. The data of the other reads is in the write buffer.
    pub cells_share: f64,
    /// Array read time of each kind of page, all of which hold equally many data.
    pub pages: Vec<Span>,
    /// Number of pages of different dies that one request reads together; it waits for the slowest.
    pub pages_together: u32,
    /// Mean time of a lone read (queue depth 1) in the drive's memory, until its data can flow to the host.
    pub access: Span,
}

impl Parts<'_> {
    /// Returns the mean of lone random reads of flash. `None` for other requests, and where pages are not read equally
    /// often: in small regions, with parts of the map in flash, or without data to begin with.
    pub fn flash_read_mean(&self, workload: &Workload, class: &Class) -> Option<FlashReadMean> {
        let translation = &self.drive.translation;
        let is_random = class.direction == DataDirection::Read && !workload.sequential;
        let is_known = self.is_mapped()
            && translation.precondition != Precondition::None
            && translation.map_cache_kib == 0
            && real(workload.region_bytes) >= LINES_ALIKE * self.flash_line_capacity_bytes();
        if !is_random || !is_known {
            return None;
        }
        let (costs, chunk) = (self.mean_flash_costs(), self.drive.data_payload_bytes().min(class.bytes));
        let mut pages = self.page_read_times();
        pages.sort();
        // A short job finds the units that random writes have scattered before it.
        let is_scattered = translation.precondition == Precondition::Random
            && self.overwritten_region_share(workload) < SHARE_OF_SHORT;
        let together = match is_scattered {
            true => class.bytes.div_ceil(translation.unit_bytes),
            false => whole_page_count(self.least_array_reads(workload, class).0),
        };
        let each_bytes = class.bytes.div_ceil(together);
        let there = |array: Span, bytes: u32| {
            Time::ZERO + costs.command + array + costs.bus.transfer_time(bytes) + costs.ecc_decode
        };
        let first = there(pages.iter().copied().sum::<Span>() / length(pages.len()).max(1), chunk.min(each_bytes));
        let last = there(mean_longest_array_read(&pages, together), each_bytes);
        let from_cells = self.link.earliest_stream_start(class.bytes, chunk, first, last.max(first)).since(Time::ZERO);
        let from_buffer = self.drive.buffer.page * u64::from(class.bytes.min(translation.unit_bytes)) / 4096;
        let cells_share = self.certain_cell_share(workload);
        let access =
            from_cells.scale(cells_share) + from_buffer.scale(1.0 - cells_share) + self.network(class.direction);
        Some(FlashReadMean { cells_share, pages, pages_together: together, access })
    }

    /// True if the drive has a flash translation layer in front of its memory.
    pub fn is_mapped(&self) -> bool {
        self.drive.is_flash()
    }

    /// True if the drive has processors or a flash translation layer in front of its memory.
    pub fn has_processors_or_translation(&self) -> bool {
        self.is_mapped() || DriveProcessors::of(&self.drive.controller).is_some()
    }

    /// Returns the mean times of a flash die's operations: command, read, program and erase.
    fn mean_flash_costs(&self) -> FlashCosts {
        FlashCosts::of(&self.drive.media.in_the_mean())
    }

    /// True if operations of the drive vary at random, so that equal ones take different times.
    pub fn has_spread(&self) -> bool {
        ArrayTimeSpread::of(&self.drive.media, 0).is_some() || self.drive.controller.has_spread()
    }

    /// Returns the time that a lone command takes in the drive's own processors and logic.
    pub fn firmware(&self, direction: DataDirection) -> Span {
        let firmware = DriveProcessors::of(&self.drive.controller);
        firmware.map_or(Span::ZERO, |mut firmware| firmware.admit(Time::ZERO, direction).admitted.since(Time::ZERO))
    }

    /// Adds the service demand of a request on the drive's own processors: the time of one command, a lower bound.
    pub fn add_firmware_demands(&self, demands: &mut ServiceDemands, class: &Class) {
        let controller = &self.drive.controller;
        let core = if class.direction == DataDirection::Read { controller.read_core } else { controller.write_core };
        demands.add("drive processors", controller.cores.into(), core, 1.0);
    }

    /// Returns the time of a request in flash. A read is exact only if all its bytes certainly come from one page and
    /// all pages take equally long. A write has only a lower bound, because the write buffer may be full.
    pub fn flash_access_time(&self, workload: &Workload, class: &Class) -> MemoryAccessTime {
        let least = self.least_flash_time(workload, class);
        let bounded = MemoryAccessTime { idle: least, waited: Span::ZERO, least, regular: false };
        let may_miss = self.drive.translation.map_cache_kib > 0;
        let is_chance = may_miss || self.has_spread();
        if class.direction == DataDirection::Write || self.may_skip_cells(workload) || is_chance {
            return bounded;
        }
        let pages_alike = self.page_read_times().iter().all(|read| *read == self.page_read_times()[0]);
        let unit = u64::from(self.drive.translation.unit_bytes);
        let in_one_unit =
            class.aligned && unit.is_multiple_of(class.bytes.into()) && workload.offset.is_multiple_of(unit);
        match pages_alike && in_one_unit {
            true => {
                let idle = self.lone_flash_read_start(self.page_read_times()[0], class.bytes);
                MemoryAccessTime { idle, least: idle, regular: true, ..bounded }
            }
            false => bounded,
        }
    }

    /// Returns the time from the start of an array read until its data can start to flow to the host without a gap.
    fn lone_flash_read_start(&self, array: Span, bytes: u32) -> Span {
        let (costs, chunk) = (self.mean_flash_costs(), self.drive.data_payload_bytes());
        let there = |bytes| Time::ZERO + costs.command + array + costs.bus.transfer_time(bytes) + costs.ecc_decode;
        self.link.earliest_stream_start(bytes, chunk, there(bytes.min(chunk)), there(bytes)).since(Time::ZERO)
    }

    /// Returns the time of a lone read of the fastest kind of page: command, array read, transfer of all bytes, and
    /// decoding.
    pub fn lone_flash_read_time(&self, bytes: u32) -> Span {
        let costs = self.mean_flash_costs();
        let array = self.page_read_times().into_iter().min().unwrap_or_default();
        costs.command + array + costs.bus.transfer_time(bytes) + costs.ecc_decode
    }

    fn least_flash_time(&self, workload: &Workload, class: &Class) -> Span {
        let (costs, buffer) = (self.mean_flash_costs(), &self.drive.buffer);
        let late = !self.drive.media.acknowledges_early();
        match class.direction {
            DataDirection::Write if late => self.buffer_admission_time(workload, class) + costs.program,
            DataDirection::Write => {
                self.buffer_admission_time(workload, class) + buffer.page * u64::from(class.bytes) / 4096
            }
            DataDirection::Read if self.may_skip_cells(workload) => Span::ZERO,
            DataDirection::Read => {
                let array = self.page_read_times().into_iter().min().unwrap_or_default();
                costs.command + array + costs.ecc_decode
            }
        }
    }

    /// Returns the time that a lone write takes in the servers of the write buffer and in its zone.
    fn buffer_admission_time(&self, workload: &Workload, class: &Class) -> Span {
        let (costs, command) = self.admission_service_times(workload, class);
        costs.buffer_service_time(&command) + costs.zone
    }

    /// Returns the service times of write commands, and a write as its admission sees it. A write whose size is no
    /// multiple of the mapping unit covers at least one unit only in part.
    fn admission_service_times(
        &self,
        workload: &Workload,
        class: &Class,
    ) -> (AdmissionServiceTimes, AdmittedWriteCommand) {
        let zones = &self.drive.zones;
        let partial_units = u32::from(!class.bytes.is_multiple_of(self.drive.translation.unit_bytes));
        let is_append = zones.is_there() && workload.appends;
        (
            AdmissionServiceTimes::of(&self.drive.buffer, zones),
            AdmittedWriteCommand { offset: 0, is_append, partial_units },
        )
    }

    /// Returns the least number of bytes that a write moves in the memory of the write buffer. If zones have dies of
    /// their own, a part of a mapping unit moves the whole unit, and each part after the first reads the unit before.
    fn least_buffer_bytes(&self, class: &Class) -> f64 {
        let (bytes, unit_bytes) = (f64::from(class.bytes), self.drive.translation.unit_bytes);
        let is_part = class.bytes < unit_bytes && unit_bytes.is_multiple_of(class.bytes) && self.drive.zones.dies > 0;
        if is_part { 2.0 * f64::from(unit_bytes) - bytes } else { bytes }
    }

    /// Returns the array read time of each page on a word line.
    fn page_read_times(&self) -> Vec<Span> {
        let media = &self.drive.media;
        self.mean_flash_costs().reads[..index(media.bits_per_cell())].to_vec()
    }

    /// True if reads may be served without the flash cells: data just written, never written, or read ahead.
    fn may_skip_cells(&self, workload: &Workload) -> bool {
        let writes = workload.classes.iter().any(|class| class.direction == DataDirection::Write);
        let ahead = workload.sequential && self.drive.buffer.read_ahead_kib > 0;
        writes || ahead || self.drive.translation.precondition == Precondition::None
    }

    /// Adds the service demands of a request on flash dies, channels and the write buffer.
    pub fn add_flash_demands(&self, demands: &mut ServiceDemands, workload: &Workload, class: &Class) {
        match class.direction {
            DataDirection::Read => self.add_flash_read_demands(demands, workload, class),
            DataDirection::Write => self.add_flash_write_demands(demands, workload, class),
        }
    }

    fn add_flash_read_demands(&self, demands: &mut ServiceDemands, workload: &Workload, class: &Class) {
        let costs = self.mean_flash_costs();
        let from_cells = self.certain_cell_share(workload);
        let (reads, bytes) = self.least_array_reads(workload, class);
        let transfer = Span::from_ns_f64(bytes * self.channel_transfer_ns_per_byte());
        // A plane stays busy until its page has crossed the channel, so the transfer counts as plane time too.
        let held = costs.command + self.mean_page_read_time(workload) + transfer;
        demands.add("flash dies", self.planes_apart() * self.dies(), held, reads * from_cells);
        demands.add("flash channels", self.drive.media.channels.into(), transfer, reads * from_cells);
        self.add_flash_command_demands(demands, reads * from_cells);
    }

    /// Adds the service demand of this many flash commands on the bus that carries commands, if its time is modelled.
    fn add_flash_command_demands(&self, demands: &mut ServiceDemands, commands: f64) {
        let resource = match self.drive.media.command_bus {
            CommandBusSharing::Unlimited => return,
            CommandBusSharing::Separate => "flash command buses",
            CommandBusSharing::Shared => "flash channels",
        };
        demands.add(resource, self.drive.media.channels.into(), self.drive.media.command, commands);
    }

    /// Returns the smallest number of array reads that a request causes, and the bytes that each of them delivers. An
    /// array read occupies all planes that read together.
    fn least_array_reads(&self, workload: &Workload, class: &Class) -> (f64, f64) {
        let (media, translation) = (&self.drive.media, &self.drive.translation);
        let page_bytes = f64::from(media.stripe_bytes) / self.planes_apart();
        let pages = f64::from(class.bytes) / page_bytes;
        if workload.sequential && self.drive.buffer.read_ahead_kib > 0 {
            // Read-ahead fetches whole rows, and threads that read the same addresses share each row.
            return (pages / workload.requests_sharing_a_piece(), page_bytes);
        }
        let writes = workload.classes.iter().any(|class| class.direction == DataDirection::Write);
        let is_scattered = translation.precondition == Precondition::Random && !writes;
        let is_aligned = class.aligned && (pages.fract() == 0.0 || (1.0 / pages).fract() == 0.0);
        let reads = match (is_scattered, is_aligned) {
            // Random preconditioning puts neighbouring mapping units on different dies, so each unit needs a read of
            // its own.
            (true, _) => pages.max(f64::from(class.bytes) / f64::from(translation.unit_bytes)).ceil(),
            (false, true) => pages.ceil(),
            // A read that is not page-aligned may begin and end inside the same page, so the bound counts one page
            // less.
            (false, false) => (pages.ceil() - 1.0).max(1.0),
        };
        (reads, f64::from(class.bytes) / reads)
    }

    /// Returns the share of reads that certainly come from the flash cells, 0 to 1.
    fn certain_cell_share(&self, workload: &Workload) -> f64 {
        let writes = workload.classes.iter().any(|class| class.direction == DataDirection::Write);
        match (self.drive.translation.precondition, writes) {
            (Precondition::None, _) => 0.0,
            (_, false) => 1.0,
            (_, true) if workload.sequential => 0.0,
            (_, true) => {
                let buffered = self.buffer_bytes() + 2.0 * self.flash_line_capacity_bytes();
                (1.0 - buffered / real(workload.region_bytes.max(1))).max(0.0)
            }
        }
    }

    /// Returns the mean array read time of the pages in a job's region. A small region may have few kinds of pages;
    /// then it is the shortest read time.
    fn mean_page_read_time(&self, workload: &Workload) -> Span {
        let reads = self.page_read_times();
        match real(workload.region_bytes) >= LINES_ALIKE * self.flash_line_capacity_bytes() {
            true => reads.iter().copied().sum::<Span>() / length(reads.len().max(1)),
            false => reads.into_iter().min().unwrap_or_default(),
        }
    }

    fn add_flash_write_demands(&self, demands: &mut ServiceDemands, workload: &Workload, class: &Class) {
        demands.add("write buffer", 1.0, self.drive.buffer.page, self.least_buffer_bytes(class) / 4096.0);
        let (admission, command) = self.admission_service_times(workload, class);
        let servers = self.drive.buffer.command_servers.into();
        demands.add("write buffer commands", servers, admission.buffer_service_time(&command), 1.0);
        // Each thread writes to one zone at a time.
        demands.add("zones being written", workload.threads.into(), admission.zone, 1.0);
        let (media, translation) = (&self.drive.media, &self.drive.translation);
        let costs = self.mean_flash_costs();
        let amplification = self.amplification(workload);
        let leaving = self.bytes_leaving_buffer(workload, class);
        let moved = leaving * (amplification - 1.0);
        let unit_bytes = f64::from(translation.unit_bytes);
        let partial = self.partial_units(workload, class) * leaving / self.flash_line_bytes_of_write(workload, class);
        // The share of valid units in a victim block is 1 - 1/amplification, so a read of one row moves that share of
        // its units.
        let valid = 1.0 - 1.0 / amplification;
        let row_units = f64::from(media.stripe_bytes) / unit_bytes;
        let reads = moved / unit_bytes / (valid * row_units).max(1.0) + partial;
        let programmed = leaving + moved;
        let block_bytes = f64::from(media.stripe_bytes) * f64::from(media.block_pages);
        let erases_all = translation.precondition == Precondition::Random || self.drive.zones.dies > 0;
        let erased = if erases_all && translation.precondition != Precondition::None { programmed } else { moved };
        // Programs and erases occupy all planes of a die, so a die counts as that many busy planes.
        let (planes, dies) = (self.planes_apart(), self.planes_apart() * self.dies_for_host_writes(workload));
        let read = costs.command + self.mean_page_read_time(workload);
        let (stripe, word_line) = (f64::from(media.stripe_bytes), f64::from(media.program_bytes));
        // Writes to the SLC cache program one stripe at a time, which may take less time than programming a whole word
        // line.
        let (program, bytes) = match translation.has_slc_cache() && translation.precondition != Precondition::Random {
            true => (costs.program.scale(stripe / word_line).min(costs.slc_program), stripe),
            false => (costs.program, word_line),
        };
        demands.add("flash dies", dies, program, planes * programmed / bytes);
        demands.add("flash dies", dies, read, planes * reads);
        demands.add("flash dies", dies, costs.erase, planes * erased / block_bytes);
        let carried_bytes = programmed + moved + partial * unit_bytes;
        let transfer = Span::from_ns_f64(carried_bytes * self.channel_transfer_ns_per_byte());
        demands.add("flash channels", media.channels.into(), transfer, 1.0);
        let page_bytes = f64::from(media.stripe_bytes) / f64::from(media.planes);
        self.add_flash_command_demands(demands, programmed / page_bytes + reads);
        // With prioritised collection reads, a die never waits for the data of its next program, so only queued
        // collection reads add this demand.
        if amplification > 1.0 && translation.collection_reads == CollectionReadPriority::Queued {
            let round = round_time(media, translation, amplification);
            demands.add(GARBAGE_COLLECTION, 1.0, round, leaving / self.flash_line_capacity_bytes());
        }
    }

    /// Returns the number of mapping units of a write that it covers only in part (0 or 1). The rest of such a unit is
    /// read before it is programmed.
    fn partial_units(&self, workload: &Workload, class: &Class) -> f64 {
        let translation = &self.drive.translation;
        let is_whole = class.bytes.is_multiple_of(translation.unit_bytes);
        let has_rest = translation.precondition != Precondition::None;
        if is_whole || workload.sequential || !has_rest { 0.0 } else { 1.0 }
    }

    /// Returns the bytes that a write occupies in a flash line: whole mapping units, or its own bytes if the next write
    /// fills the rest.
    fn flash_line_bytes_of_write(&self, workload: &Workload, class: &Class) -> f64 {
        let unit_bytes = self.drive.translation.unit_bytes;
        match workload.sequential {
            true => class.bytes.into(),
            false => f64::from(class.bytes.div_ceil(unit_bytes)) * f64::from(unit_bytes),
        }
    }

    /// Returns the bytes per write that leave the write buffer for flash while requests are counted. Data that is
    /// overwritten in the buffer never does.
    fn bytes_leaving_buffer(&self, workload: &Workload, class: &Class) -> f64 {
        // Each thread writes to zones of its own, so its writes never overwrite data in the buffer.
        if self.drive.zones.is_there() {
            return f64::from(class.bytes) * workload.leaving_share;
        }
        let (region, line) = (real(workload.region_bytes.max(1)), self.flash_line_capacity_bytes());
        let again = if workload.sequential { 0.0 } else { (line / region).min(1.0) };
        let together = if workload.sequential { f64::from(workload.threads) } else { 1.0 };
        let around = if workload.sequential && region < 2.0 * line { 0.0 } else { 1.0 };
        self.flash_line_bytes_of_write(workload, class) * workload.leaving_share * (1.0 - again) * around / together
    }

    /// Returns the capacity of the drive's write buffer in bytes.
    pub fn buffer_bytes(&self) -> f64 {
        real(self.drive.buffer.capacity_kib << 10)
    }

    fn flash_line_capacity_bytes(&self) -> f64 {
        let layout = FlashUnitLayout::of(&self.drive.media, &self.drive.translation);
        f64::from(layout.line_units()) * f64::from(layout.unit_bytes)
    }

    fn dies(&self) -> f64 {
        f64::from(self.drive.media.banks())
    }

    /// Returns the number of dies that host writes can use at a time. If zones have dies of their own, each thread
    /// writes to one zone. While the end of a zone leaves the write buffer, its thread fills the next one, on other
    /// dies.
    fn dies_for_host_writes(&self, workload: &Workload) -> f64 {
        let zones = &self.drive.zones;
        if zones.dies == 0 {
            return self.dies();
        }
        let (zone, buffered) = (real(zones.writable_mib() << 20), self.buffer_bytes());
        let beside = if buffered < zone { zone / (zone - buffered) } else { f64::INFINITY };
        (f64::from(workload.threads) * f64::from(zones.dies) * beside).min(self.dies())
    }

    /// Returns the number of planes of a die that can read independently of each other.
    fn planes_apart(&self) -> f64 {
        let media = &self.drive.media;
        if media.plane_reads == ReadablePages::Independent { media.planes.into() } else { 1.0 }
    }

    /// Returns the nanoseconds for which one byte occupies a flash channel.
    fn channel_transfer_ns_per_byte(&self) -> f64 {
        self.mean_flash_costs().bus.transfer_time(1 << 20).as_ns() / f64::from(1 << 20)
    }

    /// Returns a lower bound of the write amplification: bytes programmed per byte that the host writes. A short job
    /// finds the drive's initial steady state of random writes, whatever it writes. In long jobs, sequential writes
    /// invalidate whole blocks, and random ones reach a steady state of their own. It is 1 for drives that still have
    /// spare blocks.
    fn amplification(&self, workload: &Workload) -> f64 {
        let translation = &self.drive.translation;
        if translation.precondition != Precondition::Random {
            return 1.0;
        }
        let shape = shape(&self.drive.media, translation);
        if self.overwritten_region_share(workload) < SHARE_OF_SHORT {
            return shape.steady_write_amplification(shape.used_units, 1);
        }
        if workload.sequential {
            return 1.0;
        }
        let writes = workload.classes.iter().filter(|class| class.direction == DataDirection::Write);
        let largest = writes.map(|class| class.bytes).max().unwrap_or(0);
        let region_units = workload.region_bytes.div_ceil(translation.unit_bytes.into());
        shape.steady_write_amplification(region_units, largest / translation.unit_bytes)
    }

    /// Returns the largest share of its region that a job overwrites, ramp included. In each period, it writes no more
    /// than the memory of the write buffer can take.
    fn overwritten_region_share(&self, workload: &Workload) -> f64 {
        let bytes_per_ns = 4096.0 / self.drive.buffer.page.as_ns();
        let bytes_in = |time: Span| if time.is_zero() { 0.0 } else { bytes_per_ns * time.as_ns() };
        let of_ios = workload.written_bytes.map_or(f64::INFINITY, real);
        let counted = of_ios.min(workload.runtime.map_or(f64::INFINITY, bytes_in));
        (counted + bytes_in(workload.ramp_time)) / real(workload.region_bytes.max(1))
    }
}

/// Returns the mean of the longest of `count` array reads, each of a random kind of page; `pages` is in ascending order.
fn mean_longest_array_read(pages: &[Span], count: u32) -> Span {
    let share_below = |kinds: usize| libm::pow(real_length(kinds) / real_length(pages.len()), f64::from(count));
    let weighed = pages.iter().enumerate().map(|(kind, page)| page.scale(share_below(kind + 1) - share_below(kind)));
    weighed.sum()
}

/// Returns a number of pages as a whole number, at least 1.
fn whole_page_count(pages: f64) -> u32 {
    narrow(whole(pages.ceil().max(1.0)))
}
