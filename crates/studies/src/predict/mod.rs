//! Predictions in closed form: latency and throughput of a job on a drive, without a simulation.
//!
//! A prediction has, for each kind of request, the latency of a lone one by the stages of the simulated ledger. For
//! each resource it has the throughput that the resource cannot exceed (utilisation law: one over the time for which a
//! request keeps it busy). From both follow bounds for a number of outstanding requests (Little's law, balanced job
//! bounds: Zahorjan et al., "Balanced Job Bound Analysis of Queueing Networks", CACM 1982). Every figure is marked as
//! exact, a mean or a bound.
//!
//! A protocol adds one file with its [`ClosedForm`], which [`closed_form_of_protocol`] finds by the list of protocols;
//! [`ClosedForm::of_data_path`] gives the bounds that hold for any protocol. If the pieces or pages of a request wait for each
//! other, the form is a recurrence over them, because each wire, buffer and bank serves in order.
//!
//! # Parts shared with the simulator
//!
//! Closed forms handle no event. They share with the simulator the wire times and credits of the link, the root
//! complex, the costs of software, and the memory: a clone of the media is asked once for each place of a request
//! (`closed_form/media.rs`). Agreement with a run therefore checks how these parts are combined, and not the parts
//! themselves. Sums that are written out by hand from a drive's constants check the parts
//! (`crates/core/tests/library/lone_requests.rs`).

mod filling;
mod json;
pub mod lifetime;
mod text;
mod usage;

#[cfg(test)]
mod tests;

pub use json::{document, json};
pub use text::{table, text};
pub use usage::usage;

use crate::uncertainty::NamedFigures;
use phaselink_core::closed_form::flash::FlashReadMean;
use phaselink_core::closed_form::{
    Certainty, Class, ClosedForm, Latency, Parts, ServiceDemand, ServiceDemands, Workload,
};
use phaselink_core::drive::Drive;
use phaselink_core::ledger::{Stage, StageTimes};
use phaselink_core::number::real;
use phaselink_core::protocol::form::closed_form_of_protocol;
use phaselink_core::request::DataDirection;
use phaselink_core::workload::Job;

/// Prediction for a drive and some jobs, each as if it ran alone.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Name of the drive.
    pub drive: String,
    /// Predictions of the jobs, in the order of the jobs.
    pub jobs: Vec<JobPrediction>,
    /// Names of the stages of the software stack, in the order of [`phaselink_core::ledger::Stage::stack`].
    pub stack_stages: Vec<String>,
}

/// Prediction for one job.
#[derive(Clone, Debug)]
pub struct JobPrediction {
    /// Name of the job.
    pub name: String,
    /// Number of requests that each thread keeps in flight.
    pub iodepth: u32,
    /// Workload of the job in the form that closed forms use: classes of requests, number in flight and rate.
    pub workload: Workload,
    /// Latency of a lone request of each of the workload's classes; `None` for a class without a closed form.
    pub latencies: Vec<Option<Latency>>,
    /// Means of lone reads of flash, in the order of the workload's classes, whose latency is only a lower bound; `None`
    /// for other classes.
    pub flash_reads: Vec<Option<FlashReadMean>>,
    /// Demands of the mean request on each resource, the bottleneck first; there is at least one.
    pub demands: Vec<ServiceDemand>,
    /// Mean time in ns until a lone request is complete and no resource works for it any more; none if requests do not
    /// queue as theory assumes.
    round_ns: Option<f64>,
}

/// Throughput and latency of a job with all its requests in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadBounds {
    /// Upper bound of the throughput in requests per second.
    pub most_iops: f64,
    /// Throughput of the job in requests per second if requests queue at the bottleneck as with random service times,
    /// and short ones wait behind long ones. `None` if queueing theory does not apply: see [`queueing_theory_covers`].
    pub balanced_iops: Option<f64>,
    /// Lower bound of the mean latency in ns; none without a closed form.
    pub least_ns: Option<f64>,
}

/// Predicts each of `jobs` on `drive`. The jobs must fit the drive ([`Job::problems`]).
pub fn predict(drive: &Drive, jobs: &[Job]) -> Prediction {
    let drive = &*drive.preconditioned_for(jobs);
    let drive = &*drive.combined_hosts();
    let parts = Parts::new(drive);
    Prediction {
        drive: drive.title(),
        jobs: jobs.iter().map(|job| predict_job(&parts, job, closed_form_of_protocol)).collect(),
        stack_stages: drive.software_stage_names(),
    }
}

/// Predicts one job with the closed form of the drive's protocol. On flash, a first prediction gives the share of the
/// writes that leave the write buffer.
fn predict_job(parts: &Parts, job: &Job, form: fn(&Parts, &Workload, &Class) -> ClosedForm) -> JobPrediction {
    let parts = &parts.of_job(job);
    let workload = Workload::new(job, parts.drive.media.capacity_mib << 20, parts.drive.drives);
    let steady = predict_workload(parts, job, workload, form);
    if !parts.is_mapped() {
        return steady;
    }
    let leaving_share = if job.warms_up() { 1.0 } else { steady.leaving_share(parts.buffer_bytes()) };
    let mut workload = steady.workload;
    workload.leaving_share = leaving_share;
    predict_workload(parts, job, workload, form)
}

/// Predicts a job whose workload is known.
fn predict_workload(
    parts: &Parts,
    job: &Job,
    workload: Workload,
    form: fn(&Parts, &Workload, &Class) -> ClosedForm,
) -> JobPrediction {
    let (uplink, uplinks, peer) = (parts.uplink(), parts.uplinks(&workload), parts.peer());
    let mut demands = ServiceDemands::default();
    let (mut latencies, mut rounds, mut flash_reads) = (Vec::new(), Vec::new(), Vec::new());
    for class in &workload.classes {
        let form = parts.with_dma_engine_demand(form(parts, &workload, class), class);
        demands.add_weighted_demands(&form.demands, class.share);
        let longest_ns = form.demands.iter().map(ServiceDemand::residual_use_ns).fold(0.0, f64::max);
        let round = form.latency.as_ref().map(|latency| class.share * latency.stages.total().as_ns().max(longest_ns));
        rounds.push(round);
        flash_reads.push(form.latency.as_ref().and_then(|latency| flash_read_mean(parts, &workload, class, latency)));
        latencies
            .push(form.latency.map(|latency| average_over_software_variation(latency, parts.drive.host.variation)));
        match (&peer, &uplink) {
            // With a peer device, only commands cross the uplinks, which are not modelled as a bound here.
            (Some(peer), _) => {
                let whole = peer.drive.peer.has(false);
                let shared = if whole {
                    closed_form_of_protocol(peer, &workload, class)
                } else {
                    ClosedForm::of_data_path(peer, &workload, class)
                };
                demands.add_weighted_demands(&shared.demands.of_peer_link(), class.share);
            }
            (None, Some(uplink)) => {
                let shared = closed_form_of_protocol(uplink, &workload, class).demands;
                demands.add_weighted_demands(&shared.of_switch_uplinks(uplinks), class.share);
            }
            (None, None) => {}
        }
    }
    let demands = demands.over(workload.drives).sorted_by_bottleneck();
    // A round waits for its slowest read. The closed form does not give the distribution of latencies, so it predicts
    // only rounds of one read.
    let is_foreseen = queueing_theory_covers(parts, &workload) && (job.query_rounds == 0 || job.iodepth == 1);
    let round_ns = rounds.into_iter().sum::<Option<f64>>().filter(|_| is_foreseen);
    JobPrediction { name: job.name.clone(), iodepth: job.iodepth, workload, latencies, flash_reads, demands, round_ns }
}

/// Returns the mean of a lone read of flash whose `latency` is a lower bound. `None` if the request's time in the
/// memory is not that of one command.
fn flash_read_mean(parts: &Parts, workload: &Workload, class: &Class, latency: &Latency) -> Option<FlashReadMean> {
    let is_bound = matches!(latency.certainty, Certainty::AtLeast(_));
    let is_one = latency.stages.get(Stage::Media) == parts.access(workload, class).idle;
    // The pages of an index of keys, which a read may need first, are not part of the mean.
    let is_known = is_bound && is_one && !parts.drive.key_value.is_there();
    parts.flash_read_mean(workload, class).filter(|_| is_known)
}

/// Returns the stages of the mean read of flash: those of the lower bound, with the mean time in the memory.
fn stages_of_mean_flash_read(latency: &Latency, read: &FlashReadMean) -> StageTimes {
    latency.stages.with(Stage::Media, read.access)
}

/// True if queueing theory predicts how requests wait for each other. It does not for writes to flash: the write buffer
/// keeps dies busy with writes of which no request is in flight any more, and reads may or may not pass programs, as
/// the buffer fills.
fn queueing_theory_covers(parts: &Parts, workload: &Workload) -> bool {
    let writes = workload.classes.iter().any(|class| class.direction == DataDirection::Write);
    match parts.is_mapped() {
        true => !writes,
        false => workload.classes.len() == 1 || parts.drive.protocol().foresees_mixes(),
    }
}

/// Turns an exact latency into a mean if the times of software vary: closed forms use the mean times of software.
fn average_over_software_variation(mut latency: Latency, variation: f64) -> Latency {
    if variation > 0.0 && latency.certainty == Certainty::Exact {
        latency.certainty = Certainty::Mean("the times of software vary");
    }
    latency
}

impl Prediction {
    /// Returns the predicted figures by name: those of each job, and the limit of each resource.
    pub fn figures(&self) -> NamedFigures {
        let of_job = |(place, job): (usize, &JobPrediction)| {
            let loaded = job.loaded();
            let bytes = job.workload.mean_bytes();
            let limits = job
                .demands
                .iter()
                .map(|demand| (format!("limit {}, 1/s", demand.resource), Some(demand.saturation_iops())));
            let named = [
                ("alone_ns", job.alone_ns()),
                ("saturation_depth", job.saturation_depth()),
                ("iops_max", Some(loaded.most_iops)),
                ("bytes_per_s_max", Some(loaded.most_iops * bytes)),
                ("mean_ns_min", loaded.least_ns),
            ];
            let named = named.into_iter().map(|(name, value)| (String::from(name), value));
            let prefix = if place == 0 { String::new() } else { format!("{} ", job.name) };
            named.chain(limits).map(move |(name, value)| (format!("{prefix}{name}"), value)).collect::<Vec<_>>()
        };
        self.jobs.iter().enumerate().flat_map(of_job).collect()
    }
}

impl JobPrediction {
    /// Returns the demand on the resource that limits throughput.
    pub fn bottleneck(&self) -> &ServiceDemand {
        &self.demands[0]
    }

    /// Returns the mean latency of a lone request in ns; none without a closed form.
    pub fn alone_ns(&self) -> Option<f64> {
        self.mean_ns(|latency| latency.stages.total().as_ns())
    }

    /// Returns the number of requests in flight at which the bottleneck can be busy all the time (Little's law); none
    /// without a closed form.
    pub fn saturation_depth(&self) -> Option<f64> {
        Some(self.alone_ns()? * self.bottleneck().saturation_iops() / 1e9)
    }

    /// Returns the bounds of throughput and latency with the job's requests in flight.
    pub fn loaded(&self) -> LoadBounds {
        let outstanding = real(self.workload.outstanding);
        let bound = self.bottleneck().saturation_iops();
        // With other requests in flight, a request may skip stages that a lone request has, such as a wake-up.
        let least_ns = match self.workload.outstanding {
            1 => self.alone_ns(),
            _ => self.mean_ns(|latency| latency.least.as_ns()),
        };
        let offered = self.workload.offered_iops.unwrap_or(f64::INFINITY);
        let by_latency = least_ns.map_or(f64::INFINITY, |ns| outstanding / ns * 1e9);
        let most_iops = bound.min(by_latency).min(offered);
        let busiest_ns = 1e9 / bound;
        let balanced = self.round_ns.map(|round| self.balanced_iops(round + (outstanding - 1.0) * busiest_ns));
        let in_line_ns = if offered < bound { 0.0 } else { outstanding * busiest_ns };
        LoadBounds {
            most_iops,
            balanced_iops: balanced.map(|iops| iops.min(most_iops)),
            least_ns: least_ns.map(|ns| ns.max(in_line_ns)),
        }
    }

    /// Returns the throughput in requests per second by Little's law if each request takes `latency_ns`, plus the waits
    /// for uses of uneven length. These waits grow with the utilisation of their resource, so that latency rises with
    /// the throughput.
    fn balanced_iops(&self, latency_ns: f64) -> f64 {
        let outstanding = real(self.workload.outstanding);
        let uneven: f64 =
            self.demands.iter().map(|demand| demand.residual_wait_ns() / demand.saturation_iops() * 1e9).sum();
        // Positive root of uneven * x^2 + latency * x = outstanding, in requests per nanosecond.
        let root = libm::sqrt(latency_ns * latency_ns + 4.0 * uneven * outstanding);
        2.0 * outstanding / (latency_ns + root) * 1e9
    }

    fn mean_ns(&self, figure: impl Fn(&Latency) -> f64) -> Option<f64> {
        let classes = self.workload.classes.iter().zip(&self.latencies);
        classes.map(|(class, latency)| Some(class.share * figure(latency.as_ref()?))).sum()
    }
}
