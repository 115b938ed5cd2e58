//! Queues of real hosts, whose own drivers write the commands. The simulation covers the path from the doorbell to the
//! completion queue entry.
//!
//! A command takes the next slot of the simulated queue. Its 64 bytes are copied there, unless a served controller has
//! decoded the command already. The doorbell crosses the link, and the controller fetches and completes the command like
//! any other. The model ends when the completion queue entry is in memory; the real host then spends its own time.

use super::driver::Queue;
use super::rules::queues::wrapped;
use super::served::ServedHostCommand;
use super::spec::{COMPLETION_ENTRY_BYTES, SUBMISSION_ENTRY_BYTES, SubmissionEntry};
use crate::ledger::Stage;
use crate::number::{index, length};
use crate::protocol::ports::HostPorts;
use crate::protocol::real_hosts::{HostCommand, HostCommandForm};
use crate::request::{NamedWritePlace, NextRequest, RequestId};
use crate::time::Time;

/// Command of a real host whose completion queue entry is not in host memory yet.
#[derive(Clone, Copy, Debug)]
struct InFlightCommand {
    command_id: u16,
    token: u32,
    request: Option<RequestId>,
}

/// Commands of real hosts that are in flight, for each queue in the order of their submission.
#[derive(Clone, Debug)]
pub(super) struct RealHost {
    queues: Vec<Vec<InFlightCommand>>,
}

impl RealHost {
    /// Returns an empty table of commands in flight for this number of queues.
    pub(super) fn new(queues: usize) -> RealHost {
        RealHost { queues: vec![Vec::new(); queues] }
    }

    /// True if no command of queue `number` is in flight.
    pub(super) fn is_idle(&self, number: u16) -> bool {
        self.queues[usize::from(number)].is_empty()
    }

    /// Resets an idle queue pair that a real host has created again with this number of entries, and clears its old
    /// completion queue entries.
    pub(super) fn begin(&self, entries: u32, queue: &mut Queue, ports: &mut HostPorts) {
        (queue.entries, queue.tail, queue.completion_head, queue.phase) = (entries, 0, 0, true);
        // Clear the entries, so that an entry of an earlier queue is not mistaken for a new one.
        ports.memory.write(queue.completion_base, &vec![0; index(queue.entries) * COMPLETION_ENTRY_BYTES]);
    }

    /// Returns the number of further commands that the queue has free slots for.
    pub(super) fn room(&self, number: u16, queue: &Queue) -> usize {
        index(queue.entries) - 1 - self.queues[usize::from(number)].len()
    }

    /// Places a real host's command, which arrives at `now`, in the next slot of its submission queue. Opens a
    /// request for its counters, charged to `thread`, if it is not refused already. Returns the slot.
    pub(super) fn place(
        &mut self,
        now: Time,
        thread: u16,
        command: &HostCommand,
        queue: &mut Queue,
        ports: &mut HostPorts,
    ) -> u32 {
        let slot = queue.tail;
        queue.tail = wrapped(slot + 1, queue.entries);
        let command_id = match &command.form {
            HostCommandForm::Bytes { entry, .. } => {
                let address = queue.submission_base + u64::from(slot) * length(SUBMISSION_ENTRY_BYTES);
                ports.memory.write(address, &entry[..]);
                SubmissionEntry::decode(entry).command_id
            }
            HostCommandForm::Decoded(decoded) => ServedHostCommand::id(decoded),
        };
        let request = command.io.map(|io| {
            ports.shared.requests.issued += 1;
            let (id, number) = (ports.shared.requests.occupy(), ports.shared.requests.issued);
            let request = &mut ports.shared.requests[id];
            let due = now - command.delayed;
            request.open(
                number,
                NextRequest { io, due, drive: 0, ends_commit: false, target: NamedWritePlace::Any },
                now,
                thread,
                Some(command.token),
            );
            request.ledger.until(Stage::Queued, now);
            id
        });
        ports.slots.bind_optional_request(command.queue.into(), index(slot), request);
        self.queues[usize::from(command.queue)].push(InFlightCommand { command_id, token: command.token, request });
        slot
    }

    /// Consumes the new entries of a completion queue and reports the commands of real hosts that they complete.
    pub(super) fn on_entry_settled(&mut self, now: Time, number: u16, queue: &mut Queue, ports: &mut HostPorts) {
        let in_flight = &mut self.queues[usize::from(number)];
        while let Some(entry) = queue.next_entry(ports.memory) {
            // If a host reuses an identifier that is in flight, the older command completes first.
            let place = in_flight.iter().position(|command| command.command_id == entry.command_id);
            let InFlightCommand { token, request, .. } =
                in_flight.remove(place.expect("only commands in flight complete"));
            ports.shared.requests.charge(request, Stage::CompletionEntry, now);
            ports.shared.requests.answered.push_back((token, request));
        }
    }
}
