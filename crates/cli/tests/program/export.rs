//! Tables of `phaselink export`, as other programs read them.

use std::fs;
use std::process::Command;

use crate::common::{directory, phaselink, program};
use serde_json::Value;

/// Draws of one condition and one load, and what lies outside, in C.
const READER: &str = r#"
#include <stdio.h>
#include "phaselink_latency.h"

int main(void)
{
    printf("%.3f ", phaselink_latency_ns(1, PHASELINK_WRITE, 4096, 4, 0.99));
    printf("%.3f ", phaselink_latency_at_load_ns(0, PHASELINK_READ, 4096, 50, 0.5));
    printf("%.1f\n", phaselink_largest_iops(0, 4096));
    printf("%g %g %g %g\n", phaselink_latency_ns(0, PHASELINK_WRITE, 4096, 4, 0.5), phaselink_latency_ns(0, PHASELINK_READ, 4097, 4, 0.5),
           phaselink_latency_at_load_ns(0, PHASELINK_READ, 4096, 95, 0.5), phaselink_latency_ns(2, PHASELINK_READ, 4096, 4, 0.5));
    return 0;
}
"#;

#[test]
fn c_program_reads_exported_quantiles_within_their_range() {
    let here = directory("export");
    let words = "export nvme --bs 4k --iodepth 1,4 --rwmixread 100,70 --ios 1000 --json --out table";
    // Export twice, because the second run must be able to replace the first run's tables.
    for _ in 0..2 {
        let ran = program().args(words.split(' ')).current_dir(&here).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
    let document: Value = serde_json::from_str(&fs::read_to_string(here.join("table/latency.json")).unwrap()).unwrap();
    fs::write(here.join("reader.c"), READER).unwrap();
    let flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Itable", "-o", "reader", "reader.c"];
    assert!(Command::new("cc").args(flags).current_dir(&here).status().unwrap().success());
    let read = Command::new(here.join("reader")).output().unwrap();
    let place = |percent: f64| document["percents"].as_array().unwrap().iter().position(|at| *at == percent).unwrap();
    let write_ns = document["conditions"][3]["writes"]["ns"][place(99.0)].as_f64().unwrap();
    let read_ns = document["loads"][2]["reads"]["ns"][place(50.0)].as_f64().unwrap();
    let iops = [0, 1].map(|at| document["conditions"][at]["iops"].as_f64().unwrap()).into_iter().fold(0.0, f64::max);
    let expected = format!("{write_ns:.3} {read_ns:.3} {iops:.1}\n-1 -1 -1 -1\n");
    assert_eq!(String::from_utf8_lossy(&read.stdout), expected);
}

#[test]
fn export_keeps_foreign_files_and_refuses_wrong_conditions() {
    let here = directory("export-kept");
    fs::write(here.join("latency.csv"), "my own numbers\n").unwrap();
    let ran = program().args(["export", "nvme", "--out", "."]).current_dir(&here).output().unwrap();
    let problem = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.code() == Some(2) && problem.contains("a file that is no exported table"), "{problem}");
    assert_eq!(fs::read_to_string(here.join("latency.csv")).unwrap(), "my own numbers\n");
    let ran = phaselink("export nvme --rwmixread 101 --ios 5 --iodepth 0");
    assert_eq!(ran.code, Some(2));
    for part in ["--rwmixread 101", "--ios 5"] {
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
}
