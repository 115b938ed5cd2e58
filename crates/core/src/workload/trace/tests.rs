//! Tests that each format is detected by content and read as its documentation says.

use super::*;
use crate::request::{Io, Op};
use crate::time::Time;
use proptest::prelude::*;

mod formats;

const BLKPARSE: &str = "\
Input file sda.blktrace.0 added
  8,0    3        1     1.000000000   697  A   W 223490 + 8 <- (8,3) 30
  8,0    3        2     1.000000417   697  Q   W 223490 + 8 [kjournald]
  8,0    3        3     1.000004000   697  G   W 223490 + 8 [kjournald]
  8,0    3        4     1.000004100   697  P   N [kjournald]
  8,0    1        5     1.000002417     0  Q  RA 8 + 1 [cat]
  8,0    3        6     1.000005000   697  U   N [kjournald] 1
  8,0    3        7     1.000005100   697  D   W 223490 + 8 [kjournald]
  8,0    3        8     1.000005500   697  Q FWS [kjournald]
  8,0    3        9     1.000005600   697  Q  DS 1000 + 2048 [fstrim]
  8,0    3       10     1.000005700   697  m   N cfq697 alloced
  8,0    3       11     1.000009100     0  C   W 223490 + 8 [0]
CPU3 (sda):
 Reads Queued:           0,        0KiB
";

const MSR: &str = "\
128166372003061629,usr,0,Read,7014609920,24576,41286
128166372016382155,usr,0,Write,2517843968,4096,703
128166372016382154,usr,0,Write,0,512,703
";

fn read(text: &str) -> Trace {
    parse("t", text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn problems(text: &str) -> Vec<String> {
    parse("t", text).expect_err("wrong").0.iter().map(ToString::to_string).collect()
}

fn ios(trace: &Trace) -> Vec<TimedTraceRequest> {
    trace.requests.iter().collect()
}

fn flush(ps: u64) -> TimedTraceRequest {
    TimedTraceRequest { at: Time::from_ps(ps), io: Io::flush() }
}

fn entry(ps: u64, op: Op, offset: u64, bytes: u32) -> TimedTraceRequest {
    TimedTraceRequest { at: Time::from_ps(ps), io: Io { op, offset, bytes } }
}

#[test]
fn blkparse_queue_events_are_sorted_by_time() {
    let trace = read(BLKPARSE);
    assert_eq!(trace.format, Format::Blkparse);
    let data = [entry(0, Op::Write, 223_490 * 512, 4096), entry(2_000_000, Op::Read, 8 * 512, 512)];
    assert_eq!(ios(&trace), [data[0], data[1], flush(5_083_000)]);
    assert_eq!((trace.requests.count(), trace.requests.summary().flushes), (2, 1));
    assert_eq!(trace.left_out, [("discards", 1)]);
}

#[test]
fn write_flags_become_flushes_around_the_write() {
    let line = |second: u32, rwbs: &str| format!("8,0 1 1 {second}.0 1 Q {rwbs} 8 + 8 [x]\n");
    let text = line(1, "R") + &line(2, "FWS") + &line(3, "WFS") + &line(4, "FWFSM");
    let ops: Vec<Op> = ios(&read(&text)).iter().map(|entry| entry.io.op).collect();
    use Op::{Flush, Read, Write};
    assert_eq!(ops, [Read, Flush, Write, Write, Flush, Flush, Write, Flush]);
}

#[test]
fn flushes_before_the_first_request_are_dropped() {
    let text = "fio version 3 iolog\n0 j add\n1 j sync 0 0\n2 j write 0 512\n3 j sync 0 0\n4 j write 0 512\n";
    let files = [File::in_memory("t", text.as_bytes())];
    let kept = read(text);
    let streamed = read_trace_keeping(&files, &TraceSelection::default(), 1).expect("an iolog");
    assert!(streamed.requests.are_read_from_files() && !kept.requests.are_read_from_files());
    assert_eq!(ios(&kept), [entry(0, Op::Write, 0, 512), flush(1_000_000), entry(2_000_000, Op::Write, 0, 512)]);
    assert_eq!(ios(&kept), ios(&streamed));
    assert_eq!(streamed.requests.failure(), None);
}

#[test]
fn blkparse_without_queue_events_uses_issues() {
    let text: String = BLKPARSE
        .lines()
        .filter(|line| !line.contains("  Q ") && !line.contains(" Q FWS"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(ios(&read(&text)), [entry(0, Op::Write, 223_490 * 512, 4096)]);
}

#[test]
fn iolog_version_3_has_timestamps_in_us() {
    let text = "fio version 3 iolog\n19 j add\n100 j open\n104 j write 0 4096\n1093 j read 28672 512\n1100 j sync 0 0\n9101 j close\n";
    let trace = read(text);
    assert_eq!(trace.format, Format::FioIolog3);
    assert_eq!(
        ios(&trace),
        [entry(0, Op::Write, 0, 4096), entry(989_000_000, Op::Read, 28672, 512), flush(996_000_000)]
    );
    assert_eq!(trace.left_out, []);
}

#[test]
fn iolog_version_2_has_waits_and_drops_short_ones() {
    let text = "fio version 2 iolog\nd add\nd open\nd read 0 512\nd wait 100 0\nd wait 99\nd write 512 512\nd trim 0 512\nd datasync\n";
    let trace = read(text);
    assert_eq!(trace.format, Format::FioIolog2);
    let data = [entry(0, Op::Read, 0, 512), entry(100_000_000, Op::Write, 512, 512)];
    assert_eq!(ios(&trace), [data[0], data[1], flush(100_000_000)]);
    assert_eq!(trace.left_out, [("discards", 1)]);
}

#[test]
fn msr_trace_has_100_ns_ticks_and_is_sorted() {
    let trace = read(MSR);
    assert_eq!(trace.format, Format::MsrCambridge);
    let late = 13_320_525 * 100_000;
    let expected = [
        entry(0, Op::Read, 7_014_609_920, 24576),
        entry(late, Op::Write, 0, 512),
        entry(late + 100_000, Op::Write, 2_517_843_968, 4096),
    ];
    assert_eq!(ios(&trace), expected);
    let headed = format!("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n{MSR}");
    assert_eq!(ios(&read(&headed)), expected);
}

#[test]
fn simultaneous_requests_keep_their_order() {
    let text = "fio version 3 iolog\n5 d read 0 1\n1 d read 1 1\n1 d read 2 1\n1 d read 3 1\n";
    assert_eq!(read(text).requests.iter().map(|entry| entry.io.offset).collect::<Vec<_>>(), [1, 2, 3, 0]);
}

#[test]
fn written_iolog_reads_back() {
    let written = [
        entry(0, Op::Read, 4096, 512),
        entry(3_000_000, Op::Write, 0, u32::MAX),
        entry(3_000_000, Op::Read, 1 << 40, 1),
    ];
    assert_eq!(ios(&read(&to_iolog(written))), written);
}

#[test]
fn written_iolog_has_whole_microseconds() {
    let text = to_iolog([entry(0, Op::Read, 0, 512), entry(1_999_999, Op::Write, 512, 512)]);
    let expected = "fio version 3 iolog\n0 phaselink add\n0 phaselink open\n0 phaselink read 0 512\n1 phaselink write 512 512\n1 phaselink close\n";
    assert_eq!(text, expected);
}

#[test]
fn unknown_trace_lines_are_reported_with_numbers() {
    let line = "  8,0    3        2     1.000000417   697  Q   W 8 + 8 [x]\n";
    let wrong = [
        ("nonsense", "`nonsense`"),
        ("8,0 3 2 1.0 697 Z W 8 + 8 [x]", "unknown action `Z`"),
        ("8,0 3 2 1.0000000001 697 Q W 8 + 8 [x]", "`1.0000000001` as a time"),
        ("8,0 3 2 99999999999999.0 697 Q W 8 + 8 [x]", "as a time"),
        ("8,0 3 2 1.0 697 Q W x + 8 [x]", "`x` as a sector"),
        ("8,0 3 2 1.0 697 Q W 8 - 8 [x]", "without its sectors"),
        ("8,0 3 2 1.0 697 Q", "without its RWBS"),
        ("8,0 3 2 1.0 697 Q R 8 + 0 [x]", "a request of 0 bytes"),
        ("8,0 3 2 1.0 697 Q R 8 + 8388608 [x]", "a request of 4294967296 bytes"),
        ("8,0 3 2 1.0 697 Q R 99999999999999999 + 8 [x]", "from sector 99999999999999999"),
    ];
    let text: String = std::iter::once(line.into()).chain(wrong.iter().map(|(text, _)| format!("{text}\n"))).collect();
    let problems = problems(&text);
    assert_eq!(problems.len(), wrong.len());
    for (index, (problem, (_, found))) in problems.iter().zip(wrong).enumerate() {
        assert!(problem.starts_with(&format!("t:{}: ", index + 2)) && problem.contains(found), "{problem}");
    }
}

#[test]
fn iolog_mistakes_are_reported() {
    let text = "fio version 3 iolog\nx d read 0 512\n1 d erase 0 512\n1 d wait 100 0\n1 d read 0\n1 d read 0 0\n1 d read -1 512\n3 d read 0 1\n";
    let problems = problems(text);
    let found = [
        "`x` as a timestamp",
        "unknown action `erase`",
        "a wait in an iolog of version 3",
        "`1 d read 0`",
        "0 bytes",
        "`-1`",
    ];
    assert_eq!(problems.len(), found.len(), "{problems:?}");
    assert!(problems.iter().zip(found).all(|(problem, found)| problem.contains(found)), "{problems:?}");
}

#[test]
fn msr_trace_mistakes_are_reported() {
    let text = format!("{MSR}1,usr,0,Trim,0,512,1\n1,usr,0,Read,0\n1,usr,0,Read,0,0,1\n");
    let problems = problems(&text);
    let found = ["unknown type `Trim`", "5 fields", "0 bytes"];
    assert_eq!(problems.len(), found.len(), "{problems:?}");
    assert!(problems.iter().zip(found).all(|(problem, found)| problem.contains(found)), "{problems:?}");
}

#[test]
fn truncated_last_line_is_reported() {
    let problem = &problems(&format!("{MSR}128166372016382155,usr,0,Wri"))[0];
    assert!(problem.starts_with("t:4: 4 fields (the last line") && problem.contains("cut short"), "{problem}");
    assert_eq!(read(MSR.trim_end()).requests.count(), 3, "a last line without its end may be whole");
}

#[test]
fn twenty_of_many_problems_are_shown_and_the_rest_counted() {
    let problems = problems(&format!("fio version 3 iolog\n{}", "what\n".repeat(50)));
    assert_eq!(problems.len(), 21);
    assert_eq!(problems[20], "t: and 30 more problems");
}

#[test]
fn empty_unknown_and_overlong_traces_are_refused() {
    assert!(problems("")[0].starts_with("t: the trace is empty; allowed: blktrace or its text from blkparse, "));
    assert!(problems("hello world\n")[0].contains("unknown format"));
    assert!(problems("fio version 3 iolog\n")[0].contains("without any read or write"));
    assert!(problems("fio version 3 iolog\n0 d read 0 1\n99999999999999 d read 0 1\n")[0].contains("106 days"));
}

const TWO_DEVICES: &str = "fio version 3 iolog\n0 a read 0 1\n1 b write 1 1\n2 b sync\n3 b read 2 1\n4 a sync\n";

fn trace_of_device(text: &str, device: &str) -> Result<Trace, Problems> {
    let selection = TraceSelection { device: Some(device.into()), format: None };
    super::read(&[File::in_memory("t", text.as_bytes())], &selection)
}

#[test]
fn one_of_several_trace_devices_must_be_chosen() {
    let found = "t: requests to several devices: `b` (2 requests), `a` (1 requests); allowed: one of them, chosen with trace_device (--trace-device)";
    assert_eq!(problems(TWO_DEVICES), [found]);
    let trace = trace_of_device(TWO_DEVICES, "b").expect("b");
    assert_eq!((ios(&trace).len(), trace.device.as_str(), trace.left_out.len()), (3, "b", 0));
    assert_eq!(ios(&trace)[0].at, Time::ZERO, "times count from the first request of the device");
    let problems = trace_of_device(TWO_DEVICES, "c").expect_err("c").to_string();
    assert_eq!(problems, "t: no read or write of device `c`; allowed: one of `b` (2 requests), `a` (1 requests)");
}

#[test]
fn busiest_of_many_devices_are_listed() {
    let line = |device: u64| format!("{device} d{device} read 0 1\n").repeat(device as usize + 1);
    let text: String = std::iter::once("fio version 3 iolog\n".into()).chain((0..9).map(line)).collect();
    let problem = &problems(&text)[0];
    assert!(problem.contains("`d8` (9 requests), `d7` (8 requests)") && problem.contains("and 4 more"), "{problem}");
}

#[test]
fn forced_trace_format_is_not_detected() {
    let forced = |text: &str, format| {
        let selection = TraceSelection { device: None, format: Some(format) };
        super::read(&[File::in_memory("t", text.as_bytes())], &selection).map_err(|problems| problems.to_string())
    };
    assert_eq!(forced("5 d read 0 1\n", Format::FioIolog3).expect("an iolog without its heading").requests.count(), 1);
    assert!(forced(MSR, Format::Alibaba).expect_err("MSR").contains("t:1: 7 fields; allowed: 5: device_id"));
    assert!(forced(MSR, Format::Blktrace).expect_err("MSR").contains("no record of blktrace"));
    assert!(forced(MSR, Format::Vscsi).expect_err("MSR").contains("no vscsi records"));
}

/// Makes a trace file whose content comes in pieces of a few bytes.
fn trace_in_pieces(text: &str, bytes: usize) -> File {
    let pieces: Vec<Vec<u8>> = text.as_bytes().chunks(bytes).map(<[u8]>::to_vec).collect();
    File::reopenable("t", move || Ok(Box::new(pieces.clone().into_iter().map(Ok))))
}

#[test]
fn reread_trace_gives_equal_requests() {
    for text in [BLKPARSE, MSR, "fio version 3 iolog\n5 d read 0 1\n1 d read 1 1\n1 d read 2 1\n1 d read 3 1\n"] {
        let kept = read(text);
        let streamed =
            read_trace_keeping(&[trace_in_pieces(text, 7)], &TraceSelection::default(), 1).expect("the same");
        assert!(streamed.requests.are_read_from_files() && !kept.requests.are_read_from_files());
        assert_eq!(streamed, kept);
        let mut first = streamed.requests.iter();
        first.next();
        assert_eq!(first.clone().collect::<Vec<_>>(), first.collect::<Vec<_>>(), "copies read on by themselves");
        assert_eq!(streamed.requests.failure(), None);
    }
}

#[test]
fn trace_changed_during_replay_is_detected() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let opened = AtomicUsize::new(0);
    let texts = [MSR, "128166372003061629,usr,0,Read,7014609920,24576,41286\n"];
    let file = File::reopenable("t", move || {
        let text = texts[opened.fetch_add(1, Ordering::Relaxed).min(1)];
        Ok(Box::new(std::iter::once(Ok(text.as_bytes().to_vec()))))
    });
    let trace = read_trace_keeping(&[file], &TraceSelection::default(), 1).expect("right at first");
    assert!(trace.requests.iter().count() < 3);
    assert!(trace.requests.failure().expect("changed").to_string().contains("has changed"));
}

#[test]
fn single_use_trace_is_kept_at_any_length() {
    let file = File::single_use("t", || Ok(Box::new(std::iter::once(Ok(MSR.as_bytes().to_vec())))));
    let trace = read_trace_keeping(&[file], &TraceSelection::default(), 1).expect("right");
    assert!(!trace.requests.are_read_from_files() && trace.requests.count() == 3);
}

#[test]
fn binary_trace_line_is_reported() {
    let problems = parse("t", b"fio version 3 iolog\n1 d read 0 1\n\xff\n").expect_err("no text").to_string();
    assert_eq!(problems, "t:3: bytes that are not text; allowed: UTF-8");
    let long = format!("fio version 3 iolog\n{}", "x".repeat(1 << 21));
    assert!(self::problems(&long)[0].starts_with("t:2: a line of more than 1048576 bytes"));
    let name = format!("fio version 3 iolog\n1 {} read 0 1\n", "x".repeat(5000));
    assert!(self::problems(&name)[0].starts_with("t:2: a device whose name has 5000 bytes"));
}

/// Lines that resemble those of the formats, so that arbitrary values reach every field.
fn random_trace_line() -> impl Strategy<Value = String> {
    prop_oneof![
        ".*",
        "8,[0-9]{1,2} [0-9] [0-9]{1,20} [0-9]{1,12}\\.?[0-9]{0,11} 1 [A-Za-z]{1,2} [RWDFSN]{0,3} [0-9]{1,20} \\+ [0-9]{0,20}",
        "[0-9]{1,20} d (read|write|wait|sync|x) -?[0-9]{0,20} [0-9]{0,11}",
        "[0-9]{1,20},h,[0-9],(Read|Write|x),[0-9]{0,20},[0-9]{0,11},[0-9]{0,3}",
        "[0-9]{1,2},[RWx],[0-9]{0,20},[0-9]{0,11},[0-9]{0,20}",
        "[0-9]{1,20},[0-9]{0,20},[0-9]{0,11},[012],[0-9]{0,3}",
        "[0-9]{1,12}\\.[0-9]{0,10},[0-9.]{0,5},[RW]?,[0-9],[0-9]{0,20},[0-9]{0,11}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn trace_reader_never_panics(lines in prop::collection::vec(random_trace_line(), 0..6)) {
        for head in ["", "fio version 2 iolog\n", "fio version 3 iolog\n"] {
            if let Ok(trace) = parse("t", format!("{head}{}", lines.join("\n"))) {
                let ios = ios(&trace);
                prop_assert!(ios.is_sorted_by_key(|entry| entry.at));
                prop_assert_eq!(ios[0].at, Time::ZERO);
            }
        }
    }
}
