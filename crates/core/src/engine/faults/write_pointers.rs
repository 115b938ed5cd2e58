//! Write pointers of zones, which the host reads when a device has been restarted, and follows from then on.
//!
//! Requests that were in flight before a restart name offsets that no longer fit: the device has lost the writes before
//! them, or has executed one of them already. They are appended at the write pointers of their zones, in the order in
//! which they come.

use crate::media::zones::Zones;
use crate::number::wide_index;
use crate::request::{Io, Op};

/// Write pointers of all zones, as the host knows them.
#[derive(Clone, Debug)]
pub(super) struct WritePointers {
    zone_bytes: u64,
    writable_bytes: u64,
    /// Number of bytes written in each zone.
    written: Vec<u64>,
}

impl WritePointers {
    /// Returns the write pointers that the zones of a device report; each zone has `zone_bytes` bytes.
    pub(super) fn of(zones: &Zones, zone_bytes: u64) -> WritePointers {
        let layout = zones.layout();
        let block_bytes = zone_bytes / layout.zone_blocks;
        let written = (0..layout.zones).map(|zone| zones.zone(zone).1 * block_bytes).collect();
        WritePointers { zone_bytes, writable_bytes: layout.capacity_blocks * block_bytes, written }
    }

    /// Returns the offset at which a request is submitted. A write goes to the write pointer of its zone, which moves
    /// on; `None` if the rest of the zone has no room for it.
    pub(super) fn place(&mut self, io: &Io) -> Option<u64> {
        let zone = io.offset / self.zone_bytes;
        let written = &mut self.written[wide_index(zone)];
        match io.op {
            Op::Write if *written + u64::from(io.bytes) > self.writable_bytes => return None,
            Op::Write => {
                let offset = zone * self.zone_bytes + *written;
                *written += u64::from(io.bytes);
                return Some(offset);
            }
            Op::Discard => *written = 0,
            Op::Read | Op::WriteZeroes | Op::Flush => {}
        }
        Some(io.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::zones::ZoneLayout;

    #[test]
    fn writes_go_to_the_pointer_until_the_zone_is_full_or_reset() {
        let layout = ZoneLayout { zones: 2, zone_blocks: 8, capacity_blocks: 6, active_max: 0, open_max: 0 };
        let mut zones = Zones::new(layout);
        zones.write(8, 2).unwrap();
        let mut pointers = WritePointers::of(&zones, 4096);
        let mut place = |op, offset, bytes| pointers.place(&Io { op, offset, bytes });
        assert_eq!(place(Op::Write, 7168, 1024), Some(5120));
        assert_eq!(place(Op::Read, 7168, 1024), Some(7168));
        assert_eq!(place(Op::Write, 7168, 1024), Some(6144));
        assert_eq!(place(Op::Write, 7168, 1024), None, "six blocks are written");
        assert_eq!(place(Op::Discard, 4096, 4096), Some(4096));
        assert_eq!(place(Op::Write, 7168, 1024), Some(4096));
        assert_eq!(place(Op::Write, 512, 512), Some(0));
    }
}
