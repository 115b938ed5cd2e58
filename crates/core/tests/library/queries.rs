//! Queries: rounds of reads that follow from one another.

use crate::common::{drive, jobs, run};
use phaselink_core::engine::requests::KeptRequestRecord;
use phaselink_core::simulation::Simulation;
use phaselink_core::time::Span;
use phaselink_core::workload::fio;

#[test]
fn query_of_serial_reads_takes_their_latencies_plus_think_time() {
    let drive = drive("nvme", &[]);
    for (think, between_us) in [("", 0), ("thinktime=9us", 9)] {
        let outcome = run(&drive, &format!("query_rounds=15 number_ios=1500 {think}"));
        let job = &outcome.jobs[0];
        assert_eq!((job.query.count(), job.read.ios), (100, 1500));
        let expected = job.read.total.sum_ps() * 15 / 1500 + u128::from(Span::from_us(between_us).as_ps()) * 14;
        assert_eq!(job.query.sum_ps() / 100, expected, "{think}");
    }
}

#[test]
fn reads_within_a_query_round_overlap_and_rounds_do_not() {
    for (name, ways) in
        [("nvme", ""), ("tlc-gen4", "ioengine=io_uring"), ("tlc-gen4", "ioengine=libaio iodepth_batch=2")]
    {
        let drive = drive(name, if ways.is_empty() { &[] } else { &["stack.preset=linux-6", "nvme.interrupts=true"] });
        let jobs = jobs(&drive, &format!("query_rounds=5 iodepth=4 number_ios=400 {ways}"));
        let mut simulation = Simulation::new(&drive, &jobs, 1).unwrap();
        simulation.keep_requests(1000);
        while simulation.step(1 << 20) {}
        let outcome = simulation.outcome();
        assert_eq!((outcome.jobs[0].query.count(), outcome.finished), (20, true), "{name} {ways}");
        let mut kept = simulation.take_requests().unwrap().kept().to_vec();
        kept.sort_by_key(|read| read.number);
        let rounds: Vec<_> = kept.chunks(4).collect();
        let overlaps = |round: &[_]| round.windows(2).any(|pair: &[KeptRequestRecord]| pair[1].wanted < pair[0].done);
        assert!(rounds.iter().filter(|round| overlaps(round)).count() > 90, "{name} {ways}");
        for pair in rounds.windows(2) {
            let (done, next) = (pair[0].iter().map(|it| it.done).max(), pair[1].iter().map(|it| it.wanted).min());
            assert!(done <= next, "{name} {ways}: a round begins before the one before it is done");
        }
        let span = |query: &[KeptRequestRecord]| {
            let begin = query.iter().map(|it| it.wanted).min().unwrap();
            query.iter().map(|it| it.done).max().unwrap().since(begin).as_ps()
        };
        let sum: u128 = kept.chunks(20).map(|query| u128::from(span(query))).sum();
        assert_eq!(outcome.jobs[0].query.sum_ps(), sum, "{name} {ways}");
    }
}

#[test]
fn queries_that_begin_during_the_ramp_are_not_measured() {
    let drive = drive("nvme", &[]);
    let outcome = run(&drive, "query_rounds=10 ramp_time=100us runtime=1ms io_size=1g");
    let (queries, reads) = (outcome.jobs[0].query.count(), outcome.jobs[0].read.ios);
    assert!(queries > 3 && queries * 10 <= reads && reads < (queries + 2) * 10, "{queries} {reads}");
}

#[test]
fn queries_with_writes_a_rate_or_think_time_within_a_round_are_refused() {
    let drive = drive("nvme", &[]);
    for (options, found) in [
        (&[("rw", "randrw")][..], "query_rounds=3 in a job that writes"),
        (&[("rate_iops", "100")], "query_rounds=3 with rate_iops"),
        (
            &[("thinktime", "5us"), ("thinktime_blocks", "8")],
            "query_rounds=3 with thinktime_blocks=8 and rounds of iodepth=4",
        ),
        (&[("query_rounds", "10001")], "10001"),
    ] {
        let usual = [("rw", "randread"), ("iodepth", "4"), ("number_ios", "8"), ("query_rounds", "3")];
        let kept = usual.iter().filter(|(name, _)| options.iter().all(|(other, _)| other != name)).copied();
        let options: Vec<_> = kept.chain(options.iter().copied()).collect();
        let resolved =
            fio::job_from_flags(&options).and_then(|file| file.resolve(&drive.limits(), &Default::default()));
        let problems = resolved.map_or_else(|problems| problems.to_string(), |_| String::new());
        assert!(problems.contains(found), "{options:?}: {problems}");
    }
}
