//! `phaselink torture`, and drives with faults, as users meet them.

use crate::common::{phaselink, printed};

#[test]
fn torture_tries_seeds_and_reports_coverage() {
    let text = printed("torture --seeds 25");
    assert!(text.starts_with("25 seeds in ") && text.contains(" requests, 0 failures\n"), "{text}");
    for row in ["nothing happens", "drop-completion", "stuck-bank", "retrain"] {
        assert!(text.contains(&format!("\n{row} ")), "{row}: {text}");
    }
    assert!(text.contains(" pairs of a packet and a fault\n"), "{text}");
}

#[test]
fn torture_seed_is_one_case_wherever_it_runs() {
    let of_one = |arguments: &str| {
        let text = printed(arguments);
        let (first, table) = text.split_once(" requests, ").expect("requests are counted");
        (first.rsplit(' ').next().map(String::from), String::from(table))
    };
    assert_eq!(of_one("torture --seed 7"), of_one("torture --seeds 1 --seed 7"));
    assert!(printed("torture --seed 7").starts_with("1 seeds in "));
}

#[test]
fn time_limit_ends_an_endless_torture() {
    let begun = std::time::Instant::now();
    assert!(printed("torture --seconds 1").contains(", 0 failures\n"));
    assert!(begun.elapsed() < std::time::Duration::from_secs(60));
}

#[test]
fn contradictory_torture_options_are_refused() {
    for arguments in ["torture --seeds 0", "torture --seconds 0", "torture --seed -1", "torture nvme"] {
        assert_eq!(phaselink(arguments).code, Some(2), "{arguments}");
    }
}

#[test]
fn drive_with_faults_is_explained_and_served_with_them() {
    let text = printed("check nvme --set faults=[{action=\"delay\",delay_us=5,every=3},{action=\"error\"}]");
    assert!(text.contains("      fault 1, delay: every 3, delay_us 5 us\n"), "{text}");
    assert!(text.contains("      fault 2, error: every match\n"), "{text}");
    let slow = r#"faults=[{action="error"},{action="slow-bank",factor=2}]"#;
    let served = phaselink(&format!("serve nvme --nbd nbd+unix:///?socket=never.sock --timing off --set {slow}"));
    assert_eq!(served.code, Some(2));
    let told = "nvme: \"slow-bank\": with timing off there are no banks, packets and lanes; allowed: --timing on";
    assert!(served.stderr.contains(told), "{}", served.stderr);
}
