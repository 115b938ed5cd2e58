//! Steps of a real host's NVMe command, from its fetch to its completion.
//!
//! A real host has its own driver, which takes the place of the modelled one. With timing on, a command enters the
//! model at the doorbell's packet, as the served controller has decoded it, with its lists of pages. The model's
//! controller fetches command and lists over the link, moves the data and posts the completion entry. Commands that are
//! refused take their time like others, and so do flushes and deallocations. A write with force unit access ends when
//! the modelled buffer has been flushed. Admin commands take no time.
//!
//! So that real delays are not added to modelled ones, a doorbell counts as written halfway between the polling round
//! that found it and the round before. Data moves as soon as the model knows the instant of completion. The completion
//! entry is written at that instant, less the round trip of a word between server and client. Whatever is later is the
//! lag, which does not include the time of an interrupt into a virtual machine.

use std::io;
use std::sync::Arc;

use phaselink_core::config::Fault;
use phaselink_core::drive::Drive;
use phaselink_core::number::low_u16;
use phaselink_core::protocol::nvme::commands::{ChangedState, CommandSet, MediaUse};
use phaselink_core::protocol::nvme::spec::Status;
use phaselink_core::request::{Io, Op};
use phaselink_core::time::{Span, Time};

use super::kind::{STRICT, Switch};
use super::lifecycle::{
    Completion, Endpoint, Fetch, PollingRoundTimes, Request, RequestClass, RequestInFlight, RequestLifecycle,
};
use super::model::{ModelledHostQueue, Submission};
use super::service::FrontEndService;
use crate::clock::Clock;
use crate::device::Device;
use crate::device::faults::{ConnectionFault, FaultEffect};
use crate::device::record::Record;
use crate::device::store::Store;
use crate::nvme::arbitration::QueuePriorityClass;
use crate::nvme::{Command, CommandProgress, Host, Identity, NextCommand, QueueSet, limits};

/// Flag of the front-ends whose hosts drive an NVMe controller.
pub(super) const STRICT_SWITCH: Switch = Switch {
    name: STRICT,
    alias: "strict-nvme",
    help: "Tell at the end what hosts over vfio-user or NVMe/TCP have done that the NVMe specification leaves undefined",
};

/// Returns the drive that is modelled for hosts with software of their own: with queues for `controllers` controllers,
/// and without the costs of the modelled host.
pub fn behind_the_doorbell(drive: &Drive, controllers: usize) -> Drive {
    let mut drive = drive.without_faults();
    drive.nvme.queue_pairs = limits::offered_queue_pairs(&drive) * controllers as u32;
    drive.stack.clear_costs();
    drive.host.clear_software_costs();
    drive
}

/// Returns an identity as one of the drive's NVM subsystem. The first front-end that joins brings the subsystem, with the
/// state that the store has kept, and has changes recorded in the device's history, if it has one.
///
/// # Errors
/// If the store has namespaces that the drive cannot have.
pub(super) fn join_nvm_subsystem(service: &FrontEndService<'_>, identity: &Identity) -> io::Result<Identity> {
    let device = service.device;
    let subsystem = service.shared(|| {
        device.history.iter().for_each(|history| identity.subsystem.record(history));
        identity.subsystem.load(&device.store)?;
        Ok(Arc::clone(&identity.subsystem))
    })?;
    Ok(identity.clone().sharing(&subsystem))
}

/// Host whose queues a thread polls.
pub(super) trait QueueHost: Host {
    /// True if the host is about to move to another thread, so that no further commands are fetched.
    fn is_leaving(&self) -> bool {
        false
    }

    /// Returns true if memory was out of the thread's reach since the last call.
    fn take_out_of_reach(&mut self) -> bool {
        false
    }

    /// Sends everything that the completions of a batch have left to be sent.
    fn end_batch(&mut self) {}

    /// True if a fault can happen to the connection of a queue.
    fn can_disturb(&self, _queue: u16, _fault: &Fault) -> bool {
        false
    }

    /// Applies a fault to the connection of a queue, on which a command has arrived.
    fn disturb(&mut self, _queue: u16, _command_id: u16, _fault: ConnectionFault) -> CommandFate {
        CommandFate::Executed
    }
}

/// Fate of a command whose connection a fault has disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandFate {
    /// The command is executed.
    Executed,
    /// The command is completed with this status, without being executed.
    Refused(Status),
    /// The command is gone.
    Dropped,
}

/// Way by which a request reaches the thread that owns its controller.
pub(super) trait HandOver {
    /// Hands a request over to the owner of the controller.
    fn hand_over(&self, request: RequestInFlight<CommandRequest>);
}

/// Index by which the thread that has fetched a command finds the command's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Index of one of the controllers whose sockets the thread owns.
    Owned(usize),
    /// Index of one of the sets of queues that the thread borrows.
    Borrowed(usize),
}

/// NVMe command of a client, from its fetch to its completion.
#[derive(Debug)]
pub(super) struct CommandRequest {
    pub place: Place,
    /// Number of the client among all that its controller has had. Commands of a client that has gone are dropped.
    pub client: u64,
    pub command: Box<Command>,
    /// Modelled queue that the command enters; none with timing off.
    model_queue: Option<ModelledHostQueue>,
    /// True if data or lists of the command were out of the thread's reach when it was fetched, so that it must be read
    /// and checked again.
    pub is_unread: bool,
}

impl Request for CommandRequest {
    type Status = Result<(), Status>;

    #[inline]
    fn io(&self) -> Option<Io> {
        self.command.io()
    }

    #[inline]
    fn class(&self) -> Option<RequestClass> {
        let checked = self.command.checked.as_ref().ok().filter(|checked| !checked.row.is_management())?;
        let bytes = match checked.row.media {
            MediaUse::Discard => self.command.ranges.iter().map(|(_, bytes)| bytes).sum(),
            _ => checked.bytes.into(),
        };
        Some(RequestClass { op: checked.op(), bytes })
    }

    /// Returns the number of the command's I/O queue, counted from 0.
    #[inline]
    fn thread(&self) -> u64 {
        u64::from(self.command.queue()) - 1
    }

    /// Adds the reads and writes of the command to the trace. A command that is refused adds nothing.
    fn note(&self, record: &Record) {
        let Command { checked: Ok(checked), ranges, .. } = &*self.command else { return };
        let note_all = |op| ranges.iter().for_each(|(offset, bytes)| record.record_long_request(op, *offset, *bytes));
        let row = checked.row;
        // Traces have no operations for unreadable blocks, zones, reclaim units and keys. A write of zeros would replay
        // differently, so add nothing.
        if row.is_management() || row.changes == ChangedState::MadeUnreadable || row.set == CommandSet::Keys {
            return;
        }
        if row.media == MediaUse::Discard {
            return note_all(Op::Discard);
        }
        note_all(Op::Read);
        record.record_long_request(checked.op(), checked.offset, checked.bytes.into());
        if checked.is_forced {
            record.note(Io::flush());
        }
    }

    fn submission(&self, part: usize) -> Option<Submission> {
        let queue = self.model_queue.filter(|_| part == 0)?;
        Some(Submission::Command { queue, io: self.command.io(), command: Box::new(self.command.to_model_command()) })
    }

    /// Returns the instant halfway between the polling round that found the doorbell and the round before.
    fn submitted(&self, _: &Clock, PollingRoundTimes { before, now }: PollingRoundTimes) -> Time {
        before + Span::from_ps(now.since(before).as_ps() / 2)
    }
}

/// Set of queues with access to its client, on the thread that owns or borrows the set.
pub(super) struct QueueEndpoint<'e, H, G> {
    pub place: Place,
    pub client: u64,
    pub groups: &'e G,
    pub set: &'e mut QueueSet,
    pub host: &'e mut H,
    /// Number of the modelled queue that stands for the controller's I/O queue 1; none with timing off, or if no
    /// commands are fetched.
    pub first_model_queue: Option<u16>,
}

impl<H: QueueHost, G: HandOver> QueueEndpoint<'_, H, G> {
    /// Reads and checks a command again, if its data or lists were out of the reach of the thread that fetched it.
    pub(super) fn reread_unreachable_command(&mut self, request: &mut CommandRequest) {
        if std::mem::take(&mut request.is_unread) {
            *request.command = self.set.recheck_reachability(&request.command, self.host);
        }
    }

    #[inline]
    fn model_queue(&self, queue: u16) -> Option<ModelledHostQueue> {
        let first = self.first_model_queue?;
        let (generation, entries, has_interrupts) = self.set.submission_queue(queue)?;
        let owner = self.client << 32 | u64::from(generation);
        Some(ModelledHostQueue { number: first + queue - 1, owner, entries, has_interrupts })
    }
}

impl<H: QueueHost, G: HandOver> Endpoint<CommandRequest> for QueueEndpoint<'_, H, G> {
    const COMPLETES_TOGETHER: bool = true;

    #[inline]
    fn look_ahead(&mut self, queue: u32, most: u32, store: &Store) {
        self.set.prefetch_next_reads(low_u16(queue), most, self.host, store);
    }

    #[inline]
    fn fetch(&mut self, queue: u32, store: &Store) -> Fetch<CommandRequest> {
        let queue = low_u16(queue);
        if self.host.is_leaving() {
            return Fetch::Nothing;
        }
        let found = self.set.next_io_command_ahead(queue, self.host, store);
        let NextCommand::Io(command) = found else { return Fetch::Nothing };
        let (place, client, model_queue) = (self.place, self.client, self.model_queue(queue));
        if self.host.take_out_of_reach() {
            return Fetch::OutOfReach(CommandRequest { place, client, command, model_queue, is_unread: true });
        }
        Fetch::Request(CommandRequest { place, client, command, model_queue, is_unread: false })
    }

    #[inline]
    fn transfer(
        &mut self,
        request: &CommandRequest,
        effect: FaultEffect,
        device: &Device,
        space: &mut Vec<u8>,
    ) -> Option<Result<(), Status>> {
        let CommandRequest { command, .. } = request;
        let done = match effect == FaultEffect::default() {
            true => self.set.perform(command, self.host, &device.store, space),
            false => self.set.execute_with_fault(command, effect, self.host, &device.store, space),
        };
        (!self.host.take_out_of_reach()).then_some(done)
    }

    #[inline]
    fn complete(&mut self, request: &CommandRequest, done: Result<(), Status>, _: Span, _: &Device) -> Completion {
        match self.set.complete(&request.command, done, self.host) {
            CommandProgress::Completed(status) => Completion::Written(status == Status::SUCCESS),
            CommandProgress::NeedsFlush => Completion::AfterFlush,
        }
    }

    #[inline]
    fn end_batch(&mut self) {
        self.set.write_batched_completions(self.host);
        self.host.end_batch();
    }

    fn repeat(&mut self, request: &CommandRequest, done: Result<(), Status>, _: &Device) {
        self.set.post_second_completion(&request.command, done, self.host);
    }

    fn commit(&mut self, request: &CommandRequest, flushed: io::Result<()>, _: Span) -> bool {
        self.set.complete_flushed(&request.command, flushed, self.host) == Status::SUCCESS
    }

    #[inline]
    fn recycle(&mut self, request: CommandRequest) {
        self.set.recycle(request.command);
    }

    fn abandon(&mut self, request: &CommandRequest) {
        self.set.drop_without_completion(&request.command);
    }

    fn can_happen(&self, request: &CommandRequest, fault: &Fault) -> bool {
        !fault.action.is_network_connection_effect() || self.host.can_disturb(request.command.queue(), fault)
    }

    fn disturb(&mut self, request: &CommandRequest, fault: ConnectionFault) -> bool {
        let command = &request.command;
        match self.host.disturb(command.queue(), command.entry().command_id, fault) {
            CommandFate::Executed => return true,
            CommandFate::Dropped => self.set.drop_without_completion(command),
            CommandFate::Refused(status) => {
                self.set.complete(command, Err(status), self.host);
                self.end_batch();
            }
        }
        false
    }

    fn hand_over(&self, request: RequestInFlight<CommandRequest>) {
        self.groups.hand_over(request);
    }
}

/// Maximum number of commands of a priority class that are fetched before the thread does anything else.
const COMMANDS_OF_ROUND: u32 = 256;

/// Fetches and begins commands of every I/O queue in a set; returns true if there was any.
#[inline]
pub(super) fn fetch_from_all_queues<H: QueueHost, G: HandOver>(
    life: &mut RequestLifecycle<'_, CommandRequest>,
    endpoint: &mut QueueEndpoint<'_, H, G>,
) -> bool {
    if endpoint.set.arbitration.is_some() {
        return fetch_by_priority_class(life, endpoint);
    }
    let mut found = false;
    for queue in endpoint.set.io_queue_ids() {
        if endpoint.set.poll_tail_doorbell(queue, endpoint.host) {
            found |= life.fetch_and_execute_batch(endpoint, queue.into());
            endpoint.set.send_interrupts(endpoint.host);
        }
    }
    found
}

/// Fetches and begins commands of the I/O queues in a set by their priority classes; returns true if there was any.
/// While there are urgent commands, the other classes wait.
#[cold]
fn fetch_by_priority_class<H: QueueHost, G: HandOver>(
    life: &mut RequestLifecycle<'_, CommandRequest>,
    endpoint: &mut QueueEndpoint<'_, H, G>,
) -> bool {
    let mut found = false;
    for class in QueuePriorityClass::ALL {
        found |= fetch_priority_class_round(life, endpoint, class);
        if found && class == QueuePriorityClass::Urgent {
            break;
        }
    }
    found
}

/// Fetches and begins as many commands of a priority class as a round of arbitration allows; returns true if there was
/// any.
fn fetch_priority_class_round<H: QueueHost, G: HandOver>(
    life: &mut RequestLifecycle<'_, CommandRequest>,
    endpoint: &mut QueueEndpoint<'_, H, G>,
    class: QueuePriorityClass,
) -> bool {
    let (mut found, mut idle) = (false, endpoint.set.io_queue_ids().len());
    let mut left = endpoint.set.arbitration.map_or(0, |arbitration| arbitration.round(class)).min(COMMANDS_OF_ROUND);
    while left > 0 && idle > 0 {
        let Some((queue, most)) = endpoint.set.take_turn(class, left, endpoint.host) else { break };
        let fetched = life.fetch_and_execute_up_to(endpoint, queue.into(), most);
        endpoint.set.send_interrupts(endpoint.host);
        // A queue whose completion queue is full yields no commands. Stop once no queue has yielded any.
        idle = if fetched > 0 { endpoint.set.io_queue_ids().len() } else { idle - 1 };
        (left, found) = (left - fetched, found || fetched > 0);
    }
    found
}
