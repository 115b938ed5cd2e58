//! Order in which zones were opened: a doubly linked list in a table with an entry for each zone, so that every change
//! takes constant time.

use crate::number::index;

/// Zone number that stands for no zone: the end of the list.
const NONE: u32 = u32::MAX;

/// Zones in the order in which they were added, the earliest first.
#[derive(Clone, Debug)]
pub(super) struct ZoneOpeningOrder {
    /// Preceding and following zone in the order, for each zone that is in it, by zone number.
    neighbours: Vec<(u32, u32)>,
    first: u32,
    last: u32,
}

impl ZoneOpeningOrder {
    /// Creates an empty order of opened zones, for zones with the numbers below `zones`.
    pub(super) fn new(zones: u32) -> ZoneOpeningOrder {
        ZoneOpeningOrder { neighbours: vec![(NONE, NONE); index(zones)], first: NONE, last: NONE }
    }

    /// Returns the zone that was added before all others; `None` if the order is empty.
    pub(super) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Appends a zone to the order in which zones were opened, as the last one. The zone must not be in the order.
    pub(super) fn push(&mut self, zone: u32) {
        self.neighbours[index(zone)] = (self.last, NONE);
        match self.last {
            NONE => self.first = zone,
            last => self.neighbours[index(last)].1 = zone,
        }
        self.last = zone;
    }

    /// Removes a zone from the order in which zones were opened. The zone must be in the order.
    pub(super) fn remove(&mut self, zone: u32) {
        let (before, after) = self.neighbours[index(zone)];
        match before {
            NONE => self.first = after,
            before => self.neighbours[index(before)].1 = after,
        }
        match after {
            NONE => self.last = before,
            after => self.neighbours[index(after)].0 = before,
        }
    }
}
