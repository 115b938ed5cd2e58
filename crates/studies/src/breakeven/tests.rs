use super::*;

fn shipped(name: &str) -> Description {
    Description::shipped(name).unwrap()
}

/// Table II of the paper: largest rates in M operations a second at 512 B and 4 KiB, to the digits that are printed.
#[test]
fn peak_rates_equal_those_of_the_paper() {
    for (name, small, large) in [("slc-cpu", 57.4, 11.1), ("slc-small-cpu", 39.4, 8.5), ("slc-large-cpu", 79.3, 13.8)] {
        for (bytes, printed) in [(512, small), (4096, large)] {
            let found = break_even_time(&shipped(name), bytes).device.iops / 1e6;
            assert!((found - printed).abs() < 0.05, "{name}, {bytes} bytes: {found} of {printed}");
        }
    }
}

/// Table IV: the form leaves out command and transfer of the read itself, by which it is below what is printed.
#[test]
fn tail_times_equal_those_of_the_paper_less_the_read() {
    let printed_us = [(512, [7.0, 9.0, 13.0, 85.0]), (4096, [16.0, 23.0, 44.0, 418.0])];
    for (bytes, tails_us) in printed_us {
        for (utilisation, printed) in [0.7, 0.8, 0.9, 0.99].into_iter().zip(tails_us) {
            let found =
                break_even_time(&Description { utilisation, ..shipped("slc-cpu") }, bytes).tail_ns.unwrap() / 1e3;
            let own_us = 0.15 + f64::from(bytes) / 3600.0;
            assert!((printed - 1.0 - own_us..printed + 0.5).contains(&found), "{bytes} at {utilisation}: {found}");
        }
    }
}

#[test]
fn smaller_and_costlier_blocks_are_kept_longer() {
    let [small, large] = [512, 4096].map(|bytes| break_even_time(&shipped("slc-cpu"), bytes).break_even_s);
    assert!((33.0..37.0).contains(&small) && (10.0..11.5).contains(&large), "{small} {large}");
    let gpu = break_even_time(&shipped("slc-gpu"), 512).break_even_s;
    assert!((4.5..5.5).contains(&gpu), "{gpu}");
    let limited = Description { host: Host { drives: 4, iops: Some(40e6) }, ..shipped("slc-cpu") };
    let found = break_even_time(&limited, 512);
    assert_eq!(found.used_iops, 10e6);
    assert!((80.0..90.0).contains(&found.break_even_s), "{found:?}");
}

#[test]
fn parts_sum_to_equal_cost_of_both_places() {
    let description = shipped("tlc-cpu");
    let found = break_even_time(&description, 16_384);
    let costs = &description.costs;
    let held = found.break_even_s * 16_384.0 * costs.memory_die / costs.memory_die_bytes;
    let accessed = costs.core / costs.core_iops
        + 16_384.0 * costs.memory_die / (costs.memory_bytes_per_ns * 1e9)
        + form::drive_cost(&description) / found.used_iops;
    assert!((held / accessed - 1.0).abs() < 1e-12, "{held} {accessed}");
}

#[test]
fn rated_drive_interpolates_its_given_rates() {
    let text = "[rated]\ncost = 400\niops = [[512, 2e6], [4096, 1e6]]\n[costs]\nmemory_die = 30\nmemory_die_bytes = 8e9\n\
                memory_bytes_per_ns = 5\ncore = 50\ncore_iops = 1e6\n";
    let description = Description::parse("own", text).unwrap();
    let rate = |bytes| break_even_time(&description, bytes).device.iops;
    assert_eq!([256, 512, 4096, 8192].map(|bytes| rate(bytes).round()), [2e6, 2e6, 1e6, 5e5]);
    assert!(rate(1024) < 2e6 && rate(1024) > 1e6);
    assert_eq!(break_even_time(&description, 512).tail_ns, None);
}

#[test]
fn increasing_an_input_scales_the_time_by_its_share() {
    let changes = sensitivity(&shipped("slc-cpu"), 512, 0.1);
    let of = |name: &str| changes.iter().find(|(input, _)| *input == name).map(|(_, change)| *change);
    // The core contributes one part of the time. Drive and memory bandwidth contribute the others.
    let found = break_even_time(&shipped("slc-cpu"), 512);
    assert!((of("costs.core").unwrap() / (0.1 * found.parts_s[0] / found.break_even_s) - 1.0).abs() < 1e-9);
    assert!(of("costs.memory_die_bytes").unwrap() > 0.09);
    assert_eq!(of("rated.cost"), None);
    assert!(changes.windows(2).all(|pair| pair[0].1.abs() >= pair[1].1.abs()), "{changes:?}");
}

#[test]
fn contradictory_descriptions_are_refused() {
    let refused = |text: &str| Description::parse("own.toml", text).unwrap_err().to_string();
    let costs = "[costs]\nmemory_die = 1\nmemory_die_bytes = 1e9\nmemory_bytes_per_ns = 1\ncore = 1\ncore_iops = 1e6\n";
    assert!(refused(costs).contains("neither [cells] nor [rated]"));
    assert!(
        refused(&format!("{costs}[rated]\ncost = -1\niops = [[512, 1e6]]\n"))
            .contains("rated.cost = -1; allowed: a number above 0")
    );
    assert!(
        refused(&format!("{costs}[rated]\ncost = 1\niops = [[4096, 1e6], [512, 1e6]]\n")).contains("by rising size")
    );
    assert!(
        refused("utilisation = 2\nwhat = 1\n").starts_with("own.toml:2: "),
        "{}",
        refused("utilisation = 2\nwhat = 1\n")
    );
    assert!(
        refused(&format!("utilisation = 2\n{costs}[rated]\ncost = 1\niops = [[512, 1e6]]\n")).contains("at most 1")
    );
}

#[test]
fn historic_rules_give_the_printed_times() {
    let seconds = HISTORY.map(|rule| rule.seconds().round());
    assert_eq!(seconds, [400.0, 267.0, 5250.0, 878.0]);
}
