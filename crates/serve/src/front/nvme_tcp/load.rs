//! Client's end of NVMe/TCP for benchmarks: one controller for all jobs, and a queue for each of their threads.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use phaselink_core::number::{length, low_u16, narrow};
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::spec::fields::ranges;
use phaselink_core::protocol::nvme::spec::layout::Layout;
use phaselink_core::protocol::nvme::spec::lists::RangeEntry;
use phaselink_core::protocol::nvme::spec::{Status, SubmissionEntry};
use phaselink_core::request::{Io, Op};
use phaselink_core::time::{Span, Time};
use phaselink_core::workload::{Job, Limits};

use super::address::{SCHEME, TargetAddress};
use super::client::{Client, ClientCommandData, HostNameAndIdentifier};
use super::initiator::Initiator;
use crate::bench::target::{Load, LoadConnection, Measurement, Target, max_request_bytes};
use crate::clock::Clock;
use crate::front::kind::ParsedBenchTarget;

/// Time before the next request for which a thread spins instead of sleeping, as it may wake up that late.
const SLEEP_MIN: Span = Span::from_us(60);

/// Parses the address of a target; returns none if the text does not begin with `nvme-tcp:`.
pub(super) fn parse(text: &str) -> Option<ParsedBenchTarget> {
    text.starts_with(SCHEME).then(|| TargetAddress::parse(text).map(|address| Box::new(address) as Box<dyn Target>))
}

impl Target for TargetAddress {
    fn limits(&self) -> io::Result<Limits> {
        let mut initiator = Initiator::open(self, &HostNameAndIdentifier::of(self)?, 0)?;
        let (_, blocks, shift) = initiator.namespace()?;
        let limits = Limits::new(blocks << shift, 1 << shift).flushed(true);
        let (queue_pairs, queue_entries) = (initiator.queues.into(), initiator.queue_entries.into());
        initiator.close()?;
        Ok(Limits { queue_pairs, queue_entries, ..limits })
    }

    fn measure(&self, load: &Load<'_>) -> io::Result<Vec<(usize, Measurement)>> {
        let mut initiator = Initiator::open(self, &HostNameAndIdentifier::of(self)?, 0)?;
        let (namespace, _, block_shift) = initiator.namespace()?;
        let next = AtomicU16::new(1);
        let measured = load.measure(|job| {
            let queue = next.fetch_add(1, Ordering::Relaxed);
            LoadQueueConnection::connect_load_queue(&initiator, queue, (namespace, block_shift), job)
        })?;
        initiator.close()?;
        Ok(measured)
    }
}

/// I/O queue of one benchmark thread. The command identifier of a request is its slot.
struct LoadQueueConnection {
    client: Client,
    namespace: u32,
    block_shift: u32,
}

impl LoadQueueConnection {
    fn connect_load_queue(
        initiator: &Initiator,
        queue: u16,
        (namespace, block_shift): (u32, u32),
        job: &Job,
    ) -> io::Result<LoadQueueConnection> {
        let longest = max_request_bytes(job);
        if initiator.transfer_bytes_max.is_some_and(|most| longest > most) {
            let most = initiator.transfer_bytes_max.unwrap_or(0);
            let text =
                format!("job {}: requests of {longest} bytes, and the controller takes {most} at most", job.name);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let entries = low_u16(job.iodepth.saturating_add(1)).clamp(2, initiator.queue_entries);
        Ok(LoadQueueConnection { client: initiator.queue(queue, entries)?, namespace, block_shift })
    }
}

impl LoadConnection for LoadQueueConnection {
    fn submit(&mut self, slot: usize, io: Io, data: &[u8]) -> io::Result<()> {
        let Io { op, offset, bytes } = io;
        let opcode = match op {
            Op::Read => opcode::READ,
            Op::Write => opcode::WRITE,
            Op::Flush => opcode::FLUSH,
            Op::Discard => opcode::DATASET_MANAGEMENT,
            Op::WriteZeroes => opcode::WRITE_ZEROES,
        };
        let entry = SubmissionEntry { opcode, namespace_id: self.namespace, ..SubmissionEntry::default() };
        let (slba, blocks) = (offset >> self.block_shift, bytes >> self.block_shift);
        let id = narrow(length(slot));
        match op {
            Op::Flush => self.client.submit(id, &entry, ClientCommandData::None),
            Op::Discard => {
                let range = RangeEntry::zeros().with(RangeEntry::COUNT, blocks).with(RangeEntry::FIRST, slba);
                let entry = entry.with(ranges::DEALLOCATE, 1);
                self.client.submit(id, &entry, ClientCommandData::Send(&range.into_bytes()));
            }
            Op::Read => {
                let data = ClientCommandData::Receive { bytes, is_kept: false };
                self.client.submit(id, &entry.of_blocks(slba, blocks), data);
            }
            Op::Write => self.client.submit(id, &entry.of_blocks(slba, blocks), ClientCommandData::Send(data)),
            Op::WriteZeroes => self.client.submit(id, &entry.of_blocks(slba, blocks), ClientCommandData::None),
        }
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
        while let Some(completion) = self.client.completion()? {
            done.push((usize::from(completion.id), completion.status == Status::SUCCESS));
        }
        // Send the data for which the target has requested a transfer.
        self.client.send()
    }

    fn end(self) -> io::Result<()> {
        Ok(())
    }
}
