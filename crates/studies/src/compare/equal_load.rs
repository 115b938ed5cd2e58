//! Drives at equal load. At the same queue depth, a fast drive serves many times the requests of a slow one, and their
//! latencies belong to different loads. Such drives therefore also run at a rate that all of them keep up with.

use super::{Cell, ComparedGroup, ComparedPoint, Label};
use phaselink_core::workload::{Job, RateProcess};

/// Smallest ratio of the highest to the lowest throughput of a line at which its drives also run at equal load.
const RATIO_MIN: f64 = 3.0;
/// Offered load as a share of the lowest throughput.
const LOAD_SHARE: f64 = 0.8;

/// Jobs of one line that offer every drive the same number of requests a second, at random times (Poisson process).
#[derive(Clone, Debug)]
pub struct EqualLoad {
    /// Sizes of the jobs.
    pub label: Label,
    /// Offered load in requests per second.
    pub offered_iops: f64,
    /// Jobs for each drive; `None` for a drive whose queues are too short for them.
    pub jobs: Vec<Option<Vec<Job>>>,
}

/// Results of one line at equal load.
#[derive(Clone, Debug)]
pub struct EqualLoadGroup {
    /// Offered load in requests per second.
    pub offered_iops: f64,
    /// Result of each drive at this load.
    pub group: ComparedGroup,
}

impl EqualLoad {
    /// Returns the results of the jobs, from the cells of the drives.
    pub fn with_cells(self, cells: Vec<Option<Cell>>) -> EqualLoadGroup {
        EqualLoadGroup { offered_iops: self.offered_iops, group: ComparedGroup { label: self.label, cells } }
    }
}

/// Returns the lines whose drives also run at equal load: those with the most requests in flight, if the throughputs of
/// their drives differ at least three times. Jobs with a rate, pauses, dependencies, flushes or a trace of their own
/// have none, and neither have several jobs at a time.
pub fn equal_loads<'a>(
    points: impl IntoIterator<Item = &'a ComparedPoint>,
    groups: &[ComparedGroup],
) -> Vec<EqualLoad> {
    let most = groups.iter().map(|group| group.label.outstanding()).max().unwrap_or(0);
    let loaded = points.into_iter().zip(groups).filter(|(_, group)| most > 1 && group.label.outstanding() == most);
    loaded.filter_map(|(point, group)| equal_load(point, group)).collect()
}

fn equal_load(point: &ComparedPoint, group: &ComparedGroup) -> Option<EqualLoad> {
    let rates = group.cells.iter().flatten().map(|cell| cell.outcome.iops());
    let (least, most) = rates.fold((f64::INFINITY, 0.0_f64), |(least, most), iops| (iops.min(least), iops.max(most)));
    if least <= 0.0 || most < RATIO_MIN * least {
        return None;
    }
    let offered_iops = two_digits(LOAD_SHARE * least);
    let jobs = point.jobs.iter().map(|jobs| match jobs {
        Some(jobs) => offering(jobs, offered_iops).map(Some),
        None => Some(None),
    });
    Some(EqualLoad { label: group.label.clone(), offered_iops, jobs: jobs.collect::<Option<_>>()? })
}

/// Returns the job with a rate of all its threads together; `None` if its load cannot be set by a rate alone.
fn offering(jobs: &[Job], iops: f64) -> Option<Vec<Job>> {
    let [job] = jobs else { return None };
    let has_own_pace = job.trace.is_some()
        || job.rate_iops_read.is_some()
        || job.rate_iops_write.is_some()
        || !job.thinktime.is_zero()
        || job.query_rounds > 0
        || job.group_commit > 0
        || job.has_flushes();
    let of_thread = |percent: f64| (percent > 0.0).then(|| iops * percent / 100.0 / f64::from(job.threads));
    let paced = || Job {
        rate_iops_read: of_thread(job.read_percent),
        rate_iops_write: of_thread(100.0 - job.read_percent),
        rate_process: RateProcess::Poisson,
        ..job.clone()
    };
    (!has_own_pace).then(|| vec![paced()])
}

/// Rounds a positive number down to two significant digits.
fn two_digits(number: f64) -> f64 {
    let digit = libm::pow(10.0, libm::floor(libm::log10(number)) - 1.0);
    libm::floor(number / digit) * digit
}

#[cfg(test)]
mod tests {
    use super::*;
    use phaselink_core::drive::Drive;
    use phaselink_core::simulation::simulate;
    use phaselink_core::workload::{UnresolvedJobs, fio};

    fn run(drives: &[Drive], jobs: &[Option<Vec<Job>>]) -> Vec<Option<Cell>> {
        let cell = |(drive, jobs): (&Drive, &Option<Vec<Job>>)| {
            let jobs = jobs.as_ref()?;
            Some(Cell::new(drive, jobs, simulate(drive, jobs, 1).unwrap()))
        };
        drives.iter().zip(jobs).map(cell).collect()
    }

    fn compared(names: [&str; 2], more: &[(&str, &str)]) -> (Vec<Drive>, ComparedPoint, ComparedGroup) {
        let options = [&[("rw", "randread"), ("number_ios", "4000"), ("iodepth", "64")], more].concat();
        let drives: Vec<Drive> = names.into_iter().map(|name| Drive::shipped(name).unwrap()).collect();
        let written = UnresolvedJobs::new([fio::from_flags(&options).unwrap()], |_| unreachable!("no trace"));
        let point = ComparedPoint::new(written.unwrap(), &drives).unwrap();
        let group = ComparedGroup { label: point.label.clone(), cells: run(&drives, &point.jobs) };
        (drives, point, group)
    }

    #[test]
    fn drives_of_unequal_throughput_also_run_at_a_rate_that_the_slower_keeps_up_with() {
        let (drives, point, group) = compared(["tlc-gen3", "optane-p5800x"], &[("numjobs", "2"), ("bs", "4k")]);
        let slow = group.cells[0].as_ref().unwrap().outcome.iops();
        let load = equal_loads([&point], std::slice::from_ref(&group)).remove(0);
        assert!((0.7..=0.8).contains(&(load.offered_iops / slow)), "{} of {slow}", load.offered_iops);
        for cell in run(&drives, &load.jobs).into_iter().flatten() {
            let reached = cell.outcome.iops() / load.offered_iops;
            assert!((0.93..1.07).contains(&reached), "{reached}");
        }
    }

    #[test]
    fn drives_of_like_throughput_and_jobs_with_a_pace_of_their_own_have_no_equal_load() {
        for (names, more) in
            [(["nvme", "nvme-polled"], ("bs", "4k")), (["tlc-gen3", "dc-express"], ("rate_iops", "100000"))]
        {
            let (_, point, group) = compared(names, &[more]);
            assert!(equal_loads([&point], &[group]).is_empty(), "{names:?} {more:?}");
        }
    }

    #[test]
    fn a_load_is_rounded_down_to_two_digits() {
        assert_eq!([23_456.0, 99.9, 1_000.0].map(two_digits), [23_000.0, 99.0, 1_000.0]);
    }
}
