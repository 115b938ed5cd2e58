//! Power cuts of drives over vfio-user: with zones, with placement handles, and with plain blocks.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{ROOT, Ran, directory, program, programs};

/// Drive with four zones of 2 MiB, of each of which 1 MiB can be written, and a volatile write cache.
const ZONED: &[&str] = &[
    "nvme",
    "--set",
    "media.acknowledge=early",
    "--set",
    "buffer.power_loss_protection=false",
    "--set",
    "zones.size_mib=2",
    "--set",
    "zones.capacity_mib=1",
    "--set",
    "zones.active_max=2",
    "--set",
    "zones.open_max=2",
    "--size",
    "8m",
];

/// Program of a test: what `write` does is the test's, and `check` compares what is found with what may be.
const SCRIPT: &str = r#"
import struct, sys
from zone_log import *

class BlockDrive(ZonedDrive):
    def _command_sets(self):
        return 0

    def write(self, block, values, flags=0, placement=0):
        for place, value in enumerate(values):
            self.memory[DATA + place * 512 : DATA + place * 512 + 512] = bytes([value]) * 512
        dwords = (block, 0, flags | len(values) - 1, placement)
        self._submit(self.io, 1, DATA, dwords, 1, data_bytes=512 * len(values))

    def firsts(self, count):
        data = self.read(0, count)
        return [data[place * 512] for place in range(count)]

    def deallocate(self, block, blocks):
        self.memory[DATA : DATA + 16] = struct.pack("<IIQ", 0, blocks, block)
        self._submit(self.io, 9, DATA, (0, 4), 1, data_bytes=16)

def blocks(value, count):
    return bytes([value]) * 512 * count

class Zones(BlockDrive):
    def _command_sets(self):
        return 0b110

    def act(self, start, action, every=0):
        self._submit(self.io, ZONE_SEND, 0, (start, 0, 0, action | every << 8), 1)

def found(drive, zone):
    start, state, capacity, written = drive.zones()[zone]
    data = drive.read(start, 16)
    return state, written, [data[place * 512] for place in range(16)]
"#;

/// Runs `phaselink crash` over vfio-user with a program whose parts are written in Python.
fn crash(here: &Path, drive: &[&str], write: &str, check: &str) -> (Ran, Value) {
    std::fs::write(here.join("write.py"), format!("{SCRIPT}\n{write}")).unwrap();
    std::fs::write(here.join("check.py"), format!("{SCRIPT}\n{check}")).unwrap();
    let mut crash = program();
    crash.current_dir(here).env("PYTHONPATH", Path::new(ROOT).join("examples/crash")).arg("crash").args(drive);
    crash.args(["--vfio-user", "--json", "--record", "kept.recording", "--run", "python3 write.py \"$socket\""]);
    crash.args(["--check", "python3 check.py \"$socket\" \"$printed\" \"$image\""]);
    let ran = Ran::from(crash.output().unwrap());
    let document = serde_json::from_str(&ran.stdout).unwrap_or(Value::Null);
    (ran, document)
}

/// Returns the number of images, all of which have been tested and have passed.
fn images(test: &str, drive: &[&str], write: &str, check: &str) -> Option<u64> {
    if !programs::are_here(&["python3"]) {
        return None;
    }
    let (ran, document) = crash(&directory(test), drive, write, check);
    let images = &document["images"];
    assert_eq!((ran.code, &images["failed"]), (Some(0), &0.into()), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(images["possible"], images["tested"]);
    images["possible"].as_u64()
}

#[test]
fn write_pointer_after_a_cut_lies_between_durable_and_written() {
    let write = "
with Zones(sys.argv[1]) as drive:
    drive.append(0, blocks(1, 1))
    drive.flush()
    drive.act(4096, 3)
    drive.append(0, blocks(2, 3))
    drive.append(0, blocks(3, 1))
";
    let check = "
with Zones(sys.argv[1]) as drive:
    state, written, values = found(drive, 0)
    assert values == ([1, 2, 2, 2, 3][:written] + [0] * 16)[:16], values
    assert state == (4 if written else 1), state
    assert found(drive, 1)[:2] == (1, 0), 'an open zone without data is empty'
    assert written == drive.append(0, blocks(9, 1)), 'the zone goes on at the write pointer'
";
    // Zero or one written block before the flush gives 2 images. Up to four further blocks give 4 more.
    let counted = images("crash-zones-pointer", ZONED, write, check);
    assert!(counted.is_none_or(|images| images == 6), "{counted:?}");
}

#[test]
fn zone_reset_and_finish_are_durable_once_completed() {
    let write = "
with Zones(sys.argv[1]) as drive:
    for zone in 0, 1:
        drive.append(zone * 4096, blocks(1, 1))
        drive.flush()
    drive.act(0, RESET)
    print('reset', flush=True)
    drive.act(4096, 2)
    print('finished', flush=True)
    drive.append(0, blocks(2, 1))
    drive.act(0, RESET, every=1)
    print('all', flush=True)
";
    let check = "
printed = open(sys.argv[2]).read().split()
with Zones(sys.argv[1]) as drive:
    (first, written, values), (second, _, others) = found(drive, 0), found(drive, 1)
    assert values[0] in ((0,), (2,) if 'reset' in printed else (1, 2))[written], (values, printed)
    assert second in ((14, 1) if 'finished' in printed else (1, 4, 14)), second
    assert others[0] == (0 if second == 1 else 1), others
    assert 'all' not in printed or (first, second) == (1, 1), (first, second)
";
    // One image before each flush and each zone action (6). At the end, zone 0 has three possible lengths, zone 1 two,
    // and then one each.
    let counted = images("crash-zones-actions", ZONED, write, check);
    assert!(counted.is_none_or(|images| images == 10), "{counted:?}");
}

#[test]
fn zoned_log_survives_a_power_cut_only_with_flushes() {
    if !programs::are_here(&["python3"]) {
        return;
    }
    let here = directory("crash-zones-log");
    let log = Path::new(ROOT).join("examples/crash/zone_log.py");
    let run = |records: u32, flag: &str, recording: &str| -> (Ran, Value) {
        let command = |words: &str| format!("python3 -S {} \"$socket\" {words}", log.display());
        let mut crash = program();
        crash.current_dir(&here).arg("crash").args(ZONED).args(["--vfio-user", "--json", "--images", "40"]);
        crash.args(["--run", &command(&format!("write {records} {flag}")), "--record", recording]);
        let ran = Ran::from(crash.args(["--check", &command("check \"$printed\"")]).output().unwrap());
        let document = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.stderr));
        (ran, document)
    };
    let (ran, report) = run(140, "", "flushed.recording");
    assert_eq!((ran.code, &report["recording"]["zone_resets"]), (Some(0), &1.into()), "{}{report}", ran.stderr);
    let (ran, report) = run(70, "no-flush", "trusting.recording");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let smallest = &report["smallest_failure"];
    let words = smallest["words"].to_string();
    assert!(smallest["said"].as_str().unwrap().contains("was reported, and the log ends with"), "{smallest}");
    assert!(words.contains("in zone ") && words.contains("had been written"), "{words}");
    assert!(smallest["rules"].to_string().contains("Zoned Namespace Command Set"), "{smallest}");
    let again = shell(&here, smallest["command"].as_str().unwrap());
    assert_eq!(again.code, Some(1), "{}{}", again.stdout, again.stderr);
    assert!(again.stdout.contains(smallest["image"].as_str().unwrap()), "{}", again.stdout);
    let other = shell(&here, "phaselink crash nvme --vfio-user --replay trusting.recording --check true");
    assert!(other.stderr.contains("other blocks or zones than nvme"), "{}", other.stderr);
    let useless = shell(&here, "phaselink crash nvme --replay trusting.recording --check true");
    assert!(useless.stderr.contains("nvme is named beside a recording"), "{}", useless.stderr);
    let bytes = shell(&here, "phaselink crash --replay trusting.recording --images 5 --check 'test -s \"$image\"'");
    assert_eq!(bytes.code, Some(0), "{}", bytes.stderr);
}

fn shell(here: &Path, command: &str) -> Ran {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_phaselink"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", command]).current_dir(here).env("PATH", path).output().unwrap().into()
}

#[test]
fn blocks_over_vfio_user_obey_flush_and_fua() {
    let write = "
with BlockDrive(sys.argv[1]) as drive:
    drive.write(0, [1])
    drive.write(1, [2], flags=1 << 30)
    drive.flush()
    drive.write(2, [3, 4])
    drive.deallocate(0, 1)
";
    let check = "
with BlockDrive(sys.argv[1]) as drive:
    values = drive.firsts(4)
    assert values == list(open(sys.argv[3], 'rb').read(2048)[::512]), 'the image as a file'
    assert not any(values[2:]) or values[1] == 2, values
";
    let (plain, placed): (&[&str], &[&str]) = (&["--size", "1m"], &["placed.toml", "--size", "1m"]);
    // Before the flush: no write, only the first, or only the second. After it, both exist, with any subset of two
    // further blocks and a deallocation (8 images).
    let counted = images("crash-vfio-blocks", plain, write, check);
    assert!(counted.is_none_or(|images| images == 11), "{counted:?}");
    if !programs::are_here(&["python3"]) {
        return;
    }
    let here = directory("crash-vfio-placed");
    let drive = "name = \"placed\"\npreset = \"tlc-gen4\"\n\n[media]\ncapacity_mib = 512\nchannels = 4\nbanks_per_channel = 1\n\
                 block_pages = 12\n\n[translation]\nover_provisioning = 0.2\nprecondition = \"none\"\n\n[placement]\nhandles = 4\n";
    std::fs::write(here.join("placed.toml"), drive).unwrap();
    let by_handle = write.replace("[3, 4]", "[3, 4], 2 << 20, 3 << 16");
    let (ran, document) = crash(&here, placed, &by_handle, check);
    assert_eq!((ran.code, &document["images"]["possible"]), (Some(0), &11.into()), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn commands_that_cannot_be_recorded_are_refused() {
    let here = directory("crash-vfio-wrong");
    let errors = |arguments: &[&str]| -> String {
        let mut crash = program();
        let ran: Ran = crash.current_dir(&here).arg("crash").args(arguments).output().unwrap().into();
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
        ran.stderr
    };
    let with = |flags: &[&'static str]| -> String {
        errors(&[&["nvme"], flags, &["--run", "true", "--check", "true"]].concat())
    };
    let told = with(&["--set", "zones.size_mib=64"]);
    assert!(told.contains("has zones, and the commands would write anywhere; allowed: --vfio-user"), "{told}");
    let told = with(&["--set", "zones.size_mib=64", "--vfio-user", "--size", "100m"]);
    assert!(told.contains("104857600 bytes, which are no whole zones; allowed: multiples of 67108864"), "{told}");
    assert!(with(&["--vfio-user", "--file"]).contains("cannot be used with"));
    let told = with(&["--vfio-user", "--set", "nvme.protection=type1"]);
    assert!(told.contains("has metadata beside its blocks, which is not recorded"), "{told}");
    if programs::are_here(&["python3"]) {
        let format = "
with BlockDrive(sys.argv[1]) as drive:
    drive._submit(drive.admin, 0x80, 0, (0,), 1)
";
        let (ran, _) = crash(&here, &["--size", "1m"], format, "");
        assert_eq!(ran.code, Some(2), "{}", ran.stdout);
        assert!(ran.stderr.contains("--run: the commands format, sanitize or divide the drive"), "{}", ran.stderr);
    }
}
