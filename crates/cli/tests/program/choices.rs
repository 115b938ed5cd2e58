//! No choice is silent: what a command would not use is refused with the next step, and what it assumes is told in a line.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use expect_test::expect;

use crate::common::{Ran, directory, phaselink, printed, program};

/// The only line of a refusal, without its label.
fn refusal(arguments: &str) -> String {
    let ran = phaselink(arguments);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "phaselink {arguments}: {}", ran.stderr);
    let line = ran.stderr.lines().next().unwrap_or_default();
    String::from(line.strip_prefix("error: ").unwrap_or_else(|| panic!("{}", ran.stderr)))
}

/// The notes of a command that ends well.
fn notes(arguments: &str) -> Vec<String> {
    let ran = phaselink(arguments);
    assert_eq!(ran.code, Some(0), "phaselink {arguments}: {}", ran.stderr);
    ran.stderr.lines().map(|line| String::from(line.strip_prefix("note: ").unwrap_or(line))).collect()
}

#[test]
fn flags_that_a_job_would_not_use_are_refused_with_what_they_need() {
    let refused = [
        "run --rwmixread 70",
        "run nvme --rw randwrite -O rwmixwrite=70",
        "run --rw read --random-distribution zipf:1.2",
        "run --iodepth 8 -O iodepth=4",
        "compare --bs 512,4k -O bs=8k",
        "run --number-ios 0",
        "run nvme --trace examples/recordings/sqlite.iolog.gz --rw randread",
    ];
    let told: String = refused.map(|arguments| format!("{}\n", refusal(arguments))).concat();
    expect![[r#"
        command line: rwmixread in a job that only reads; allowed: rw=randrw or rw=rw, or a job without it
        command line: rwmixwrite in a job that only writes; allowed: rw=randrw or rw=rw, or a job without it
        command line: random_distribution in a job whose requests are sequential; allowed: rw=randread, randwrite or randrw, or a job without it
        command line: both iodepth=8 and iodepth=4; allowed: one of them
        command line: both bs=512 and bs=8k; allowed: one of them
        command line: number_ios=0, with which nothing ends the job; allowed: 1 or more, or a runtime, size or io_size without it
        command line: rw with a trace, which says itself what is read and written, and when; allowed: a replay without it, or a job without a trace
    "#]].assert_eq(&told);
}

#[test]
fn own_drive_says_what_it_leaves_to_defaults() {
    let file = directory("choices-own").join("mine.toml");
    fs::write(&file, "interface = \"nvme\"\n[media]\ntechnology = \"nand\"\nread_ns = 40_000\n").unwrap();
    for verb in ["run FILE --number-ios 9", "compare FILE nvme --ios 9", "check FILE"] {
        let told = notes(&verb.replace("FILE", file.to_str().unwrap()));
        assert_eq!(told.len(), 1, "{told:?}");
        for part in ["mine: not stated", "link (PCI Express gen", "host (1 core at", "translation (none"] {
            assert!(told[0].contains(part), "{told:?}");
        }
    }
    assert_eq!(notes("run nvme --number-ios 9"), [""; 0]);
}

#[test]
fn job_line_names_no_size_that_was_not_given() {
    let first = |arguments: &str| String::from(printed(arguments).lines().next().unwrap());
    assert_eq!(first("run nvme --number-ios 9"), "Job: rw=randread bs=4k iodepth=1 number_ios=9");
    assert!(first("run nvme --number-ios 9 -O io_size=1m").ends_with("io_size=1m"));
}
