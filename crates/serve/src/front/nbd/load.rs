//! Client's end of NBD for benchmarks: the connection of one thread.

use std::io;
use std::time::Duration;

use phaselink_core::request::{Io, Op};
use phaselink_core::time::{Span, Time};
use phaselink_core::workload::Limits;

use super::client::Client;
use super::uri::Uri;
use super::wire::{Request, command};
use crate::bench::target::{Load, LoadConnection, Measurement, Target};
use crate::clock::Clock;
use crate::front::kind::ParsedTarget;

/// Shorter waits are spent spinning, as a sleep takes longer.
const SLEEP_MIN: Span = Span::from_us(60);

/// Reads an address; returns nothing if it is not one of NBD.
pub(super) fn parse(text: &str) -> Option<ParsedTarget> {
    text.starts_with("nbd").then(|| Uri::parse(text).map(|uri| Box::new(uri) as Box<dyn Target>))
}

impl Target for Uri {
    /// Returns limits without queues, which NBD does not have: the size of requests alone limits their number.
    fn limits(&self) -> io::Result<Limits> {
        let client = Client::connect(self)?;
        let capacity_bytes = client.capacity_bytes;
        client.disconnect()?;
        let (queue_pairs, queue_entries, block_bytes) = (1 << 16, 4096, 512);
        Ok(Limits { queue_pairs, queue_entries, ..Limits::new(capacity_bytes, block_bytes) })
    }

    fn measure(&self, load: &Load<'_>) -> io::Result<Vec<(usize, Measurement)>> {
        load.measure(|_| LoadSession::connect(self))
    }
}

/// Connection of one thread; the slot of a request is its cookie.
pub(super) struct LoadSession {
    client: Client,
    /// Bytes of data in the reply, by slot. Slots of writes, and unused ones, have none.
    answer_bytes: Vec<usize>,
}

impl LoadSession {
    pub(super) fn connect(uri: &Uri) -> io::Result<LoadSession> {
        Ok(LoadSession { client: Client::connect(uri)?, answer_bytes: Vec::new() })
    }
}

impl LoadConnection for LoadSession {
    fn submit(&mut self, slot: usize, io: Io, data: &[u8]) -> io::Result<()> {
        let Io { op, offset, bytes } = io;
        if slot >= self.answer_bytes.len() {
            self.answer_bytes.resize(slot + 1, 0);
        }
        self.answer_bytes[slot] = if op == Op::Read { bytes as usize } else { 0 };
        let command = if op == Op::Read { command::READ } else { command::WRITE };
        self.client.ask(&Request { flags: 0, command, cookie: slot as u64, offset, length: bytes }, data);
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
        let bytes_of = |cookie: u64| self.answer_bytes.get(cookie as usize).copied().unwrap_or(0);
        while let Some(answer) = self.client.answer(bytes_of)? {
            done.push((answer.cookie as usize, answer.error == 0));
        }
        Ok(())
    }

    fn end(self) -> io::Result<()> {
        self.client.disconnect()
    }
}
