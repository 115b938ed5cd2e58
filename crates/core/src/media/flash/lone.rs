//! Times of a host read on a drive that does nothing else. Compared with the real times, they tell how long the read
//! waits for busy dies and channels: a wait for an earlier row of the same read is its own work.

use smallvec::SmallVec;

use super::FlashCosts;
use super::die::{PLANES_MAX, PlaneRange};
use crate::media::timing::ChannelBus;
use crate::number::index;
use crate::time::{Span, Time};

/// Number of rows of a read that are noted without allocating memory.
const ROWS_INLINE: usize = 8;

/// Work of a host read in one row of a die: an array read, and the transfer of the requested bytes page by page.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostRowRead {
    pub(super) die: u32,
    pub(super) channel: usize,
    pub(super) planes: PlaneRange,
    /// Time of the array read, with its command.
    pub(super) length: Span,
    pub(super) bytes: u32,
    pub(super) page_bytes: u32,
    /// Number of the bytes that the caller needs before it can begin to send.
    pub(super) needed: u32,
}

/// Transfer of a row's bytes over its channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowBusTransfer {
    /// Time at which the needed first bytes are decoded in the controller; `Time::ZERO` if none are needed.
    pub(super) first_at: Time,
    /// Time at which the last byte has left the die.
    pub(super) crossed: Time,
    /// Time for which the transfer holds the bus of the channel.
    pub(super) held: Span,
}

impl FlashCosts {
    /// Transfers a row, whose array read ends at `read_at`, page by page over the bus of its channel.
    pub(super) fn transfer_row_pages(
        &self,
        bus: &mut ChannelBus,
        now: Time,
        read_at: Time,
        row: &HostRowRead,
    ) -> RowBusTransfer {
        let (mut sent, mut row_sent) = (0, RowBusTransfer { first_at: Time::ZERO, crossed: read_at, held: Span::ZERO });
        let piece = self.bus.transfer_time(row.page_bytes) * u64::from(self.transfer_pages);
        while sent < row.bytes {
            let page = row.page_bytes.min(row.bytes - sent);
            let transfer = self.bus.transfer_time(page);
            let bus_from = bus.reserve_before_pending(now, row_sent.crossed, transfer, piece);
            if row.needed > sent {
                let share = self.bus.transfer_time(row.needed.min(sent + page) - sent);
                row_sent.first_at = bus_from + share + self.ecc_decode;
            }
            row_sent.crossed = bus_from + transfer;
            row_sent.held += transfer;
            sent += page;
        }
        row_sent
    }
}

/// Rows of a host read, and an idle drive on which the same read is repeated.
#[derive(Clone, Debug)]
pub(super) struct LoneFlashRead {
    rows: SmallVec<[HostRowRead; ROWS_INLINE]>,
    /// Times at which the needed first bytes and the last bytes of all rows have really come from the cells.
    pub(super) arrived: [Time; 2],
    /// Time until which the repeated read holds each plane of each die.
    held_until: Vec<[Time; PLANES_MAX]>,
    buses: Vec<ChannelBus>,
    command_buses: Vec<ChannelBus>,
}

impl LoneFlashRead {
    /// Creates an idle drive of this number of channels and dies.
    pub(super) fn new(channels: u32, dies: u32) -> LoneFlashRead {
        let buses = || (0..channels).map(|_| ChannelBus::with_room()).collect();
        let held_until = vec![[Time::ZERO; PLANES_MAX]; index(dies)];
        LoneFlashRead {
            rows: SmallVec::new(),
            arrived: [Time::ZERO; 2],
            held_until,
            buses: buses(),
            command_buses: buses(),
        }
    }

    /// Forgets the rows of the last read.
    pub(super) fn begin(&mut self) {
        self.rows.clear();
        self.arrived = [Time::ZERO; 2];
    }

    /// Adds a row of the read, in the order in which the drive reads them, with the times at which its needed first bytes
    /// and its last byte have come.
    pub(super) fn add(&mut self, row: HostRowRead, [first_at, last_at]: [Time; 2]) {
        self.rows.push(row);
        self.arrived = [self.arrived[0].max(first_at), self.arrived[1].max(last_at)];
    }

    /// Returns the times at which the needed first bytes and the last bytes of all rows would be decoded in the
    /// controller, if the drive passed the read on at `at` and did nothing else.
    pub(super) fn times(&mut self, costs: &FlashCosts, at: Time) -> [Time; 2] {
        if let [row] = self.rows.as_slice()
            && row.bytes <= row.page_bytes
        {
            let there = |bytes| at + row.length + costs.bus.transfer_time(bytes) + costs.ecc_decode;
            return [there(row.needed), there(row.bytes)];
        }
        for row in &self.rows {
            self.held_until[index(row.die)] = [Time::ZERO; PLANES_MAX];
            self.buses[row.channel].clear();
            self.command_buses[row.channel].clear();
        }
        let [mut first_at, mut last_at] = [at; 2];
        for row in &self.rows {
            let held_until = &mut self.held_until[index(row.die)][row.planes.first..=row.planes.last];
            let free_at = held_until.iter().copied().fold(at, Time::max);
            let bus = &mut self.buses[row.channel];
            let begun_at = costs.command_start_time(at, free_at, bus, &mut self.command_buses[row.channel]);
            let sent = costs.transfer_row_pages(bus, at, begun_at + row.length, row);
            held_until.fill(sent.crossed);
            first_at = first_at.max(sent.first_at);
            last_at = last_at.max(sent.crossed + costs.ecc_decode);
        }
        [first_at, last_at]
    }
}
