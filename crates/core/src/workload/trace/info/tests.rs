//! Tests that the statistics of a trace are those that were written into it.

use super::*;
use crate::workload::trace::read;

fn of(text: &str, device: Option<&str>) -> Result<TraceStatistics, String> {
    let selection = TraceSelection { device: device.map(String::from), format: None };
    info(&[File::in_memory("t", text.as_bytes())], &selection).map_err(|problems| problems.to_string())
}

const TWO_DEVICES: &str = "\
a,R,0,4096,1000000
a,R,4096,4096,1500000
b,W,512,512,1600000
a,W,8192,65536,3000000
a,R,4096,4096,3000001
";

/// Returns a trace of two devices, which have numbers for names.
fn trace_of_two_devices() -> String {
    TWO_DEVICES.replace('a', "10").replace('b', "20")
}

#[test]
fn trace_statistics_cover_all_or_the_chosen_device() {
    let all = of(&trace_of_two_devices(), None).expect("a trace");
    assert_eq!((all.format, all.device.clone()), (Format::Alibaba, None));
    assert_eq!(all.devices, [("10".into(), 4), ("20".into(), 1)]);
    assert_eq!((all.summary.count, all.reads(), all.read_bytes, all.written_bytes), (5, 3, 12288, 66048));
    assert_eq!((all.summary.granule_bytes, all.aligned, all.sequential), (512, 4, 2));
    assert_eq!(all.footprint.blocks, 19);
    let one = of(&trace_of_two_devices(), Some("10")).expect("a trace");
    assert_eq!((one.summary.count, one.span, one.busiest_second), (4, Span::from_ps(2_000_001_000_000), 2));
    assert_eq!((one.summary.granule_bytes, one.summary.end_bytes, one.depth), (4096, 73728, None));
    assert_eq!([50, 75, 76, 100].map(|percent| one.size_percentile(percent)), [4096, 4096, 65536, 65536]);
    assert_eq!(
        of(&trace_of_two_devices(), Some("3")),
        Err("t: Alibaba CSV without any read or write of device `3`; allowed: at least one".into())
    );
}

#[test]
fn trace_statistics_equal_those_of_the_replay() {
    let text = trace_of_two_devices();
    let selection = TraceSelection { device: Some("10".into()), format: None };
    let trace = read(&[File::in_memory("t", text.as_bytes())], &selection).expect("right");
    assert_eq!(of(&text, Some("10")).expect("a trace").summary, *trace.requests.summary());
}

#[test]
fn depth_from_issues_and_completions_counts_requests_once() {
    let event = |seconds: &str, action: &str, rest: &str| format!("8,0 0 1 {seconds} 1 {action} R {rest}\n");
    let text = [
        event("0.0", "D", "0 + 8 [x]"),
        event("0.1", "Q", "0 + 8 [x]"),
        event("1.0", "D", "8 + 8 [x]"),
        event("1.0", "Q", "8 + 8 [x]"),
        event("2.0", "C", "0 + 8 [0]"),
        event("2.1", "C", "8 + 8 [0]"),
    ];
    let found = of(&text.concat(), None).expect("a trace");
    assert_eq!((found.summary.count, found.sequential), (2, 1));
    let depth = found.depth.expect("a depth");
    assert_eq!(depth.most, Some(2));
    // The requests are in flight for 3.1 s in total, over 0.9 s between the first and the last request.
    assert!((depth.mean - 3.1 / 0.9).abs() < 1e-9, "{depth:?}");
}

#[test]
fn wrong_issue_lines_matter_only_without_queue_events() {
    let issue = "8,0 0 1 0.0 1 D R 36 (12 01)\n";
    let queued = "8,0 0 1 0.1 1 Q R 0 + 8 [x]\n";
    assert_eq!(of(&[issue, queued, issue].concat(), None).expect("queued").summary.count, 1);
    assert!(of(issue, None).expect_err("no queueing").contains("t:1: an event without its sectors"));
}

#[test]
fn depth_from_responses_follows_littles_law() {
    let found = of("128166372003061629,u,0,Read,0,512,50\n128166372003061729,u,0,Read,0,512,150\n", None).expect("MSR");
    let depth = found.depth.expect("a depth");
    assert_eq!((depth.mean, depth.most, depth.response), (2.0, None, Span::from_us(10)));
}

#[test]
fn trace_mistakes_are_reported_with_lines() {
    assert_eq!(
        of("1,R,0,512,1\n1,R,0\n", None).expect_err("wrong").lines().next(),
        Some("t:2: 3 fields; allowed: 5: device_id,opcode,offset,length,timestamp")
    );
    assert_eq!(of(&format!("1,R,0,512,1\n{}", "x\n".repeat(100)), None).expect_err("wrong").lines().count(), 21);
}
