//! Closed forms: what a drive gives a job, without running either.
//!
//! Owes its callers, for each kind of request, the latency of a lone one by the stages of the simulated ledger; for
//! each resource, the throughput that it cannot exceed (utilisation law: one over the time for which a request keeps it
//! busy); and what follows from both for a number of outstanding requests (Little's law, balanced job bounds: Zahorjan
//! et al., "Balanced Job Bound Analysis of Queueing Networks", CACM 1982). Says of every figure whether it is exact, a
//! mean or a bound.
//!
//! A protocol adds one file with its [`Form`] and one line in [`form`]; [`Form::of_data`] gives the bounds that hold for
//! any protocol. Where the pieces or pages of a request meet each other, its form is a recurrence over them, as each
//! wire, buffer and bank serves in order.
//!
//! # Parts shared with the simulator
//!
//! Closed forms handle no event. They share with the simulator the wire times and credits of the link, the root complex, the
//! costs of software, and the memory: a clone of the media is asked once for each place of a request
//! (`closed_form/media.rs`). Agreement with a run therefore checks how parts are put together, and not these parts.
//! Sums that are written out by hand from a drive's constants check the parts (`tests/library/lone_requests.rs`).

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

use crate::closed_form::{Certainty, Class, Demand, Demands, Form, Latency, Parts, Workload};
use crate::drive::{Drive, Interface};
use crate::request::DataDirection;
use crate::uncertainty::Named;
use crate::workload::Job;

/// Prediction for a drive and some jobs, each as if it were alone.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Name of the drive.
    pub drive: String,
    /// Predictions of the jobs, in the order of the jobs.
    pub jobs: Vec<JobPrediction>,
    /// Names of the stack's stages, in the order of [`crate::ledger::Stage::stack`].
    pub stack_stages: Vec<String>,
}

/// Prediction for one job.
#[derive(Clone, Debug)]
pub struct JobPrediction {
    /// Name of the job.
    pub name: String,
    /// Number of requests that each thread keeps in flight.
    pub iodepth: u32,
    /// Workload of the job, as the closed forms see it.
    pub workload: Workload,
    /// The latency of each of the workload's classes, where there is a closed form.
    pub latencies: Vec<Option<Latency>>,
    /// The mean request's demands, the bottleneck first; never empty.
    pub demands: Vec<Demand>,
    /// Mean time until a lone request is over and no resource still at work for it, where that tells how requests queue.
    round_ns: Option<f64>,
}

/// Throughput and latency with a job's requests outstanding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loaded {
    /// No more requests per second than this.
    pub most_iops: f64,
    /// About as many, if requests meet at the bottleneck as at a queue with random service, and short ones wait behind long
    /// ones. Unknown where queues do not tell: see [`foresees_queues`].
    pub balanced_iops: Option<f64>,
    /// Mean latency, at least.
    pub least_ns: Option<f64>,
}

/// Predict each of `jobs` on `drive`. The jobs must fit the drive ([`Job::problems`]).
pub fn predict(drive: &Drive, jobs: &[Job]) -> Prediction {
    let drive = &*drive.preconditioned_for(jobs);
    let drive = &*drive.for_all_hosts();
    let parts = Parts::new(drive);
    Prediction {
        drive: drive.title(),
        jobs: jobs.iter().map(|job| predict_job(&parts, job, form)).collect(),
        stack_stages: drive.stage_names(),
    }
}

/// Predict one job with the closed form of the drive's protocol.
fn predict_job(parts: &Parts, job: &Job, form: fn(&Parts, &Workload, &Class) -> Form) -> JobPrediction {
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

/// Predict a job whose workload is known.
fn predict_workload(
    parts: &Parts,
    job: &Job,
    workload: Workload,
    form: fn(&Parts, &Workload, &Class) -> Form,
) -> JobPrediction {
    let (uplink, uplinks, peer) = (parts.uplink(), parts.uplinks(&workload), parts.peer());
    let mut demands = Demands::default();
    let (mut latencies, mut rounds) = (Vec::new(), Vec::new());
    for class in &workload.classes {
        let form = parts.with_engine(form(parts, &workload, class), class);
        demands.add_share(&form.demands, class.share);
        let longest_ns = form.demands.iter().map(Demand::use_ns).fold(0.0, f64::max);
        let round = form.latency.as_ref().map(|latency| class.share * latency.stages.total().as_ns().max(longest_ns));
        rounds.push(round);
        latencies.push(form.latency.map(|latency| vary(latency, parts.drive.host.variation)));
        match (&peer, &uplink) {
            // Commands alone are left to the uplinks then, if anything, and no bound is stated.
            (Some(peer), _) => {
                let whole = peer.drive.peer.has(false);
                let shared =
                    if whole { self::form(peer, &workload, class) } else { Form::of_data(peer, &workload, class) };
                demands.add_share(&shared.demands.of_peer(), class.share);
            }
            (None, Some(uplink)) => {
                let shared = self::form(uplink, &workload, class).demands;
                demands.add_share(&shared.of_uplinks(uplinks), class.share);
            }
            (None, None) => {}
        }
    }
    let demands = demands.over(workload.drives).by_bound();
    // Rounds wait for the longest of their reads, of which a closed form knows no distribution.
    let is_foreseen = foresees_queues(parts, &workload) && (job.query_rounds == 0 || job.iodepth == 1);
    let round_ns = rounds.into_iter().sum::<Option<f64>>().filter(|_| is_foreseen);
    JobPrediction { name: job.name.clone(), iodepth: job.iodepth, workload, latencies, demands, round_ns }
}

/// True if queues tell how requests meet. They do not at the dies of flash: its buffer keeps dies busy with writes of which
/// no request is in flight any more, and reads pass what others program, or not, as the buffer fills.
fn foresees_queues(parts: &Parts, workload: &Workload) -> bool {
    let writes = workload.classes.iter().any(|class| class.direction == DataDirection::Write);
    match parts.is_mapped() {
        true => !writes,
        false => workload.classes.len() == 1 || parts.drive.protocol().foresees_mixes(),
    }
}

/// Closed forms have software that takes its mean time: where it varies, what they know exactly is a mean.
fn vary(mut latency: Latency, variation: f64) -> Latency {
    if variation > 0.0 && latency.certainty == Certainty::Exact {
        latency.certainty = Certainty::Mean("the times of software vary");
    }
    latency
}

/// The closed form of each protocol.
fn form(parts: &Parts, workload: &Workload, class: &Class) -> Form {
    if parts.has_inside() && !parts.drive.protocol().foresees_inside() {
        return Form::of_data(parts, workload, class);
    }
    macro_rules! form_of {
        ($($protocol:ident: $Protocol:ident = $name:literal,)+) => {
            match parts.drive.interface {
                $(Interface::$Protocol => crate::protocol::$protocol::form::form(parts, workload, class),)+
            }
        };
    }
    protocols!(form_of)
}

impl Prediction {
    /// The figures by name: those of each job, and the limit of each resource.
    pub fn figures(&self) -> Named {
        let of_job = |(place, job): (usize, &JobPrediction)| {
            let loaded = job.loaded();
            let bytes = job.workload.mean_bytes();
            let limits =
                job.demands.iter().map(|demand| (format!("limit {}, 1/s", demand.resource), Some(demand.bound_iops())));
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
    /// The resource that limits throughput.
    pub fn bottleneck(&self) -> &Demand {
        &self.demands[0]
    }

    /// Mean latency of a lone request in nanoseconds, where there is a closed form.
    pub fn alone_ns(&self) -> Option<f64> {
        self.mean_ns(|latency| latency.stages.total().as_ns())
    }

    /// Requests that must be outstanding before the bottleneck can be busy all the time (Little's law).
    pub fn saturation_depth(&self) -> Option<f64> {
        Some(self.alone_ns()? * self.bottleneck().bound_iops() / 1e9)
    }

    /// With the job's requests outstanding.
    pub fn loaded(&self) -> Loaded {
        let outstanding = self.workload.outstanding as f64;
        let bound = self.bottleneck().bound_iops();
        // Among others a request can be spared some of what a lone one meets.
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
        Loaded {
            most_iops,
            balanced_iops: balanced.map(|iops| iops.min(most_iops)),
            least_ns: least_ns.map(|ns| ns.max(in_line_ns)),
        }
    }

    /// Throughput by Little's law if each request takes `latency_ns`, and what it waits longer for uses of uneven lengths the
    /// more, the busier their resource is: so that what it takes rises with the throughput.
    fn balanced_iops(&self, latency_ns: f64) -> f64 {
        let outstanding = self.workload.outstanding as f64;
        let uneven: f64 = self.demands.iter().map(|demand| demand.uneven_ns() / demand.bound_iops() * 1e9).sum();
        // The root of uneven x² + latency x = outstanding, in requests a nanosecond.
        let root = libm::sqrt(latency_ns * latency_ns + 4.0 * uneven * outstanding);
        2.0 * outstanding / (latency_ns + root) * 1e9
    }

    fn mean_ns(&self, figure: impl Fn(&Latency) -> f64) -> Option<f64> {
        let classes = self.workload.classes.iter().zip(&self.latencies);
        classes.map(|(class, latency)| Some(class.share * figure(latency.as_ref()?))).sum()
    }
}
