//! Cache of the mapping table in the drive's memory, for drives whose memory does not hold the whole table.
//!
//! The table is divided into *map pages*, which lie in flash like data (Gupta, Kim and Urgaonkar, "DFTL: a flash
//! translation layer employing demand-based selective caching of page-level address mappings", ASPLOS 2009). An access
//! to a unit whose page is not cached reads the page; the page that it replaces is written if it has changed. Garbage
//! collection changes the locations of units, too. The new locations are kept in memory until their page is loaded
//! next, so that collection itself writes no map pages (as Ma, Feng and Li, "LazyFTL", SIGMOD 2011). The memory for
//! them is not counted.
//!
//! ```text
//!     list:   least recently used <-> ... <-> most recently used      slots of loaded pages
//!     page 7 is not loaded: read it; a policy picks one of the first few slots; if that page has changed, write it
//! ```

use super::blocks::CachedMapPage;
use super::policy::Policy;
use crate::number::{index, narrow};

/// Number of least recently used map pages among which a policy chooses the page to replace.
const CANDIDATES: usize = 8;
/// Number that stands for no slot of the map cache: the page is not loaded, or the list ends.
const NONE: u32 = u32::MAX;

/// Miss of the map cache: the page that an access has loaded, and the changed page that has left the cache for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MapCacheMiss {
    /// Number of the map page that is loaded.
    pub loaded: u32,
    /// Number of the replaced map page if it has changed and must be written; `None` otherwise.
    pub written: Option<u32>,
}

/// Slot of the map cache: a loaded map page, with its neighbours in the list by last use.
#[derive(Clone, Copy, Debug)]
struct MapCacheSlot {
    page: CachedMapPage,
    /// Number of the map cache slot that was used just before this one; [`NONE`] for the least recently used slot.
    before: u32,
    /// Number of the map cache slot that was used just after this one; [`NONE`] for the most recently used slot.
    after: u32,
}

/// Cache of map pages: a slot for each loaded page, in a list by last use.
#[derive(Clone, Debug)]
pub(super) struct MapCache {
    /// Number of mapping units whose locations one map page holds.
    page_units: u32,
    /// Number of the slot that holds each map page, by page number; [`NONE`] if the page is not loaded.
    slot_of: Vec<u32>,
    /// True for each map page that lacks new locations of mapping units which garbage collection moved while it was not
    /// loaded, by page number.
    is_outdated: Vec<bool>,
    slots: Vec<MapCacheSlot>,
    oldest: u32,
    newest: u32,
}

impl MapCache {
    /// Creates a cache of `slots` map pages for `units` mapping units. The cache starts full, with pages at equal
    /// distances. If `is_changed` is true, all pages must be written when they leave the cache.
    pub(super) fn new(units: u64, page_units: u32, slots: u32, is_changed: bool) -> MapCache {
        let pages = pages(units, page_units);
        let slots = slots.clamp(1, pages);
        let mut cache = MapCache {
            page_units,
            slot_of: vec![NONE; index(pages)],
            is_outdated: vec![is_changed; index(pages)],
            slots: Vec::with_capacity(index(slots)),
            oldest: NONE,
            newest: NONE,
        };
        for slot in 0..slots {
            let page = narrow::<u32, u64>(u64::from(slot) * u64::from(pages) / u64::from(slots));
            cache.slots.push(MapCacheSlot { page: CachedMapPage { page, is_changed }, before: NONE, after: NONE });
            cache.slot_of[index(page)] = slot;
            cache.append(slot);
        }
        cache
    }

    /// Looks up the location of a mapping unit; the unit gets a new location if `changes` is true. Returns the page
    /// that was loaded and the page that it replaced; `None` if the unit's page was in the cache.
    #[inline]
    pub(super) fn access(&mut self, unit: u32, changes: bool, policy: &mut Policy) -> Option<MapCacheMiss> {
        let page = unit / self.page_units;
        let slot = self.slot_of[index(page)];
        if slot == NONE {
            return Some(self.load(page, changes, policy));
        }
        self.slots[index(slot)].page.is_changed |= changes;
        if slot != self.newest {
            self.remove(slot);
            self.append(slot);
        }
        None
    }

    /// Records the new location of a mapping unit in memory, without an access to flash.
    #[inline]
    pub(super) fn note(&mut self, unit: u32) {
        let page = index(unit / self.page_units);
        match self.slot_of[page] {
            NONE => self.is_outdated[page] = true,
            slot => self.slots[index(slot)].page.is_changed = true,
        }
    }

    fn load(&mut self, page: u32, changes: bool, policy: &mut Policy) -> MapCacheMiss {
        let mut candidates = [CachedMapPage { page, is_changed: false }; CANDIDATES];
        let (mut slots, mut count, mut next) = ([NONE; CANDIDATES], 0, self.oldest);
        while next != NONE && count < CANDIDATES {
            (slots[count], candidates[count]) = (next, self.slots[index(next)].page);
            next = self.slots[index(next)].after;
            count += 1;
        }
        let slot = slots[policy.replaced_map_page(&candidates[..count])];
        let replaced = self.slots[index(slot)].page;
        self.slot_of[index(replaced.page)] = NONE;
        self.slot_of[index(page)] = slot;
        let is_outdated = std::mem::take(&mut self.is_outdated[index(page)]);
        self.slots[index(slot)].page = CachedMapPage { page, is_changed: changes || is_outdated };
        if slot != self.newest {
            self.remove(slot);
            self.append(slot);
        }
        MapCacheMiss { loaded: page, written: replaced.is_changed.then_some(replaced.page) }
    }

    fn remove(&mut self, slot: u32) {
        let MapCacheSlot { before, after, .. } = self.slots[index(slot)];
        match before {
            NONE => self.oldest = after,
            _ => self.slots[index(before)].after = after,
        }
        match after {
            NONE => self.newest = before,
            _ => self.slots[index(after)].before = before,
        }
    }

    fn append(&mut self, slot: u32) {
        let newest = std::mem::replace(&mut self.newest, slot);
        let this = &mut self.slots[index(slot)];
        (this.before, this.after) = (newest, NONE);
        match newest {
            NONE => self.oldest = slot,
            _ => self.slots[index(newest)].after = slot,
        }
    }
}

/// Returns the number of map pages for `units` mapping units, each page with `page_units` of them.
pub(super) fn pages(units: u64, page_units: u32) -> u32 {
    narrow::<u32, u64>(units.div_ceil(page_units.into()))
}
