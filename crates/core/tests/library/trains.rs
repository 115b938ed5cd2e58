//! Train against packet granularity: the same drive and job in both modes, over a seeded sample of descriptions.
//!
//! What was measured over some 3,000 descriptions, and is held here with a margin:
//!
//! | case | agreement | why not exact |
//! |---|---|---|
//! | one request at a time, NVMe, full duplex, no DLLPs | exact, every number of the outcome | |
//! | one DC Express read at a time, no DLLPs | 2 %, exact in most | arbitration of packets that are queued in the same instant |
//! | late writes under strict ordering | 4 % | a hold reaches back to the credits of packets that a train has sent already |
//! | one non-posted credit | 2 % | a burst of read requests counts as arriving back to back, so that memory answers it later |
//! | reads at depth, NVMe, no DLLPs | 1e-3 | arbitration, as above |
//! | reads at depth, DC Express, no DLLPs | 2 % | a few nanoseconds decide which queue read finds what |
//! | reads mixed with writes at depth, no DLLPs | 5 % | as the two cases that it mixes |
//! | an ingress slower than the wire, one at a time | 1 % | the credits of a train return as a run |
//! | writes at depth, NVMe | 10 % (short runs; 3 % beyond 100 writes) | fetches and reads of data are bursts that wait for each other |
//! | DLLPs, NVMe, reads | 1 % | a train pays what it owes in DLLPs at its start, packets pay as they go |
//! | DLLPs, DC Express reads | 25 % | the same few nanoseconds decide which queue read finds a command; at small sizes that is one period of polling |
//! | DLLPs on a shared wire | 10 % | acknowledgements of a train go after it, not between its packets |

use std::fmt::Debug;

use crate::common::{drive, run};
use phaselink_core::ledger::Outcome;
use phaselink_core::random::Random;

/// What one case holds fixed; the rest is drawn.
struct Sample<'a> {
    drives: &'a [&'a str],
    directions: &'a [&'a str],
    depths: &'a [u32],
    /// Always set, and one of the others.
    set: &'a [&'a str],
    one_of: &'a [&'a str],
    count: u32,
}

const ANY_DEPTH: &[u32] = &[2, 4, 8, 16, 32, 63, 64];
const ONE: &[u32] = &[1];
const NVME: &[&str] = &["nvme", "nvme-polled"];
const ALL_DRIVES: &[&str] = &["nvme", "nvme-polled", "dc-express"];
/// What may vary without making a difference.
const PLAIN: &[&str] =
    &["", "media.preset=dram", "link.bit_error_rate=1e-7", "link.posted_data_credits=256", "stack.preset=user-space"];

fn choose_random_value<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[(random.bits() % of.len() as u64) as usize]
}

/// A drive's name, its overrides, and a job.
type Case = (String, Vec<String>, String);

fn draw_random_case(random: &mut Random, sample: &Sample) -> Case {
    let name = choose_random_value(random, sample.drives);
    let sizes: &[u32] = match name {
        "dc-express" => &[8, 64, 200, 512, 4096, 8192, 65_536, 1 << 20],
        _ => &[512, 1024, 4096, 8192, 16_384, 131_072, 1 << 20],
    };
    let (bytes, depth) = (choose_random_value(random, sizes), choose_random_value(random, sample.depths));
    // Writes must cover whole blocks.
    let bytes = if sample.directions == ["randread"] { bytes } else { bytes.next_multiple_of(512) };
    let depth = if name == "dc-express" { depth.min(63) } else { depth };
    let ios = if bytes > 100_000 { 6 } else { 80 };
    let mut set: Vec<String> = sample.set.iter().map(|text| text.to_string()).collect();
    set.push(format!("link.generation={}", choose_random_value(random, &[1, 2, 3, 4, 5, 6])));
    set.push(format!("link.lanes={}", choose_random_value(random, &[1, 2, 4, 8])));
    set.push(format!("link.max_payload_bytes={}", choose_random_value(random, &[128, 256, 512, 4096])));
    // Writes must be too fast to hide the link, or to let the driver mistake a slow read for a lost one.
    set.extend(["media.program_ns=1000", "dc_express.max_latency_us=10000"].map(String::from));
    // The root complex accepts packets faster than they arrive. One test overrides this.
    set.push("root_complex.write_accept_ns=1".into());
    set.extend(Some(choose_random_value(random, sample.one_of)).filter(|text| !text.is_empty()).map(String::from));
    (
        name.into(),
        set,
        format!("rw={} bs={bytes} iodepth={depth} number_ios={ios}", choose_random_value(random, sample.directions)),
    )
}

fn run_in_trains_and_in_packets((name, set, job): &Case) -> [Outcome; 2] {
    ["train", "packet"].map(|granularity| {
        let granularity = format!("link.granularity={granularity}");
        let set: Vec<&str> = set.iter().map(String::as_str).chain([granularity.as_str()]).collect();
        let mut outcome = run(&drive(name, &set), job);
        assert!(outcome.finished, "{job} on {name} with {set:?}");
        outcome.events = 0;
        outcome
    })
}

/// Both modes for every description of a sample, with the description.
fn compare_trains_with_packets(seed: u64, sample: &Sample, check: impl Fn(&Outcome, &Outcome, &dyn Debug)) {
    let mut random = Random::stream(seed, "descriptions");
    for _ in 0..sample.count {
        let case = draw_random_case(&mut random, sample);
        let [train, packet] = run_in_trains_and_in_packets(&case);
        check(&train, &packet, &case);
    }
}

/// Largest relative difference in the length of the run and in the mean latency of either direction.
fn max_relative_difference(one: &Outcome, other: &Outcome) -> f64 {
    let numbers = |outcome: &Outcome| {
        let job = &outcome.jobs[0];
        [outcome.elapsed.as_ns(), (job.read.total.sum_ps() + job.write.total.sum_ps()) as f64]
    };
    let pairs = numbers(one).into_iter().zip(numbers(other));
    pairs.map(|(one, other)| (one - other).abs() / other).fold(0.0, f64::max)
}

fn assert_difference_within(bound: f64) -> impl Fn(&Outcome, &Outcome, &dyn Debug) {
    move |train, packet, case| {
        assert_eq!(train.upstream.data_bytes, packet.upstream.data_bytes, "{case:?}");
        assert_eq!(train.downstream.data_bytes, packet.downstream.data_bytes, "{case:?}");
        let found = max_relative_difference(train, packet);
        assert!(found <= bound, "{found} for {case:?}");
    }
}

/// Every number but the count of events.
fn assert_identical_outcomes(train: &Outcome, packet: &Outcome, case: &dyn Debug) {
    assert_eq!(format!("{train:?}"), format!("{packet:?}"), "{case:?}");
}

#[test]
fn nvme_request_at_depth_one_has_equal_latency_in_trains_and_packets() {
    let directions = &["randread", "randwrite", "randrw"];
    let sample =
        Sample { drives: NVME, directions, depths: ONE, set: &["link.dllps=false"], one_of: PLAIN, count: 100 };
    compare_trains_with_packets(1, &sample, assert_identical_outcomes);
}

#[test]
fn trains_and_packets_send_equal_header_bytes_and_packet_counts() {
    let directions = &["randread", "randwrite", "randrw"];
    let sample = Sample { drives: NVME, directions, depths: ONE, set: &[], one_of: PLAIN, count: 60 };
    compare_trains_with_packets(2, &sample, |train, packet, case| {
        for (train, packet) in [(train.upstream, packet.upstream), (train.downstream, packet.downstream)] {
            let counts = |wire: phaselink_core::ledger::WireUse| {
                (wire.packets, wire.header_bytes, wire.command_bytes, wire.data_bytes)
            };
            assert_eq!(counts(train), counts(packet), "{case:?}");
        }
    });
}

#[test]
fn serial_dc_express_reads_without_dllps_agree_in_trains_and_packets() {
    let sample = Sample {
        drives: &["dc-express"],
        directions: &["randread"],
        depths: ONE,
        set: &["link.dllps=false"],
        one_of: &["", "media.preset=dram", "link.posted_data_credits=256", "link.non_posted_header_credits=1"],
        count: 60,
    };
    compare_trains_with_packets(3, &sample, assert_difference_within(0.02));
}

#[test]
fn serial_late_completing_writes_agree_within_four_per_cent() {
    let sample = Sample {
        drives: NVME,
        directions: &["randread", "randwrite"],
        depths: ONE,
        set: &["link.dllps=false", "root_complex.late_write_ratio=0.01"],
        one_of: &["", "link.posted_header_credits=8"],
        count: 40,
    };
    compare_trains_with_packets(4, &sample, assert_difference_within(0.04));
}

#[test]
fn runs_with_one_non_posted_credit_agree_within_two_per_cent() {
    let sample = Sample {
        drives: NVME,
        directions: &["randread", "randwrite"],
        depths: ONE,
        set: &["link.non_posted_header_credits=1"],
        one_of: &["link.dllps=true", "link.dllps=false"],
        count: 40,
    };
    compare_trains_with_packets(5, &sample, assert_difference_within(0.02));
}

#[test]
fn queued_reads_agree_within_a_thousandth_in_trains_and_packets() {
    let sample = Sample {
        drives: NVME,
        directions: &["randread"],
        depths: ANY_DEPTH,
        set: &["link.dllps=false"],
        one_of: PLAIN,
        count: 80,
    };
    compare_trains_with_packets(6, &sample, assert_difference_within(1e-3));
}

/// The endpoint times its queue reads by when data will have left, and a few nanoseconds decide which read finds what.
#[test]
fn queued_dc_express_reads_agree_within_two_per_cent() {
    let sample = Sample {
        drives: ALL_DRIVES,
        directions: &["randread"],
        depths: ANY_DEPTH,
        set: &["link.dllps=false"],
        one_of: PLAIN,
        count: 80,
    };
    compare_trains_with_packets(6, &sample, assert_difference_within(2e-2));
}

#[test]
fn queued_writes_agree_within_a_tenth_in_trains_and_packets() {
    let sample = Sample {
        drives: NVME,
        directions: &["randwrite"],
        depths: ANY_DEPTH,
        set: &[],
        one_of: &["", "link.dllps=false", "stack.preset=user-space", "link.posted_data_credits=256"],
        count: 80,
    };
    compare_trains_with_packets(11, &sample, assert_difference_within(0.1));
}

#[test]
fn link_acknowledgements_keep_nvme_reads_within_one_per_cent() {
    let sample = Sample {
        drives: NVME,
        directions: &["randread"],
        depths: &[1, 2, 4, 16, 64],
        set: &["link.dllps=true"],
        one_of: PLAIN,
        count: 60,
    };
    compare_trains_with_packets(7, &sample, assert_difference_within(0.01));
}

#[test]
fn link_acknowledgements_shift_dc_express_polling_by_less_than_a_quarter() {
    let sample = Sample {
        drives: &["dc-express"],
        directions: &["randread"],
        depths: &[1, 2, 4, 16, 63],
        set: &["link.dllps=true"],
        one_of: &["", "root_complex.late_write_ratio=0.01"],
        count: 80,
    };
    compare_trains_with_packets(8, &sample, assert_difference_within(0.25));
}

#[test]
fn link_acknowledgements_on_a_shared_wire_agree_within_a_tenth() {
    let sample = Sample {
        drives: NVME,
        directions: &["randread", "randwrite"],
        depths: &[1, 4, 32],
        set: &["link.dllps=true", "link.duplex=shared"],
        one_of: &[""],
        count: 60,
    };
    compare_trains_with_packets(9, &sample, assert_difference_within(0.1));
}

#[test]
fn queued_mixed_reads_and_writes_agree_within_five_per_cent() {
    let sample = Sample {
        drives: ALL_DRIVES,
        directions: &["randrw"],
        depths: ANY_DEPTH,
        set: &["link.dllps=false"],
        one_of: PLAIN,
        count: 120,
    };
    compare_trains_with_packets(10, &sample, assert_difference_within(0.05));
}

#[test]
fn slow_ingress_limits_packets_and_trains_equally() {
    let sample = Sample {
        drives: &["nvme-polled"],
        directions: &["randread"],
        depths: ONE,
        set: &["link.dllps=false"],
        one_of: &["root_complex.write_accept_ns=100"],
        count: 30,
    };
    compare_trains_with_packets(12, &sample, assert_difference_within(0.01));
}
