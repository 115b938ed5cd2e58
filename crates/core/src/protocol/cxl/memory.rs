//! Memory of a CXL device as its controller uses it: media behind a buffer of units, or behind a DRAM cache.

use super::fetched::LineInstants;
use super::{Buffer, CxlPageCache};
use crate::drive::Drive;
use crate::media::Media;
use crate::time::Time;

/// Buffer of units or DRAM cache of pages between the device's controller and its media.
#[derive(Clone, Debug)]
pub enum CxlDeviceMemory {
    /// Buffer of units that have been read, or that stores have not filled yet.
    Buffer(Box<Buffer>),
    /// DRAM cache of pages, if the drive file gives the device one.
    Cache(Box<CxlPageCache>),
}

impl CxlDeviceMemory {
    /// Returns the idle buffer or cache of a drive, with the content that it has at the start of a run.
    pub fn new(drive: &Drive) -> CxlDeviceMemory {
        match drive.cxl.has_cache() {
            true => CxlDeviceMemory::Cache(Box::new(CxlPageCache::new(&drive.cxl, drive.media.capacity_bytes()))),
            false => CxlDeviceMemory::Buffer(Box::new(Buffer::new(&drive.cxl))),
        }
    }

    /// Loads the cache line at byte `offset`, requested at `now`. Returns the instants at which it reaches each stage
    /// of the device. Calls come in the order of `now`.
    pub fn read(&mut self, now: Time, offset: u64, media: &mut Media) -> LineInstants {
        match self {
            CxlDeviceMemory::Buffer(buffer) => buffer.read(now, offset, media),
            CxlDeviceMemory::Cache(cache) => cache.read(now, offset, media),
        }
    }

    /// Stores the cache line at byte `offset`, which arrives at `now`. Returns the time at which the line is in the
    /// device's buffer or cache.
    pub fn write(&mut self, now: Time, offset: u64, media: &mut Media) -> Time {
        match self {
            CxlDeviceMemory::Buffer(buffer) => buffer.write(now, offset, media),
            CxlDeviceMemory::Cache(cache) => cache.write(now, offset, media),
        }
    }

    /// Writes all buffered or cached lines among the `bytes` bytes from `offset` to the memory. Returns the time at
    /// which they are durable.
    pub fn flush(&mut self, now: Time, offset: u64, bytes: u32, media: &mut Media) -> Time {
        match self {
            CxlDeviceMemory::Buffer(buffer) => buffer.flush(now, offset, bytes, media),
            CxlDeviceMemory::Cache(cache) => cache.flush(now, offset, bytes, media),
        }
    }

    /// Returns the counters of the buffer or cache as pairs of name and count.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        match self {
            CxlDeviceMemory::Buffer(buffer) => buffer.counts.named().to_vec(),
            CxlDeviceMemory::Cache(cache) => cache.counters(),
        }
    }
}
