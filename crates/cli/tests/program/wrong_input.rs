//! Wrong input of every kind ends with exit code 2 and all that is wrong with it, one problem a line.

use std::fs;
use std::time::{Duration, Instant};

use crate::common::{Ran, directory, phaselink, program};

/// The lines on standard error, which each begin with `error: `, without that.
fn error_lines(arguments: &str) -> Vec<String> {
    let ran = phaselink(arguments);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "phaselink {arguments}: {}", ran.stderr);
    let lines = ran.stderr.lines().map(|line| line.strip_prefix("error: ").unwrap_or_else(|| panic!("{line}")));
    lines.map(String::from).collect()
}

/// The errors of a command that takes a file with this text in place of `FILE`.
fn errors_of_file_text(test: &str, file: &str, text: &str, arguments: &str) -> Vec<String> {
    let path = directory(test).join(file);
    fs::write(&path, text).unwrap();
    let lines = error_lines(&arguments.replace("FILE", path.to_str().unwrap()));
    lines.iter().map(|line| line.replace(path.to_str().unwrap(), file)).collect()
}

#[test]
fn missing_file_is_reported_once_with_the_reason() {
    let lines = error_lines("compare no/such.toml nvme");
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("no/such.toml: cannot be read: "), "{lines:?}");
}

#[test]
fn unknown_price_description_and_share_above_one_are_refused() {
    assert_eq!(
        error_lines("breakeven slc"),
        [
            "command line: there is no description `slc`; allowed: a file, or slc-cpu, slc-gpu, pslc-cpu, tlc-cpu, slc-small-cpu, \
          slc-large-cpu"
        ]
    );
    assert_eq!(
        error_lines("breakeven --utilisation 1.5"),
        ["command line: utilisation = 1.5; allowed: a share above 0 and at most 1"]
    );
}

#[test]
fn endless_memory_and_unknown_workload_are_refused() {
    assert_eq!(
        error_lines("endurance nvme --media dram --workload hammer"),
        ["nvme: media.endurance_cycles is 0: its lines last for ever; allowed: a number of writes above 0"]
    );
    assert_eq!(
        error_lines("endurance nvme --workload hamer"),
        ["command line: there is no workload `hamer`; allowed: uniform, hot-range, zipf, hammer"]
    );
    assert_eq!(
        error_lines("endurance tlc-gen4 --workload hammer"),
        [
            "command line: there is no workload `hammer` for flash behind a translation layer, which spreads all writes; \
          allowed: sequential, random"
        ]
    );
    assert_eq!(
        error_lines("endurance tlc-gen4 --seed 2"),
        [
            "command line: --seed has no effect on tlc-gen4, of whose flash nothing is drawn; allowed: a drive without a \
          translation layer"
        ]
    );
    assert_eq!(
        error_lines("endurance nvme --bs 4k"),
        ["command line: --bs has no effect on nvme, whose memory has no translation layer; allowed: a drive of flash"]
    );
}

#[test]
fn unknown_drive_suggests_the_nearest_and_lists_all() {
    let known: Vec<&str> = phaselink_core::drive_file::shipped::names().collect();
    let expected = format!(
        "command line: there is no drive `dc-expres`, did you mean dc-express?; allowed: {}, or the path of a drive file",
        known.join(", ")
    );
    assert_eq!(error_lines("run dc-expres"), [expected]);
}

#[test]
fn all_problems_of_a_drive_file_are_reported_with_lines() {
    let text = "preset = \"nvme\"\n[media]\nraed_ns = 3\n[link]\nlanes = 0\n";
    let lines = errors_of_file_text("drive", "d.toml", text, "check FILE");
    assert_eq!(
        lines,
        [
            "d.toml:3: unknown key raed_ns in [media], did you mean read_ns?",
            "d.toml:5: link.lanes is 0; allowed: 1, 2, 4, 8, 12, 16, 32",
        ]
    );
}

#[test]
fn problems_of_several_drives_are_reported_together() {
    let lines = error_lines("check nvmee dc-expess --set link.lanes=4");
    assert_eq!(lines.len(), 2, "{lines:?}");
}

#[test]
fn problem_shared_by_several_drives_is_reported_once() {
    assert_eq!(
        error_lines("compare --set link.lanes=0"),
        ["--set link.lanes=0: link.lanes is 0; allowed: 1, 2, 4, 8, 12, 16, 32"]
    );
}

#[test]
fn all_invalid_overrides_are_reported() {
    let lines = error_lines("run --set a --set b.c.d=1");
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("--set a: there is no = between key and value"), "{lines:?}");
}

#[test]
fn unknown_preset_lists_the_known_ones() {
    let lines = error_lines("run --media flash");
    assert!(lines[0].contains("allowed: pcm-lpddr2-nvm, "), "{lines:?}");
}

#[test]
fn impossible_job_file_is_refused_line_by_line() {
    let text = "[big]\nrw=randread\nsize=1p\niodepth=70000\n[looped]\nloops=3\n";
    let lines = errors_of_file_text("job", "j.fio", text, "run --fio FILE");
    assert!(lines.iter().any(|line| line.starts_with("j.fio:6: ")), "{lines:?}");
    let lines = errors_of_file_text("job", "j.fio", &text.replace("loops=3", ""), "run --fio FILE");
    assert!(lines[0].starts_with("j.fio:4: job `big`: iodepth is 70000"), "{lines:?}");
    assert!(lines[1].starts_with("j.fio:3: job `big`: the region takes"), "{lines:?}");
}

#[test]
fn truncated_trace_is_reported_with_its_last_line() {
    let text = "128166372003061629,hm,0,Read,383496192,32768,413\n128166372016382155,hm,0,Wri";
    let lines = errors_of_file_text("trace", "t.csv", text, "run nvme --trace FILE");
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("t.csv:2: ") && lines[0].contains("cut short"), "{lines:?}");
}

#[test]
fn trace_of_a_job_file_is_reported_by_its_own_name() {
    let lines = errors_of_file_text("replay", "j.fio", "[replay]\nread_iolog=no/such.trace\n", "run --fio FILE");
    assert!(lines[0].starts_with("no/such.trace: cannot be read"), "{lines:?}");
}

#[test]
fn depth_beyond_all_queues_is_refused() {
    assert_eq!(
        error_lines("run --iodepth 64"),
        ["command line: job `job`: iodepth is 64; allowed: 1 to 63, since a queue of 64 entries keeps one empty"]
    );
}

#[test]
fn sizes_at_integer_limits_are_refused() {
    for flags in [
        "--bs 0",
        "--bs 4294967292",
        "--bs 4294967296",
        "--bs 18446744073709551616",
        "--size 18446744073709551615",
        "--size 18446744073709551616",
        "--number-ios 18446744073709551616",
        "--numjobs 0",
        "--numjobs 65537",
        "--numjobs 4294967296",
        "--iodepth 0",
        "--iodepth 4294967295",
        "--runtime 18446745s",
        "--rate-iops 18446744073709551615",
        "--thinktime 9999999999999999999999",
        "--seed 18446744073709551616",
        "--set media.capacity_mib=1099511627777",
        "--set media.capacity_mib=-1",
        "--set media.read_ns=1e300",
        "--set link.bit_error_rate=nan",
    ] {
        // The parser of flags adds advice to its errors on further lines, so check only the first line.
        let ran = phaselink(&format!("run {flags}"));
        assert_eq!(ran.code, Some(2), "{flags}");
        assert!(ran.stderr.starts_with("error: "), "{flags}: {}", ran.stderr);
    }
}

#[test]
fn largest_allowed_values_run() {
    for flags in [
        "--number-ios 18446744073709551615 --numjobs 2 --runtime 100us",
        "--set media.capacity_mib=1099511627776 --number-ios 100",
        "--seed 18446744073709551615 --number-ios 100",
        "--iodepth 63 --number-ios 100",
        "--rate-iops 1000000000000 --number-ios 100",
        "--rw read --bs 4 --number-ios 1",
    ] {
        assert_eq!(phaselink(&format!("run {flags}")).code, Some(0), "{flags}");
    }
}

#[test]
fn all_wrong_job_options_are_reported_at_once() {
    let lines = error_lines("run --iodepth x -O rw=foo -O bssplit=4k/10 -O stonewal=1");
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(error_lines("run -O foo")[0], "command line: --option foo; allowed: NAME=VALUE, as in thinktime=20us");
}

#[test]
fn unwritable_results_are_reported_before_the_run() {
    // A run of 20 simulated days would not end within the test, so the error must come before the run starts.
    let lines = error_lines("run --runtime 20d --json=no/such/directory/x.json");
    assert!(lines[0].starts_with("no/such/directory/x.json: cannot be written: "), "{lines:?}");
}

#[test]
fn binary_files_are_refused_with_the_line() {
    let path = directory("bytes").join("d.toml");
    fs::write(&path, b"name = \"x\"\n\xff\xfe").unwrap();
    let lines = error_lines(&format!("check {}", path.display()));
    assert!(lines[0].ends_with("d.toml:2: bytes that are not text; allowed: UTF-8"), "{lines:?}");
}

#[test]
fn endless_devices_are_refused_as_text_or_state_file() {
    assert!(
        error_lines("run --trace /dev/zero")[0].starts_with("/dev/zero: a trace of unknown format; allowed: blktrace")
    );
    let plan = directory("endless").join("p.toml");
    fs::write(&plan, "drive = \"nvme\"\njob = { bs = \"4k\" }\n[[axis]]\nkey = \"link.lanes\"\nvalues = [1]\n")
        .unwrap();
    let lines = error_lines(&format!("sweep {} --state /dev/full", plan.display()));
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("/dev/full: is no file of a sweep's finished runs"), "{lines:?}");
}

#[test]
fn names_with_control_characters_are_refused_and_escaped() {
    let lines = errors_of_file_text("escape", "d.toml", "preset = \"nvme\"\nname = \"a\\u001b[31m\\nb\"\n", "run FILE");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("d.toml:2: name is "), "{lines:?}");
    let name = "n".repeat(66_000);
    let lines = errors_of_file_text("long", "d.toml", &format!("preset = \"nvme\"\nname = \"{name}\"\n"), "run FILE");
    assert!(lines[0].ends_with("; allowed: text in quotes, a line of at most 1000 characters"), "{lines:?}");
    for name in [name.as_str(), "red\u{1b}[31m"] {
        let lines = errors_of_file_text("job-name", "j.fio", &format!("[{name}]\nnumber_ios=1\n"), "run --fio FILE");
        assert!(lines[0].starts_with("j.fio:1: `["), "{lines:?}");
        assert!(lines[0].ends_with("allowed: a printable name of at most 1000 characters"), "{lines:?}");
        assert!(lines[0].len() < 2000 && !lines[0].contains('\u{1b}'), "{lines:?}");
    }
}

#[test]
fn file_of_unknown_keys_or_one_long_line_is_refused_briefly() {
    let keys: String = (0..40_000).map(|number| format!("key_{number} = {number}\n")).collect();
    let started = Instant::now();
    let lines = errors_of_file_text("keys", "d.toml", &format!("preset = \"nvme\"\n[media]\n{keys}"), "check FILE");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!((lines.len(), lines[1000].as_str()), (1001, "and 39000 more problems"));
    let line = format!("1 2 3 {}\n", "x".repeat(30_000_000));
    let lines = errors_of_file_text("line", "t.log", &format!("fio version 3 iolog\n{line}"), "run nvme --trace FILE");
    assert!(lines[0].starts_with("t.log:2: ") && lines[0].len() < 2000, "{} bytes", lines[0].len());
}

#[test]
fn too_many_requests_in_flight_for_memory_are_refused() {
    // The third of these jobs would need a single allocation of 4 GiB.
    for flags in [
        "run cxl --bs 512m",
        "run cxl --set media.capacity_mib=65536 --bs 1g",
        "run cxl --set media.capacity_mib=65536 --bs 1g --numjobs 4",
        "run cxl --numjobs 65535",
    ] {
        let lines = error_lines(flags);
        let allowed = "at most 1048576, and this drive cuts requests into parts of 64 bytes";
        assert!(lines.len() == 1 && lines[0].ends_with(allowed), "{flags}: {lines:?}");
    }
    let lines = error_lines("compare --bs 512m");
    assert!(lines.iter().any(|line| line.contains("parts of 64 bytes")), "{lines:?}");
}

#[test]
fn unknown_paper_lists_known_papers() {
    assert_eq!(
        error_lines("reproduce x"),
        [
            "command line: there is no paper `x`; allowed: capi-pcm-openpower, dc-express-fast14, five-minute-rule-arxiv25, modern, moneta-talk-2011, nvme-model-nvmsa16, pss-ibm-nvmw14"
        ]
    );
}

#[test]
fn no_arguments_print_help_and_exit_with_2() {
    let ran = phaselink("");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("Usage: phaselink [OPTIONS] <COMMAND>"), "{}", ran.stderr);
}

#[test]
fn file_with_a_shipped_drives_name_needs_its_path() {
    let here = directory("shadow");
    fs::write(here.join("nvme"), "preset = \"dc-express\"\nname = \"mine\"\n").unwrap();
    let interface = |word: &str| {
        let page: Ran = program().current_dir(&here).args(["check", word]).output().unwrap().into();
        page.stdout.lines().find(|line| line.contains("interface")).map(|line| line.contains("dc-express"))
    };
    assert_eq!((interface("nvme"), interface("./nvme")), (Some(false), Some(true)));
}

#[test]
fn timing_over_vfio_user_needs_nvme_and_no_other_front_end() {
    let lines = error_lines("serve nvme --shm x.sock --vfio-user y.sock");
    assert!(lines[0].contains("--shm and --vfio-user together") && lines[0].contains("--timing off"), "{lines:?}");
    let lines = error_lines("serve nvme --shm x.sock --nbd nbd://127.0.0.1:0/ --vfio-user y.sock");
    assert!(lines[0].contains("--nbd and --shm and --vfio-user together"), "{lines:?}");
    let lines = error_lines("serve nvme --shm no/such/folder/x.sock --nbd nbd+unix:///?socket=no/such/folder/y.sock");
    assert!(lines[0].contains("cannot be"), "both together are fine: {lines:?}");
    let lines = error_lines("serve dc-express --vfio-user y.sock");
    assert!(lines[0].contains("dc-express does not") && lines[0].contains("--timing off"), "{lines:?}");
    let lines = error_lines("serve nvme --vfio-user no/such/folder/y.sock");
    assert!(lines[0].contains("cannot be served"), "{lines:?}");
}

#[test]
fn one_of_several_drives_can_be_served() {
    for flags in ["--nbd nbd://127.0.0.1:0/", "--vfio-user y.sock", "--shm x.sock --timing off"] {
        let lines = error_lines(&format!("serve nvme --set drives=4 {flags}"));
        assert!(lines[0].contains("drives is 4: what hosts attach to is one drive"), "{flags}: {lines:?}");
    }
    let lines = error_lines("serve nvme --set switch.drives=4 --nbd nbd://127.0.0.1:0/");
    assert!(lines[0].contains("switch.drives is 4: the model of a served drive has no switch"), "{lines:?}");
}

#[test]
fn unreportable_settings_over_vfio_user_are_refused_by_key() {
    for (setting, word) in [
        ("nvme.queue_pairs=65", "nvme.queue_pairs from 1 to 64"),
        ("nvme.max_transfer_kib=4", "nvme.max_transfer_kib of 8 or more"),
        ("nvme.block_bytes=256", "nvme.block_bytes a power of two from 512"),
    ] {
        for timing in ["on", "off"] {
            let lines =
                error_lines(&format!("serve nvme --set {setting} --timing {timing} --vfio-user no/such/folder/y.sock"));
            assert!(lines[0].contains(word), "{lines:?}");
        }
    }
}
