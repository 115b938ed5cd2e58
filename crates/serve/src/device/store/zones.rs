//! Zones of a store whose blocks must be written in order: their states, and the saving of these in the store.
//!
//! Like a drive with a volatile write cache, the store saves zone states with the data at a flush only. A flush saves
//! the write pointers from before the data went to the disk, so that it never promises blocks that may be lost. A store
//! that is opened begins as after a power cut: open zones are closed, and blocks beyond a write pointer read as zeros.

use std::io;
use std::mem;
use std::sync::{Mutex, MutexGuard};

use phaselink_core::media::zones::{ZoneLayout, ZoneState, Zones};
use phaselink_core::number::{index, length};

use crate::device::tally::locked;

/// Length in bytes of the head of a saved record of zone states: number of zones, blocks from one zone's start to the
/// next, and blocks of a zone that can be written.
const HEAD_BYTES: usize = 24;
/// Number of low bits that hold the state of a zone in its entry of a saved record. The number of written blocks is
/// above them.
const STATE_BITS: u32 = 4;

/// Zones of a store, shared by all threads.
#[derive(Debug)]
pub struct StoreZones {
    block_shift: u32,
    table: Mutex<ZoneTableWithResets>,
    /// Record of zone states that was saved last. It stays locked for as long as a flush takes, since an older record
    /// must not follow a newer one.
    saved: Mutex<Vec<u8>>,
}

/// Zones, with the resets since the flush in progress began.
#[derive(Debug)]
struct ZoneTableWithResets {
    zones: Zones,
    /// True while a flush is in progress.
    is_flushing: bool,
    /// Numbers of the zones that have been emptied since the flush in progress began.
    emptied: Vec<u32>,
}

impl StoreZones {
    /// Returns the zones whose states the store saved in `record`, in blocks of `block_bytes` bytes. Without a record,
    /// all zones are empty.
    ///
    /// # Errors
    ///
    /// If the saved record of zone states is of other zones, or damaged.
    pub(super) fn new(layout: ZoneLayout, block_bytes: u32, record: Option<Vec<u8>>) -> io::Result<StoreZones> {
        let mut zones = Zones::new(layout);
        if let Some(record) = &record {
            restore(&mut zones, record).map_err(|found| io::Error::new(io::ErrorKind::InvalidData, found))?;
        }
        zones.lose_power();
        let table = ZoneTableWithResets { zones, is_flushing: false, emptied: Vec::new() };
        let saved = Mutex::new(record.unwrap_or_default());
        Ok(StoreZones { block_shift: block_bytes.trailing_zeros(), table: Mutex::new(table), saved })
    }

    /// Returns the binary logarithm of the block size in bytes.
    #[inline]
    pub fn block_shift(&self) -> u32 {
        self.block_shift
    }

    /// Calls `change` with the locked zones, to read or change their states.
    #[inline]
    pub fn with<T>(&self, change: impl FnOnce(&mut Zones) -> T) -> T {
        change(&mut self.locked().zones)
    }

    /// Calls `change` to empty zones, whose numbers it returns with its result. Clears the bytes of these zones by
    /// `clear` before other threads can write there.
    ///
    /// # Errors
    ///
    /// Errors of `change` and `clear`.
    pub fn empty_zones_after_clearing<T, E>(
        &self,
        change: impl FnOnce(&mut Zones) -> Result<(T, Vec<u32>), E>,
        mut clear: impl FnMut(u64, u64) -> Result<(), E>,
    ) -> Result<T, E> {
        let mut table = self.locked();
        let (result, emptied) = change(&mut table.zones)?;
        let ranges = self.zone_remainder_ranges(&table.zones, emptied.iter().map(|zone| (*zone, 0)));
        if table.is_flushing {
            table.emptied.extend(emptied);
        }
        ranges.into_iter().try_for_each(|(offset, bytes)| clear(offset, bytes))?;
        Ok(result)
    }

    /// Makes all zones empty, after the caller has cleared their bytes.
    pub fn mark_all_zones_empty(&self) {
        let mut table = self.locked();
        let layout = *table.zones.layout();
        table.zones = Zones::new(layout);
        if table.is_flushing {
            table.emptied = (0..layout.zones).collect();
        }
    }

    /// Returns offset and length in bytes of the ranges beyond the write pointers of all zones.
    pub(super) fn unwritten(&self) -> Vec<(u64, u64)> {
        let table = self.locked();
        let zones = 0..table.zones.layout().zones;
        self.zone_remainder_ranges(&table.zones, zones.map(|zone| (zone, table.zones.zone(zone).1)))
    }

    /// Returns offset and length in bytes of the ends of zones, each from a block of the zone on. Ranges that touch are
    /// joined.
    fn zone_remainder_ranges(&self, zones: &Zones, parts: impl Iterator<Item = (u32, u64)>) -> Vec<(u64, u64)> {
        let layout = zones.layout();
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (zone, first) in parts {
            let [start, end] =
                [layout.start(zone) + first, layout.start(zone + 1)].map(|block| block << self.block_shift);
            match runs.last_mut() {
                Some((offset, bytes)) if *offset + *bytes == start => *bytes = end - *offset,
                _ => runs.push((start, end - start)),
            }
        }
        runs
    }

    /// Flushes the store by `flush`, and saves the zone states as they were when the flush began.
    ///
    /// # Errors
    ///
    /// Errors of `flush` and `save`.
    pub(super) fn flush(
        &self,
        flush: impl FnOnce() -> io::Result<()>,
        save: impl FnOnce(Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut saved = locked(&self.saved);
        let mut record = {
            let mut table = self.locked();
            table.is_flushing = true;
            encode_zone_states(&table.zones)
        };
        let flushed = flush();
        let emptied = {
            let mut table = self.locked();
            table.is_flushing = false;
            mem::take(&mut table.emptied)
        };
        flushed?;
        emptied.into_iter().for_each(|zone| encode_zone_record_entry(&mut record, zone, ZoneState::Empty, 0));
        if *saved != record {
            save(record.clone())?;
            *saved = record;
        }
        Ok(())
    }

    #[inline]
    fn locked(&self) -> MutexGuard<'_, ZoneTableWithResets> {
        locked(&self.table)
    }
}

fn head(layout: &ZoneLayout) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    let numbers = [layout.zones.into(), layout.zone_blocks, layout.capacity_blocks];
    for (place, number) in head.as_chunks_mut().0.iter_mut().zip(numbers) {
        *place = u64::to_le_bytes(number);
    }
    head
}

fn encode_zone_states(zones: &Zones) -> Vec<u8> {
    let layout = zones.layout();
    let mut record = head(layout).to_vec();
    record.resize(HEAD_BYTES + index(layout.zones) * 8, 0);
    for zone in 0..layout.zones {
        let (state, written) = zones.zone(zone);
        encode_zone_record_entry(&mut record, zone, state, written);
    }
    record
}

fn encode_zone_record_entry(record: &mut [u8], zone: u32, state: ZoneState, written: u64) {
    let number = length(ZoneState::ALL.iter().position(|other| *other == state).unwrap_or(0));
    let at = HEAD_BYTES + index(zone) * 8;
    record[at..at + 8].copy_from_slice(&(written << STATE_BITS | number).to_le_bytes());
}

/// Restores the states of zones from the record that the store saved.
fn restore(zones: &mut Zones, record: &[u8]) -> Result<(), String> {
    let layout = *zones.layout();
    if record.get(..HEAD_BYTES) != Some(&head(&layout)[..]) {
        let numbers: Vec<u64> = record.as_chunks().0.iter().take(3).map(|number| u64::from_le_bytes(*number)).collect();
        let kept = match numbers[..] {
            [zones, blocks, capacity] => {
                format!("{zones} zones of {blocks} blocks, of which {capacity} can be written")
            }
            _ => String::from("a damaged record of its zones"),
        };
        return Err(format!("the store holds {kept}"));
    }
    let states = record[HEAD_BYTES..].as_chunks().0.iter().map(|number| u64::from_le_bytes(*number));
    let is_whole = record.len() == HEAD_BYTES + index(layout.zones) * 8;
    let is_fine = (0..).zip(states).all(|(zone, number)| {
        let state = ZoneState::ALL.get((number & ((1 << STATE_BITS) - 1)) as usize);
        state.is_some_and(|state| zones.restore(zone, *state, number >> STATE_BITS))
    });
    let damaged = "the store holds zones in states that these cannot have: more are active than zones.active_max, or the record is damaged";
    if is_whole && is_fine { Ok(()) } else { Err(String::from(damaged)) }
}

#[cfg(test)]
mod tests {
    use phaselink_core::media::zones::ZoneAction;

    use super::*;

    const LAYOUT: ZoneLayout = ZoneLayout { zones: 3, zone_blocks: 8, capacity_blocks: 8, active_max: 2, open_max: 2 };

    fn reopen_zones_from_record(record: &[u8]) -> StoreZones {
        StoreZones::new(LAYOUT, 512, Some(record.to_vec())).unwrap()
    }

    fn states(zones: &StoreZones) -> [(ZoneState, u64); 3] {
        zones.with(|zones| [0, 1, 2].map(|zone| zones.zone(zone)))
    }

    fn flushed(zones: &StoreZones, meanwhile: impl FnOnce()) -> Vec<u8> {
        let mut record = Vec::new();
        let flush = || {
            meanwhile();
            Ok(())
        };
        zones
            .flush(flush, |saved| {
                record = saved;
                Ok(())
            })
            .unwrap();
        record
    }

    #[test]
    fn flush_record_has_the_zone_writes_made_before_the_flush_began() {
        let zones = StoreZones::new(LAYOUT, 512, None).unwrap();
        zones.with(|zones| zones.write(0, 5).and_then(|()| zones.write(8, 3))).unwrap();
        let record = flushed(&zones, || zones.with(|zones| zones.write(5, 2)).unwrap());
        let after = reopen_zones_from_record(&record);
        assert_eq!(states(&after), [(ZoneState::Closed, 5), (ZoneState::Closed, 3), (ZoneState::Empty, 0)]);
        assert_eq!(after.unwritten(), [(5 * 512, 3 * 512), (11 * 512, 13 * 512)]);
        assert_eq!(flushed(&zones, || ()).len(), HEAD_BYTES + 24);
        assert!(flushed(&zones, || ()).is_empty(), "nothing has changed");
    }

    #[test]
    fn zone_reset_during_a_flush_is_empty_in_the_flush_record() {
        let zones = StoreZones::new(LAYOUT, 512, None).unwrap();
        zones.with(|zones| zones.write(8, 8)).unwrap();
        let mut cleared = Vec::new();
        let record = flushed(&zones, || {
            let reset = |zones: &mut Zones| zones.act(ZoneAction::Reset, 8).map(|_| ((), vec![1]));
            let clear = |offset, bytes| {
                cleared.push((offset, bytes));
                Ok(())
            };
            zones.empty_zones_after_clearing(reset, clear).unwrap();
            zones.with(|zones| zones.write(8, 1)).unwrap();
        });
        assert_eq!(
            (states(&reopen_zones_from_record(&record))[1], cleared),
            ((ZoneState::Empty, 0), vec![(4096, 4096)])
        );
    }

    #[test]
    fn zone_record_of_another_layout_or_with_too_many_active_zones_is_refused() {
        let zones = StoreZones::new(ZoneLayout { active_max: 0, open_max: 0, ..LAYOUT }, 512, None).unwrap();
        zones.with(|zones| [0, 8, 16].into_iter().for_each(|start| zones.write(start, 1).unwrap()));
        let record = flushed(&zones, || ());
        let refused =
            |layout, record: &[u8]| StoreZones::new(layout, 512, Some(record.to_vec())).unwrap_err().to_string();
        assert!(refused(LAYOUT, &record).contains("zones.active_max"));
        let other = refused(ZoneLayout { zones: 6, zone_blocks: 4, capacity_blocks: 4, ..LAYOUT }, &record);
        assert_eq!(other, "the store holds 3 zones of 8 blocks, of which 8 can be written");
        assert!(refused(LAYOUT, &record[..30]).contains("damaged"));
        assert!(refused(LAYOUT, &[]).contains("damaged"));
    }
}
