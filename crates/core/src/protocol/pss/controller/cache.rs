//! DRAM cache of the card. It holds writes that wait for their chips, pages that have been stored recently, and pages
//! read ahead.
//!
//! "Write caching is used to absorb the latency introduced during bursts of write commands. The same DRAM-based cache
//! is used for fast responses of previously stored pages, or for read prefetching when possible." (PSS, section 2)

use std::collections::VecDeque;
use std::ops::Range;

use super::super::spec::PAGE_BYTES;
use crate::number::index;
use crate::table::NumberHashMap;
use crate::time::Time;

/// Entry of the DRAM cache for one page: cached bytes, and writes that are not in the cells yet.
#[derive(Clone, Debug)]
struct CachedCardPage {
    /// Range of bytes of the page that is cached.
    range: Range<u32>,
    /// Time at which the cached range is available.
    ready_at: Time,
    /// Number of writes of the page that are not in the cells yet.
    writes: u32,
    /// Range of bytes of the page's last write, until that write goes to the chips.
    queued: Option<Range<u32>>,
    /// True if the page of the card's DRAM cache is in the list of pages that may be evicted.
    listed: bool,
}

/// DRAM cache of the card, by page number, with the number of pages that writes occupy.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    capacity: u32,
    /// Number of pages of admitted writes that are not in the cells yet.
    reserved: u32,
    pages: NumberHashMap<u64, CachedCardPage>,
    /// Pages whose writes are all in the cells, oldest first: the candidates for eviction. Some may have been written
    /// again since.
    stored: VecDeque<u64>,
}

impl Cache {
    /// Returns an empty cache of `capacity` pages. With a capacity of 0, the card has no cache.
    pub(super) fn new(capacity: u32) -> Cache {
        Cache { capacity, reserved: 0, pages: NumberHashMap::default(), stored: VecDeque::new() }
    }

    /// True if the card has a cache (its capacity is not 0).
    pub(super) fn is_on(&self) -> bool {
        self.capacity > 0
    }

    /// Returns the number of pages of writes that the cache can still admit; unlimited without a cache.
    pub(super) fn room(&self) -> u32 {
        if self.is_on() { self.capacity.saturating_sub(self.reserved) } else { u32::MAX }
    }

    /// Reserves cache space for a write of `pages` pages. Returns false if there is no room. A write that is larger
    /// than the whole cache is admitted if no other write is in it.
    pub(super) fn reserve(&mut self, pages: u32) -> bool {
        let fits = pages <= self.room() || self.reserved == 0;
        if fits && self.is_on() {
            self.reserved += pages;
        }
        fits
    }

    /// Stores a range of a page for an admitted write. Returns false if it only replaces data that still waits for the
    /// chips, so that they are not written again. `may_replace` is true unless a command waits for the chips.
    pub(super) fn write(&mut self, now: Time, page: u64, range: Range<u32>, may_replace: bool) -> bool {
        if !self.is_on() {
            return true;
        }
        let entry = self.pages.entry(page).or_insert_with(|| CachedCardPage::new(range.clone(), now));
        if may_replace && entry.queued.as_ref().is_some_and(|queued| covers(queued, &range)) {
            self.reserved -= 1;
            return false;
        }
        entry.writes += 1;
        entry.queued = Some(range.clone());
        if !covers(&entry.range, &range) {
            (entry.range, entry.ready_at) = (range, now);
        }
        self.evict_pages();
        true
    }

    /// Notes that a page's data goes to the chips, so that a later write of the page can no longer replace it.
    pub(super) fn note_program_start(&mut self, page: u64) {
        if let Some(entry) = self.pages.get_mut(&page)
            && entry.writes == 1
        {
            entry.queued = None;
        }
    }

    /// Notes that a write of a page is in the cells, which frees its reserved space. Without further writes, the page
    /// may be evicted.
    pub(super) fn on_programmed(&mut self, page: u64) {
        let Some(entry) = self.pages.get_mut(&page) else { return };
        entry.writes -= 1;
        self.reserved -= 1;
        self.list(page);
    }

    /// Adds a page that is being read ahead and is available at `ready_at`.
    pub(super) fn prefetch(&mut self, page: u64, ready_at: Time) {
        self.pages.insert(page, CachedCardPage::new(0..PAGE_BYTES, ready_at));
        self.list(page);
    }

    /// True if the DRAM cache holds the page or any range of its bytes.
    pub(super) fn holds(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    /// Returns the time at which a range of a page is available; none if not all of the range is cached.
    pub(super) fn find(&self, page: u64, range: &Range<u32>) -> Option<Time> {
        let entry = self.pages.get(&page)?;
        covers(&entry.range, range).then_some(entry.ready_at)
    }

    /// Adds a page of the card's DRAM cache to the list of pages that may be evicted, unless one of its writes is not
    /// in the cells yet.
    fn list(&mut self, page: u64) {
        if let Some(entry) = self.pages.get_mut(&page).filter(|entry| entry.writes == 0 && !entry.listed) {
            entry.listed = true;
            self.stored.push_back(page);
        }
        self.evict_pages();
    }

    /// Evicts the oldest stored pages until the cache is within its capacity, or until all of its pages wait for their
    /// chips.
    fn evict_pages(&mut self) {
        while self.pages.len() > index(self.capacity)
            && let Some(page) = self.stored.pop_front()
        {
            match self.pages.get_mut(&page) {
                Some(entry) if entry.writes > 0 => entry.listed = false,
                _ => drop(self.pages.remove(&page)),
            }
        }
    }
}

impl CachedCardPage {
    fn new(range: Range<u32>, ready_at: Time) -> CachedCardPage {
        CachedCardPage { range, ready_at, writes: 0, queued: None, listed: false }
    }
}

fn covers(outer: &Range<u32>, inner: &Range<u32>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Range<u32> = 0..PAGE_BYTES;

    fn write(cache: &mut Cache, page: u64) -> bool {
        assert!(cache.reserve(1));
        cache.write(Time::ZERO, page, PAGE, true)
    }

    #[test]
    fn pss_writes_wait_while_the_cache_is_full() {
        let mut cache = Cache::new(2);
        assert!(write(&mut cache, 1) && write(&mut cache, 2));
        assert!(!cache.reserve(1));
        cache.note_program_start(1);
        assert!(!cache.reserve(1), "data that is being programmed is still held");
        cache.on_programmed(1);
        assert!(cache.reserve(1) && !cache.reserve(1));
    }

    #[test]
    fn page_rewritten_before_programming_is_programmed_once() {
        let mut cache = Cache::new(2);
        assert!(write(&mut cache, 1));
        assert!(!write(&mut cache, 1));
        assert_eq!(cache.room(), 1);
        cache.note_program_start(1);
        assert!(write(&mut cache, 1), "the chips have the older data already");
    }

    #[test]
    fn stored_pages_are_cached_until_evicted() {
        let mut cache = Cache::new(2);
        for page in [1, 2, 3] {
            write(&mut cache, page);
            cache.note_program_start(page);
            cache.on_programmed(page);
        }
        assert_eq!([1, 2, 3].map(|page| cache.find(page, &PAGE).is_some()), [false, true, true]);
    }

    #[test]
    fn partial_page_is_not_a_cache_hit_for_the_whole() {
        let mut cache = Cache::new(2);
        assert!(cache.reserve(1) && cache.write(Time::ZERO, 1, 0..512, true));
        assert!(cache.find(1, &(0..512)).is_some() && cache.find(1, &PAGE).is_none());
        assert!(write(&mut cache, 1), "the whole page is not on its way yet");
    }

    #[test]
    fn disabled_cache_passes_everything_and_hits_nothing() {
        let mut cache = Cache::new(0);
        assert!((0..100).all(|page| write(&mut cache, page)));
        assert_eq!(cache.find(1, &PAGE), None);
    }
}
