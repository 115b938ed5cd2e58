//! Result of one job as fio prints it: key names, their order and the kinds of their numbers are those of fio 3.33.

use serde_json::{Map, Value, json};

use phaselink_core::ledger::outcome::per;
use phaselink_core::ledger::{DirectionOutcome, JobOutcome, Latency, Outcome};
use phaselink_core::number::{real, whole};
use phaselink_core::time::Span;

/// Percentiles that fio prints by default, in per cent.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// Upper ends of fio's latency classes, in the unit that the key of a group names: ns or us. `MS_CLASSES` are those in
/// ms.
const CLASSES: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];
const MS_CLASSES: [u64; 11] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000];

/// Names of fio's classes of queue depth; `CALLS` are those of the number of requests in one system call.
const DEPTHS: [&str; 7] = ["1", "2", "4", "8", "16", "32", ">=64"];
const CALLS: [&str; 7] = ["0", "4", "8", "16", "32", "64", ">=64"];

/// Returns the result of one job as an entry of fio's `jobs`.
pub(super) fn job(outcome: &Outcome, job: &JobOutcome) -> Value {
    let mut total = job.read.total.clone();
    total.merge(&job.write.total);
    let processor = Processor::of(outcome, job);
    let mut document = json!({
        "jobname": job.name,
        "groupid": 0,
        "error": job.first_error.unwrap_or(0),
        "eta": 0,
        "elapsed": whole(outcome.elapsed.as_s().ceil()),
        "job options": options(job),
        "read": direction(&job.read),
        "write": direction(&job.write),
        "trim": direction(&job.discard),
        "sync": { "total_ios": job.flush.ios, "lat_ns": fio_latency_object(&job.flush.total) },
        "job_runtime": whole_ms(outcome.elapsed).saturating_mul(u64::from(job.threads)),
        "usr_cpu": processor.user_percent,
        "sys_cpu": processor.system_percent,
        "ctx": processor.context_switches,
        "majf": 0,
        "minf": 0,
        "iodepth_level": single_class_shares(DEPTHS, fio_depth_class_index(job.iodepth), &total),
        "iodepth_submit": single_class_shares(CALLS, 1, &total),
        "iodepth_complete": single_class_shares(CALLS, 1, &total),
        "latency_ns": latency_class_shares(&total, &CLASSES, Span::ZERO, Span::from_ns),
        "latency_us": latency_class_shares(&total, &CLASSES, Span::from_us(1), Span::from_us),
        "latency_ms": millisecond_class_shares(&total),
        "latency_depth": 1,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    });
    // fio writes these fields if a job continues after an error (continue_on_error).
    if job.failed > 0 {
        document["total_err"] = job.failed.into();
        document["first_error"] = job.first_error.into();
    }
    document
}

/// Returns the options of a job with their values as texts; name, queue depth and number of threads are always among
/// them.
fn options(job: &JobOutcome) -> Map<String, Value> {
    let (iodepth, numjobs) = (job.iodepth.to_string(), job.threads.to_string());
    let known = [("name", job.name.clone()), ("iodepth", iodepth), ("numjobs", numjobs)];
    let given = job.options.iter().map(|(name, value)| (*name, value.clone()));
    let known = known.into_iter().filter(|(name, _)| !job.options.iter().any(|(given, _)| given == name));
    given.chain(known).map(|(name, value)| (String::from(name), Value::from(value))).collect()
}

/// Returns fio's figures of the reads, writes or trims of a job. fio samples rates every half second; here the whole
/// run is one sample, so that minima and maxima are equal.
fn direction(figures: &DirectionOutcome) -> Value {
    let (bytes_per_s, iops) = (figures.bytes_per_s(), figures.iops());
    let samples = u64::from(figures.ios > 0);
    json!({
        "io_bytes": figures.bytes,
        "io_kbytes": figures.bytes / 1024,
        "bw_bytes": whole(bytes_per_s),
        "bw": whole(bytes_per_s) / 1024,
        "iops": iops,
        "runtime": whole_ms(figures.runtime),
        "total_ios": figures.ios,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": latency(&figures.submission),
        "clat_ns": fio_latency_object(&figures.completion),
        "lat_ns": latency(&figures.total),
        "bw_min": whole(bytes_per_s) / 1024,
        "bw_max": whole(bytes_per_s) / 1024,
        "bw_agg": real(samples) * 100.0,
        "bw_mean": bytes_per_s / 1024.0,
        "bw_dev": 0.0,
        "bw_samples": samples,
        "iops_min": whole(iops),
        "iops_max": whole(iops),
        "iops_mean": iops,
        "iops_stddev": 0.0,
        "iops_samples": samples,
    })
}

fn latency(latency: &Latency) -> Value {
    json!({
        "min": whole_ns(latency.min()),
        "max": whole_ns(latency.max()),
        "mean": latency.mean_ns(),
        "stddev": latency.standard_deviation_ns(),
        "N": latency.count(),
    })
}

/// Returns fio's figures of a latency distribution, with percentiles unless nothing was counted, as in fio.
fn fio_latency_object(distribution: &Latency) -> Value {
    let mut fields = latency(distribution);
    if distribution.count() > 0 {
        fields["percentile"] = percentiles(distribution);
    }
    fields
}

/// Returns the percentiles of fio's list that the requests suffice for. As with fio's option `percentile_list`, others
/// have no key: programs that read fio's output expect numbers.
fn percentiles(latency: &Latency) -> Value {
    let field = |percent: &f64| {
        let known = latency.estimate(*percent).ok()?;
        Some((format!("{percent:.6}"), Value::from(whole_ns(known.value))))
    };
    Value::Object(PERCENTILES.iter().filter_map(field).collect())
}

/// Processor use of the threads of one job.
///
/// The outcome has the use of the whole run only, so that jobs get shares in proportion to their requests. The models
/// know no privilege levels: spinning counts as user time and the rest as system time.
struct Processor {
    user_percent: f64,
    system_percent: f64,
    context_switches: u64,
}

impl Processor {
    fn of(outcome: &Outcome, job: &JobOutcome) -> Processor {
        let cpu = &outcome.cpu;
        let share = per(real(job.read.ios + job.write.ios), real(outcome.ios()));
        let available_ns = outcome.elapsed.as_ns() * f64::from(job.threads.max(1));
        let percent = |span: Span| per(span.as_ns() * share * 100.0, available_ns);
        Processor {
            user_percent: percent(cpu.spinning),
            system_percent: percent(cpu.working + cpu.switching),
            context_switches: whole((real(cpu.context_switches) * share).round()),
        }
    }
}

/// Returns the index of fio's class of queue depth for a job, which keeps its depth all the time: 2 and 3 are in the
/// second class, 4 to 7 in the third, ….
fn fio_depth_class_index(iodepth: u32) -> usize {
    (iodepth.max(1).ilog2() as usize).min(DEPTHS.len() - 1)
}

/// Returns a JSON object with a share of the requests in per cent for each of `names`: 100 for number `place`, 0 for
/// the others. All shares are 0 if there are no requests.
fn single_class_shares(names: [&str; 7], place: usize, total: &Latency) -> Value {
    let percent = |this: usize| {
        if this == place && total.count() > 0 { 100.0 } else { 0.0 }
    };
    let field = |(this, name): (usize, &&str)| (name.to_string(), Value::from(percent(this)));
    Value::Object(names.iter().enumerate().map(field).collect())
}

/// Returns the share of the requests, in per cent, in each of fio's latency classes with these upper `ends`; the lowest
/// class begins at `from`.
fn latency_class_shares(total: &Latency, ends: &[u64], mut from: Span, unit: fn(u64) -> Span) -> Map<String, Value> {
    let mut shares = Map::new();
    for end in ends {
        let until = unit(*end);
        shares.insert(end.to_string(), percent_between(total, from, until).into());
        from = until;
    }
    shares
}

fn millisecond_class_shares(total: &Latency) -> Map<String, Value> {
    let mut shares = latency_class_shares(total, &MS_CLASSES, Span::from_ms(1), Span::from_ms);
    let slowest = percent_between(total, Span::from_s(2), Span::MAX);
    shares.insert(">=2000".to_string(), slowest.into());
    shares
}

fn percent_between(latency: &Latency, from: Span, until: Span) -> f64 {
    let between = latency.count_between(from, until);
    per(real(between) * 100.0, real(latency.count()))
}

fn whole_ns(span: Span) -> u64 {
    span.as_ps() / 1000 + u64::from(span.as_ps() % 1000 >= 500)
}

/// Returns a time in milliseconds, rounded up: a script that divides by fio's `runtime` must not meet a zero for a run
/// of microseconds.
fn whole_ms(span: Span) -> u64 {
    span.as_ps().div_ceil(1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    /// Keys of a job in the output of fio 3.33, in their order.
    const JOB_KEYS: &str = "jobname groupid error eta elapsed job_options read write trim sync job_runtime usr_cpu \
        sys_cpu ctx majf minf iodepth_level iodepth_submit iodepth_complete latency_ns latency_us latency_ms \
        latency_depth latency_target latency_percentile latency_window";

    /// Keys of the reads, writes or trims of a job in the output of fio 3.33, in their order.
    const DIRECTION_KEYS: &str = "io_bytes io_kbytes bw_bytes bw iops runtime total_ios short_ios drop_ios slat_ns \
        clat_ns lat_ns bw_min bw_max bw_agg bw_mean bw_dev bw_samples iops_min iops_max iops_mean iops_stddev \
        iops_samples";

    fn keys(value: &Value) -> String {
        let names: Vec<String> = value.as_object().unwrap().keys().map(|key| key.replace(' ', "_")).collect();
        names.join(" ")
    }

    fn sample_job() -> Value {
        let outcome = sample::outcome();
        job(&outcome, &outcome.jobs[0])
    }

    #[test]
    fn fio_job_object_has_fios_keys_in_order() {
        let job = sample_job();
        assert_eq!(keys(&job), JOB_KEYS);
        for direction in ["read", "write", "trim"] {
            assert_eq!(keys(&job[direction]), DIRECTION_KEYS);
        }
        assert_eq!(keys(&job["read"]["clat_ns"]), "min max mean stddev N percentile");
        assert_eq!(keys(&job["trim"]["clat_ns"]), "min max mean stddev N");
        assert_eq!(keys(&job["sync"]), "total_ios lat_ns");
        assert_eq!(keys(&job["iodepth_level"]), "1 2 4 8 16 32 >=64");
        assert_eq!(keys(&job["iodepth_submit"]), "0 4 8 16 32 64 >=64");
        assert_eq!(keys(&job["latency_ns"]), "2 4 10 20 50 100 250 500 750 1000");
        assert_eq!(keys(&job["latency_ms"]), "2 4 10 20 50 100 250 500 750 1000 2000 >=2000");
    }

    #[test]
    fn fio_job_options_are_strings_with_the_required_ones() {
        let options = &sample_job()["job options"];
        assert_eq!(keys(options), "name rw bs iodepth numjobs");
        assert_eq!([&options["name"], &options["iodepth"], &options["numjobs"]], ["rand & mix", "4", "2"]);
    }

    #[test]
    fn fio_percentiles_without_enough_requests_are_omitted() {
        let percentile = &sample_job()["read"]["clat_ns"]["percentile"];
        assert_eq!(
            keys(percentile),
            "1.000000 5.000000 10.000000 20.000000 30.000000 40.000000 50.000000 60.000000 70.000000 80.000000 \
             90.000000 95.000000 99.000000"
        );
        assert!(percentile["50.000000"].as_u64().unwrap().abs_diff(4700) <= 5);
    }

    #[test]
    fn fio_integers_are_printed_without_fraction() {
        let read = &sample_job()["read"];
        for key in ["io_bytes", "io_kbytes", "bw_bytes", "bw", "runtime", "total_ios", "bw_min", "iops_max"] {
            assert!(read[key].is_u64(), "{key}: {}", read[key]);
        }
        for key in ["iops", "bw_mean", "iops_stddev"] {
            assert!(read[key].is_f64(), "{key}: {}", read[key]);
        }
        assert!(read["lat_ns"]["max"].is_u64() && read["lat_ns"]["mean"].is_f64());
    }

    #[test]
    fn fio_rates_and_means_equal_the_outcome() {
        let read = &sample_job()["read"];
        assert_eq!(read["iops"].as_f64().unwrap().round(), 1e6);
        assert_eq!(read["bw_bytes"].as_f64().unwrap(), 4.096e9);
        assert_eq!(read["bw"], 4_000_000);
        assert_eq!(read["runtime"], 1);
        assert_eq!(read["slat_ns"]["mean"], 800.0);
        assert_eq!(read["lat_ns"]["mean"], 5500.5);
        assert_eq!(read["lat_ns"]["N"], 1000);
    }

    #[test]
    fn fio_latency_classes_count_each_request_once() {
        let job = sample_job();
        let sum: f64 = ["latency_ns", "latency_us", "latency_ms"]
            .iter()
            .flat_map(|unit| job[unit].as_object().unwrap().values())
            .map(|percent| percent.as_f64().unwrap())
            .sum();
        assert!((sum - 100.0).abs() < 1e-9, "{sum}");
        assert!((job["latency_us"]["4"].as_f64().unwrap() - 1000.0 / 1010.0).abs() < 1e-9);
        assert_eq!(job["iodepth_level"]["4"], 100.0);
    }

    #[test]
    fn fio_json_of_an_empty_outcome_has_zeros_instead_of_nulls() {
        let outcome = Outcome { jobs: vec![JobOutcome::default()], elapsed: Span::ZERO, ..sample::outcome() };
        let job = job(&outcome, &JobOutcome::default());
        assert_eq!(job["read"]["iops"], 0.0);
        assert_eq!(job["usr_cpu"], 0.0);
        assert_eq!(job["iodepth_level"]["1"], 0.0);
    }
}
