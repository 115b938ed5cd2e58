//! Speed of reads and writes of written blocks behind one front-end, beside bare copies of the same bytes in the same run.

use std::io;

use phaselink_core::request::Op;
use phaselink_serve::device::store::Store;

use super::bare::{self, WAYS, Way};
use super::{DEPTH, Transfer, median};

/// Lengths of the transfers in bytes.
const LENGTHS: [usize; 3] = [512, 4096, 128 << 10];

/// Latency of lone requests in nanoseconds, and requests a second at depth.
pub(crate) type Pair = (f64, f64);

/// Measurements of one kind of transfer, of all rounds.
pub(crate) struct Speed {
    pub transfer: Transfer,
    /// Copies a second of one thread, by way.
    copies: Vec<Vec<f64>>,
    /// Exchanges of two threads, by way.
    exchanges: Vec<Vec<Pair>>,
    served: Vec<Pair>,
}

/// Returns every kind of transfer that is measured; of those, the ones that `words` name, if any word names one.
pub(crate) fn transfers(words: &[String]) -> Vec<Transfer> {
    let mut transfers: Vec<Transfer> =
        LENGTHS.into_iter().flat_map(|bytes| [Transfer::read(bytes), Transfer::write(bytes)]).collect();
    for word in words {
        let is_named = |transfer: &Transfer| {
            let op = if transfer.op == Op::Read { "read" } else { "write" };
            *word == op || *word == transfer.bytes.to_string()
        };
        if transfers.iter().any(is_named) {
            transfers.retain(is_named);
        }
    }
    transfers
}

impl Speed {
    /// Measures a kind of transfer: `served` in turn with bare copies, in which the client `touches` the data if it does so
    /// with the front-end.
    pub(crate) fn measure(
        store: &Store,
        rounds: usize,
        transfer: Transfer,
        touches: bool,
        mut served: impl FnMut(Transfer) -> io::Result<Pair>,
    ) -> io::Result<Speed> {
        let ways = || WAYS.iter().map(|_| Vec::new());
        let (copies, exchanges) = (ways().collect(), WAYS.iter().map(|_| Vec::new()).collect());
        let mut speed = Speed { transfer, copies, exchanges, served: Vec::new() };
        for _ in 0..rounds {
            for (place, way) in WAYS.iter().enumerate() {
                speed.copies[place].push(bare::copies(store, transfer, *way)?);
                let lone_ns = bare::lone(store, transfer, *way, touches)?.percentile_ns(50.0);
                speed.exchanges[place].push((lone_ns, bare::deep(store, transfer, *way, touches)?));
            }
            speed.served.push(served(transfer)?);
        }
        Ok(speed)
    }

    /// Returns how many times longer a request at depth takes than the best bare copy of one thread, and that way.
    pub(crate) fn slowdown_against_best_copy(&self) -> (f64, Way) {
        let (way, best) = best(&self.copies, |copies| median(copies.iter().copied()), f64::max);
        (median(best.iter().zip(&self.served).map(|(copies, served)| copies / served.1)), way)
    }

    /// Returns how many times longer a request at depth takes than the best bare exchange, and that way.
    pub(crate) fn slowdown_against_best_exchange(&self) -> (f64, Way) {
        let (way, best) = best(&self.exchanges, |pairs| median(pairs.iter().map(|pair| pair.1)), f64::max);
        (median(best.iter().zip(&self.served).map(|(bare, served)| bare.1 / served.1)), way)
    }

    /// Returns how many nanoseconds longer a lone request takes than the best bare exchange.
    fn single_request_overhead_ns(&self) -> f64 {
        let (_, best) = best(&self.exchanges, |pairs| median(pairs.iter().map(|pair| pair.0)), f64::min);
        median(best.iter().zip(&self.served).map(|(bare, served)| served.0 - bare.0))
    }

    pub(crate) fn name(&self) -> String {
        let Transfer { op, bytes } = self.transfer;
        let length = if bytes < 1024 { format!("{bytes} B") } else { format!("{} KiB", bytes >> 10) };
        format!("{} {length}", if op == Op::Read { "read" } else { "write" })
    }

    /// Returns rate and bandwidth at depth.
    pub(crate) fn rate(&self) -> (f64, f64) {
        let rate = median(self.served.iter().map(|pair| pair.1));
        (rate, rate * self.transfer.bytes as f64 / 1e9)
    }

    /// Prints one line: alone, at depth, and beside bare copies.
    pub(crate) fn print(&self, front: &str) {
        let lone_ns = median(self.served.iter().map(|pair| pair.0));
        let ((rate, bandwidth), (copies, way), (exchanges, pair_way)) =
            (self.rate(), self.slowdown_against_best_copy(), self.slowdown_against_best_exchange());
        println!(
            "{front:<14} {:<13} QD1 {lone_ns:>6.0} ns, bare {:+.0} ns   QD{DEPTH} {rate:>9.0}/s {bandwidth:>5.1} GB/s, \
             {copies:.2}x a copy ({way:?}), {exchanges:.2}x a bare exchange ({pair_way:?})",
            self.name(),
            -self.single_request_overhead_ns(),
        );
    }
}

/// Returns the way with the best value, and its measurements.
fn best<T>(measured: &[Vec<T>], value: impl Fn(&[T]) -> f64, better: fn(f64, f64) -> f64) -> (Way, &[T]) {
    let values: Vec<f64> = measured.iter().map(|measured| value(measured)).collect();
    let best = values.iter().copied().reduce(better).expect("there is a way to copy");
    let place = values.iter().position(|value| *value == best).expect("it is one of them");
    (WAYS[place], &measured[place])
}
