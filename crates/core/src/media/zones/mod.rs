//! State machine of zones (Zoned Namespace Command Set Specification 1.1, section 2.1): parts of a namespace that are written in
//! order, from their first block on, and reset as a whole.
//!
//! The machine has no time and knows no bytes of a protocol. Its callers ask before they write: a request that is accepted has
//! moved the write pointer, and one that is refused has changed nothing.
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
//! Open zones are limited, and so are active ones: open and closed. A write to a zone that is not open makes room for it: the
//! zone that has been implicitly open for longest is closed.

mod opened;

#[cfg(test)]
mod tests;

use crate::number::index;
use opened::OpenedOrder;

/// Number and size of zones, and how many of them may be in use at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneLayout {
    /// Number of zones.
    pub zones: u32,
    /// Number of logical blocks from the first of a zone to the first of the next zone (ZSZE).
    pub zone_blocks: u64,
    /// Number of logical blocks of a zone that can be written (ZCAP).
    pub capacity_blocks: u64,
    /// Largest number of active zones; 0 if there is no limit (MAR).
    pub active_max: u32,
    /// Largest number of open zones; 0 if there is no limit (MOR).
    pub open_max: u32,
}

impl ZoneLayout {
    /// Returns the number of logical blocks of all zones together.
    pub fn blocks(&self) -> u64 {
        u64::from(self.zones) * self.zone_blocks
    }

    /// Returns the first block of a zone.
    pub fn start(&self, zone: u32) -> u64 {
        u64::from(zone) * self.zone_blocks
    }
}

/// State of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZoneState {
    /// Nothing has been written since the last reset.
    #[default]
    Empty,
    /// A write has opened the zone.
    ImplicitlyOpen,
    /// The host has opened the zone.
    ExplicitlyOpen,
    /// The zone can be written further once it is open again.
    Closed,
    /// Nothing more can be written before a reset.
    Full,
    /// The zone can be read, and will never be written again.
    ReadOnly,
    /// The zone can neither be read nor be written.
    Offline,
}

impl ZoneState {
    /// All states, in the order of their places in files.
    pub const ALL: [ZoneState; 7] = [
        ZoneState::Empty,
        ZoneState::ImplicitlyOpen,
        ZoneState::ExplicitlyOpen,
        ZoneState::Closed,
        ZoneState::Full,
        ZoneState::ReadOnly,
        ZoneState::Offline,
    ];

    /// Returns the state in words.
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

    /// True if the zone counts among the open ones.
    pub fn is_open(self) -> bool {
        matches!(self, ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen)
    }

    /// True if the zone counts among the active ones.
    pub fn is_active(self) -> bool {
        self.is_open() || self == ZoneState::Closed
    }
}

/// Reason for which a request is refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneRefusal {
    /// The blocks lie beyond the last zone.
    OutOfRange,
    /// The block is not the first one of a zone, as the request requires.
    NoZoneStart,
    /// The blocks cross the end of the zone or its capacity.
    Boundary,
    /// The zone is full.
    Full,
    /// The zone is read-only.
    ReadOnly,
    /// The zone is offline.
    Offline,
    /// The write does not begin at the write pointer.
    InvalidWrite,
    /// The zone would be one too many that is active.
    TooManyActive,
    /// The zone would be one too many that is open, and no other can be closed for it.
    TooManyOpen,
    /// The state of the zone does not allow the action.
    InvalidTransition,
}

/// Action of a host on a zone, or on all zones that it applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneAction {
    /// Close an open zone.
    Close,
    /// Make a zone full, whatever has been written.
    Finish,
    /// Open a zone explicitly.
    Open,
    /// Empty a zone: its data is lost.
    Reset,
    /// Take a read-only zone offline.
    TakeOffline,
}

impl ZoneAction {
    /// True if the action on all zones is about zones of this state.
    fn selects(self, state: ZoneState) -> bool {
        match self {
            ZoneAction::Close => state.is_open(),
            ZoneAction::Finish => state.is_active(),
            ZoneAction::Open => state == ZoneState::Closed,
            ZoneAction::Reset => state.is_active() || state == ZoneState::Full,
            ZoneAction::TakeOffline => state == ZoneState::ReadOnly,
        }
    }
}

/// Zone as a report describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneDescription {
    /// State of the zone.
    pub state: ZoneState,
    /// First block of the zone.
    pub start: u64,
    /// Number of blocks that can be written.
    pub capacity_blocks: u64,
    /// Block that is written next; `None` if none can be written.
    pub write_pointer: Option<u64>,
}

/// Counts of requests that zones have accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneCounts {
    /// Number of appends.
    pub appends: u64,
    /// Number of zones that were reset.
    pub resets: u64,
    /// Number of zones that were finished by the host before they were full.
    pub finishes: u64,
    /// Number of zones that were closed because another one was opened.
    pub implicit_closes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Zone {
    state: ZoneState,
    /// Number of blocks that have been written since the last reset.
    written: u64,
}

/// Zones as a restart of a drive leaves them.
#[derive(Clone, Debug)]
pub struct ZonesLeft {
    /// States after the restart.
    pub zones: Zones,
    /// States that a loss of power would leave now.
    pub durable: Zones,
}

/// Zones of a namespace with their states.
#[derive(Clone, Debug)]
pub struct Zones {
    layout: ZoneLayout,
    zones: Vec<Zone>,
    active: u32,
    open: u32,
    /// Implicitly open zones, the one first that has been so for longest.
    implicit: OpenedOrder,
    counts: ZoneCounts,
}

impl Zones {
    /// Makes empty zones.
    ///
    /// # Panics
    /// If a zone has no block that can be written, or more than it has.
    pub fn new(layout: ZoneLayout) -> Zones {
        let ZoneLayout { zones, zone_blocks, capacity_blocks, .. } = layout;
        assert!(capacity_blocks > 0 && capacity_blocks <= zone_blocks, "a zone of {capacity_blocks} in {zone_blocks}");
        Zones {
            layout,
            zones: vec![Zone::default(); index(zones)],
            active: 0,
            open: 0,
            implicit: OpenedOrder::new(zones),
            counts: ZoneCounts::default(),
        }
    }

    /// Makes zones that are all full, as those of a drive in use.
    ///
    /// # Panics
    /// As [`Zones::new`].
    pub fn full(layout: ZoneLayout) -> Zones {
        let zones = vec![Zone { state: ZoneState::Full, written: layout.capacity_blocks }; index(layout.zones)];
        Zones { zones, ..Zones::new(layout) }
    }

    /// Returns number and size of the zones.
    pub fn layout(&self) -> &ZoneLayout {
        &self.layout
    }

    /// Returns counts of accepted requests.
    pub fn counts(&self) -> ZoneCounts {
        self.counts
    }

    /// Returns these zones with the counts of others, which were theirs before a restart.
    pub fn with_counts_of(self, others: &Zones) -> Zones {
        Zones { counts: others.counts, ..self }
    }

    /// Returns the number of active zones.
    pub fn active(&self) -> u32 {
        self.active
    }

    /// Returns the number of open zones.
    pub fn open(&self) -> u32 {
        self.open
    }

    /// Returns the state of a zone, and the number of blocks that have been written since its last reset.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn zone(&self, zone: u32) -> (ZoneState, u64) {
        let Zone { state, written } = self.zones[index(zone)];
        (state, written)
    }

    /// Returns the zone of a block, and the place of the block in the zone.
    ///
    /// # Errors
    /// Out of range.
    #[inline]
    pub fn find(&self, block: u64) -> Result<(u32, u64), ZoneRefusal> {
        let (zone, within) = (block / self.layout.zone_blocks, block % self.layout.zone_blocks);
        match u32::try_from(zone) {
            Ok(zone) if zone < self.layout.zones => Ok((zone, within)),
            _ => Err(ZoneRefusal::OutOfRange),
        }
    }

    /// Accepts a write of at least one block, and moves the write pointer behind it.
    ///
    /// # Errors
    /// In this order: the state of the zone, a write that does not begin at the write pointer, one that is longer than the rest of
    /// the zone, too many active or open zones.
    #[inline]
    pub fn write(&mut self, block: u64, blocks: u64) -> Result<(), ZoneRefusal> {
        let (zone, within) = self.find(block)?;
        let written = self.writable(zone)?;
        if within != written {
            return Err(ZoneRefusal::InvalidWrite);
        }
        self.advance(zone, blocks)
    }

    /// Accepts a write of at least one block wherever the write pointer of the zone is that begins with `start`. Returns the first
    /// block of the write.
    ///
    /// # Errors
    /// As [`Zones::write`], and if `start` is not the first block of a zone.
    #[inline]
    pub fn append(&mut self, start: u64, blocks: u64) -> Result<u64, ZoneRefusal> {
        let zone = self.find_start(start)?;
        let written = self.writable(zone)?;
        self.advance(zone, blocks)?;
        self.counts.appends += 1;
        Ok(start + written)
    }

    /// Takes back the latest write of a zone, whose data has not arrived. Returns false, and changes nothing, if the zone was written or
    /// changed since.
    pub fn take_back(&mut self, block: u64, blocks: u64) -> bool {
        let Ok((zone, within)) = self.find(block) else { return false };
        let Zone { state, written } = self.zones[index(zone)];
        let was_filled = state == ZoneState::Full && written == self.layout.capacity_blocks;
        let is_latest = written == within + blocks && (state.is_active() || was_filled);
        if is_latest {
            self.zones[index(zone)].written = within;
        }
        if is_latest && was_filled {
            // Closed, since its place among the open zones may be another's by now.
            self.enter(zone, ZoneState::Closed);
        }
        is_latest
    }

    /// Checks that blocks can be read: a read stays within its zone, written or not.
    ///
    /// # Errors
    /// Out of range, an offline zone, or the end of a zone within the blocks.
    #[inline]
    pub fn check_read(&self, block: u64, blocks: u64) -> Result<(), ZoneRefusal> {
        let (zone, within) = self.find(block)?;
        if self.zones[index(zone)].state == ZoneState::Offline {
            return Err(ZoneRefusal::Offline);
        }
        if blocks > self.layout.zone_blocks - within { Err(ZoneRefusal::Boundary) } else { Ok(()) }
    }

    /// Returns how many of so many blocks of one zone have been written: those before the first one that has not.
    pub fn written_blocks(&self, block: u64, blocks: u64) -> u64 {
        let written =
            self.find(block).map_or(0, |(zone, within)| self.zones[index(zone)].written.saturating_sub(within));
        blocks.min(written)
    }

    /// Applies an action to the zone that begins with a block. Returns true if the zone has changed.
    ///
    /// # Errors
    /// A block that begins no zone, a state that does not allow the action, and for opening too many active or open zones.
    pub fn act(&mut self, action: ZoneAction, start: u64) -> Result<bool, ZoneRefusal> {
        let zone = self.find_start(start)?;
        self.act_on(action, zone)
    }

    /// Applies an action to all zones that it is about. Returns their numbers. Either all are changed or none.
    ///
    /// # Errors
    /// Too many open zones, if all closed ones were open.
    pub fn act_on_all(&mut self, action: ZoneAction) -> Result<Vec<u32>, ZoneRefusal> {
        let selected: Vec<u32> =
            (0..self.layout.zones).filter(|zone| action.selects(self.zones[index(*zone)].state)).collect();
        let opened = if action == ZoneAction::Open { selected.len() as u64 } else { 0 };
        if self.layout.open_max > 0 && u64::from(self.open) + opened > self.layout.open_max.into() {
            return Err(ZoneRefusal::TooManyOpen);
        }
        for &zone in &selected {
            self.act_on(action, zone).expect("a zone that an action is about allows it");
        }
        Ok(selected)
    }

    /// Returns a description of each zone from the one of a block on, with its number.
    ///
    /// # Errors
    /// Out of range.
    pub fn report(&self, block: u64) -> Result<impl Iterator<Item = ZoneDescription> + Clone + '_, ZoneRefusal> {
        let (first, _) = self.find(block)?;
        Ok((first..self.layout.zones).map(|zone| self.describe(zone)))
    }

    /// Makes a zone read-only, as a drive does whose cells there are worn. Its data stays.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn make_read_only(&mut self, zone: u32) {
        if self.zones[index(zone)].state != ZoneState::Offline {
            self.enter(zone, ZoneState::ReadOnly);
        }
    }

    /// Closes open zones, as a loss of power does. Active ones without data become empty.
    pub fn lose_power(&mut self) {
        for zone in 0..self.layout.zones {
            let Zone { state, written } = self.zones[index(zone)];
            if state.is_active() {
                self.enter(zone, if written > 0 { ZoneState::Closed } else { ZoneState::Empty });
            }
        }
    }

    /// Puts a zone into a state that was kept elsewhere. Returns false, and changes nothing, if a zone cannot be so.
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

    fn find_start(&self, start: u64) -> Result<u32, ZoneRefusal> {
        let (zone, within) = self.find(start)?;
        if within == 0 { Ok(zone) } else { Err(ZoneRefusal::NoZoneStart) }
    }

    /// Returns the number of written blocks of a zone that can be written further.
    #[inline]
    fn writable(&self, zone: u32) -> Result<u64, ZoneRefusal> {
        let Zone { state, written } = self.zones[index(zone)];
        match state {
            ZoneState::Full => Err(ZoneRefusal::Full),
            ZoneState::ReadOnly => Err(ZoneRefusal::ReadOnly),
            ZoneState::Offline => Err(ZoneRefusal::Offline),
            _ => Ok(written),
        }
    }

    /// Moves the write pointer of a writable zone, which is opened for that if it is not open.
    #[inline]
    fn advance(&mut self, zone: u32, blocks: u64) -> Result<(), ZoneRefusal> {
        let Zone { state, written } = self.zones[index(zone)];
        if blocks > self.layout.capacity_blocks - written {
            return Err(ZoneRefusal::Boundary);
        }
        if !state.is_open() {
            self.make_room(state)?;
            self.enter(zone, ZoneState::ImplicitlyOpen);
        }
        self.zones[index(zone)].written = written + blocks;
        if written + blocks == self.layout.capacity_blocks {
            self.enter(zone, ZoneState::Full);
        }
        Ok(())
    }

    /// Makes room for one more open zone, which now is in a state in which it is not.
    fn make_room(&mut self, state: ZoneState) -> Result<(), ZoneRefusal> {
        let ZoneLayout { active_max, open_max, .. } = self.layout;
        if !state.is_active() && active_max > 0 && self.active >= active_max {
            return Err(ZoneRefusal::TooManyActive);
        }
        if open_max > 0 && self.open >= open_max {
            let longest = self.implicit.first().ok_or(ZoneRefusal::TooManyOpen)?;
            self.enter(longest, ZoneState::Closed);
            self.counts.implicit_closes += 1;
        }
        Ok(())
    }

    fn act_on(&mut self, action: ZoneAction, zone: u32) -> Result<bool, ZoneRefusal> {
        let state = self.zones[index(zone)].state;
        let next = match (action, state) {
            (ZoneAction::Close, _) if state.is_open() => ZoneState::Closed,
            (ZoneAction::Close, ZoneState::Closed) => ZoneState::Closed,
            (ZoneAction::Open, ZoneState::Empty | ZoneState::Closed) => {
                self.make_room(state)?;
                ZoneState::ExplicitlyOpen
            }
            (ZoneAction::Open, _) if state.is_open() => ZoneState::ExplicitlyOpen,
            (ZoneAction::Reset | ZoneAction::Finish, ZoneState::ReadOnly | ZoneState::Offline) => {
                return Err(ZoneRefusal::InvalidTransition);
            }
            (ZoneAction::Reset, _) => ZoneState::Empty,
            (ZoneAction::Finish, _) => ZoneState::Full,
            (ZoneAction::TakeOffline, ZoneState::ReadOnly | ZoneState::Offline) => ZoneState::Offline,
            _ => return Err(ZoneRefusal::InvalidTransition),
        };
        if next != state {
            self.counts.resets += u64::from(action == ZoneAction::Reset);
            self.counts.finishes += u64::from(action == ZoneAction::Finish);
            self.enter(zone, next);
        }
        Ok(next != state)
    }

    /// Changes the state of a zone, and all that is counted of states.
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

    fn describe(&self, zone: u32) -> ZoneDescription {
        let Zone { state, written } = self.zones[index(zone)];
        let start = self.layout.start(zone);
        let has_pointer = state.is_active() || state == ZoneState::Empty;
        let write_pointer = has_pointer.then_some(start + written);
        ZoneDescription { state, start, capacity_blocks: self.layout.capacity_blocks, write_pointer }
    }
}
