//! Targets that read block traces.

use phaselink_core::problem::Problems;
use phaselink_core::request::Io;
use phaselink_core::workload::trace::{self, File, Format, Trace, TraceSelection};

use crate::Target;
use crate::script::Script;

/// Checks that any bytes are a trace or refused, that a trace's summary counts its requests, and that it reads back
/// from the iolog made of it.
pub(super) const FILE: Target = Target { name: "trace", run: file, seeds };

/// Checks files of blktrace of two processors, in the format that the first byte names, in pieces of as many bytes as
/// the second says.
pub(super) const FORCED: Target = Target { name: "trace-forced", run: forced, seeds: forced_seeds };

fn file(input: &[u8]) {
    let info = trace::info(&[File::in_memory("fuzz", input)], &TraceSelection::default());
    let Some(read) = told(trace::parse("fuzz", input)) else { return };
    let info = info.unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!((info.format, &info.summary), (read.format, read.requests.summary()));
    assert!(info.footprint.blocks > 0 && info.busiest_second > 0);
    assert!(read.requests.iter().is_sorted_by_key(|entry| entry.at), "arrivals in order");
    let again = trace::parse("again", trace::to_iolog(&read.requests)).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(ios(&again), ios(&read));
}

fn forced(input: &[u8]) {
    let mut script = Script::new(input);
    let format = Format::ALL[usize::from(script.byte()) % Format::ALL.len()];
    let piece_bytes = 1 + usize::from(script.byte());
    let (first, second) = {
        let bytes = script.bytes(usize::MAX);
        bytes.split_at(bytes.iter().position(|byte| *byte == 0xff).unwrap_or(bytes.len()))
    };
    let files = [first, second].map(|bytes| in_pieces(bytes, piece_bytes));
    let files = if second.is_empty() { &files[..1] } else { &files[..] };
    let selection = TraceSelection { device: None, format: Some(format) };
    let Some(kept) = told(trace::read(files, &selection)) else { return };
    let Some(streamed) = told(trace::read_trace_keeping(files, &selection, 1)) else {
        panic!("refused the second time")
    };
    assert_eq!(streamed, kept);
    assert_eq!(streamed.requests.failure(), None);
}

/// Returns the trace, if there is one; problems must have a text.
fn told(read: Result<Trace, Problems>) -> Option<Trace> {
    if let Err(problems) = &read {
        assert!(!problems.0.is_empty() && !problems.to_string().is_empty());
    }
    read.ok()
}

fn ios(trace: &Trace) -> Vec<Io> {
    trace.requests.iter().map(|entry| entry.io).collect()
}

fn in_pieces(bytes: &[u8], piece_bytes: usize) -> File {
    let pieces: Vec<Vec<u8>> = bytes.chunks(piece_bytes).map(<[u8]>::to_vec).collect();
    File::reopenable("fuzz", move || Ok(Box::new(pieces.clone().into_iter().map(Ok))))
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

const ALIBABA: &[u8] = b"0,R,126703644672,4096,1577808000000626\n0,W,4096,8192,1577808000000629\n";
const TENCENT: &[u8] = b"1538323200,12910952,128,0,1063\n1538323202,8,1,1,1063\n";
const SYSTOR: &[u8] = b"\
Timestamp,Response,IOType,LUN,Offset,Size
1456135200.013118000,0.000806000,R,4,899056122368,131072
1456135200.013119000,,,4,0,512
";

/// Returns records of blktrace in one byte order: a name of a process, a write that is queued, issued and completed.
fn blktrace(is_big: bool) -> Vec<u8> {
    let actions =
        [(1 << 26, 0, 4), (1 | 1 << 20 | 1 << 17, 4096, 0), (7 | 1 << 22 | 1 << 17, 4096, 0), (8 | 1 << 23, 4096, 0)];
    let mut records = Vec::new();
    for (time, (action, length, pdu_bytes)) in (1u64..).zip(actions) {
        let words: [u32; 5] = [length, action, 697, 8 << 20, 0];
        let head = [(0x6561_7407u64, 4), (time, 4), (time, 8), (64, 8)];
        let tail = words.map(|word| (u64::from(word), 4)).into_iter().chain([(0, 2), (pdu_bytes, 2)]);
        for (number, bytes) in head.into_iter().chain(tail) {
            match is_big {
                true => records.extend(&number.to_be_bytes()[8 - bytes..]),
                false => records.extend(&number.to_le_bytes()[..bytes]),
            }
        }
        records.extend(vec![b'x'; pdu_bytes as usize]);
    }
    records
}

/// Returns a write and a read of version 1.
fn vscsi() -> Vec<u8> {
    let record = |command: u16, time: u64| {
        let head = [1u32, 4096, 1].map(u32::to_le_bytes).concat();
        let (command, version) = (command.to_le_bytes(), 0x0103_u16.to_le_bytes());
        [&head[..], &command, &version, &64u64.to_le_bytes(), &time.to_le_bytes()].concat()
    };
    [record(0x2a, 5), record(0x28, 7)].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let texts = [BLKPARSE, IOLOG_2, IOLOG_3, MSR, ALIBABA, TENCENT, SYSTOR].map(<[u8]>::to_vec);
    texts.into_iter().chain([blktrace(false), blktrace(true), vscsi()]).collect()
}

fn forced_seeds() -> Vec<Vec<u8>> {
    let place = |word| Format::ALL.iter().position(|format| format.word() == word).unwrap_or_default() as u8;
    let of = |word, bytes: &[u8]| [&[place(word), 30][..], bytes].concat();
    vec![
        of("blkparse", BLKPARSE),
        of("iolog2", IOLOG_2),
        of("iolog3", IOLOG_3),
        of("msr", MSR),
        of("alibaba", ALIBABA),
        of("tencent", TENCENT),
        of("systor", SYSTOR),
        of("blktrace", &blktrace(false)),
        of("blktrace", &blktrace(true)),
        of("vscsi", &vscsi()),
    ]
}
