use super::batches::{RunSlices, correlation, half_width, warm_up};
use super::*;
use phaselink_core::drive::Drive;
use phaselink_core::random::Random;
use phaselink_core::time::Span;
use phaselink_core::workload::Job;

/// Random latencies around 40 us, each correlated with the previous one by `memory`: an autoregressive process of first
/// order.
struct Series {
    random: Random,
    memory: f64,
    last: f64,
}

impl Series {
    fn new(seed: u64, memory: f64) -> Series {
        Series { random: Random::stream(seed, "series"), memory, last: 0.0 }
    }

    /// Returns the next latency in nanoseconds. Its random part is the sum of twelve uniform numbers, nearly normal
    /// with deviation 1.
    fn next_ns(&mut self) -> f64 {
        let normal: f64 = (0..12).map(|_| self.random.unit()).sum::<f64>() - 6.0;
        self.last = self.memory * self.last + 3000.0 * normal;
        40_000.0 + self.last
    }

    fn slices(&mut self, count: usize, ios: u64, drift_ns: impl Fn(usize) -> f64) -> RunSlices {
        let mut slices = RunSlices::of(ios);
        for place in 0..count {
            let mut slice = Latency::default();
            (0..ios).for_each(|_| slice.record(Span::from_ns_f64(self.next_ns() + drift_ns(place))));
            slices.add(slice);
        }
        slices
    }
}

fn still(_: usize) -> f64 {
    0.0
}

#[test]
fn half_width_matches_the_variance_of_a_correlated_series() {
    // For large n, the mean of n such values has the variance (3000 / (1 - memory))^2 / n.
    let (seeds, memory, slices, ios) = (40, 0.8, 80, 400);
    let widths: Vec<f64> = (0..seeds)
        .filter_map(|seed| Series::new(seed, memory).slices(slices, ios, still).estimate().ok())
        .map(|estimate| estimate.mean.half_width_ns)
        .collect();
    let mean = widths.iter().sum::<f64>() / widths.len() as f64;
    let deviation = 3000.0 / (1.0 - memory) / (slices as f64 * ios as f64).sqrt();
    let ratio = mean / (2.093 * deviation);
    assert!((0.9..1.15).contains(&ratio), "{ratio} over {} runs", widths.len());
}

#[test]
fn confidence_interval_covers_the_true_mean_and_p99_as_stated() {
    for memory in [0.0, 0.9] {
        let estimates: Vec<PrecisionEstimate> =
            (0..200).filter_map(|seed| Series::new(seed, memory).slices(64, 800, still).estimate().ok()).collect();
        assert!(estimates.len() > 150, "{memory}: {} runs know", estimates.len());
        // The 99th percentile of a normal distribution is 2.326 deviations above its mean. The sum of twelve uniform
        // numbers has an excess kurtosis of -0.1, so there it is 2.303, or 2.324 with a memory of 0.9 (Cornish and
        // Fisher 1938).
        let deviation = 3000.0 / (1.0_f64 - memory * memory).sqrt();
        let p99_ns = 40_000.0 + deviation * if memory == 0.0 { 2.303 } else { 2.324 };
        let holds = |known: &dyn Fn(&PrecisionEstimate) -> KnownFigure, truth: f64| {
            let inside =
                estimates.iter().map(known).filter(|known| (known.value_ns - truth).abs() <= known.half_width_ns);
            inside.count() as f64 / estimates.len() as f64
        };
        let (mean, p99) = (holds(&|estimate| estimate.mean, 40_000.0), holds(&|estimate| estimate.p99, p99_ns));
        assert!((0.9..=0.985).contains(&mean), "{memory}: {mean}");
        // The classes of the latency histogram make the interval wider.
        assert!(p99 >= 0.9, "{memory}: {p99}");
    }
}

#[test]
fn warm_up_requests_are_detected_and_excluded() {
    let warming = |place: usize| if place < 9 { 50_000.0 - 5_000.0 * place as f64 } else { 0.0 };
    let estimate = Series::new(3, 0.5).slices(80, 400, warming).estimate().unwrap();
    assert!((8 * 400..=12 * 400).contains(&estimate.warm_up_ios), "{}", estimate.warm_up_ios);
    assert!((estimate.mean.value_ns - 40_000.0).abs() < 2.0 * estimate.mean.half_width_ns, "{:?}", estimate.mean);
    let settled = Series::new(3, 0.5).slices(80, 400, still).estimate().unwrap();
    assert!(settled.warm_up_ios < 12 * 400, "{}", settled.warm_up_ios);
}

#[test]
fn too_short_run_states_why_precision_is_unknown() {
    let few = Series::new(1, 0.0).slices(30, 400, still).estimate();
    assert_eq!(few, Err(TooShort::Requests));
    // In each of twenty batches of 800 requests, only eight are beyond the p99.
    let no_tail = Series::new(1, 0.0).slices(40, 400, still).estimate();
    assert_eq!(no_tail, Err(TooShort::Requests));
    let drifting = Series::new(1, 0.0).slices(80, 400, |place| place as f64 * 1500.0).estimate();
    assert_eq!(drifting, Err(TooShort::WarmUp));
    let slow = Series::new(2, 0.9999).slices(80, 400, still).estimate();
    assert!(slow == Err(TooShort::Correlated) || slow == Err(TooShort::WarmUp), "{slow:?}");
}

#[test]
fn equal_latencies_have_a_zero_width_interval() {
    assert_eq!((half_width(&[5.0; 20]), correlation(&[5.0; 20]), warm_up(&[5.0; 40])), (0.0, 0.0, Some(0)));
}

#[test]
fn merging_slices_in_pairs_keeps_the_estimate() {
    let mut slices = Series::new(5, 0.5).slices(80, 800, still);
    let before = slices.estimate().unwrap();
    slices.pair();
    assert_eq!((slices.count(), slices.ios_per_slice()), (40, 1600));
    let after = slices.estimate().unwrap();
    assert!((before.mean.value_ns - after.mean.value_ns).abs() < before.mean.half_width_ns);
}

#[test]
fn simulation_stops_as_soon_as_the_precision_goal_is_met() {
    let drive = Drive::shipped("nvme").unwrap();
    let run = |ios| {
        let jobs = [Job { ios: Some(ios), iodepth: 8, read_percent: 70.0, ..Job::named("mixed") }];
        let mut simulation = Simulation::new(&drive, &jobs, 1).unwrap();
        let mut measurement = Measurement::until_precision(0.05);
        while measurement.advance(&mut simulation) {}
        (measurement.is_known(), measurement.estimate(), simulation.latency().count())
    };
    let (is_known, estimate, ios) = run(10_000_000);
    assert!(is_known && estimate.unwrap().is_within(0.05) && ios < 1_000_000, "{estimate:?} after {ios}");
    assert_eq!(run(5000), (false, Err(TooShort::Requests), 5000));
}
