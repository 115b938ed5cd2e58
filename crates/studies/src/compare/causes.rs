//! Time of requests by cause: stages of the ledger, gathered into causes that explain a difference between drives.

use phaselink_core::ledger::DirectionOutcome;
use phaselink_core::ledger::stage::{CauseOfLatency, Stage};
use phaselink_core::number::real;
use phaselink_core::time::Span;

/// Returns the mean time of a request by cause, in ns; the causes sum to the mean latency.
pub fn means_ns(requests: &DirectionOutcome) -> Vec<(CauseOfLatency, f64)> {
    let ios = real(requests.ios.max(1));
    let mean_ns = |cause: CauseOfLatency| {
        let stages = Stage::every().filter(|stage| stage.cause() == cause);
        stages.map(|stage| requests.stages.get(stage)).sum::<Span>().as_ns() / ios
    };
    CauseOfLatency::ALL.iter().map(|cause| (*cause, mean_ns(*cause))).collect()
}

/// Returns the time that a request saves with `fast` compared with `slow`, by cause in ns, the largest saving first.
pub(super) fn savings_ns(slow: &DirectionOutcome, fast: &DirectionOutcome) -> Vec<(CauseOfLatency, f64)> {
    let pairs = means_ns(slow).into_iter().zip(means_ns(fast));
    let mut savings: Vec<_> = pairs.map(|((cause, slow_ns), (_, fast_ns))| (cause, slow_ns - fast_ns)).collect();
    savings.sort_by(|left, right| right.1.total_cmp(&left.1));
    savings
}

#[cfg(test)]
mod tests {
    use super::*;
    use phaselink_core::drive::Drive;
    use phaselink_core::drive_file::shipped;
    use phaselink_core::engine::simulation::simulate_file;
    use phaselink_core::workload::fio;

    #[test]
    fn causes_add_up_to_the_mean_latency() {
        let options = [("rw", "randread"), ("iodepth", "8"), ("number_ios", "200")];
        let file = fio::job_from_flags(&options).unwrap();
        let staged = "preset = 'nvme'\nname = 'with an engine'\n[dma]\npreset = 'nfp6000-gen3-x8'";
        let staged = Drive::from_toml("staged.toml", staged, &[]).unwrap();
        for drive in shipped::names().filter_map(Drive::shipped).chain([staged]) {
            let outcome = simulate_file(&drive, &file, 1).unwrap();
            let read = &outcome.jobs[0].read;
            let sum: f64 = means_ns(read).iter().map(|(_, mean_ns)| mean_ns).sum();
            assert!((sum - read.total.mean_ns()).abs() < 1e-6, "{}: {sum} {}", drive.name, read.total.mean_ns());
        }
    }
}
