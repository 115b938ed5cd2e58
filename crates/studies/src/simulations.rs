//! Independent simulations of one question, which the caller runs on as many threads as it likes.

use std::sync::OnceLock;

/// Function of the caller that runs a number of simulations: calls its second argument once with each number below the
/// first, in any order and on any threads. A caller that is interrupted leaves calls out.
pub type SimulateEach<'a> = &'a dyn Fn(usize, &(dyn Fn(usize) + Sync));

/// Runs `count` simulations with `each`, and returns their results in order; none if the caller left some out.
pub fn simulated<T: Send + Sync>(
    each: SimulateEach,
    count: usize,
    simulate: impl Fn(usize) -> T + Sync,
) -> Option<Vec<T>> {
    let results: Vec<OnceLock<T>> = (0..count).map(|_| OnceLock::new()).collect();
    each(count, &|place| {
        results[place].get_or_init(|| simulate(place));
    });
    results.into_iter().map(OnceLock::into_inner).collect()
}

#[cfg(test)]
mod tests {
    use super::simulated;

    #[test]
    fn results_keep_their_order_and_skipped_runs_are_absent() {
        let backwards = |count: usize, simulate: &(dyn Fn(usize) + Sync)| (0..count).rev().for_each(simulate);
        assert_eq!(simulated(&backwards, 3, |place| 10 * place), Some(vec![0, 10, 20]));
        let interrupted = |count: usize, simulate: &(dyn Fn(usize) + Sync)| (1..count).for_each(simulate);
        assert_eq!(simulated(&interrupted, 3, |place| place), None);
    }
}
