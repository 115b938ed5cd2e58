//! Each format is told by content and read as its own documentation says.

use super::*;
use proptest::prelude::*;

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

fn entry(ps: u64, op: Op, offset: u64, bytes: u32) -> TraceIo {
    TraceIo { at: Time::from_ps(ps), io: Io { op, offset, bytes } }
}

#[test]
fn blkparse_text_gives_its_queue_events_in_order_of_time() {
    let trace = read(BLKPARSE);
    assert_eq!(trace.format, Format::Blkparse);
    let expected = [entry(0, Op::Write, 223_490 * 512, 4096), entry(2_000_000, Op::Read, 8 * 512, 512)];
    assert_eq!(*trace.ios, expected);
    assert_eq!(trace.left_out, [("discards", 1), ("flushes", 1)]);
}

#[test]
fn blkparse_text_without_queue_events_gives_its_issues() {
    let text: String = BLKPARSE
        .lines()
        .filter(|line| !line.contains("  Q ") && !line.contains(" Q FWS"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(*read(&text).ios, [entry(0, Op::Write, 223_490 * 512, 4096)]);
}

#[test]
fn a_version_3_iolog_has_timestamps_in_microseconds() {
    let text = "fio version 3 iolog\n19 j add\n100 j open\n104 j write 0 4096\n1093 j read 28672 512\n1100 j sync 0 0\n9101 j close\n";
    let trace = read(text);
    assert_eq!(trace.format, Format::FioIolog3);
    assert_eq!(*trace.ios, [entry(0, Op::Write, 0, 4096), entry(989_000_000, Op::Read, 28672, 512)]);
    assert_eq!(trace.left_out, [("flushes", 1)]);
}

#[test]
fn a_version_2_iolog_has_waits_of_which_the_short_ones_are_discarded() {
    let text = "fio version 2 iolog\nd add\nd open\nd read 0 512\nd wait 100 0\nd wait 99\nd write 512 512\nd trim 0 512\nd datasync\n";
    let trace = read(text);
    assert_eq!(trace.format, Format::FioIolog2);
    assert_eq!(*trace.ios, [entry(0, Op::Read, 0, 512), entry(100_000_000, Op::Write, 512, 512)]);
    assert_eq!(trace.left_out, [("discards", 1), ("flushes", 1)]);
}

#[test]
fn an_msr_trace_has_ticks_of_100_ns_and_is_sorted() {
    let trace = read(MSR);
    assert_eq!(trace.format, Format::MsrCambridge);
    let late = 13_320_525 * 100_000;
    let expected = [
        entry(0, Op::Read, 7_014_609_920, 24576),
        entry(late, Op::Write, 0, 512),
        entry(late + 100_000, Op::Write, 2_517_843_968, 4096),
    ];
    assert_eq!(*trace.ios, expected);
    assert_eq!(*read(&format!("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n{MSR}")).ios, expected);
}

#[test]
fn requests_at_the_same_time_keep_their_order() {
    let text = "fio version 3 iolog\n5 d read 0 1\n1 d read 1 1\n1 d read 2 1\n1 d read 3 1\n";
    assert_eq!(read(text).ios.iter().map(|entry| entry.io.offset).collect::<Vec<_>>(), [1, 2, 3, 0]);
}

#[test]
fn what_is_written_as_an_iolog_reads_back() {
    let ios = [
        entry(0, Op::Read, 4096, 512),
        entry(3_000_000, Op::Write, 0, u32::MAX),
        entry(3_000_000, Op::Read, 1 << 40, 1),
    ];
    assert_eq!(*read(&to_iolog(&ios)).ios, ios);
}

#[test]
fn a_written_iolog_holds_whole_microseconds() {
    let text = to_iolog(&[entry(0, Op::Read, 0, 512), entry(1_999_999, Op::Write, 512, 512)]);
    let expected = "fio version 3 iolog\n0 phaselink add\n0 phaselink open\n0 phaselink read 0 512\n1 phaselink write 512 512\n1 phaselink close\n";
    assert_eq!(text, expected);
}

#[test]
fn lines_that_are_not_understood_are_reported_with_their_numbers() {
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
        ("8,16 3 2 1.0 697 Q R 8 + 8 [x]", "`8,16` after one to `8,0`"),
    ];
    let text: String = std::iter::once(line.into()).chain(wrong.iter().map(|(text, _)| format!("{text}\n"))).collect();
    let problems = problems(&text);
    assert_eq!(problems.len(), wrong.len());
    for (index, (problem, (_, found))) in problems.iter().zip(wrong).enumerate() {
        assert!(problem.starts_with(&format!("t:{}: ", index + 2)) && problem.contains(found), "{problem}");
    }
}

#[test]
fn mistakes_in_an_iolog_are_reported() {
    let text = "fio version 3 iolog\nx d read 0 512\n1 d erase 0 512\n1 d wait 100 0\n1 d read 0\n1 d read 0 0\n1 d read -1 512\n2 e read 0 1\n3 d read 0 1\n";
    let problems = problems(text);
    let found = [
        "`x` as a timestamp",
        "unknown action `erase`",
        "a wait in an iolog of version 3",
        "`1 d read 0`",
        "0 bytes",
        "`-1`",
        "`e` after one to `d`",
    ];
    assert_eq!(problems.len(), found.len(), "{problems:?}");
    assert!(problems.iter().zip(found).all(|(problem, found)| problem.contains(found)), "{problems:?}");
}

#[test]
fn mistakes_in_an_msr_trace_are_reported() {
    let text = format!("{MSR}1,usr,1,Read,0,512,1\n1,usr,0,Trim,0,512,1\n1,usr,0,Read,0\n1,usr,0,Read,0,0,1\n");
    let problems = problems(&text);
    let found = ["`usr,1` after one to `usr,0`", "unknown type `Trim`", "5 fields", "0 bytes"];
    assert_eq!(problems.len(), found.len(), "{problems:?}");
    assert!(problems.iter().zip(found).all(|(problem, found)| problem.contains(found)), "{problems:?}");
}

#[test]
fn a_last_line_that_is_cut_short_is_said_to_be() {
    let problem = &problems(&format!("{MSR}128166372016382155,usr,0,Wri"))[0];
    assert!(problem.starts_with("t:4: 4 fields (the last line") && problem.contains("cut short"), "{problem}");
    assert_eq!(read(MSR.trim_end()).ios.len(), 3, "a last line without its end may be whole");
}

#[test]
fn of_many_problems_twenty_are_shown_and_the_others_counted() {
    let problems = problems(&format!("fio version 3 iolog\n{}", "what\n".repeat(50)));
    assert_eq!(problems.len(), 21);
    assert_eq!(problems[20], "t: and 30 more problems");
}

#[test]
fn traces_that_are_empty_unknown_or_too_long_are_refused() {
    assert_eq!(
        problems("")[0],
        "t: the trace is empty; allowed: text of blkparse, a fio iolog of version 2 or 3, or MSR Cambridge CSV"
    );
    assert!(problems("hello world\n")[0].contains("unknown format"));
    assert!(problems("fio version 3 iolog\n")[0].contains("without any read or write"));
    assert!(problems("fio version 3 iolog\n0 d read 0 1\n99999999999999 d read 0 1\n")[0].contains("213 days"));
}

/// Lines near the formats, so that arbitrary values reach every field.
fn any_line() -> impl Strategy<Value = String> {
    prop_oneof![
        ".*",
        "8,[0-9]{1,2} [0-9] [0-9]{1,20} [0-9]{1,12}\\.?[0-9]{0,11} 1 [A-Za-z]{1,2} [RWDFSN]{0,3} [0-9]{1,20} \\+ [0-9]{0,20}",
        "[0-9]{1,20} d (read|write|wait|sync|x) -?[0-9]{0,20} [0-9]{0,11}",
        "[0-9]{1,20},h,[0-9],(Read|Write|x),[0-9]{0,20},[0-9]{0,11},[0-9]{0,3}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_trace_makes_the_reader_panic(lines in prop::collection::vec(any_line(), 0..6)) {
        for head in ["", "fio version 2 iolog\n", "fio version 3 iolog\n"] {
            if let Ok(trace) = parse("t", &format!("{head}{}", lines.join("\n"))) {
                prop_assert!(trace.ios.is_sorted_by_key(|entry| entry.at));
                prop_assert_eq!(trace.ios[0].at, Time::ZERO);
            }
        }
    }
}
