//! Files of the repository outside this crate that follow its tables, or that it reads: pages of the documentation, examples.

use std::collections::BTreeMap;

use expect_test::expect_file;
use phaselink_core::drive::Drive;
use phaselink_core::ledger::Stage;
use phaselink_core::ledger::stage::SystemPart;
use phaselink_core::time::Span;
use phaselink_core::workload::fio;
use phaselink_core::workload::options::OPTIONS;
use phaselink_core::workload::{EngineChoice, Job, Limits};
use phaselink_studies::results::{FIGURES, Figure};

const STAGES_HEAD: &str = "# Stages of a request\n\n\
    <!-- Made by a test, from the program's own tables; `make snapshots` renews it. -->\n\n\
    Every picosecond of a request's life belongs to one stage, and they add up to its latency. In the order in which a\n\
    request usually meets them, behind those of its software: `fio`, `system call`, `file system`, `block driver` and the\n\
    like, which `[[stack.stages]]` of the drive names ([hosts.md](hosts.md)). Colours of reports go by where the time\n\
    passes.\n\n| stage | passes in | what it is |\n|---|---|---|\n";

#[test]
fn stages_page_equals_the_stage_table() {
    let rows = Stage::fixed().zip(Stage::stage_explanations());
    let row = |((name, part), about): ((&str, SystemPart), &str)| {
        format!("| `{name}` | the {} | {about} |\n", format!("{part:?}").to_lowercase())
    };
    expect_file!["../../../cli/docs/stages.md"]
        .assert_eq(&(String::from(STAGES_HEAD) + &rows.map(row).collect::<String>()));
}

#[test]
fn sweep_page_lists_all_figures() {
    let page = include_str!("../../../cli/docs/sweep.md");
    let head = "| name | table | figure |\n|---|---|---|\n";
    let (before, rest) = page.split_once(head).expect("a table of figures");
    let (_, after) = rest.split_once("\n\n").expect("an end of the table");
    let row = |figure: &Figure| format!("| `{}` | {} | {} |", figure.name, figure.heading, figure.about);
    let rows: Vec<String> = FIGURES.iter().map(row).collect();
    expect_file!["../../../cli/docs/sweep.md"].assert_eq(&format!("{before}{head}{}\n\n{after}", rows.join("\n")));
}

#[test]
fn documented_memory_preset_row_is_valid() {
    let page = include_str!("../../../cli/docs/adding-a-memory.md");
    let block = page.split("```toml media\n").nth(1).unwrap().split("```").next().unwrap();
    let keys = block.lines().filter(|line| !["[", "summary", "fitted"].iter().any(|start| line.starts_with(start)));
    let keys: Vec<&str> = keys.collect();
    let fitted = "fitted = [{ key = 'media.read_ns', why = 'no source gives it' }]";
    let text = format!("interface = 'nvme'\n{fitted}\n[media]\n{}", keys.join("\n"));
    let media = Drive::from_toml("page.toml", &text, &[]).unwrap_or_else(|problems| panic!("{problems}")).media;
    assert_eq!((media.read, media.channels, media.capacity_mib), (Span::from_ns(250), 2, 4096));
    assert!(block.lines().any(|line| line.starts_with("fitted = [{ key = \"read_ns\"")));
    assert!(keys.len() >= 12 && keys.iter().all(|line| line.contains(" # ")), "each value says where it comes from");
}

#[test]
fn fio_page_lists_all_options() {
    let text = include_str!("../../../cli/docs/fio.md");
    let missing: Vec<_> =
        OPTIONS.iter().flat_map(|option| option.names).filter(|name| !text.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/fio.md lacks {missing:?}");
}

/// Jobs of an example, for a drive of this capacity.
fn jobs(text: &str, capacity: u64) -> Vec<Job> {
    let limits = Limits { queue_entries: 1024, transfer_bytes: 4096, ..Limits::new(capacity, 1) };
    let resolved = fio::parse("example", text).and_then(|file| file.resolve(&limits, &BTreeMap::new()));
    resolved.unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn example_job_files_contain_the_stated_jobs() {
    for (text, count) in [
        (include_str!("../../../../examples/randread-qd32.fio"), 1),
        (include_str!("../../../../examples/mixed.fio"), 2),
        (include_str!("../../../../examples/open-loop.fio"), 1),
    ] {
        assert_eq!(jobs(text, 640 << 20).len(), count);
    }
}

#[test]
fn example_text_becomes_the_described_job() {
    let job = jobs(include_str!("../../../../examples/randread-qd32.fio"), 10 << 20).remove(0);
    let expected = Job {
        iodepth: 32,
        io_bytes: Some(10 << 20),
        runtime: Some(Span::from_ms(100)),
        ramp_time: Span::from_ms(10),
        time_based: true,
        engine_choice: EngineChoice { engine: Some(String::from("io_uring")), ..EngineChoice::default() },
        ..Job::named("randread-qd32")
    };
    assert_eq!(job, expected);
}
