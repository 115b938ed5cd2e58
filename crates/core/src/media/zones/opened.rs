//! Order in which zones were opened: a list through a table with a place for each zone, so that every change takes constant
//! time.

use crate::number::index;

/// Number that no zone has.
const NONE: u32 = u32::MAX;

/// Zones in the order in which they were added.
#[derive(Clone, Debug)]
pub(super) struct OpenedOrder {
    /// Zones before and after each zone that is in the order.
    neighbours: Vec<(u32, u32)>,
    first: u32,
    last: u32,
}

impl OpenedOrder {
    /// Makes an empty order for so many zones.
    pub(super) fn new(zones: u32) -> OpenedOrder {
        OpenedOrder { neighbours: vec![(NONE, NONE); index(zones)], first: NONE, last: NONE }
    }

    /// Returns the zone that was added before all others.
    pub(super) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Adds a zone that is not in the order.
    pub(super) fn push(&mut self, zone: u32) {
        self.neighbours[index(zone)] = (self.last, NONE);
        match self.last {
            NONE => self.first = zone,
            last => self.neighbours[index(last)].1 = zone,
        }
        self.last = zone;
    }

    /// Removes a zone that is in the order.
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
