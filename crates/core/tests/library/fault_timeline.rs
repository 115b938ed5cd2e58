//! Faults of a timeline in runs: what each kind does, when, and to how many requests.

use crate::common::{drive, run};
use phaselink_core::ledger::Outcome;
use phaselink_core::time::{Span, Time};

const JOB: &str = "rw=randread bs=4k iodepth=4 number_ios=4000";

/// Outcome of a job on a polled drive with these lines of faults.
fn with(lines: &[&str], job: &str) -> Outcome {
    let lines: Vec<String> = lines.iter().map(|line| format!("'{line}'")).collect();
    run(&drive("optane-p5800x", &[&format!("fault_lines=[{}]", lines.join(", "))]), job)
}

fn counter(outcome: &Outcome, name: &str) -> u64 {
    outcome.counters.iter().find(|(counter, _)| *counter == name).map_or(0, |(_, count)| *count)
}

#[test]
fn stall_holds_requests_in_flight_until_its_end() {
    let (calm, stalled) = (with(&[], JOB), with(&["at=500us for=20ms stall"], JOB));
    let met = &stalled.faults[0];
    assert_eq!((met.line.as_str(), met.count), ("at=500us for=20ms stall", 4), "as many as are in flight");
    assert!(
        met.first.unwrap() >= Time::ZERO + Span::from_us(500) && met.last.unwrap() < Time::ZERO + Span::from_us(520)
    );
    assert_eq!((stalled.ios(), counter(&stalled, "fault_stalled_requests")), (4000, 4));
    let longer = stalled.elapsed.as_us() - calm.elapsed.as_us();
    assert!((longer - 20_000.0).abs() < 30.0, "{longer} us longer");
    assert!(stalled.jobs[0].read.total.max().as_us() > 19_980.0);
}

#[test]
fn stall_at_a_request_starts_with_that_request() {
    let stalled = with(&["at=request:100 for=5ms stall"], JOB);
    let met = &stalled.faults[0];
    assert_eq!(met.count, 4, "the 100th and those after it");
    assert!((stalled.jobs[0].read.total.max().as_us() - 5_000.0).abs() < 30.0);
}

#[test]
fn slow_down_multiplies_latency_and_divides_rate() {
    let one = "rw=randread bs=4k iodepth=1 number_ios=1000";
    let (calm, slow) = (with(&[], one), with(&["slow-down factor=10"], one));
    let device = |outcome: &Outcome| outcome.jobs[0].read.completion.mean().as_ns();
    let ratio = device(&slow) / device(&calm);
    assert!((9.0..10.1).contains(&ratio), "{ratio}");
    let some = with(&["at=request:11 for=50requests slow-down factor=10"], one);
    assert_eq!(some.faults[0].count, 50);
    let (fast, late) = (calm.jobs[0].read.total.mean(), some.jobs[0].read.total.max());
    assert!(late > fast * 8, "{late:?} {fast:?}");
}

#[test]
fn throttle_passes_requests_at_its_rate() {
    let throttled = with(&["throttle iops=10000"], "rw=randread bs=4k iodepth=16 number_ios=2001");
    assert!((throttled.elapsed.as_s() - 0.2).abs() < 0.0001, "2,000 intervals of 100 us: {}", throttled.elapsed);
    let bytes = with(&["throttle mib_per_s=100"], "rw=randwrite bs=64k iodepth=16 number_ios=161");
    assert!((bytes.elapsed.as_s() - 0.1).abs() < 0.0002, "10 MiB at 100 MiB/s: {}", bytes.elapsed);
    let returned = with(&["throttle iops=10000", "at=10ms return"], "rw=randread bs=4k iodepth=16 number_ios=2000");
    assert!(returned.elapsed.as_us() / 1e3 < 30.0 && returned.faults[0].count > 90, "{}", returned.elapsed);
}

#[test]
fn error_faults_fail_the_named_requests() {
    let failed = with(&["at=request:10 for=5requests error"], JOB);
    assert_eq!((failed.failed(), failed.ios(), failed.faults[0].count), (5, 3995, 5));
    let rate = with(&["error rate=0.1"], JOB);
    assert!((300..500).contains(&rate.failed()), "{}", rate.failed());
    assert_eq!(rate, with(&["error rate=0.1"], JOB), "a seed gives the same faults");
    let lost = with(&["at=request:10 lost-completion timeout=3ms"], JOB);
    assert_eq!((lost.failed(), lost.faults[0].count), (1, 1));
    let torn = with(&["at=request:10 torn-write"], "rw=randwrite bs=4k number_ios=100");
    assert_eq!(torn.failed(), 1);
}

#[test]
fn narrowed_link_recovers_after_its_time() {
    let job = "rw=randread bs=128k iodepth=8 number_ios=3000";
    let (calm, narrow) = (with(&[], job), with(&["link lanes=1 outage=10us"], job));
    assert!(narrow.elapsed.as_us() / 1e3 > 3.0 * calm.elapsed.as_us() / 1e3, "one lane of four");
    let for_a_while = with(&["at=1ms for=5ms link lanes=1 outage=10us"], job);
    // In 5 ms, a quarter of the lanes sends as much as all lanes in 1.25 ms.
    let longer = for_a_while.elapsed.as_us() / 1e3 - calm.elapsed.as_us() / 1e3;
    assert!((3.0..4.5).contains(&longer), "{longer} ms longer");
    assert_eq!(for_a_while.faults[0].count, 1);
}

#[test]
fn power_returns_after_its_time_or_a_return_line() {
    for lines in [&["at=1ms for=7ms power-cut"][..], &["at=1ms power-cut", "at=8ms return"]] {
        let cut = with(lines, JOB);
        assert_eq!((cut.failed(), cut.ios(), cut.faults[0].count), (0, 4000, 1));
        assert!(cut.jobs[0].read.total.max().as_us() > 6_990.0, "{lines:?}");
    }
}

#[test]
fn former_key_of_fault_lines_is_accepted() {
    let read = |key: &str| drive("optane-p5800x", &[&format!("{key}=[\"at=2ms for=5ms stall\"]")]).faults;
    assert_eq!(read("trouble"), read("fault_lines"));
    assert_eq!(read("trouble").len(), 1);
}
