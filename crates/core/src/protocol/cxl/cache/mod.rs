//! DRAM cache of a CXL device in front of its memory, which holds whole pages.
//!
//! ```text
//!     load  -> page there?        yes -> DRAM of the cache -> line
//!                                 in flight -> waits for it -> DRAM -> line
//!                                 no -> page from the memory -> frame -> DRAM -> line
//!     store -> page has a frame?  yes -> its line is in the cache
//!                                 no -> frame -> its line is in the cache; the page's other lines stay in the memory
//!     frame -> not used before, or replaced: what it held is dropped if the memory has it, else written back
//! ```
//!
//! A load of a missing page starts the read of that page at once, and then the write-back of the page whose frame it
//! gets. A page that is written back moves to one of `buffer_units` write-back slots, so its frame is free. A load or a
//! store that replaces such a page waits only if all slots are taken, until the oldest write-back is in the memory's
//! write buffer. A store waits neither for the memory nor for the DRAM. The lines of a page that have not been stored
//! are read from the memory when one of them is loaded, or before the page is written back. The write-back then enters
//! the queues of the memory with that read rather than behind it, which keeps the order of calls that [`crate::media`]
//! expects. Its slot is taken until both are done. The DRAM is assumed to carry more than the link, so that accesses to
//! it do not contend. [`directory`] knows the pages in the frames, and [`replacement`] chooses the page to evict.

pub mod directory;
pub mod replacement;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::LINE_BYTES;
use super::config::{CacheStart, Cxl};
use super::fetched::LineInstants;
use crate::media::Media;
use crate::number::index;
use crate::table::NumberHashMap;
use crate::time::{Span, Time};
use directory::Directory;

/// Bit mask of lines of a page: bit i stands for line i.
type Lines = u64;

/// DRAM cache of a CXL device: its frames, its write-backs in progress and its counters.
#[derive(Clone, Debug)]
pub struct CxlPageCache {
    page_bytes: u32,
    access: Span,
    prefetch_pages: u64,
    /// Size in pages of the memory behind the cache.
    device_pages: u64,
    directory: Directory,
    /// Contents of the frames that have changed since the start of the run.
    frames: NumberHashMap<u32, CacheFrameState>,
    /// Content of every frame that has not changed since the start of the run.
    first: CacheFrameState,
    /// Instants at which the write-backs in progress end, in the order in which they began. Each holds a write-back
    /// slot until then.
    write_backs: VecDeque<Time>,
    write_back_places: usize,
    counts: CxlCacheCounts,
}

/// State of a cache frame: which lines of its page are stored or dirty, and the times at which they are there.
#[derive(Clone, Copy, Debug)]
struct CacheFrameState {
    /// Bit mask of the lines that the host has stored since the page was admitted to the cache.
    stored: Lines,
    /// Cache lines of this page that must be written back, as the memory does not have their newest version.
    dirty: Lines,
    /// Instant from which the frame can hold the page: its former page has left for a write-back slot.
    free_at: Time,
    /// Instant at which all lines of the page are in the frame. Never, if the lines that have not been stored have not
    /// been read from the memory.
    whole_at: Time,
    /// True if the page was read ahead, and has not been accessed yet.
    is_ahead: bool,
}

/// Counters of a CXL device's DRAM cache: hits, misses, write-backs and read-ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CxlCacheCounts {
    /// Number of loads and stores whose page was in the cache.
    pub hits: u64,
    /// Number of loads whose page was still being read into the cache.
    pub joined: u64,
    /// Number of loads and stores whose page was not in the cache. Loads of a line that is missing in a page of stored
    /// lines count too.
    pub misses: u64,
    /// Number of pages that the cache has written back to the memory.
    pub write_backs: u64,
    /// Number of write-backs for which the page's missing lines had to be read first.
    pub merges: u64,
    /// Number of pages that the cache has read ahead of loads.
    pub ahead: u64,
    /// Number of pages that were read ahead and later loaded or stored.
    pub ahead_used: u64,
}

impl CxlPageCache {
    /// Returns the cache that a drive's section `cxl` describes, with its content at the start. The memory behind it
    /// has `capacity_bytes` bytes.
    pub fn new(config: &Cxl, capacity_bytes: u64) -> CxlPageCache {
        let whole = whole(config.unit_bytes);
        let dirty = if config.cache_start == CacheStart::Dirty { whole } else { 0 };
        let is_full = config.cache_start != CacheStart::Empty;
        CxlPageCache {
            page_bytes: config.unit_bytes,
            access: config.cache,
            prefetch_pages: config.cache_prefetch_pages.into(),
            device_pages: capacity_bytes / u64::from(config.unit_bytes),
            directory: Directory::new(config.cache_pages().max(1), config.cache_policy, is_full),
            frames: NumberHashMap::default(),
            first: CacheFrameState { stored: 0, dirty, free_at: Time::ZERO, whole_at: Time::ZERO, is_ahead: false },
            write_backs: VecDeque::new(),
            write_back_places: index(config.buffer_units),
            counts: CxlCacheCounts::default(),
        }
    }

    /// Loads the cache line at byte `offset`, requested at `now`, from the device's DRAM cache or memory. Returns the
    /// instants at which it reaches each stage. Calls come in the order of `now`.
    pub fn read(&mut self, now: Time, offset: u64, media: &mut Media) -> LineInstants {
        let (page, line) = self.place(offset);
        let Some(frame) = self.directory.find(page) else { return self.load_missing_line(now, page, media) };
        self.directory.touch(frame);
        let content = self.frame_content(frame);
        if content.is_ahead {
            self.counts.ahead_used += 1;
            self.frames.insert(frame, CacheFrameState { is_ahead: false, ..content });
        }
        if content.stored & line == 0 && content.whole_at == Time::NEVER {
            return self.complete(now, page, frame, media);
        }
        let there_at = if content.stored & line > 0 { content.free_at } else { content.whole_at };
        match there_at > now {
            true => self.counts.joined += 1,
            false => self.counts.hits += 1,
        }
        if content.is_ahead {
            self.read_following_pages(now, page, media);
        }
        LineInstants::within(now, there_at.max(now)).through(self.access)
    }

    /// Stores the cache line at byte `offset`, which arrives at `now`. Returns the time at which the line is in the
    /// device's DRAM cache.
    pub fn write(&mut self, now: Time, offset: u64, media: &mut Media) -> Time {
        let (page, line) = self.place(offset);
        let (frame, content) = match self.directory.find(page) {
            Some(frame) => {
                self.counts.hits += 1;
                self.directory.touch(frame);
                (frame, self.frame_content(frame))
            }
            None => {
                self.counts.misses += 1;
                let (frame, free_at) = self.admit(now, page, media);
                (frame, CacheFrameState { stored: 0, dirty: 0, free_at, whole_at: Time::NEVER, is_ahead: false })
            }
        };
        self.counts.ahead_used += u64::from(content.is_ahead);
        let stored = content.stored | line;
        let stored_at = content.free_at.max(now);
        let whole_at =
            if stored == whole(self.page_bytes) { content.whole_at.min(stored_at) } else { content.whole_at };
        self.frames.insert(
            frame,
            CacheFrameState { stored, dirty: content.dirty | line, whole_at, is_ahead: false, ..content },
        );
        media.hold(stored_at, offset, LINE_BYTES);
        stored_at
    }

    /// Writes all dirty pages that overlap the `bytes` bytes from `offset` to the memory. Returns the time at which
    /// they are durable.
    pub fn flush(&mut self, now: Time, offset: u64, bytes: u32, media: &mut Media) -> Time {
        let mut done = now;
        let (first, _) = self.place(offset);
        let (last, _) = self.place(offset + u64::from(bytes.max(1)) - 1);
        for page in first..=last {
            let Some(frame) = self.directory.find(page) else { continue };
            let content = self.frame_content(frame);
            if content.dirty > 0 {
                let written_at = self.write_to_memory(now, page, content, media);
                done = done.max(written_at);
                let whole_at = content.whole_at.min(written_at);
                self.frames.insert(frame, CacheFrameState { dirty: 0, whole_at, ..content });
            }
        }
        media.flush(now, offset, bytes).max(done)
    }

    /// Returns the counters as pairs of name and count. Counters of read-ahead are included only if it is on.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let counts = &self.counts;
        let mut counters = vec![
            ("cache_hits", counts.hits),
            ("cache_joined", counts.joined),
            ("cache_misses", counts.misses),
            ("cache_write_backs", counts.write_backs),
            ("cache_merges", counts.merges),
        ];
        if self.prefetch_pages > 0 {
            counters.extend([("cache_read_ahead", counts.ahead), ("cache_read_ahead_used", counts.ahead_used)]);
        }
        counters
    }

    /// Returns the number of the page that holds byte `offset`, and the bit of its line.
    fn place(&self, offset: u64) -> (u64, Lines) {
        let page_bytes = u64::from(self.page_bytes);
        (offset / page_bytes, 1 << (offset % page_bytes / u64::from(LINE_BYTES)))
    }

    fn frame_content(&self, frame: u32) -> CacheFrameState {
        self.frames.get(&frame).copied().unwrap_or(self.first)
    }

    /// Loads a line whose page is not in the cache: reads the page into a frame, and reads ahead if the page before it
    /// is cached.
    fn load_missing_line(&mut self, now: Time, page: u64, media: &mut Media) -> LineInstants {
        self.counts.misses += 1;
        let follows = page.checked_sub(1).is_some_and(|before| self.directory.find(before).is_some());
        let fetched = self.read_page_into_frame(now, page, media, false);
        if follows {
            self.read_following_pages(now, page, media);
        }
        fetched.through(self.access)
    }

    /// Loads a line that is missing in a page of stored lines: reads the page's missing lines from the memory.
    fn complete(&mut self, now: Time, page: u64, frame: u32, media: &mut Media) -> LineInstants {
        self.counts.misses += 1;
        let fetched = LineInstants::from_memory(self.read_from_memory(now, page, media));
        let content = self.frame_content(frame);
        let there_at = fetched.ready_at.max(content.free_at);
        self.frames.insert(frame, CacheFrameState { whole_at: there_at, ..content });
        fetched.until(there_at).through(self.access)
    }

    /// Reads a page from the memory into a frame. The frame's former page is written back after the read, if it is
    /// dirty.
    fn read_page_into_frame(&mut self, now: Time, page: u64, media: &mut Media, is_ahead: bool) -> LineInstants {
        let fetched = LineInstants::from_memory(self.read_from_memory(now, page, media));
        let (frame, free_at) = self.admit(now, page, media);
        let whole_at = fetched.ready_at.max(free_at);
        self.frames.insert(frame, CacheFrameState { stored: 0, dirty: 0, free_at, whole_at, is_ahead });
        fetched.until(whole_at)
    }

    /// Reads the pages that follow `page` ahead into the cache. Stops when a replaced page would have to wait for a
    /// write-back slot.
    fn read_following_pages(&mut self, now: Time, page: u64, media: &mut Media) {
        let last = (page + self.prefetch_pages).min(self.device_pages.saturating_sub(1));
        for ahead in page + 1..=last {
            if self.directory.find(ahead).is_some() {
                continue;
            }
            if self.write_back_from(now) > now {
                return;
            }
            self.counts.ahead += 1;
            self.read_page_into_frame(now, ahead, media, true);
        }
    }

    fn read_from_memory(&self, now: Time, page: u64, media: &mut Media) -> crate::media::ReadTiming {
        media.read(now, page * u64::from(self.page_bytes), self.page_bytes, self.page_bytes)
    }

    /// Gives a page a frame, and writes back the frame's former page if it is dirty. Returns the frame, and the time at
    /// which it is free: later than `now` only if all write-back slots are taken.
    fn admit(&mut self, now: Time, page: u64, media: &mut Media) -> (u32, Time) {
        let admission = self.directory.admit(page);
        let Some(evicted) = admission.evicted else { return (admission.frame, now) };
        let content = self.frame_content(admission.frame);
        if content.dirty == 0 {
            return (admission.frame, now);
        }
        let free_at = self.write_back_from(now);
        if self.write_backs.len() == self.write_back_places {
            self.write_backs.pop_front();
        }
        let written_at = self.write_to_memory(now, evicted, content, media);
        self.write_backs.push_back(written_at);
        (admission.frame, free_at)
    }

    /// Returns the time at which a write-back slot is free, at the earliest `now`.
    fn write_back_from(&mut self, now: Time) -> Time {
        while self.write_backs.front().is_some_and(|written_at| *written_at <= now) {
            self.write_backs.pop_front();
        }
        let oldest = self.write_backs.front().filter(|_| self.write_backs.len() == self.write_back_places);
        oldest.copied().unwrap_or(now)
    }

    /// Writes a page to the memory, for which lines that are not in the cache are read first. Returns the time at which
    /// the memory has accepted the page and the lines have been read.
    fn write_to_memory(&mut self, now: Time, page: u64, content: CacheFrameState, media: &mut Media) -> Time {
        self.counts.write_backs += 1;
        let mut whole_at = content.whole_at;
        if whole_at == Time::NEVER {
            self.counts.merges += 1;
            whole_at = self.read_from_memory(now, page, media).last_at;
        }
        let offset = page * u64::from(self.page_bytes);
        media.write_without_waiting(now, offset, self.page_bytes).buffered_at.max(whole_at)
    }
}

/// Returns the bit mask in which all lines of a page of `page_bytes` bytes are set.
fn whole(page_bytes: u32) -> Lines {
    Lines::MAX >> (Lines::BITS - page_bytes / LINE_BYTES)
}
