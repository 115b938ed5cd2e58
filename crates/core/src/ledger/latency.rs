//! Latency statistics: exact count, sum, extremes and standard deviation; percentiles to three digits.
//!
//! Callers get whole picoseconds. The histogram is allocated at the first record and grows with the largest latency, so
//! that an unused [`Latency`] is 96 bytes and one that has seen 100 µs about 150 kB.

use super::histogram::LatencyHistogram;
use super::quantile::{NORMAL_97_5, student_t_quantile};
use super::windows::LatencyWindows;
use crate::number::{real, whole};
use crate::time::{Span, Time};

/// Smallest number of independent requests on either side of a percentile. With ten, the number beyond the percentile
/// is known to a third (one standard deviation); below, one stall of the drive decides the value.
const BEYOND_MIN: f64 = 10.0;
/// Largest share by which a percentile is too long, which is the width of a class of the histogram.
const CLASS_SHARE: f64 = 1e-3;

/// Distribution of latencies, as a histogram with exact count, sum and extremes.
///
/// Everything but the percentiles is exact. Percentiles are at most 0.1 % too long, never too short,
/// and never outside what was recorded; below 2 ns they are exact.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    count: u64,
    sum_ps: u128,
    /// Sum of the squared latencies in square picoseconds; saturates only beyond 10^10 latencies of 100 s.
    square_sum_ps: u128,
    /// Shortest latency in picoseconds; `u64::MAX` if none was counted.
    min_ps: u64,
    max_ps: u64,
    histogram: LatencyHistogram,
    /// Counts by window of time, of latencies that were recorded with their end.
    windows: Option<Box<LatencyWindows>>,
}

/// Percentile of latency with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PercentileEstimate {
    /// Latency that the percentage of the requests does not exceed.
    pub value: Span,
    /// Lower end of the 95 % confidence interval.
    pub low: Span,
    /// Upper end of the 95 % confidence interval.
    pub high: Span,
    /// Number of independent requests that would know the percentile as well as all counted ones do.
    pub effective: f64,
}

/// Reason why a percentile is not known: too few independent requests beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFewRequests {
    /// Number of requests that were counted.
    pub counted: u64,
    /// Number of requests that the percentile needs, if further ones are correlated as these are.
    pub needed: u64,
}

impl Default for Latency {
    fn default() -> Latency {
        let histogram = LatencyHistogram::default();
        Latency { count: 0, sum_ps: 0, square_sum_ps: 0, min_ps: u64::MAX, max_ps: 0, histogram, windows: None }
    }
}

impl Latency {
    /// Adds one latency to the distribution.
    pub fn record(&mut self, span: Span) {
        let ps = span.as_ps();
        self.histogram.record(ps);
        self.min_ps = self.min_ps.min(ps);
        self.max_ps = self.max_ps.max(ps);
        self.count += 1;
        self.sum_ps += u128::from(ps);
        let square = u128::from(ps) * u128::from(ps);
        self.square_sum_ps = self.square_sum_ps.saturating_add(square);
    }

    /// Adds one latency that ends at `end`, so that percentiles know how strongly slow requests come together.
    pub fn record_at(&mut self, span: Span, end: Time) {
        self.record(span);
        self.windows.get_or_insert_default().record(span, end);
    }

    /// Adds all latencies of another distribution.
    pub fn merge(&mut self, other: &Latency) {
        self.min_ps = self.min_ps.min(other.min_ps);
        self.max_ps = self.max_ps.max(other.max_ps);
        self.count += other.count;
        self.sum_ps += other.sum_ps;
        self.square_sum_ps = self.square_sum_ps.saturating_add(other.square_sum_ps);
        self.histogram.merge(&other.histogram);
        if let Some(windows) = &other.windows {
            self.windows.get_or_insert_default().merge(windows);
        }
    }

    /// Returns the latencies counted since this distribution was equal to `earlier`. Minimum and maximum are those of
    /// the whole distribution.
    pub fn without(&self, earlier: &Latency) -> Latency {
        Latency {
            count: self.count - earlier.count,
            sum_ps: self.sum_ps - earlier.sum_ps,
            square_sum_ps: self.square_sum_ps - earlier.square_sum_ps,
            min_ps: self.min_ps,
            max_ps: self.max_ps,
            histogram: self.histogram.without(&earlier.histogram),
            windows: None,
        }
    }

    /// Returns the number of latencies counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the exact sum of the latencies in picoseconds, which equals the sum of a ledger's stages.
    pub fn sum_ps(&self) -> u128 {
        self.sum_ps
    }

    /// Returns the shortest latency, exact; zero if none was counted.
    pub fn min(&self) -> Span {
        Span::from_ps(if self.count == 0 { 0 } else { self.min_ps })
    }

    /// Returns the longest latency, exact; zero if none was counted.
    pub fn max(&self) -> Span {
        Span::from_ps(self.max_ps)
    }

    /// Returns the mean latency to the nearest picosecond; zero if none was counted.
    pub fn mean(&self) -> Span {
        let count = u128::from(self.count.max(1));
        Span::from_ps(u64::try_from((self.sum_ps + count / 2) / count).unwrap_or(u64::MAX))
    }

    /// Returns the mean latency in nanoseconds, unrounded; zero if none was counted.
    pub fn mean_ns(&self) -> f64 {
        self.sum_ps as f64 / real(self.count.max(1)) / 1e3
    }

    /// Returns the standard deviation of the latencies in nanoseconds (divisor n - 1, as fio has it); zero below two
    /// latencies.
    ///
    /// Squares are summed around the whole part q of the mean: with sum = n q + r, the sum of
    /// (x - q)² is sum(x²) - q (sum + r), an exact integer, so nothing cancels.
    pub fn standard_deviation_ns(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let count = u128::from(self.count);
        let (whole, rest) = (self.sum_ps / count, self.sum_ps % count);
        let around_whole = self.square_sum_ps.saturating_sub(whole.saturating_mul(self.sum_ps + rest));
        let rest = rest as f64;
        let around_mean = around_whole as f64 - rest * rest / count as f64;
        (around_mean.max(0.0) / (count - 1) as f64).sqrt() / 1e3
    }

    /// Returns the latency that `percent` percent of all latencies do not exceed; zero if none was counted.
    ///
    /// 0 gives the shortest and 100 the longest; values outside are taken as these.
    pub fn percentile(&self, percent: f64) -> Span {
        if percent <= 0.0 || self.count == 0 {
            return self.min();
        }
        if percent >= 100.0 {
            return self.max();
        }
        // This rank is exact, whereas `percent / 100` times the count may round up to the next rank: 99.9 % of 20,000
        // is 19,980.
        let rank = (self.count - self.samples_beyond(percent)).max(1);
        let ps = self.histogram.value_of_rank(rank).unwrap_or(self.max_ps);
        Span::from_ps(ps.clamp(self.min_ps, self.max_ps))
    }

    /// Returns the number of counted latencies beyond the percentile, which is the evidence for it.
    ///
    /// The number is rounded down, with `percent` taken to 7 decimals, so that 99.9 % of 1000 leaves exactly 1.
    pub fn samples_beyond(&self, percent: f64) -> u64 {
        const PARTS: u128 = 1_000_000_000;
        let beyond = ((100.0 - percent.clamp(0.0, 100.0)) * 1e7).round() as u128;
        (u128::from(self.count) * beyond / PARTS) as u64
    }

    /// Returns the mean in nanoseconds of the latencies beyond a percentile; `None` if none lies beyond it.
    ///
    /// The mean is at most 0.1 % too long, as percentiles are. It weighs the whole tail, so that it varies less between
    /// runs than a percentile far out or the maximum.
    pub fn mean_beyond_ns(&self, percent: f64) -> Option<f64> {
        let beyond = self.samples_beyond(percent);
        let (mut skipped, mut sum_ns) = (self.count - beyond, 0.0);
        for (span, count) in self.classes() {
            sum_ns += real(count.saturating_sub(skipped)) * span.as_ns();
            skipped = skipped.saturating_sub(count);
        }
        (beyond > 0).then(|| sum_ns / real(beyond))
    }

    /// Returns the latency at a percentile; `None` if no counted latency lies beyond it, since it would then be the
    /// maximum under another name.
    pub fn supported_percentile(&self, percent: f64) -> Option<Span> {
        (self.samples_beyond(percent) > 0).then(|| self.percentile(percent))
    }

    /// Returns the latency at a percentile with its 95 % confidence interval, from order statistics: the latencies at the
    /// ranks about two standard deviations of a binomial count away, for as many independent requests as these are worth.
    ///
    /// # Errors
    /// Fewer than ten independent requests on either side of the percentile.
    pub fn estimate(&self, percent: f64) -> Result<PercentileEstimate, TooFewRequests> {
        let (requests, share) = (real(self.count), percent.clamp(0.0, 100.0) / 100.0);
        // Round, because binary fractions would make 0.1 % of 10,000 requests one too few.
        let rest = (1e9 * (1.0 - share)).round() / 1e9;
        let windows = self.windows.as_ref().filter(|_| rest > 0.0);
        let independent = windows.and_then(|windows| windows.independent(rest * requests));
        let effective = independent.map_or(requests, |known| known.requests);
        let deviations = independent.map_or(NORMAL_97_5, |known| student_t_quantile(NORMAL_97_5, known.groups - 1.0));
        let least = rest.min(share);
        if effective * least < BEYOND_MIN - 1e-6 {
            let of_request = if self.count == 0 { 1.0 } else { effective / requests };
            let needed = (BEYOND_MIN / (least * of_request) - 1e-6).ceil();
            return Err(TooFewRequests { counted: self.count, needed: whole(needed) });
        }
        let half_width = deviations * libm::sqrt(share * rest / effective);
        let at = |share: f64| self.percentile(100.0 * share.clamp(0.0, 1.0));
        // Percentiles are upper ends of classes, up to one class too high, so lower the lower end of the interval by
        // one class.
        let low = at(share - half_width).scale(1.0 - CLASS_SHARE).max(self.min());
        Ok(PercentileEstimate { value: self.percentile(percent), low, high: at(share + half_width), effective })
    }

    /// Returns classes of equal latencies (to three digits) in rising order: the longest latency and the count of each.
    pub fn classes(&self) -> impl Iterator<Item = (Span, u64)> + '_ {
        self.histogram
            .classes()
            .map(|(longest_ps, count)| (Span::from_ps(longest_ps.clamp(self.min_ps, self.max_ps)), count))
    }

    /// Returns the number of latencies of at least `from` and less than `until`, to the resolution of the classes. Each
    /// latency is in exactly one of two adjoining ranges.
    pub fn count_between(&self, from: Span, until: Span) -> u64 {
        self.classes().filter(|(span, _)| (from..until).contains(span)).map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use proptest::prelude::*;

    fn latency_from_ps(spans_ps: &[u64]) -> Latency {
        let mut latency = Latency::default();
        spans_ps.iter().for_each(|ps| latency.record(Span::from_ps(*ps)));
        latency
    }

    #[test]
    fn empty_latency_distribution_is_zero_without_percentiles() {
        let empty = Latency::default();
        assert_eq!((empty.count(), empty.mean(), empty.standard_deviation_ns()), (0, Span::ZERO, 0.0));
        assert_eq!((empty.min(), empty.max(), empty.percentile(50.0)), (Span::ZERO, Span::ZERO, Span::ZERO));
        assert_eq!(empty.supported_percentile(50.0), None);
        assert_eq!(empty.count_between(Span::ZERO, Span::MAX), 0);
    }

    #[test]
    fn unused_latency_distribution_allocates_nothing() {
        assert!(Latency::default().classes().next().is_none());
        assert!(size_of::<Latency>() <= 96);
    }

    #[test]
    fn equal_latencies_have_that_value_at_all_percentiles() {
        let latency = latency_from_ps(&[1_432_123; 1000]);
        for percent in [-1.0, 0.0, 0.001, 50.0, 99.999, 100.0, 200.0] {
            assert_eq!(latency.percentile(percent), Span::from_ps(1_432_123), "{percent} %");
        }
        assert_eq!(latency.standard_deviation_ns(), 0.0);
        assert_eq!(latency.mean(), Span::from_ps(1_432_123));
    }

    #[test]
    fn percentiles_have_three_digits_of_precision_up_to_100_s() {
        for exponent in 3..=14 {
            let ps = 10_u64.pow(exponent) / 7 * 9;
            let latency = latency_from_ps(&[ps, Span::from_s(1000).as_ps()]);
            let error = latency.percentile(50.0).as_ps().abs_diff(ps);
            assert!(error * 1000 <= ps, "{ps} ps is off by {error} ps");
        }
    }

    #[test]
    fn deviation_is_exact_for_a_mean_a_billion_times_larger() {
        let base = Span::from_s(1).as_ps();
        let latency = latency_from_ps(&[base, base + 1000, base + 2000]);
        assert_eq!(latency.standard_deviation_ns(), 1.0);
        assert_eq!(latency.mean(), Span::from_ps(base + 1000));
        let uneven = latency_from_ps(&[base, base + 1]);
        assert_eq!(uneven.standard_deviation_ns(), 0.5_f64.sqrt() / 1e3);
        assert_eq!(uneven.mean(), Span::from_ps(base + 1));
    }

    #[test]
    fn longest_spans_do_not_overflow_the_histogram() {
        let latency = latency_from_ps(&[u64::MAX, u64::MAX, 0]);
        assert_eq!(latency.max(), Span::from_ps(u64::MAX));
        assert_eq!(latency.percentile(100.0), Span::from_ps(u64::MAX));
        assert_eq!(latency.min(), Span::ZERO);
        assert!(latency.standard_deviation_ns().is_finite());
    }

    #[test]
    fn percentile_without_a_sample_beyond_it_is_unknown() {
        let latency = latency_from_ps(&(1..=1000).map(|n| n * 1000).collect::<Vec<_>>());
        assert_eq!(latency.samples_beyond(99.9), 1);
        assert_eq!(latency.samples_beyond(99.999), 0);
        assert_eq!(latency.samples_beyond(50.0), 500);
        assert!(latency.supported_percentile(99.9).is_some());
        assert_eq!(latency.supported_percentile(99.999), None);
    }

    #[test]
    fn percentile_rank_is_exact_for_rounding_binary_fractions() {
        for (count, percent, rank) in
            [(20_000, 99.9, 19_980), (1000, 99.9, 999), (700, 7.0, 49), (3, 33.0, 1), (1, 0.1, 1)]
        {
            let latency = latency_from_ps(&(1..=count).collect::<Vec<u64>>());
            let exact = latency_from_ps(&[rank]).max();
            let error = latency.percentile(percent).as_ps() - exact.as_ps();
            assert!(error * 1000 < rank.max(1000) && (rank > 2048 || error == 0), "{percent} % of {count}: {error}");
        }
    }

    #[test]
    fn percentile_needs_ten_independent_samples_beyond_it() {
        let latency = latency_from_ps(&(1..=1000).map(|n| n * 1_000_000).collect::<Vec<_>>());
        let p99 = latency.estimate(99.0).unwrap();
        assert_eq!(p99.effective, 1000.0);
        let us = [p99.low, p99.value, p99.high].map(|span| span.as_us().round());
        assert_eq!(us, [983.0, 990.0, 997.0]);
        assert_eq!(latency.estimate(99.9), Err(TooFewRequests { counted: 1000, needed: 10_000 }));
        assert_eq!(Latency::default().estimate(50.0), Err(TooFewRequests { counted: 0, needed: 20 }));
    }

    /// Returns latencies of an autoregressive process of first order with standard deviation 15 us around 100 us, of
    /// which one ends each 10 us.
    fn correlated_latencies(seed: u64, memory: f64, requests: u64) -> Latency {
        let mut random = Random::stream(seed, "series");
        let (mut last, mut latency) = (0.0, Latency::default());
        for number in 0..requests {
            let normal: f64 = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
            last = memory * last + (1.0 - memory * memory).sqrt() * normal;
            latency.record_at(Span::from_ns_f64(100_000.0 + 15_000.0 * last), Time::from_ps(number * 10_000_000));
        }
        latency
    }

    #[test]
    fn percentile_intervals_cover_the_true_value_as_stated() {
        // Expected quantiles of a sum of twelve uniform numbers (excess kurtosis -0.1) or, with memory, of nearly a
        // normal distribution.
        for (memory, percent, quantile) in [(0.0, 99.0, 2.303), (0.9, 99.0, 2.324), (0.98, 90.0, 1.2816)] {
            let known: Vec<_> =
                (0..120).filter_map(|seed| correlated_latencies(seed, memory, 20_000).estimate(percent).ok()).collect();
            assert!(known.len() > 100, "{memory}: {} runs know", known.len());
            let truth = Span::from_ns_f64(100_000.0 + 15_000.0 * quantile);
            let holds = known.iter().filter(|known| (known.low..=known.high).contains(&truth)).count();
            let share = holds as f64 / known.len() as f64;
            assert!((0.9..=0.995).contains(&share), "{memory}: {share}");
            let effective = known.iter().map(|known| known.effective).sum::<f64>() / known.len() as f64;
            assert!(memory > 0.0 || effective > 17_000.0, "{effective} of 20,000 independent requests");
            assert!(memory < 0.9 || effective < 8_000.0, "{memory}: {effective} of 20,000 requests");
        }
    }

    #[test]
    fn mean_beyond_a_percentile_averages_the_slowest() {
        let latency = latency_from_ps(&(1..=300).map(|ns| Span::from_ns(ns).as_ps()).collect::<Vec<u64>>());
        let of_three = latency.mean_beyond_ns(99.0).unwrap();
        assert!((299.0..299.3).contains(&of_three), "{of_three}");
        assert_eq!(latency_from_ps(&[5_000; 100]).mean_beyond_ns(99.0), Some(5.0));
        assert_eq!(latency_from_ps(&[5_000; 99]).mean_beyond_ns(99.0), None);
    }

    #[test]
    fn count_between_excludes_its_upper_end() {
        let latency = latency_from_ps(&[1, 2, 2, 4].map(|us| Span::from_us(us).as_ps()));
        assert_eq!(latency.count_between(Span::from_us(1), Span::from_us(2)), 1);
        assert_eq!(latency.count_between(Span::from_us(2), Span::from_us(4)), 2);
        assert_eq!(latency.count_between(Span::from_us(4), Span::from_us(4)), 0);
        assert_eq!(latency.count_between(Span::from_us(4), Span::MAX), 1);
    }

    #[test]
    #[ignore = "measures the machine: run in release with --ignored --nocapture"]
    fn recording_a_latency_takes_less_than_10_ns() {
        const RECORDS: u64 = 5_000_000;
        let mut latency = Latency::default();
        let mut round = || {
            let start = std::time::Instant::now();
            for n in 0..RECORDS {
                latency.record(Span::from_ps(1_000_000 + (n.wrapping_mul(0x9e37_79b9) & 0xf_ffff)));
            }
            start.elapsed().as_secs_f64() * 1e9 / RECORDS as f64
        };
        let each_ns = (0..10).map(|_| round()).fold(f64::INFINITY, f64::min);
        println!("{each_ns:.2} ns a record, {} counted", latency.count());
        assert!(each_ns < 10.0, "{each_ns} ns");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn merged_distributions_equal_a_single_one(
            left in prop::collection::vec(0..10_u64.pow(13), 0..40),
            right in prop::collection::vec(0..10_u64.pow(10), 0..40),
        ) {
            let mut merged = latency_from_ps(&left);
            merged.merge(&latency_from_ps(&right));
            let whole = latency_from_ps(&[left, right].concat());
            prop_assert_eq!(merged.standard_deviation_ns(), whole.standard_deviation_ns());
            prop_assert_eq!((merged.min(), merged.max(), merged.mean()), (whole.min(), whole.max(), whole.mean()));
            prop_assert_eq!((merged.count(), merged.sum_ps()), (whole.count(), whole.sum_ps()));
            for percent in [1.0, 50.0, 90.0, 99.0] {
                prop_assert_eq!(merged.percentile(percent), whole.percentile(percent));
            }
        }

        #[test]
        fn difference_of_distributions_is_what_was_counted_later(
            first in prop::collection::vec(0..10_u64.pow(10), 0..40),
            later in prop::collection::vec(0..10_u64.pow(13), 1..40),
        ) {
            let rest = latency_from_ps(&[first.clone(), later.clone()].concat()).without(&latency_from_ps(&first));
            let alone = latency_from_ps(&later);
            prop_assert_eq!((rest.count(), rest.sum_ps(), rest.standard_deviation_ns()), (alone.count(), alone.sum_ps(), alone.standard_deviation_ns()));
            for percent in [1.0, 50.0, 99.0] {
                let (found, wanted) = (rest.percentile(percent).as_ps(), alone.percentile(percent).as_ps());
                prop_assert!(found.abs_diff(wanted) * 1000 <= wanted, "{} for {}", found, wanted);
            }
        }

        #[test]
        fn percentiles_equal_sorted_samples_within_0_1_percent(
            mut spans in prop::collection::vec(1..10_u64.pow(12), 1..80),
            percent in 0.0..100.0,
        ) {
            let measured = latency_from_ps(&spans).percentile(percent).as_ps();
            spans.sort_unstable();
            let rank = (percent / 100.0 * spans.len() as f64).ceil().max(1.0) as usize;
            let exact = spans[rank - 1];
            prop_assert!(measured >= exact && (measured - exact) * 1000 <= exact, "{measured} for {exact}");
        }
    }
}
