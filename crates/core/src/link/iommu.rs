//! IOMMU: a cache of address translations (IOTLB), and the page-table walkers that fill it.
//!
//! A packet's address is translated before memory is accessed. A cached page costs nothing; for any other, one of
//! several walkers reads the page table. Requests for a page that is being walked wait for the same walk. The least
//! recently used translation is evicted.

use crate::config;
use crate::time::{Span, Time};

/// IOMMU with its cache of address translations (IOTLB) and its page-table walkers.
#[derive(Clone, Debug)]
pub(super) struct IommuModel {
    /// Cached translations of the IOMMU, the most recently used one at the end.
    held: Vec<CachedTranslation>,
    /// Capacity of the translation cache (IOTLB), in pages.
    entries: usize,
    /// Base-2 logarithm of the page size in bytes.
    page_bits: u32,
    /// Time that one page-table walk takes.
    walk: Span,
    /// Time at which each page-table walker is free.
    walkers: Vec<Time>,
    /// Number of page-table walks so far: lookups that missed the translation cache.
    pub misses: u64,
}

/// Translation of one page's address in the IOMMU's cache.
#[derive(Clone, Copy, Debug)]
struct CachedTranslation {
    page: u64,
    /// Time at which the page-table walk of this translation ends.
    ready_at: Time,
}

impl IommuModel {
    /// Creates the IOMMU that `config` describes; `None` if addresses are not translated.
    pub(super) fn of(config: &config::RootComplex) -> Option<IommuModel> {
        config.iommu.then(|| IommuModel {
            held: Vec::new(),
            entries: config.iommu_entries.into(),
            page_bits: (config.iommu_page_kib * 1024).trailing_zeros(),
            walk: config.iommu_walk,
            walkers: vec![Time::ZERO; config.iommu_walks.into()],
            misses: 0,
        })
    }

    /// Returns when all pages of `bytes` from `address` are translated, if they are looked up at `now`, all at once.
    pub(super) fn translation_end_time(&mut self, now: Time, address: u64, bytes: u32) -> Time {
        let last = address + u64::from(bytes.max(1) - 1);
        let pages = address >> self.page_bits..=last >> self.page_bits;
        pages.map(|page| self.look_up_translation(now, page)).max().unwrap_or(now)
    }

    fn look_up_translation(&mut self, now: Time, page: u64) -> Time {
        let translation = match self.held.iter().rposition(|held| held.page == page) {
            Some(place) => self.held.remove(place),
            None => CachedTranslation { page, ready_at: self.start_page_walk(now) },
        };
        if self.held.len() == self.entries {
            self.held.remove(0);
        }
        self.held.push(translation);
        translation.ready_at.max(now)
    }

    /// Starts a page-table walk on the walker that is free first, and returns when the walk ends.
    fn start_page_walk(&mut self, now: Time) -> Time {
        self.misses += 1;
        let walker = self.walkers.iter_mut().min().expect("an IOMMU has at least one page-table walker");
        *walker = now.max(*walker) + self.walk;
        *walker
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iommu(entries: u16, walks: u8, page_kib: u32) -> IommuModel {
        IommuModel::of(&config::RootComplex {
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
    fn least_recently_used_translation_is_evicted() {
        let mut iommu = iommu(2, 5, 4);
        assert_eq!(iommu.translation_end_time(at(0), 0, 64), at(269));
        assert_eq!(iommu.translation_end_time(at(100), 4095, 1), at(269), "the same walk");
        assert_eq!(iommu.translation_end_time(at(1000), 64, 64), at(1000));
        iommu.translation_end_time(at(2000), 4096, 64);
        assert_eq!(iommu.translation_end_time(at(3000), 0, 64), at(3000));
        iommu.translation_end_time(at(4000), 8192, 64);
        assert_eq!(iommu.translation_end_time(at(5000), 4096, 64), at(5269), "it was the oldest");
        assert_eq!(iommu.misses, 4);
    }

    #[test]
    fn page_walks_beyond_the_walkers_wait() {
        let mut iommu = iommu(64, 5, 4);
        let ends: Vec<Time> = (0..6).map(|page| iommu.translation_end_time(at(0), page * 4096, 64)).collect();
        assert_eq!(ends[4], at(269));
        assert_eq!(ends[5], at(538));
    }

    #[test]
    fn large_pages_need_fewer_page_walks() {
        assert_eq!(iommu(64, 5, 2048).translation_end_time(at(0), 0, 1 << 20), at(269));
        let mut small = iommu(64, 5, 4);
        small.translation_end_time(at(0), 0, 1 << 20);
        assert_eq!(small.misses, 256);
    }

    #[test]
    fn random_reads_beyond_the_iotlb_run_at_the_walkers_rate() {
        // Measured by Neugebauer et al., SIGCOMM 2018: no loss up to 256 KiB, and 19.2 million reads of 64 bytes per
        // second in a window of 64 MiB.
        let misses = |pages: u64| {
            let mut iommu = iommu(64, 5, 4);
            let addresses = (0..20_000_u64).map(|i| crate::random::mix(i) % pages * 4096);
            let end = addresses.map(|address| iommu.translation_end_time(at(0), address, 64)).max().unwrap_or_default();
            (iommu.misses, 20_000.0 / end.as_ns() * 1e3)
        };
        assert_eq!(misses(64).0, 64);
        let (_, millions) = misses(16_384);
        assert!((18.0..20.0).contains(&millions), "{millions}");
    }
}
