//! Commands of real hosts on their way to an engine on another thread: submission queue entries and lists as they were
//! read, in records of a channel.

use std::collections::VecDeque;

use phaselink_core::number::{index, low_u16, low_u32, short_length};
use phaselink_core::protocol::real_hosts::HostCommand;
use phaselink_core::request::{Io, Op};
use phaselink_core::time::{Span, Time};

use crate::device::pipe::{PipeRecord, WORDS};
use crate::model::wall::Wall;

/// Length of a submission queue entry, in bytes.
const ENTRY_BYTES: usize = 64;
const ENTRY_WORDS: usize = ENTRY_BYTES / 8;
const RECORD_BYTES: usize = WORDS * 8;

/// Flag in the first word of a pipe's record: the record is the first of a command.
pub(super) const COMMAND: u64 = 1 << 3;
const HAS_IO: u64 = 1 << 5;
const HAS_LISTS: u64 = 1 << 6;
const HAS_MORE: u64 = 1 << 7;
const HAS_INTERRUPTS: u64 = 1 << 12;
/// Bit positions of the operation (4 bits) and of the queue's number (16 bits) in the first word of a command.
const OP_SHIFT: u32 = 8;
const OP_MASK: u64 = 0xf;
const QUEUE_SHIFT: u32 = 16;
/// Bit position of a fault's delay in the first word of a command: 32 bits, in whole microseconds, up to 71 minutes.
const DELAY_SHIFT: u32 = 32;
const DELAY_UNIT_PS: u64 = 1_000_000;

/// Command of a real host, in the form in which it is sent to the engine's thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentCommand {
    /// Instant of the clock at which the host wrote the doorbell that announced the command.
    pub rung: Time,
    /// Number of the modelled queue that stands for the host's queue.
    pub queue: u16,
    pub owner: u64,
    pub entries: u32,
    /// True if completions in the command's queue raise interrupts.
    pub has_interrupts: bool,
    pub token: u32,
    pub io: Option<Io>,
    pub entry: [u8; ENTRY_BYTES],
    pub lists: Option<Vec<u8>>,
    /// True if the same doorbell write announced a further command of this queue, sent next.
    pub has_more: bool,
    /// Time for which a fault has delayed the command.
    pub delayed: Span,
}

impl SentCommand {
    /// Encodes the command in records of a pipe to the engine's thread. Calls `put` with each of them in order.
    pub(super) fn encode(&self, mut put: impl FnMut(PipeRecord)) {
        let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
        let op = self.io.map_or(0, |io| io.op as u64);
        let flags = COMMAND
            | op << OP_SHIFT
            | flag(self.io.is_some(), HAS_IO)
            | flag(self.lists.is_some(), HAS_LISTS)
            | flag(self.has_more, HAS_MORE)
            | flag(self.has_interrupts, HAS_INTERRUPTS)
            | u64::from(self.queue) << QUEUE_SHIFT
            | (self.delayed.as_ps() / DELAY_UNIT_PS).min(u32::MAX.into()) << DELAY_SHIFT;
        let lists = self.lists.as_deref().unwrap_or_default();
        let (offset, bytes) = self.io.map_or((0, 0), |io| (io.offset, io.bytes));
        let both = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let (token, sizes) = (both(self.entries, self.token), both(bytes, short_length(lists.len())));
        let entry: Vec<u64> = self.entry.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        put([flags, self.rung.as_ps(), self.owner, token, offset, sizes, entry[0]]);
        put(std::array::from_fn(|word| entry[1 + word]));
        for part in lists.chunks(RECORD_BYTES) {
            let mut bytes = [0; RECORD_BYTES];
            bytes[..part.len()].copy_from_slice(part);
            put(std::array::from_fn(|word| u64::from_le_bytes(bytes.as_chunks().0[word])));
        }
    }
}

const _: () = assert!(ENTRY_WORDS == WORDS + 1, "two records hold a command");

/// Command in transfer to the engine's thread, of which only some records have been received.
#[derive(Debug)]
pub(super) struct IncomingCommand {
    head: PipeRecord,
    rest: Vec<u8>,
}

impl IncomingCommand {
    /// Makes an incomplete command from the first record that has been received for it.
    pub(super) fn new(head: PipeRecord) -> IncomingCommand {
        IncomingCommand { head, rest: Vec::new() }
    }

    fn list_bytes(&self) -> usize {
        index(low_u32(self.head[5]))
    }

    /// Adds the next record received for this command, and returns the command if the record was its last.
    ///
    /// # Errors
    /// Returns the incomplete command if further records of it are missing.
    pub(super) fn push(mut self, record: PipeRecord) -> Result<SentCommand, IncomingCommand> {
        self.rest.extend(record.iter().flat_map(|word| word.to_le_bytes()));
        if self.rest.len() < RECORD_BYTES + self.list_bytes() { Err(self) } else { Ok(self.decode()) }
    }

    fn decode(self) -> SentCommand {
        let [flags, rung, owner, token, offset, sizes, first] = self.head;
        let (body, lists) = self.rest.split_at(RECORD_BYTES);
        let mut entry = [0; ENTRY_BYTES];
        entry[..8].copy_from_slice(&first.to_le_bytes());
        entry[8..].copy_from_slice(body);
        let op = Op::ALL[(flags >> OP_SHIFT & OP_MASK) as usize];
        let io = Io { op, offset, bytes: low_u32(sizes >> 32) };
        SentCommand {
            rung: Time::from_ps(rung),
            queue: low_u16(flags >> QUEUE_SHIFT),
            owner,
            entries: low_u32(token >> 32),
            has_interrupts: flags & HAS_INTERRUPTS != 0,
            token: low_u32(token),
            io: (flags & HAS_IO != 0).then_some(io),
            entry,
            lists: (flags & HAS_LISTS != 0).then(|| lists[..self.list_bytes()].to_vec()),
            has_more: flags & HAS_MORE != 0,
            delayed: Span::from_ps((flags >> DELAY_SHIFT) * DELAY_UNIT_PS),
        }
    }
}

/// Commands of real hosts that wait for room in the modelled queues, by the numbers of these queues.
#[derive(Debug, Default)]
pub(super) struct HostQueues(Vec<HostQueue>);

#[derive(Debug, Default)]
struct HostQueue {
    owner: Option<u64>,
    /// Commands that wait for room in the modelled queue, each with its source: the number of a channel, or the
    /// engine's own thread.
    waiting: VecDeque<(usize, SentCommand)>,
}

impl HostQueues {
    /// Adds a command to those that wait for room in its queue. `lane` is its source, to which the result goes.
    pub(super) fn push(&mut self, lane: usize, command: SentCommand) {
        let queue = usize::from(command.queue);
        if self.0.len() <= queue {
            self.0.resize_with(queue + 1, HostQueue::default);
        }
        self.0[queue].waiting.push_back((lane, command));
    }

    /// Moves waiting commands into the modelled queues, as far as these have room. `take` returns the engine's token
    /// for a command. `entered` receives the token and the model's instant at which the command entered.
    pub(super) fn enter<T>(
        &mut self,
        wall: &mut Wall,
        kept: &mut T,
        take: impl Fn(&mut T, &mut Wall, usize, &SentCommand) -> u32,
        entered: impl Fn(&mut T, u32, Time),
    ) {
        for queue in &mut self.0 {
            while let Some((tokens, arrived)) =
                queue.enter_some(wall, |wall, lane, command| take(kept, wall, lane, command))
            {
                tokens.into_iter().for_each(|token| entered(kept, token, arrived));
            }
        }
    }
}

impl HostQueue {
    /// Moves the commands of one doorbell write into the modelled queue, as many as it has room for. Returns their
    /// tokens and the model's instant of entry; none if there is no room, or no command waits.
    fn enter_some(
        &mut self,
        wall: &mut Wall,
        mut take: impl FnMut(&mut Wall, usize, &SentCommand) -> u32,
    ) -> Option<(Vec<u32>, Time)> {
        let &SentCommand { rung, queue, owner, entries, has_interrupts, .. } = &self.waiting.front()?.1;
        if self.owner != Some(owner) && wall.begin_queue(queue, entries, has_interrupts) {
            self.owner = Some(owner);
        }
        let (mut batch, mut tokens): (Vec<SentCommand>, Vec<u32>) = Default::default();
        let room = wall.room(queue);
        let is_next = |batch: &[SentCommand], next: &SentCommand| {
            next.owner == owner && batch.last().is_none_or(|last| last.has_more)
        };
        while batch.len() < room && self.waiting.front().is_some_and(|(_, next)| is_next(&batch, next)) {
            let Some((lane, command)) = self.waiting.pop_front() else { break };
            tokens.push(take(wall, lane, &command));
            batch.push(command);
        }
        if batch.is_empty() {
            return None;
        }
        let commands = batch.iter().zip(&tokens).map(|(command, token)| HostCommand {
            queue,
            entry: &command.entry,
            lists: command.lists.as_deref(),
            io: command.io,
            token: *token,
            delayed: command.delayed,
        });
        let arrived = wall.ring(rung, queue, commands);
        Some((tokens, arrived))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_comes_as_it_was_sent_with_lists_of_any_length() {
        let lengths = [None, Some(0), Some(1), Some(56), Some(57), Some(4096)];
        for (lists, op) in lengths.into_iter().zip(Op::ALL.into_iter().cycle()) {
            let io = Some(Io { op, offset: 1 << 40, bytes: 1 << 20 });
            let lists: Option<Vec<u8>> = lists.map(|bytes| (0..bytes).map(|byte| byte as u8).collect());
            let sent = SentCommand {
                rung: Time::from_ps(7),
                queue: u16::MAX,
                owner: u64::MAX,
                entries: 64,
                has_interrupts: lists.is_none(),
                token: u32::MAX,
                io: io.filter(|_| lists.is_some()),
                entry: std::array::from_fn(|byte| byte as u8),
                delayed: if lists.is_none() { Span::ZERO } else { Span::from_ms(20) },
                lists,
                has_more: true,
            };
            let mut records = Vec::new();
            sent.encode(|record| records.push(record));
            let mut incoming = Some(IncomingCommand::new(records[0]));
            for (number, record) in records.iter().enumerate().skip(1) {
                let is_last = number == records.len() - 1;
                match incoming.take().expect("more are to come").push(*record) {
                    Ok(found) => assert!(is_last && found == sent),
                    Err(more) => incoming = Some(more),
                }
            }
            assert!(incoming.is_none());
        }
    }
}
