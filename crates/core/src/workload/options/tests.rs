//! Tests that every option has its documented effect, or is refused by name.

use super::super::values::ByteAmount;
use super::super::{BlockShare, Distribution, WrittenJobFile};
use super::*;
use crate::workload::JobPlace;
use crate::workload::fio::job_from_flags;

/// Returns the section after one option that is given in line 5, or the option's problem.
fn with(name: &str, text: Option<&str>) -> Result<JobDraft, Problem> {
    let mut draft = JobDraft::new("j", JobPlace::new("f", 1));
    set(&mut draft, name, text, Some(5)).map(|()| draft)
}

fn set_to(name: &str, text: &str) -> JobDraft {
    with(name, Some(text)).unwrap_or_else(|problem| panic!("{problem}"))
}

fn refused(name: &str, text: Option<&str>) -> String {
    with(name, text).expect_err(name).to_string()
}

#[test]
fn job_options_set_their_job_fields() {
    assert_eq!(set_to("name", "x").job.name, "x");
    assert_eq!(set_to("numjobs", "8").job.threads, 8);
    assert_eq!(set_to("iodepth", "1k").job.iodepth, 1024);
    assert_eq!(set_to("number_ios", "1k").job.ios, Some(1024));
    assert_eq!(set_to("number_ios", "0").job.ios, None);
    assert_eq!(set_to("read_iolog", "a/b.log").read_iolog.as_deref(), Some("a/b.log"));
    assert_eq!(set_to("filename", "/dev/nvme0n1").filename.as_deref(), Some("/dev/nvme0n1"));
}

#[test]
fn time_options_have_their_default_units() {
    for name in ["runtime", "timeout"] {
        assert_eq!(set_to(name, "2").job.runtime, Some(Span::from_s(2)));
        assert_eq!(set_to(name, "2ms").job.runtime, Some(Span::from_ms(2)));
        assert_eq!(set_to(name, "0").job.runtime, None);
    }
    assert_eq!(set_to("ramp_time", "1").job.ramp_time, Span::from_s(1));
    assert_eq!(set_to("thinktime", "7").job.thinktime, Span::from_us(7));
    assert_eq!(set_to("thinktime_blocks", "4").job.thinktime_blocks, 4);
    assert!(refused("runtime", Some("300d")).contains("less than 213 days"));
}

#[test]
fn time_based_option_is_a_switch() {
    assert!(with("time_based", None).expect("bare").job.time_based);
    assert!(set_to("time_based", "1").job.time_based);
    assert!(!set_to("time_based", "0").job.time_based);
    assert!(refused("time_based", Some("yes")).contains("`time_based=yes`; allowed: 0 or 1"));
}

#[test]
fn rw_option_sets_pattern_and_directions() {
    use AddressPattern::{Random, Sequential};
    for (text, expected) in [
        ("read", (Sequential, true, false)),
        ("write", (Sequential, false, true)),
        ("rw", (Sequential, true, true)),
        ("readwrite", (Sequential, true, true)),
        ("randread", (Random, true, false)),
        ("randwrite", (Random, false, true)),
        ("randrw", (Random, true, true)),
    ] {
        for name in ["rw", "readwrite"] {
            let draft = set_to(name, text);
            assert_eq!((draft.job.pattern, draft.reads, draft.writes), expected, "{text}");
        }
    }
    for text in ["trim", "randtrim", "trimwrite", "randread:8", "Read"] {
        assert!(refused("rw", Some(text)).contains("allowed: read, write, rw"), "{text}");
    }
}

#[test]
fn mix_can_be_set_by_read_or_write_share() {
    assert_eq!(set_to("rwmixread", "70").mix_read_percent, 70);
    assert_eq!(set_to("rwmixwrite", "70").mix_read_percent, 30);
    assert!(refused("rwmixread", Some("101")).contains("0 to 100"));
}

#[test]
fn block_sizes_are_set_separately_for_reads_and_writes() {
    for name in ["bs", "blocksize"] {
        assert_eq!(set_to(name, "8k").block_bytes, [8192, 8192]);
        assert_eq!(set_to(name, "8k,512").block_bytes, [8192, 512]);
        assert_eq!(set_to(name, ",512").block_bytes, [4096, 512]);
        assert!(refused(name, Some("0")).contains("allowed: bytes"));
    }
    let share = |bytes, percent| BlockShare { bytes, percent };
    let [reads, writes] = set_to("bssplit", "4k/60:8k/40,512").block_splits;
    assert_eq!(reads, Some(vec![share(4096, 60.0), share(8192, 40.0)]));
    assert_eq!(writes, Some(vec![share(512, 100.0)]));
    assert!(refused("bssplit", Some("4k/60:8k/30")).contains("add up to 100"));
}

#[test]
fn region_options_take_bytes_or_percentages() {
    assert_eq!(set_to("size", "10g").size, Some(ByteAmount::Bytes(10 << 30)));
    assert_eq!(set_to("size", "20%").size, Some(ByteAmount::Percent(20)));
    for name in ["offset", "fileoffset"] {
        assert_eq!(set_to(name, "1m").offset, ByteAmount::Bytes(1 << 20));
    }
    for name in ["io_size", "io_limit"] {
        assert_eq!(set_to(name, "50%").io_size, Some(ByteAmount::Percent(50)));
    }
    assert!(refused("size", Some("101%")).contains("1% to 100%"));
    assert!(refused("size", Some("5q")).contains("`size=5q`"));
}

#[test]
fn distribution_options_take_their_parameter() {
    for (text, expected) in [
        ("random", Distribution::Uniform),
        ("zipf", Distribution::Zipf(1.1)),
        ("zipf:0.99", Distribution::Zipf(0.99)),
        ("pareto:0.3", Distribution::Pareto(0.3)),
        ("normal:10", Distribution::Normal(10.0)),
    ] {
        assert_eq!(set_to("random_distribution", text).job.distribution, expected);
    }
    for text in ["zoned:60/10:40/90", "zipf:1.2:0.5", "zipf:x", "zipf:nan", "normal", "uniform"] {
        assert!(refused("random_distribution", Some(text)).contains("zipf:THETA"), "{text}");
    }
}

#[test]
fn rate_options_are_set_separately_for_reads_and_writes() {
    let rates = |text| {
        let job = set_to("rate_iops", text).job;
        (job.rate_iops_read, job.rate_iops_write)
    };
    assert_eq!(rates("5k"), (Some(5120.0), Some(5120.0)));
    assert_eq!(rates("1000,500"), (Some(1000.0), Some(500.0)));
    assert_eq!(rates("1000,"), (Some(1000.0), None));
    assert!(refused("rate_iops", Some("0")).contains("1 or more"));
    assert_eq!(set_to("rate_process", "poisson").job.rate_process, RateProcess::Poisson);
    assert_eq!(set_to("rate_process", "linear").job.rate_process, RateProcess::Linear);
    assert!(refused("rate_process", Some("fixed")).contains("linear or poisson"));
}

#[test]
fn synchronous_engines_allow_only_depth_one() {
    for engine in ["libaio", "io_uring", "io_uring_cmd", "posixaio", "null", "spdk", "spdk_bdev", "external:x/y"] {
        assert!(job_from_flags(&[("ioengine", engine), ("iodepth", "32")]).is_ok(), "{engine}");
    }
    for engine in ["sync", "psync", "vsync", "pvsync", "pvsync2"] {
        assert!(job_from_flags(&[("ioengine", engine)]).is_ok(), "{engine}");
        let problems = job_from_flags(&[("ioengine", engine), ("iodepth", "32")]).expect_err(engine).to_string();
        assert!(problems.contains(&format!("iodepth=32 with ioengine={engine}")), "{problems}");
    }
    assert!(refused("ioengine", Some("mmap")).contains("`ioengine=mmap`"));
}

#[test]
fn ineffective_options_accept_any_value() {
    for option in OPTIONS.iter().filter(|option| matches!(option.kind, OptionValues::NoEffect)) {
        let mut untouched = JobDraft::new("j", JobPlace::new("f", 1));
        untouched.place.note(option.names[0], Some(5));
        for name in option.names {
            assert_eq!(with(name, Some("1")), Ok(untouched.clone()), "{name}");
            assert_eq!(with(name, None), Ok(untouched.clone()), "{name}");
        }
    }
}

#[test]
fn single_value_options_refuse_other_values() {
    for option in OPTIONS {
        let OptionValues::Only(values) = option.kind else {
            continue;
        };
        for name in option.names {
            assert!(values.iter().all(|value| with(name, Some(value)).is_ok()), "{name}");
            let message = refused(name, Some("7"));
            assert!(message.starts_with(&format!("f:5: `{name}=7`; allowed: ")), "{message}");
        }
    }
    assert!(refused("direct", Some("0")).contains("no page cache"));
    assert!(with("norandommap", None).is_ok());
}

#[test]
fn unmodelled_fio_options_are_refused_by_name() {
    for (instead, names) in REFUSED {
        for name in *names {
            assert!(find(name).is_none(), "{name} is both");
            assert_eq!(refused(name, Some("1")), format!("f:5: `{name}` is not modelled; allowed: {instead}"));
        }
    }
}

#[test]
fn options_with_a_value_require_it() {
    for option in OPTIONS.iter().filter(|option| matches!(option.kind, OptionValues::Value(_))) {
        for text in [None, Some("")] {
            assert!(refused(option.names[0], text).contains(option.names[0]));
        }
    }
}

#[test]
fn misspelt_option_suggests_the_right_name() {
    for (wrong, right) in
        [("iodpeth", "iodepth"), ("runTime", "runtime"), ("num_jobs", "numjobs"), ("block_size", "blocksize")]
    {
        assert!(refused(wrong, Some("1")).contains(&format!("did you mean {right}?")), "{wrong}");
    }
    assert!(refused("q", Some("1")).contains("docs/fio.md"));
    assert!(refused("", Some("1")).contains("docs/fio.md"));
}

#[test]
fn option_names_are_unique() {
    let mut names: Vec<_> = OPTIONS.iter().flat_map(|option| option.names).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn all_wrong_flags_are_reported_at_once() {
    let problems =
        job_from_flags(&[("bs", "x"), ("rw", "randread"), ("iodpeth", "4"), ("direct", "0")]).expect_err("wrong");
    assert_eq!(problems.0.len(), 3);
    assert!(problems.0.iter().all(|problem| problem.file == "command line" && problem.line.is_none()));
}

#[test]
fn flags_and_job_file_give_the_same_job() {
    let file =
        crate::workload::fio::parse("f", "[job]\nrw=randrw\nbs=8k\ntime_based\nruntime=1\niodepth=4\n").expect("right");
    let flags = [("rw", "randrw"), ("bs", "8k"), ("time_based", ""), ("runtime", "1"), ("iodepth", "4")];
    let flags = job_from_flags(&flags).expect("right");
    let job = |file: &WrittenJobFile| {
        let limits = crate::workload::Limits { queue_entries: 64, ..crate::workload::Limits::new(1 << 30, 1) };
        file.resolve(&limits, &Default::default()).expect("fits")
    };
    assert_eq!(job(&file), job(&flags));
}

#[test]
fn placement_identifier_option_takes_lists_with_ranges() {
    for name in ["plids", "fdp_pli"] {
        assert_eq!(set_to(name, "0,2-4,1").handles.places, [0, 2, 3, 4, 1]);
        for wrong in ["4-2", "70000", "a", "1,,2"] {
            assert!(refused(name, Some(wrong)).contains("such as 0,2-4"), "{wrong}");
        }
    }
    assert!(
        set_to("plid_select", "random").handles.is_random && !set_to("fdp_pli_select", "roundrobin").handles.is_random
    );
    assert!(refused("plid_select", Some("scheme")).contains("roundrobin or random"));
    assert!(set_to("fdp", "1").places_data && set_to("dataplacement", "fdp").places_data);
    assert!(refused("dataplacement", Some("streams")).contains("streams are not modelled"));
}
