//! Checker of a run with data: the versions of each block that a read may return.
//!
//! Every write of a block gives it a new version, counted in the order in which the driver submits the writes, and
//! fills its buffer with bytes that follow from block and version alone ([`generate`]). A read may return any version
//! from the *floor* at its submission up to the latest one submitted when it completes. Writes of a block that are in
//! flight together may reach the device in any order. Once all of such a group are complete, the first of them is the
//! floor, because everything older has been overwritten. A failed write may have taken effect or not, in whole or in
//! part: a group of failed writes alone leaves the floor as it was.
//!
//! Versions are checked packet by packet: a read that races with a write may get some packets of a block from before
//! the write and some from after it, because nothing in the protocols orders the two.
//!
//! A power cut loses what the drive has not promised to keep. If the drive promises to keep acknowledged writes, the
//! floor stays, and all later versions may be there or not. Otherwise the floor falls to the version that was
//! acknowledged before the last flush, or that was found after the last power cut. Until the block is written again,
//! all bytes of an atomic unit have one version, and the first read settles which one: that version is in the cells,
//! and later versions are lost.

use std::collections::{BTreeMap, BTreeSet};

use crate::number::{index, length, wide_index};
use crate::random::mix;
use crate::request::Io;
use crate::request::RequestId;

/// Size in bytes of a logical block, which is the unit that the checker gives versions to.
pub const BLOCK_BYTES: u64 = 512;

/// State of one block in the checker: versions that reads may return, and writes in flight.
#[derive(Clone, Copy, Debug, Default)]
struct BlockVersions {
    latest: u32,
    floor: u32,
    /// Number of writes to the block that are in flight.
    writes: u32,
    group_first: u32,
    /// True if any write of the block in the present group is known to have reached the device.
    is_written: bool,
    /// Version of the block that was flushed, or was found after a power cut; no power cut can lose it.
    kept: u32,
    /// Latest version of the block at the last power cut, until it is known which version survived; then 0.
    cut_at: u32,
    /// Range of the block's versions that a power cut has lost: the first one, and the one after the last.
    lost: (u32, u32),
}

/// Part of a block that lies in one packet: its range in the request's buffer, and its block.
#[derive(Clone, Copy, Debug)]
struct BlockPart {
    start: usize,
    end: usize,
    block: u64,
    /// Offset of the part's first byte within the block.
    within: usize,
}

/// Checker of read data: the versions of all blocks, and which of them reads in flight may return.
#[derive(Clone, Debug)]
pub struct ReadChecker {
    seed: u64,
    /// Payload of one packet in bytes: reads and writes that race mix old and new data by this unit.
    packet_bytes: usize,
    /// Size in bytes of the unit that a power cut leaves entirely old or entirely new.
    atomic_bytes: usize,
    blocks: BTreeMap<u64, BlockVersions>,
    /// Oldest version of each block that a read in flight may return, by request.
    floors: BTreeMap<RequestId, Vec<u32>>,
    /// Oldest version of each block that a read could return when a flush in flight was submitted, by request.
    flushes: BTreeMap<RequestId, Vec<(u64, u32)>>,
    /// Pairs of block and version whose bytes are zeros, because a write-zeroes request made the version.
    zeroed: BTreeSet<(u64, u32)>,
}

impl ReadChecker {
    /// Makes a checker for a fresh device, where every block has version 0, which is zeros.
    pub fn new(seed: u64, packet_bytes: u32) -> ReadChecker {
        let packet_bytes = index(packet_bytes);
        let atomic_bytes = wide_index(BLOCK_BYTES);
        let (blocks, floors, flushes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        ReadChecker { seed, packet_bytes, atomic_bytes, blocks, floors, flushes, zeroed: BTreeSet::new() }
    }

    /// Prepares for power cuts that leave units of `atomic_bytes` whole. Units larger than a block are checked block by
    /// block, units smaller than a packet one by one.
    pub fn follow_power(&mut self, atomic_bytes: u32) {
        self.atomic_bytes = (atomic_bytes as usize).min(wide_index(BLOCK_BYTES));
        self.packet_bytes = self.packet_bytes.min(self.atomic_bytes);
    }

    /// Handles the submission of a write: gives its blocks their next versions, and fills its buffer with the bytes of
    /// these.
    pub fn on_write(&mut self, io: &Io, buffer: &mut [u8]) {
        self.begin_write(io);
        for piece in split_at_blocks_and_packets(io, self.packet_bytes) {
            let version = self.block(piece.block).latest;
            self.fill(piece.block, version, piece.within, &mut buffer[piece.start..piece.end]);
        }
    }

    /// Handles the submission of a write of zeros to whole blocks, which has no buffer: their next versions are zeros.
    pub fn on_write_zeroes(&mut self, io: &Io) {
        self.begin_write(io);
        for number in blocks(io) {
            self.zeroed.insert((number, self.block(number).latest));
        }
    }

    /// Gives each block of a write that is submitted its next version, and counts the write as in flight.
    fn begin_write(&mut self, io: &Io) {
        for number in blocks(io) {
            let block = self.blocks.entry(number).or_default();
            block.latest += 1;
            if block.writes == 0 {
                block.group_first = block.latest;
                block.is_written = false;
            }
            block.writes += 1;
        }
    }

    /// Fills `into` with the bytes of a block's version, from byte `within` of the block on.
    fn fill(&self, block: u64, version: u32, within: usize, into: &mut [u8]) {
        let version = if self.zeroed.contains(&(block, version)) { 0 } else { version };
        generate(self.seed, block, version, within, into);
    }

    /// Handles the completion of a write, which has taken effect.
    pub fn on_write_completed(&mut self, io: &Io) {
        self.end_write_in_flight(io, true);
    }

    /// Handles the failure of a write, which may have taken effect or not.
    pub fn on_write_failed(&mut self, io: &Io) {
        self.end_write_in_flight(io, false);
    }

    fn end_write_in_flight(&mut self, io: &Io, is_written: bool) {
        for number in blocks(io) {
            let block = self.blocks.get_mut(&number).expect("a write under way has a version");
            block.writes -= 1;
            block.is_written |= is_written;
            block.end_write_group();
        }
    }

    /// Handles a reset of the device. Writes in flight may have taken effect or not, and reads in flight end without
    /// data; both may be submitted again, as new writes and reads.
    pub fn on_reset(&mut self) {
        self.floors.clear();
        self.flushes.clear();
        for block in self.blocks.values_mut().filter(|block| block.writes > 0) {
            block.writes = 0;
            block.end_write_group();
        }
    }

    /// Handles a power cut; `keeps_acknowledged` is true if the drive has promised that all acknowledged writes
    /// survive.
    pub fn on_power_cut(&mut self, keeps_acknowledged: bool) {
        self.on_reset();
        for block in self.blocks.values_mut() {
            block.floor = if keeps_acknowledged { block.floor } else { block.kept };
            block.cut_at = block.latest;
        }
    }

    /// Handles the submission of a flush: notes the oldest version of each block that a read may return now.
    pub fn on_flush(&mut self, request: RequestId) {
        let floors = self.blocks.iter().map(|(number, block)| (*number, block.floor));
        self.flushes.insert(request, floors.collect());
    }

    /// Handles the completion of a flush: writes that were acknowledged when it was submitted survive a power cut.
    pub fn on_flushed(&mut self, request: RequestId) {
        for (number, floor) in self.flushes.remove(&request).unwrap_or_default() {
            let block = self.blocks.entry(number).or_default();
            block.kept = block.kept.max(floor);
        }
    }

    /// Handles the failure of a read, whose data is not checked.
    pub fn on_read_failed(&mut self, request: RequestId) {
        self.floors.remove(&request);
    }

    /// Handles the submission of a read: notes the oldest version of each block that it may return. A read that is
    /// submitted again keeps the versions noted first.
    pub fn on_read(&mut self, request: RequestId, io: &Io) {
        if !self.floors.contains_key(&request) {
            let floors = blocks(io).map(|number| self.block(number).floor).collect();
            self.floors.insert(request, floors);
        }
    }

    /// Moves the checker's state of a read or flush in flight to another request index.
    pub fn rename(&mut self, from: RequestId, to: RequestId) {
        if let Some(floors) = self.floors.remove(&from) {
            self.floors.insert(to, floors);
        }
        if let Some(floors) = self.flushes.remove(&from) {
            self.flushes.insert(to, floors);
        }
    }

    /// Handles the completion of a read, and checks that its data is of versions that it may return.
    ///
    /// # Errors
    /// Describes the first byte that the device cannot have held.
    pub fn on_read_complete(&mut self, request: RequestId, io: &Io, found: &[u8]) -> Result<(), String> {
        let floors = self.floors.remove(&request).expect("a read under way has floors");
        for number in blocks(io) {
            if self.block(number).is_unknown_after_cut() {
                self.settle(number, io, found)?;
            }
        }
        let first = io.offset / BLOCK_BYTES;
        let mut expected = [0; wide_index(BLOCK_BYTES)];
        for piece in split_at_blocks_and_packets(io, self.packet_bytes) {
            let (found, expected) = (&found[piece.start..piece.end], &mut expected[..piece.end - piece.start]);
            let block = self.block(piece.block);
            let (floor, latest) = (floors[wide_index(piece.block - first)], block.latest);
            let mut allowed = (floor..=latest).rev().filter(|version| !block.was_lost_in_cut(*version));
            let is_allowed = allowed.any(|version| {
                self.fill(piece.block, version, piece.within, expected);
                found == expected
            });
            if !is_allowed {
                // The loop ended at the oldest allowed version, so `expected` contains that version.
                let byte = found.iter().zip(&*expected).position(|(a, b)| a != b).unwrap_or(0);
                return Err(format!(
                    "byte {} is {:#04x}, and {:#04x} in version {floor}; no version up to {latest} of block {} fits",
                    io.offset + length(piece.start + byte),
                    found[byte],
                    expected[byte],
                    piece.block,
                ));
            }
        }
        Ok(())
    }

    /// Checks the first read of a block after a power cut, if the block has not been written since. Each atomic unit
    /// must have one version. A read of the whole block fixes the surviving versions; later ones are lost.
    ///
    /// # Errors
    /// Describes the first unit with a version that is not allowed.
    fn settle(&mut self, number: u64, io: &Io, found: &[u8]) -> Result<(), String> {
        let start = number * BLOCK_BYTES;
        let (from, to) = (start.max(io.offset), (start + BLOCK_BYTES).min(io.offset + u64::from(io.bytes)));
        let found = &found[wide_index(from - io.offset)..wide_index(to - io.offset)];
        let BlockVersions { floor, latest, .. } = self.block(number);
        let (mut oldest, mut newest) = (latest, floor);
        let mut rest = found;
        while !rest.is_empty() {
            let at = to - length(rest.len());
            let within = wide_index(at - start);
            let (unit, behind) = rest.split_at(rest.len().min(self.atomic_bytes - within % self.atomic_bytes));
            let version = self.matching_version(number, within, unit).ok_or_else(|| {
                let last = at + length(unit.len()) - 1;
                format!(
                    "bytes {at} to {last} are of no one version from {floor} to {latest} that a power cut may leave"
                )
            })?;
            (oldest, newest) = (oldest.min(version), newest.max(version));
            rest = behind;
        }
        // Only a read of the whole block tells which versions have survived the power cut.
        if let Some(block) = self.blocks.get_mut(&number).filter(|_| length(found.len()) == BLOCK_BYTES) {
            (block.floor, block.kept) = (oldest, oldest);
            (block.lost, block.cut_at) = ((newest + 1, latest + 1), 0);
        }
        Ok(())
    }

    /// Returns the latest allowed version of a block whose bytes from `within` on equal `found`; `None` if no version
    /// fits.
    fn matching_version(&self, number: u64, within: usize, found: &[u8]) -> Option<u32> {
        let block = self.block(number);
        let mut expected = [0; wide_index(BLOCK_BYTES)];
        let expected = &mut expected[..found.len()];
        let mut allowed = (block.floor..=block.latest).rev().filter(|version| !block.was_lost_in_cut(*version));
        allowed.find(|version| {
            self.fill(number, *version, within, expected);
            found == expected
        })
    }

    fn block(&self, number: u64) -> BlockVersions {
        self.blocks.get(&number).copied().unwrap_or_default()
    }
}

impl BlockVersions {
    /// Ends the group of the block's writes in flight if none is left. If one took effect, versions before the group
    /// cannot be read any more.
    fn end_write_group(&mut self) {
        if self.writes == 0 && self.is_written {
            self.floor = self.group_first;
        }
    }

    /// True if it is not known which version has survived the last power cut, and the block has not been written since.
    fn is_unknown_after_cut(&self) -> bool {
        self.cut_at > 0 && self.cut_at == self.latest
    }

    /// True if a power cut has lost this version of the block for good.
    fn was_lost_in_cut(&self, version: u32) -> bool {
        (self.lost.0..self.lost.1).contains(&version)
    }
}

/// Fills `into` with the bytes of a version of a block, from byte `from` of the block on; version 0 is zeros.
pub fn generate(seed: u64, block: u64, version: u32, from: usize, into: &mut [u8]) {
    if version == 0 {
        return into.fill(0);
    }
    let key = mix(mix(seed ^ u64::from(version)) ^ block);
    let mut word = [0; 8];
    for (place, byte) in (from..).zip(into) {
        if place % 8 == 0 || place == from {
            word = mix(key.wrapping_add(length(place / 8))).to_le_bytes();
        }
        *byte = word[place % 8];
    }
}

/// Returns the numbers of the blocks that a request covers.
fn blocks(io: &Io) -> impl Iterator<Item = u64> + use<> {
    io.offset / BLOCK_BYTES..(io.offset + u64::from(io.bytes)).div_ceil(BLOCK_BYTES)
}

/// Splits a request at the ends of blocks and of packets, and returns the parts in order.
fn split_at_blocks_and_packets(io: &Io, packet_bytes: usize) -> impl Iterator<Item = BlockPart> + use<> {
    let (offset, bytes) = (io.offset, index(io.bytes));
    let mut start = 0;
    std::iter::from_fn(move || {
        let at = offset + length(start);
        let within = (at % BLOCK_BYTES) as usize;
        let end = bytes.min(start + wide_index(BLOCK_BYTES) - within).min((start / packet_bytes + 1) * packet_bytes);
        let piece = BlockPart { start, end, block: at / BLOCK_BYTES, within };
        start = end;
        (piece.start < bytes).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;

    const READ: Io = Io { op: Op::Read, offset: 1024, bytes: 1024 };
    const WRITE: Io = Io { op: Op::Write, ..READ };

    fn checker() -> ReadChecker {
        ReadChecker::new(1, 128)
    }

    fn write(checker: &mut ReadChecker) -> Vec<u8> {
        let mut buffer = vec![0; 1024];
        checker.on_write(&WRITE, &mut buffer);
        buffer
    }

    fn read(checker: &mut ReadChecker, found: &[u8]) -> bool {
        checker.on_read(7, &READ);
        checker.on_read_complete(7, &READ, found).is_ok()
    }

    #[test]
    fn fresh_device_reads_only_zeros() {
        let mut found = [0; 1024];
        assert!(read(&mut checker(), &found));
        found[700] = 1;
        let mut checker = checker();
        checker.on_read(7, &READ);
        let problem = checker.on_read_complete(7, &READ, &found).unwrap_err();
        assert_eq!(problem, "byte 1724 is 0x01, and 0x00 in version 0; no version up to 0 of block 3 fits");
    }

    #[test]
    fn read_may_return_old_data_until_the_write_completes() {
        let mut checker = checker();
        let new = write(&mut checker);
        assert!(read(&mut checker, &[0; 1024]));
        assert!(read(&mut checker, &new));
        checker.on_write_completed(&WRITE);
        assert!(read(&mut checker, &new));
        assert!(!read(&mut checker, &[0; 1024]));
    }

    #[test]
    fn read_submitted_before_a_write_completes_may_see_old_data() {
        let mut checker = checker();
        write(&mut checker);
        checker.on_read(1, &READ);
        checker.on_write_completed(&WRITE);
        checker.on_read(1, &READ);
        assert!(checker.on_read_complete(1, &READ, &[0; 1024]).is_ok());
    }

    #[test]
    fn concurrent_writes_may_land_in_any_order() {
        let mut checker = checker();
        let [first, second] = [write(&mut checker), write(&mut checker)];
        checker.on_write_completed(&WRITE);
        assert!(read(&mut checker, &[0; 1024]), "the other write may have been the only one to reach the device late");
        checker.on_write_completed(&WRITE);
        assert!(read(&mut checker, &first) && read(&mut checker, &second));
        assert!(!read(&mut checker, &[0; 1024]));
        let third = write(&mut checker);
        checker.on_write_completed(&WRITE);
        assert!(read(&mut checker, &third) && !read(&mut checker, &second));
    }

    #[test]
    fn read_after_a_failed_write_may_see_old_or_new_data() {
        let mut checker = checker();
        let first = write(&mut checker);
        checker.on_write_completed(&WRITE);
        let failed = write(&mut checker);
        checker.on_write_failed(&WRITE);
        assert!(read(&mut checker, &first) && read(&mut checker, &failed));
        let [other, together] = [write(&mut checker), write(&mut checker)];
        checker.on_write_failed(&WRITE);
        checker.on_write_completed(&WRITE);
        assert!(read(&mut checker, &other) && read(&mut checker, &together));
        assert!(!read(&mut checker, &first) && !read(&mut checker, &failed), "one of the two has covered them");
    }

    /// Returns a checker after a power cut, whose block has complete versions 1 to 3 and version 4 in flight, and these
    /// versions.
    fn checker_after_power_cut(keeps_acknowledged: bool) -> (ReadChecker, [Vec<u8>; 5]) {
        let mut checker = checker();
        let versions = [(); 3].map(|()| {
            let buffer = write(&mut checker);
            checker.on_write_completed(&WRITE);
            buffer
        });
        let under_way = write(&mut checker);
        checker.on_power_cut(keeps_acknowledged);
        let [one, two, three] = versions;
        (checker, [vec![0; 1024], one, two, three, under_way])
    }

    #[test]
    fn acknowledged_write_survives_a_cut_if_the_drive_guarantees_it() {
        for (keeps, first) in [(true, 3), (false, 0)] {
            let (checker, versions) = checker_after_power_cut(keeps);
            let found = versions.each_ref().map(|version| read(&mut checker.clone(), version));
            assert_eq!(found, std::array::from_fn(|version| version >= first), "{keeps}");
        }
    }

    #[test]
    fn only_flushed_writes_must_survive_a_power_cut() {
        let mut checker = checker();
        let mut acknowledged = || {
            let buffer = write(&mut checker);
            checker.on_write_completed(&WRITE);
            buffer
        };
        let [first, second] = [acknowledged(), acknowledged()];
        checker.on_flush(1);
        let third = write(&mut checker);
        checker.on_write_completed(&WRITE);
        let mut cut_before = checker.clone();
        cut_before.on_power_cut(false);
        assert!(read(&mut cut_before, &first), "a flush that has not ended has promised nothing");
        checker.on_flushed(1);
        checker.on_power_cut(false);
        assert!(!read(&mut checker.clone(), &first));
        assert!(read(&mut checker.clone(), &second) && read(&mut checker, &third));
    }

    #[test]
    fn atomic_unit_has_one_version_after_a_power_cut() {
        for (atomic_bytes, parts, is_right) in
            [(512, 512, true), (128, 512, true), (128, 128, true), (512, 128, false), (64, 64, true), (128, 64, false)]
        {
            let (mut checker, versions) = checker_after_power_cut(false);
            checker.follow_power(atomic_bytes);
            let mut found = versions[3].clone();
            found[parts..2 * parts].copy_from_slice(&versions[2][parts..2 * parts]);
            assert_eq!(read(&mut checker, &found), is_right, "{atomic_bytes} {parts}");
        }
        let (mut checker, versions) = checker_after_power_cut(false);
        checker.on_read(7, &READ);
        let mut found = versions[2].clone();
        found[256..512].fill(0x55);
        let problem = checker.on_read_complete(7, &READ, &found).unwrap_err();
        assert_eq!(problem, "bytes 1024 to 1535 are of no one version from 0 to 4 that a power cut may leave");
    }

    #[test]
    fn version_seen_after_a_cut_stays_and_lost_ones_stay_lost() {
        let (mut checker, versions) = checker_after_power_cut(false);
        assert!(read(&mut checker, &versions[2]));
        for again in 0..2 {
            let found = versions.each_ref().map(|version| read(&mut checker.clone(), version));
            assert_eq!(found, [false, false, true, false, false]);
            if again == 0 {
                checker.on_power_cut(false);
            }
        }
        let newer = write(&mut checker);
        checker.on_write_completed(&WRITE);
        assert!(read(&mut checker, &newer) && !read(&mut checker, &versions[2]));
        checker.on_power_cut(false);
        assert!(!read(&mut checker.clone(), &versions[3]), "it was lost, and is not found behind the next cut");
        assert!(read(&mut checker.clone(), &newer) && read(&mut checker, &versions[2]));
    }

    #[test]
    fn block_rewritten_after_a_cut_may_have_any_version_until_completion() {
        let (mut checker, versions) = checker_after_power_cut(false);
        let newer = write(&mut checker);
        assert!(versions.iter().chain([&newer]).all(|version| read(&mut checker, version)));
        checker.on_write_completed(&WRITE);
        assert!(read(&mut checker, &newer) && versions.iter().all(|version| !read(&mut checker, version)));
    }

    #[test]
    fn write_in_flight_at_a_reset_may_appear_until_the_next_write() {
        let mut checker = checker();
        let [first, second] = [(); 2].map(|()| {
            let buffer = write(&mut checker);
            checker.on_reset();
            buffer
        });
        assert!([&first, &second, &vec![0; 1024]].iter().all(|version| read(&mut checker, version)));
        let third = write(&mut checker);
        checker.on_write_completed(&WRITE);
        assert!(read(&mut checker, &third) && !read(&mut checker, &second));
    }

    #[test]
    fn each_packet_of_a_racing_read_is_all_old_or_all_new() {
        let mut checker = checker();
        let mut found = write(&mut checker);
        found[128..256].fill(0);
        assert!(read(&mut checker, &found));
        found[300..310].fill(0);
        assert!(!read(&mut checker, &found));
    }

    #[test]
    fn block_bytes_generated_in_parts_equal_the_whole() {
        let mut whole = [0; 512];
        generate(3, 9, 2, 0, &mut whole);
        for (from, to) in [(0, 512), (3, 17), (128, 256), (508, 512)] {
            let mut part = vec![0; to - from];
            generate(3, 9, 2, from, &mut part);
            assert_eq!(part, whole[from..to]);
        }
    }

    #[test]
    fn request_is_split_at_block_and_packet_boundaries() {
        let io = Io { op: Op::Read, offset: 508, bytes: 264 };
        let cuts: Vec<_> = split_at_blocks_and_packets(&io, 128)
            .map(|piece| (piece.start, piece.end, piece.block, piece.within))
            .collect();
        assert_eq!(cuts, [(0, 4, 0, 508), (4, 128, 1, 0), (128, 256, 1, 124), (256, 264, 1, 252)]);
    }
}
