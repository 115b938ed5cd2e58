//! Client's end of NBD for benchmarks, with one connection per thread.

use std::io;
use std::time::Duration;

use phaselink_core::number::{index, length, wide_index};
use phaselink_core::request::{Io, Op};
use phaselink_core::time::{Span, Time};
use phaselink_core::workload::Limits;

use super::client::Client;
use super::uri::Uri;
use super::wire::{Request, command, transmission};
use crate::bench::target::{Load, LoadConnection, Measurement, Target};
use crate::clock::Clock;
use crate::front::kind::ParsedBenchTarget;

/// Time before the next request for which a thread spins instead of sleeping, as it may wake up that late.
const SLEEP_MIN: Span = Span::from_us(60);

/// Parses the address of an NBD server; returns none if the text does not begin with `nbd`.
pub(super) fn parse(text: &str) -> Option<ParsedBenchTarget> {
    text.starts_with("nbd").then(|| Uri::parse(text).map(|uri| Box::new(uri) as Box<dyn Target>))
}

impl Target for Uri {
    /// Returns the size of the export, and limits of queues that no job reaches, because NBD has no queues.
    fn limits(&self) -> io::Result<Limits> {
        let client = Client::connect(self)?;
        let Client { capacity_bytes, features, .. } = client;
        client.disconnect()?;
        let (queue_pairs, queue_entries, block_bytes) = (1 << 16, 4096, 512);
        let limits = Limits::new(capacity_bytes, block_bytes).flushed(features & transmission::SEND_FLUSH != 0);
        Ok(Limits { queue_pairs, queue_entries, ..limits })
    }

    fn measure(&self, load: &Load<'_>) -> io::Result<Vec<(usize, Measurement)>> {
        load.measure(|_| NbdLoadConnection::connect(self))
    }
}

/// NBD connection of one benchmark thread. The cookie of a request is its slot.
pub(super) struct NbdLoadConnection {
    client: Client,
    /// Number of data bytes in the reply to the request in each slot; 0 if it is not a read.
    answer_bytes: Vec<usize>,
}

impl NbdLoadConnection {
    pub(super) fn connect(uri: &Uri) -> io::Result<NbdLoadConnection> {
        Ok(NbdLoadConnection { client: Client::connect(uri)?, answer_bytes: Vec::new() })
    }
}

impl LoadConnection for NbdLoadConnection {
    fn submit(&mut self, slot: usize, io: Io, data: &[u8]) -> io::Result<()> {
        let Io { op, offset, bytes } = io;
        if slot >= self.answer_bytes.len() {
            self.answer_bytes.resize(slot + 1, 0);
        }
        self.answer_bytes[slot] = if op == Op::Read { index(bytes) } else { 0 };
        let command = match op {
            Op::Read => command::READ,
            Op::Write => command::WRITE,
            Op::Flush => command::FLUSH,
            Op::Discard => command::TRIM,
            Op::WriteZeroes => command::WRITE_ZEROES,
        };
        self.client.ask(&Request { flags: 0, command, cookie: length(slot), offset, length: bytes }, data);
        Ok(())
    }

    fn wait(&mut self, until: Option<Time>, clock: &Clock) -> io::Result<()> {
        self.client.send()?;
        let Some(until) = until else { return self.client.sleep(None) };
        let left = until.since(clock.now());
        let timeout = if left > SLEEP_MIN { left.saturating_sub(SLEEP_MIN) } else { Span::ZERO };
        self.client.sleep(Some(Duration::from_nanos(timeout.as_ps() / 1000)))
    }

    fn reap(&mut self, done: &mut Vec<(usize, bool)>) -> io::Result<()> {
        self.client.receive()?;
        let bytes_of = |cookie: u64| self.answer_bytes.get(wide_index(cookie)).copied().unwrap_or(0);
        while let Some(answer) = self.client.answer(bytes_of)? {
            done.push((wide_index(answer.cookie), answer.error == 0));
        }
        Ok(())
    }

    fn end(self) -> io::Result<()> {
        self.client.disconnect()
    }
}

#[cfg(test)]
mod tests {
    use phaselink_core::workload::{Flushes, Job};

    use super::*;
    use crate::bench;

    #[test]
    fn job_with_flushes_is_refused_if_the_server_offers_no_flush() {
        let uri = Uri::parse("nbd://127.0.0.1:10809/disk").unwrap();
        let jobs = [Job { flushes: Flushes { fsync: 3, ..Flushes::default() }, ..Job::named("log") }];
        let limits = Limits::new(1 << 20, 512);
        assert_eq!(bench::check(&uri, &limits.flushed(true), &jobs), Ok(()));
        let told = bench::check(&uri, &limits.flushed(false), &jobs).unwrap_err().to_string();
        let expected = "job log: fsync=3, and the server at nbd://127.0.0.1:10809/disk offers no flush; allowed: a server that \
                        offers flushes, as `phaselink serve` does, or a job without fsync";
        assert_eq!(told, expected);
        assert_eq!(bench::check(&uri, &limits.flushed(false), &[Job::named("log")]), Ok(()));
    }
}
