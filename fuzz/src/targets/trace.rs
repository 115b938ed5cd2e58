//! Block traces.

use phaselink_core::workload::trace;

use super::text;
use crate::Target;

/// Any text is a trace or refused; a trace reads back from the iolog that is made of it.
pub const FILE: Target = Target { name: "trace", run: file, seeds, quick: 10_000 };

fn file(input: &[u8]) {
    let read = match trace::parse("fuzz", &text(input)) {
        Ok(read) => read,
        Err(problems) => return assert!(!problems.0.is_empty() && !problems.to_string().is_empty()),
    };
    assert!(read.ios.is_sorted_by_key(|entry| entry.at), "arrivals in order");
    let again = trace::parse("again", &trace::to_iolog(&read.ios)).unwrap_or_else(|problems| panic!("{problems}"));
    let ios = |trace: &trace::Trace| trace.ios.iter().map(|entry| entry.io).collect::<Vec<_>>();
    assert_eq!(ios(&again), ios(&read));
}

const BLKPARSE: &[u8] = b"\
Input file sda.blktrace.0 added
  8,0    3        1     1.000000000   697  A   W 223490 + 8 <- (8,3) 30
  8,0    3        2     1.000000417   697  Q   W 223490 + 8 [kjournald]
  8,0    1        5     1.000002417     0  Q  RA 8 + 1 [cat]
  8,0    3        7     1.000005100   697  D   W 223490 + 8 [kjournald]
  8,0    3        9     1.000005600   697  Q  DS 1000 + 2048 [fstrim]
  8,0    1       11     1.000009100     0  C   W 223490 + 8 [0]
CPU3 (sda):
 Reads Queued:           0,        0KiB
";
const IOLOG_2: &[u8] = b"\
fio version 2 iolog
/dev/x add
/dev/x open
/dev/x wait 100
/dev/x read 4096 8192
/dev/x write 0 512
/dev/x sync 0 0
/dev/x trim 0 512
/dev/x close
";
const IOLOG_3: &[u8] = b"\
fio version 3 iolog
1 /dev/x add
2 /dev/x open
10 /dev/x read 4096 8192
12 /dev/x datasync 0 0
19 /dev/x write 0 512
30 /dev/x close
";
const MSR: &[u8] = b"\
128166372003061629,usr,0,Read,7014609920,24576,41286
128166372016382155,usr,0,Write,2517843968,4096,703
";

fn seeds() -> Vec<Vec<u8>> {
    [BLKPARSE, IOLOG_2, IOLOG_3, MSR].map(<[u8]>::to_vec).to_vec()
}
