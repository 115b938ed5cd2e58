//! Utilisation of each resource in a run.
//!
//! The use of cores and wires is measured, and so is that of the dies and channels of flash, background operations
//! included. The utilisation of other resources follows from the rate of requests and the demand of each (utilisation
//! law: Denning and Buzen, "The Operational Analysis of Queueing Network Models", Computing Surveys 10, 1978), which
//! gives a lower bound.

use super::{Prediction, predict};
use crate::results::documents::ResourceUse;
use phaselink_core::closed_form::flash::GARBAGE_COLLECTION;
use phaselink_core::drive::Drive;
use phaselink_core::ledger::Outcome;
use phaselink_core::ledger::outcome::per;
use phaselink_core::workload::Job;

/// Returns the utilisation of each resource by `jobs` on `drive`, whose run had this outcome; the busiest resource
/// comes first. Resources are named as in a prediction: `wire to host`, `media banks`, `cores`.
pub fn usage(drive: &Drive, jobs: &[Job], outcome: &Outcome) -> Vec<ResourceUse> {
    let prediction = predict(drive, jobs);
    let mut usage = usage_by_utilisation_law(&prediction, outcome);
    for part in outcome.parts.iter().filter(|part| !part.busy.is_zero()) {
        if usage.iter().all(|used| used.resource != part.resource) {
            usage.push(ResourceUse { resource: String::from(part.resource), share: 0.0 });
        }
    }
    for used in &mut usage {
        let measured = measured(&used.resource, &prediction, outcome);
        used.share = measured.unwrap_or(used.share).clamp(0.0, 1.0);
    }
    usage.sort_by(|left, right| right.share.total_cmp(&left.share));
    usage
}

/// Returns the utilisation of each resource by the utilisation law, for all jobs together; garbage collection is left
/// out.
fn usage_by_utilisation_law(prediction: &Prediction, outcome: &Outcome) -> Vec<ResourceUse> {
    let mut usage: Vec<ResourceUse> = Vec::new();
    for (job, measured) in prediction.jobs.iter().zip(&outcome.jobs) {
        let iops = measured.read.iops() + measured.write.iops();
        // Garbage collection is part of the use of dies and channels, so do not list it as well.
        for demand in job.demands.iter().filter(|demand| demand.resource != GARBAGE_COLLECTION) {
            let share = iops / demand.saturation_iops();
            match usage.iter_mut().find(|used| used.resource == demand.resource) {
                Some(used) => used.share += share,
                None => usage.push(ResourceUse { resource: demand.resource.clone(), share }),
            }
        }
    }
    usage
}

/// Returns the measured utilisation of a resource; none if the run did not measure it. Cores that spin for a completion
/// could do other work, and do not count as busy.
fn measured(resource: &str, prediction: &Prediction, outcome: &Outcome) -> Option<f64> {
    let elapsed = outcome.elapsed;
    let (up, down) = (outcome.upstream.busy_share(elapsed), outcome.downstream.busy_share(elapsed));
    match resource {
        "cores" => {
            let cores: f64 = prediction.jobs.iter().map(|job| resource_core_count(job, resource)).sum();
            let busy = outcome.cpu.working + outcome.cpu.switching;
            Some(per(per(busy.as_ns(), elapsed.as_ns()), cores.min(outcome.cpu.cores.into())))
        }
        "wire to host" => Some(up),
        "wire to device" => Some(down),
        _ => {
            let part = outcome.parts.iter().find(|part| part.resource == resource)?;
            Some(per(part.busy.as_ns(), elapsed.as_ns() * f64::from(part.servers)))
        }
    }
}

fn resource_core_count(job: &super::JobPrediction, resource: &str) -> f64 {
    job.demands.iter().find(|demand| demand.resource == resource).map_or(0.0, |demand| demand.servers)
}
