//! Targets that read fio job files.

use std::collections::BTreeMap;

use phaselink_core::request::Op;
use phaselink_core::time::Time;
use phaselink_core::workload::check::Limits;
use phaselink_core::workload::{RequestGenerator, fio, trace};

use super::text;
use crate::Target;

/// Checks that any text is a job file or refused, and that a job that fits a drive asks for nothing beyond it.
pub(super) const FILE: Target = Target { name: "job", run: file, seeds };

const LIMITS: Limits = Limits {
    queue_pairs: 8,
    queue_entries: 1024,
    write_block_bytes: 4096,
    transfer_bytes: 4096,
    drives: 2,
    supported: [true; 5],
    ..Limits::new(1 << 30, 512)
};
const IOLOG: &str = "fio version 3 iolog\n0 d add\n0 d open\n5 d read 0 4096\n9 d write 4096 8192\n9 d close\n";
/// Number of requests of each job that are checked.
const REQUESTS: usize = 50;

fn file(input: &[u8]) {
    let file = match fio::parse("fuzz.fio", &text(input)) {
        Ok(file) => file,
        Err(problems) => return assert!(!problems.0.is_empty() && !problems.to_string().is_empty()),
    };
    assert!(file.names().next().is_some(), "a file without jobs is refused");
    let replayed = trace::parse("log", IOLOG).expect("a fair trace");
    let traces: BTreeMap<_, _> = file.wanted_traces().map(|name| (name.to_owned(), replayed.clone())).collect();
    let Ok(jobs) = file.resolve(&LIMITS, &traces) else { return };
    for job in &jobs {
        let generator =
            RequestGenerator::new(job, job.threads - 1, LIMITS.capacity_bytes, 1).over(LIMITS.drives as u16, 1);
        let mut generator = generator.flushing(job.flushes, true);
        let mut now = Time::ZERO;
        for _ in 0..REQUESTS {
            let Some(next) = generator.next(now) else { break };
            let end = next.io.offset.checked_add(u64::from(next.io.bytes));
            assert!(end.is_some_and(|end| end <= LIMITS.capacity_bytes), "{next:?}");
            assert!((next.io.bytes > 0) == (next.io.op != Op::Flush), "{next:?}");
            assert!(u32::from(next.drive) < LIMITS.drives, "{next:?}");
            now = now.max(next.due);
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = [
        include_str!("../../../examples/mixed.fio"),
        include_str!("../../../examples/open-loop.fio"),
        include_str!("../../../examples/randread-qd32.fio"),
        "[replay]\nread_iolog=log\n",
        "[synced]\nrw=randrw\nbs=4k\nfsync=2\nfdatasync=3\nend_fsync=1\nnumber_ios=9\n",
        "[a]\nrw=randwrite\nrandom_distribution=zipf:1.2\nsize=50%\noffset=25%\nbs=4k\nnumber_ios=9\n",
        "[b]\nrw=randrw\nrwmixread=70\nrandom_distribution=pareto:0.3\nbssplit=4k/60:8k/40,4k/100\nruntime=1\n",
        "[c]\nrw=read\nrandom_distribution=normal:20\nrate_iops=1000\nrate_process=poisson\nthinktime=5us\nio_size=1m\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    seeds.push(
        b"[global]\nbs=4k\nruntime=10ms\ntime_based\nramp_time=1ms\n[x]\nnumjobs=3\nstonewall\n[y]\niodepth=16\n"
            .to_vec(),
    );
    seeds
}
