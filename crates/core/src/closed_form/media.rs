//! Memory in closed form: time of a request on an idle memory, a lower bound on any, and demands on banks and buses.

use super::Parts;
use super::demand::ServiceDemands;
use super::workload::{Class, Workload};
use crate::config::{Acknowledge, WearLevelling, WrittenDataPattern};
use crate::media::Timing;
use crate::media::cells::Cells;
use crate::media::wear::WearLineLayout;
use crate::number::{real, real_length};
use crate::request::DataDirection;
use crate::time::{Span, Time};

/// Largest number of different positions within stripe and program unit that are examined one by one. Above it, all are
/// assumed to differ.
const PLACES_MAX: u64 = 64;

/// Time of a request in the memory: of a read, until its data can start towards the host; of a write, until it is
/// acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccessTime {
    /// Time of the request on an idle memory.
    pub idle: Span,
    /// Part of `idle` for which the slowest piece of the request waits for a bank or bus that another piece uses.
    pub waited: Span,
    /// Lower bound of the request's time in the memory, busy or idle.
    pub least: Span,
    /// True if every request of its kind takes the same time on an idle memory. Otherwise, `idle` equals `least`.
    pub regular: bool,
}

/// Work of one request in the memory: number of stripes and program units, and its times on banks and buses.
#[derive(Clone, Copy, Debug)]
struct RequestMemoryWork {
    /// Smallest number of stripes that the request covers. The next fields are programmed units, transfer time as banks
    /// wait for it, transfer time summed over all buses, and program time.
    pieces: u64,
    units: u64,
    transfer: Span,
    bus_time: Span,
    program: Span,
}

impl Parts<'_> {
    /// Returns the time of a request in the memory, network of a volume included, if it is one command.
    pub fn access(&self, workload: &Workload, class: &Class) -> MemoryAccessTime {
        let access = self.single_command_access(workload, class);
        let network = self.network(class.direction);
        MemoryAccessTime { idle: access.idle + network, least: access.least + network, ..access }
    }

    /// Returns the time of a request in the memory if it is one command, without the network of a volume.
    fn single_command_access(&self, workload: &Workload, class: &Class) -> MemoryAccessTime {
        if self.is_mapped() {
            return self.flash_access_time(workload, class);
        }
        let bytes = class.bytes;
        let least = self.least(class.direction, bytes);
        let idle = |offset| match class.direction {
            DataDirection::Read => self.idle_read_time(offset, bytes),
            DataDirection::Write => self.idle_write_time(offset, bytes),
        };
        let first = idle(workload.offset);
        match self.places(workload, class).is_some_and(|mut offsets| offsets.all(|offset| idle(offset) == first)) {
            true => MemoryAccessTime { idle: first.1, waited: first.0, least: least.min(first.1), regular: true },
            false => MemoryAccessTime { idle: least, waited: Span::ZERO, least, regular: false },
        }
    }

    /// Returns the offset of one request at each different position within stripes and program units. `None` if there
    /// are too many positions. `None` also if chance, pauses or wear levelling make equal requests take different
    /// times.
    pub fn places(&self, workload: &Workload, class: &Class) -> Option<impl Iterator<Item = u64> + use<>> {
        let (stripe, unit) = (self.geometry.stripe_bytes, self.timing().program_bytes);
        let units_repeat =
            class.direction == DataDirection::Read || stripe.is_multiple_of(unit) || unit.is_multiple_of(stripe);
        let units_repeat = units_repeat && !self.may_cross_units(class);
        let (count, offset, bytes) =
            (self.repeating_positions(workload, class), workload.offset, u64::from(class.bytes));
        let are_known =
            class.aligned && units_repeat && count <= PLACES_MAX && !self.has_varying_times(class.direction);
        are_known.then(|| (0..count).map(move |place| offset + place * bytes))
    }

    /// Returns the number of consecutive requests after which their positions within a stripe repeat. Requests that
    /// divide a stripe evenly all count as one position.
    fn repeating_positions(&self, workload: &Workload, class: &Class) -> u64 {
        let (stripe, bytes) = (u64::from(self.geometry.stripe_bytes), u64::from(class.bytes));
        // On a drive with separate chips, parts of a stripe at different offsets use different buses, so parts of a
        // stripe are not equivalent.
        let parts_alike = stripe.is_multiple_of(bytes) && (self.chips.is_none() || stripe == bytes);
        match parts_alike && workload.offset.is_multiple_of(bytes) && self.has_fixed_unit_count(class) {
            true => 1,
            false => stripe / greatest_common_divisor(stripe, bytes),
        }
    }

    /// True if a request within one stripe programs the same number of units at any position in the stripe.
    fn has_fixed_unit_count(&self, class: &Class) -> bool {
        let unit = self.timing().program_bytes;
        class.direction == DataDirection::Read || unit.is_multiple_of(class.bytes) || class.bytes.is_multiple_of(unit)
    }

    /// True if one write may cover parts of two program units in a bank, which needs stripes smaller than a unit.
    fn may_cross_units(&self, class: &Class) -> bool {
        let unit = u64::from(self.timing().program_bytes) * u64::from(self.banks());
        let has_more = self.geometry.stripe_bytes < self.timing().program_bytes;
        class.direction == DataDirection::Write && has_more && !unit.is_multiple_of(class.bytes.into())
    }

    /// Returns the time in the memory of a request that arrives as `commands` commands one after the other.
    pub fn access_in_commands(&self, workload: &Workload, class: &Class, commands: u32) -> MemoryAccessTime {
        let access = self.access(workload, class);
        match commands {
            1 => access,
            _ => MemoryAccessTime { idle: access.least, waited: Span::ZERO, ..access },
        }
    }

    /// Returns a lower bound of the time of `bytes` bytes in this memory, whatever its state.
    pub fn least(&self, direction: DataDirection, bytes: u32) -> Span {
        match direction {
            DataDirection::Read => self.least_read_time(bytes),
            DataDirection::Write => self.least_write_time(bytes),
        }
    }

    /// Returns the time for which the memory's buses carry `bytes` bytes if they share the work evenly.
    pub fn on_buses(&self, direction: DataDirection, bytes: u32) -> Span {
        self.spread(direction, bytes).bus_time / u64::from(self.buses())
    }

    /// True if chance, pauses or wear levelling make equal requests take different times.
    fn has_varying_times(&self, direction: DataDirection) -> bool {
        let media = &self.drive.media;
        let pauses = !media.housekeeping.is_zero();
        let moves = media.wear_levelling != WearLevelling::None;
        pauses
            || self.has_spread()
            || direction == DataDirection::Write && (moves || media.data_pattern == WrittenDataPattern::Random)
    }

    /// Returns the time that a read waits in an idle memory, and the time until its data can start to flow to the host.
    fn idle_read_time(&self, offset: u64, bytes: u32) -> (Span, Span) {
        let chunk_bytes = self.drive.data_payload_bytes();
        let timing = self.media.clone().read(Time::ZERO, offset, bytes, bytes.min(chunk_bytes));
        let start = self.link.earliest_stream_start(bytes, chunk_bytes, timing.first_at, timing.last_at);
        (timing.started.since(Time::ZERO), start.since(Time::ZERO))
    }

    /// Returns the time that a write waits in an idle memory, and the time until it is acknowledged.
    fn idle_write_time(&self, offset: u64, bytes: u32) -> (Span, Span) {
        let timing = self.media.clone().write(Time::ZERO, offset, bytes);
        (timing.started.since(Time::ZERO), timing.acknowledged_at.since(Time::ZERO))
    }

    /// Returns a lower bound of the time until a read's data starts to flow, however its pieces collide. The first
    /// packet has come from the cells, and the rest has used the buses and banks that it needs.
    fn least_read_time(&self, bytes: u32) -> Span {
        let (before, spread) = (self.before(DataDirection::Read), self.spread(DataDirection::Read, bytes));
        let chunk_bytes = bytes.min(self.drive.data_payload_bytes());
        let first = before + self.least_first_transfer_time(chunk_bytes);
        let over_buses = before + self.even_bus_share(DataDirection::Read, bytes);
        let over_banks = (before * spread.pieces + spread.transfer) / u64::from(self.banks());
        let before_last = self.link.offset_of_stream_packet(bytes.div_ceil(chunk_bytes) - 1, chunk_bytes);
        first.max(over_buses.max(over_banks).saturating_sub(before_last)) + self.drive.media.ecc_decode
    }

    /// Returns a lower bound of the time until a write is acknowledged. Its last byte has crossed a bus, and a late
    /// acknowledgement waits for the program. Banks have done all work that may not follow the acknowledgement.
    fn least_write_time(&self, bytes: u32) -> Span {
        let (timing, spread) = (self.timing(), self.spread(DataDirection::Write, bytes));
        let banks = u64::from(self.banks());
        let over_buses = timing.command + self.even_bus_share(DataDirection::Write, bytes);
        let transfers = timing.command * self.least_waiting_commands(spread) + spread.transfer;
        match timing.acknowledge {
            Acknowledge::Late => {
                let programmed = if spread.program.is_zero() { Span::ZERO } else { self.least_program_time() };
                (over_buses + programmed).max((transfers + spread.program) / banks)
            }
            Acknowledge::Early => {
                let programs = self.least_program_time() * spread.units.saturating_sub(banks);
                over_buses.max((transfers + programs) / banks)
            }
        }
    }

    /// Returns the smallest number of commands of a write for which banks wait. The command of a piece that joins an
    /// open program unit overlaps with transfers.
    fn least_waiting_commands(&self, spread: RequestMemoryWork) -> u64 {
        if self.chips.is_some() { spread.pieces } else { spread.pieces.min(spread.units) }
    }

    /// Returns the least time of a program operation over all data patterns that the drive may get.
    pub(crate) fn least_program_time(&self) -> Span {
        let (media, cells) = (&self.drive.media, Cells::of(&self.drive.media));
        match media.data_pattern {
            WrittenDataPattern::Random => {
                cells.program_time(WrittenDataPattern::Zeros).min(cells.program_time(WrittenDataPattern::Ones))
            }
            _ => self.timing().program,
        }
    }

    /// Returns the work in the memory of a request that starts at the beginning of a stripe.
    fn spread(&self, direction: DataDirection, bytes: u32) -> RequestMemoryWork {
        let pieces = bytes.div_ceil(self.geometry.stripe_bytes);
        let units = self.units(bytes);
        let (transfer, bus_time) = self.transfers(direction, bytes);
        RequestMemoryWork {
            pieces: pieces.into(),
            units,
            transfer,
            bus_time,
            program: self.least_program_time() * units,
        }
    }

    /// Returns the smallest number of program units that a request writes. The bytes that one bank gets are adjacent
    /// and are programmed unit by unit; whole stripes go to the banks in turn.
    fn units(&self, bytes: u32) -> u64 {
        let (stripe, unit, banks) = (self.geometry.stripe_bytes, self.timing().program_bytes, self.banks());
        let whole = bytes / stripe;
        if whole == 0 {
            return bytes.div_ceil(unit).into();
        }
        let of_bank = |stripes: u32| (u64::from(stripes) * u64::from(stripe)).div_ceil(unit.into());
        let more = whole % banks;
        of_bank(whole / banks + 1) * u64::from(more) + of_bank(whole / banks) * u64::from(banks - more)
    }

    /// Returns the share (0 to 1) of a write's program operations that cannot be saved by merging them with other
    /// writes. It is less than 1 for part of a unit that follows another write or that other threads write too. It is
    /// also less if the write may meet another one that waits at a bank or in a write buffer.
    fn unmergeable_program_share(&self, workload: &Workload, class: &Class, units: u64) -> f64 {
        let unit_bytes = f64::from(self.timing().program_bytes);
        let least = (f64::from(class.bytes) / unit_bytes / real(units)).min(1.0);
        let waiting = real(workload.outstanding) + f64::from(self.banks());
        let met = (waiting * unit_bytes / real(workload.region_bytes.max(1))).min(1.0);
        // Pieces smaller than a programming unit are merged with pieces of other requests that wait for the same bank.
        let has_pieces = self.geometry.stripe_bytes < self.timing().program_bytes;
        match workload.sequential || has_pieces || self.chips.is_some() {
            true if self.chips.is_some() => 1.0,
            true => least / f64::from(workload.threads),
            false => 1.0 - met * (1.0 - least),
        }
    }

    /// Returns two transfer times of a request: as the banks wait for it, and summed over all buses.
    fn transfers(&self, direction: DataDirection, bytes: u32) -> (Span, Span) {
        let Some(chips) = &self.chips else {
            let transfer = self.timing().bus.transfer_time(bytes);
            return (transfer, transfer);
        };
        let time = |count| {
            if direction == DataDirection::Read {
                chips.chip_read_bus_time(count)
            } else {
                chips.chip_write_bus_time(count)
            }
        };
        let stripe = self.geometry.stripe_bytes;
        let (whole, rest) = (u64::from(bytes / stripe), bytes % stripe);
        let (mut transfer, mut count) =
            (time(chips.least_chips_on_busiest_bus(stripe)) * whole, u64::from(chips.chips_for_bytes(stripe)) * whole);
        if rest > 0 {
            transfer += time(chips.least_chips_on_busiest_bus(rest));
            count += u64::from(chips.chips_for_bytes(rest));
        }
        (transfer, time(1) * count)
    }

    /// Returns the time of a request in a bank before its first transfer on a bus: the command and, for a read, the
    /// array access.
    fn before(&self, direction: DataDirection) -> Span {
        match direction {
            DataDirection::Read if self.chips.is_none() => self.timing().read_access_time(),
            _ => self.timing().command,
        }
    }

    /// Returns the least time until the first `bytes` bytes have crossed the memory's buses.
    fn least_first_transfer_time(&self, bytes: u32) -> Span {
        match &self.chips {
            None => self.timing().bus.transfer_time(bytes / self.buses()),
            Some(chips) => chips.chip_read_bus_time(1),
        }
    }

    /// Returns the time for which each bus carries its share of a request, if the request is spread evenly.
    fn even_bus_share(&self, direction: DataDirection, bytes: u32) -> Span {
        match &self.chips {
            None => self.timing().bus.transfer_time(bytes / self.buses()),
            Some(_) => self.transfers(direction, bytes).1 / u64::from(self.buses()),
        }
    }

    /// Adds the service demands of a request on the memory. Only the banks and buses that the job's region reaches
    /// count.
    pub fn add_media_demands(&self, demands: &mut ServiceDemands, workload: &Workload, class: &Class) {
        self.add_firmware_demands(demands, class);
        self.add_rate_limit_demands(demands, workload, class);
        if self.is_mapped() {
            return self.add_flash_demands(demands, workload, class);
        }
        let spread = self.spread(class.direction, class.bytes);
        let stripe = u64::from(self.geometry.stripe_bytes);
        let last = workload.offset.saturating_add(workload.region_bytes.max(1) - 1);
        let stripes = real(last / stripe - workload.offset / stripe + 1);
        // A merged write sends its command while data of other pieces is on the bus, so only unmerged writes pay for
        // the command.
        let alone = match class.direction {
            DataDirection::Read => 1.0,
            DataDirection::Write => self.unmergeable_program_share(workload, class, spread.units),
        };
        let program = if class.direction == DataDirection::Read { Span::ZERO } else { spread.program };
        let held = (self.before(class.direction) * spread.pieces + program).scale(alone) + spread.transfer;
        let buses_per_channel = real_length(self.chips.map_or(1, |chips| chips.buses()));
        let awake = 1.0 - self.least_pause_share(workload);
        // Pieces of one request on the same bank, or on the same bus, are served as one access.
        let (banks, buses) = (spread.pieces.min(self.banks().into()), spread.pieces.min(self.buses().into()));
        demands.add("media banks", stripes.min(f64::from(self.banks())) * awake, held / banks, real(banks));
        let in_region = (stripes * buses_per_channel).min(f64::from(self.buses()));
        demands.add("media buses", in_region, spread.bus_time / buses, real(buses));
        if class.direction == DataDirection::Write {
            self.add_gap_move_demands(demands, stripes, class.bytes);
        }
    }

    /// Adds the service demand of wear levelling on banks and buses. Each written line causes its share of a line move,
    /// which reads and writes one line.
    fn add_gap_move_demands(&self, demands: &mut ServiceDemands, stripes: f64, bytes: u32) {
        if self.drive.media.wear_levelling == WearLevelling::None {
            return;
        }
        let line_bytes = WearLineLayout::of(&self.drive.media).line_bytes;
        let moves = f64::from(bytes.div_ceil(line_bytes)) / f64::from(self.drive.media.gap_write_interval);
        for direction in [DataDirection::Read, DataDirection::Write] {
            let spread = self.spread(direction, line_bytes);
            let program = if direction == DataDirection::Read { Span::ZERO } else { spread.program };
            let held = self.before(direction) + spread.transfer + program;
            demands.add("media banks", stripes.min(f64::from(self.banks())), held, moves);
            demands.add("media buses", stripes.min(f64::from(self.buses())), spread.bus_time, moves);
        }
    }

    /// Returns the smallest share of its time that a bank loses to housekeeping pauses. No access starts in a pause,
    /// but accesses in progress continue.
    fn least_pause_share(&self, workload: &Workload) -> f64 {
        let (pause, interval) = (self.drive.media.housekeeping, self.drive.media.housekeeping_interval);
        if pause.is_zero() || interval.is_zero() {
            return 0.0;
        }
        let held = |class: &Class| {
            let spread = self.spread(class.direction, class.bytes);
            let program = if class.direction == DataDirection::Read { Span::ZERO } else { spread.program };
            self.before(class.direction) * spread.pieces + spread.transfer + program
        };
        let longest = workload.classes.iter().map(held).max().unwrap_or_default();
        pause.saturating_sub(longest).as_ns() / interval.as_ns()
    }

    fn timing(&self) -> &Timing {
        &self.geometry.timing
    }

    fn buses(&self) -> u32 {
        u32::from(self.geometry.channels) * self.chips.map_or(1, |chips| chips.buses()) as u32
    }

    fn banks(&self) -> u32 {
        u32::from(self.geometry.channels) * u32::from(self.geometry.banks_per_channel)
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
