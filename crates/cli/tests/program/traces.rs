//! Block traces as a user has them: packed, in several files, of several devices, too long for memory.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use crate::common::{ROOT, Ran, directory, printed, program};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use phaselink_core::config::Precondition;
use phaselink_core::drive::Drive;
use phaselink_core::engine::{Engine, Input};
use phaselink_core::request::{Io, Op};
use phaselink_core::time::Time;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::Value;

const TRACE: &str = "fio version 3 iolog\n0 d read 0 4096\n100 d write 4096 4096\n200 d read 8192 8192\n";
const TWO_DEVICES: &str = "1,R,0,4096,1000\n2,W,4096,8192,1010\n2,R,1073741824,4096,1020\n";

fn phaselink(here: &Path, arguments: &str) -> Ran {
    program().current_dir(here).args(arguments.split_whitespace()).output().unwrap().into()
}

/// What a command prints that has nothing to complain of.
fn output_without_complaints(here: &Path, arguments: &str) -> String {
    let ran = phaselink(here, arguments);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "phaselink {arguments}");
    ran.stdout
}

fn json(here: &Path, arguments: &str) -> Value {
    serde_json::from_str(&output_without_complaints(here, &format!("{arguments} --json"))).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A file of blktrace with reads of 4 KiB at these nanoseconds and blocks.
fn blktrace_of_reads(reads: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (time, block) in reads {
        bytes.extend([0x6561_7407u32, 1].map(u32::to_le_bytes).concat());
        bytes.extend([*time, 8 * block].map(u64::to_le_bytes).concat());
        bytes.extend([4096u32, 1 | 1 << 16 | 1 << 20, 697, 8 << 20, 0, 0].map(u32::to_le_bytes).concat());
    }
    bytes
}

#[test]
fn compressed_trace_gives_the_results_of_the_plain_one() {
    let here = directory("packed-traces");
    let files = [
        ("t.log", TRACE.into()),
        ("t.gz", gzip(TRACE.as_bytes())),
        ("t.zst", compress_to_vec(TRACE.as_bytes(), CompressionLevel::Fastest)),
    ];
    files.iter().for_each(|(name, bytes)| fs::write(here.join(name), bytes).unwrap());
    let pages = files
        .each_ref()
        .map(|(name, _)| output_without_complaints(&here, &format!("run nvme --trace {name}")).replace(name, "t"));
    assert!(pages[0].contains("t: fio iolog version 3, 3 requests\n"), "{}", pages[0]);
    assert!(pages[0] == pages[1] && pages[0] == pages[2]);
    let packed = gzip(TRACE.as_bytes());
    fs::write(here.join("cut.gz"), &packed[..packed.len() - 9]).unwrap();
    let cut = phaselink(&here, "run nvme --trace cut.gz");
    assert_eq!(cut.code, Some(2));
    assert!(cut.stderr.starts_with("error: cut.gz: cannot be read: "), "{}", cut.stderr);
}

#[test]
fn blktrace_files_of_one_device_are_replayed_together() {
    let here = directory("blktrace");
    fs::write(here.join("sda.blktrace.0"), blktrace_of_reads(&[(1000, 0), (9000, 2)])).unwrap();
    fs::write(here.join("sda.blktrace.1"), gzip(&blktrace_of_reads(&[(5000, 1)]))).unwrap();
    fs::rename(here.join("sda.blktrace.1"), here.join("sda.blktrace.1.gz")).unwrap();
    fs::write(here.join("sdb.blktrace.0"), blktrace_of_reads(&[(5000, 1)])).unwrap();
    for name in ["sda", "sda.blktrace"] {
        let page = output_without_complaints(&here, &format!("run nvme --trace {name}"));
        assert!(page.contains(&format!("{name}: blktrace, 3 requests\n")), "{page}");
        assert_eq!(json(&here, &format!("trace-info {name}"))["sequential_share"], 2.0 / 3.0);
    }
    let one = phaselink(&here, "run nvme --trace sda.blktrace.0");
    assert!(one.stdout.contains("2 requests"), "{}", one.stdout);
    assert!(one.stderr.contains("is one of 2 files of blktrace; `sda` stands for all of them"), "{}", one.stderr);
    let none = phaselink(&here, "run nvme --trace sd");
    assert!(none.stderr.starts_with("error: sd: cannot be read: "), "{}", none.stderr);
}

#[test]
fn one_of_several_trace_devices_can_be_chosen() {
    let here = directory("trace-devices");
    fs::write(here.join("t.csv"), TWO_DEVICES).unwrap();
    let undecided = phaselink(&here, "run nvme --trace t.csv");
    let told_of = "error: t.csv: requests to several devices: `2` (2 requests), `1` (1 requests); allowed: one of them, chosen with trace_device (--trace-device)\n";
    assert_eq!((undecided.code, undecided.stderr.as_str()), (Some(2), told_of));
    let page = output_without_complaints(&here, "run nvme --trace t.csv --trace-device 1");
    assert!(page.contains("t.csv: Alibaba CSV, 1 request to device 1\n"), "{page}");
    fs::write(
        here.join("j.fio"),
        "[a]\nread_iolog=t.csv\ntrace_device=1\n[b]\nread_iolog=t.csv\ntrace_device=2\ntrace_format=alibaba\n",
    )
    .unwrap();
    let both = output_without_complaints(&here, "run nvme --fio j.fio --set media.capacity_mib=2048");
    assert!(both.contains("1 request to device 1") && both.contains("2 requests to device 2"), "{both}");
    let plan = "drive = \"nvme\"\nset = [\"media.capacity_mib=2048\"]\ncolumns = [\"ios\"]\n[job]\nread_iolog = \"t.csv\"\n[[axis]]\nkey = \"job.trace_device\"\nvalues = [\"1\", \"2\"]\n";
    fs::write(here.join("p.toml"), plan).unwrap();
    let rows = json(&here, "sweep p.toml");
    let ios: Vec<&Value> = rows["rows"].as_array().unwrap().iter().map(|row| &row["ios"]).collect();
    assert_eq!(ios, [1, 2], "{rows}");
}

#[test]
fn trace_is_replayed_at_a_scaled_rate_or_closed_loop() {
    let here = directory("trace-pace");
    fs::write(here.join("t.log"), TRACE.replace("write", "read")).unwrap();
    let elapsed = |flags: &str| {
        json(&here, &format!("run nvme --trace t.log {flags}"))["phaselink"]["elapsed_ns"].as_f64().unwrap()
    };
    let (recorded, twice, closed) = (elapsed(""), elapsed("--trace-speed 2"), elapsed("--trace-closed --iodepth 1"));
    assert!((200_000.0..250_000.0).contains(&recorded), "{recorded}");
    assert!((recorded - twice - 100_000.0).abs() < 10_000.0, "{recorded} and {twice}");
    assert!(closed < 100_000.0, "{closed}");
    let both = phaselink(&here, "run nvme --trace t.log --trace-speed 2 --trace-closed");
    assert_eq!(both.code, Some(2));
    let odd = phaselink(&here, "run nvme --trace t.log --trace-speed 0.001");
    assert!(odd.stderr.contains("0.01 to 10000, with two decimals"), "{}", odd.stderr);
}

#[test]
fn only_the_beginning_of_a_trace_too_long_for_memory_is_replayed() {
    let here = directory("long-trace");
    let line = |number: u64| format!("{} d read {} 4096\n", number * 10, number * 7919 % 100_000 * 4096);
    let text =
        |requests| std::iter::once("fio version 3 iolog\n".into()).chain((0..requests).map(line)).collect::<String>();
    fs::write(here.join("long"), text((1 << 20) + 1)).unwrap();
    fs::write(here.join("short"), text(2000)).unwrap();
    let page = |name: &str| {
        let page = output_without_complaints(&here, &format!("run nvme --trace {name} --number-ios 1000"));
        page.lines().filter(|line| !line.contains(name)).map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(page("long"), page("short"));
    let threads = phaselink(&here, "run nvme --trace long --numjobs 17 --iodepth 1");
    assert!(threads.stderr.contains("17 threads replay a trace that is too long for memory"), "{}", threads.stderr);
}

#[test]
fn trace_info_proposes_a_replaying_command() {
    let here = directory("trace-info");
    fs::write(here.join("two devices.csv"), TWO_DEVICES).unwrap();
    let info = {
        let ran: Ran = program().current_dir(&here).args(["trace-info", "two devices.csv"]).output().unwrap().into();
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        ran.stdout
    };
    let command = info.lines().find_map(|line| line.strip_prefix("  phaselink ")).expect("a command");
    assert_eq!(command, "run dram-card --trace 'two devices.csv' --trace-device 2");
    let words = ["run", "dram-card", "--trace", "two devices.csv", "--trace-device", "2"];
    let ran: Ran = program().current_dir(&here).args(words).output().unwrap().into();
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "the command runs");
    assert!(info.contains("device") && info.contains("2 (2 requests), 1 (1 request)"), "{info}");
    let wrong = phaselink(&here, "trace-info no-such-file");
    assert_eq!(wrong.code, Some(2));
    assert!(printed("trace-info --help").contains("trace-info sda"));
}

#[test]
fn example_recordings_contain_what_their_page_says() {
    let page = fs::read_to_string(Path::new(ROOT).join("crates/cli/docs/which-interface.md")).unwrap();
    for (name, requests) in [("sqlite", "978"), ("git", "1,509")] {
        let info = json(Path::new(ROOT), &format!("trace-info examples/recordings/{name}.iolog.gz"));
        assert_eq!(info["requests"], requests.replace(',', "").parse::<u64>().unwrap(), "{name}");
        let ms = format!("{:.0} ms", 1e3 * info["seconds"].as_f64().unwrap());
        assert!(page.contains(requests) && page.contains(&ms), "{name}: {ms}");
    }
}

/// Returns the requests of an iolog in their order, without the flushes before the first read or write.
fn recorded(name: &str) -> Vec<Io> {
    let file = fs::File::open(Path::new(ROOT).join("examples/recordings").join(name)).unwrap();
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let io = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let op = match *words.get(2)? {
            "read" => Op::Read,
            "write" => Op::Write,
            "sync" | "datasync" => Op::Flush,
            _ => return None,
        };
        Some(Io { op, offset: words[3].parse().unwrap(), bytes: words[4].parse().unwrap() })
    };
    let all = text.lines().skip(1).filter_map(io);
    all.skip_while(|io| io.op == Op::Flush).collect()
}

/// A shipped drive whose flash, if it has any, was overwritten at random.
fn overwritten_drive(name: &str) -> Drive {
    let mut drive = Drive::shipped(name).unwrap();
    if drive.is_flash() {
        drive.translation.precondition = Precondition::Random;
    }
    drive
}

/// Mean time from the first write of each commit to the end of its flush, in nanoseconds, if each request is injected when the
/// one before it is complete. A drive that keeps what it has acknowledged is asked for no flush.
fn commit_mean_ns(drive: &Drive, asked: &[Io]) -> f64 {
    let is_volatile = drive.limits().is_volatile;
    let mut engine = Engine::new(drive, 1);
    let thread = engine.add_client(1);
    let (mut now, mut first, mut sum_ns, mut commits) = (Time::ZERO, None, 0.0, 0);
    for io in asked {
        let begins = now;
        if io.op != Op::Flush || is_volatile {
            engine.inject(now, Input::Request { thread, io: *io, token: 0 });
            now = loop {
                let next = engine.next_at().expect("the request is not complete");
                engine.run_until(next);
                if let Some(done) = engine.take_completed() {
                    break done.at;
                }
            };
        }
        match io.op {
            Op::Write => first = first.or(Some(begins)),
            Op::Flush => {
                if let Some(first) = first.take() {
                    sum_ns += now.since(first).as_ns();
                    commits += 1;
                }
            }
            _ => {}
        }
    }
    sum_ns / f64::from(commits)
}

#[test]
fn replayed_database_commits_take_as_long_as_generated_ones() {
    let drives = ["tlc-gen4", "tlc-gen5", "xl-flash", "optane-p5800x", "dram-card", "nvme", "dc-express"];
    for recording in ["sqlite.iolog.gz", "git.iolog.gz"] {
        let words =
            format!("compare {} --trace examples/recordings/{recording} --iodepth 1 --trace-closed", drives.join(" "));
        let compared = json(Path::new(ROOT), &words);
        let cells = compared["cells"].as_array().unwrap();
        let replayed: Vec<f64> = cells.iter().map(|cell| cell["commit_mean_ns"].as_f64().unwrap()).collect();
        let asked = recorded(recording);
        let direct: Vec<f64> = drives.iter().map(|name| commit_mean_ns(&overwritten_drive(name), &asked)).collect();
        for (name, (replayed, direct)) in drives.iter().zip(replayed.iter().zip(&direct)) {
            assert!(
                (replayed / direct - 1.0).abs() < 0.02,
                "{recording} on {name}: {replayed} replayed, {direct} asked"
            );
        }
    }
}
