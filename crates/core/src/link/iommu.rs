//! The IOMMU: a cache of translations (IOTLB), and walkers of the page table for what is not in it.
//!
//! A packet's address is translated before its memory is looked at. A page that the cache holds costs nothing; for one
//! that it does not, a walker reads the page table, of which several work at a time. Requests for a page that is being
//! walked for wait for the same walk. The oldest translation makes room.

use crate::config;
use crate::time::{Span, Time};

/// Cache and walkers.
#[derive(Clone, Debug)]
pub(super) struct Iommu {
    /// Pages of which translations are held, the one used last at the end.
    held: Vec<Translation>,
    entries: usize,
    page_bits: u32,
    walk: Span,
    /// When each walker is free.
    walkers: Vec<Time>,
    pub misses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Translation {
    page: u64,
    /// When its walk is over.
    ready_at: Time,
}

impl Iommu {
    /// That of a description, if addresses are translated.
    pub(super) fn of(config: &config::RootComplex) -> Option<Iommu> {
        config.iommu.then(|| Iommu {
            held: Vec::new(),
            entries: config.iommu_entries.into(),
            page_bits: (config.iommu_page_kib * 1024).trailing_zeros(),
            walk: config.iommu_walk,
            walkers: vec![Time::ZERO; config.iommu_walks.into()],
            misses: 0,
        })
    }

    /// When `bytes` from `address` are translated that are asked for at `now`. Their pages are looked for all at once.
    pub(super) fn translate(&mut self, now: Time, address: u64, bytes: u32) -> Time {
        let last = address + u64::from(bytes.max(1) - 1);
        let pages = address >> self.page_bits..=last >> self.page_bits;
        pages.map(|page| self.look_up(now, page)).max().unwrap_or(now)
    }

    fn look_up(&mut self, now: Time, page: u64) -> Time {
        let translation = match self.held.iter().rposition(|held| held.page == page) {
            Some(place) => self.held.remove(place),
            None => Translation { page, ready_at: self.walk_for(now) },
        };
        if self.held.len() == self.entries {
            self.held.remove(0);
        }
        self.held.push(translation);
        translation.ready_at.max(now)
    }

    /// Send the walker that is free first: when it is back.
    fn walk_for(&mut self, now: Time) -> Time {
        self.misses += 1;
        let walker = self.walkers.iter_mut().min().expect("a description has a walker");
        *walker = now.max(*walker) + self.walk;
        *walker
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iommu(entries: u16, walks: u8, page_kib: u32) -> Iommu {
        Iommu::of(&config::RootComplex {
            iommu: true,
            iommu_entries: entries,
            iommu_walks: walks,
            iommu_page_kib: page_kib,
            ..config::RootComplex::default()
        })
        .expect("it is on")
    }

    fn at(ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns)
    }

    #[test]
    fn a_page_costs_a_walk_once_and_again_when_as_many_others_as_entries_have_been_used() {
        let mut iommu = iommu(2, 5, 4);
        assert_eq!(iommu.translate(at(0), 0, 64), at(269));
        assert_eq!(iommu.translate(at(100), 4095, 1), at(269), "the same walk");
        assert_eq!(iommu.translate(at(1000), 64, 64), at(1000));
        iommu.translate(at(2000), 4096, 64);
        assert_eq!(iommu.translate(at(3000), 0, 64), at(3000));
        iommu.translate(at(4000), 8192, 64);
        assert_eq!(iommu.translate(at(5000), 4096, 64), at(5269), "it was the oldest");
        assert_eq!(iommu.misses, 4);
    }

    #[test]
    fn as_many_walks_as_there_are_walkers_go_on_at_a_time() {
        let mut iommu = iommu(64, 5, 4);
        let ends: Vec<Time> = (0..6).map(|page| iommu.translate(at(0), page * 4096, 64)).collect();
        assert_eq!(ends[4], at(269));
        assert_eq!(ends[5], at(538));
    }

    #[test]
    fn large_pages_reach_farther() {
        assert_eq!(iommu(64, 5, 2048).translate(at(0), 0, 1 << 20), at(269));
        let mut small = iommu(64, 5, 4);
        small.translate(at(0), 0, 1 << 20);
        assert_eq!(small.misses, 256);
    }

    #[test]
    fn random_reads_within_the_reach_of_the_cache_miss_no_more_and_beyond_come_at_the_rate_of_the_walkers() {
        // Neugebauer et al., SIGCOMM 2018: flat up to 256 KiB; 19.2 M/s of 64 bytes in a window of 64 MiB.
        let misses = |pages: u64| {
            let mut iommu = iommu(64, 5, 4);
            let addresses = (0..20_000_u64).map(|i| crate::random::mix(i) % pages * 4096);
            let end = addresses.map(|address| iommu.translate(at(0), address, 64)).max().unwrap_or_default();
            (iommu.misses, 20_000.0 / end.as_ns() * 1e3)
        };
        assert_eq!(misses(64).0, 64);
        let (_, millions) = misses(16_384);
        assert!((18.0..20.0).contains(&millions), "{millions}");
    }
}
