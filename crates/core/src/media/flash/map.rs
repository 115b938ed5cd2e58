//! Accesses to the mapping table of a flash drive, if the drive's memory does not hold all of it: reads of map pages
//! that are not cached, and programs of changed map pages that have left the cache.

use super::{Flash, OpenLine, units};
use crate::media::translation::FlashUnitLocation;
use crate::number::index;
use crate::time::Time;

impl Flash {
    /// Looks up the locations of the mapping units that the `bytes` from `offset` touch, and queues the reads and
    /// programs of map pages for it. Returns the time at which the locations are known: `at` for a write, which places
    /// its units later.
    #[inline]
    pub(super) fn look_up(&mut self, now: Time, at: Time, offset: u64, bytes: u32, writes: bool) -> Time {
        if !self.translation.has_map_cache() {
            return at;
        }
        let mut known_at = at;
        for (unit, _) in units(&self.layout, offset, bytes) {
            let Some(access) = self.translation.look_up(unit, writes) else { continue };
            if self.is_in_cells(now, access.read) {
                match writes {
                    true => _ = self.read_in_one_go(now, at, &[(self.layout.row(access.read), 1)]),
                    false => known_at = known_at.max(self.read_map_page(now, at, access.read)),
                }
            }
            if let Some(page) = access.written {
                self.write_map_page(now, page);
            }
        }
        known_at
    }

    /// Reads a map page for a host read, before background operations of its die. Returns the time at which the page
    /// has been transferred and decoded.
    fn read_map_page(&mut self, now: Time, at: Time, place: FlashUnitLocation) -> Time {
        let row = self.layout.row(place);
        let planes = match self.costs.independent_planes {
            true => self.layout.planes(place.position, place.position),
            false => super::die::PlaneRange { first: 0, last: index(self.layout.planes) - 1 },
        };
        let length = self.draw_array_read_time(row.page);
        let free_at = self.dies[index(row.die)].read(now, at, planes, length, self.costs.suspension);
        let read_at = self.send_channel_command(now, index(row.die % self.layout.channels), free_at) + length;
        let transfer = self.costs.bus.transfer_time(self.layout.unit_bytes);
        let crossed = self.buses[index(row.die % self.layout.channels)].reserve(now, read_at, transfer) + transfer;
        self.dies[index(row.die)].hold_until(planes, crossed);
        self.activity.buses_busy += transfer;
        self.activity.banks_busy += crossed.since(read_at) + length;
        crossed + self.costs.ecc_decode
    }

    /// Adds a changed map page that has left the cache to the line of map pages, which has space of its own beside the
    /// write buffer. Programs the line if it is then full, and collects garbage if the line is new.
    fn write_map_page(&mut self, now: Time, page: u32) {
        if self.map_line.units == 0 {
            self.collect_garbage(now, 0);
        }
        let place = self.translation.write_map_page(page);
        if self.map_line.units == 0 {
            (self.map_line.block, self.map_line.first) = (place.block, place.position);
        }
        self.map_line.units += 1;
        if self.map_line.units == self.layout.line_units() {
            let OpenLine { block, first, .. } = std::mem::take(&mut self.map_line);
            let line = first / self.layout.line_units();
            let mut until = now;
            for channel in 0..self.layout.channels {
                until = until.max(self.program(now, now, block, self.layout.die(block, line, channel)));
            }
            self.keep_in_buffer_until(now, block, line, until);
        }
    }
}
