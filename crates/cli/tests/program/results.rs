//! What commands print: tables for people, documents for programs.

use std::fs;

use crate::common::{directory, phaselink, printed};
use expect_test::expect_file;
use serde_json::Value;

fn document(arguments: &str) -> Value {
    serde_json::from_str(&printed(arguments)).unwrap_or_else(|error| panic!("phaselink {arguments}: {error}"))
}

#[test]
fn comparison_output_equals_its_snapshot() {
    expect_file!["../snapshots/compare.txt"].assert_eq(&printed("compare --ios 2000"));
}

#[test]
fn list_of_drives_and_presets_equals_its_snapshot() {
    expect_file!["../snapshots/check.txt"].assert_eq(&printed("check"));
}

#[test]
fn ecc_output_equals_its_snapshot() {
    expect_file!["../snapshots/ecc.txt"].assert_eq(&printed("ecc --trials 200 --inject 200"));
}

#[test]
fn ecc_json_counts_damaged_sectors_and_meets_its_target() {
    let document = document("ecc --trials 50 --inject 50 --json");
    for row in document["injected"].as_array().unwrap() {
        let counts = ["corrected", "reported", "miscorrected"].map(|key| row[key].as_u64().unwrap());
        assert_eq!(counts.iter().sum::<u64>(), 50, "{row}");
        assert_eq!(counts[0] == 50, row["within_power"] == true, "{row}");
    }
    assert_eq!(document["injected"].as_array().unwrap().len(), 8);
    let tolerated = document["raw_bit_error_rate_tolerated"].as_f64().unwrap();
    assert!((tolerated - 2.14e-3).abs() < 1e-5, "{tolerated}");
}

#[test]
fn drive_set_is_compared_by_its_name() {
    let document = document("compare 2018 nvme --ios 100 --bs 4k --iodepth 1 --numjobs 1 --json");
    let drives: Vec<&str> =
        document["cells"].as_array().unwrap().iter().map(|cell| cell["drive"].as_str().unwrap()).collect();
    assert_eq!(drives, ["tlc-gen3", "optane-p4800x", "nvme-polled", "nvme"]);
}

#[test]
fn drive_file_schema_is_valid_json_schema() {
    let schema: serde_json::Value = serde_json::from_str(&printed("check --schema")).unwrap();
    assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
    assert!(schema["properties"]["link"]["properties"]["lanes"]["enum"].is_array());
    let results: serde_json::Value = serde_json::from_str(&printed("check --schema=results")).unwrap();
    assert_eq!(results["definitions"]["dma"]["properties"]["verb"]["const"], "dma");
}

#[test]
fn comparison_lines_have_at_most_120_columns() {
    let page = printed("compare --ios 20 --bs 512,4k,1m --numjobs 1,8");
    assert!(page.lines().all(|line| line.chars().count() <= 120), "{page}");
}

#[test]
fn piped_output_has_no_escape_codes_or_progress_bars() {
    for arguments in
        ["compare --ios 100", "run --number-ios 100", "check", "check nvme", "trace", "--help", "run --help"]
    {
        let ran = phaselink(arguments);
        assert!(!ran.stdout.contains('\x1b') && !ran.stderr.contains('\x1b'), "phaselink {arguments}");
        assert_eq!(ran.stderr, "", "phaselink {arguments}");
    }
}

#[test]
fn all_commands_have_help_with_examples() {
    for command in [
        "",
        "compare",
        "run",
        "predict",
        "sweep",
        "fit",
        "trace",
        "check",
        "endurance",
        "breakeven",
        "kvcache",
        "whatif",
        "reproduce",
        "ecc",
        "dma",
        "docs",
        "completions",
    ] {
        let help = printed(&format!("{command} --help"));
        assert!(help.contains("Examples:\n  phaselink "), "{command}: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 110), "{command}: {help}");
    }
}

#[test]
fn program_prints_its_documentation() {
    assert!(printed("docs").lines().any(|line| line.starts_with("serve") && line.ends_with("Serving a drive")));
    assert!(printed("docs serve").starts_with("# Serving a drive\n"));
    let wrong = phaselink("docs swep");
    assert!(wrong.code == Some(2) && wrong.stderr.contains("did you mean sweep?"), "{}", wrong.stderr);
}

#[test]
fn help_and_completions_are_commands() {
    assert_eq!(printed("help run"), printed("run --help"));
    assert!(printed("completions bash").contains("_phaselink()"));
}

#[test]
fn replaced_preset_values_are_noted_unless_quiet() {
    let arguments = "run nvme-ssd-gen3 --media dram --number-ios 10";
    let note = "note: nvme-ssd-gen3: media.preset = dram replaces capacity_mib = 1_144_409\n";
    assert_eq!(phaselink(arguments).stderr, note);
    assert_eq!(phaselink(&format!("{arguments} --quiet")).stderr, "");
}

#[test]
fn resolved_description_can_be_saved_and_read() {
    let folder = directory("kept");
    let path = |name: &str| folder.join(name).display().to_string();
    fs::write(path("whole.toml"), printed("check nvme --link gen5-x4 --toml")).unwrap();
    fs::write(path("part.toml"), format!("preset = 'nvme'\n[link]\npreset = '{}'\n", path("whole.toml"))).unwrap();
    let run = |drive: &str| {
        let page = printed(&format!("run {drive} --number-ios 50"));
        String::from(page.split_once("\njob ").expect("figures").1)
    };
    assert_eq!(run(&path("whole.toml")), run("nvme --link gen5-x4"));
    assert_eq!(run(&path("part.toml")), run(&path("whole.toml")));
    assert_eq!(run(&format!("nvme --link {}", path("whole.toml"))), run(&path("whole.toml")));
}

#[test]
fn memory_lifetimes_in_json_cover_workloads_and_wear_levelling() {
    let document = document("endurance dc-express --workload hammer,uniform --json");
    let lifetimes = document["lifetimes"].as_array().unwrap();
    assert_eq!(lifetimes.len(), 6);
    assert_eq!(lifetimes[0]["workload"], "hammer");
    assert_eq!(lifetimes[0]["wear_levelling"], "none");
    assert_eq!(lifetimes[0]["line_writes"], 1e6, "one line and its endurance");
    assert_eq!(lifetimes[3]["ideal_share"], 1.0);
    assert!(lifetimes[4]["years"].as_f64() > lifetimes[0]["years"].as_f64());
}

#[test]
fn flash_lifetime_depends_on_write_amplification() {
    let document = document("endurance tlc-gen4 --per-day 1g --bs 4k --json");
    let [sequential, random] = &document["lifetimes"].as_array().unwrap()[..] else { panic!("{document}") };
    let of = |lifetime: &Value, key: &str| lifetime[key].as_f64().unwrap();
    assert_eq!((&sequential["workload"], &random["workload"]), (&"sequential".into(), &"random".into()));
    let ratio = of(sequential, "written_bytes") / of(random, "written_bytes");
    assert!((ratio / of(random, "write_amplification") - 1.0).abs() < 1e-9 && ratio > 2.0, "{ratio}");
    assert!((0.05..5.0).contains(&of(random, "drive_writes_per_day")), "{random}");
    let years = of(random, "written_bytes") / f64::from(1 << 30) / 365.25;
    assert!((of(random, "years_at_bytes_per_day") / years - 1.0).abs() < 1e-9, "{random}");
    let page = printed("endurance tlc-gen4");
    assert!(page.starts_with("tlc-gen4 endures ") && page.contains("drive writes a day for 5 years"), "{page}");
}

#[test]
fn break_even_time_of_the_page_file_is_computed() {
    let page = printed("docs break-even");
    let example = page.split("```toml prices\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let here = directory("break-even");
    fs::write(here.join("own.toml"), example).unwrap();
    let of = |words: &str| document(&format!("breakeven {words} --json"));
    let own = of(&here.join("own.toml").display().to_string());
    let [small, .., large] = &own["times"].as_array().unwrap()[..] else { panic!("{own}") };
    assert_eq!((&small["block_bytes"], &small["limit"]), (&512.into(), &"given".into()));
    assert!(small["break_even_s"].as_f64() > large["break_even_s"].as_f64(), "{own}");
    assert_eq!(small["used_iops"], 1e6, "four drives share the host's 4 M a second");
    let faster = of("slc-cpu --drives 4 --host-iops 100e6 --bs 512");
    let slower = of("slc-cpu --drives 4 --host-iops 40e6 --bs 512");
    let seconds = |it: &Value| it["times"][0]["break_even_s"].as_f64().unwrap();
    assert!(seconds(&slower) > seconds(&faster) + 30.0, "{slower} {faster}");
    let text = printed("breakeven --history --sensitivity");
    assert!(text.starts_with("Data that is accessed again within 35.5 s") && text.contains("1987"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

#[test]
fn equal_seeds_give_equal_bytes() {
    let run = || printed("run nvme --rw randrw --iodepth 8 --number-ios 500 --json");
    assert_eq!(run(), run());
    assert_ne!(run(), printed("run nvme --rw randrw --iodepth 8 --number-ios 500 --json --seed 2"));
}

#[test]
fn depth_beyond_one_drives_queues_blanks_only_its_line() {
    let page = printed("compare --ios 200 --bs 512 --iodepth 64");
    assert!(page.contains("dc-express: its queues hold 63 requests"), "{page}");
    let kept = printed("compare cxl --ios 200 --bs 512 --iodepth 64");
    let figures = |page: &str| {
        let line = page.lines().find(|line| line.contains(" cxl ") && line.contains('%'))?;
        Some(line.split_whitespace().rev().take(11).map(String::from).collect::<Vec<_>>())
    };
    assert!(figures(&page).is_some() && figures(&page) == figures(&kept), "{page}{kept}");
    let cells = document("compare --ios 200 --bs 512 --iodepth 64 --json")["cells"].clone();
    let has_none = |cell: &&serde_json::Value| cell["iops"].is_null() && cell["iodepth_max"] == 63;
    assert_eq!(cells.as_array().unwrap().iter().filter(has_none).count(), 2, "{cells}");
}

#[test]
fn comparison_of_any_job_prints_its_run_figures() {
    for job in [
        "--bs 4k --numjobs 4 --iodepth 2 --rw randrw --rwmixread 70 --number-ios 300",
        "--numjobs 2 -O bssplit=4k/50:16k/50 --thinktime 20us --runtime 3ms --rw read",
        "--fio examples/mixed.fio",
    ] {
        let run = document(&format!("-q run nvme {job} --json"));
        let sum = |key: &str| {
            let directions = run["jobs"].as_array().unwrap().iter().flat_map(|job| [&job["read"], &job["write"]]);
            directions.map(|direction| direction[key].as_f64().unwrap()).sum::<f64>()
        };
        let comparison = document(&format!("-q compare nvme {job} --json"));
        let cells = comparison["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 1, "{job}");
        assert_eq!(cells[0]["ios"].as_f64(), Some(sum("total_ios")), "{job}");
        assert!((cells[0]["iops"].as_f64().unwrap() - sum("iops")).abs() < 1e-3, "{job}");
    }
}

#[test]
fn comparison_replays_a_trace_on_all_drives() {
    let trace = directory("compare-trace").join("a.log");
    fs::write(&trace, "fio version 2 iolog\nf add\nf open\nf write 0 4096\nf read 4096 8192\nf close\n").unwrap();
    let page = printed(&format!("compare nvme cxl --trace {}", trace.display()));
    assert!(page.contains("2 requests") && page.contains("mixed"), "{page}");
}

#[test]
fn energy_above_idle_is_the_total_minus_the_idle_server() {
    let page = document("compare nvme dc-express --ios 200 --bs 4k --json");
    for cell in page["cells"].as_array().unwrap() {
        let figure = |key: &str| cell[key].as_f64().unwrap();
        let idle_w = (figure("joules_per_io") - figure("joules_per_io_above_idle")) * figure("iops");
        assert!((idle_w - 100.0).abs() < 1e-6, "{cell}");
    }
}

#[test]
fn comparison_names_the_bottleneck_of_each_drive() {
    let page = printed("compare nvme dc-express cxl --bs 4k --iodepth 1,32 --ios 1000");
    let line = "What limits each at 4 KiB and depth 32: cores (nvme); wire to host (dc-express); waits for fill \
                buffers (cxl).";
    assert!(page.replace("\n  ", " ").contains(line), "{page}");
    let page = printed("compare nvme dc-express --bs 512 --ios 2000");
    let line = "too few requests in flight (nvme); wire to host (dc-express)";
    assert!(page.replace("\n  ", " ").contains(line), "{page}");
    let page = printed("compare nvme dc-express --bs 4k --iodepth 1,8 --ios 1000 --set media.read_ns=40000");
    assert!(page.replace("\n  ", " ").contains("waits for media banks (nvme and dc-express)"), "{page}");
}

#[test]
fn comparison_states_the_durability_of_acknowledged_writes() {
    let page = printed("compare --ios 200 --iodepth 1 --explain");
    assert!(page.contains("write    an acknowledged write is in the cells\n"), "{page}");
    let early = printed("compare nvme capi --set media.acknowledge=early --ios 200 --iodepth 1 --explain");
    assert!(early.contains("nvme: an acknowledged write is in the buffers of the memory"), "{early}");
    assert!(early.contains("capi: an acknowledged write is in the device's buffer"), "{early}");
}

#[test]
fn comparison_json_has_all_cells_and_descriptions() {
    let document = document("compare --ios 200 --bs 512,4k --iodepth 1,8 --json");
    let cells = document["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 8 * 2 * 2);
    for cell in cells {
        for key in [
            "iops",
            "bytes_per_s",
            "mean_ns",
            "p50_ns",
            "link_busy_share",
            "busy_cores",
            "joules_per_io",
            "memory_joules_per_io",
        ] {
            assert!(cell[key].is_number(), "{key} in {cell}");
        }
        assert!(cell["p99_ns"].is_null(), "200 requests do not know 99 %");
        assert_eq!(cell["tails"]["p99_ns"]["needed_ios"].as_u64().map(|needed| needed >= 1000), Some(true), "{cell}");
        let stages = cell["stages"].as_array().unwrap().iter().map(|stage| stage["mean_ns"].as_f64().unwrap());
        assert!((stages.sum::<f64>() - cell["mean_ns"].as_f64().unwrap()).abs() < 1e-6);
    }
    assert_eq!(
        (&cells[0]["drive"], &cells[0]["bs"], &cells[0]["iodepth"]),
        (&"pss-block".into(), &512.into(), &1.into())
    );
    assert_eq!(document["descriptions"].as_array().unwrap().len(), 8);
    assert_eq!(document["descriptions"][3]["media"]["read_ns"], 110);
}

#[test]
fn run_json_is_fio_shaped_with_a_phaselink_object() {
    let document = document("run nvme --rw randrw --number-ios 40000 --json");
    let job = &document["jobs"][0];
    assert!(job["read"]["iops"].as_f64().unwrap() > 0.0 && job["write"]["iops"].as_f64().unwrap() > 0.0);
    assert!(job["read"]["clat_ns"]["percentile"]["99.000000"].is_number());
    let phaselink = &document["phaselink"];
    for key in
        ["version", "verb", "drive", "seed", "finished", "jobs", "link", "cpu", "energy", "counters", "description"]
    {
        assert!(!phaselink[key].is_null(), "{key}");
    }
}

#[test]
fn results_are_written_to_the_requested_files() {
    let here = directory("files");
    let path = |name: &str| here.join(name).display().to_string();
    let (json, report, timeline) = (path("r.json"), path("a/b"), path("t.json"));
    let page = printed(&format!("run --number-ios 50 --json={json} --report {report} --perfetto {timeline}"));
    assert!(page.contains("where the time of a request goes"), "{page}");
    let read = |path: String| fs::read_to_string(path).unwrap();
    assert_eq!(read(json), read(format!("{report}/result.json")));
    assert!(read(format!("{report}/index.html")).starts_with("<!DOCTYPE html>"));
    let timeline: Value = serde_json::from_str(&read(timeline)).unwrap();
    assert!(timeline["traceEvents"].is_array());
}

#[test]
fn markdown_tables_have_all_rows() {
    let here = directory("markdown");
    fs::write(
        here.join("p.toml"),
        "drive = \"nvme\"\njob = { number_ios = 50 }\n[[axis]]\nkey = \"link.lanes\"\nvalues = [4, 8]\n",
    )
    .unwrap();
    let plan = here.join("p.toml").display().to_string();
    for (command, rows) in [
        (String::from("run nvme --number-ios 50"), 1),
        (String::from("compare nvme cxl --ios 50 --bs 4k"), 4),
        (format!("sweep {plan}"), 2),
        (String::from("dma --size 8,64 --transfers 50"), 2),
    ] {
        let ran = phaselink(&format!("{command} --markdown"));
        let lines: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!((ran.code, lines.len()), (Some(0), rows + 2), "phaselink {command}: {}{}", ran.stdout, ran.stderr);
        let columns = |line: &str| line.matches(" | ").count();
        assert!(
            lines.iter().all(|line| line.starts_with("| ") && columns(line) == columns(lines[0])),
            "{}",
            ran.stdout
        );
        assert!(lines[1].contains("---:"), "{}", ran.stdout);
    }
}

#[test]
fn distribution_files_exist_per_job_and_direction() {
    let here = directory("distributions").join("d");
    let folder = here.display().to_string();
    printed(&format!("run nvme --rw randrw --number-ios 400 -O name=../a --hgrm {folder}"));
    printed(&format!("run nvme --number-ios 300 --hgrm {folder}"));
    let mut names: Vec<String> =
        fs::read_dir(&here).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names.iter().filter(|name| name.ends_with("-write.hgrm")).count(), 1, "{names:?}");
    let text = fs::read_to_string(here.join("job-read.hgrm")).unwrap();
    assert!(text.starts_with("       Value     Percentile TotalCount 1/(1-Percentile)\n\n"), "{text}");
    assert!(text.contains("Total count    =          300]"), "{text}");
    let whole = text.lines().find(|line| line.contains(" 1.000000000000 ")).unwrap();
    let max_us: f64 = whole.split_whitespace().next().unwrap().parse().unwrap();
    let result: Value = serde_json::from_str(&printed("run nvme --number-ios 300 --json")).unwrap();
    let max_ns = result["phaselink"]["jobs"][0]["read"]["latency_ns"]["max"].as_f64().unwrap();
    assert!((max_us - max_ns / 1e3).abs() < 1e-3, "{max_us} {max_ns}");
}

#[test]
fn comparison_report_draws_all_drives_and_figures() {
    let here = directory("drawn");
    let report = here.join("report").display().to_string();
    let command = "compare nvme capi --ios 100 --bs 512,4k --iodepth 1,4";
    let text = printed(&format!("{command} --report {report}"));
    let page = fs::read_to_string(format!("{report}/index.html")).unwrap();
    assert_eq!(page.matches("<svg class=\"bars\"").count(), 4, "a drawing for each size and depth");
    assert!(page.contains("<title>nvme, software: ") && page.contains("<td>capi</td>"));
    let plain = page.replace('\u{a0}', " ");
    assert!(plain.contains(text.lines().next().unwrap()), "the same conclusion");
    assert_eq!(fs::read_to_string(format!("{report}/result.json")).unwrap(), printed(&format!("{command} --json")));
}

#[test]
fn drives_of_unequal_throughput_are_also_compared_at_equal_load() {
    let report = directory("equal-load").join("report").display().to_string();
    let command = "compare tlc-gen3 optane-p5800x --rw randrw --rwmixread 70 --bs 16k --iodepth 32 --ios 3000";
    let text = printed(&format!("{command} --report {report}"));
    let document = document(&format!("{command} --json"));
    let load = &document["equal_load"][0];
    let offered = load["offered_iops"].as_f64().unwrap();
    for cell in load["cells"].as_array().unwrap() {
        assert!((0.8..1.2).contains(&(cell["iops"].as_f64().unwrap() / offered)), "{offered}: {}", cell["iops"]);
    }
    let sentence = document["findings"].as_array().unwrap().iter().find(|it| it["kind"] == "equal_load").unwrap();
    let sentence = sentence["sentence"].as_str().unwrap();
    assert!(text.replace('\n', " ").contains(sentence) && text.contains("At the same load of"), "{text}");
    let page = fs::read_to_string(format!("{report}/index.html")).unwrap().replace('\u{a0}', " ");
    assert!(page.contains(sentence) && page.contains("<h2>At the same load</h2>"), "{sentence}");
}

#[test]
fn findings_name_the_buffer_and_flash_that_requests_wait_for() {
    let page = printed("compare tlc-gen3 optane-p5800x --rw randrw --rwmixread 70 --bs 16k --iodepth 32 --ios 3000");
    let told = page.replace("\n  ", " ").replace('\n', " ");
    assert!(told.contains("waits for room in the write buffer (") && told.contains("waits for flash "), "{page}");
    assert!(told.contains("bytes programmed for each byte written") && !told.contains("queueing"), "{page}");
}

#[test]
fn flash_prediction_starts_with_the_mean_and_its_lower_bound() {
    let page = printed("predict tlc-gen4 --rw randrw --rwmixread 70 --bs 16k --iodepth 16 --numjobs 4");
    let lines: Vec<&str> = page.lines().take(4).collect();
    assert!(lines[0].starts_with("On tlc-gen4, a lone read of 16,384 bytes (70.0 %) takes "), "{page}");
    assert!(lines[0].ends_with(" on average") && lines[1].starts_with("The cells have "), "{page}");
    assert!(lines[2].starts_with("A page takes ") && lines[3].starts_with("None takes less than "), "{page}");
}

#[test]
fn total_request_count_may_be_given_over_all_threads() {
    let run = document("run nvme --ios 1000 --numjobs 4 --json");
    assert_eq!(run["jobs"][0]["read"]["total_ios"], 1000);
}

#[test]
fn default_job_is_printed_like_any_other() {
    let first = |arguments: &str| printed(arguments).lines().find(|line| line.starts_with("Job")).unwrap().to_string();
    assert_eq!(
        first("run"),
        "Job: rw=randread bs=4k iodepth=1 number_ios=100000 (the default; see phaselink run --help)"
    );
    assert_eq!(first("run --bs 512 --size 1m"), "Job: rw=randread iodepth=1 bs=512 size=1m");
    assert_eq!(first("-q run nvme --fio examples/mixed.fio"), "Jobs: database and log of examples/mixed.fio");
}

#[test]
fn several_job_files_run_together_in_one_run() {
    let document = document("-q run nvme-polled --fio examples/open-loop.fio --fio examples/randread-qd32.fio --json");
    let names: Vec<&str> =
        document["jobs"].as_array().unwrap().iter().map(|job| job["jobname"].as_str().unwrap()).collect();
    assert_eq!(names, ["poisson-reads", "randread-qd32"]);
}

#[test]
fn trace_is_replayed_at_recorded_times() {
    let path = directory("replay-times").join("t.csv");
    // Two requests 1 ms apart: 10,000 ticks of 100 ns.
    fs::write(&path, "10000,hm,0,Read,4096,4096,0\n20000,hm,0,Write,0,512,0\n").unwrap();
    let page = printed(&format!("run nvme --trace {}", path.display()));
    assert!(page.contains("MSR Cambridge CSV, 2 requests"), "{page}");
    assert!(page.contains("2 requests in 1."), "{page}");
}

#[test]
fn json_documents_start_with_version_and_verb() {
    let page = include_str!("../../docs/json.md");
    let trace = directory("json-trace").join("t.csv");
    fs::write(&trace, "10000,hm,0,Read,4096,4096,0\n20000,hm,0,Write,0,512,0\n").unwrap();
    let info = format!("trace-info {} --json", trace.display());
    for (verb, arguments) in [
        ("run", "run nvme --number-ios 10 --json"),
        ("compare", "compare nvme cxl --ios 10 --bs 4k --iodepth 1 --json"),
        ("predict", "predict nvme --json"),
        ("endurance", "endurance dc-express --workload hammer --json"),
        ("breakeven", "breakeven --json"),
        ("kvcache", "kvcache optane-p5800x --duration 20 --host-memory 0 --windows 2 --json"),
        ("whatif", "whatif -q tlc-gen4 optane-p5800x --trace examples/recordings/git.iolog.gz --requests 100 --json"),
        ("ecc", "ecc --trials 1 --inject 1 --json"),
        ("dma", "dma --size 64 --transfers 100 --json"),
        ("trace-info", &info),
    ] {
        let all = document(arguments);
        let own = [&all["phaselink"], &all].into_iter().find(|part| part.is_object()).unwrap();
        let own = own.as_object().unwrap();
        let head: Vec<&str> = own.keys().take(2).map(String::as_str).collect();
        assert_eq!((head, &own["verb"]), (vec!["version", "verb"], &verb.into()));
        let row = page.lines().find(|line| line.starts_with("| `") && line.contains(&format!("`{verb}`"))).unwrap();
        let missing: Vec<_> = own.keys().skip(2).filter(|key| !row.contains(&format!("`{key}`"))).collect();
        assert!(missing.is_empty(), "docs/json.md lacks {missing:?} of {verb}");
    }
}

#[test]
fn reproduced_results_are_one_json_object_each() {
    // These papers take a few seconds. The others take nearly a minute (`make reproduce`).
    let papers = ["capi-pcm-openpower", "moneta-talk-2011"];
    let ran = phaselink(&format!("reproduce {} --json", papers.join(" ")));
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(document.as_object().unwrap().keys().collect::<Vec<_>>(), ["version", "verb", "rows"]);
    assert_eq!(document["verb"], "reproduce");
    let rows = document["rows"].as_array().unwrap();
    for row in rows {
        for key in ["paper", "id", "quantity", "unit", "kind", "verdict"] {
            assert!(row[key].is_string(), "{key} in {row}");
        }
        assert!(row["published"].is_number() && row["fitted"].is_u64() && row["depends_on"].is_array(), "{row}");
        let is_fine = row["verdict"] == "reproduced" || row["verdict"] == "given";
        assert!(is_fine != (row["reason"] != ""), "{row}");
        assert!(row["verdict"] != "given" || row["kind"] == "input", "{row}");
    }
    let is_off = rows.iter().any(|row| row["verdict"] == "off");
    assert_eq!(ran.code, Some(i32::from(is_off)));
    assert!(papers.iter().all(|paper| rows.iter().any(|row| row["paper"] == *paper)));
    let paper = papers[0];
    let rows: Vec<&Value> = rows.iter().filter(|row| row["paper"] == paper).collect();
    let page = phaselink(&format!("reproduce {paper}")).stdout;
    assert!(page.contains(&format!("{} rows. Predictions", rows.len())), "{page}");
    assert!(rows.iter().all(|row| page.contains(row["id"].as_str().unwrap())), "{page}");
}

#[test]
fn ladder_shows_a_request_from_call_to_return() {
    let ladder = printed("trace nvme --bs 512");
    assert!(ladder.starts_with("nvme: request 65 of random reads, bs=512, iodepth=1\n"), "{ladder}");
    for step in ["doorbell, ", "fetch command, ", "# media", "data x4, 608 B", "interrupt message, "] {
        assert!(ladder.contains(step), "{step} in {ladder}");
    }
    assert_ne!(ladder, printed("trace nvme --bs 512 --skip 0"));
}

#[test]
fn timeline_contains_the_requested_number_of_requests() {
    let path = directory("timeline").join("t.json");
    printed(&format!("trace nvme --iodepth 4 --requests 5 --perfetto {}", path.display()));
    let timeline: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let steps = timeline["traceEvents"].as_array().unwrap();
    let mut requests: Vec<u64> = steps.iter().filter_map(|step| step["args"]["request"].as_u64()).collect();
    requests.sort_unstable();
    requests.dedup();
    assert_eq!(requests.len(), 5);
}

#[test]
fn papers_command_lists_all_papers() {
    let papers = "capi-pcm-openpower\ndc-express-fast14\nfive-minute-rule-arxiv25\nmoneta-talk-2011\nnvme-model-nvmsa16\npss-ibm-nvmw14\n";
    assert_eq!(printed("reproduce --list"), papers);
}

#[test]
fn program_version_equals_that_of_the_workspace() {
    assert_eq!(printed("--version"), format!("phaselink {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn predicted_stages_add_up_and_limits_are_sorted() {
    let predicted = document("predict nvme dc-express --rw randrw --bs 4k --iodepth 8 --json");
    assert_eq!(predicted["drives"].as_array().map(Vec::len), Some(2));
    for drive in predicted["drives"].as_array().unwrap() {
        let job = &drive["jobs"][0];
        for class in job["classes"].as_array().unwrap() {
            let stages = class["alone"]["stages"].as_array().unwrap();
            let sum: f64 = stages.iter().map(|stage| stage["ns"].as_f64().unwrap()).sum();
            assert!((sum - class["alone"]["total_ns"].as_f64().unwrap()).abs() < 1e-6);
        }
        let limits: Vec<f64> =
            job["limits"].as_array().unwrap().iter().map(|limit| limit["iops_max"].as_f64().unwrap()).collect();
        assert!(limits.is_sorted() && job["bottleneck"] == job["limits"][0]["resource"]);
    }
}

#[test]
fn man_pages_are_written_for_all_commands() {
    let folder = directory("man");
    printed(&format!("completions --man {}", folder.display()));
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(read("phaselink.1").contains("phaselink\\-compare(1)"));
    let page = read("phaselink-compare.1");
    assert!(page.starts_with(".ie") && page.contains(".SH OPTIONS") && page.contains("\\-\\-bs"), "{page}");
    let without = phaselink("completions");
    assert_eq!(without.code, Some(2));
    assert!(without.stderr.contains("no shell is named; allowed: bash, "), "{}", without.stderr);
}
