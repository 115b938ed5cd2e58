//! Predictions for programs.

use serde_json::{Value, json};

use super::{JobPrediction, Prediction};
use crate::closed_form::{Certainty, Class, Latency};
use crate::request::DataDirection;

/// The document of drives, each as [`json`] has it, without its head.
pub fn document(drives: impl IntoIterator<Item = Value>) -> Value {
    json!({ "drives": drives.into_iter().collect::<Vec<_>>() })
}

/// One object a drive: `jobs` with `classes` (each with its `alone` latency, or null), `limits` (the bottleneck
/// first) and `loaded`. `certainty` is `exact`, `mean` or `at_least`; figures that are not known are null.
pub fn json(prediction: &Prediction, description: Value) -> Value {
    let jobs: Vec<Value> = prediction.jobs.iter().map(|job| entry(job, &prediction.stack_stages)).collect();
    json!({
        "drive": prediction.drive,
        "jobs": jobs,
        "description": description,
    })
}

fn entry(job: &JobPrediction, stack: &[String]) -> Value {
    let classes = job.workload.classes.iter().zip(&job.latencies);
    let (loaded, bytes) = (job.loaded(), job.workload.mean_bytes());
    json!({
        "name": job.name,
        "iodepth": job.iodepth,
        "threads": job.workload.threads,
        "mean_bytes": bytes,
        "classes": classes.map(|(of, latency)| class(of, latency.as_ref(), stack)).collect::<Vec<_>>(),
        "limits": job.demands.iter().map(|demand| json!({
            "resource": demand.resource,
            "servers": demand.servers,
            "busy_ns": demand.busy_ns,
            "iops_max": demand.bound_iops(),
            "bytes_per_s_max": demand.bound_iops() * bytes,
        })).collect::<Vec<_>>(),
        "bottleneck": job.bottleneck().resource,
        "saturation_depth": job.saturation_depth(),
        "alone_ns": job.alone_ns(),
        "loaded": {
            "outstanding": job.workload.outstanding,
            "iops_max": loaded.most_iops,
            "bytes_per_s_max": loaded.most_iops * bytes,
            "iops_balanced": loaded.balanced_iops,
            "mean_ns_min": loaded.least_ns,
        },
    })
}

fn class(class: &Class, latency: Option<&Latency>, stack: &[String]) -> Value {
    json!({
        "op": if class.direction == DataDirection::Read { "read" } else { "write" },
        "bytes": class.bytes,
        "share": class.share,
        "alone": latency.map(|latency| alone(latency, stack)),
    })
}

fn alone(latency: &Latency, stack: &[String]) -> Value {
    let (certainty, why) = match latency.certainty {
        Certainty::Exact => ("exact", None),
        Certainty::Mean(why) => ("mean", Some(why)),
        Certainty::AtLeast(why) => ("at_least", Some(why)),
    };
    let stages = latency.stages.named(stack);
    json!({
        "certainty": certainty,
        "why": why,
        "stages": stages.map(|(stage, span)| json!({ "stage": stage, "ns": span.as_ns() })).collect::<Vec<_>>(),
        "total_ns": latency.stages.total().as_ns(),
    })
}
