//! Pages that `--report` writes: each one file that needs nothing else, beside the document that the command prints.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::{Ran, directory, program};

const PLAN: &str = "drive = \"dc-express\"\njob = { number_ios = 200 }\nseed = [1, 2]\n[[axis]]\nkey = \"job.bs\"\n\
                    values = [\"512\", \"4k\", \"64k\"]\n[[axis]]\nkey = \"link.lanes\"\nvalues = [4, 8]\n";

/// Commands, and headings of their pages.
const PAGES: [(&str, &[&str]); 5] = [
    (
        "run nvme --number-ios 2000 --iodepth 4 --rw randrw",
        &["Requests", "Latency", "In time", "Where the time of a request goes", "The packets of one request", "Link"],
    ),
    ("run cxl --number-ios 100 --bs 512", &["Requests", "The packets of one request"]),
    (
        "compare nvme dc-express --ios 200 --bs 512,4k,64k --iodepth 1",
        &["What stands out", "Where the time of a request goes", "Over block size", "Percentiles", "All figures"],
    ),
    ("sweep plan.toml", &["Curves", "All rows"]),
    (
        "dma --size 8,64,512 --transfers 200 --op both",
        &["Over size", "Percentiles of transfers one at a time", "All figures"],
    ),
];

fn phaselink(here: &Path, arguments: &str) -> Ran {
    program().current_dir(here).args(arguments.split_whitespace()).output().unwrap().into()
}

fn page_headings(page: &str) -> Vec<&str> {
    page.split("<h2>").skip(1).filter_map(|rest| rest.split_once("</h2>").map(|(title, _)| title)).collect()
}

/// The first tag that closes another than the last one that is open, or one that stays open.
fn first_unbalanced_tag(page: &str) -> Option<String> {
    let mut open = Vec::new();
    for tag in page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or_default()) {
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
        if tag.starts_with('/') {
            if open.pop() != Some(name) {
                return Some(format!("</{name}>"));
            }
        } else if !tag.ends_with('/') && !["meta", "!DOCTYPE"].contains(&name) {
            open.push(name);
        }
    }
    open.pop().map(String::from)
}

#[test]
fn report_pages_are_self_contained_and_match_the_printed_text() {
    let here = directory("reports");
    fs::write(here.join("plan.toml"), PLAN).unwrap();
    for (command, wanted) in PAGES {
        let json = phaselink(&here, &format!("{command} --json"));
        let ran = phaselink(&here, &format!("{command} --report out"));
        assert_eq!((json.code, ran.code), (Some(0), Some(0)), "phaselink {command}: {}", ran.stderr);
        assert!(fs::read_to_string(here.join("out/result.json")).unwrap() == json.stdout, "phaselink {command}");
        let page = fs::read_to_string(here.join("out/index.html")).unwrap();
        let missing: BTreeSet<&str> =
            wanted.iter().copied().filter(|title| !page_headings(&page).contains(title)).collect();
        assert!(missing.is_empty(), "phaselink {command}: no {missing:?} in {:?}", page_headings(&page));
        assert_eq!(first_unbalanced_tag(&page), None, "phaselink {command}");
        for forbidden in
            ["http:", "https:", "<script", "<link", "<img", "@import", "url(", "src=", "NaN", "inf\"", "inf,"]
        {
            assert!(!page.contains(forbidden), "phaselink {command}: {forbidden}");
        }
    }
}

#[test]
fn report_pages_start_with_a_conclusion_and_end_with_provenance() {
    let here = directory("reports-conclusion");
    fs::write(here.join("plan.toml"), PLAN).unwrap();
    for (command, wanted) in [
        ("run nvme --number-ios 500 --iodepth 32", "is limited by its"),
        ("compare nvme dc-express --ios 200 --bs 512 --iodepth 1", "has the lowest latency"),
        ("sweep plan.toml", "changes IOPS most"),
        ("reproduce moneta-talk-2011", "predictions are reproduced"),
        ("validate BDV", "measurements are answered"),
    ] {
        let made = || {
            let mut ran = program();
            ran.current_dir(&here).env("SOURCE_DATE_EPOCH", "86400").args(command.split_whitespace());
            ran.args(["--report", "out"]).output().unwrap();
            fs::read_to_string(here.join("out/index.html")).unwrap()
        };
        let page = made();
        let (_, rest) = page.split_once("</h1>").unwrap();
        let (first, _) = rest.split_once("<h2>").unwrap();
        let (_, conclusion) = first.split_once("class=\"conclusion\"").unwrap_or_else(|| panic!("{command}: {first}"));
        assert!(conclusion.replace('\u{a0}', " ").contains(wanted), "{command}: {conclusion}");
        let system = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
        let foot = format!(" on {system}, 1970-01-02, by phaselink {command} --report out</p>");
        assert!(text_without_markup(&page).contains(&foot), "{command}: {}", &page[page.len() - 400..]);
        assert_eq!(made(), page, "{command}");
    }
}

#[test]
fn page_footer_names_day_and_processors_but_not_the_host() {
    let here = directory("reports-foot");
    assert_eq!(phaselink(&here, "run nvme --number-ios 100 --report out").code, Some(0));
    let page = fs::read_to_string(here.join("out/index.html")).unwrap();
    let (_, foot) = page.split_once("<p class=\"quiet foot\">").unwrap();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if let Some(kind) = cpuinfo.lines().find_map(|line| line.strip_prefix("model name\t: ")) {
        assert!(foot.contains(&format!(" x {}", kind.trim())), "{foot}");
    }
    let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    assert!(machine.trim().len() < 5 || !foot.contains(machine.trim()), "{foot}");
    assert!(foot.contains(", 20"), "{foot}");
}

/// A page for a reader who sees neither spans nor code.
fn text_without_markup(page: &str) -> String {
    ["<span>", "</span>", "<code>", "</code>"].iter().fold(String::from(page), |page, mark| page.replace(mark, ""))
}

#[test]
fn reproduction_report_has_verdicts_in_all_rows_and_published_values() {
    let here = directory("reports-verdicts");
    let ran = phaselink(&here, "reproduce moneta-talk-2011 --report out");
    assert!([Some(0), Some(1)].contains(&ran.code), "{}", ran.stderr);
    let page = fs::read_to_string(here.join("out/index.html")).unwrap();
    let document: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(here.join("out/result.json")).unwrap()).unwrap();
    assert!(page.contains("<h1>Published and simulated: moneta-talk-2011</h1>"));
    let (_, table) = page.split_once("all rows, with verdicts</h2>").unwrap();
    assert!(table.contains("<tr><th>id</th><th>verdict</th>"), "the first two columns are never cut off");
    let rows = document["rows"].as_array().unwrap();
    assert!(rows.len() > 5);
    for row in rows {
        let (id, verdict) = (row["id"].as_str().unwrap(), row["verdict"].as_str().unwrap());
        let (_, cells) = table.split_once(&format!("<tr><td>{id}</td>")).unwrap_or_else(|| panic!("{id}"));
        let (cell, _) = cells.split_once("</td>").unwrap();
        assert!(cell.ends_with(&format!(">{verdict}")), "{id}: {cell}");
    }
    for drawn in ["class=\"mark", "class=\"allowed\"", "class=\"published\""] {
        assert!(page.contains(drawn), "{drawn}");
    }
}

#[test]
fn plots_of_a_sweep_column_share_one_scale() {
    let here = directory("reports-scales");
    let plan = "drive = \"dc-express\"\njob = { number_ios = 200 }\n[[axis]]\nkey = \"link.lanes\"\nvalues = [1, 8]\n\
                [[axis]]\nkey = \"media.read_ns\"\nvalues = [50, 100, 200, 400, 800]\n\
                [[axis]]\nkey = \"job.bs\"\nvalues = [\"512\", \"1k\", \"2k\", \"4k\", \"8k\", \"16k\"]\n";
    fs::write(here.join("plan.toml"), plan).unwrap();
    let ran = phaselink(&here, "sweep plan.toml --columns mean_ns,iops --report out");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let page = fs::read_to_string(here.join("out/index.html")).unwrap();
    let drawings: Vec<&str> = page.split("<svg ").skip(1).collect();
    let labels = |drawing: &str| -> Vec<String> {
        let ends = drawing.split("text-anchor=\"end\">").skip(1);
        ends.filter_map(|rest| rest.split_once('<').map(|(label, _)| String::from(label))).collect()
    };
    assert_eq!(drawings.len(), 4, "two columns, each for two numbers of lanes");
    for column in ["mean over", "IOPS over"] {
        let of_column: Vec<Vec<String>> =
            drawings.iter().filter(|drawing| drawing.contains(column)).map(|drawing| labels(drawing)).collect();
        assert!(of_column.len() == 2 && of_column[0].len() > 2 && of_column[0] == of_column[1], "{of_column:?}");
    }
    assert!(page.contains("link.lanes = 1") && page.contains("link.lanes = 8"));
}

#[test]
fn each_drawing_has_a_linked_svg_and_csv_file() {
    let here = directory("reports-files");
    fs::write(here.join("plan.toml"), PLAN).unwrap();
    for command in ["run nvme --number-ios 500", "compare nvme dc-express --ios 200 --bs 512", "sweep plan.toml"] {
        let out = command.split(' ').next().unwrap();
        assert_eq!(phaselink(&here, &format!("{command} --report {out}")).code, Some(0));
        let page = fs::read_to_string(here.join(out).join("index.html")).unwrap();
        let links: Vec<&str> =
            page.split("<a href=\"").skip(1).filter_map(|rest| rest.split_once('"').map(|(file, _)| file)).collect();
        assert_eq!(links.len(), 2 * page.matches("<svg").count(), "{command}");
        for file in links {
            let text = fs::read_to_string(here.join(out).join(file)).unwrap();
            // If a figure is unknown everywhere, its file has only a header line.
            assert!(text.contains(',') && (file.ends_with(".csv") || text.starts_with("<svg ")), "{file}: {text}");
        }
    }
}

#[test]
fn sweep_curve_is_a_combination_of_the_other_axes() {
    let here = directory("reports-curves");
    fs::write(here.join("plan.toml"), PLAN).unwrap();
    let ran = phaselink(&here, "sweep plan.toml --columns bytes_per_s --report out");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let page = fs::read_to_string(here.join("out/index.html")).unwrap();
    assert_eq!(page.matches("<polyline").count(), 2);
    assert_eq!(page.matches("class=\"band\"").count(), 2, "two seeds are a range");
    assert!(page.contains("</i>link.lanes = 4") && page.contains("aria-label=\"bandwidth over job.bs\""));
}
