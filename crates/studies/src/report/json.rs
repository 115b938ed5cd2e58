//! Result of a run in the form of fio's own `json` output, so that programs that read fio's output can read it.
//!
//! Figures that fio does not have are in a `phaselink` object beside `jobs`. The core has no clock: fio's `timestamp`
//! keys are for the caller to add.

use serde_json::{Map, Value};

use super::fio;
use crate::results::Figures;
use crate::results::documents::{
    AllPercentiles, ByName, Description, DirectionResult, EnergyFigures, EnergyUse, FaultResult, FioJob,
    LatencySummary, LinkUse, MeasuredIn, PowerFigures, ProcessorFigures, ProcessorUse, RunDocument, RunFigures, RunJob,
    RunResult, RunSubject, StageMean, StageName, WireTraffic, value,
};
use crate::tails;
use phaselink_core::ledger::{CpuUse, DirectionOutcome, JobOutcome, Outcome, WireUse};
use phaselink_core::number::real;
use phaselink_core::time::Span;

/// Returns the outcome of a run in the form of fio's JSON, with the `phaselink` object; `description` is the resolved
/// description of the drive.
pub fn json(outcome: &Outcome, description: Value) -> Value {
    run_result_json(outcome, RunSubject::Drive(Description(description)))
}

/// Returns the outcome of a benchmark in the form of fio's JSON, with the `phaselink` object; `target` is the address of
/// the served drive.
pub fn served_benchmark_json(outcome: &Outcome, target: String) -> Value {
    run_result_json(outcome, RunSubject::Served { target })
}

fn run_result_json(outcome: &Outcome, description: RunSubject) -> Value {
    value(&RunDocument {
        fio_version: concat!("phaselink-", env!("CARGO_PKG_VERSION")).into(),
        jobs: outcome.jobs.iter().map(|job| FioJob(fio::job(outcome, job))).collect(),
        phaselink: result(outcome, description),
    })
}

/// Returns the document of a command with the head of all documents: version and name of the command. A document in
/// fio's form has the head in its `phaselink` object.
pub fn headed(verb: &str, document: Value) -> Value {
    let Value::Object(mut keys) = document else { return document };
    if let Some(own) = keys.get_mut("phaselink") {
        *own = headed(verb, own.take());
        return Value::Object(keys);
    }
    let head = [("version", env!("CARGO_PKG_VERSION")), ("verb", verb)];
    let head = head.map(|(key, value)| (String::from(key), Value::from(value)));
    Value::Object(Map::from_iter(head.into_iter().chain(keys)))
}

fn result(outcome: &Outcome, description: RunSubject) -> RunResult {
    let figures = Figures::of(outcome);
    RunResult {
        drive: outcome.drive.clone(),
        seed: outcome.seed,
        finished: outcome.finished,
        elapsed_ns: outcome.elapsed.as_ns(),
        measured: MeasuredIn::of(outcome.measured),
        faults: outcome.faults.iter().map(FaultResult::of).collect(),
        events: outcome.events,
        figures: RunFigures::of(&figures),
        tails: tails::document(outcome),
        jobs: outcome.jobs.iter().map(|job| job_ledger_json(job, &outcome.stack_stages)).collect(),
        link: LinkUse {
            upstream: wire(&outcome.upstream, outcome.elapsed),
            downstream: wire(&outcome.downstream, outcome.elapsed),
        },
        cpu: processor(&outcome.cpu, &figures),
        energy: EnergyUse {
            power: PowerFigures::of(&figures),
            idle_w: outcome.energy.map(|energy| energy.idle_w),
            requests: EnergyFigures::of(&figures),
        },
        counters: ByName(outcome.counters.iter().map(|(name, count)| (String::from(*name), *count)).collect()),
        description,
        evidence: None,
        findings: None,
        usage: None,
        precision: None,
        intervals: None,
    }
}

fn job_ledger_json(job: &JobOutcome, stack: &[String]) -> RunJob {
    let any = |kind: &DirectionOutcome| (kind.ios > 0).then(|| ledger(kind, stack));
    RunJob {
        name: job.name.clone(),
        iodepth: job.iodepth,
        threads: job.threads,
        read: ledger(&job.read, stack),
        write: ledger(&job.write, stack),
        flush: any(&job.flush),
        discard: any(&job.discard),
        zeroes: any(&job.zeroes),
    }
}

/// Returns exact latency figures of one kind of requests in ns, and the mean time in each stage. Stages are an array,
/// since a description may give two of them the same name.
fn ledger(figures: &DirectionOutcome, stack: &[String]) -> DirectionResult {
    let latency = &figures.total;
    DirectionResult {
        ios: figures.ios,
        runtime_ns: figures.runtime.as_ns(),
        latency_ns: LatencySummary {
            min: latency.min().as_ns(),
            max: latency.max().as_ns(),
            mean: latency.mean_ns(),
            stddev: latency.standard_deviation_ns(),
            percentile: AllPercentiles::of(latency),
        },
        stages: stage_mean_list(figures, stack),
        total_ns: latency.mean_ns(),
    }
}

/// Returns the stages in which requests spent time, with the mean time for each request in ns; `stack` has the names of
/// the software stages.
pub fn stage_mean_list(figures: &DirectionOutcome, stack: &[String]) -> Vec<StageMean> {
    let ios = real(figures.ios.max(1));
    let mean = |(stage, span): (&str, Span)| StageMean { stage: StageName(stage.into()), mean_ns: span.as_ns() / ios };
    figures.stages.named(stack).map(mean).collect()
}

fn wire(wire: &WireUse, elapsed: Span) -> WireTraffic {
    WireTraffic {
        bytes_per_ns: wire.bytes_per_ns,
        data_bytes: wire.data_bytes,
        command_bytes: wire.command_bytes,
        header_bytes: wire.header_bytes,
        dllp_bytes: wire.dllp_bytes,
        packets: wire.packets,
        replays: wire.replays,
        busy_ns: wire.busy.as_ns(),
        busy_share: wire.busy_share(elapsed),
        payload_efficiency: wire.payload_efficiency(),
    }
}

fn processor(cpu: &CpuUse, figures: &Figures) -> ProcessorUse {
    ProcessorUse {
        cores: cpu.cores,
        working_ns: cpu.working.as_ns(),
        spinning_ns: cpu.spinning.as_ns(),
        switching_ns: cpu.switching.as_ns(),
        interrupts: cpu.interrupts,
        context_switches: cpu.context_switches,
        figures: ProcessorFigures::of(figures),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;
    use serde_json::json as object;

    fn sample_json() -> Value {
        json(&sample::outcome(), object!({ "drive": "sample" }))
    }

    #[test]
    fn run_json_has_fios_shape_with_a_phaselink_object() {
        let document = sample_json();
        let keys: Vec<&String> = document.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["fio version", "jobs", "phaselink"]);
        assert!(document["fio version"].as_str().unwrap().starts_with("phaselink-"));
        assert_eq!(document["jobs"][0]["jobname"], "rand & mix");
    }

    #[test]
    fn ledger_stages_in_json_add_up_to_the_total() {
        let read = &sample_json()["phaselink"]["jobs"][0]["read"];
        let stages = read["stages"].as_array().unwrap();
        let sum: f64 = stages.iter().map(|stage| stage["mean_ns"].as_f64().unwrap()).sum();
        assert!((sum - read["total_ns"].as_f64().unwrap()).abs() < 1e-6);
        let names: Vec<&str> = stages.iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
        assert_eq!(names, ["system call", "driver", "media", "transfer"]);
    }

    #[test]
    fn phaselink_object_has_usage_energy_and_description() {
        let phaselink = &sample_json()["phaselink"];
        assert_eq!(headed("run", sample_json())["phaselink"]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(phaselink["link"]["upstream"]["busy_share"], 0.9);
        assert_eq!(phaselink["cpu"]["busy_cores"], 1.3);
        assert!((phaselink["energy"]["joules_per_io"].as_f64().unwrap() - 1e-4).abs() < 1e-12);
        assert_eq!(phaselink["counters"]["queue reads"], 12_345);
        assert_eq!(phaselink["description"]["drive"], "sample");
        assert!(phaselink["jobs"][0]["read"]["latency_ns"]["percentile"]["p99_9"].is_null());
        assert!(phaselink["jobs"][0]["read"]["latency_ns"]["percentile"]["p99"].is_f64());
        assert_eq!(phaselink["tails"]["read_p99_9_ns"]["needed_ios"], 10_000);
    }
}
