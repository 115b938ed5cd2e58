use super::*;
use expect_test::expect;
use phaselink_core::engine::simulation::simulate;

const GRID: &str = "
drive = 'dc-express'
job = { rw = 'randread', bs = '4k', number_ios = 200 }
axis = [{ key = 'link.lanes', powers_of_two = [1, 8] }, { key = 'media.read_ns', values = [50, 110, 400] }]
";

fn plan(text: &str) -> Plan {
    Plan::parse("p.toml", text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn sweep(text: &str) -> Sweep {
    Sweep::new(plan(text), Files::default()).unwrap_or_else(|problems| panic!("{problems}"))
}

fn problems(text: &str) -> String {
    Plan::parse("p.toml", text).unwrap_err().to_string()
}

/// Returns the number of points of a plan that cannot run, and the text of their problems.
fn refusals(text: &str) -> (usize, String) {
    let (sweep, mut refusals) = (sweep(text), PointProblems::default());
    let mut resolver = sweep.resolver();
    for point in 0..sweep.plan().points() {
        if let Err(problems) = resolver.check(point) {
            refusals.add(point, problems);
        }
    }
    (refusals.points(), refusals.problems(sweep.plan()).to_string())
}

#[test]
fn first_axis_varies_slowest_and_seed_fastest() {
    let plan = plan(
        "drive = \"nvme\"\nseed = [1, 2]\n\
         [[axis]]\nkey = \"link.lanes\"\nvalues = [4, 8]\n\
         [[axis]]\nzip = [{ key = \"media.read_ns\", from = 1, to = 2, step = 1 }, { key = \"job.bs\", values = [\"4k\", 512] }]\n",
    );
    let points: Vec<String> = (0..plan.points()).map(|point| plan.describe(point)).collect();
    expect![[r#"
        link.lanes = 4, media.read_ns = 1, job.bs = 4k, seed 1
        link.lanes = 4, media.read_ns = 1, job.bs = 4k, seed 2
        link.lanes = 4, media.read_ns = 2, job.bs = 512, seed 1
        link.lanes = 4, media.read_ns = 2, job.bs = 512, seed 2
        link.lanes = 8, media.read_ns = 1, job.bs = 4k, seed 1
        link.lanes = 8, media.read_ns = 1, job.bs = 4k, seed 2
        link.lanes = 8, media.read_ns = 2, job.bs = 512, seed 1
        link.lanes = 8, media.read_ns = 2, job.bs = 512, seed 2"#]]
    .assert_eq(&points.join("\n"));
}

#[test]
fn all_sweep_plan_mistakes_are_reported_with_lines() {
    let text = r#"
drve = "nvme"
job = { bs = "4q", iodpth = 3 }
seed = -1
columns = ["iops", "p99.9_ns"]
[[axis]]
key = "link.lans"
values = [1]
[[axis]]
key = "lanes"
values = [1]
[[axis]]
key = "job.iodpth"
values = [1, 2]
[[axis]]
key = "media.read_ns"
from = 1
step = 2
[[axis]]
key = "media.command_ns"
[[axis]]
zip = [{ key = "link.hops", values = [1, 2] }, { key = "link.generation", values = [1] }]
[[axis]]
key = "job.bs"
powers_of_two = [3, 8]
"#;
    expect![[r#"
        p.toml: no drive; allowed: drive = "NAME" or the path of a drive file, or an axis with the key drive
        p.toml:2: unknown key drve, did you mean drive?; allowed: drive, set, job, seed, columns, axis
        p.toml:3: `bs=4q`; allowed: bytes, such as 4k, or 4k,8k for reads and writes
        p.toml:3: unknown option `iodpth`, did you mean iodepth?
        p.toml:4: seed is -1; allowed: a whole number from 0 to 2^64 - 1, or an array of such numbers
        p.toml:5: there is no column `p99.9_ns`, did you mean p99_9_ns?; allowed: ios, iops, read_iops, write_iops, bytes_per_s, min_ns, mean_ns, p50_ns, p90_ns, p95_ns, p99_ns, p99_9_ns, p99_99_ns, beyond_p99_mean_ns, max_ns, read_mean_ns, read_p50_ns, read_p99_ns, read_p99_9_ns, read_p99_99_ns, write_mean_ns, write_p50_ns, write_p99_ns, write_p99_9_ns, write_p99_99_ns, flushes, flush_mean_ns, flush_p99_ns, commits, commit_mean_ns, commit_p50_ns, commit_p99_ns, queries, queries_per_s, query_mean_ns, query_p50_ns, query_p99_ns, link_busy_share, upstream_busy_share, downstream_busy_share, busy_cores, cores_per_gb_per_s, busy_target_cores, server_w, joules_per_io, joules_per_io_above_idle, memory_joules_per_io, precision_share
        p.toml:7: unknown key link.lans of an axis, did you mean link.lanes?; allowed: a key of the drive (`phaselink check NAME` lists them), drive, or job.OPTION
        p.toml:10: unknown key lanes of an axis, did you mean link.lanes?; allowed: a key of the drive (`phaselink check NAME` lists them), drive, or job.OPTION
        p.toml:14: unknown option `iodpth`, did you mean iodepth?
        p.toml:17: a range without its end; allowed: to = a number
        p.toml:19: an axis without values; allowed: values = […], powers_of_two = [first, last], or from and to with step, count or factor
        p.toml:21: a zip of 2 of link.hops with 1 of link.generation; allowed: as many values of each key
        p.toml:25: powers_of_two is [3, 8]; allowed: [first, last], two powers of two up to 2^53, as in [1, 64]"#]]
    .assert_eq(&problems(text));
}

#[test]
fn sweep_with_too_many_points_is_refused() {
    let axis = |key: &str| format!("[[axis]]\nkey = \"{key}\"\nfrom = 1\nto = 1000\nstep = 1\n");
    let three = format!("drive = \"nvme\"\n{}{}{}", axis("media.read_ns"), axis("job.iodepth"), axis("job.number_ios"));
    assert_eq!(problems(&three), "p.toml: a sweep of 1000000000 points; allowed: at most 1,000,000");
}

#[test]
fn refused_points_are_reported_with_values_and_line_once_each() {
    let text = "drive = \"nvme\"\njob = { number_ios = 10 }\nset = [\"link.posted_data_credits=16\"]\n\
         [[axis]]\nkey = \"link.max_payload_bytes\"\npowers_of_two = [128, 512]\n\
         [[axis]]\nkey = \"link.lanes\"\nvalues = [4, 5, 8]\n\
         [[axis]]\nkey = \"job.iodepth\"\nvalues = [1, 5000]\n";
    let (points, told) = refusals(text);
    assert_eq!(points, 14);
    expect![[r#"
        p.toml:6: link.posted_data_credits is 16 with link.max_payload_bytes 512 (at link.max_payload_bytes = 512, link.lanes = 4, job.iodepth = 1, and at 5 other points); allowed: at least 32 credits of 16 bytes
        p.toml:9: link.lanes is 5 (at link.max_payload_bytes = 128, link.lanes = 5, job.iodepth = 1, and at 5 other points); allowed: 1, 2, 4, 8, 12, 16, 32
        p.toml:12: job `job`: iodepth is 5000 (at link.max_payload_bytes = 128, link.lanes = 4, job.iodepth = 5000, and at 3 other points); allowed: 1 to 1023, since a queue of 1024 entries keeps one empty"#]]
    .assert_eq(&told);
}

#[test]
fn sweep_point_resolves_to_its_drive_and_job() {
    let sweep = sweep(
        "drive = \"dc-express\"\nset = [\"link.preset=gen3-x4\"]\njob = { bs = 512, number_ios = 50 }\nseed = 3\n\
         [[axis]]\nkey = \"link.preset\"\nvalues = [\"gen2-x4\", \"gen4-x4\"]\n[[axis]]\nkey = \"job.iodepth\"\nvalues = [1, 4]\n",
    );
    let mut resolver = sweep.resolver();
    let mut run = resolver.simulation(3).unwrap();
    while run.step(1 << 20) {}
    let shipped = shipped::find("dc-express").unwrap();
    let set = phaselink_core::drive_file::KeyOverride::parse("link.preset=gen4-x4").unwrap();
    let drive = phaselink_core::drive::Drive::from_toml(shipped.file, shipped.text, &[set]).unwrap();
    let flags = [("rw", "randread"), ("bs", "512"), ("iodepth", "4"), ("number_ios", "50"), ("io_size", "1024p")];
    let jobs = phaselink_core::workload::fio::job_from_flags(&flags)
        .unwrap()
        .resolve(&drive.limits(), &Default::default())
        .unwrap();
    assert_eq!(run.outcome(), simulate(&drive, &jobs, 3).unwrap());
    assert_eq!(resolver.check(3).unwrap(), Hash::of(&drive, &jobs, 3));
}

#[test]
fn points_resolve_equally_in_any_order() {
    let sweep = sweep(GRID);
    let hashes = |points: &mut dyn Iterator<Item = usize>| {
        let mut resolver = sweep.resolver();
        points.map(|point| resolver.check(point).unwrap()).collect::<Vec<Hash>>()
    };
    let points = sweep.plan().points();
    let forwards = hashes(&mut (0..points));
    let mut backwards = hashes(&mut (0..points).rev());
    backwards.reverse();
    assert_eq!(forwards, backwards);
    let distinct: std::collections::BTreeSet<&Hash> = forwards.iter().collect();
    assert_eq!(distinct.len(), points);
}

#[test]
fn swept_option_applies_to_all_jobs_of_a_job_file() {
    let plan = plan("drive = \"nvme\"\njob = \"j.fio\"\n[[axis]]\nkey = \"job.iodepth\"\nvalues = [2, 9000]\n");
    assert_eq!(plan.job_file_of_plan().map(|wanted| wanted.name), Some("j.fio"));
    let job =
        phaselink_core::workload::fio::parse("j.fio", "[a]\nnumber_ios=9\n[b]\nnumber_ios=8\niodepth=1\n").unwrap();
    let sweep = Sweep::new(plan, Files { job: Some(job), ..Files::default() }).unwrap();
    let mut run = sweep.resolver().simulation(0).unwrap();
    while run.step(1 << 20) {}
    assert!(run.outcome().jobs.iter().all(|job| job.iodepth == 2));
    let told = sweep.resolver().check(1).unwrap_err().to_string();
    assert!(told.starts_with("j.fio:1: job `a`: iodepth is 9000"), "{told}");
}

#[test]
fn text_rows_show_varied_keys_and_json_rows_all_keys() {
    let sweep = sweep(
        "drive = \"nvme\"\njob = { number_ios = 20 }\ncolumns = [\"ios\", \"p50_ns\", \"p99_ns\"]\n\
         [[axis]]\nkey = \"job.rw\"\nvalues = [\"randread\", \"read\"]\n[[axis]]\nkey = \"link.lanes\"\nvalues = [4]\n",
    );
    let mut resolver = sweep.resolver();
    let runs: Vec<(Hash, Figures)> = (0..2)
        .map(|point| {
            let mut run = resolver.simulation(point).unwrap();
            while run.step(1 << 20) {}
            (Hash::parse(&format!("{point:032x}")).unwrap(), Figures::of(&run.outcome()))
        })
        .collect();
    let rows: Vec<text::FinishedPoint> = runs
        .iter()
        .enumerate()
        .map(|(point, (hash, figures))| text::FinishedPoint {
            point,
            hash: *hash,
            figures,
            intervals: None,
            verdict: None,
        })
        .collect();
    let plan = sweep.plan();
    let json: serde_json::Value = serde_json::from_str(&text::json(plan, &rows)).unwrap();
    assert_eq!((&json["rows"][1]["job.rw"], &json["rows"][1]["link.lanes"]), (&"read".into(), &4.into()));
    assert!(json["rows"][0]["p99_ns"].is_null());
    let all = [text::heading(plan, 2), text::table(plan, &rows), text::csv(plan, &rows)].join("\n");
    expect![[r#"
        p.toml: 2 points, drive nvme, seed 1, link.lanes = 4
        Job: bs=4k iodepth=1 number_ios=20

        job.rw    requests      p50      p99
        ────────────────────────────────────
        randread        20  12.9 us  unknown
        read            20  12.9 us  unknown

        job.rw,link.lanes,seed,ios,p50_ns,p99_ns,hash
        randread,4,1,20,12894.207,,00000000000000000000000000000000
        read,4,1,20,12894.207,,00000000000000000000000000000001
    "#]]
    .assert_eq(&all);
}
