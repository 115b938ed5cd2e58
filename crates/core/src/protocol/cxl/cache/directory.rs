//! Directory of a device's DRAM cache: which page each frame holds. It knows no times.

use super::replacement::CacheReplacement;
use crate::protocol::cxl::config::CachePolicy;
use crate::table::NumberHashMap;

/// Map between the frames of a cache and their pages, with the policy that chooses the page to evict.
///
/// A directory that starts full holds the device's first pages in order, and stores only the differences from that.
#[derive(Clone, Debug)]
pub struct Directory {
    frames: u32,
    /// Number of cache frames that hold a page.
    used: u32,
    starts_full: bool,
    places: NumberHashMap<u64, u32>,
    pages: NumberHashMap<u32, u64>,
    replacement: CacheReplacement,
}

/// Result of the admission of a page: the frame that it gets, and the page that it replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Number of the cache frame that the page gets.
    pub frame: u32,
    /// Page that was evicted from the frame; none if the frame was free.
    pub evicted: Option<u64>,
}

impl Directory {
    /// Returns the directory of a cache with `frames` frames, at least one. If `is_full` is true, they hold the
    /// device's first pages; otherwise they are free.
    pub fn new(frames: u32, policy: CachePolicy, is_full: bool) -> Directory {
        assert!(frames > 0, "a cache has at least one frame");
        Directory {
            frames,
            used: if is_full { frames } else { 0 },
            starts_full: is_full,
            places: NumberHashMap::default(),
            pages: NumberHashMap::default(),
            replacement: CacheReplacement::of(policy, frames, is_full),
        }
    }

    /// Returns the number of the frame that holds a page; none if the page is not in the cache.
    pub fn find(&self, page: u64) -> Option<u32> {
        if let Some(frame) = self.places.get(&page) {
            return Some(*frame);
        }
        let frame = u32::try_from(page).ok().filter(|frame| self.starts_full && *frame < self.frames)?;
        (!self.pages.contains_key(&frame)).then_some(frame)
    }

    /// Tells the replacement policy that the page in a frame has been accessed.
    pub fn touch(&mut self, frame: u32) {
        self.replacement.touch(frame);
    }

    /// Gives a frame to a page that is not in the cache: a free frame, or the one whose page the policy evicts.
    pub fn admit(&mut self, page: u64) -> Admission {
        let (frame, evicted) = match self.used < self.frames {
            true => (self.used, None),
            false => {
                let pages = &self.pages;
                let page_of = |frame: u32| pages.get(&frame).copied().unwrap_or(frame.into());
                let frame = self.replacement.evict(&page_of);
                (frame, Some(page_of(frame)))
            }
        };
        self.used += u32::from(evicted.is_none());
        if let Some(evicted) = evicted {
            self.places.remove(&evicted);
        }
        self.places.insert(page, frame);
        self.pages.insert(frame, page);
        self.replacement.admit(frame, page);
        Admission { frame, evicted }
    }
}

#[cfg(test)]
mod tests;
