//! DC Express in shared memory beside what two threads can do at all, in one run.
//!
//! The bare exchange is a request line, data copied from a 64 MiB store into the client's lines, and the client reading
//! it once its last word has changed: no ring, no tags, no checks. At depth, request lines form a ring, and both sides
//! fetch ahead and copy as the served drive does. Both sides spin, each on a processor of its own. The lines of a table
//! are measured in turn, [`ROUNDS`] times, and each shows its best round: what else runs on the machine only ever adds.

#[allow(dead_code)]
mod common;

use std::io;

use common::*;
use phaselink_serve::device::store::Store;
use phaselink_serve::device::tally::Tally;

/// Both sides' best rounds, and the median of ratios between rounds that follow each other: the best of one side may come
/// from a quicker phase than that of the other.
fn timing_off(store: &Store, bytes: usize) -> io::Result<()> {
    let (mut base, mut one, mut ratios, mut base_iops, mut iops) =
        (Vec::new(), Vec::new(), Vec::new(), 0.0_f64, 0.0_f64);
    for _ in 0..ROUNDS {
        let (bare, served_one) = (bare(store, bytes)?, served(false, |queue| alone(queue, bytes))?.0);
        ratios.push(served_one.percentile_ns(50.0) / bare.percentile_ns(50.0));
        base.push(bare);
        one.push(served_one);
        base_iops = base_iops.max(bare_deep(store, bytes)?);
        iops = iops.max(served(false, |queue| deep(queue, bytes))?.0);
    }
    ratios.sort_by(f64::total_cmp);
    let (base, one, middle) = (best(base), best(one), ratios[ROUNDS / 2]);
    line(bytes, "bare exchange QD1", &base, "");
    line(bytes, "shared memory QD1", &one, &format!("{middle:.2}x the bare exchange, in the median round"));
    deep_line(bytes, "bare exchange QD32", base_iops, "");
    deep_line(bytes, "shared memory QD32", iops, &format!("{:.2}x the bare exchange", iops / base_iops));
    Ok(())
}

/// A round with the model, beside what the model says of the same requests. It differs between rounds: when the endpoint
/// polls next depends on when commands have come before.
struct Timed {
    measured: Measured,
    model_ns: f64,
    lag_ns: [f64; 3],
}

impl Timed {
    fn run(bytes: usize) -> io::Result<Timed> {
        let (measured, summary) = served(true, |queue| alone(queue, bytes))?;
        let Tally { read, lag, .. } = summary.tally;
        let lag_ns = [50.0, 99.0, 99.9].map(|percent| lag.percentile(percent).as_ns());
        Ok(Timed { measured, model_ns: read.latency.percentile(50.0).as_ns(), lag_ns })
    }

    fn ratio(&self) -> f64 {
        self.measured.percentile_ns(50.0) / self.model_ns
    }
}

/// The round nearest to the model, and how near half of them are.
fn timing_on() -> io::Result<()> {
    const SIZES: [usize; 2] = [512, 4096];
    let mut rounds = SIZES.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (bytes, rounds) in SIZES.into_iter().zip(&mut rounds) {
            rounds.push(Timed::run(bytes)?);
        }
    }
    for (bytes, mut rounds) in SIZES.into_iter().zip(rounds) {
        rounds.sort_by(|one, other| one.ratio().total_cmp(&other.ratio()));
        let (best, middle) = (&rounds[0], rounds[rounds.len() / 2].ratio());
        let (ratio, model_ns, [median, high, tail]) = (best.ratio(), best.model_ns, best.lag_ns);
        let lag = format!("lag p50 {median:.0} p99 {high:.0} p99.9 {tail:.0} ns");
        let note = format!("{ratio:.3}x the model's {model_ns:.0} ns (median round {middle:.3}x), {lag}");
        line(bytes, "timing on QD1", &best.measured, &note);
    }
    Ok(())
}

fn main() -> io::Result<()> {
    pin(PROCESSORS[1]);
    let store = store()?;
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wants = |word: &str| wanted.is_empty() || wanted.iter().any(|one| one == word);
    for bytes in [512, 4096].into_iter().filter(|_| wants("off")) {
        timing_off(&store, bytes)?;
    }
    if wants("on") { timing_on() } else { Ok(()) }
}
