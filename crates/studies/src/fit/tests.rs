use super::*;
use phaselink_core::drive_file::refuse_files;

/// Output of fio 3.33 as test input, reduced to the parts that are read.
const FIO: &str = r#"fio: this platform does not support process shared mutexes
{
  "fio version" : "fio-3.33",
  "global options" : { "ioengine" : "libaio", "direct" : "1", "runtime" : "60", "time_based" : "" },
  "jobs" : [
    { "jobname" : "one", "error" : 0, "job options" : { "name" : "one", "rw" : "randread", "bs" : "4k" },
      "read" : { "total_ios" : 1000, "iops" : 50000.0,
        "clat_ns" : { "mean" : 19000.0, "N" : 1000, "percentile" : { "99.000000" : 30000 } },
        "lat_ns" : { "mean" : 20000.0, "N" : 1000 } },
      "write" : { "total_ios" : 0, "iops" : 0.0 } },
    { "jobname" : "two", "error" : 0, "job options" : { "rw" : "randrw", "iodepth" : "8", "stonewall" : "" },
      "read" : { "total_ios" : 500, "iops" : 100.0,
        "clat_ns" : { "mean" : 9000.0, "N" : 500 }, "lat_ns" : { "mean" : 0.0, "N" : 0 } },
      "write" : { "total_ios" : 500, "iops" : 200.0,
        "clat_ns" : { "mean" : 1.0, "N" : 500 }, "lat_ns" : { "mean" : 7000.0, "N" : 500 } } }
  ]
}"#;

fn problems(text: &str) -> String {
    read("r.json", text, &[]).map(|_| ()).unwrap_err().to_string()
}

fn described(name: &str) -> Described {
    Described::shipped(name, &[], refuse_files).unwrap()
}

fn key_problem(drive: &str, name: &str) -> String {
    keys(described(drive).drive(), &[String::from(name)]).unwrap_err().to_string()
}

#[test]
fn fio_figures_are_read_by_job_and_direction_and_split_at_barriers() {
    let runs = read("r.json", FIO, &[]).unwrap();
    let figures: Vec<Vec<String>> = runs
        .iter()
        .map(|run| run.figures.iter().map(|it| format!("{} {} {}", it.name, it.heading(), it.value)).collect())
        .collect();
    assert_eq!(
        figures[0],
        [
            "one: randread 4k depth 1 read mean 20000",
            "one: randread 4k depth 1 read p99 30000",
            "one: randread 4k depth 1 read IOPS 50000"
        ]
    );
    assert_eq!(
        figures[1],
        [
            "two: randrw depth 8 read mean 9000",
            "two: randrw depth 8 read IOPS 100",
            "two: randrw depth 8 write mean 7000",
            "two: randrw depth 8 write IOPS 200"
        ]
    );
    assert_eq!(runs.iter().map(|run| run.ios).collect::<Vec<_>>(), [1000, 1000]);
}

#[test]
fn fio_percentile_has_its_class_resolution() {
    let resolution = |text: &str| read("r.json", text, &[]).unwrap()[0].figures[1].resolution;
    let ours = FIO.replace("fio-3.33", "phaselink-0.3.0");
    assert!((resolution(FIO) - 0.0045).abs() < 1e-4, "{}", resolution(FIO));
    assert!((resolution(FIO) / resolution(&ours) - 16.0).abs() < 1e-9);
}

#[test]
fn fio_jobs_without_a_barrier_form_one_run() {
    let runs = read("r.json", &FIO.replace(r#", "stonewall" : """#, ""), &[]).unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].figures.iter().map(|figure| figure.job).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1, 1]);
    let (jobs, ios) = runs[0].jobs(100).unwrap();
    assert_eq!((jobs.len(), ios), (2, 100));
}

#[test]
fn unmodelled_fio_job_is_refused_unless_options_are_ignored() {
    let pinned = FIO.replace(r#""bs" : "4k""#, r#""bs" : "4k", "cpus_allowed" : "3""#);
    assert!(problems(&pinned).starts_with("r.json, job one: `cpus_allowed` is not modelled"), "{}", problems(&pinned));
    assert!(read("r.json", &pinned, &[String::from("cpus_allowed")]).is_ok());
}

#[test]
fn file_without_fio_results_is_rejected() {
    assert!(problems("{ \"jobs\": [] }").contains("no `jobs`"));
    assert!(problems("nothing").starts_with("r.json:1: not JSON"));
    assert!(problems(&FIO.replace("\"error\" : 0", "\"error\" : 5")).contains("ended with error 5"));
    assert!(problems(&FIO.replace("\"two\"", "\"one\"")).contains("group_reporting=1"));
    assert!(problems(&FIO.replace("\"total_ios\" : 1000", "\"total_ios\" : 0")).contains("no request was counted"));
    assert!(
        problems(&FIO.replace(r#""bs" : "4k""#, r#""read_iolog" : "a.log""#)).contains("a replay, by `read_iolog`")
    );
}

#[test]
fn key_that_cannot_be_fitted_is_refused() {
    assert!(key_problem("nvme", "media.raed_ns").contains("did you mean media.read_ns?"));
    assert!(key_problem("nvme", "nvme.queue_entries").contains("phaselink sweep"));
    assert!(key_problem("nvme", "moneta.pipeline_ns").contains("another interface"));
    assert!(key_problem("nvme", "controller.read_core_ns").contains("--set controller.read_core_ns=10"));
    let twice = ["media.read_ns", "media.read_ns"].map(String::from);
    assert!(keys(described("nvme").drive(), &twice).unwrap_err().to_string().contains("twice"));
    let read = keys(described("nvme").drive(), &twice[..1]).unwrap().remove(0);
    assert_eq!((read.unit, read.start), ("ns", 110.0));
    assert!(read.low > 0.0 && read.high > 1000.0, "{read:?}");
}
