//! Results in the shape of fio's own `json` output, so that whatever reads fio reads phaselink.
//!
//! What fio cannot know stands beside `jobs` in a `phaselink` object. The core has no clock: fio's
//! `timestamp` keys are the caller's to add.

use serde_json::{Map, Value, json};

use super::fio;
use super::summary::stage_means_ns;
use crate::ledger::{DirectionOutcome, JobOutcome, Outcome, WireUse};
use crate::results::PERCENTILES;
use crate::time::Span;

/// The outcome as fio would print it, with the `phaselink` object; `description` is the resolved description.
pub fn json(outcome: &Outcome, description: Value) -> Value {
    let jobs: Vec<Value> = outcome.jobs.iter().map(|job| fio::job(outcome, job)).collect();
    json!({
        "fio version": concat!("phaselink-", env!("CARGO_PKG_VERSION")),
        "jobs": jobs,
        "phaselink": phaselink(outcome, description),
    })
}

/// A verb's document with what all of them begin with: the version and the verb. Those in fio's shape have it in their
/// `phaselink` object.
pub fn headed(verb: &str, document: Value) -> Value {
    let Value::Object(mut keys) = document else { return document };
    if let Some(own) = keys.get_mut("phaselink") {
        *own = headed(verb, own.take());
        return Value::Object(keys);
    }
    let head = [("version", env!("CARGO_PKG_VERSION")), ("verb", verb)];
    let head = head.map(|(key, value)| (String::from(key), Value::from(value)));
    let rest = keys.into_iter().filter(|(key, _)| key != "version");
    Value::Object(Map::from_iter(head.into_iter().chain(rest)))
}

/// What only a model knows.
fn phaselink(outcome: &Outcome, description: Value) -> Value {
    let jobs: Vec<Value> = outcome.jobs.iter().map(|job| ledger_job(job, &outcome.stack_stages)).collect();
    let counters: Map<String, Value> =
        outcome.counters.iter().map(|(name, value)| (name.to_string(), Value::from(*value))).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "drive": outcome.drive,
        "seed": outcome.seed,
        "finished": outcome.finished,
        "elapsed_ns": outcome.elapsed.as_ns(),
        "events": outcome.events,
        "jobs": jobs,
        "link": {
            "upstream": wire(&outcome.upstream, outcome.elapsed),
            "downstream": wire(&outcome.downstream, outcome.elapsed),
        },
        "cpu": processor(outcome),
        "energy": {
            "server_w": outcome.energy.server_w,
            "idle_w": outcome.energy.idle_w,
            "joules_per_io": outcome.joules_per_io(),
            "memory_joules_per_io": outcome.memory_joules_per_io(),
        },
        "counters": counters,
        "description": description,
    })
}

fn ledger_job(job: &JobOutcome, stack: &[String]) -> Value {
    let mut document = json!({
        "name": job.name,
        "iodepth": job.iodepth,
        "threads": job.threads,
        "read": ledger(&job.read, stack),
        "write": ledger(&job.write, stack),
    });
    if job.flush.ios > 0 {
        document["flush"] = ledger(&job.flush, stack);
    }
    document
}

/// Exact latency figures, and the stages in their order; an array, since a description may name two alike.
fn ledger(figures: &DirectionOutcome, stack: &[String]) -> Value {
    let latency = &figures.total;
    let percentiles: Map<String, Value> = PERCENTILES
        .iter()
        .map(|percentile| (String::from(percentile.name), percentile.of_ns(latency).into()))
        .collect();
    let stages: Vec<Value> =
        stage_means_ns(figures, stack).map(|(stage, mean_ns)| json!({ "stage": stage, "mean_ns": mean_ns })).collect();
    json!({
        "ios": figures.ios,
        "runtime_ns": figures.runtime.as_ns(),
        "latency_ns": {
            "min": latency.min().as_ns(),
            "max": latency.max().as_ns(),
            "mean": latency.mean_ns(),
            "stddev": latency.deviation_ns(),
            "percentile": percentiles,
        },
        "stages": stages,
        "total_ns": latency.mean_ns(),
    })
}

fn wire(wire: &WireUse, elapsed: Span) -> Value {
    json!({
        "bytes_per_ns": wire.bytes_per_ns,
        "data_bytes": wire.data_bytes,
        "command_bytes": wire.command_bytes,
        "header_bytes": wire.header_bytes,
        "dllp_bytes": wire.dllp_bytes,
        "packets": wire.packets,
        "replays": wire.replays,
        "busy_ns": wire.busy.as_ns(),
        "busy_share": wire.busy_share(elapsed),
        "payload_efficiency": wire.payload_efficiency(),
    })
}

fn processor(outcome: &Outcome) -> Value {
    let cpu = &outcome.cpu;
    json!({
        "cores": cpu.cores,
        "working_ns": cpu.working.as_ns(),
        "spinning_ns": cpu.spinning.as_ns(),
        "switching_ns": cpu.switching.as_ns(),
        "interrupts": cpu.interrupts,
        "context_switches": cpu.context_switches,
        "busy_cores": outcome.busy_cores(),
        "cores_per_gb_per_s": outcome.cores_per_gb_per_s(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    fn sample_json() -> Value {
        json(&sample::outcome(), json!({ "drive": "sample" }))
    }

    #[test]
    fn the_document_has_fios_shape_with_the_phaselink_object_beside_it() {
        let document = sample_json();
        let keys: Vec<&String> = document.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["fio version", "jobs", "phaselink"]);
        assert!(document["fio version"].as_str().unwrap().starts_with("phaselink-"));
        assert_eq!(document["jobs"][0]["jobname"], "rand & mix");
    }

    #[test]
    fn the_stages_of_the_ledger_sum_to_its_total() {
        let read = &sample_json()["phaselink"]["jobs"][0]["read"];
        let stages = read["stages"].as_array().unwrap();
        let sum: f64 = stages.iter().map(|stage| stage["mean_ns"].as_f64().unwrap()).sum();
        assert!((sum - read["total_ns"].as_f64().unwrap()).abs() < 1e-6);
        let names: Vec<&str> = stages.iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
        assert_eq!(names, ["system call", "driver", "media", "transfer"]);
    }

    #[test]
    fn the_phaselink_object_tells_use_energy_and_the_description() {
        let phaselink = &sample_json()["phaselink"];
        assert_eq!(phaselink["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(phaselink["link"]["upstream"]["busy_share"], 0.9);
        assert_eq!(phaselink["cpu"]["busy_cores"], 1.3);
        assert!((phaselink["energy"]["joules_per_io"].as_f64().unwrap() - 1e-4).abs() < 1e-12);
        assert_eq!(phaselink["counters"]["queue reads"], 12_345);
        assert_eq!(phaselink["description"]["drive"], "sample");
        assert!(phaselink["jobs"][0]["read"]["latency_ns"]["percentile"]["p99_999"].is_null());
        assert!(phaselink["jobs"][0]["read"]["latency_ns"]["percentile"]["p99_9"].is_f64());
    }
}
