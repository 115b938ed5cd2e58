//! Jobs that have not begun: those that run at the same time form a group, and a group begins when the one before it is
//! done.

use std::collections::VecDeque;

use super::Engine;
use super::warm_up::WarmUp;
use crate::protocol::halves::Controller as _;
use crate::scheduler::Event;
use crate::time::Time;
use crate::workload::generator::RequestGenerator;
use crate::workload::{FilledKeys, Job, Limits, ZoneJobLimits, side_by_side};

/// Jobs that have not begun yet, in groups, and the properties of the drive that they need to begin.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingJobGroups {
    /// Groups of jobs that have not begun, in the order of their turn. Jobs of one group run at the same time.
    pub(super) groups: VecDeque<Vec<Job>>,
    /// Number of groups of jobs that have begun.
    begun: u32,
    capacity_bytes: u64,
    /// True if the drive may lose acknowledged writes in a power cut unless they are flushed.
    is_volatile: bool,
    /// Zones of the drive; `None` if it has none.
    zones: Option<ZoneJobLimits>,
    /// Number of placement identifiers that the drive has.
    placement_identifiers: u16,
    seed: u64,
}

impl Engine {
    /// Adds the jobs of a run, and starts the first group of them.
    pub fn add_jobs(&mut self, jobs: &[Job], limits: &Limits, seed: u64) {
        let groups = side_by_side(jobs).map(<[Job]>::to_vec).collect();
        let Limits { capacity_bytes, is_volatile, zones, placement_identifiers, .. } = *limits;
        self.plan =
            PendingJobGroups { groups, begun: 0, capacity_bytes, is_volatile, zones, placement_identifiers, seed };
        self.warm_up = WarmUp::of(jobs, limits);
        if limits.keys.is_some() {
            self.fill_keys(jobs, capacity_bytes);
        }
        self.begin_next_job_group();
    }

    /// Stores the values that the jobs expect in all drives, since each drive may get a request for any key.
    #[cold]
    fn fill_keys(&mut self, jobs: &[Job], capacity_bytes: u64) {
        let filled: Vec<FilledKeys> = jobs.iter().map(|job| job.keys_before_start(capacity_bytes)).collect();
        let Engine { devices, shared, .. } = self;
        for device in devices.iter_mut() {
            let (controller, mut ports) = device.controller_side(shared);
            controller.fill_keys(&filled, &mut ports);
        }
    }

    /// Starts the next group of jobs. Returns false if there is none.
    #[cold]
    pub(super) fn begin_next_job_group(&mut self) -> bool {
        let Some(jobs) = self.plan.groups.pop_front() else { return false };
        let warms_up = self.warm_up.begin(&jobs);
        let writers = |jobs: &[Job]| jobs.iter().filter(|job| job.has_writes()).map(|job| job.threads).sum();
        for (place, job) in jobs.iter().enumerate() {
            self.add_job(job, warms_up, (writers(&jobs[..place]), writers(&jobs)));
        }
        self.plan.begun += 1;
        true
    }

    /// Adds the threads of a job, which start at once or after its delay. `writers` is the number of writing threads of
    /// the jobs before it in its group, and of all jobs of the group.
    fn add_job(&mut self, job: &Job, warms_up: bool, writers: (u32, u32)) {
        let PendingJobGroups { begun, capacity_bytes, is_volatile, zones, placement_identifiers, seed, .. } = self.plan;
        let start = self.now().max(Time::ZERO + job.start_delay);
        let place = self.recorder.add_job(job, begun, start, warms_up);
        for number in 0..job.threads {
            let generator = RequestGenerator::new(job, number, capacity_bytes, seed).starting_at(start);
            let generator = generator.over(self.devices.count() as u16, number).flushing(job.flushes, is_volatile);
            let generator = generator.placing(job, number, placement_identifiers, seed);
            let generator = match zones {
                Some(space) => {
                    let generator = generator.for_zone_reading(job, space, seed);
                    generator.for_zone_filling(space, writers.0 + number, writers.1)
                }
                None => generator,
            };
            let generator = if warms_up { generator.with_warm_up() } else { generator };
            let thread = self.host.add_thread(job.iodepth, Some(generator), Some(job));
            self.disable_interrupts_for_polling(thread);
            self.recorder.add_thread(thread, place);
            self.shared.scheduler.at(start, Event::Thread(thread));
        }
    }
}
