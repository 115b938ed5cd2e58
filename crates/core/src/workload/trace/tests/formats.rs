//! A sample of each format that is neither text of blkparse, nor an iolog, nor MSR Cambridge's.

use super::*;

/// A record of blktrace, by the fields that matter.
#[derive(Clone, Copy)]
struct BlktraceRecord {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u64,
    device: u32,
    pdu: &'static [u8],
}

const QUEUE: u64 = 1 | 1 << 20;
const ISSUE: u64 = 7 | 1 << 22;
const COMPLETE: u64 = 8 | 1 << 23;
const READ: u64 = 1 << 16;
const WRITE: u64 = 1 << 17;
const FLUSH: u64 = 1 << 18;
const PASSTHROUGH: u64 = 1 << 25;
const NOTIFY: u64 = 1 << 26;
const DISCARD: u64 = 1 << 29;
const SDB: u32 = 8 << 20 | 16;

fn blk(time: u64, action: u64, sector: u64, bytes: u32) -> BlktraceRecord {
    BlktraceRecord { time, sector, bytes, action, device: SDB, pdu: &[] }
}

/// The numbers of a record with their sizes, in the order of the kernel's structs.
fn sized_numbers(record: &BlktraceRecord, version: u32) -> Vec<(u64, usize)> {
    let BlktraceRecord { time, sector, bytes, action, device, pdu } = *record;
    let head = [((0x6561_7400 | version).into(), 4), (1, 4), (time, 8), (sector, 8), (bytes.into(), 4)];
    let end = [(device.into(), 4), (0, 4), (0, 2), (pdu.len() as u64, 2)];
    let middle = if version == 8 { [(697, 4), (action, 8)] } else { [(action, 4), (697, 4)] };
    let padding = if version == 8 { vec![(0, 8), (0, 4)] } else { vec![] };
    [&head[..], &middle, &end, &padding].concat()
}

fn blktrace(records: &[BlktraceRecord], version: u32, is_big: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        for (number, size) in sized_numbers(record, version) {
            match is_big {
                true => bytes.extend(&number.to_be_bytes()[8 - size..]),
                false => bytes.extend(&number.to_le_bytes()[..size]),
            }
        }
        bytes.extend(record.pdu);
    }
    bytes
}

fn sample() -> Vec<BlktraceRecord> {
    vec![
        BlktraceRecord { pdu: b"kjournald\0", ..blk(0, NOTIFY | 1, 0, 0) },
        blk(1_000, QUEUE | WRITE, 223_490, 4096),
        BlktraceRecord { pdu: &[1, 2, 3, 4, 5, 6, 7, 8], ..blk(3_417, QUEUE | READ | 1 << 8, 8, 512) },
        blk(4_000, ISSUE | WRITE, 223_490, 4096),
        blk(5_000, QUEUE | WRITE | FLUSH, 0, 0),
        blk(6_000, QUEUE | WRITE | DISCARD, 1000, 1 << 20),
        blk(7_000, QUEUE | READ | PASSTHROUGH, 0, 36),
        blk(9_000, COMPLETE | WRITE, 223_490, 4096),
    ]
}

#[test]
fn blktrace_is_read_in_both_byte_orders_and_versions() {
    for (version, is_big) in [(7, false), (7, true), (8, false), (8, true)] {
        let trace = parse("t", blktrace(&sample(), version, is_big)).expect("blktrace");
        assert_eq!((trace.format, trace.device.as_str()), (Format::Blktrace, "8,16"));
        let data = [entry(0, Op::Write, 223_490 * 512, 4096), entry(2_417_000, Op::Read, 8 * 512, 512)];
        assert_eq!(ios(&trace), [data[0], data[1], flush(4_000_000)], "version {version}, {is_big}");
        assert_eq!(trace.left_out, [("discards", 1), ("passthrough commands", 1)]);
    }
}

#[test]
fn blktrace_without_queue_events_uses_issues() {
    let records: Vec<BlktraceRecord> = sample().into_iter().filter(|record| record.action & 0xff != 1).collect();
    let trace = parse("t", blktrace(&records, 7, false)).expect("blktrace");
    assert_eq!(ios(&trace), [entry(0, Op::Write, 223_490 * 512, 4096)]);
}

#[test]
fn per_processor_files_are_merged_by_time() {
    let other = BlktraceRecord { device: SDB + 1, ..blk(2, QUEUE | READ, 99, 512) };
    let cpus = [
        vec![blk(10, QUEUE | READ, 1, 512), blk(30, QUEUE | READ, 3, 512), blk(50, QUEUE | READ, 5, 512)],
        vec![other, blk(20, QUEUE | WRITE, 2, 512), blk(40, QUEUE | READ, 4, 512)],
        vec![],
    ];
    let cpus = cpus.map(|records| blktrace(&records, 7, false));
    let files: Vec<File> = cpus.iter().zip(["t.0", "t.1"]).map(|(bytes, name)| File::in_memory(name, bytes)).collect();
    let selection = TraceSelection { device: Some("8,16".into()), format: None };
    let trace = super::super::read(&files, &selection).expect("two files");
    let sectors = |trace: &Trace| trace.requests.iter().map(|entry| entry.io.offset / 512).collect::<Vec<_>>();
    assert_eq!(sectors(&trace), [1, 2, 3, 4, 5]);
    assert_eq!(sectors(&read_trace_keeping(&files, &selection, 1).expect("streamed")), [1, 2, 3, 4, 5]);
    let mixed = [files[0].clone(), File::in_memory("t.2", MSR.as_bytes())];
    let problems = super::super::read(&mixed, &selection).expect_err("mixed").to_string();
    assert_eq!(problems, "t.2: MSR Cambridge CSV beside blktrace; allowed: files of one format");
}

#[test]
fn blktrace_mistakes_are_reported_with_offsets() {
    let whole = blktrace(&sample(), 7, false);
    let problem = |bytes: &[u8]| parse("t", bytes).expect_err("wrong").to_string();
    let cut = problem(&whole[..whole.len() - 1]);
    assert!(cut.starts_with("t: record 8 at byte 354: 47 bytes of a record at the end"), "{cut}");
    let version = problem(&[&whole[..], &blktrace(&sample(), 6, false)].concat());
    assert!(version.contains("record 9 at byte 402: a blktrace of version 6; allowed: version 7 or 8"), "{version}");
    let garbage = problem(&[&whole[..], &[b'x'; 60]].concat());
    assert!(garbage.contains("0x78787878 where a record of blktrace starts"), "{garbage}");
}

#[test]
fn alibaba_trace_has_bytes_and_us() {
    let text = "0,R,126703644672,4096,1577808000000626\n0,W,4096,8192,1577808000000629\n";
    let trace = read(text);
    assert_eq!((trace.format, trace.device.as_str()), (Format::Alibaba, "0"));
    assert_eq!(ios(&trace), [entry(0, Op::Read, 126_703_644_672, 4096), entry(3_000_000, Op::Write, 4096, 8192)]);
    assert_eq!(read(&format!("device_id,opcode,offset,length,timestamp\n{text}")), trace);
    let wrong = format!("{text}0,T,0,1,5\n0,R,0,1\n0,R,-1,1,5\n");
    let found = ["t:3: the unknown opcode `T`", "t:4: 4 fields", "t:5: `-1` as an offset"];
    assert!(problems(&wrong).iter().zip(found).all(|(problem, found)| problem.starts_with(found)));
}

#[test]
fn tencent_trace_has_sectors_and_seconds() {
    let text = "1538323200,12910952,128,0,1063\n1538323202,8,1,1,1063\n";
    let trace = read(text);
    assert_eq!((trace.format, trace.device.as_str()), (Format::Tencent, "1063"));
    let expected = [entry(0, Op::Read, 12_910_952 * 512, 65536), entry(2_000_000_000_000, Op::Write, 4096, 512)];
    assert_eq!(ios(&trace), expected);
    let wrong = format!("{text}1538323202,8,1,2,1063\n1538323202,8,0,1,1063\n");
    let found = ["t:3: the unknown type `2`", "t:4: a request of 0 bytes"];
    assert!(problems(&wrong).iter().zip(found).all(|(problem, found)| problem.starts_with(found)));
}

#[test]
fn systor_trace_has_bytes_and_decimal_seconds() {
    let text = "\
Timestamp,Response,IOType,LUN,Offset,Size
1456135200.013118000,0.000806000,R,4,899056122368,131072
1456135200.013119000,,,4,0,512
1456135200.01312,0.1,W,4,512,512
";
    let trace = read(text);
    assert_eq!((trace.format, trace.device.as_str()), (Format::Systor, "4"));
    assert_eq!(ios(&trace), [entry(0, Op::Read, 899_056_122_368, 131_072), entry(2_000_000, Op::Write, 512, 512)]);
    assert_eq!(trace.left_out, [("requests without a type", 1)]);
    let (_, bare) = text.split_once('\n').expect("a heading");
    assert_eq!(read(bare), trace);
    assert!(problems(&format!("{text}1.2.3,0,R,4,0,1\n"))[0].starts_with("t:5: `1.2.3` as a time"));
}

/// Command, bytes, sector and microseconds.
const VSCSI: [(u16, u32, u64, u64); 4] =
    [(0x2a, 4096, 64, 5), (0x88, 512, 1 << 40, 7), (0x35, 0, 0, 8), (0x12, 36, 0, 9)];

fn vscsi(version: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (command, length, sector, time) in VSCSI {
        let (command, version_field) = (command.to_le_bytes(), (version << 8 | 3).to_le_bytes());
        let [number, length, segments] = [9u32, length, 1].map(u32::to_le_bytes);
        let head = match version {
            1 => [&number[..], &length, &segments, &command, &version_field].concat(),
            _ => [&command[..], &version_field, &number, &length, &segments].concat(),
        };
        bytes.extend([&head[..], &sector.to_le_bytes(), &time.to_le_bytes()].concat());
        bytes.extend(vec![0xee; if version == 2 { 8 } else { 0 }]);
    }
    bytes
}

#[test]
fn vscsi_records_are_read_in_both_versions() {
    for version in [1, 2] {
        let trace = parse("t", vscsi(version)).expect("vscsi");
        assert_eq!((trace.format, trace.device.as_str()), (Format::Vscsi, "disk"));
        let data = [entry(0, Op::Write, 64 * 512, 4096), entry(2_000_000, Op::Read, 1 << 49, 512)];
        assert_eq!(ios(&trace), [data[0], data[1], flush(3_000_000)]);
        assert_eq!(trace.left_out, [("other SCSI commands", 1)]);
    }
    let both = [vscsi(1), vscsi(2)].concat();
    let problems = parse("t", both).expect_err("both").to_string();
    assert!(problems.starts_with("t: record 5 at byte 128: a record of another version"), "{problems}");
}
