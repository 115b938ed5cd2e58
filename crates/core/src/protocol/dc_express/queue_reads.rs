//! When the endpoint reads its command queues.
//!
//! While one read at a time is in flight there is nothing to gain from more than one queue read: the endpoint keeps one
//! on its way, and times the next to the command that it expects ([`super::predict`]). Where several are in flight
//! (figure 1c), each owes the queue one more command when its data has reached the host, so a queue read goes out for
//! each of them at its own expected instant, whatever else is in flight. As long as the endpoint has more data to send
//! than it takes to fetch a command and to get at its data, a queue read can wait, and brings several commands.

use phaselink_ring::command::COMMAND_BYTES;

use super::Role;
use super::endpoint::{Endpoint, Mode, Queue, timer};
use super::window::Sent;
use crate::protocol::ports::Ports;
use crate::scheduler::Event;
use crate::time::{Span, Time};
use crate::tlp::{Kind, Packet};

/// When the next command is expected that no queue read is about to bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// Of every read that the window holds.
    Nothing,
    Unknown,
    At(Time),
}

/// A queue read by its queue, and by its number among those of that queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PollName {
    pub queue: u16,
    pub serial: u16,
}

/// A queue read in flight, how many commands it is expected to bring, and the entry behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Poll {
    pub name: PollName,
    pub index: u32,
    pub count: u32,
    pub expected: u32,
    pub through: u32,
    pub issued: Time,
}

impl PollName {
    pub(super) fn pack(self) -> u32 {
        u32::from(self.queue) << 16 | u32::from(self.serial)
    }

    pub(super) fn unpack(context: u32) -> PollName {
        PollName { queue: (context >> 16) as u16, serial: context as u16 }
    }
}

impl Endpoint {
    /// Read a queue as often as is due now, and set the timer for the next time.
    pub(super) fn plan(&mut self, now: Time, number: u16, ports: &mut Ports) {
        let next = loop {
            match self.next_read(now, number) {
                Some(at) if at <= now => self.poll(now, number, ports),
                next => break next,
            }
        };
        let planned = self.window.changes;
        let queue = &mut self.queues[usize::from(number)];
        let set = std::mem::replace(&mut queue.read_at, next);
        queue.planned = planned;
        if let Some(at) = next.filter(|_| next != set) {
            ports.shared.scheduler.at(at, Event::Controller { kind: timer::READ_QUEUE, context: number.into() });
        }
    }

    /// The timer for the next queue read has fired. What was planned holds unless the window has changed since.
    pub(super) fn read_queue(&mut self, now: Time, number: u16, ports: &mut Ports) {
        let queue = &mut self.queues[usize::from(number)];
        queue.read_at = None;
        if queue.planned == self.window.changes && queue.mode == Mode::Poll {
            self.poll(now, number, ports);
        }
        self.plan(now, number, ports);
    }

    /// When the queue is to be read next, as far as that is known.
    #[inline(always)]
    fn next_read(&self, now: Time, number: u16) -> Option<Time> {
        let queue = &self.queues[usize::from(number)];
        if queue.in_flight.len() >= self.polls_in_flight {
            return None;
        }
        let next = match queue.overlap == 0 && !queue.backlog && !queue.retry {
            true => self.next_single(now, queue, number)?,
            false => self.next_of_several(now, queue, number)?,
        };
        Some(next.max(now))
    }

    /// The same while reads overlap, or behind one that has found more or less than was expected.
    #[inline(never)]
    fn next_of_several(&self, now: Time, queue: &Queue, number: u16) -> Option<Time> {
        let in_flight = queue.in_flight.len();
        let is_quiet = !queue.backlog && !queue.retry;
        let awaited = queue.awaited();
        let due = self.due(queue, number, awaited);
        if due == Due::Nothing && in_flight > 0 && is_quiet {
            return None;
        }
        let needed = self.needed(queue, awaited);
        let pipelined = match due {
            _ if queue.backlog => Some(needed),
            _ if queue.retry => return Some(now),
            Due::Unknown if queue.overlap > 0 => Some(needed.max(queue.issued + self.pace(queue))),
            Due::Unknown | Due::Nothing => None,
            Due::At(due) => Some(due.max(needed)),
        };
        let lone = if in_flight == 0 { self.lone(now, queue, due, needed) } else { None };
        match (pipelined, lone) {
            (Some(pipelined), Some(lone)) => Some(pipelined.min(lone)),
            (next, None) | (None, next) => next,
        }
    }

    /// The same at depth 1, where most time is spent: behind a command as soon as there can be another, and otherwise in
    /// time for the one that is expected.
    #[inline(always)]
    fn next_single(&self, now: Time, queue: &Queue, number: u16) -> Option<Time> {
        if !queue.in_flight.is_empty() {
            let awaited = queue.awaited();
            let Due::At(due) = self.due(queue, number, awaited) else { return None };
            return Some(due.max(self.needed(queue, awaited)));
        }
        let needed = self.needed(queue, 0);
        if queue.idle_since.is_none() {
            return Some(needed);
        }
        let due = self.due(queue, number, 0);
        let lone = self.lone(now, queue, due, needed);
        match due {
            Due::At(due) => Some(lone.map_or(due.max(needed), |lone| lone.min(due.max(needed)))),
            Due::Unknown | Due::Nothing => lone,
        }
    }

    /// How far queue reads are apart while nothing is known of the commands.
    fn pace(&self, queue: &Queue) -> Span {
        queue.round_trip / self.polls_in_flight as u64
    }

    /// When to read a queue for which no read is in flight: as soon as another command can be of use, and after a read
    /// that has found nothing after a pause, unless a command is expected before that read would be back.
    #[inline(always)]
    fn lone(&self, now: Time, queue: &Queue, due: Due, needed: Time) -> Option<Time> {
        let at = match queue.idle_since {
            None if queue.overlap == 0 => return Some(needed),
            None => needed.max(now),
            Some(missed) => (missed + self.turnaround).max(now),
        };
        match due {
            Due::At(due) => (due > at.max(self.window.until()) + queue.round_trip).then_some(at),
            Due::Nothing | Due::Unknown => Some(at),
        }
    }

    /// When the next command that is not being read yet is expected.
    #[inline(always)]
    fn due(&self, queue: &Queue, number: u16, awaited: u32) -> Due {
        if !self.predict || queue.mode != Mode::Poll {
            return Due::Unknown;
        }
        match self.window.next_expected(number, awaited) {
            None => Due::Nothing,
            Some(sent) => self.target(queue, sent).map_or(Due::Unknown, Due::At),
        }
    }

    /// Whether it is expected now.
    #[inline(never)]
    fn is_due(&self, now: Time, queue: &Queue, number: u16, awaited: u32) -> bool {
        self.due(queue, number, awaited) == Due::At(now)
    }

    /// When to read for the command that follows `sent`. A queue read that goes out before all its data has left delays
    /// the rest, and with it that command.
    #[inline(always)]
    fn target(&self, queue: &Queue, sent: &Sent) -> Option<Time> {
        let at = queue.predictor.target(sent.size, sent.end)?;
        Some(if at < sent.end { at + self.request_time } else { at })
    }

    /// From when on a queue read is needed, so that data leaves without a gap: what it brings can be sent when the data
    /// of the reads here, and of those that are being fetched, has left.
    #[inline(always)]
    fn needed(&self, queue: &Queue, awaited: u32) -> Time {
        let margin = if queue.overlap > 0 { queue.service.min(queue.round_trip / 4) } else { Span::ZERO };
        let until = self.window.until() + queue.service * u64::from(awaited);
        until - queue.round_trip - queue.lead - margin
    }

    /// Commands that a queue read is likely to find now, of those that no other read is about to bring.
    fn waiting(&self, now: Time, queue: &Queue, number: u16, awaited: u32) -> u32 {
        if queue.backlog {
            return self.fetch_entries;
        }
        if !self.predict || queue.mode != Mode::Poll {
            return 0;
        }
        let is_there = |sent: &Sent| self.target(queue, sent).is_some_and(|at| at <= now);
        let is_one_there = self.window.next_expected(number, awaited).is_some_and(is_there);
        if !is_one_there || !self.window.has_several() {
            return u32::from(is_one_there);
        }
        let expected = self.window.expected(number, awaited).take(self.fetch_entries as usize);
        expected.take_while(|sent| is_there(sent)).count() as u32
    }

    /// Send a queue read. It begins at the first entry that no other read is about to bring, and asks for as many commands
    /// as are expected, or for as many as it may where nothing is known or it has waited until it was needed: more bytes
    /// take longer to come.
    pub(super) fn poll(&mut self, now: Time, number: u16, ports: &mut Ports) {
        let queue = &self.queues[usize::from(number)];
        let awaited = queue.awaited();
        let expected = self.waiting(now, queue, number, awaited);
        let in_time = queue.overlap == 0 || self.is_due(now, queue, number, awaited);
        let wanted = if in_time { expected.max(1) } else { self.fetch_entries };
        let queue = &mut self.queues[usize::from(number)];
        let index = queue.wrapped(queue.head + awaited);
        let count = wanted.min(queue.entries - index);
        let through = queue.wrapped(index + expected.min(count));
        queue.serial = queue.serial.wrapping_add(1);
        let name = PollName { queue: number, serial: queue.serial };
        queue.in_flight.push(Poll { name, index, count, through, expected, issued: now });
        queue.issued = now;
        (queue.rung, queue.retry) = (false, false);
        self.counts.queue_reads += 1;
        let address = queue.base + u64::from(index) * COMMAND_BYTES as u64;
        let token = Role::POLL.token(name.pack());
        let bytes = count * COMMAND_BYTES as u32;
        let chunk_bytes = self.nvme.reads.request_bytes_max();
        // The read that proves the queue empty comes after the host has been told to ring.
        let behind_writes = queue.mode == Mode::Drain;
        let packet = Packet { behind_writes, ..Packet::read(address, bytes, chunk_bytes, token) };
        self.request_time = ports.link.packet_time(Kind::MemoryRead, 0);
        self.window.cut_in(now, self.request_time);
        self.nvme.reads.request(packet, ports.link, ports.shared);
    }
}
