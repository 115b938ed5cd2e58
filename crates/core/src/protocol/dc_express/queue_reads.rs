//! Schedule of the reads by which the DC Express endpoint polls its command queues.
//!
//! If the host has one read in flight at a time, more than one queue read gains nothing. The endpoint then keeps one in
//! flight, and times the next by the predicted arrival of the next command ([`super::predict`]). If the host has
//! several reads in flight (figure 1c), another command follows each of them once its data has reached the host. So a
//! queue read is sent for each of them at its own predicted time. If the endpoint has more data to send than the time
//! to fetch a command and to get its data, a queue read can wait, and brings several commands.

use phaselink_ring::command::COMMAND_BYTES;

use super::Role;
use super::endpoint::{Endpoint, Queue, QueuePollMode, timer};
use super::window::WindowRead;
use crate::number::{index, length, low_u16, short_length};
use crate::protocol::ports::Ports;
use crate::scheduler::Event;
use crate::time::{Span, Time};
use crate::tlp::{Kind, Packet};

/// Predicted arrival of the next command that no queue read in flight is expected to bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextCommand {
    /// No further command is expected: queue reads in flight cover every read in the window.
    Nothing,
    /// A command may come, but there is no prediction of its time.
    Unknown,
    /// The queue read for the next command should be sent at this time.
    At(Time),
}

/// Identification of a queue read: its command queue, and its serial number among the reads of that queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueReadIdentity {
    pub queue: u16,
    pub serial: u16,
}

/// Queue read in flight: the first of its entries and their number, the number of commands that it is expected to
/// bring, and the entry behind these (`through`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Poll {
    pub name: QueueReadIdentity,
    pub index: u32,
    pub count: u32,
    pub expected: u32,
    pub through: u32,
    pub issued: Time,
}

impl QueueReadIdentity {
    pub(super) fn pack(self) -> u32 {
        u32::from(self.queue) << 16 | u32::from(self.serial)
    }

    pub(super) fn unpack(context: u32) -> QueueReadIdentity {
        QueueReadIdentity { queue: low_u16(context >> 16), serial: low_u16(context) }
    }
}

impl Endpoint {
    /// Sends all reads of a queue that are planned for now, and sets the timer for the next one.
    pub(super) fn send_due_reads(&mut self, now: Time, number: u16, ports: &mut Ports) {
        let next = loop {
            match self.next_queue_read_time(now, number) {
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

    /// Handles the timer of the next queue read. Sends that queue read if the window of reads in flight has not changed
    /// since it was planned, and plans again.
    pub(super) fn send_queue_read(&mut self, now: Time, number: u16, ports: &mut Ports) {
        let queue = &mut self.queues[usize::from(number)];
        queue.read_at = None;
        if queue.planned == self.window.changes && queue.mode == QueuePollMode::Poll {
            self.poll(now, number, ports);
        }
        self.send_due_reads(now, number, ports);
    }

    /// Returns the time of the next read of a queue, at the earliest `now`. Returns none if too many are in flight or
    /// if no time is known.
    #[inline(always)]
    fn next_queue_read_time(&self, now: Time, number: u16) -> Option<Time> {
        let queue = &self.queues[usize::from(number)];
        if queue.in_flight.len() >= self.polls_in_flight {
            return None;
        }
        let next = match queue.overlap == 0 && !queue.backlog && !queue.retry {
            true => self.next_queue_read_at_depth_one(now, queue, number)?,
            false => self.next_of_several(now, queue, number)?,
        };
        Some(next.max(now))
    }

    /// Returns the time of the next queue read if reads of the host overlap, or if the last queue read found more or
    /// fewer commands than expected.
    #[inline(never)]
    fn next_of_several(&self, now: Time, queue: &Queue, number: u16) -> Option<Time> {
        let in_flight = queue.in_flight.len();
        let is_quiet = !queue.backlog && !queue.retry;
        let awaited = queue.awaited();
        let due = self.next_uncovered_command(queue, number, awaited);
        if due == NextCommand::Nothing && in_flight > 0 && is_quiet {
            return None;
        }
        let latest = self.latest_gapless_read_time(queue, awaited);
        let pipelined = match due {
            _ if queue.backlog => Some(latest),
            _ if queue.retry => return Some(now),
            NextCommand::Unknown if queue.overlap > 0 => {
                Some(latest.max(queue.issued + self.queue_read_interval(queue)))
            }
            NextCommand::Unknown | NextCommand::Nothing => None,
            NextCommand::At(due) => Some(due.max(latest)),
        };
        let lone = if in_flight == 0 { self.next_if_none_in_flight(now, queue, due, latest) } else { None };
        match (pipelined, lone) {
            (Some(pipelined), Some(lone)) => Some(pipelined.min(lone)),
            (next, None) | (None, next) => next,
        }
    }

    /// Returns the time of the next queue read at depth 1, which is the most frequent case. After a command, that is as
    /// soon as there can be another one; otherwise, in time for the predicted one.
    #[inline(always)]
    fn next_queue_read_at_depth_one(&self, now: Time, queue: &Queue, number: u16) -> Option<Time> {
        if !queue.in_flight.is_empty() {
            let awaited = queue.awaited();
            let NextCommand::At(due) = self.next_uncovered_command(queue, number, awaited) else { return None };
            return Some(due.max(self.latest_gapless_read_time(queue, awaited)));
        }
        let latest = self.latest_gapless_read_time(queue, 0);
        if queue.idle_since.is_none() {
            return Some(latest);
        }
        let due = self.next_uncovered_command(queue, number, 0);
        let lone = self.next_if_none_in_flight(now, queue, due, latest);
        match due {
            NextCommand::At(due) => Some(lone.map_or(due.max(latest), |lone| lone.min(due.max(latest)))),
            NextCommand::Unknown | NextCommand::Nothing => lone,
        }
    }

    /// Returns the time between queue reads while commands overlap and their arrival cannot be predicted.
    fn queue_read_interval(&self, queue: &Queue) -> Span {
        queue.round_trip / length(self.polls_in_flight)
    }

    /// Returns the time of the next queue read if none is in flight. After a command, that is as soon as another one
    /// can be of use; after an empty queue read, after a pause. Returns none if a command is predicted to arrive before
    /// that queue read would be back.
    #[inline(always)]
    fn next_if_none_in_flight(&self, now: Time, queue: &Queue, due: NextCommand, latest: Time) -> Option<Time> {
        let at = match queue.idle_since {
            None if queue.overlap == 0 => return Some(latest),
            None => latest.max(now),
            Some(missed) => (missed + self.turnaround).max(now),
        };
        match due {
            NextCommand::At(due) => (due > at.max(self.window.until()) + queue.round_trip).then_some(at),
            NextCommand::Nothing | NextCommand::Unknown => Some(at),
        }
    }

    /// Returns the predicted arrival of the next command that no queue read in flight is expected to bring.
    #[inline(always)]
    fn next_uncovered_command(&self, queue: &Queue, number: u16, awaited: u32) -> NextCommand {
        if !self.predict || queue.mode != QueuePollMode::Poll {
            return NextCommand::Unknown;
        }
        match self.window.next_expected_read(number, awaited) {
            None => NextCommand::Nothing,
            Some(sent) => self.predicted_read_time(queue, sent).map_or(NextCommand::Unknown, NextCommand::At),
        }
    }

    /// True if the next command that no queue read in flight covers is predicted for exactly `now`.
    #[inline(never)]
    fn is_command_due_now(&self, now: Time, queue: &Queue, number: u16, awaited: u32) -> bool {
        self.next_uncovered_command(queue, number, awaited) == NextCommand::At(now)
    }

    /// Returns the time to send the queue read for the command that follows the read `sent`; none without a prediction.
    /// If that is before all data of `sent` has left, the queue read delays the rest of the data, and with it that
    /// command.
    #[inline(always)]
    fn predicted_read_time(&self, queue: &Queue, sent: &WindowRead) -> Option<Time> {
        let at = queue.predictor.predicted_queue_read_time(sent.size, sent.end)?;
        Some(if at < sent.end { at + self.request_time } else { at })
    }

    /// Returns the latest time for a queue read that leaves no gap between data on the link. The data of its commands
    /// follows the data of reads that the endpoint has or is fetching.
    #[inline(always)]
    fn latest_gapless_read_time(&self, queue: &Queue, awaited: u32) -> Time {
        let margin = if queue.overlap > 0 { queue.service.min(queue.round_trip / 4) } else { Span::ZERO };
        let until = self.window.until() + queue.service * u64::from(awaited);
        until - queue.round_trip - queue.lead - margin
    }

    /// Returns the number of commands that a queue read is likely to find now, without those that other queue reads are
    /// expected to bring.
    fn expected_command_count(&self, now: Time, queue: &Queue, number: u16, awaited: u32) -> u32 {
        if queue.backlog {
            return self.fetch_entries;
        }
        if !self.predict || queue.mode != QueuePollMode::Poll {
            return 0;
        }
        let is_there = |sent: &WindowRead| self.predicted_read_time(queue, sent).is_some_and(|at| at <= now);
        let is_one_there = self.window.next_expected_read(number, awaited).is_some_and(is_there);
        if !is_one_there || !self.window.has_several_reads() {
            return u32::from(is_one_there);
        }
        let expected = self.window.expected(number, awaited).take(index(self.fetch_entries));
        short_length(expected.take_while(|sent| is_there(sent)).count())
    }

    /// Sends a queue read. It begins at the first entry that no other queue read is expected to bring, and asks for as
    /// many commands as are predicted. If nothing is predicted while commands overlap, or if it has waited until data
    /// was needed, it asks for the maximum. More bytes take longer to arrive.
    pub(super) fn poll(&mut self, now: Time, number: u16, ports: &mut Ports) {
        let queue = &self.queues[usize::from(number)];
        let awaited = queue.awaited();
        let expected = self.expected_command_count(now, queue, number, awaited);
        let in_time = queue.overlap == 0 || self.is_command_due_now(now, queue, number, awaited);
        let wanted = if in_time { expected.max(1) } else { self.fetch_entries };
        let queue = &mut self.queues[usize::from(number)];
        let index = queue.wrapped(queue.head + awaited);
        let count = wanted.min(queue.entries - index);
        let through = queue.wrapped(index + expected.min(count));
        queue.serial = queue.serial.wrapping_add(1);
        let name = QueueReadIdentity { queue: number, serial: queue.serial };
        queue.in_flight.push(Poll { name, index, count, through, expected, issued: now });
        queue.issued = now;
        (queue.rung, queue.retry) = (false, false);
        self.counts.queue_reads += 1;
        let address = queue.base + u64::from(index) * length(COMMAND_BYTES);
        let token = Role::POLL.token(name.pack());
        let bytes = count * COMMAND_BYTES as u32;
        let chunk_bytes = self.nvme.reads.request_bytes_max();
        // This queue read must not overtake the write that tells the host to use doorbells, or a command could be
        // missed.
        let behind_writes = queue.mode == QueuePollMode::Drain;
        let packet = Packet { behind_writes, ..Packet::read(address, bytes, chunk_bytes, token) };
        self.request_time = ports.link.packet_time(Kind::MemoryRead, 0);
        self.window.cut_in(now, self.request_time);
        self.nvme.reads.request(packet, ports.link, ports.shared);
    }
}
