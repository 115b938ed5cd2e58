//! No choice is silent: what a command would not use is refused with the next step, and what it assumes is told in a line.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use expect_test::expect;

use crate::common::{Ran, directory, phaselink, printed, program};

/// The only line of a refusal, without its label.
fn refusal_line(arguments: &str) -> String {
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
fn flags_without_effect_on_the_job_are_refused() {
    let refused = [
        "run --rwmixread 70",
        "run nvme --rw randwrite -O rwmixwrite=70",
        "run --rw read --random-distribution zipf:1.2",
        "run --iodepth 8 -O iodepth=4",
        "compare --bs 512,4k -O bs=8k",
        "run --number-ios 0",
        "run nvme --trace examples/recordings/sqlite.iolog.gz --rw randread",
    ];
    let told: String = refused.map(|arguments| format!("{}\n", refusal_line(arguments))).concat();
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
fn negative_number_is_refused_as_a_flag_value() {
    expect!["command line: `iodepth=-1`; allowed: a whole number from 0 to 4294967295"]
        .assert_eq(&refusal_line("run --iodepth -1"));
    assert!(!phaselink("run --seed -1").stderr.contains("-- -1"));
}

#[test]
fn json_document_given_as_drive_or_job_file_is_recognised() {
    let file = directory("choices-json").join("result.json");
    fs::write(&file, printed("run nvme --number-ios 9 --json")).unwrap();
    for arguments in ["run FILE", "run --fio FILE"] {
        let ran = phaselink(&arguments.replace("FILE", file.to_str().unwrap()));
        assert_eq!((ran.code, ran.stderr.lines().count()), (Some(2), 1), "{}", ran.stderr);
        assert!(ran.stderr.contains("result.json: the file is JSON; allowed: "), "{}", ran.stderr);
    }
}

#[test]
fn own_drive_lists_its_defaulted_parts() {
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
fn ineffective_engine_is_noted_with_the_flag_it_needs() {
    let note = "ioengine=libaio changes nothing on nvme, whose host has no stack with engines; add --stack linux-6";
    assert_eq!(notes("run nvme -O ioengine=libaio --number-ios 9"), [note]);
    let told = notes("compare nvme cxl --ios 9 -O ioengine=io_uring");
    assert!(told[0].starts_with("ioengine=io_uring changes nothing on nvme and cxl, whose host"), "{told:?}");
    assert_eq!(notes("run nvme --stack linux-6 -O ioengine=libaio --number-ios 9"), [""; 0]);
}

#[test]
fn one_flag_runs_a_polled_drive_under_linux() {
    let told = notes("run tlc-gen4 --stack linux-6 --number-ios 9");
    assert_eq!(told, ["tlc-gen4: nvme.interrupts = true, because the threads of the stack sleep until an interrupt"]);
    // With this stack, sleeping jobs use interrupts. A polling job has none, with or without the key.
    let polled = |set: &str| printed(&format!("-q run optane-p4800x --stack linux-6 -O hipri=1 --number-ios 99 {set}"));
    assert_eq!(polled(""), polled("--set nvme.interrupts=false"));
    let refused = refusal_line("run tlc-gen4 --stack linux-6 --set nvme.interrupts=false");
    assert!(refused.contains("nvme.interrupts = true in the drive, or hipri=1 in the job"), "{refused}");
}

#[test]
fn stack_with_engines_is_refused_for_other_interfaces() {
    expect![[r#"--stack linux-6: the stack has stack.engines, with interface "cxl"; allowed: interface = "nvme", or a stack without engines, such as stack.preset = "user-space""#]].assert_eq(&refusal_line("run cxl --stack linux-6"));
}

#[test]
fn comparison_keeps_the_stack_of_drives_without_engines() {
    let told = notes("compare tlc-gen4 cxl-memory-gen5 cxl --stack linux-6 --ios 20");
    assert_eq!(told[1..], ["cxl-memory-gen5 and cxl keep their own stacks: their interfaces take no I/O engines"]);
    assert!(refusal_line("compare cxl --stack linux-6").starts_with("--stack linux-6: "));
    let head = phaselink("compare nvme cxl --stack linux-6 --ios 20 -O ioengine=libaio --explain").stdout;
    assert!(
        head.contains(
            "with libaio through application, system call, read and write, buffer, block layer and device driver\n"
        ),
        "{head}"
    );
}

#[test]
fn flash_too_small_for_its_dies_is_refused_with_valid_values() {
    let refused = refusal_line("run tlc-gen4 --set media.capacity_mib=8192");
    let (_, keys) = refused.split_once("; or ").unwrap_or_else(|| panic!("{refused}"));
    let keys = keys.split(", so that").next().unwrap().split(" and ");
    let set: String = keys.map(|key| format!(" --set {}", key.replace(' ', ""))).collect();
    assert!(set.contains("media.banks_per_channel=") || set.contains("media.channels="), "{refused}");
    notes(&format!("run tlc-gen4 --set media.capacity_mib=8192{set} --number-ios 9"));
}

#[test]
fn unknown_paper_suggests_the_most_similar_one() {
    assert!(
        refusal_line("reproduce monetta")
            .starts_with("command line: there is no paper `monetta`, did you mean moneta-talk-2011?")
    );
}

#[test]
fn draws_of_intervals_are_limited_to_the_allowed_range() {
    for draws in ["0", "3", "10", "x"] {
        let ran = phaselink(&format!("run nvme --number-ios 9 --intervals={draws}"));
        assert_eq!(ran.code, Some(2), "{draws}");
        assert!(ran.stderr.contains("20 to 1000000: fewer draws have no interval"), "{}", ran.stderr);
    }
    assert!(printed("run nvme --number-ios 99 --intervals=21").contains("90 % of 21 draws"));
    let compared = printed("compare nvme --ios 99 --numjobs 1 --bs 512 --intervals=20");
    let table = compared.split("90 % of 20 draws").nth(1).unwrap();
    assert!(table.lines().any(|line| line.contains("p99.9")), "{table}");
}

#[test]
fn job_line_omits_default_sizes() {
    let first =
        |arguments: &str| String::from(printed(arguments).lines().find(|line| line.starts_with("Job")).unwrap());
    assert_eq!(first("run nvme --number-ios 9"), "Job: rw=randread bs=4k iodepth=1 number_ios=9");
    assert!(first("run nvme --number-ios 9 -O io_size=1m").ends_with("io_size=1m"));
}

#[test]
fn capacities_are_printed_in_marketed_units() {
    let compared = printed("compare tlc-gen4 optane-p4800x --ios 9 --numjobs 1 --bs 4k --explain");
    assert!(compared.contains("NAND flash, 1.0 TB, ") && compared.contains(", 375 GB, "), "{compared}");
}

#[test]
fn tables_and_prose_fit_the_terminal_width() {
    let run = |arguments: &str, columns: &str| -> Ran {
        let mut command = program();
        command.args(arguments.split(' ')).env("COLUMNS", columns).output().unwrap().into()
    };
    for arguments in ["compare nvme dc-express --ios 99", "run nvme --number-ios 99", "check nvme"] {
        let narrow = run(arguments, "80").stdout;
        let tables = narrow
            .lines()
            .filter(|line| line.starts_with('─') || line.starts_with("block") || line.starts_with("job "));
        let widest = tables.map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(widest <= 80, "{narrow}");
        assert_eq!(run(arguments, "300").stdout, printed(arguments), "a wide terminal changes nothing");
    }
}

#[test]
fn completions_contain_shipped_names() {
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&format!("completions {shell}"));
        let names = ["optane-p4800x", "linux-6", "zen4-9654p", "moneta-talk-2011", "which-interface"];
        // fish completes only options.
        let known = if shell == "fish" { &names[1..3] } else { &names[..] };
        known.iter().for_each(|name| assert!(script.contains(name), "{shell}: {name}"));
    }
}

#[test]
fn trace_info_proposes_a_drive_that_holds_the_trace() {
    let here = directory("choices-trace");
    let propose = |end: u64| {
        fs::write(here.join("t.csv"), format!("128166372003061629,hm,0,Read,{},4096,413\n", end - 4096)).unwrap();
        let ran: Ran = program().current_dir(&here).args(["trace-info", "t.csv"]).output().unwrap().into();
        String::from(ran.stdout.lines().find(|line| line.contains("phaselink run")).unwrap().trim())
    };
    assert_eq!(propose(1 << 29), "phaselink run dc-express --trace t.csv");
    assert_eq!(propose(100 << 30), "phaselink run optane-p4800x --trace t.csv");
    assert_eq!(propose(5 << 40), "phaselink run dc-express --trace t.csv --set media.capacity_mib=8388608");
}

#[test]
fn missing_program_for_a_plain_file_is_reported_at_once() {
    let here = directory("choices-fuse");
    fs::write(here.join("nbdfuse"), "#!/bin/sh\nsleep 60\n").unwrap();
    fs::set_permissions(here.join("nbdfuse"), fs::Permissions::from_mode(0o755)).unwrap();
    let started = Instant::now();
    let mut crash = program();
    crash.current_dir(&here).env("PATH", &here).args(["crash", "--file", "--run", "true", "--check", "true"]);
    let ran: Ran = crash.output().unwrap().into();
    assert!(
        ran.stderr.contains("the program fusermount3 is missing") && ran.stderr.contains("package fuse3"),
        "{}",
        ran.stderr
    );
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}
