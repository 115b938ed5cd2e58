//! Requests of a thread on a drive with zones, as with fio's `zonemode=zbd`: writes fill one zone after the other, each
//! from its first block on, and reads stay within what can be written of a zone.

use crate::number::narrow;
use crate::request::Op;
use crate::workload::check::ZoneJobLimits;

/// Zones of a region that a thread fills in turn: with n threads every n-th zone, so that no two threads share one.
#[derive(Clone, Debug)]
pub(super) struct ThreadZoneTurns {
    space: ZoneJobLimits,
    /// Number of zones in the region, which `threads` threads divide among them.
    zones: u64,
    threads: u64,
    /// Index of the thread's first zone in the region; `zone` is the one that the thread writes now.
    first: u64,
    zone: u64,
    /// Number of bytes that have been written in the current zone.
    written: u64,
    /// True if the current zone must be reset before it is written.
    is_used: bool,
}

impl ThreadZoneTurns {
    /// Makes the zones of thread `thread` of `threads` in a region of `region_bytes` bytes. Panics if there are fewer
    /// zones than threads.
    pub(super) fn new(space: ZoneJobLimits, region_bytes: u64, thread: u32, threads: u32) -> ThreadZoneTurns {
        let (zones, threads) = (region_bytes / space.zone_bytes, u64::from(threads));
        let first = u64::from(thread);
        assert!(first < threads && threads <= zones, "{threads} threads write {zones} zones");
        ThreadZoneTurns { space, zones, threads, first, zone: first, written: 0, is_used: true }
    }

    /// Returns operation, offset in the region and length of the thread's next request: a write of `bytes` bytes, or
    /// the reset of the next zone if the write does not fit the current one.
    pub(super) fn take(&mut self, bytes: u32) -> (Op, u64, u32) {
        let ZoneJobLimits { zone_bytes, writable_bytes, .. } = self.space;
        if self.written + u64::from(bytes) > writable_bytes {
            let next = self.zone + self.threads;
            self.zone = if next < self.zones { next } else { self.first };
            (self.written, self.is_used) = (0, true);
        }
        let start = self.zone * zone_bytes;
        if std::mem::take(&mut self.is_used) {
            // The offset alone selects the zone. The length field of a request holds at most 2^31 bytes, so limit it.
            return (Op::Discard, start, narrow::<u32, u64>(zone_bytes.min(1 << 31)));
        }
        let offset = start + self.written;
        self.written += u64::from(bytes);
        (Op::Write, offset, bytes)
    }
}

/// Writable parts of the zones in a region, joined without the gaps at the zones' ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct JoinedWritableParts {
    space: ZoneJobLimits,
    /// First byte of the region on the drive.
    start: u64,
    /// Number of writable bytes of the drive before the region, and before its end.
    before: [u64; 2],
}

impl JoinedWritableParts {
    /// Makes the writable parts of a region that starts at byte `start` of the drive.
    pub(super) fn new(space: ZoneJobLimits, start: u64, region_bytes: u64) -> JoinedWritableParts {
        let writable_before =
            |at: u64| at / space.zone_bytes * space.writable_bytes + (at % space.zone_bytes).min(space.writable_bytes);
        JoinedWritableParts { space, start, before: [start, start + region_bytes].map(writable_before) }
    }

    /// Returns the length of all writable parts together.
    pub(super) fn bytes(&self) -> u64 {
        self.before[1] - self.before[0]
    }

    /// Returns the offset in the region of `bytes` bytes at `place` of the joined parts. Bytes that would continue in
    /// the next zone end with the writable part of the first one instead.
    pub(super) fn offset(&self, place: u64, bytes: u32) -> u64 {
        let ZoneJobLimits { zone_bytes, writable_bytes, .. } = self.space;
        let (zone, within) = ((self.before[0] + place) / writable_bytes, (self.before[0] + place) % writable_bytes);
        let within = within.min(writable_bytes.saturating_sub(bytes.into()));
        (zone * zone_bytes + within).saturating_sub(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_reads_stay_in_writable_zone_parts() {
        let space =
            ZoneJobLimits { zone_bytes: 16384, writable_bytes: 12288, open_max: 0, active_max: 0, restarts: false };
        let whole = JoinedWritableParts::new(space, 0, 3 * 16384);
        assert_eq!(whole.bytes(), 3 * 12288);
        let places = [0, 8192, 12288, 24576, 32768];
        assert_eq!(places.map(|place| whole.offset(place, 4096)), [0, 8192, 16384, 32768, 40960]);
        // From offset 8,192 of the first zone, 4,096 bytes are writable, and then the second zone follows.
        let part = JoinedWritableParts::new(space, 8192, 16384);
        assert_eq!((part.bytes(), part.offset(0, 4096), part.offset(4096, 4096)), (12288, 0, 8192));
        // 8 KiB from the last 4 KiB of a zone would reach into the gap after it, so the offset moves back.
        assert_eq!(whole.offset(8192, 8192), 4096);
    }

    #[test]
    fn zones_are_reset_and_filled_in_turn_by_disjoint_threads() {
        let space =
            ZoneJobLimits { zone_bytes: 16384, writable_bytes: 8192, open_max: 0, active_max: 0, restarts: false };
        let mut turns = [0, 1].map(|thread| ThreadZoneTurns::new(space, 5 * 16384, thread, 2));
        let mut taken = turns.each_mut().map(|turns| -> Vec<(Op, u64)> {
            (0..9).map(|_| turns.take(4096)).map(|(op, offset, _)| (op, offset / 4096)).collect()
        });
        let written = |zone: u64| [(Op::Discard, zone * 4), (Op::Write, zone * 4), (Op::Write, zone * 4 + 1)];
        assert_eq!(taken[0], [written(0), written(2), written(4)].concat());
        assert_eq!(taken[1].split_off(3), [written(3), written(1)].concat());
    }
}
