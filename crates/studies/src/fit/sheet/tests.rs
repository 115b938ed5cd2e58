//! Tests of drives from data sheets.

use super::quantiles::LatencyByQuantile;
use super::{DataSheet, solve};
use phaselink_core::simulation::simulate;

const SHEET: &str = r#"
name = "made"
capacity_gb = 960
pcie_generation = 4
sequential_read_mb_per_s = 6500
sequential_write_mb_per_s = 1500
random_read_iops = 580_000
random_write_iops = 71_000
[idle]
reads_per_s = 5_050
writes_per_s = 9_950
read_us = { p10 = 61, p25 = 62, p50 = 64, p75 = 73, p90 = 99, p95 = 119, p99 = 237, "p99.9" = 394, "p99.99" = 526, "p99.999" = 904 }
write_us = { p50 = 11, p99 = 14, "p99.9" = 17, "p99.99" = 19 }
"#;

#[test]
fn latency_between_percentiles_is_interpolated_over_the_log_rest() {
    let quantiles = LatencyByQuantile::new(vec![(0.9, 100.0), (0.99, 200.0)]);
    assert_eq!(quantiles.at(0.9), Some(100.0));
    let middle = quantiles.at(1.0 - 0.1 * 0.1_f64.sqrt()).unwrap();
    assert!((middle - 150.0).abs() < 1e-9, "{middle}");
    assert_eq!((quantiles.at(0.5), quantiles.at(0.999)), (None, None));
    assert_eq!((quantiles.near(0.5), quantiles.near(0.999)), (100.0, 200.0));
}

#[test]
fn wrong_data_sheets_are_refused_with_all_problems() {
    let changed =
        |from: &str, to: &str| DataSheet::parse("sheet.toml", &SHEET.replace(from, to)).unwrap_err().to_string();
    assert!(changed("p10 = 61", "p10 = 65").contains("rising"));
    assert!(changed("p10 = 61", "ten = 61").contains("idle.read_us has `ten`"));
    assert!(changed("p50 = 11, ", "").contains("idle.write_us has no p50"));
    assert!(changed("random_write_iops = 71_000", "random_write_iops = 11_000").contains("nearly idle"));
    assert!(changed("capacity_gb = 960", "capacity_gb = 960\nchannels = 5").contains("a divisor of the 16 dies"));
    assert!(changed("capacity_gb = 960", "capacity_gb = 960\ndie_gib = 0").contains("die_gib is 0"));
    assert!(changed("name = \"made\"", "nam = \"made\"").contains("sheet.toml:2"));
}

#[test]
fn drive_of_a_data_sheet_has_its_rates_and_idle_latencies() {
    let sheet = DataSheet::parse("sheet.toml", SHEET).unwrap();
    let answer = solve(&sheet, &|drive, jobs| simulate(drive, jobs, 1)).unwrap();
    for it in answer.idle.iter().filter(|it| it.direction == "read" && it.percentile < 99.995) {
        let off = it.simulated_us / it.measured_us - 1.0;
        assert!(off.abs() < 0.15, "p{}: {:.0} us, not {:.0} us", it.percentile, it.simulated_us, it.measured_us);
    }
    assert!(answer.drive_file.contains("[[assumed]]\nkey = \"media.channels\""), "{}", answer.drive_file);
    let medians: Vec<f64> = answer.predicted.iter().map(|load| load.read_us[0]).collect();
    assert!(medians.windows(2).all(|pair| pair[0] < pair[1]), "{medians:?}");
}
