//! JSON document of predictions.

use serde_json::Value;

use super::{JobPrediction, Prediction, stages_of_mean_flash_read};
use crate::results::documents::{
    AloneLatency, CertaintyName, Description, LoadedJob, OpName, PredictDocument, PredictedClass, PredictedDrive,
    PredictedJob, PredictedLoneFlashRead, ResourceLimit, StageName, StageTime, value,
};
use phaselink_core::closed_form::flash::FlashReadMean;
use phaselink_core::closed_form::{Certainty, Class, Latency};
use phaselink_core::request::DataDirection;

/// Returns the JSON document of the predictions for drives, without the head that all documents have.
pub fn document(drives: impl IntoIterator<Item = PredictedDrive>) -> Value {
    value(&PredictDocument { drives: drives.into_iter().collect() })
}

/// Returns the prediction for a drive in the form that JSON documents have.
pub fn json(prediction: &Prediction, description: Value) -> PredictedDrive {
    PredictedDrive {
        drive: prediction.drive.clone(),
        jobs: prediction.jobs.iter().map(|job| entry(job, &prediction.stack_stages)).collect(),
        description: Description(description),
        intervals: None,
    }
}

fn entry(job: &JobPrediction, stack: &[String]) -> PredictedJob {
    let classes = job.workload.classes.iter().zip(&job.latencies).zip(&job.flash_reads);
    let (loaded, bytes) = (job.loaded(), job.workload.mean_bytes());
    let limits = job.demands.iter().map(|demand| ResourceLimit {
        resource: demand.resource.clone(),
        servers: demand.servers,
        busy_ns: demand.busy_ns,
        iops_max: demand.saturation_iops(),
        bytes_per_s_max: demand.saturation_iops() * bytes,
    });
    PredictedJob {
        name: job.name.clone(),
        iodepth: job.iodepth,
        threads: job.workload.threads,
        mean_bytes: bytes,
        classes: classes
            .map(|((of, latency), read)| class(of, latency.as_ref().zip(Some(read.as_ref())), stack))
            .collect(),
        limits: limits.collect(),
        bottleneck: job.bottleneck().resource.clone(),
        saturation_depth: job.saturation_depth(),
        alone_ns: job.alone_ns(),
        loaded: LoadedJob {
            outstanding: job.workload.outstanding,
            iops_max: loaded.most_iops,
            bytes_per_s_max: loaded.most_iops * bytes,
            iops_balanced: loaded.balanced_iops,
            mean_ns_min: loaded.least_ns,
        },
    }
}

fn class(class: &Class, latency: Option<(&Latency, Option<&FlashReadMean>)>, stack: &[String]) -> PredictedClass {
    PredictedClass {
        op: if class.direction == DataDirection::Read { OpName::Read } else { OpName::Write },
        bytes: class.bytes,
        share: class.share,
        alone: latency.map(|(latency, read)| lone_latency(latency, read, stack)),
    }
}

fn lone_latency(latency: &Latency, read: Option<&FlashReadMean>, stack: &[String]) -> AloneLatency {
    let (certainty, why) = match latency.certainty {
        Certainty::Exact => (CertaintyName::Exact, None),
        Certainty::Mean(why) => (CertaintyName::Mean, Some(String::from(why))),
        Certainty::AtLeast(why) => (CertaintyName::AtLeast, Some(String::from(why))),
    };
    let stage = |(stage, span): (&str, phaselink_core::time::Span)| StageTime {
        stage: StageName(stage.into()),
        ns: span.as_ns(),
    };
    AloneLatency {
        certainty,
        why,
        stages: latency.stages.named(stack).map(stage).collect(),
        total_ns: latency.stages.total().as_ns(),
        flash_read: read.map(|read| PredictedLoneFlashRead {
            latency_ns: stages_of_mean_flash_read(latency, read).total().as_ns(),
            cells_share: read.cells_share,
            page_read_ns: read.pages.iter().map(|page| page.as_ns()).collect(),
            pages_together: read.pages_together,
        }),
    }
}
