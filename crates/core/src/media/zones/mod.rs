//! State machine of zones (Zoned Namespace Command Set Specification 1.1, section 2.1). A zone is a range of a
//! namespace's blocks that is written in order, from its first block on, and reset as a whole.
//!
//! The machine has no time and knows no bytes of a protocol. Its callers ask before they write: a request that is
//! accepted has moved the write pointer, and one that is refused has changed nothing.
//!
//! ```text
//!               write, append                        close, or another zone needs the place
//!     empty ──────────────────▶ implicitly open ──────────────────────────────▶ closed
//!       │  └─ open ─▶ explicitly open ── close ────────────────────────────────▶  │ ── write, open ─▶ open again
//!       │                  │                                                      │
//!       └──────────────────┴── finish, or the last block is written ─▶ full ◀─────┘
//!     any of these ── reset ─▶ empty                  read-only ── take offline ─▶ offline
//! ```
//!
//! The number of open zones is limited, and so is the number of active zones, which are open or closed. If a write must
//! open its zone and too many zones are open, the zone that has been implicitly open for longest is closed.

mod opened;

#[cfg(test)]
mod tests;

use crate::number::{index, length};
use opened::ZoneOpeningOrder;

/// Number and size of a namespace's zones, and limits on the numbers of active and open zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneLayout {
    /// Number of zones in the namespace.
    pub zones: u32,
    /// Number of logical blocks from the start of one zone to the start of the next (zone size, ZSZE).
    pub zone_blocks: u64,
    /// Number of logical blocks in each zone that can be written (zone capacity, ZCAP).
    pub capacity_blocks: u64,
    /// Largest number of active zones, 0 for no limit (MAR).
    pub active_max: u32,
    /// Largest number of open zones, 0 for no limit (MOR).
    pub open_max: u32,
}

impl ZoneLayout {
    /// Returns the number of logical blocks in the namespace: zone size times number of zones.
    pub fn blocks(&self) -> u64 {
        u64::from(self.zones) * self.zone_blocks
    }

    /// Returns the number of the first logical block of a zone.
    pub fn start(&self, zone: u32) -> u64 {
        u64::from(zone) * self.zone_blocks
    }
}

/// State of a zone, as in the Zoned Namespace Command Set Specification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZoneState {
    /// Empty zone: no block has been written since the last reset.
    #[default]
    Empty,
    /// Open zone that a write has opened.
    ImplicitlyOpen,
    /// Open zone that the host has opened by an action.
    ExplicitlyOpen,
    /// Active zone that is not open: it must be opened again before it can be written.
    Closed,
    /// Full zone: no block can be written before a reset.
    Full,
    /// Read-only zone: it can be read, and never be written again.
    ReadOnly,
    /// Offline zone: it can be neither read nor written.
    Offline,
}

impl ZoneState {
    /// All zone states, in the order of their numbers in files.
    pub const ALL: [ZoneState; 7] = [
        ZoneState::Empty,
        ZoneState::ImplicitlyOpen,
        ZoneState::ExplicitlyOpen,
        ZoneState::Closed,
        ZoneState::Full,
        ZoneState::ReadOnly,
        ZoneState::Offline,
    ];

    /// Returns the name of the zone state, such as "implicitly open".
    pub fn name(self) -> &'static str {
        match self {
            ZoneState::Empty => "empty",
            ZoneState::ImplicitlyOpen => "implicitly open",
            ZoneState::ExplicitlyOpen => "explicitly open",
            ZoneState::Closed => "closed",
            ZoneState::Full => "full",
            ZoneState::ReadOnly => "read-only",
            ZoneState::Offline => "offline",
        }
    }

    /// True if the zone counts as open: implicitly or explicitly open.
    pub fn is_open(self) -> bool {
        matches!(self, ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen)
    }

    /// True if the zone counts as active: open or closed.
    pub fn is_active(self) -> bool {
        self.is_open() || self == ZoneState::Closed
    }
}

/// Reason for which a request to a zone is refused. A refused request changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneRequestRefusal {
    /// The blocks of the request lie beyond the last zone.
    OutOfRange,
    /// The block of the request must be the first block of a zone, and is not.
    NoZoneStart,
    /// The request crosses the end of its zone: the zone capacity for a write, the zone size for a read.
    Boundary,
    /// The zone is full, and cannot be written.
    Full,
    /// The zone is read-only, and cannot be written.
    ReadOnly,
    /// The zone is offline, and can be neither read nor written.
    Offline,
    /// The write does not begin at the write pointer of its zone.
    InvalidWrite,
    /// The request would make one zone more active than the limit allows.
    TooManyActive,
    /// The request would make one zone more open than the limit allows, and no implicitly open zone can be closed for
    /// it.
    TooManyOpen,
    /// The state of the zone does not allow the zone action.
    InvalidTransition,
}

/// Action of a host on one zone, or on all zones in a state that the action applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneAction {
    /// Closes an open zone.
    Close,
    /// Makes a zone full, however many of its blocks have been written.
    Finish,
    /// Opens an empty or closed zone, or makes an implicitly open one explicitly open.
    Open,
    /// Empties a zone: its data is lost, and it can be written from its first block on.
    Reset,
    /// Takes a read-only zone offline.
    TakeOffline,
}

impl ZoneAction {
    /// True if this action, applied to all zones, selects zones in this state.
    fn applies_to_state(self, state: ZoneState) -> bool {
        match self {
            ZoneAction::Close => state.is_open(),
            ZoneAction::Finish => state.is_active(),
            ZoneAction::Open => state == ZoneState::Closed,
            ZoneAction::Reset => state.is_active() || state == ZoneState::Full,
            ZoneAction::TakeOffline => state == ZoneState::ReadOnly,
        }
    }
}

/// Description of one zone in a zone report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneReportEntry {
    /// State that the zone is in.
    pub state: ZoneState,
    /// Number of the first logical block of the zone.
    pub start: u64,
    /// Number of logical blocks in the zone that can be written (zone capacity).
    pub capacity_blocks: u64,
    /// Number of the logical block that is written next; `None` if the zone is full, read-only or offline.
    pub write_pointer: Option<u64>,
}

/// Counters of accepted zone requests since the zones were created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneRequestCounts {
    /// Number of zone appends that were accepted.
    pub appends: u64,
    /// Number of zones that hosts have reset.
    pub resets: u64,
    /// Number of zones that hosts have finished before they were full.
    pub finishes: u64,
    /// Number of zones that were closed because too many others were open when another one was opened.
    pub implicit_closes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Zone {
    state: ZoneState,
    /// Number of logical blocks that have been written to the zone since its last reset.
    written: u64,
}

/// Zones of a drive after a restart, and as another loss of power would leave them.
#[derive(Clone, Debug)]
pub struct ZonesLeft {
    /// Zones with their states after the restart.
    pub zones: Zones,
    /// Zones with the states that they would have after a loss of power at this time.
    pub durable: Zones,
}

/// Zones of a namespace: their states and write pointers, and the numbers of active and open zones.
#[derive(Clone, Debug)]
pub struct Zones {
    layout: ZoneLayout,
    zones: Vec<Zone>,
    active: u32,
    open: u32,
    /// Implicitly open zones, in the order in which they were opened.
    implicit: ZoneOpeningOrder,
    counts: ZoneRequestCounts,
}

impl Zones {
    /// Creates zones that are all empty.
    ///
    /// # Panics
    /// If the zone capacity is 0 or exceeds the zone size.
    pub fn new(layout: ZoneLayout) -> Zones {
        let ZoneLayout { zones, zone_blocks, capacity_blocks, .. } = layout;
        assert!(capacity_blocks > 0 && capacity_blocks <= zone_blocks, "a zone of {capacity_blocks} in {zone_blocks}");
        Zones {
            layout,
            zones: vec![Zone::default(); index(zones)],
            active: 0,
            open: 0,
            implicit: ZoneOpeningOrder::new(zones),
            counts: ZoneRequestCounts::default(),
        }
    }

    /// Creates zones that are all full, as on a drive that has been in use.
    ///
    /// # Panics
    /// As [`Zones::new`].
    pub fn full(layout: ZoneLayout) -> Zones {
        let zones = vec![Zone { state: ZoneState::Full, written: layout.capacity_blocks }; index(layout.zones)];
        Zones { zones, ..Zones::new(layout) }
    }

    /// Returns the number and size of the zones, and the limits on active and open ones.
    pub fn layout(&self) -> &ZoneLayout {
        &self.layout
    }

    /// Returns the counters of accepted requests: appends, resets, finishes and implicit closes.
    pub fn counts(&self) -> ZoneRequestCounts {
        self.counts
    }

    /// Returns these zones with the counters of `others`, which are the zones before a restart.
    pub fn with_counts_of(self, others: &Zones) -> Zones {
        Zones { counts: others.counts, ..self }
    }

    /// Returns the number of zones that are active: open or closed.
    pub fn active(&self) -> u32 {
        self.active
    }

    /// Returns the number of zones that are open, implicitly or explicitly.
    pub fn open(&self) -> u32 {
        self.open
    }

    /// Returns the state of a zone, and the number of blocks that have been written since its last reset.
    ///
    /// # Panics
    /// If there is no zone number `zone`.
    pub fn zone(&self, zone: u32) -> (ZoneState, u64) {
        let Zone { state, written } = self.zones[index(zone)];
        (state, written)
    }

    /// Returns the number of the zone that holds a logical block, and the number of the block in that zone.
    ///
    /// # Errors
    /// Out of range.
    #[inline]
    pub fn find(&self, block: u64) -> Result<(u32, u64), ZoneRequestRefusal> {
        let (zone, within) = (block / self.layout.zone_blocks, block % self.layout.zone_blocks);
        match u32::try_from(zone) {
            Ok(zone) if zone < self.layout.zones => Ok((zone, within)),
            _ => Err(ZoneRequestRefusal::OutOfRange),
        }
    }

    /// Accepts a write of `blocks` blocks, at least one, from `block` on: moves the write pointer of the zone behind
    /// them.
    ///
    /// # Errors
    /// In this order: the state of the zone, a write that does not begin at the write pointer, one that is longer than
    /// the rest of the zone, too many active or open zones.
    #[inline]
    pub fn write(&mut self, block: u64, blocks: u64) -> Result<(), ZoneRequestRefusal> {
        let (zone, within) = self.find(block)?;
        let written = self.written_blocks_if_writable(zone)?;
        if within != written {
            return Err(ZoneRequestRefusal::InvalidWrite);
        }
        self.advance(zone, blocks)
    }

    /// Accepts an append of `blocks` blocks, at least one, to the zone that begins with block `start`, and moves its
    /// write pointer. Returns the number of the first block that is written.
    ///
    /// # Errors
    /// As [`Zones::write`], and if `start` is not the first block of a zone.
    #[inline]
    pub fn append(&mut self, start: u64, blocks: u64) -> Result<u64, ZoneRequestRefusal> {
        let zone = self.find_start(start)?;
        let written = self.written_blocks_if_writable(zone)?;
        self.advance(zone, blocks)?;
        self.counts.appends += 1;
        Ok(start + written)
    }

    /// Undoes the zone's latest write, of `blocks` blocks from `block` on: moves the write pointer back to `block`. A
    /// zone that this write had filled becomes closed. Returns false, and changes nothing, if the write is no longer
    /// the latest of an active or filled zone: the zone has been written, finished or reset since.
    pub fn undo_write(&mut self, block: u64, blocks: u64) -> bool {
        let Ok((zone, within)) = self.find(block) else { return false };
        let Zone { state, written } = self.zones[index(zone)];
        let was_filled = state == ZoneState::Full && written == self.layout.capacity_blocks;
        let is_latest = written == within + blocks && (state.is_active() || was_filled);
        if is_latest {
            self.zones[index(zone)].written = within;
        }
        if is_latest && was_filled {
            // Another zone may have taken this zone's place among the open zones, so restore the zone as closed.
            self.enter(zone, ZoneState::Closed);
        }
        is_latest
    }

    /// Checks that `blocks` blocks from `block` on can be read, whether they have been written or not.
    ///
    /// # Errors
    /// Out of range, an offline zone, or the end of a zone within the blocks.
    #[inline]
    pub fn check_read(&self, block: u64, blocks: u64) -> Result<(), ZoneRequestRefusal> {
        let (zone, within) = self.find(block)?;
        if self.zones[index(zone)].state == ZoneState::Offline {
            return Err(ZoneRequestRefusal::Offline);
        }
        if blocks > self.layout.zone_blocks - within { Err(ZoneRequestRefusal::Boundary) } else { Ok(()) }
    }

    /// Returns the number of the `blocks` from `block` on that lie before the write pointer: those that have been
    /// written. All of them must lie in one zone.
    pub fn written_blocks(&self, block: u64, blocks: u64) -> u64 {
        let written =
            self.find(block).map_or(0, |(zone, within)| self.zones[index(zone)].written.saturating_sub(within));
        blocks.min(written)
    }

    /// Applies an action to the zone that begins with block `start`. Returns true if the state of the zone has changed.
    ///
    /// # Errors
    /// A block that begins no zone, a state that does not allow the action, and for opening too many active or open
    /// zones.
    pub fn act(&mut self, action: ZoneAction, start: u64) -> Result<bool, ZoneRequestRefusal> {
        let zone = self.find_start(start)?;
        self.apply_action(action, zone)
    }

    /// Applies an action to all zones in a state that the action selects. Returns the numbers of these zones. Either
    /// all of them are changed or none.
    ///
    /// # Errors
    /// Too many open zones, if all closed ones were open.
    pub fn act_on_all(&mut self, action: ZoneAction) -> Result<Vec<u32>, ZoneRequestRefusal> {
        let selected: Vec<u32> =
            (0..self.layout.zones).filter(|zone| action.applies_to_state(self.zones[index(*zone)].state)).collect();
        let opened = if action == ZoneAction::Open { length(selected.len()) } else { 0 };
        if self.layout.open_max > 0 && u64::from(self.open) + opened > self.layout.open_max.into() {
            return Err(ZoneRequestRefusal::TooManyOpen);
        }
        for &zone in &selected {
            self.apply_action(action, zone).expect("a zone that an action is about allows it");
        }
        Ok(selected)
    }

    /// Returns a description of each zone, in order, from the zone that holds `block` to the last one.
    ///
    /// # Errors
    /// Out of range.
    pub fn report(&self, block: u64) -> Result<impl Iterator<Item = ZoneReportEntry> + Clone + '_, ZoneRequestRefusal> {
        let (first, _) = self.find(block)?;
        Ok((first..self.layout.zones).map(|zone| self.describe(zone)))
    }

    /// Makes a zone read-only, as a drive does if its cells are worn. The data of the zone is kept. Does nothing if the
    /// zone is offline.
    ///
    /// # Panics
    /// If there is no zone number `zone`.
    pub fn make_read_only(&mut self, zone: u32) {
        if self.zones[index(zone)].state != ZoneState::Offline {
            self.enter(zone, ZoneState::ReadOnly);
        }
    }

    /// Closes all open zones, as a loss of power does. Active zones without data become empty.
    pub fn lose_power(&mut self) {
        for zone in 0..self.layout.zones {
            let Zone { state, written } = self.zones[index(zone)];
            if state.is_active() {
                self.enter(zone, if written > 0 { ZoneState::Closed } else { ZoneState::Empty });
            }
        }
    }

    /// Restores a zone to a saved state with `written` written blocks. Returns false, and changes nothing, if there is
    /// no such zone, the numbers contradict the state, or the zone would exceed the limit of active or open zones.
    pub fn restore(&mut self, zone: u32, state: ZoneState, written: u64) -> bool {
        let is_possible = match state {
            ZoneState::Empty => written == 0,
            ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => written <= self.layout.capacity_blocks,
            _ => written < self.layout.capacity_blocks,
        };
        let old = self.zones.get(index(zone)).copied().filter(|_| is_possible);
        let Some(old) = old else { return false };
        let more = |is_in: fn(ZoneState) -> bool| u32::from(is_in(state)).saturating_sub(is_in(old.state).into());
        let is_beyond = |count: u32, more: u32, limit: u32| limit > 0 && count + more > limit;
        if is_beyond(self.active, more(ZoneState::is_active), self.layout.active_max)
            || is_beyond(self.open, more(ZoneState::is_open), self.layout.open_max)
        {
            return false;
        }
        self.enter(zone, state);
        self.zones[index(zone)].written = written;
        true
    }

    fn find_start(&self, start: u64) -> Result<u32, ZoneRequestRefusal> {
        let (zone, within) = self.find(start)?;
        if within == 0 { Ok(zone) } else { Err(ZoneRequestRefusal::NoZoneStart) }
    }

    /// Returns the number of written blocks of a zone; refuses zones whose state forbids further writes: full,
    /// read-only or offline.
    #[inline]
    fn written_blocks_if_writable(&self, zone: u32) -> Result<u64, ZoneRequestRefusal> {
        let Zone { state, written } = self.zones[index(zone)];
        match state {
            ZoneState::Full => Err(ZoneRequestRefusal::Full),
            ZoneState::ReadOnly => Err(ZoneRequestRefusal::ReadOnly),
            ZoneState::Offline => Err(ZoneRequestRefusal::Offline),
            _ => Ok(written),
        }
    }

    /// Moves the write pointer of a writable zone by `blocks`. Opens the zone implicitly if it is not open, and makes
    /// it full at the end of its capacity.
    #[inline]
    fn advance(&mut self, zone: u32, blocks: u64) -> Result<(), ZoneRequestRefusal> {
        let Zone { state, written } = self.zones[index(zone)];
        if blocks > self.layout.capacity_blocks - written {
            return Err(ZoneRequestRefusal::Boundary);
        }
        if !state.is_open() {
            self.make_room_for_open_zone(state)?;
            self.enter(zone, ZoneState::ImplicitlyOpen);
        }
        self.zones[index(zone)].written = written + blocks;
        if written + blocks == self.layout.capacity_blocks {
            self.enter(zone, ZoneState::Full);
        }
        Ok(())
    }

    /// Makes room for one more open zone; `state` is the present state of that zone, which is not open. If too many
    /// zones are open, closes the zone that has been implicitly open for longest.
    fn make_room_for_open_zone(&mut self, state: ZoneState) -> Result<(), ZoneRequestRefusal> {
        let ZoneLayout { active_max, open_max, .. } = self.layout;
        if !state.is_active() && active_max > 0 && self.active >= active_max {
            return Err(ZoneRequestRefusal::TooManyActive);
        }
        if open_max > 0 && self.open >= open_max {
            let longest = self.implicit.first().ok_or(ZoneRequestRefusal::TooManyOpen)?;
            self.enter(longest, ZoneState::Closed);
            self.counts.implicit_closes += 1;
        }
        Ok(())
    }

    fn apply_action(&mut self, action: ZoneAction, zone: u32) -> Result<bool, ZoneRequestRefusal> {
        let state = self.zones[index(zone)].state;
        let next = match (action, state) {
            (ZoneAction::Close, _) if state.is_open() => ZoneState::Closed,
            (ZoneAction::Close, ZoneState::Closed) => ZoneState::Closed,
            (ZoneAction::Open, ZoneState::Empty | ZoneState::Closed) => {
                self.make_room_for_open_zone(state)?;
                ZoneState::ExplicitlyOpen
            }
            (ZoneAction::Open, _) if state.is_open() => ZoneState::ExplicitlyOpen,
            (ZoneAction::Reset | ZoneAction::Finish, ZoneState::ReadOnly | ZoneState::Offline) => {
                return Err(ZoneRequestRefusal::InvalidTransition);
            }
            (ZoneAction::Reset, _) => ZoneState::Empty,
            (ZoneAction::Finish, _) => ZoneState::Full,
            (ZoneAction::TakeOffline, ZoneState::ReadOnly | ZoneState::Offline) => ZoneState::Offline,
            _ => return Err(ZoneRequestRefusal::InvalidTransition),
        };
        if next != state {
            self.counts.resets += u64::from(action == ZoneAction::Reset);
            self.counts.finishes += u64::from(action == ZoneAction::Finish);
            self.enter(zone, next);
        }
        Ok(next != state)
    }

    /// Changes the state of a zone, and updates the numbers of active and open zones and the order of implicitly open
    /// ones.
    fn enter(&mut self, zone: u32, next: ZoneState) {
        let place = &mut self.zones[index(zone)];
        let last = std::mem::replace(&mut place.state, next);
        if next == ZoneState::Empty {
            place.written = 0;
        }
        self.active = self.active + u32::from(next.is_active()) - u32::from(last.is_active());
        self.open = self.open + u32::from(next.is_open()) - u32::from(last.is_open());
        if last == ZoneState::ImplicitlyOpen {
            self.implicit.remove(zone);
        }
        if next == ZoneState::ImplicitlyOpen {
            self.implicit.push(zone);
        }
    }

    fn describe(&self, zone: u32) -> ZoneReportEntry {
        let Zone { state, written } = self.zones[index(zone)];
        let start = self.layout.start(zone);
        let has_pointer = state.is_active() || state == ZoneState::Empty;
        let write_pointer = has_pointer.then_some(start + written);
        ZoneReportEntry { state, start, capacity_blocks: self.layout.capacity_blocks, write_pointer }
    }
}
