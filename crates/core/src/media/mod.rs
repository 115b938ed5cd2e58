//! Memory behind the controller: channels of banks that share a bus, with their array and program times, and the
//! interleaving of addresses.
//!
//! A controller asks [`Media`] when the bytes of a read will have arrived, or when a write will be done, and gets the
//! time at once. A bank serves accesses in the order of the calls and a bus keeps its reservations, so that no later
//! access changes a time. `now` is the time of the call; for a command that is still being parsed it lies a little
//! ahead. Media knows nothing of links and protocols, moves no data and refuses no address.
//!
//! [`geometry`] maps addresses to banks, [`timing`] holds the costs of a technology and the reservations of a bus,
//! [`bank`] the state of a bank and the program unit in its write buffer; this module joins the times of a request's
//! pieces. [`MediaOptions`] holds the parts that only some memories have: [`chip`] models the chips of a bank one by
//! one, [`cells`] makes the time of a write depend on its data, [`spread`] draws array times around their mean,
//! [`wear`] moves lines between slots, [`housekeeping`] pauses all banks. `energy` counts joules, [`lifetime`] computes
//! how long a memory lasts.
//!
//! A drive may have processors in front of it ([`processors`]), and flash a write buffer and a translation layer
//! ([`flash`], [`translation`]), which replace the banks. [`volume`] limits the rates at which accesses pass, and adds
//! the latency of a network. [`zones`] decides which writes are accepted by a drive whose blocks are written in order,
//! and [`keys`] where a drive keeps values that are stored by their keys.

pub mod bank;
mod bank_faults;
pub mod cells;
pub mod chip;
pub mod ecc;
mod energy;
pub mod flash;
pub mod geometry;
pub mod housekeeping;
mod internals;
pub mod keys;
pub mod lifetime;
pub mod processors;
pub mod randomiser;
mod resolve;
pub mod spread;
pub mod start_gap;
pub mod timing;
pub mod translation;
pub mod volume;
pub mod wear;
pub mod zones;

pub use geometry::Geometry;
pub use timing::{BusTransferRate, Timing};

use crate::config::Acknowledge;
use crate::ledger::PartBusyTime;
use crate::number::index;
use crate::random::Random;
use crate::time::{Span, Time};
use bank::{Bank, BankProgramPolicy, BankReadPiece, BankWritePiece};
use cells::Cells;
use chip::BankChips;
use geometry::{BankInterleave, BankRequestPiece, BankRequestPieces};
use housekeeping::HousekeepingPauses;
use internals::DriveInternals;
use spread::ArrayTimeSpread;
use timing::{BankAccessStart, ChannelBus, PieceTiming};
use wear::StartGapWear;

/// Memory of one device: banks, channel buses, and the parts that an access passes before them (processors and rate
/// limits). Flash takes the place of the banks.
#[derive(Clone, Debug)]
pub struct Media {
    interleave: BankInterleave,
    timing: Timing,
    banks: Vec<Bank>,
    /// Buses of all channels, one channel after the other.
    buses: Vec<ChannelBus>,
    options: MediaOptions,
    /// Parts in front of the banks: processors, rate limits, injected bank faults, or flash, which replaces the banks.
    /// `None` if the drive has none of them.
    internals: Option<Box<DriveInternals>>,
    /// Earliest time at which the current access may start at a bank: until then processors, rate limits or bank faults
    /// delay it.
    admitted: Time,
    activity: MemoryActivity,
    last_call: Time,
}

/// Optional parts of a memory: chips modelled one by one, pauses, wear levelling, random data, ECC decoding and spread
/// of array times. The default has none of them.
#[derive(Clone, Debug, Default)]
pub struct MediaOptions {
    /// Chips of each bank, modelled one by one; `None` if the chips of a bank act as one.
    pub chips: Option<BankChips>,
    /// Housekeeping pauses, during which no bank starts an access.
    pub pauses: Option<HousekeepingPauses>,
    /// Start-Gap wear levelling of the lines of each bank.
    pub wear: Option<Box<StartGapWear>>,
    /// Source of random data, which gives each write a program time of its own.
    pub random_data: Option<Box<RandomData>>,
    /// Time of the ECC decoder after the transfer of a read; zero if the memory has no decoder.
    pub ecc_decode: Span,
    /// Random spread of array read and program times around their mean, with read retries.
    pub spread: Option<Box<ArrayTimeSpread>>,
}

/// Random data of writes: draws the program time of a write from the zeros and ones that its cells get.
#[derive(Clone, Debug)]
pub struct RandomData {
    /// Cells of one program unit, with the times of their pulses.
    pub cells: Cells,
    /// Random number generator that draws the data of writes.
    pub random: Random,
}

/// Times at which a read reaches its stages in the drive.
///
/// A request that spans stripes is read in pieces that run in parallel as far as their banks and buses allow. Its
/// *critical* piece is the piece whose share of the needed first bytes arrives last. In a request of one piece it is
/// that piece. `now <= dispatched <= admitted <= started <= first_at <= last_at` always, where `now` is the time of the
/// call.
///
/// A request of one piece is never faster than on an idle memory. A request of several pieces may be slightly faster: a
/// busy bank can change the order in which the pieces use a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadTiming {
    /// Time at which one of the drive's processors starts on the read command; the time of the call if the command
    /// occupies no processor.
    pub dispatched: Time,
    /// Time at which the drive's processors have passed the read command on; the time of the call if there are no
    /// processors.
    pub admitted: Time,
    /// Time at which service starts of the critical piece, the one whose share of the needed first bytes arrives last:
    /// `first_at` minus the time that this piece takes on an idle memory. From `admitted` to `started` the request
    /// waits for bank and bus. From `started` to `first_at`, the memory takes the command, reads the array and
    /// transfers the first bytes.
    pub started: Time,
    /// Time at which service starts of the piece that arrives last: `last_at` minus the time that the read takes until
    /// its last byte on an idle memory. Known for flash; for other memories it equals `started`.
    pub last_started: Time,
    /// Time at which the needed first bytes of a read, in address order, are in the controller: a stream to the host
    /// may start. The stream does not run out of data if the request is one piece and the link is no faster than the
    /// bus.
    pub first_at: Time,
    /// Time at which all bytes of all pieces of a read are in the controller. The last packet to the host cannot leave
    /// earlier.
    pub last_at: Time,
}

impl ReadTiming {
    /// Returns a read that starts at once at `now`, waits for nothing, and has all its bytes at `there_at`.
    pub(super) fn unhindered(now: Time, there_at: Time) -> ReadTiming {
        let ([dispatched, admitted, started, last_started], [first_at, last_at]) = ([now; 4], [there_at; 2]);
        ReadTiming { dispatched, admitted, started, last_started, first_at, last_at }
    }

    /// Returns the ends of the stages of a read whose caller waits until `until`: wait for a processor, processors,
    /// wait for bank and bus, memory.
    pub fn stages(&self, until: Time) -> [Time; 4] {
        [self.dispatched, self.admitted, self.started, until]
    }

    /// Returns the ends of the stages of a read whose data flows to the host from `start` on. `flow_start` computes
    /// that time from the arrival of the first and the last bytes. The wait for bank and bus is the time by which
    /// busy banks and buses delay `start`, whichever bytes they delay.
    pub fn stages_with_data_flow(&self, start: Time, flow_start: impl FnOnce(Time, Time) -> Time) -> [Time; 4] {
        if self.last_started == self.started {
            return self.stages(start);
        }
        let unhindered = |there_at: Time, started: Time| there_at - started.since(self.admitted);
        let first_at = unhindered(self.first_at, self.started);
        let waited = start.since(flow_start(first_at, unhindered(self.last_at, self.last_started)));
        [self.dispatched, self.admitted, self.admitted + waited, start]
    }

    /// Asserts that the stages of a read that was called at `now` are in order: dispatched, admitted, started, first
    /// bytes, last bytes.
    #[inline(always)]
    fn assert_ordered(&self, now: Time) {
        let ReadTiming { dispatched, admitted, started, first_at, last_at, .. } = *self;
        let is_admitted = now <= dispatched && dispatched <= admitted;
        let is_ordered = is_admitted && admitted <= started && started <= first_at && first_at <= last_at;
        assert!(is_ordered, "the stages of a read at {now} are out of order: {self:?}");
    }

    /// Returns these read times with the arrival of the first and of the last bytes delayed by `after`.
    fn later(self, after: Span) -> ReadTiming {
        ReadTiming { first_at: self.first_at + after, last_at: self.last_at + after, ..self }
    }
}

/// Times at which a write reaches its stages in the drive: first `dispatched`, then `admitted`, then `started` and
/// `buffered_at` in either order, then `acknowledged_at`, and `programmed_at` last. Equal times are possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteTiming {
    /// Time at which one of the drive's processors starts on the write command; the time of the call if the command
    /// occupies no processor.
    pub dispatched: Time,
    /// Time at which the drive's processors have passed the write command on; the time of the call if there are no
    /// processors.
    pub admitted: Time,
    /// Time at which service of a write starts: `acknowledged_at` minus the time that the piece which decides it takes
    /// on an idle memory. From `admitted` to `started` the request waits for bank and bus.
    pub started: Time,
    /// Time at which all bytes of the write are in the row buffers of the banks, or in the write buffer of flash.
    pub buffered_at: Time,
    /// Time at which all cells of the write are programmed. If no one waits for that, the latest possible time as far
    /// as is known yet.
    pub programmed_at: Time,
    /// Time at which the controller may acknowledge the write: `buffered_at` or `programmed_at`, as [`Acknowledge`]
    /// says.
    pub acknowledged_at: Time,
}

impl WriteTiming {
    /// Returns the ends of the stages of a write until its acknowledgement: wait for a processor, processors, wait for
    /// bank and bus, memory.
    pub fn stages(&self) -> [Time; 4] {
        [self.dispatched, self.admitted, self.started, self.acknowledged_at]
    }

    /// Returns these write times with buffering, programming and acknowledgement delayed by `after`.
    fn later(self, after: Span) -> WriteTiming {
        let WriteTiming { buffered_at, programmed_at, acknowledged_at, .. } = self;
        WriteTiming {
            buffered_at: buffered_at + after,
            programmed_at: programmed_at + after,
            acknowledged_at: acknowledged_at + after,
            ..self
        }
    }

    /// Asserts that the stages of a write that was called at `now` are in order. A row buffer may accept bytes while
    /// its bank is busy, so that `buffered_at` can come before `started`.
    #[inline(always)]
    fn assert_ordered(&self, now: Time) {
        let WriteTiming { dispatched, admitted, started, buffered_at, programmed_at, acknowledged_at } = *self;
        let is_admitted = now <= dispatched && dispatched <= admitted && admitted <= started && admitted <= buffered_at;
        let is_done = started.max(buffered_at) <= acknowledged_at && acknowledged_at <= programmed_at;
        let is_ordered = is_admitted && is_done;
        assert!(is_ordered, "the stages of a write at {now} are out of order: {self:?}");
    }
}

/// Totals of a memory since the start of the run: accesses, bytes, gap moves, and busy time of banks and buses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryActivity {
    /// Number of reads that the memory has been asked for.
    pub reads: u64,
    /// Number of writes that the memory has been asked for.
    pub writes: u64,
    /// Number of bytes read from the memory.
    pub read_bytes: u64,
    /// Number of bytes written to the memory.
    pub written_bytes: u64,
    /// Number of bytes read from flash where nothing was written, or deallocated since, so that no cell was read.
    pub unwritten_read_bytes: u64,
    /// Number of lines that wear levelling has copied to another slot (gap moves of Start-Gap).
    pub gap_moves: u64,
    /// Simulated time for which banks (for flash, dies) are held, summed over all of them. An access counts in full as
    /// soon as it is planned.
    pub banks_busy: Span,
    /// Simulated time of bus transfers, summed over all buses. A transfer counts in full as soon as it is planned.
    pub buses_busy: Span,
}

impl Media {
    /// Creates an idle memory of this geometry without optional parts.
    ///
    /// # Panics
    /// If there is no bank, or a program unit has no byte.
    pub fn new(geometry: &Geometry) -> Media {
        Media::with(geometry, MediaOptions::default())
    }

    /// Creates an idle memory of this geometry with the optional parts of `options`.
    pub fn with(geometry: &Geometry, options: MediaOptions) -> Media {
        assert!(geometry.timing.program_bytes > 0, "a program unit has at least one byte");
        let interleave = BankInterleave::new(geometry);
        let buses_per_channel = options.chips.map_or(1, |chips| chips.buses());
        Media {
            interleave,
            timing: geometry.timing,
            banks: vec![Bank::default(); index(interleave.banks())],
            buses: vec![ChannelBus::default(); usize::from(geometry.channels) * buses_per_channel],
            options,
            internals: None,
            admitted: Time::ZERO,
            activity: MemoryActivity::default(),
            last_call: Time::ZERO,
        }
    }

    /// Reads `bytes` from byte `offset` and returns when they arrive in the controller. `first_bytes` (at least one, at
    /// most all) is the number of bytes that the caller needs before it can begin to send. On an idle memory one piece
    /// takes exactly command + read + bytes / rate, or the time that [`BankChips::chip_read_bus_time`] gives. A read of zero
    /// bytes is done at once.
    pub fn read(&mut self, now: Time, offset: u64, bytes: u32, first_bytes: u32) -> ReadTiming {
        if self.internals.is_some() {
            return self.read_through_internals(now, offset, bytes, first_bytes);
        }
        self.read_with_ecc(now, offset, bytes, first_bytes)
    }

    #[inline(always)]
    fn read_with_ecc(&mut self, now: Time, offset: u64, bytes: u32, first_bytes: u32) -> ReadTiming {
        let decode = if bytes > 0 { self.options.ecc_decode } else { Span::ZERO };
        self.read_pieces(now, offset, bytes, first_bytes, false).later(decode)
    }

    /// Reads `bytes` from byte `offset` without the time of the ECC decoder, as the pass-through mode of PSS does.
    #[inline(always)]
    pub fn read_without_ecc(&mut self, now: Time, offset: u64, bytes: u32, first_bytes: u32) -> ReadTiming {
        self.read_pieces(now, offset, bytes, first_bytes, false)
    }

    /// Reads a part of a row for a caller that reads the row in several parts. The row stays open until its bank does
    /// something else, and a later part of an open row needs neither command nor array read.
    pub fn read_part_of_row(&mut self, now: Time, offset: u64, bytes: u32) -> ReadTiming {
        if self.internals.as_ref().is_some_and(|internals| internals.delays_accesses()) {
            return self.read_through_internals(now, offset, bytes, bytes);
        }
        self.read_pieces(now, offset, bytes, bytes, true).later(self.options.ecc_decode)
    }

    /// Reads all pieces of a request from their banks, and returns its times without the ECC decoder. `keeps_row_open`
    /// leaves the row open for a later read of the same row.
    #[inline(always)]
    fn read_pieces(
        &mut self,
        now: Time,
        offset: u64,
        bytes: u32,
        first_bytes: u32,
        keeps_row_open: bool,
    ) -> ReadTiming {
        self.last_call = now;
        self.activity.reads += 1;
        self.activity.read_bytes += u64::from(bytes);
        let pieces = self.interleave.pieces(offset, bytes);
        let from = now.max(self.admitted);
        let timing = ReadTiming::unhindered(from, from);
        let timing = match pieces.only() {
            // Most reads lie within one stripe, so handle that case separately.
            Some(piece) => self.await_piece_times(now, piece, first_bytes.clamp(1, bytes), keeps_row_open, timing),
            None => self.read_several(now, pieces, first_bytes, keeps_row_open, timing),
        };
        timing.assert_ordered(now);
        ReadTiming { last_started: timing.started, ..timing }
    }

    #[inline(never)]
    fn read_several(
        &mut self,
        now: Time,
        pieces: BankRequestPieces,
        first_bytes: u32,
        keeps_row_open: bool,
        mut timing: ReadTiming,
    ) -> ReadTiming {
        let mut first_bytes_left = first_bytes.max(1);
        for piece in pieces {
            let needed = first_bytes_left.min(piece.bytes);
            first_bytes_left -= needed;
            timing = self.await_piece_times(now, piece, needed, keeps_row_open, timing);
        }
        timing
    }

    #[inline(always)]
    fn await_piece_times(
        &mut self,
        now: Time,
        piece: BankRequestPiece,
        needed: u32,
        keeps_row_open: bool,
        mut timing: ReadTiming,
    ) -> ReadTiming {
        let served = self.read_piece(now, piece, needed, keeps_row_open);
        timing.last_at = timing.last_at.max(served.access.bus_until);
        if needed > 0 {
            self.extend_first_bytes_time(&mut timing, &served);
        }
        timing
    }

    /// Writes `bytes` from byte `offset`: command, transfer into the write buffer, then one program time per program
    /// unit. A bank starts no other access until its programming has ended. If writes are acknowledged early, no one
    /// waits for the cells, and an incomplete program unit waits for its other pieces. A write of zero bytes is done at
    /// once.
    pub fn write(&mut self, now: Time, offset: u64, bytes: u32) -> WriteTiming {
        let policy = match self.timing.acknowledge {
            Acknowledge::Early => BankProgramPolicy::GatherUnit,
            Acknowledge::Late => BankProgramPolicy::AtOnce,
        };
        self.write_through_internals(now, offset, bytes, policy)
    }

    /// Writes `bytes` from byte `offset` for a caller that waits for the cells: programming starts at once, even if the
    /// drive acknowledges writes early.
    pub fn program(&mut self, now: Time, offset: u64, bytes: u32) -> WriteTiming {
        self.write_through_internals(now, offset, bytes, BankProgramPolicy::AtOnce)
    }

    /// Writes `bytes` from byte `offset` for a caller that does not wait for the cells, or calls [`flush`](Self::flush)
    /// when it does. An incomplete program unit waits in its write buffer for other pieces.
    pub fn write_without_waiting(&mut self, now: Time, offset: u64, bytes: u32) -> WriteTiming {
        self.write_through_internals(now, offset, bytes, BankProgramPolicy::GatherUnit)
    }

    /// Programs the write buffers of the banks that hold the `bytes` from byte `offset`. Returns the time at which all
    /// writes to these banks are in the cells. Flash flushes its whole write buffer instead, or nothing if that
    /// survives a loss of power.
    pub fn flush(&mut self, now: Time, offset: u64, bytes: u32) -> Time {
        if let Some(flash) = self.flash_mut() {
            return flash.flush(now);
        }
        let mut done = now;
        for piece in self.interleave.pieces(offset, bytes) {
            let bank = &mut self.banks[index(piece.bank)];
            self.activity.banks_busy += bank.program_if_due(now) + bank.program(now);
            done = done.max(bank.programmed_at());
        }
        self.note_buffer_flush(now, offset, bytes.into(), done);
        done
    }

    /// Programs the write buffers of all banks. Returns the time at which all writes are in the cells.
    fn flush_bank_buffers(&mut self, now: Time) -> Time {
        let mut done = now;
        for bank in &mut self.banks {
            self.activity.banks_busy += bank.program_if_due(now) + bank.program(now);
            done = done.max(bank.programmed_at());
        }
        self.note_buffer_flush(now, 0, u64::MAX, done);
        done
    }

    fn write_pieces(&mut self, now: Time, offset: u64, bytes: u32, policy: BankProgramPolicy) -> WriteTiming {
        self.last_call = now;
        self.activity.writes += 1;
        self.activity.written_bytes += u64::from(bytes);
        let from = now.max(self.admitted);
        let mut timing = WriteTiming {
            dispatched: from,
            admitted: from,
            started: from,
            buffered_at: from,
            programmed_at: from,
            acknowledged_at: from,
        };
        for piece in self.interleave.pieces(offset, bytes) {
            let unit = self.program_unit_of_piece(piece);
            let (served, program) = self.write_piece(now, piece, unit, policy);
            timing.buffered_at = timing.buffered_at.max(served.access.bus_until);
            timing.programmed_at = timing.programmed_at.max(served.programmed_at);
            self.extend_acknowledgement_time(&mut timing, &served, program);
            if self.options.wear.is_some() {
                self.count_line_writes(now, piece);
            }
        }
        timing.assert_ordered(now);
        timing
    }

    /// Returns the number, in its bank, of the program unit that holds the whole piece; `None` if the piece spans
    /// several. Also `None` if chips are modelled one by one: each has a buffer, which every write fills anew.
    fn program_unit_of_piece(&self, piece: BankRequestPiece) -> Option<u64> {
        let unit_bytes = u64::from(self.timing.program_bytes);
        let unit = piece.bank_offset / unit_bytes;
        let last = piece.bank_offset + u64::from(piece.bytes - 1);
        (self.options.chips.is_none() && last / unit_bytes == unit).then_some(unit)
    }

    /// Returns the totals of the memory so far: accesses, bytes, gap moves and busy times. For flash they are those of
    /// the flash.
    pub fn activity(&self) -> MemoryActivity {
        self.flash().map_or(self.activity, |flash| flash.activity)
    }

    /// Returns the number and the busy time up to `now` of flash dies, channels and command buses; empty for other
    /// memories.
    pub fn uses(&self, now: Time) -> Vec<PartBusyTime> {
        self.flash().map_or(Vec::new(), |flash| flash.uses(now))
    }

    /// True if the flash drive has reached its steady state: its SLC cache is used up, and its write buffer has been
    /// full or drains as fast as it fills. Always true without flash.
    pub fn is_steady(&self) -> bool {
        self.flash().is_none_or(|flash| flash.is_steady())
    }

    /// Returns the name and the value of each counter of flash, of a rate-limited volume or of wear levelling; empty
    /// for a memory without any of them.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        if let Some(flash) = self.flash() {
            return flash.counters();
        }
        if let Some(volume) = self.volume() {
            return volume.counters();
        }
        match &self.options.wear {
            None => Vec::new(),
            Some(wear) => {
                vec![("gap_moves", self.activity.gap_moves), ("line_writes_max", wear.most_line_writes())]
            }
        }
    }

    /// Returns the Start-Gap regions and the write counts of all lines; `None` without wear levelling.
    pub fn wear(&self) -> Option<&StartGapWear> {
        self.options.wear.as_deref()
    }

    #[cfg(test)]
    pub(crate) fn wear_mut(&mut self) -> Option<&mut StartGapWear> {
        self.options.wear.as_deref_mut()
    }

    #[inline(always)]
    fn read_piece(&mut self, now: Time, piece: BankRequestPiece, needed: u32, keeps_row_open: bool) -> PieceTiming {
        self.activity.banks_busy += self.banks[index(piece.bank)].program_if_due(now);
        let when = self.earliest_access_start(now, piece.bank);
        let channel = index(self.interleave.channel(piece.bank));
        let drawn = self.options.spread.as_mut().map(|spread| spread.read(self.timing.read));
        let drawn = drawn.map(|read| Timing { read, ..self.timing });
        let timing = drawn.as_ref().unwrap_or(&self.timing);
        let bank = &mut self.banks[index(piece.bank)];
        let free_at = bank.free_at();
        let served = match &self.options.chips {
            None => {
                let open_row = keeps_row_open.then(|| self.interleave.row(piece));
                let read = BankReadPiece { bytes: piece.bytes, needed, open_row };
                bank.read(&mut self.buses[channel], timing, when, read)
            }
            Some(chips) => {
                let buses = &mut self.buses[channel * chips.buses()..][..chips.buses()];
                chips.read(bank, buses, when, piece, needed)
            }
        };
        served.access.assert_exclusive(free_at, self.banks[index(piece.bank)].free_at());
        self.activity.add(&served);
        served
    }

    fn write_piece(
        &mut self,
        now: Time,
        piece: BankRequestPiece,
        unit: Option<u64>,
        policy: BankProgramPolicy,
    ) -> (PieceTiming, Span) {
        let program = self.program_time(piece);
        self.activity.banks_busy += self.banks[index(piece.bank)].make_room(now, unit);
        let when = self.earliest_access_start(now, piece.bank);
        let channel = index(self.interleave.channel(piece.bank));
        let bank = &mut self.banks[index(piece.bank)];
        let free_at = bank.free_at();
        let served = match &self.options.chips {
            None => {
                let fill = BankWritePiece { bytes: piece.bytes, unit, program, policy };
                bank.write(&mut self.buses[channel], &self.timing, when, fill)
            }
            Some(chips) => {
                let buses = &mut self.buses[channel * chips.buses()..][..chips.buses()];
                chips.write(bank, buses, when, piece, program)
            }
        };
        served.access.assert_exclusive(free_at, self.banks[index(piece.bank)].free_at());
        self.activity.add(&served);
        (served, program)
    }

    /// Returns the time to program a piece: one program time per unit, with its random spread. Random data is drawn
    /// once, so that all units of the piece get the same data.
    fn program_time(&mut self, piece: BankRequestPiece) -> Span {
        let MediaOptions { random_data, chips, .. } = &mut self.options;
        if let Some(data) = random_data {
            self.timing.program =
                data.cells.draw_program_time(chips.map_or(1, |chips| chips.chips_of_piece(piece)), &mut data.random);
        }
        let mean = self.timing.program_time(piece.bank_offset, piece.bytes);
        self.options.spread.as_mut().map_or(mean, |spread| spread.program(mean))
    }

    /// Returns the earliest time at which `bank` may start an access that is handed over at `now`: after the
    /// processors, and outside housekeeping pauses.
    fn earliest_access_start(&self, now: Time, bank: u32) -> BankAccessStart {
        let from = now.max(self.admitted);
        let earliest = match &self.options.pauses {
            None => from,
            Some(pauses) => pauses.start_after(self.banks[index(bank)].start_time(from)),
        };
        BankAccessStart { now, earliest }
    }

    /// Counts a write for each line of the piece, and moves the gaps whose interval has ended. Each move reads a line
    /// and writes it again in the same bank, which delays later requests.
    fn count_line_writes(&mut self, now: Time, piece: BankRequestPiece) {
        let Some(wear) = &mut self.options.wear else { return };
        let moves = wear.on_write(piece);
        let line = BankRequestPiece { bank: piece.bank, bank_offset: 0, bytes: wear.line_bytes() };
        for _ in 0..moves {
            self.read_piece(now, line, line.bytes, false);
            self.write_piece(now, line, None, BankProgramPolicy::AtOnce);
        }
        self.activity.gap_moves += u64::from(moves);
    }

    /// Moves `first_at` of a read to the time at which the needed bytes of this piece have arrived, if that is later.
    /// This piece is then the critical one so far, and `started` moves with it.
    fn extend_first_bytes_time(&self, timing: &mut ReadTiming, served: &PieceTiming) {
        if served.first_at > timing.first_at {
            timing.first_at = served.first_at;
            timing.started = (served.first_at - served.service).max(self.last_call.max(self.admitted));
        }
    }

    /// Moves `acknowledged_at` of a write to the end of this piece (transfer or programming, as [`Acknowledge`] says),
    /// if that is later. `started` moves with it.
    fn extend_acknowledgement_time(&self, timing: &mut WriteTiming, served: &PieceTiming, program: Span) {
        let (done_at, service) = match self.timing.acknowledge {
            Acknowledge::Early => (served.access.bus_until, served.service),
            Acknowledge::Late => (served.programmed_at, served.service + program),
        };
        if done_at > timing.acknowledged_at {
            timing.acknowledged_at = done_at;
            timing.started = (done_at - service).max(self.last_call.max(self.admitted));
        }
    }
}

impl MemoryActivity {
    fn add(&mut self, served: &PieceTiming) {
        self.banks_busy += served.access.bank_until.since(served.access.bank_from);
        self.buses_busy += served.bus_time;
    }
}

#[cfg(test)]
mod options_tests;
#[cfg(test)]
mod tests;
