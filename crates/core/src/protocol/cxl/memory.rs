//! Memory of the device as its controller sees it: behind a buffer of units, or behind a DRAM cache.

use super::fetched::Fetched;
use super::{Buffer, PageCache};
use crate::drive::Drive;
use crate::media::Media;
use crate::time::Time;

/// Part between the controller and the media: a buffer of units, or a DRAM cache of pages.
#[derive(Clone, Debug)]
pub enum DeviceMemory {
    /// Buffer of units.
    Buffer(Box<Buffer>),
    /// DRAM cache of pages.
    Cache(Box<PageCache>),
}

impl DeviceMemory {
    /// Returns the memory of a description, with nothing in flight.
    pub fn new(drive: &Drive) -> DeviceMemory {
        match drive.cxl.has_cache() {
            true => DeviceMemory::Cache(Box::new(PageCache::new(&drive.cxl, drive.media.capacity_bytes()))),
            false => DeviceMemory::Buffer(Box::new(Buffer::new(&drive.cxl))),
        }
    }

    /// Loads the line at `offset`, requested at `now`. Calls come in the order of `now`.
    pub fn read(&mut self, now: Time, offset: u64, media: &mut Media) -> Fetched {
        match self {
            DeviceMemory::Buffer(buffer) => buffer.read(now, offset, media),
            DeviceMemory::Cache(cache) => cache.read(now, offset, media),
        }
    }

    /// Stores the line at `offset`, which arrives at `now`. Returns the time at which it is in the buffer or the cache.
    pub fn write(&mut self, now: Time, offset: u64, media: &mut Media) -> Time {
        match self {
            DeviceMemory::Buffer(buffer) => buffer.write(now, offset, media),
            DeviceMemory::Cache(cache) => cache.write(now, offset, media),
        }
    }

    /// Writes the lines of `bytes` from `offset` on to the memory. Returns the time at which they are durable.
    pub fn flush(&mut self, now: Time, offset: u64, bytes: u32, media: &mut Media) -> Time {
        match self {
            DeviceMemory::Buffer(buffer) => buffer.flush(now, offset, bytes, media),
            DeviceMemory::Cache(cache) => cache.flush(now, offset, bytes, media),
        }
    }

    /// Returns the counters with their names.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        match self {
            DeviceMemory::Buffer(buffer) => buffer.counts.named().to_vec(),
            DeviceMemory::Cache(cache) => cache.counters(),
        }
    }
}
