//! Tests that job files are read as by fio, and that mistakes are reported with their lines.

use super::super::trace::{self, NamedJobTrace, Trace};
use super::*;
use crate::workload::{AddressPattern, Job, Limits};
use proptest::prelude::*;
use std::collections::BTreeMap;

const LIMITS: Limits = Limits { queue_pairs: 4, queue_entries: 128, transfer_bytes: 4096, ..Limits::new(10 << 20, 1) };

fn resolve(text: &str) -> Vec<Job> {
    let jobs = parse("f", text).and_then(|file| file.resolve(&LIMITS, &BTreeMap::new()));
    jobs.unwrap_or_else(|problems| panic!("{problems}"))
}

fn job(options: &str) -> Job {
    resolve(&format!("[j]\n{options}")).remove(0)
}

fn problems(text: &str) -> Vec<String> {
    let result = parse("f", text).and_then(|file| file.resolve(&LIMITS, &BTreeMap::new()));
    result.expect_err("wrong").0.iter().map(ToString::to_string).collect()
}

#[test]
fn empty_job_section_is_a_sequential_read_of_the_drive() {
    let expected = Job { pattern: AddressPattern::Sequential, io_bytes: Some(10 << 20), ..Job::named("j") };
    assert_eq!(job(""), expected);
}

#[test]
fn global_options_apply_to_later_sections_and_accumulate() {
    let jobs = resolve("[a]\n[global]\niodepth=2\n[b]\nbs=8k\n[global]\nnumjobs=3\n[c]\niodepth=4\n");
    let seen: Vec<_> = jobs.iter().map(|job| (job.name.as_str(), job.iodepth, job.threads)).collect();
    assert_eq!(seen, [("a", 1, 1), ("b", 2, 1), ("c", 4, 3)]);
    assert_eq!(jobs[2].read_blocks[0].bytes, 4096, "an option of one section stays in it");
}

#[test]
fn comments_and_blank_lines_are_ignored() {
    let jobs = resolve("; a comment\n# another\n\n  [ j ]  ; here too\n\tiodepth = 4 # and here\r\n");
    assert_eq!((jobs[0].name.as_str(), jobs[0].iodepth), ("j", 4));
}

#[test]
fn name_option_overrides_the_section_name() {
    assert_eq!(job("name=x").name, "x");
}

#[test]
fn rw_values_set_the_read_share() {
    let percent = |options: &str| job(options).read_percent;
    assert_eq!((percent("rw=read"), percent("rw=write"), percent("rw=rw")), (100.0, 0.0, 50.0));
    assert_eq!(percent("rw=randrw\nrwmixread=70"), 70.0);
    assert_eq!(percent("rw=randrw\nrwmixread=70\nrwmixwrite=60"), 40.0, "the later one counts");
    let jobs = resolve("[global]\nrwmixread=70\n[a]\nrw=randread\n[b]\nrw=randrw\n");
    assert_eq!(jobs.iter().map(|job| job.read_percent).collect::<Vec<_>>(), [100.0, 70.0]);
}

#[test]
fn ineffective_option_is_refused_with_what_it_needs() {
    assert_eq!(
        problems(
            "[a]\nrw=randread\nrwmixread=70\n[b]\nrw=write\nrandom_distribution=zipf:1.2\n[c]\nread_iolog=x\nrw=randread\nbs=8k\n"
        ),
        [
            "f:3: rwmixread in a job that only reads; allowed: rw=randrw or rw=rw, or a job without it",
            "f:6: random_distribution in a job whose requests are sequential; allowed: rw=randread, randwrite or randrw, or a job without it",
            "f:9: rw with a trace, which says itself what is read and written, and when; allowed: a replay without it, or a job without a trace",
            "f:10: bs with a trace, which says itself what is read and written, and when; allowed: a replay without it, or a job without a trace",
        ]
    );
}

#[test]
fn repeated_flag_is_refused_under_any_alias() {
    let text = |flags: &[(&str, &str)]| job_from_flags(flags).expect_err("twice").to_string();
    assert_eq!(
        text(&[("iodepth", "8"), ("iodepth", "4")]),
        "command line: both iodepth=8 and iodepth=4; allowed: one of them"
    );
    let endless = [("rw", "randread"), ("number_ios", "0"), ("io_size", "1024p")];
    assert!(text(&endless).contains("number_ios=0, with which nothing ends the job"));
    assert!(job_from_flags(&[&endless[..], &[("runtime", "1s")]].concat()).is_ok());
    assert!(text(&[("bs", "4k"), ("blocksize", "4k")]).contains("both bs=4k and blocksize=4k"));
    assert!(text(&[("rw", "rw"), ("rwmixread", "4"), ("rwmixwrite", "5")]).contains("both rwmixread=4"));
}

#[test]
fn bssplit_takes_precedence_over_bs_in_any_order() {
    for options in ["bs=64k\nbssplit=4k/50:8k/50", "bssplit=4k/50:8k/50\nbs=64k"] {
        assert_eq!(job(options).read_blocks.iter().map(|share| share.bytes).collect::<Vec<_>>(), [4096, 8192]);
    }
    let split = job("rw=rw\nbs=64k\nbssplit=4k/50:8k/50,");
    assert_eq!((split.read_blocks.len(), split.write_blocks[0].bytes), (2, 65536));
}

#[test]
fn size_percentages_are_of_the_drive_and_io_size_ones_of_the_region() {
    // Measured with fio 3.33 on a file of 10 MiB: 5 MiB are read in each of the first two cases.
    let region = |options: &str| {
        let job = job(&format!("bs=64k\n{options}"));
        (job.offset, job.size, job.io_bytes)
    };
    let mib = 1u64 << 20;
    assert_eq!(region("offset=50%\nsize=50%"), (5 * mib, Some(5 * mib), Some(5 * mib)));
    assert_eq!(region("offset=50%"), (5 * mib, None, Some(5 * mib)));
    assert_eq!(region("size=50%\nio_size=50%"), (0, Some(5 * mib), Some(5 * mib / 2)));
    assert_eq!(region("size=1m\nio_size=4m"), (0, Some(mib), Some(4 * mib)));
    assert_eq!(region("offset=80%\nsize=100%"), (8 * mib, Some(2 * mib), Some(2 * mib)));
    assert_eq!(region("size=0\nio_size=0"), (0, None, Some(10 * mib)));
    // 33 % of 10 MiB is 52.8 blocks of 64 KiB: fio rounds the offset up and the size down.
    assert_eq!(region("offset=33%\nsize=33%"), (53 << 16, Some(52 << 16), Some(52 << 16)));
}

#[test]
fn think_time_limits_the_depth_as_in_fio() {
    assert_eq!(job("iodepth=32\nthinktime=5").iodepth, 1);
    assert_eq!(job("iodepth=32\nthinktime=5\nthinktime_blocks=8").iodepth, 8);
    assert_eq!(job("iodepth=32\nthinktime_blocks=8").iodepth, 32);
}

#[test]
fn all_job_file_mistakes_are_reported_with_lines() {
    let text = "bs=4k\n[global]\ndirect=0\n[a]\niodpeth=4\nrw=trim\n[b\n[a]\niodepth=8\nioengine=psync\n";
    assert_eq!(
        problems(text),
        [
            "f:1: `bs=4k` outside of a section; allowed: [global] or [NAME] above it",
            "f:3: `direct=0`; allowed: direct=1: there is no page cache",
            "f:5: unknown option `iodpeth`, did you mean iodepth?",
            "f:6: `rw=trim`; allowed: read, write, rw, readwrite, randread, randwrite or randrw",
            "f:7: `[b`; allowed: [global] or [NAME]",
            "f:8: a second job `a`; allowed: a name of its own for each job",
            "f:9: iodepth=8 with ioengine=psync, which waits for each request; allowed: iodepth=1, or an engine such as io_uring or libaio",
        ]
    );
}

#[test]
fn options_beyond_the_drive_are_reported_at_their_line() {
    let text = "[a]\nsize=6m\noffset=5m\n[b]\niodepth=128\n[c]\ntime_based\n[d]\nbs=11m\n";
    let lines: Vec<String> = problems(text).iter().map(|text| text[..text.find(": job").unwrap_or(0)].into()).collect();
    assert_eq!(lines, ["f:2", "f:5", "f:7", "f:9"]);
}

#[test]
fn jobs_that_overflow_a_shared_queue_are_reported() {
    let text = problems("[a]\niodepth=64\nnumjobs=8\n").join("\n");
    assert!(text.contains("share queue 0 keep 128 requests outstanding") && text.contains("at most 127"), "{text}");
}

#[test]
fn all_jobs_of_a_file_use_one_drive() {
    assert_eq!(resolve("[a]\nfilename=/dev/x\n[b]\n[c]\nfilename=/dev/x\n").len(), 3);
    assert!(problems("[a]\nfilename=/dev/x\n[c]\nfilename=/dev/y\n")[0].starts_with("f:4: a second filename"));
    assert!(problems("[a]\nfilename=/dev/x:/dev/y\n")[0].starts_with("f:2: `filename=/dev/x:/dev/y`"));
}

#[test]
fn job_file_without_jobs_is_refused() {
    for text in ["", "; nothing\n", "[global]\nbs=4k\n"] {
        assert_eq!(problems(text), ["f: no job; allowed: at least one section [NAME]"]);
    }
}

#[test]
fn replay_requests_its_trace() {
    let file = parse("f", "[a]\n[b]\nread_iolog=b.log\n[c]\nread_iolog=c.log\nio_size=1k\n").expect("right");
    assert_eq!(file.wanted_traces().collect::<Vec<_>>(), ["b.log", "c.log"].map(NamedJobTrace::whole));
    assert_eq!(file.names().collect::<Vec<_>>(), ["a", "b", "c"]);
    let trace: Trace =
        trace::parse("b.log", "fio version 3 iolog\n5 d read 4096 512\n9 d write 0 512\n").expect("right");
    let traces: BTreeMap<NamedJobTrace, Trace> =
        ["b.log", "c.log"].map(|name| (NamedJobTrace::whole(name), trace.clone())).into();
    let jobs = file.resolve(&LIMITS, &traces).expect("fits");
    assert_eq!(jobs[1].trace, Some(trace.requests.clone()));
    assert_eq!((jobs[1].io_bytes, jobs[2].io_bytes), (None, Some(1024)), "a replay has the length of its trace");
    let missing = file.resolve(&LIMITS, &BTreeMap::new()).expect_err("no traces").to_string();
    assert!(missing.starts_with("f:3: the trace `b.log` was not given"), "{missing}");
}

/// Lines that resemble those of a job file, so that values of all kinds reach all options.
fn random_job_line() -> impl Strategy<Value = String> {
    let names: Vec<&str> = super::options::OPTIONS.iter().flat_map(|option| option.names).copied().collect();
    let value = prop_oneof!["[0-9a-z%:/,.-]{0,12}", "[0-9]{1,20}[kmgtpib]{0,3}", ".*"];
    prop_oneof![
        1 => ".*",
        1 => "\\[[a-z]{0,3}\\]?",
        6 => (prop::sample::select(names), value).prop_map(|(name, value)| format!("{name}={value}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn job_file_reader_never_panics(lines in prop::collection::vec(random_job_line(), 0..8)) {
        if let Ok(file) = parse("f", &format!("[j]\n{}", lines.join("\n"))) {
            let _ = file.resolve(&LIMITS, &BTreeMap::new());
        }
        let _ = parse("f", &lines.join("\n"));
    }
}
