//! Footprint of a trace: number of blocks that it accesses, and accesses to each, counted in bounded memory.
//!
//! Blocks are counted one by one as long as they are few. After that only blocks whose hash is below a bound are
//! counted, and the bound is halved whenever they become too many (M. Wegman's adaptive sampling; P. Flajolet, "On
//! adaptive sampling", Computing 34, 1990). The hash is independent of how often a block is accessed, so that the
//! sample represents all blocks; with 65536 of them the number of blocks is known to about 0.5 %.

use crate::number::{real, real_length};
use crate::request::{Io, Op};
use std::collections::BTreeMap;

/// Size in bytes of a block of the footprint.
pub const BLOCK_BYTES: u64 = 4096;
/// Largest number of blocks that are counted one by one.
const FOLLOWED_MAX: usize = 1 << 16;
/// Largest number of blocks of one request that are counted, from its first: those of 64 MiB.
const BLOCKS_MAX: u64 = 1 << 14;

/// Counter of accesses to blocks, by adaptive sampling.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    /// Accesses to each sampled block, by the hash of its device and block number.
    followed: BTreeMap<u64, BlockAccessCount>,
    /// Number of times that the sample was halved: one block in 2^halvings is counted.
    halvings: u32,
}

/// Number of accesses to one block of a trace, and the directions of these accesses.
#[derive(Clone, Copy, Debug, Default)]
struct BlockAccessCount {
    accesses: u64,
    is_read: bool,
    is_written: bool,
}

/// Footprint of a trace: number of blocks of 4 KiB that its requests access, and accesses to each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockFootprint {
    /// True if all blocks were counted, so that the figures are exact and not estimated.
    pub is_exact: bool,
    /// Number of blocks of 4 KiB that are accessed.
    pub blocks: u64,
    /// Number of blocks that are read at least once.
    pub read_blocks: u64,
    /// Number of blocks that are written at least once.
    pub written_blocks: u64,
    /// Mean number of accesses to a block that is accessed at all.
    pub accesses_mean: f64,
    /// Share of the accessed blocks that are accessed exactly once, from 0 to 1.
    pub once_share: f64,
    /// Share of the accesses that go to the busiest tenth of the accessed blocks, from 0 to 1.
    pub busiest_tenth_share: f64,
}

impl Counter {
    pub(super) fn new() -> Counter {
        Counter { followed: BTreeMap::new(), halvings: 0 }
    }

    pub(super) fn add(&mut self, device: u32, io: Io) {
        let first = io.offset / BLOCK_BYTES;
        let last = io.offset.saturating_add(u64::from(io.bytes) - 1) / BLOCK_BYTES;
        for block in first..=last.min(first + BLOCKS_MAX - 1) {
            let hash = hash(device, block);
            let is_followed = self.halvings == 0 || hash >> (64 - self.halvings) == 0;
            if !is_followed {
                continue;
            }
            let followed = self.followed.entry(hash).or_default();
            followed.accesses += 1;
            followed.is_read |= io.op == Op::Read;
            followed.is_written |= io.op == Op::Write;
            if self.followed.len() > FOLLOWED_MAX {
                self.halvings += 1;
                drop(self.followed.split_off(&(1 << (64 - self.halvings))));
            }
        }
    }

    pub(super) fn footprint(&self) -> BlockFootprint {
        let mut accesses: Vec<u64> = self.followed.values().map(|block| block.accesses).collect();
        accesses.sort_unstable_by(|a, b| b.cmp(a));
        let (count, sum) = (real_length(accesses.len().max(1)), real(accesses.iter().sum::<u64>()));
        let tenth = accesses.len().div_ceil(10);
        let all = |is: fn(&BlockAccessCount) -> bool| {
            (self.followed.values().filter(|block| is(block)).count() as u64) << self.halvings
        };
        BlockFootprint {
            is_exact: self.halvings == 0,
            blocks: all(|_| true),
            read_blocks: all(|block| block.is_read),
            written_blocks: all(|block| block.is_written),
            accesses_mean: sum / count,
            once_share: real_length(accesses.iter().filter(|accesses| **accesses == 1).count()) / count,
            busiest_tenth_share: real(accesses[..tenth].iter().sum::<u64>()) / sum.max(1.0),
        }
    }
}

/// Returns the hash of a block of a device by the finalizer of SplitMix64 (G. Steele, D. Lea and C. Flood, "Fast
/// splittable pseudorandom number generators", OOPSLA 2014): each bit of the block number changes half of the bits of
/// the hash.
fn hash(device: u32, block: u64) -> u64 {
    let mut z = block ^ u64::from(device).rotate_right(16);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(op: Op, block: u64, blocks: u32) -> Io {
        Io { op, offset: block * BLOCK_BYTES, bytes: blocks * BLOCK_BYTES as u32 }
    }

    #[test]
    fn small_footprint_is_counted_exactly() {
        let mut counter = Counter::new();
        for _ in 0..9 {
            counter.add(0, io(Op::Read, 7, 1));
        }
        counter.add(0, io(Op::Write, 6, 10));
        counter.add(1, Io { op: Op::Read, offset: 7 * BLOCK_BYTES + 1, bytes: BLOCK_BYTES as u32 });
        let found = counter.footprint();
        assert_eq!((found.is_exact, found.blocks, found.read_blocks, found.written_blocks), (true, 12, 3, 10));
        assert_eq!(found.accesses_mean, 21.0 / 12.0);
        assert_eq!(found.once_share, 11.0 / 12.0);
        // A tenth of twelve blocks is rounded up to two: the block with ten accesses and one with a single access.
        assert_eq!(found.busiest_tenth_share, 11.0 / 21.0);
    }

    #[test]
    fn large_footprint_is_estimated_within_a_few_percent() {
        let mut counter = Counter::new();
        let blocks = 3_000_000;
        for block in 0..blocks {
            counter.add(0, io(Op::Read, block, 1));
            if block % 4 == 0 {
                counter.add(0, io(Op::Write, block, 1));
            }
        }
        let found = counter.footprint();
        assert!(!found.is_exact && counter.followed.len() <= FOLLOWED_MAX);
        for (name, value, expected) in [
            ("blocks", found.blocks as f64, blocks as f64),
            ("written", found.written_blocks as f64, blocks as f64 / 4.0),
            ("accesses", found.accesses_mean, 1.25),
            ("once", found.once_share, 0.75),
        ] {
            assert!((value / expected - 1.0).abs() < 0.03, "{name}: {value} is not {expected}");
        }
    }
}
