//! What each read may return.
//!
//! Every write of a block gives it a new version, counted in the order in which the driver submits them, and fills its
//! buffer with bytes that follow from block and version alone ([`generate`]). A read may find any version from the
//! *floor* at its submission up to the latest that has been submitted when it completes. Writes of a block that are
//! under way together may reach the device in any order; once all of such a group are complete, the first of them is
//! the floor: everything older has been overwritten. A write that has failed may be there or not, in whole or in part: a
//! group of such writes alone leaves the floor where it was.
//!
//! Versions are judged packet by packet: a read that races with a write may get some packets of a block from before it
//! and some from after it, as nothing in the protocols orders the two.

use std::collections::BTreeMap;

use crate::random::mix;
use crate::request::Io;
use crate::request::RequestId;

/// Bytes that get their versions together: the logical block.
pub const BLOCK_BYTES: u64 = 512;

/// Which versions of a block reads may find.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    latest: u32,
    floor: u32,
    /// Writes under way, and the version of the first of their group.
    writes: u32,
    group_first: u32,
    /// Whether any write of the group is known to have reached the device.
    is_written: bool,
}

/// A part of a block that lies in one packet: where in the request, and the block it belongs to.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: usize,
    end: usize,
    block: u64,
    /// First byte within the block.
    within: usize,
}

/// The versions of all blocks, and what the reads under way may find.
#[derive(Clone, Debug)]
pub struct Checker {
    seed: u64,
    /// Payload of one packet, the unit in which data arrives.
    packet_bytes: usize,
    blocks: BTreeMap<u64, Block>,
    /// Floors of the blocks of each read under way, at its submission.
    floors: BTreeMap<RequestId, Vec<u32>>,
}

impl Checker {
    /// All blocks as on a fresh device, whose version 0 is zeros.
    pub fn new(seed: u64, packet_bytes: u32) -> Checker {
        let packet_bytes = packet_bytes as usize;
        Checker { seed, packet_bytes, blocks: BTreeMap::new(), floors: BTreeMap::new() }
    }

    /// A write is submitted: fill its buffer.
    pub fn on_write(&mut self, io: &Io, buffer: &mut [u8]) {
        for number in blocks(io) {
            let block = self.blocks.entry(number).or_default();
            block.latest += 1;
            if block.writes == 0 {
                block.group_first = block.latest;
                block.is_written = false;
            }
            block.writes += 1;
        }
        for piece in pieces(io, self.packet_bytes) {
            let version = self.block(piece.block).latest;
            generate(self.seed, piece.block, version, piece.within, &mut buffer[piece.start..piece.end]);
        }
    }

    /// A write is complete.
    pub fn on_written(&mut self, io: &Io) {
        self.end_write(io, true);
    }

    /// A write has failed, and may be there or not.
    pub fn on_write_failed(&mut self, io: &Io) {
        self.end_write(io, false);
    }

    fn end_write(&mut self, io: &Io, is_written: bool) {
        for number in blocks(io) {
            let block = self.blocks.get_mut(&number).expect("a write under way has a version");
            block.writes -= 1;
            block.is_written |= is_written;
            if block.writes == 0 && block.is_written {
                block.floor = block.group_first;
            }
        }
    }

    /// A read has failed: what it has found is nobody's.
    pub fn on_read_failed(&mut self, request: RequestId) {
        self.floors.remove(&request);
    }

    /// A read is submitted; one that is submitted again keeps its first floors.
    pub fn on_read(&mut self, request: RequestId, io: &Io) {
        if !self.floors.contains_key(&request) {
            let floors = blocks(io).map(|number| self.block(number).floor).collect();
            self.floors.insert(request, floors);
        }
    }

    /// A read goes on under another number.
    pub fn rename(&mut self, from: RequestId, to: RequestId) {
        if let Some(floors) = self.floors.remove(&from) {
            self.floors.insert(to, floors);
        }
    }

    /// A read is complete.
    ///
    /// # Errors
    /// The first byte that it cannot have found on the device.
    pub fn on_read_complete(&mut self, request: RequestId, io: &Io, found: &[u8]) -> Result<(), String> {
        let floors = self.floors.remove(&request).expect("a read under way has floors");
        let first = io.offset / BLOCK_BYTES;
        let mut expected = [0; BLOCK_BYTES as usize];
        for piece in pieces(io, self.packet_bytes) {
            let (found, expected) = (&found[piece.start..piece.end], &mut expected[..piece.end - piece.start]);
            let (floor, latest) = (floors[(piece.block - first) as usize], self.block(piece.block).latest);
            let mut allowed = (floor..=latest).rev();
            let is_allowed = allowed.any(|version| {
                generate(self.seed, piece.block, version, piece.within, expected);
                found == expected
            });
            if !is_allowed {
                // The oldest version allowed was generated last.
                let byte = found.iter().zip(&*expected).position(|(a, b)| a != b).unwrap_or(0);
                return Err(format!(
                    "byte {} is {:#04x}, and {:#04x} in version {floor}; no version up to {latest} of block {} fits",
                    io.offset + (piece.start + byte) as u64,
                    found[byte],
                    expected[byte],
                    piece.block,
                ));
            }
        }
        Ok(())
    }

    fn block(&self, number: u64) -> Block {
        self.blocks.get(&number).copied().unwrap_or_default()
    }
}

/// Bytes of version `version` of a block, from byte `from` on; version 0 is zeros.
pub fn generate(seed: u64, block: u64, version: u32, from: usize, into: &mut [u8]) {
    if version == 0 {
        return into.fill(0);
    }
    let key = mix(mix(seed ^ u64::from(version)) ^ block);
    let mut word = [0; 8];
    for (place, byte) in (from..).zip(into) {
        if place % 8 == 0 || place == from {
            word = mix(key.wrapping_add((place / 8) as u64)).to_le_bytes();
        }
        *byte = word[place % 8];
    }
}

/// Numbers of the blocks that a request touches.
fn blocks(io: &Io) -> impl Iterator<Item = u64> + use<> {
    io.offset / BLOCK_BYTES..(io.offset + u64::from(io.bytes)).div_ceil(BLOCK_BYTES)
}

/// A request cut at the ends of blocks and of packets.
fn pieces(io: &Io, packet_bytes: usize) -> impl Iterator<Item = Piece> + use<> {
    let (offset, bytes) = (io.offset, io.bytes as usize);
    let mut start = 0;
    std::iter::from_fn(move || {
        let at = offset + start as u64;
        let within = (at % BLOCK_BYTES) as usize;
        let end = bytes.min(start + BLOCK_BYTES as usize - within).min((start / packet_bytes + 1) * packet_bytes);
        let piece = Piece { start, end, block: at / BLOCK_BYTES, within };
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

    fn checker() -> Checker {
        Checker::new(1, 128)
    }

    fn write(checker: &mut Checker) -> Vec<u8> {
        let mut buffer = vec![0; 1024];
        checker.on_write(&WRITE, &mut buffer);
        buffer
    }

    fn read(checker: &mut Checker, found: &[u8]) -> bool {
        checker.on_read(7, &READ);
        checker.on_read_complete(7, &READ, found).is_ok()
    }

    #[test]
    fn a_fresh_device_reads_zeros_and_nothing_else() {
        let mut found = [0; 1024];
        assert!(read(&mut checker(), &found));
        found[700] = 1;
        let mut checker = checker();
        checker.on_read(7, &READ);
        let problem = checker.on_read_complete(7, &READ, &found).unwrap_err();
        assert_eq!(problem, "byte 1724 is 0x01, and 0x00 in version 0; no version up to 0 of block 3 fits");
    }

    #[test]
    fn a_read_finds_the_old_or_the_new_data_while_a_write_is_under_way_and_only_the_new_afterwards() {
        let mut checker = checker();
        let new = write(&mut checker);
        assert!(read(&mut checker, &[0; 1024]));
        assert!(read(&mut checker, &new));
        checker.on_written(&WRITE);
        assert!(read(&mut checker, &new));
        assert!(!read(&mut checker, &[0; 1024]));
    }

    #[test]
    fn a_read_that_was_under_way_before_a_write_completed_may_find_the_old_data() {
        let mut checker = checker();
        write(&mut checker);
        checker.on_read(1, &READ);
        checker.on_written(&WRITE);
        checker.on_read(1, &READ);
        assert!(checker.on_read_complete(1, &READ, &[0; 1024]).is_ok());
    }

    #[test]
    fn writes_under_way_together_may_land_in_any_order_but_cover_what_was_there() {
        let mut checker = checker();
        let [first, second] = [write(&mut checker), write(&mut checker)];
        checker.on_written(&WRITE);
        assert!(read(&mut checker, &[0; 1024]), "the other write may have been the only one to reach the device late");
        checker.on_written(&WRITE);
        assert!(read(&mut checker, &first) && read(&mut checker, &second));
        assert!(!read(&mut checker, &[0; 1024]));
        let third = write(&mut checker);
        checker.on_written(&WRITE);
        assert!(read(&mut checker, &third) && !read(&mut checker, &second));
    }

    #[test]
    fn a_write_that_has_failed_may_be_there_or_not() {
        let mut checker = checker();
        let first = write(&mut checker);
        checker.on_written(&WRITE);
        let failed = write(&mut checker);
        checker.on_write_failed(&WRITE);
        assert!(read(&mut checker, &first) && read(&mut checker, &failed));
        let [other, together] = [write(&mut checker), write(&mut checker)];
        checker.on_write_failed(&WRITE);
        checker.on_written(&WRITE);
        assert!(read(&mut checker, &other) && read(&mut checker, &together));
        assert!(!read(&mut checker, &first) && !read(&mut checker, &failed), "one of the two has covered them");
    }

    #[test]
    fn each_packet_of_a_racing_read_is_old_or_new_as_a_whole() {
        let mut checker = checker();
        let mut found = write(&mut checker);
        found[128..256].fill(0);
        assert!(read(&mut checker, &found));
        found[300..310].fill(0);
        assert!(!read(&mut checker, &found));
    }

    #[test]
    fn parts_of_a_block_are_the_bytes_of_the_whole() {
        let mut whole = [0; 512];
        generate(3, 9, 2, 0, &mut whole);
        for (from, to) in [(0, 512), (3, 17), (128, 256), (508, 512)] {
            let mut part = vec![0; to - from];
            generate(3, 9, 2, from, &mut part);
            assert_eq!(part, whole[from..to]);
        }
    }

    #[test]
    fn requests_are_cut_at_blocks_and_at_packets() {
        let io = Io { op: Op::Read, offset: 508, bytes: 264 };
        let cuts: Vec<_> = pieces(&io, 128).map(|piece| (piece.start, piece.end, piece.block, piece.within)).collect();
        assert_eq!(cuts, [(0, 4, 0, 508), (4, 128, 1, 0), (128, 256, 1, 124), (256, 264, 1, 252)]);
    }
}
