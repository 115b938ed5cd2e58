//! Tests that compare the cache's directory with simple models of the replacement policies, which are written from
//! their descriptions and keep pages in plain lists.

use super::*;
use crate::random::Random;

/// Reference model of a cache: a plain list of pages, which is searched from end to end.
struct ReferenceCache {
    policy: CachePolicy,
    most: usize,
    /// Pages with their numbers of accesses; the first is the next candidate for eviction. For S3-FIFO, this is the
    /// main queue.
    pages: Vec<(u64, u32)>,
    /// Pages in the small queue of S3-FIFO, with their numbers of accesses.
    small: Vec<(u64, u32)>,
    /// Pages that S3-FIFO has evicted from the small queue, oldest first. Those that have returned to the cache are
    /// `None`.
    ghosts: Vec<Option<u64>>,
}

impl ReferenceCache {
    fn new(most: usize, policy: CachePolicy, is_full: bool) -> ReferenceCache {
        let pages = if is_full { (0..most as u64).map(|page| (page, 0)).collect() } else { Vec::new() };
        ReferenceCache { policy, most, pages, small: Vec::new(), ghosts: Vec::new() }
    }

    /// Accesses a page, and admits it if it is missing. Returns true if it was in the cache.
    fn access(&mut self, page: u64) -> bool {
        let of_page = |(other, _): &(u64, u32)| *other == page;
        if let Some(found) = self.pages.iter().position(of_page) {
            match self.policy {
                CachePolicy::Lru => {
                    let moved = self.pages.remove(found);
                    self.pages.push(moved);
                }
                _ => self.pages[found].1 += 1,
            }
            return true;
        }
        if let Some(found) = self.small.iter().position(of_page) {
            self.small[found].1 += 1;
            return true;
        }
        if self.pages.len() + self.small.len() == self.most {
            self.replace();
        }
        self.admit(page);
        false
    }

    fn admit(&mut self, page: u64) {
        let returned = self.ghosts.iter().position(|ghost| *ghost == Some(page));
        match (self.policy, returned) {
            (CachePolicy::S3Fifo, None) => self.small.push((page, 0)),
            (CachePolicy::S3Fifo, Some(place)) => {
                self.ghosts[place] = None;
                self.pages.push((page, 0));
            }
            _ => self.pages.push((page, 0)),
        }
    }

    fn replace(&mut self) {
        match self.policy {
            CachePolicy::FirstInFirstOut | CachePolicy::Lru => drop(self.pages.remove(0)),
            CachePolicy::Lifo => drop(self.pages.pop()),
            CachePolicy::Clock => {
                while self.pages[0].1 > 0 {
                    let (spared, _) = self.pages.remove(0);
                    self.pages.push((spared, 0));
                }
                self.pages.remove(0);
            }
            CachePolicy::S3Fifo => while !self.examine_s3_fifo_candidate() {},
        }
    }

    /// Examines the next candidate of S3-FIFO for eviction. Returns true if that page has been evicted, false if it has
    /// been moved.
    fn examine_s3_fifo_candidate(&mut self) -> bool {
        let small_most = (self.most / 10).max(1);
        if self.small.len() >= small_most || self.pages.is_empty() {
            let (page, accesses) = self.small.remove(0);
            if accesses > 1 {
                self.pages.push((page, 0));
                return false;
            }
            self.ghosts.push(Some(page));
            if self.ghosts.len() > (self.most - small_most).max(1) {
                self.ghosts.remove(0);
            }
            return true;
        }
        let (page, accesses) = self.pages.remove(0);
        if accesses > 0 {
            self.pages.push((page, accesses.min(3) - 1));
        }
        accesses == 0
    }
}

/// Stream of page numbers for a test. Two thirds are skewed accesses, each the minimum of three random numbers; one
/// third are scans of 300 pages.
struct SkewedAccesses {
    random: Random,
    pages: u64,
    scanned: u64,
    scan_left: u64,
}

impl SkewedAccesses {
    fn below(&mut self, end: u64) -> u64 {
        self.random.bits() % end
    }

    fn next(&mut self) -> u64 {
        if self.scan_left == 0 && self.below(600) == 0 {
            self.scan_left = 300;
        }
        if self.scan_left > 0 {
            self.scan_left -= 1;
            self.scanned = (self.scanned + 1) % self.pages;
            return self.scanned;
        }
        let draws = [(); 3].map(|()| self.below(self.pages));
        draws.into_iter().min().unwrap_or(0)
    }
}

fn count_differences(policy: CachePolicy, frames: u32, is_full: bool, accesses: u64) -> (u64, f64) {
    let mut directory = Directory::new(frames, policy, is_full);
    let mut plain = ReferenceCache::new(frames as usize, policy, is_full);
    let mut mixed = SkewedAccesses { random: Random::stream(7, "accesses"), pages: 400, scanned: 0, scan_left: 0 };
    let (mut different, mut hits) = (0, 0u64);
    for _ in 0..accesses {
        let page = mixed.next();
        let is_hit = match directory.find(page) {
            Some(frame) => {
                directory.touch(frame);
                true
            }
            None => {
                directory.admit(page);
                false
            }
        };
        hits += u64::from(is_hit);
        different += u64::from(is_hit != plain.access(page));
    }
    (different, hits as f64 / accesses as f64)
}

#[test]
fn cache_policies_equal_their_reference_on_a_million_accesses() {
    for policy in CachePolicy::ALL {
        for is_full in [false, true] {
            let (different, hit_ratio) = count_differences(*policy, 64, is_full, 1_000_000);
            assert_eq!(different, 0, "{policy:?}, full at the start: {is_full}");
            assert!((0.1..0.6).contains(&hit_ratio), "{policy:?}: {hit_ratio}");
        }
    }
}

#[test]
fn tiny_caches_equal_their_reference() {
    for policy in CachePolicy::ALL {
        for frames in [1, 2, 3, 11] {
            assert_eq!(count_differences(*policy, frames, false, 20_000).0, 0, "{policy:?}, {frames} frames");
        }
    }
}

#[test]
fn full_directory_gives_each_frame_one_page() {
    for policy in CachePolicy::ALL {
        let mut directory = Directory::new(8, *policy, true);
        assert_eq!((directory.find(7), directory.find(8)), (Some(7), None));
        let Admission { frame, evicted } = directory.admit(8);
        let evicted = evicted.expect("the cache is full");
        assert_eq!((directory.find(8), directory.find(evicted)), (Some(frame), None), "{policy:?}");
        assert_eq!((0..9).filter(|page| directory.find(*page).is_some()).count(), 8, "{policy:?}");
    }
}
