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

fn headings(page: &str) -> Vec<&str> {
    page.split("<h2>").skip(1).filter_map(|rest| rest.split_once("</h2>").map(|(title, _)| title)).collect()
}

/// The first tag that closes another than the last one that is open, or one that stays open.
fn unbalanced(page: &str) -> Option<String> {
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
fn every_page_is_whole_needs_nothing_and_stands_beside_what_the_command_prints() {
    let here = directory("reports");
    fs::write(here.join("plan.toml"), PLAN).unwrap();
    for (command, wanted) in PAGES {
        let json = phaselink(&here, &format!("{command} --json"));
        let ran = phaselink(&here, &format!("{command} --report out"));
        assert_eq!((json.code, ran.code), (Some(0), Some(0)), "phaselink {command}: {}", ran.stderr);
        assert!(fs::read_to_string(here.join("out/result.json")).unwrap() == json.stdout, "phaselink {command}");
        let page = fs::read_to_string(here.join("out/index.html")).unwrap();
        let missing: BTreeSet<&str> = wanted.iter().copied().filter(|title| !headings(&page).contains(title)).collect();
        assert!(missing.is_empty(), "phaselink {command}: no {missing:?} in {:?}", headings(&page));
        assert_eq!(unbalanced(&page), None, "phaselink {command}");
        for forbidden in
            ["http:", "https:", "<script", "<link", "<img", "@import", "url(", "src=", "NaN", "inf\"", "inf,"]
        {
            assert!(!page.contains(forbidden), "phaselink {command}: {forbidden}");
        }
    }
}

#[test]
fn a_curve_of_a_sweep_is_a_combination_of_what_does_not_vary_along_it() {
    let here = directory("reports-curves");
    fs::write(here.join("plan.toml"), PLAN).unwrap();
    let ran = phaselink(&here, "sweep plan.toml --columns bytes_per_s --report out");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let page = fs::read_to_string(here.join("out/index.html")).unwrap();
    assert_eq!(page.matches("<polyline").count(), 2);
    assert_eq!(page.matches("class=\"band\"").count(), 2, "two seeds are a range");
    assert!(page.contains("</i>link.lanes = 4") && page.contains("aria-label=\"bandwidth over job.bs\""));
}
