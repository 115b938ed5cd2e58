//! Table of tails: percentiles of latency from p99 on, with their confidence intervals.

use super::Table;
use super::units;
use crate::tails::Tail;

/// Returns the table of a run's tails: each percentile with the ends of its interval and the number of independent
/// requests that would know it as well. An unknown percentile has the number of requests that it needs.
pub fn tail_table(tails: &[Tail]) -> Table {
    let mut table =
        Table::new().left("tail").right("latency").right("95 % from").right("to").left("independent requests");
    tails.iter().for_each(|tail| table.row(tail_row_cells(tail)));
    table
}

/// Returns the cells of a row: the percentile, its value with both ends of the interval, and the evidence for it.
fn tail_row_cells(tail: &Tail) -> [String; 5] {
    let name = String::from(tail.figure.heading);
    match tail.estimate {
        Ok(known) => {
            let [value, low, high] = [known.value, known.low, known.high].map(units::span);
            [name, value, low, high, units::count(known.effective)]
        }
        Err(_) => [name, "-".into(), "-".into(), "-".into(), tail.need().unwrap_or_default()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tails::tails;
    use expect_test::expect;

    #[test]
    fn tails_with_too_few_requests_show_a_dash_and_the_required_number() {
        let table = tail_table(&tails(&crate::tests::sample::outcome()));
        expect![[r#"
            tail          latency  95 % from       to  independent requests
            ─────────────────────────────────────────────────────────────────────────────────────────────────────────────
            read p99      5.99 us    5.98 us  6.00 us  1.00 k
            read p99.9          -          -        -  needs 10.0 k requests, or 10.0 ms of simulated time; 1,000 counted
            read p99.99         -          -        -  needs 100 k requests, or 100 ms of simulated time; 1,000 counted
            write p99           -          -        -  needs 1.00 k requests, or 100 ms of simulated time; 10 counted
            write p99.9         -          -        -  needs 10.0 k requests, or 1.00 s of simulated time; 10 counted
            write p99.99        -          -        -  needs 100 k requests, or 10.0 s of simulated time; 10 counted
        "#]].assert_eq(&table.to_string());
    }
}
