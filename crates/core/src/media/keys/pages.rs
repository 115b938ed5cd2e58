//! Pages of an index that does not fit the memory of the controller: which of them are in memory, and which are read and written.
//!
//! A key belongs to one page, by a hash. The page that was used longest ago gives way to one that is needed, and is written if it
//! has changed (as map pages of a translation layer: Gupta, Kim and Urgaonkar, ASPLOS 2009).

use std::collections::BTreeMap;

use super::{Key, KeyLayout};
use crate::number::low_u32;

/// Bytes of an entry of the index: a key of 16 bytes, its length and that of the value, and the place of the value (assumed).
const ENTRY_BYTES: u32 = 32;

/// Pages of the index, at the end of the media.
#[derive(Clone, Debug)]
pub struct IndexPages {
    /// Offset of the first page on the media, number of pages, and bytes of each.
    start: u64,
    pages: u32,
    page_bytes: u32,
    /// Number of pages that are in memory at a time.
    cached: usize,
    /// Instant of its last use, in uses so far, and true if it has changed, of each page in memory.
    loaded: BTreeMap<u32, (u64, bool)>,
    /// Pages in memory by the instant of their last use.
    by_use: BTreeMap<u64, u32>,
    uses: u64,
}

/// Accesses of the media that finding a key takes: a page that is read, and one that is written to make room for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexAccess {
    /// Offset of the page that is read; none if it is in memory.
    pub read: Option<u64>,
    /// Offset of the page that is written; none if the one that gives way has not changed.
    pub written: Option<u64>,
}

impl IndexPages {
    /// Makes the pages of an index behind the values, none of which is in memory yet.
    pub fn new(layout: &KeyLayout, page_bytes: u32, cached_bytes: u64) -> IndexPages {
        IndexPages {
            start: layout.capacity_bytes,
            pages: IndexPages::count(layout.keys_max, page_bytes),
            page_bytes,
            cached: usize::try_from(cached_bytes / u64::from(page_bytes)).unwrap_or(usize::MAX).max(1),
            loaded: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
        }
    }

    /// Returns the number of pages of an index of so many keys.
    pub fn count(keys_max: u32, page_bytes: u32) -> u32 {
        keys_max.div_ceil((page_bytes / ENTRY_BYTES).max(1))
    }

    /// Returns the bytes of a page.
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Finds a key, and changes its entry if `changes` is true.
    pub fn access(&mut self, key: Key, changes: bool) -> IndexAccess {
        let page = low_u32(key.spread() % u64::from(self.pages));
        self.uses += 1;
        let before = self.loaded.insert(page, (self.uses, changes));
        self.by_use.insert(self.uses, page);
        if let Some((used, has_changed)) = before {
            self.by_use.remove(&used);
            self.loaded.insert(page, (self.uses, changes || has_changed));
            return IndexAccess::default();
        }
        let written = if self.loaded.len() > self.cached { self.give_way() } else { None };
        IndexAccess { read: Some(self.place(page)), written: written.map(|page| self.place(page)) }
    }

    /// Returns offset and bytes of the pages that hold so many entries, for a list of keys (assumed to lie one behind the other).
    pub fn listed(&self, keys: u64) -> (u64, u32) {
        let pages = keys.div_ceil(u64::from((self.page_bytes / ENTRY_BYTES).max(1))).min(self.pages.into());
        (self.start, low_u32(pages) * self.page_bytes)
    }

    /// Removes the page that was used longest ago. Returns its number if it has changed.
    fn give_way(&mut self) -> Option<u32> {
        let (_, page) = self.by_use.pop_first()?;
        let (_, has_changed) = self.loaded.remove(&page)?;
        has_changed.then_some(page)
    }

    fn place(&self, page: u32) -> u64 {
        self.start + u64::from(page) * u64::from(self.page_bytes)
    }
}
