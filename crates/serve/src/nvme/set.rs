//! The queues that one thread looks after, and the way of a command from its queue to its answer.
//!
//! A controller has one set for each thread that serves it. A queue of commands is in the set of the queue that it answers to,
//! so that whoever has a set needs nothing of the others for a command; and what it writes then is on lines of its own. A set
//! is the controller's [at home](super::Controller), and a thread's while that serves it.

use std::io;
use std::ops::Range;

use phaselink_core::protocol::nvme::rules::completion::Done;
use phaselink_core::protocol::nvme::rules::{Limits, Shadow};
use phaselink_core::protocol::nvme::spec::{Status, SubmissionEntry};
use phaselink_core::request::Op;

use super::QUEUE_PAIRS_MAX;
use super::command::{Bytes, Command};
use super::controller::{Executed, Taken};
use super::host::{Host, Unreachable};
use super::logs::Journal;
use super::queues::{CompletionQueue, SubmissionQueue};
use super::strict::{self, Watch};
use crate::device::faults::FaultEffect;
use crate::device::store::Store;
use crate::device::tally::Undefined;

/// Queues of both kinds, the admin queue first, if it is among them.
const QUEUES: usize = QUEUE_PAIRS_MAX + 1;

/// Queues, with what serving them takes.
#[derive(Debug)]
#[repr(align(64))]
pub struct QueueSet {
    limits: Limits,
    /// By number; the admin queue is 0.
    submissions: [Option<SubmissionQueue>; QUEUES],
    completions: [Option<CompletionQueue>; QUEUES],
    /// Commands of each submission queue that have not been answered: no more than it has entries.
    under_way: [u32; QUEUES],
    /// One more than the highest number of a queue that is there.
    queues_end: u16,
    /// Something has been posted since the host was last interrupted.
    interrupt_pending: bool,
    /// The memory of a queue has gone, and with it all of them.
    pub(super) has_failed: bool,
    /// A doorbell has been given a value that its queue cannot have.
    pub(super) invalid_doorbell_value: bool,
    pub(super) shadow: Option<Shadow>,
    pub(super) write_cache: bool,
    /// What has been done since the controller last looked.
    pub(super) journal: Journal,
    /// Looks for what the specification leaves undefined, where that is wanted.
    pub(super) watch: Option<Box<Watch>>,
}

/// A set fills its lines, wherever it is.
const _: () = assert!(align_of::<QueueSet>() >= 64 && size_of::<QueueSet>().is_multiple_of(64));

impl QueueSet {
    /// No queues, of a controller with these limits.
    pub(super) fn new(limits: Limits) -> QueueSet {
        QueueSet {
            limits,
            submissions: [const { None }; QUEUES],
            completions: [const { None }; QUEUES],
            under_way: [0; QUEUES],
            queues_end: 0,
            interrupt_pending: false,
            has_failed: false,
            invalid_doorbell_value: false,
            shadow: None,
            write_cache: true,
            journal: Journal::default(),
            watch: None,
        }
    }

    /// What has been seen that the specification leaves undefined, since the last time.
    pub fn take_undefined(&mut self) -> Vec<(&'static Undefined, u64)> {
        self.watch.as_mut().map_or_else(Vec::new, |watch| watch.take())
    }

    #[inline]
    pub(super) fn watch(&mut self, look: impl FnOnce(&mut Watch)) {
        if let Some(watch) = &mut self.watch {
            look(watch);
        }
    }

    /// Numbers of the queues to look at; not all of them need to be there.
    #[inline]
    pub fn queues(&self) -> Range<u16> {
        0..self.queues_end
    }

    /// The same without the admin queue.
    #[inline]
    pub fn io_queues(&self) -> Range<u16> {
        1..self.queues_end
    }

    /// Whether there is anything for the controller to follow: a queue whose memory has gone, or a doorbell that makes no sense.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.has_failed | self.invalid_doorbell_value
    }

    /// Whether a host can have commands here, beside those of the admin queue.
    pub fn has_io_queues(&self) -> bool {
        self.submissions[1..].iter().any(Option::is_some) || self.completions[1..].iter().any(Option::is_some)
    }

    /// Where each queue is in the host's memory: address and bytes.
    pub fn places(&self) -> impl Iterator<Item = (u64, usize)> {
        let submissions = self.submissions.iter().flatten().map(SubmissionQueue::place);
        submissions.chain(self.completions.iter().flatten().map(CompletionQueue::place))
    }

    pub(super) fn submission(&self, queue: u16) -> Option<&SubmissionQueue> {
        self.submissions.get(usize::from(queue))?.as_ref()
    }

    pub(super) fn completion(&self, queue: u16) -> Option<&CompletionQueue> {
        self.completions.get(usize::from(queue))?.as_ref()
    }

    /// A queue of answers is there from now on.
    pub(super) fn add_completion(&mut self, queue: u16, completion: CompletionQueue) {
        self.completions[usize::from(queue)] = Some(completion);
        self.count_queues();
    }

    /// A queue of commands is, whose answers go to one of this set.
    pub(super) fn add_submission(&mut self, queue: u16, submission: SubmissionQueue) {
        if let Some(completion) = &mut self.completions[usize::from(submission.completion_queue)] {
            completion.users += 1;
        }
        self.submissions[usize::from(queue)] = Some(submission);
        self.under_way[usize::from(queue)] = 0;
        self.count_queues();
    }

    /// It goes. What is under way is answered to nobody.
    pub(super) fn remove_submission(&mut self, queue: u16) {
        let removed = self.submissions[usize::from(queue)].take();
        let answers = removed.and_then(|removed| self.completions[usize::from(removed.completion_queue)].as_mut());
        answers.into_iter().for_each(|completion| completion.users -= 1);
        self.watch(|watch| watch.forget(Some(queue)));
        self.count_queues();
    }

    pub(super) fn remove_completion(&mut self, queue: u16) {
        self.completions[usize::from(queue)] = None;
        self.count_queues();
    }

    /// All of them go.
    pub(super) fn clear(&mut self) {
        self.submissions.fill(None);
        self.completions.fill(None);
        self.under_way.fill(0);
        self.watch(|watch| watch.forget(None));
        self.count_queues();
    }

    /// See which queues there are.
    fn count_queues(&mut self) {
        let mut pairs = self.submissions.iter().zip(&self.completions);
        let last = pairs.rposition(|(submission, completion)| submission.is_some() || completion.is_some());
        self.queues_end = last.map_or(0, |last| last as u16 + 1);
    }

    /// The bytes of the next command of a queue and its generation, if there is one, room for its answer, and the doorbell was
    /// seen at the last [look](QueueSet::look): the host writes its line at every command, and each look fetches it.
    #[inline]
    pub(super) fn fetch(&mut self, queue: u16, host: &mut impl Host) -> Option<(Bytes, u32)> {
        if !self.has_room(queue, host) {
            return None;
        }
        let submission = self.submissions[usize::from(queue)].as_mut()?;
        let generation = submission.generation;
        match submission.fetch(host) {
            Ok(found) => found.map(|bytes| (bytes, generation)),
            Err(Unreachable) => {
                self.fail();
                None
            }
        }
    }

    /// The next command of a queue that is not the admin queue.
    #[inline]
    pub fn take_seen(&mut self, queue: u16, host: &mut impl Host) -> Taken {
        match self.fetch(queue, host) {
            Some((bytes, generation)) => Taken::Command(self.accept(queue, generation, &bytes, host)),
            None => Taken::Nothing,
        }
    }

    /// Take in the 64 bytes of a command of a queue of this generation.
    #[inline]
    pub(super) fn accept(&mut self, queue: u16, generation: u32, bytes: &Bytes, host: &mut impl Host) -> Command {
        self.watch(|watch| watch.on_command(queue, &SubmissionEntry::decode(bytes)));
        self.under_way[usize::from(queue)] += 1;
        let command = Command::check(bytes, queue, generation, &self.limits, host);
        self.watch(|watch| watch.on_checked(&command.entry(), &command.checked));
        command
    }

    /// The same command, whose data could not be reached when it was taken in.
    #[cold]
    pub fn check_again(&self, command: &Command, host: &mut impl Host) -> Command {
        Command::check(&command.bytes, command.queue, command.generation, &self.limits, host)
    }

    /// Execute a command and answer it, unless its answer waits for the disk, or its queue has gone meanwhile. `space` has
    /// room for the largest transfer.
    #[inline]
    pub fn execute(&mut self, command: &Command, host: &mut impl Host, store: &Store, space: &mut [u8]) -> Executed {
        let done = self.perform(command, host, store, space);
        self.finish(command, done, host)
    }

    /// Do what a command asks for, and do not answer it yet: what the answer to [`QueueSet::finish`] will be.
    ///
    /// # Errors
    /// The status of a command that is refused, or fails.
    #[inline]
    pub fn perform(
        &mut self,
        command: &Command,
        host: &mut impl Host,
        store: &Store,
        space: &mut [u8],
    ) -> Result<(), Status> {
        if !self.is_there(command) {
            return Err(Status::ABORT_REQUESTED);
        }
        command.execute(host, store, space, &mut self.journal)
    }

    /// Do as much of a command as its effect leaves, and do not answer it yet: what the answer will be, if there is one.
    ///
    /// # Errors
    /// As [`QueueSet::perform`]; and what a host is told of a fault of the memory, if it is to fail.
    #[cold]
    pub fn suffer(
        &mut self,
        command: &Command,
        effect: FaultEffect,
        host: &mut impl Host,
        store: &Store,
        space: &mut [u8],
    ) -> Result<(), Status> {
        let is_write = command.io().is_some_and(|io| io.op == Op::Write);
        // Data that reaches the host unannounced is data all the same; data of a read that fails does not.
        if let Some(torn) = command.torn(effect, store.geometry().block_bytes).filter(|_| is_write || !effect.fails) {
            self.perform(&torn, host, store, space)?;
        }
        match (effect.fails, is_write) {
            (false, _) => Ok(()),
            (true, true) => Err(Status::WRITE_FAULT),
            (true, false) => Err(Status::UNRECOVERED_READ_ERROR),
        }
    }

    /// The answer to a command comes once more.
    #[cold]
    pub fn repeat(&mut self, command: &Command, done: Result<(), Status>, host: &mut impl Host) {
        if self.is_there(command) {
            let status = command.posted(done.err().unwrap_or(Status::SUCCESS));
            self.answer(command.queue, command.entry().command_id, status, 0, host);
        }
    }

    /// A command is never answered: its place may be used again, if its host gives it up.
    #[cold]
    pub fn forget(&mut self, command: &Command) {
        if self.is_there(command) {
            self.under_way[usize::from(command.queue)] -= 1;
        }
    }

    /// Begin to fetch what performing a command will need.
    #[inline]
    pub fn prefetch(&self, command: &Command, host: &mut impl Host, store: &Store) {
        command.prefetch(host, store);
    }

    /// Answer a command that has been performed, unless that waits for the disk, or its queue has gone meanwhile.
    #[inline]
    pub fn finish(&mut self, command: &Command, done: Result<(), Status>, host: &mut impl Host) -> Executed {
        if !self.is_there(command) {
            return Executed::Answered(Status::ABORT_REQUESTED);
        }
        if done.is_ok() && command.waits_for_disk(self.write_cache) {
            return Executed::WaitsForDisk;
        }
        Executed::Answered(self.conclude(command, done, host))
    }

    /// The store has been flushed, or could not be, since [`QueueSet::execute`] said that a command waits for that: answer
    /// it, unless its queue has gone meanwhile.
    pub fn commit(&mut self, command: &Command, flushed: io::Result<()>, host: &mut impl Host) -> Status {
        if !self.is_there(command) {
            return Status::ABORT_REQUESTED;
        }
        self.conclude(command, flushed.map_err(|_| command.loss()), host)
    }

    /// Whether the queue of a command is still the one that it was in.
    #[inline]
    fn is_there(&self, command: &Command) -> bool {
        let queue = self.submissions[usize::from(command.queue)].as_ref();
        queue.is_some_and(|queue| queue.generation == command.generation)
    }

    #[inline]
    fn conclude(&mut self, command: &Command, done: Result<(), Status>, host: &mut impl Host) -> Status {
        let queue = command.queue;
        self.under_way[usize::from(queue)] -= 1;
        let status = done.err().unwrap_or(Status::SUCCESS);
        if status != Status::SUCCESS {
            self.note_failure(queue, &command.entry(), status);
        }
        self.answer(queue, command.entry().command_id, command.posted(status), 0, host);
        status
    }

    #[cold]
    pub(super) fn note_failure(&mut self, queue: u16, entry: &SubmissionEntry, status: Status) {
        self.journal.note_failure(queue, entry.command_id, status, entry.namespace_id, entry.slba());
    }

    /// Generation and entries of a submission queue, if it is there.
    pub fn submission_queue(&self, queue: u16) -> Option<(u32, u32)> {
        let submission = self.submissions[usize::from(queue)].as_ref()?;
        Some((submission.generation, submission.ring.entries()))
    }

    /// Interrupt the host for what has been posted since the last time.
    #[inline]
    pub fn signal(&mut self, host: &mut impl Host) {
        if !std::mem::take(&mut self.interrupt_pending) {
            return;
        }
        let queues = usize::from(self.queues_end);
        for completion in self.completions[..queues].iter_mut().flatten() {
            if completion.interrupt_pending {
                completion.interrupt_pending = false;
                completion.vector.into_iter().for_each(|vector| host.interrupt(vector));
            }
        }
    }

    /// Interrupts by pin have been unmasked: they are due for everything that the host has not seen.
    pub(super) fn interrupt_again(&mut self, host: &mut impl Host) {
        for queue in self.queues() {
            self.look_at_head(queue, host);
            if let Some(completion) = &mut self.completions[usize::from(queue)] {
                completion.interrupt_pending |= completion.ring.has_unread();
                self.interrupt_pending |= completion.interrupt_pending;
            }
        }
    }

    /// Before the one who serves these queues sleeps: ask the host to ring its register for the next command. Whether one
    /// has come before it could see that.
    pub fn ask_to_ring(&mut self, host: &mut impl Host) -> bool {
        let Some(shadow) = self.shadow else { return false };
        for (number, submission) in (0..).zip(&self.submissions) {
            let Some(submission) = submission else { continue };
            host.poke(shadow.tail_event(number), submission.ring.tail());
        }
        for (number, completion) in (0..).zip(&self.completions) {
            let Some(completion) = completion else { continue };
            if completion.ring.is_full() || completion.is_holding() {
                host.poke(shadow.head_event(number), completion.ring.head());
            }
        }
        self.has_work(host)
    }

    /// Whether there is anything to take or to tell.
    pub fn has_work(&mut self, host: &mut impl Host) -> bool {
        self.release_held(host);
        self.queues().fold(self.interrupt_pending, |any, queue| self.look(queue, host) | any)
    }

    /// See the doorbell of a queue; whether it has commands.
    #[inline]
    pub fn look(&mut self, queue: u16, host: &mut impl Host) -> bool {
        let Some(submission) = &mut self.submissions[usize::from(queue)] else { return false };
        let rung = match self.shadow.filter(|_| queue > 0) {
            None => Some(host.doorbells(queue).0),
            Some(shadow) => host.peek(shadow.tail(queue.into())),
        };
        if rung.is_some_and(|tail| submission.ring(tail).is_err()) {
            self.note_invalid_doorbell();
        }
        let submission = self.submissions[usize::from(queue)].as_mut();
        let is_busy = submission.is_some_and(|submission| !submission.ring.is_empty());
        if queue == 0 && is_busy {
            self.keep_admin_ringing(host);
        }
        is_busy
    }

    #[cold]
    fn note_invalid_doorbell(&mut self) {
        self.invalid_doorbell_value = true;
        self.watch(|watch| watch.note(&strict::DOORBELL_VALUE));
    }

    /// The admin queue's register is always rung: there is nothing to gain from sharing that one.
    fn keep_admin_ringing(&self, host: &mut impl Host) {
        let (Some(shadow), Some(submission)) = (self.shadow, &self.submissions[0]) else { return };
        host.poke(shadow.tail_event(0), submission.ring.tail());
    }

    /// Whether a queue's next command could be answered.
    #[inline]
    fn has_room(&mut self, queue: u16, host: &mut impl Host) -> bool {
        let Some(submission) = &self.submissions[usize::from(queue)] else { return false };
        let answers = submission.completion_queue;
        if self.under_way[usize::from(queue)] >= submission.ring.entries() {
            return false;
        }
        let is_short = |completion: &CompletionQueue| completion.ring.is_full() || completion.is_holding();
        if !self.completions[usize::from(answers)].as_ref().is_none_or(is_short) {
            return true;
        }
        self.look_at_head(answers, host);
        self.completions[usize::from(answers)].as_ref().is_some_and(|completion| !is_short(completion))
    }

    /// See how far the host has read a completion queue, and post what has waited for that.
    fn look_at_head(&mut self, queue: u16, host: &mut impl Host) {
        let Some(completion) = &mut self.completions[usize::from(queue)] else { return };
        let rung = match self.shadow.filter(|_| queue > 0) {
            None => Some(host.doorbells(queue).1),
            Some(shadow) => host.peek(shadow.head(queue.into())),
        };
        let is_invalid = rung.is_some_and(|head| completion.ring(head).is_err());
        let released = completion.release(host);
        self.interrupt_pending |= completion.interrupt_pending;
        if is_invalid {
            self.note_invalid_doorbell();
        }
        if released.is_err() {
            self.fail();
        }
    }

    /// Let go of answers that have found no room.
    #[inline]
    pub fn release_held(&mut self, host: &mut impl Host) {
        for queue in self.queues() {
            if self.completions[usize::from(queue)].as_ref().is_some_and(CompletionQueue::is_holding) {
                self.look_at_head(queue, host);
            }
        }
    }

    /// Post the answer to a command of a submission queue.
    #[inline]
    pub(super) fn answer(&mut self, queue: u16, command_id: u16, status: Status, result: u32, host: &mut impl Host) {
        self.watch(|watch| watch.on_answer(queue, command_id));
        let Some(submission) = &self.submissions[usize::from(queue)] else { return };
        let submission_head = submission.ring.head() as u16;
        let done = Done { command_id, submission_queue: queue, submission_head, result, status };
        let Some(completion) = &mut self.completions[usize::from(submission.completion_queue)] else { return };
        let posted = completion.post(done, host);
        self.interrupt_pending |= completion.interrupt_pending;
        if let Err(Unreachable) = posted {
            self.fail();
        }
    }

    /// A queue's memory has gone: nothing can be said to the host but that, by the controller.
    #[cold]
    fn fail(&mut self) {
        self.has_failed = true;
        self.clear();
    }
}
