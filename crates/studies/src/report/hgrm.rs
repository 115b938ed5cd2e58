//! Latency distribution in the format of HdrHistogram's tools (`.hgrm`), which their plotters draw.

use std::fmt::Write;

use phaselink_core::ledger::Latency;
use phaselink_core::number::real;
use phaselink_core::time::Span;

/// Number of percentiles that are printed for each halving of the distance to 100 %, which is the default of
/// HdrHistogram's tools.
const TICKS_PER_HALF_DISTANCE: f64 = 5.0;
/// Number of latency classes below 2048 ps, each 1 ps wide; each doubling above has 1024 classes. `BUCKETS` counts the
/// range below 2048 ps and all doublings.
const SUB_BUCKETS: u64 = 2048;
const BUCKETS: u32 = u64::BITS - 10;

/// Returns the percentile distribution of a latency as text, in microseconds with three decimals.
///
/// The lines are those of HdrHistogram's `outputPercentileDistribution`: a value, the share of latencies that do not
/// exceed it, the number of these latencies, and one over the share beyond.
pub fn hgrm(latency: &Latency) -> String {
    let mut text = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    let count = latency.count();
    let (mut percent, mut below) = (0.0, 0);
    for (longest, held) in latency.classes() {
        below += held;
        // Write one line for each percentile step that ends in this class, but only one for the last class. The line of
        // 100 % follows the loop.
        while percent <= share(below, count) {
            line(&mut text, longest, percent, below);
            percent = next(percent);
            if below == count {
                break;
            }
        }
    }
    if count > 0 {
        let _ = writeln!(text, "{:12.3} {:.12} {count:10}", microseconds_of_span(latency.max()), 1.0);
    }
    let (mean, deviation, max) =
        (latency.mean_ns() / 1e3, latency.standard_deviation_ns() / 1e3, microseconds_of_span(latency.max()));
    let _ = writeln!(text, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
    let _ = writeln!(text, "#[Max     = {max:12.3}, Total count    = {count:12}]");
    let _ = writeln!(text, "#[Buckets = {BUCKETS:12}, SubBuckets     = {SUB_BUCKETS:12}]");
    text
}

fn line(text: &mut String, value: Span, percent: f64, below: u64) {
    let (share, beyond) = (percent / 100.0, 1.0 / (1.0 - percent / 100.0));
    let _ = writeln!(text, "{:12.3} {share:.12} {below:10} {beyond:14.2}", microseconds_of_span(value));
}

/// Returns `below` as a share of `count`, in per cent.
fn share(below: u64, count: u64) -> f64 {
    100.0 * real(below) / real(count)
}

/// Returns the next percentile to be printed, in per cent: a fifth of the way to the point at which half of the
/// distance to 100 % is left.
fn next(percent: f64) -> f64 {
    let halvings = libm::floor(libm::log2(100.0 / (100.0 - percent))) + 1.0;
    percent + 100.0 / (TICKS_PER_HALF_DISTANCE * libm::pow(2.0, halvings))
}

fn microseconds_of_span(span: Span) -> f64 {
    span.as_ns() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn hgrm_lines_match_hdr_histogram_tools() {
        let mut latency = Latency::default();
        (1..=16).for_each(|us| latency.record(Span::from_us(us)));
        expect![[r#"
                   Value     Percentile TotalCount 1/(1-Percentile)

                   1.000 0.000000000000          1           1.00
                   2.001 0.100000000000          2           1.11
                   4.002 0.200000000000          4           1.25
                   5.001 0.300000000000          5           1.43
                   7.000 0.400000000000          7           1.67
                   8.004 0.500000000000          8           2.00
                   9.003 0.550000000000          9           2.22
                  10.002 0.600000000000         10           2.50
                  11.002 0.650000000000         11           2.86
                  12.001 0.700000000000         12           3.33
                  12.001 0.750000000000         12           4.00
                  13.001 0.775000000000         13           4.44
                  13.001 0.800000000000         13           5.00
                  14.000 0.825000000000         14           5.71
                  14.000 0.850000000000         14           6.67
                  14.000 0.875000000000         14           8.00
                  15.008 0.887500000000         15           8.89
                  15.008 0.900000000000         15          10.00
                  15.008 0.912500000000         15          11.43
                  15.008 0.925000000000         15          13.33
                  15.008 0.937500000000         15          16.00
                  16.000 0.943750000000         16          17.78
                  16.000 1.000000000000         16
            #[Mean    =        8.500, StdDeviation   =        4.761]
            #[Max     =       16.000, Total count    =           16]
            #[Buckets =           54, SubBuckets     =         2048]
        "#]]
        .assert_eq(&hgrm(&latency));
    }

    #[test]
    fn empty_hgrm_has_only_header_and_footer() {
        let text = hgrm(&Latency::default());
        assert_eq!(text.lines().count(), 5);
        assert!(text.contains("Total count    =            0]") && !text.contains("NaN"), "{text}");
    }
}
