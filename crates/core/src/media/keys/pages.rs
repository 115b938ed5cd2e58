//! Pages of a key index that does not fit into the memory of the controller: which pages are in memory, and which are
//! read and written.
//!
//! A hash assigns each key to one page. The least recently used page makes way for a page that is needed, and is
//! written if it has changed (as map pages of a translation layer: Gupta, Kim and Urgaonkar, ASPLOS 2009).

use std::collections::BTreeMap;

use super::{Key, KeyLayout};
use crate::number::low_u32;

/// Number of bytes in an index entry: a key of 16 bytes, its length, and the length and location of the value
/// (assumed).
const ENTRY_BYTES: u32 = 32;

/// Pages of a key index, which lie on the media behind the values, and the cache of those that are in memory.
#[derive(Clone, Debug)]
pub struct KeyIndexPages {
    /// Offset of the first index page on the media, in bytes.
    start: u64,
    /// Number of pages in the index.
    pages: u32,
    /// Number of bytes in each index page.
    page_bytes: u32,
    /// Largest number of index pages in memory at a time.
    cached: usize,
    /// Index pages in memory, by page number: the number of the access that used each page last, and true if the page
    /// has changed.
    loaded: BTreeMap<u32, (u64, bool)>,
    /// Numbers of the index pages in memory, by the number of the access that used each last.
    by_use: BTreeMap<u64, u32>,
    /// Number of accesses to the index so far.
    uses: u64,
}

/// Accesses to the media that finding a key causes: a page that is read, and a changed page that is written to make
/// room for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexPageAccess {
    /// Offset on the media of the index page that is read, in bytes; `None` if it is in memory.
    pub read: Option<u64>,
    /// Offset on the media of the index page that is written, in bytes; `None` if no changed page has to leave memory.
    pub written: Option<u64>,
}

impl KeyIndexPages {
    /// Creates the pages of a key index behind the values, none of them in memory. At least one page fits into memory,
    /// even if `cached_bytes` is smaller.
    pub fn new(layout: &KeyLayout, page_bytes: u32, cached_bytes: u64) -> KeyIndexPages {
        KeyIndexPages {
            start: layout.capacity_bytes,
            pages: KeyIndexPages::count(layout.keys_max, page_bytes),
            page_bytes,
            cached: usize::try_from(cached_bytes / u64::from(page_bytes)).unwrap_or(usize::MAX).max(1),
            loaded: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
        }
    }

    /// Returns the number of pages in an index of up to `keys_max` keys.
    pub fn count(keys_max: u32, page_bytes: u32) -> u32 {
        keys_max.div_ceil((page_bytes / ENTRY_BYTES).max(1))
    }

    /// Returns the number of bytes in an index page.
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Finds the index entry of a key, and marks its page as changed if `changes` is true. Returns the accesses to the
    /// media that this needs.
    pub fn access(&mut self, key: Key, changes: bool) -> IndexPageAccess {
        let page = low_u32(key.spread() % u64::from(self.pages));
        self.uses += 1;
        let before = self.loaded.insert(page, (self.uses, changes));
        self.by_use.insert(self.uses, page);
        if let Some((used, has_changed)) = before {
            self.by_use.remove(&used);
            self.loaded.insert(page, (self.uses, changes || has_changed));
            return IndexPageAccess::default();
        }
        let written = if self.loaded.len() > self.cached { self.evict_oldest_page() } else { None };
        IndexPageAccess { read: Some(self.place(page)), written: written.map(|page| self.place(page)) }
    }

    /// Returns the offset on the media and the number of bytes of the index pages that a list of `keys` entries reads.
    /// The entries are assumed to lie one after the other.
    pub fn listed(&self, keys: u64) -> (u64, u32) {
        let pages = keys.div_ceil(u64::from((self.page_bytes / ENTRY_BYTES).max(1))).min(self.pages.into());
        (self.start, low_u32(pages) * self.page_bytes)
    }

    /// Removes the least recently used page from memory. Returns its number if it has changed and must be written;
    /// `None` otherwise.
    fn evict_oldest_page(&mut self) -> Option<u32> {
        let (_, page) = self.by_use.pop_first()?;
        let (_, has_changed) = self.loaded.remove(&page)?;
        has_changed.then_some(page)
    }

    fn place(&self, page: u32) -> u64 {
        self.start + u64::from(page) * u64::from(self.page_bytes)
    }
}
