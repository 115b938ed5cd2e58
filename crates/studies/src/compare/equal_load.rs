//! Drives at equal load. At the same queue depth, a fast drive serves many times the requests of a slow one, and their
//! latencies belong to different loads. Such drives therefore also run at a rate that all of them keep up with.

use super::{Cell, ComparedGroup, ComparedPoint, LineLabel};
use crate::results::units;
use crate::results::words::UNBROKEN;
use phaselink_core::drive::Drive;
use phaselink_core::workload::Job;

/// Smallest ratio of the highest to the lowest throughput of a line at which its drives also run at equal load.
const RATIO_MIN: f64 = 3.0;
/// Offered load as a share of the lowest throughput.
const LOAD_SHARE: f64 = 0.8;

/// Jobs of one line that offer every drive the same number of requests a second, at random times (Poisson process).
#[derive(Clone, Debug)]
pub struct EqualLoad {
    /// Sizes of the jobs.
    pub label: LineLabel,
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
pub fn lines_at_equal_load<'a>(
    points: impl IntoIterator<Item = &'a ComparedPoint>,
    groups: &[ComparedGroup],
) -> Vec<EqualLoad> {
    let most = groups.iter().map(|group| group.label.outstanding()).max().unwrap_or(0);
    let loaded = points.into_iter().zip(groups).filter(|(_, group)| most > 1 && group.label.outstanding() == most);
    loaded.filter_map(|(point, group)| equal_load_of_group(point, group)).collect()
}

fn equal_load_of_group(point: &ComparedPoint, group: &ComparedGroup) -> Option<EqualLoad> {
    let rates = group.cells.iter().flatten().map(|cell| cell.outcome.iops());
    let (least, most) = rates.fold((f64::INFINITY, 0.0_f64), |(least, most), iops| (iops.min(least), iops.max(most)));
    if least <= 0.0 || most < RATIO_MIN * least {
        return None;
    }
    let offered_iops = round_down_two_digits(LOAD_SHARE * least);
    let jobs = point.jobs.iter().map(|jobs| match jobs {
        Some(jobs) => only_job_of_line(jobs).and_then(|job| job.offering(offered_iops)).map(|job| Some(vec![job])),
        None => Some(None),
    });
    let label = LineLabel { offered_iops: Some(offered_iops), ..group.label.clone() };
    Some(EqualLoad { label, offered_iops, jobs: jobs.collect::<Option<_>>()? })
}

/// Returns the job of a line that has one job; `None` for several jobs.
fn only_job_of_line(jobs: &[Job]) -> Option<&Job> {
    if let [job] = jobs { Some(job) } else { None }
}

/// Smallest share of the offered load that a drive must reach to keep up with it. The number of random arrivals in a run of
/// some thousand requests varies by less than the rest.
const KEEPS_UP_MIN: f64 = 0.95;

/// True if a drive that completes `iops` requests a second serves the load that it is offered.
pub fn keeps_up(iops: f64, offered_iops: f64) -> bool {
    iops >= KEEPS_UP_MIN * offered_iops
}

/// Returns a sentence for each drive that does not serve the load of a line.
pub fn overloaded(drives: &[Drive], group: &ComparedGroup) -> Vec<String> {
    let Some(offered_iops) = group.label.offered_iops else { return Vec::new() };
    let sentence = |(drive, cell): (&Drive, &Option<Cell>)| {
        let iops = cell.as_ref().map(|cell| cell.outcome.iops()).filter(|iops| !keeps_up(*iops, offered_iops))?;
        let [reached, offered] = [iops, offered_iops].map(|iops| units::count(iops).replace(' ', UNBROKEN));
        Some(format!(
            "{} reaches {reached} of the {offered} requests a second that are offered: its requests wait longer and longer.",
            drive.title()
        ))
    };
    drives.iter().zip(&group.cells).filter_map(sentence).collect()
}

/// Rounds a positive number down to two significant digits.
fn round_down_two_digits(number: f64) -> f64 {
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
        let written = UnresolvedJobs::new([fio::job_from_flags(&options).unwrap()], |_| unreachable!("no trace"));
        let point = ComparedPoint::new(written.unwrap(), &drives).unwrap();
        let group = ComparedGroup { label: point.label.clone(), cells: run(&drives, &point.jobs) };
        (drives, point, group)
    }

    #[test]
    fn unequal_drives_also_run_at_the_slower_ones_rate() {
        let (drives, point, group) = compared(["tlc-gen3", "optane-p5800x"], &[("numjobs", "2"), ("bs", "4k")]);
        let slow = group.cells[0].as_ref().unwrap().outcome.iops();
        let load = lines_at_equal_load([&point], std::slice::from_ref(&group)).remove(0);
        assert!((0.7..=0.8).contains(&(load.offered_iops / slow)), "{} of {slow}", load.offered_iops);
        for cell in run(&drives, &load.jobs).into_iter().flatten() {
            let reached = cell.outcome.iops() / load.offered_iops;
            assert!((0.93..1.07).contains(&reached), "{reached}");
        }
    }

    #[test]
    fn similar_drives_and_paced_jobs_have_no_equal_load() {
        for (names, more) in
            [(["nvme", "nvme-polled"], ("bs", "4k")), (["tlc-gen3", "dc-express"], ("rate_iops", "100000"))]
        {
            let (_, point, group) = compared(names, &[more]);
            assert!(lines_at_equal_load([&point], &[group]).is_empty(), "{names:?} {more:?}");
        }
    }

    #[test]
    fn drive_too_slow_for_a_load_reports_its_rate() {
        let drives: Vec<Drive> = ["tlc-gen3", "optane-p5800x"].map(|name| Drive::shipped(name).unwrap()).into();
        let options = [("rw", "randrw"), ("rwmixread", "70"), ("number_ios", "4000"), ("iodepth", "64"), ("bs", "4k")];
        let written = UnresolvedJobs::new([fio::job_from_flags(&options).unwrap()], |_| unreachable!("no trace"));
        let point = ComparedPoint::new(written.unwrap().offering(200_000.0), &drives).unwrap();
        assert_eq!(point.label.offered_iops, Some(200_000.0));
        let group = ComparedGroup { label: point.label.clone(), cells: run(&drives, &point.jobs) };
        let said = overloaded(&drives, &group);
        assert!(said.len() == 1 && said[0].starts_with("tlc-gen3 reaches "), "{said:?}");
        let fast = &group.cells[1].as_ref().unwrap().outcome;
        assert!((0.95..1.05).contains(&(fast.iops() / 200_000.0)), "{}", fast.iops());
        let reads = fast.jobs[0].read.iops() / fast.iops();
        assert!((0.67..0.73).contains(&reads), "the load is that of reads and writes together: {reads}");
    }

    #[test]
    fn loads_are_rounded_down_to_two_digits() {
        assert_eq!([23_456.0, 99.9, 1_000.0].map(round_down_two_digits), [23_000.0, 99.0, 1_000.0]);
    }
}
