//! Tests of the times of single accesses to a DRAM cache, in front of a memory of one bank.

use super::*;
use crate::media::{Geometry, Timing};
use crate::protocol::cxl::config::CachePolicy;

const ACCESS: u64 = 150;
/// Time in ns that the memory takes to read a page of 4 KiB: 304 ns for command and array, then two bytes per
/// nanosecond.
const PAGE: u64 = 304 + 2048;
const PROGRAM: u64 = 10_000;
const PAGE_BYTES: u64 = 4096;

fn at(ns: u64) -> Time {
    Time::ZERO + Span::from_ns(ns)
}

fn media() -> Media {
    let timing = Timing { program: Span::from_ns(PROGRAM), program_bytes: 4096, ..Timing::default() };
    Media::new(&Geometry { channels: 1, banks_per_channel: 1, stripe_bytes: 4096, timing })
}

/// Returns a cache of 256 pages that starts as `start` says, with `places` write-back slots and `prefetch` pages of
/// read-ahead.
fn cache(start: CacheStart, places: u32, prefetch: u16) -> CxlPageCache {
    let config = Cxl {
        unit_bytes: 4096,
        buffer_units: places,
        cache_mib: 1,
        cache: Span::from_ns(ACCESS),
        cache_policy: CachePolicy::FirstInFirstOut,
        cache_prefetch_pages: prefetch,
        cache_start: start,
        ..Cxl::default()
    };
    CxlPageCache::new(&config, 1 << 30)
}

fn page(number: u64) -> u64 {
    number * PAGE_BYTES
}

#[test]
fn cache_hit_takes_dram_and_miss_takes_page_and_dram() {
    let (mut cache, mut media) = (cache(CacheStart::Clean, 4, 0), media());
    assert_eq!(cache.read(at(5), page(255), &mut media).ready_at, at(5 + ACCESS));
    let missed = cache.read(at(10), page(256), &mut media);
    assert_eq!((missed.started, missed.read_at, missed.ready_at), (at(10), at(10 + PAGE), at(10 + PAGE + ACCESS)));
    assert_eq!(cache.counts, CxlCacheCounts { hits: 1, misses: 1, ..CxlCacheCounts::default() });
    assert_eq!(media.activity().reads, 1);
}

#[test]
fn loads_of_a_page_being_read_join_its_read() {
    let (mut cache, mut media) = (cache(CacheStart::Empty, 4, 0), media());
    cache.read(at(0), page(3), &mut media);
    for line in 1..64 {
        let joined = cache.read(at(line), page(3) + line * 64, &mut media);
        assert_eq!(joined.ready_at, at(PAGE + ACCESS), "line {line}");
    }
    assert_eq!((media.activity().reads, cache.counts.joined), (1, 63));
    assert_eq!(cache.read(at(PAGE), page(3), &mut media).ready_at, at(PAGE + ACCESS));
    assert_eq!(cache.counts.hits, 1, "it is there");
}

#[test]
fn clean_page_is_dropped_and_dirty_page_written_back() {
    let (mut clean, mut memory) = (cache(CacheStart::Clean, 4, 0), media());
    clean.read(at(0), page(300), &mut memory);
    assert_eq!((clean.counts.write_backs, memory.activity().writes), (0, 0));
    let (mut dirty, mut memory) = (cache(CacheStart::Dirty, 4, 0), media());
    let missed = dirty.read(at(0), page(300), &mut memory);
    assert_eq!(missed.ready_at, at(PAGE + ACCESS), "the write-back does not delay it");
    assert_eq!((dirty.counts.write_backs, dirty.counts.merges, memory.activity().writes), (1, 0, 1));
    assert_eq!(memory.activity().reads, 1, "all of its lines were in the cache");
}

#[test]
fn store_waits_only_if_all_write_back_slots_are_taken() {
    let (mut cache, mut media) = (cache(CacheStart::Dirty, 2, 0), media());
    assert_eq!(cache.write(at(0), page(300), &mut media), at(0));
    assert_eq!(cache.write(at(1), page(301), &mut media), at(1));
    // The first write-back crosses the bus after its command.
    let first_written = at(194 + 2048);
    assert_eq!(cache.write(at(2), page(302), &mut media), first_written);
    assert_eq!(cache.write(at(3), page(302), &mut media), first_written, "its frame is not free before");
    assert!(cache.write(at(4), page(303), &mut media) > at(PROGRAM), "the bank programs the first");
    assert_eq!(cache.counts.write_backs, 4);
}

#[test]
fn store_reads_nothing_and_its_page_is_read_when_loaded() {
    let (mut cache, mut media) = (cache(CacheStart::Empty, 4, 0), media());
    assert_eq!(cache.write(at(0), page(7) + 64, &mut media), at(0));
    assert_eq!(media.activity().reads, 0);
    assert_eq!(cache.read(at(10), page(7) + 64, &mut media).ready_at, at(10 + ACCESS));
    assert_eq!(cache.read(at(20), page(7), &mut media).ready_at, at(20 + PAGE + ACCESS));
    assert_eq!(cache.read(at(30), page(7) + 64, &mut media).ready_at, at(30 + ACCESS), "it does not wait for the read");
    assert_eq!((media.activity().reads, cache.counts.misses), (1, 2));
}

#[test]
fn wholly_stored_page_is_written_back_without_a_read() {
    for (lines, reads) in [(64, 0), (63, 1)] {
        let (mut cache, mut media) = (cache(CacheStart::Empty, 4, 0), media());
        for line in 0..lines {
            cache.write(at(line), page(7) + line * 64, &mut media);
        }
        let durable = cache.flush(at(100), page(7), 4096, &mut media);
        assert_eq!((media.activity().reads, cache.counts.merges), (reads, reads), "{lines} lines");
        assert!(durable >= at(100 + 2048 + PROGRAM), "{durable}");
        assert_eq!(cache.flush(at(90_000), page(7), 4096, &mut media), at(90_000), "it is clean");
        assert_eq!(cache.counts.write_backs, 1);
    }
}

#[test]
fn sequential_loads_read_pages_ahead_after_the_missing_one() {
    let (mut cache, mut media) = (cache(CacheStart::Empty, 4, 2), media());
    cache.read(at(0), page(10), &mut media);
    assert_eq!(cache.counts.ahead, 0, "one page shows no order");
    let next = cache.read(at(100_000), page(11), &mut media);
    assert_eq!(next.ready_at, at(100_000 + PAGE + ACCESS));
    assert_eq!(cache.counts.ahead, 2);
    let ahead = cache.read(at(200_000), page(12), &mut media);
    assert_eq!(ahead.ready_at, at(200_000 + ACCESS));
    assert_eq!((cache.counts.ahead, cache.counts.ahead_used), (3, 1), "page 14 follows");
    cache.read(at(300_000), page(50), &mut media);
    assert_eq!(cache.counts.ahead, 3);
}

#[test]
fn read_ahead_stops_at_the_device_end() {
    let (mut cache, mut media) = (cache(CacheStart::Empty, 4, 8), media());
    let last = (1 << 30) / PAGE_BYTES - 1;
    cache.read(at(0), page(last - 1), &mut media);
    cache.read(at(10_000), page(last), &mut media);
    assert_eq!(cache.counts.ahead, 0);
}
