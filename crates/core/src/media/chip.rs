//! Banks whose chips are modelled one by one: a stripe is spread over the chips of its bank, and the chips over the
//! buses of the channel, which carry commands and addresses too.
//!
//! Chip `i` of a stripe sits on bus `i` modulo the number of buses; spare chips follow the data chips. An access uses
//! the chips that hold its bytes, and the spare ones. The chips of one bus take turns, each with command and address,
//! dummy clocks if it is a read, and its whole buffer of data. Chips of different buses work in parallel, and all chips
//! program at the same time. A serial chip reads its cells during the dummy clocks: only the array time beyond these
//! lengthens the access, and the bus waits for it.
//!
//! The arbiter takes no time. It gives a bus to one bank for all its chips of an access, which serves the banks in the
//! same total time as going from chip to chip.
//!
//! ```text
//!     stripe of 8 data chips and a spare one (S) on 3 buses:
//!     bus 0   [chip 0][chip 3][chip 6]
//!     bus 1   [chip 1][chip 4][chip 7]
//!     bus 2   [chip 2][chip 5][   S  ]
//! ```

use super::bank::Bank;
use super::geometry::BankRequestPiece;
use super::timing::{BankAccessStart, BankBusHold, BusTransferRate, ChannelBus, PieceTiming};
use crate::config;
use crate::number::{index, narrow};
use crate::time::{Span, Time};

/// Chips of one bank: their number and size, their distribution over the buses of the channel, and their bus times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankChips {
    stripe_bytes: u32,
    chip_bytes: u32,
    data_chips: u32,
    spare_chips: u32,
    buses: u32,
    rate: BusTransferRate,
    /// Bus time to read one chip, as the number of data bits that the bus moves in that time.
    read_bits: u64,
    /// Bus time to write one chip, as the number of data bits that the bus moves in that time.
    write_bits: u64,
    /// Time of an array read beyond the dummy clocks, by which the bus waits for each chip; zero if the dummy clocks
    /// cover it.
    array_excess: Span,
    /// Time from the start of an access in its bank to its first use of a bus; the buses are free meanwhile.
    command: Span,
}

/// Range of chips `from..to` of one stripe, as chip numbers within the bank.
#[derive(Clone, Copy, Debug)]
struct ChipRange {
    from: u32,
    to: u32,
}

impl BankChips {
    /// Computes the chips of a bank from a media configuration; `None` if the chips of a bank act as one.
    pub fn of(media: &config::Media) -> Option<BankChips> {
        if media.chip_bytes == 0 {
            return None;
        }
        let rate = BusTransferRate::from_bytes_per_ns(media.bus_bytes_per_ns);
        let bits = |clocks: u16| u64::from(clocks) * u64::from(media.bus_bits_per_clock);
        let write_bits = bits(media.command_clocks) + u64::from(media.chip_bytes) * 8;
        Some(BankChips {
            stripe_bytes: media.stripe_bytes,
            chip_bytes: media.chip_bytes,
            data_chips: media.stripe_bytes / media.chip_bytes,
            spare_chips: media.spare_chips.into(),
            buses: media.buses_per_channel.into(),
            rate,
            read_bits: write_bits + bits(media.dummy_clocks),
            write_bits,
            array_excess: media.read - rate.bits_transfer_time(bits(media.dummy_clocks)),
            command: media.command,
        })
    }

    /// Returns the number of buses of each channel, over which the chips of a bank are distributed.
    pub fn buses(&self) -> usize {
        index(self.buses)
    }

    /// Returns the number of chips that an access to this piece uses, spare chips included.
    pub fn chips_of_piece(&self, piece: BankRequestPiece) -> u32 {
        let data = self.data_chips(piece, piece.bytes);
        data.to - data.from + self.spare_chips
    }

    /// Returns the number of chips that an access to `bytes` from the start of a stripe uses, spare chips included.
    pub fn chips_for_bytes(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.chip_bytes) + self.spare_chips
    }

    /// Returns the least possible number of chips on the busiest bus, in an access to `bytes` and with spare chips
    /// included. For a whole stripe it is the actual number.
    pub fn least_chips_on_busiest_bus(&self, bytes: u32) -> u32 {
        self.chips_for_bytes(bytes).div_ceil(self.buses)
    }

    /// Returns the bus time to read `chips` chips that share one bus, one after the other: command, dummy clocks, data,
    /// and array time beyond the dummy clocks.
    pub fn chip_read_bus_time(&self, chips: u32) -> Span {
        self.rate.bits_transfer_time(self.read_bits * u64::from(chips)) + self.array_excess * u64::from(chips)
    }

    /// Returns the bus time to fill the buffers of `chips` chips that share one bus, one after the other.
    pub fn chip_write_bus_time(&self, chips: u32) -> Span {
        self.rate.bits_transfer_time(self.write_bits * u64::from(chips))
    }

    /// Reads a piece from the chips of `bank`, reserves its time on `buses`, and returns its times. The first `needed`
    /// bytes have arrived when the chips that hold them have been read.
    pub fn read(
        &self,
        bank: &mut Bank,
        buses: &mut [ChannelBus],
        when: BankAccessStart,
        piece: BankRequestPiece,
        needed: u32,
    ) -> PieceTiming {
        let bank_from = bank.start_time(when.earliest);
        let ready = bank_from + self.command;
        let mut served = PieceTiming::before_first_bus(bank_from, ready);
        let (touched, first) = (self.data_chips(piece, piece.bytes), self.data_chips(piece, needed));
        for (number, bus) in buses.iter_mut().enumerate() {
            let length = self.chip_read_bus_time(self.used_chips_of_range_on_bus(number, touched));
            let from = served.reserve_next_bus(bus, when.now, ready, length);
            let first_length = self.chip_read_bus_time(self.chips_on_bus(number, first));
            if !first_length.is_zero() {
                served.first_at = served.first_at.max(from + first_length);
                served.service = served.service.max(self.command + first_length);
            }
        }
        bank.hold_until(served.access.bank_until);
        served
    }

    /// Fills the buffers of the chips that a piece touches, and programs them all for `program` once the last buffer is
    /// full. Returns the times of the piece.
    pub fn write(
        &self,
        bank: &mut Bank,
        buses: &mut [ChannelBus],
        when: BankAccessStart,
        piece: BankRequestPiece,
        program: Span,
    ) -> PieceTiming {
        let bank_from = bank.start_time(when.earliest);
        let ready = bank_from + self.command;
        let mut served = PieceTiming::before_first_bus(bank_from, ready);
        let touched = self.data_chips(piece, piece.bytes);
        for (number, bus) in buses.iter_mut().enumerate() {
            let length = self.chip_write_bus_time(self.used_chips_of_range_on_bus(number, touched));
            served.reserve_next_bus(bus, when.now, ready, length);
            served.service = served.service.max(self.command + length);
        }
        served.first_at = served.access.bus_until;
        served.access.bank_until = served.access.bus_until + program;
        served.programmed_at = served.access.bank_until;
        bank.hold_for_program(served.access.bank_until);
        served
    }

    /// Returns the data chips that hold the first `bytes` of a piece.
    fn data_chips(&self, piece: BankRequestPiece, bytes: u32) -> ChipRange {
        let column = narrow::<u32, u64>(piece.bank_offset % u64::from(self.stripe_bytes));
        ChipRange { from: column / self.chip_bytes, to: (column + bytes).div_ceil(self.chip_bytes) }
    }

    /// Returns the number of chips of a range that sit on bus number `bus`.
    fn chips_on_bus(&self, bus: usize, chips: ChipRange) -> u32 {
        let before = |chip: u32| (chip + self.buses - 1 - bus as u32) / self.buses;
        before(chips.to) - before(chips.from)
    }

    /// Returns the number of chips of a range, and of spare chips, that sit on bus number `bus`.
    fn used_chips_of_range_on_bus(&self, bus: usize, chips: ChipRange) -> u32 {
        let spare = ChipRange { from: self.data_chips, to: self.data_chips + self.spare_chips };
        self.chips_on_bus(bus, chips) + self.chips_on_bus(bus, spare)
    }
}

impl PieceTiming {
    /// Creates the times of a piece that has not used a bus yet: its bank is held from `bank_from`, its first transfer
    /// may start at `ready`.
    fn before_first_bus(bank_from: Time, ready: Time) -> PieceTiming {
        let access = BankBusHold { bank_from, bus_from: Time::NEVER, bus_until: ready, bank_until: ready };
        PieceTiming { access, first_at: ready, service: Span::ZERO, programmed_at: ready, bus_time: Span::ZERO }
    }

    /// Reserves a further bus for `length` in the times of this piece, and returns the start of the transfer. Reserves
    /// nothing, and returns `ready`, if `length` is zero.
    fn reserve_next_bus(&mut self, bus: &mut ChannelBus, now: Time, ready: Time, length: Span) -> Time {
        if length.is_zero() {
            return ready;
        }
        let from = bus.reserve(now, ready, length);
        self.access.bus_from = self.access.bus_from.min(from);
        self.access.bus_until = self.access.bus_until.max(from + length);
        self.access.bank_until = self.access.bus_until;
        self.bus_time += length;
        from
    }
}
