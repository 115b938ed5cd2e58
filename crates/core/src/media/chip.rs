//! Banks of chips that are told apart: a stripe is dealt over the chips of its bank, and the chips over the buses of
//! the channel, which carry commands and addresses too.
//!
//! Chip `i` of a stripe sits on bus `i` modulo the number of buses; the spare chips follow those of the data. An
//! access touches the chips that hold its bytes, and the spare ones. The chips of one bus take turns, each with command
//! and address, dummy clocks if it is a read, and its whole buffer of data; those of different buses work in parallel,
//! and all of them program at once. A serial chip reads its cells during the dummy clocks: only what these do not
//! cover lengthens the access, and the bus waits for it.
//!
//! The arbiter takes no time. It gives a bus to one bank for all its chips of an access, which serves the banks in the
//! same total time as going from chip to chip.

use super::bank::Bank;
use super::geometry::Piece;
use super::timing::{Access, Bus, BusRate, Served, When};
use crate::config;
use crate::time::{Span, Time};

/// The chips of a bank, and what an access to one of them takes on its bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chips {
    stripe_bytes: u32,
    chip_bytes: u32,
    data_chips: u32,
    spare_chips: u32,
    buses: u32,
    rate: BusRate,
    /// What goes over the bus for one chip, in the bits that could have been data.
    read_bits: u64,
    write_bits: u64,
    /// What reading the cells takes beyond the dummy clocks.
    array_excess: Span,
    /// Before the first chip's turn, beside the buses.
    command: Span,
}

/// Chips of one stripe, by their numbers.
#[derive(Clone, Copy, Debug)]
struct Range {
    from: u32,
    to: u32,
}

impl Chips {
    /// The chips of a description; none if its chips act as one.
    pub fn of(media: &config::Media) -> Option<Chips> {
        if media.chip_bytes == 0 {
            return None;
        }
        let rate = BusRate::from_bytes_per_ns(media.bus_bytes_per_ns);
        let bits = |clocks: u16| u64::from(clocks) * u64::from(media.bus_bits_per_clock);
        let write_bits = bits(media.command_clocks) + u64::from(media.chip_bytes) * 8;
        Some(Chips {
            stripe_bytes: media.stripe_bytes,
            chip_bytes: media.chip_bytes,
            data_chips: media.stripe_bytes / media.chip_bytes,
            spare_chips: media.spare_chips.into(),
            buses: media.buses_per_channel.into(),
            rate,
            read_bits: write_bits + bits(media.dummy_clocks),
            write_bits,
            array_excess: media.read - rate.transfer_bits(bits(media.dummy_clocks)),
            command: media.command,
        })
    }

    /// Buses of each channel.
    pub fn buses(&self) -> usize {
        self.buses as usize
    }

    /// Chips that a piece touches, the spare ones included.
    pub fn touched(&self, piece: Piece) -> u32 {
        let data = self.data(piece, piece.bytes);
        data.to - data.from + self.spare_chips
    }

    /// Chips that `bytes` from the start of a stripe need, the spare ones included.
    pub fn count(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.chip_bytes) + self.spare_chips
    }

    /// The least number of them on the busiest bus; of a whole stripe, that number.
    pub fn depth(&self, bytes: u32) -> u32 {
        self.count(bytes).div_ceil(self.buses)
    }

    /// Time to read `chips` chips of one bus.
    pub fn read_time(&self, chips: u32) -> Span {
        self.rate.transfer_bits(self.read_bits * u64::from(chips)) + self.array_excess * u64::from(chips)
    }

    /// Time to fill the buffers of `chips` chips of one bus.
    pub fn write_time(&self, chips: u32) -> Span {
        self.rate.transfer_bits(self.write_bits * u64::from(chips))
    }

    /// Read a piece. Its first `needed` bytes are there when the chips that hold them have been read.
    pub fn read(&self, bank: &mut Bank, buses: &mut [Bus], when: When, piece: Piece, needed: u32) -> Served {
        let bank_from = bank.free_from(when.earliest);
        let ready = bank_from + self.command;
        let mut served = Served::nothing(bank_from, ready);
        let (touched, first) = (self.data(piece, piece.bytes), self.data(piece, needed));
        for (number, bus) in buses.iter_mut().enumerate() {
            let length = self.read_time(self.with_spare_on(number, touched));
            let from = served.turn(bus, when.now, ready, length);
            let first_length = self.read_time(self.on(number, first));
            if !first_length.is_zero() {
                served.first_at = served.first_at.max(from + first_length);
                served.service = served.service.max(self.command + first_length);
            }
        }
        bank.hold_until(served.access.bank_until);
        served
    }

    /// Write a piece, and program it for `program` once the last buffer is full.
    pub fn write(&self, bank: &mut Bank, buses: &mut [Bus], when: When, piece: Piece, program: Span) -> Served {
        let bank_from = bank.free_from(when.earliest);
        let ready = bank_from + self.command;
        let mut served = Served::nothing(bank_from, ready);
        let touched = self.data(piece, piece.bytes);
        for (number, bus) in buses.iter_mut().enumerate() {
            let length = self.write_time(self.with_spare_on(number, touched));
            served.turn(bus, when.now, ready, length);
            served.service = served.service.max(self.command + length);
        }
        served.first_at = served.access.bus_until;
        served.access.bank_until = served.access.bus_until + program;
        served.programmed_at = served.access.bank_until;
        bank.program_until(served.access.bank_until);
        served
    }

    /// The chips that hold the first `bytes` of a piece.
    fn data(&self, piece: Piece, bytes: u32) -> Range {
        let column = (piece.bank_offset % u64::from(self.stripe_bytes)) as u32;
        Range { from: column / self.chip_bytes, to: (column + bytes).div_ceil(self.chip_bytes) }
    }

    /// How many chips of a range sit on a bus.
    fn on(&self, bus: usize, chips: Range) -> u32 {
        let before = |chip: u32| (chip + self.buses - 1 - bus as u32) / self.buses;
        before(chips.to) - before(chips.from)
    }

    /// How many chips of a range and spare ones sit on a bus.
    fn with_spare_on(&self, bus: usize, chips: Range) -> u32 {
        let spare = Range { from: self.data_chips, to: self.data_chips + self.spare_chips };
        self.on(bus, chips) + self.on(bus, spare)
    }
}

impl Served {
    /// An access before its first bus.
    fn nothing(bank_from: Time, ready: Time) -> Served {
        let access = Access { bank_from, bus_from: Time::NEVER, bus_until: ready, bank_until: ready };
        Served { access, first_at: ready, service: Span::ZERO, programmed_at: ready, bus_time: Span::ZERO }
    }

    /// Take a turn of `length` on another bus; gives its start.
    fn turn(&mut self, bus: &mut Bus, now: Time, ready: Time, length: Span) -> Time {
        if length.is_zero() {
            return ready;
        }
        let from = bus.promise(now, ready, length);
        self.access.bus_from = self.access.bus_from.min(from);
        self.access.bus_until = self.access.bus_until.max(from + length);
        self.access.bank_until = self.access.bus_until;
        self.bus_time += length;
        from
    }
}
