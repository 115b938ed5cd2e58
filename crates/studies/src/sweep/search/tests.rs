//! Tests that a search finds the answer that running every point finds, with fewer runs.

use super::*;
use proptest::prelude::*;

/// Returns a candidate of a search with these speeds of its parts.
fn candidate(point: usize, cost: f64, speeds: &[f64]) -> SearchCandidate {
    SearchCandidate { point, cost, speeds: speeds.iter().copied().map(Speed::Known).collect() }
}

/// Runs a search and returns the point that it finds, and the number of points that it has run.
fn search(candidates: &[SearchCandidate], meets: impl Fn(usize) -> bool, is_clear: bool) -> (Option<usize>, usize) {
    let mut search = Search::new(candidates.to_vec());
    loop {
        let wave = search.wave();
        if wave.is_empty() {
            return (search.best().map(|best| best.point), search.ran().count());
        }
        wave.into_iter().for_each(|point| search.settle(point, meets(point), is_clear));
    }
}

/// Returns candidates for all combinations of three keys with eight values each; every step of a key has a price.
fn grid() -> Vec<SearchCandidate> {
    let points = (0..512).map(|point| (point, [1 + point / 64, 1 + point / 8 % 8, 1 + point % 8].map(|it| it as f64)));
    points.map(|(point, [a, b, c])| candidate(point, 3.0 * a + 2.0 * b + c, &[a, b, c])).collect()
}

#[test]
fn search_finds_the_cheapest_point_with_a_tenth_of_the_runs() {
    let grid = grid();
    let speed = |point: usize| 1 + point / 64 + 2 * (point / 8 % 8) + 3 * (point % 8);
    let meets = |point| speed(point) >= 25;
    let cheapest =
        grid.iter().filter(|it| meets(it.point)).min_by(|a, b| a.cost.total_cmp(&b.cost).then(a.point.cmp(&b.point)));
    let (found, runs) = search(&grid, meets, true);
    assert_eq!(found, cheapest.map(|it| it.point));
    assert!(runs <= 51, "{runs} runs");
}

#[test]
fn unreachable_target_is_recognised_after_few_runs() {
    let (found, runs) = search(&grid(), |_| false, true);
    assert_eq!(found, None);
    assert!(runs <= 51, "{runs} runs");
}

#[test]
fn values_of_unknown_speed_rule_out_no_candidate() {
    let other =
        |point, kind| SearchCandidate { point, cost: 1.0, speeds: vec![Speed::Unknown(kind), Speed::Known(1.0)] };
    assert!(!other(0, 0).is_no_faster_in_any_part(&other(1, 1)) && other(0, 0).is_no_faster_in_any_part(&other(1, 0)));
}

proptest! {
    #[test]
    fn search_result_equals_that_of_running_all_points(
        parts in prop::collection::vec((0u8..5, 0u8..5, 0u8..9), 1..60),
        needed in 0u32..10,
        is_clear in any::<bool>(),
    ) {
        let candidates: Vec<SearchCandidate> = parts.iter().enumerate()
            .map(|(point, (a, b, cost))| candidate(point, f64::from(*cost), &[f64::from(*a), f64::from(*b)])).collect();
        // A drive with faster parts is faster as a whole.
        let meets = |point: usize| u32::from(parts[point].0) + u32::from(parts[point].1) >= needed;
        let by_cost = |a: &&SearchCandidate, b: &&SearchCandidate| a.cost.total_cmp(&b.cost).then(a.point.cmp(&b.point));
        let cheapest = candidates.iter().filter(|it| meets(it.point)).min_by(by_cost).map(|it| it.point);
        prop_assert_eq!(search(&candidates, meets, is_clear).0, cheapest);
    }
}
