//! Tails of a run: percentiles of latency from p99 on, each with its confidence interval or with the number of requests
//! that it needs.

use crate::results::documents::{ByName, TailResult};
use crate::results::{Figure, TailEstimate, tail_estimates, tail_estimates_of, units};
use phaselink_core::ledger::{Latency, Outcome, PercentileEstimate, TooFewRequests};
use phaselink_core::number::real;
use phaselink_core::time::Span;

/// Percentile of latency of a run, or the reason why the run has too few requests for it.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    /// Figure of the registry that the percentile is.
    pub figure: &'static Figure,
    /// Percentile with its interval, or the number of requests that it needs.
    pub estimate: Result<PercentileEstimate, TooFewRequests>,
    /// Simulated time in seconds after which a run at this rate has the requests that the percentile needs.
    needed_s: Option<f64>,
}

impl Tail {
    fn new((figure, estimate): TailEstimate, elapsed: Span) -> Tail {
        let scaled = |few: TooFewRequests| elapsed.as_s() * real(few.needed) / real(few.counted.max(1));
        Tail { figure, estimate, needed_s: estimate.err().map(scaled).filter(|s| *s > 0.0) }
    }

    /// Returns the half width of the interval as a share of the value; `None` for an unknown percentile.
    pub fn share(&self) -> Option<f64> {
        let known = self.estimate.ok()?;
        let width = known.high.saturating_sub(known.low).as_ns();
        Some(if width == 0.0 { 0.0 } else { width / 2.0 / known.value.as_ns() })
    }

    /// Returns the number of requests that an unknown percentile needs, as part of a sentence.
    pub fn need(&self) -> Option<String> {
        let few = self.estimate.err()?;
        let time =
            self.needed_s.map_or(String::new(), |s| format!(", or {} of simulated time", units::quantity(s, "s")));
        Some(format!(
            "needs {} requests{time}; {} counted",
            units::count(real(few.needed)),
            units::grouped(few.counted)
        ))
    }

    /// True if any request of the kind was counted.
    fn has_counted_requests(&self) -> bool {
        self.estimate.map_or_else(|few| few.counted > 0, |_| true)
    }

    /// Returns the percentile for documents.
    pub fn result(&self) -> TailResult {
        let known = self.estimate.ok();
        TailResult {
            value_ns: known.map(|known| known.value.as_ns()),
            low_ns: known.map(|known| known.low.as_ns()),
            high_ns: known.map(|known| known.high.as_ns()),
            effective_ios: known.map(|known| known.effective.round()),
            needed_ios: self.estimate.err().map(|few| few.needed),
            needed_s: self.needed_s,
            why_unknown: self.need(),
        }
    }
}

fn all_tails(outcome: &Outcome) -> Vec<Tail> {
    tail_estimates(outcome).into_iter().map(|known| Tail::new(known, outcome.elapsed)).collect()
}

/// Returns the tails of a run: those of reads and of writes, and of commits, flushes and queries, if there are any. If
/// all requests are of one kind, figures of both kinds together stand for it.
pub fn tails(outcome: &Outcome) -> Vec<Tail> {
    let all = all_tails(outcome);
    let has = |prefix: &str| all.iter().any(|tail| tail.figure.name.starts_with(prefix) && tail.has_counted_requests());
    let is_mixed = has("read_") && has("write_");
    let is_shown = |tail: &Tail| match tail.figure.name.starts_with('p') {
        true => !is_mixed && tail.has_counted_requests(),
        false if tail.figure.name.starts_with("read_") || tail.figure.name.starts_with("write_") => is_mixed,
        false => tail.has_counted_requests(),
    };
    all.iter().copied().filter(is_shown).collect()
}

/// Returns the estimate of one tail of a run; `None` for a figure that is no tail.
pub fn tail_of(figure: &Figure, outcome: &Outcome) -> Option<Tail> {
    all_tails(outcome).into_iter().find(|tail| tail.figure.name == figure.name)
}

/// Returns the number of independent requests beyond the percentile of `figure`, if requests there are correlated as
/// strongly as at any lower percentile from p99 on; 0 if one of these is unknown.
///
/// Rare stalls hit many requests at once. A run that has seen none of them takes the requests beyond p99.99 for
/// independent ones. Lower percentiles have many more requests beyond them, which tell earlier that requests stall
/// together.
pub fn independent_requests_beyond(figure: &Figure, outcome: &Outcome) -> f64 {
    let Some((of, percentile)) = figure.tail() else { return 0.0 };
    let is_lower = |tail: &Tail| {
        tail.figure.tail().is_some_and(|(other, lower)| other == of && lower.percent <= percentile.percent)
    };
    let effective = |tail: Tail| tail.estimate.map_or(0.0, |known| known.effective);
    let least = all_tails(outcome).into_iter().filter(is_lower).map(effective).fold(f64::INFINITY, f64::min);
    least * (1.0 - percentile.percent / 100.0)
}

/// Returns the tails of latencies that were counted in the time `elapsed`, for documents.
pub fn tail_document(latency: &Latency, elapsed: Span) -> ByName<TailResult> {
    let all = tail_estimates_of(latency).map(|known| Tail::new(known, elapsed));
    ByName(all.map(|tail| (String::from(tail.figure.name), tail.result())).collect())
}

/// Returns all tails of a run for documents, by name of the figure.
pub fn document(outcome: &Outcome) -> ByName<TailResult> {
    let all = all_tails(outcome).into_iter().filter(Tail::has_counted_requests);
    ByName(all.map(|tail| (String::from(tail.figure.name), tail.result())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use phaselink_core::time::Time;

    /// Returns an outcome with 20,000 reads and 5,000 writes of 10 us to 20 us.
    fn outcome() -> Outcome {
        let mut outcome = crate::tests::sample::outcome();
        let recorded = |count: u64| {
            let mut latency = Latency::default();
            let at = |n: u64| (Span::from_ps(10_000_000 + n * 7_919 % 10_000_000), Time::from_ps(n * 10_000_000));
            (0..count).map(at).for_each(|(span, end)| latency.record_at(span, end));
            latency
        };
        outcome.jobs.truncate(1);
        let job = &mut outcome.jobs[0];
        (job.read.total, job.write.total) = (recorded(20_000), recorded(5_000));
        outcome
    }

    #[test]
    fn supported_tails_have_intervals_and_others_the_required_requests() {
        let outcome = outcome();
        let tails = tails(&outcome);
        let named = |name: &str| tails.iter().find(|tail| tail.figure.name == name).expect("a tail");
        let known = named("read_p99_9_ns").estimate.expect("20 reads lie beyond");
        assert!(known.low < known.value && known.value <= known.high, "{known:?}");
        let few = named("read_p99_99_ns");
        assert_eq!((few.share(), few.estimate.err().map(|few| few.needed)), (None, Some(100_000)));
        assert!(few.need().is_some_and(|text| text.starts_with("needs 100 k requests")), "{:?}", few.need());
        assert!(tails.iter().all(|tail| tail.figure.name != "p99_ns"), "reads and writes stand apart");
    }

    #[test]
    fn unknown_tail_is_null_with_its_reason_in_json() {
        let document = serde_json::to_value(document(&outcome())).expect("JSON");
        assert!(document["read_p99_99_ns"]["value_ns"].is_null());
        assert!(document["read_p99_99_ns"]["why_unknown"].is_string());
        assert!(document["read_p99_ns"]["why_unknown"].is_null());
        let needed = document["write_p99_9_ns"]["needed_ios"].as_u64();
        assert!(needed.is_some_and(|ios| (10_000..30_000).contains(&ios)), "{needed:?}");
        assert!(document["flush_p99_ns"].is_null());
    }
}
