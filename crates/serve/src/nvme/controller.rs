//! The controller: its life from enabling to shutting down, and the way of a command from its queue to its answer.

use std::io;
use std::ops::Range;
use std::time::Duration;

use phaselink_core::protocol::nvme::rules::Shadow;
use phaselink_core::protocol::nvme::rules::completion::{Done, refusal};
use phaselink_core::protocol::nvme::spec::{Status, SubmissionEntry};
use phaselink_core::request::Op;

use super::QUEUE_PAIRS_MAX;
use super::admin::{Answer, Formatting};
use super::command::{Bytes, Command};
use super::events::{Event, Events};
use super::features::Features;
use super::host::{Host, Unreachable};
use super::identify::Identity;
use super::logs::Journal;
use super::queues::{CompletionQueue, SubmissionQueue};
use super::strict::{self, Watch};
use crate::device::faults::Mishap;
use crate::device::store::Store;
use crate::device::tally::Undefined;

/// A controller without its registers, which are the [`Host`]'s.
#[derive(Debug)]
pub struct Controller {
    pub(super) identity: Identity,
    is_enabled: bool,
    /// By number; the admin queue is 0.
    pub(super) submissions: Vec<Option<SubmissionQueue>>,
    pub(super) completions: Vec<Option<CompletionQueue>>,
    pub(super) features: Features,
    pub(super) events: Events,
    pub(super) journal: Journal,
    pub(super) shadow: Option<Shadow>,
    /// Something has been posted since the host was last interrupted.
    interrupt_pending: bool,
    /// The host has said that it is there.
    pub(super) heard: bool,
    /// A Format NVM that has yet to be done.
    pub(super) formatting: Option<Formatting>,
    /// Submission queues so far.
    pub(super) generations: u32,
    /// One more than the highest number of a queue that is there.
    queues_end: u16,
    /// Commands of each submission queue that have not been answered: no more than it has entries.
    pub(super) under_way: Vec<u32>,
    /// Looks for what the specification leaves undefined, where that is wanted.
    pub(super) watch: Option<Box<Watch>>,
}

/// What a look at a queue has found.
#[allow(
    clippy::large_enum_variant,
    reason = "most looks that find something find a command, and none is to be allocated"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    Nothing,
    /// An admin command: it has been answered, or waits for an event.
    Answered(Status),
    /// A command to be executed, now or later; one that is refused is answered then.
    Command(Command),
}

/// How far a command has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executed {
    /// To its end.
    Answered(Status),
    /// It is done, and is to be durable before it is answered: by [`Controller::commit`].
    WaitsForDisk,
}

impl Controller {
    /// A controller that has just been powered on.
    pub fn new(identity: Identity) -> Controller {
        Controller {
            features: Features::new(&identity.limits),
            identity,
            is_enabled: false,
            submissions: vec![None; QUEUE_PAIRS_MAX + 1],
            completions: vec![None; QUEUE_PAIRS_MAX + 1],
            events: Events::default(),
            journal: Journal::default(),
            shadow: None,
            interrupt_pending: false,
            heard: false,
            formatting: None,
            generations: 0,
            queues_end: 0,
            under_way: vec![0; QUEUE_PAIRS_MAX + 1],
            watch: None,
        }
    }

    /// The same, looking for what hosts do that the specification leaves undefined.
    pub fn watched(self) -> Controller {
        Controller { watch: Some(Box::default()), ..self }
    }

    /// What has been seen of that since the last time.
    pub fn take_undefined(&mut self) -> Vec<(&'static Undefined, u64)> {
        self.watch.as_mut().map_or_else(Vec::new, |watch| watch.take())
    }

    #[inline]
    pub(super) fn watch(&mut self, look: impl FnOnce(&mut Watch)) {
        if let Some(watch) = &mut self.watch {
            look(watch);
        }
    }

    /// The client has gone, or the power: only the journal stays.
    pub fn power_off(&mut self) {
        self.disable();
    }

    /// Time within which the host has to say that it is there, if it wants to be watched; and whether it has said so
    /// since the last look.
    pub fn keep_alive(&mut self) -> Option<(Duration, bool)> {
        let heard = std::mem::take(&mut self.heard);
        let time = Duration::from_millis(self.features.keep_alive_ms.into());
        (self.is_enabled && !time.is_zero()).then_some((time, heard))
    }

    /// The host has not said so in time: section 3.9, it is fatal.
    pub fn give_up(&mut self, host: &mut impl Host) {
        self.features.keep_alive_ms = 0;
        self.fail(host);
    }

    /// Numbers of the queues to look at, the admin queue first; not all of them need to be there.
    #[inline]
    pub fn queues(&self) -> Range<u16> {
        0..self.queues_end
    }

    /// See which queues there are.
    pub(super) fn count_queues(&mut self) {
        let mut pairs = self.submissions.iter().zip(&self.completions);
        let last = pairs.rposition(|(submission, completion)| submission.is_some() || completion.is_some());
        self.queues_end = last.map_or(0, |last| last as u16 + 1);
    }

    pub(super) fn has_io_queues(&self) -> bool {
        let others = self.submissions[1..].iter().any(Option::is_some);
        others || self.completions[1..].iter().any(Option::is_some)
    }

    /// Do what the registers ask for: reset, enable, shut down, tell of doorbells that are not there.
    #[inline]
    pub fn update(&mut self, host: &mut impl Host, store: &Store) {
        if let Some(watch) = &mut self.watch {
            host.registers().take_seen().into_iter().for_each(|seen| watch.note(seen));
        }
        let registers = host.registers();
        if registers.reset {
            registers.reset = false;
            registers.set_ready(false);
            self.disable();
        }
        let registers = host.registers();
        if registers.is_enabled() != self.is_enabled {
            self.enable(host);
        }
        let registers = host.registers();
        if registers.wants_shutdown() != registers.is_shut_down() && !registers.is_fatal() {
            self.shut_down(host, store);
        }
        let registers = host.registers();
        if std::mem::take(&mut registers.invalid_doorbell) {
            self.events.raise(Event::InvalidDoorbell);
        }
        if std::mem::take(&mut host.registers().recheck) {
            self.interrupt_again(host);
        }
        self.format(host, store);
        self.tell(host);
        self.signal(host);
    }

    /// Section 3.7.2: queues, features and events are gone; the journal and the data stay.
    fn disable(&mut self) {
        self.is_enabled = false;
        self.drop_queues();
        self.features = Features::new(&self.identity.limits);
        self.events = Events::default();
        self.shadow = None;
        self.formatting = None;
    }

    /// Section 3.5.1: the admin queue is where the registers say.
    fn enable(&mut self, host: &mut impl Host) {
        self.is_enabled = host.registers().is_enabled();
        if !self.is_enabled {
            return;
        }
        let registers = host.registers();
        let [(submission, submission_entries), (completion, completion_entries)] = registers.admin_queues();
        if !registers.is_configuration_valid() || submission_entries < 2 || completion_entries < 2 {
            return registers.set_fatal();
        }
        registers.set_ready(true);
        self.features.begin(host.now_ms());
        for queue in 0..=QUEUE_PAIRS_MAX as u16 {
            host.clear_doorbells(queue, true, true);
        }
        self.generations = self.generations.wrapping_add(1);
        let mut answers = CompletionQueue::new(completion, completion_entries, Some(0));
        answers.users = 1;
        self.completions[0] = Some(answers);
        self.submissions[0] = Some(SubmissionQueue::new(submission, submission_entries, 0, self.generations));
        self.count_queues();
    }

    /// Section 3.6: what has been written is durable when the host hears that it may switch off. A host that takes its
    /// wish back hears that too.
    fn shut_down(&mut self, host: &mut impl Host, store: &Store) {
        let wants = host.registers().wants_shutdown();
        let is_safe = !wants || store.flush().is_ok();
        match is_safe {
            true => host.registers().set_shut_down(wants),
            false => host.registers().set_fatal(),
        }
    }

    /// The next command of a queue, if there is one and room for its answer. An admin command is done at once.
    #[inline]
    pub fn take(&mut self, queue: u16, host: &mut impl Host) -> Taken {
        if self.look(queue, host) { self.take_seen(queue, host) } else { Taken::Nothing }
    }

    /// The same as far as the doorbell was seen at the last [look](Controller::look): the host writes its line at every
    /// command, and each look fetches it.
    #[inline]
    pub fn take_seen(&mut self, queue: u16, host: &mut impl Host) -> Taken {
        if !self.has_room(queue, host) {
            return Taken::Nothing;
        }
        let Some(submission) = &mut self.submissions[usize::from(queue)] else { return Taken::Nothing };
        let generation = submission.generation;
        match submission.fetch(host) {
            Ok(Some(bytes)) => self.accept(queue, generation, &bytes, host),
            Ok(None) => Taken::Nothing,
            Err(Unreachable) => {
                self.fail(host);
                Taken::Nothing
            }
        }
    }

    /// Take in the 64 bytes of a command as if they had been in a queue: the admin queue, if `queue` is 0. Any bytes
    /// will do, so that this is a place to begin for whoever feeds it random ones. A command belongs to the queue of this
    /// generation, the first of which is 1.
    ///
    /// # Panics
    /// If no queue can have this number.
    #[inline]
    pub fn accept(&mut self, queue: u16, generation: u32, bytes: &Bytes, host: &mut impl Host) -> Taken {
        self.watch(|watch| watch.on_command(queue, &SubmissionEntry::decode(bytes)));
        if queue > 0 {
            self.under_way[usize::from(queue)] += 1;
            let command = Command::check(bytes, queue, generation, &self.identity.limits, host);
            self.watch(|watch| watch.on_checked(&command.entry(), &command.checked));
            return Taken::Command(command);
        }
        let entry = SubmissionEntry::decode(bytes);
        match self.administer(&entry, host) {
            Ok(Answer::Done(result)) => self.answer(queue, entry.command_id, Status::SUCCESS, result, host),
            Ok(Answer::Later) => {}
            Err(status) => {
                self.note_failure(queue, &entry, status);
                self.answer(queue, entry.command_id, refusal(status), 0, host);
                return Taken::Answered(status);
            }
        }
        Taken::Answered(Status::SUCCESS)
    }

    #[cold]
    fn note_failure(&mut self, queue: u16, entry: &SubmissionEntry, status: Status) {
        self.journal.note_failure(queue, entry.command_id, status, entry.namespace_id, entry.slba());
    }

    /// Execute a command and answer it, unless its answer waits for the disk, or its queue has gone meanwhile. `space` has
    /// room for the largest transfer.
    #[inline]
    pub fn execute(&mut self, command: &Command, host: &mut impl Host, store: &Store, space: &mut [u8]) -> Executed {
        let done = self.perform(command, host, store, space);
        self.finish(command, done, host)
    }

    /// Do what a command asks for, and do not answer it yet: what the answer to [`Controller::finish`] will be.
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

    /// Do as much of a command as its mishap leaves, and do not answer it yet: what the answer will be, if there is one.
    ///
    /// # Errors
    /// As [`Controller::perform`]; and what a host is told of a fault of the memory, if it is to fail.
    #[cold]
    pub fn suffer(
        &mut self,
        command: &Command,
        mishap: Mishap,
        host: &mut impl Host,
        store: &Store,
        space: &mut [u8],
    ) -> Result<(), Status> {
        let is_write = command.io().is_some_and(|io| io.op == Op::Write);
        // Data that reaches the host unannounced is data all the same; data of a read that fails does not.
        if let Some(torn) = command.torn(mishap, store.geometry().block_bytes).filter(|_| is_write || !mishap.fails) {
            self.perform(&torn, host, store, space)?;
        }
        match (mishap.fails, is_write) {
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
        if done.is_ok() && command.waits_for_disk(self.features.write_cache) {
            return Executed::WaitsForDisk;
        }
        Executed::Answered(self.conclude(command, done, host))
    }

    /// The store has been flushed, or could not be, since [`Controller::execute`] said that a command waits for that:
    /// answer it, unless its queue has gone meanwhile.
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
    fn interrupt_again(&mut self, host: &mut impl Host) {
        for queue in self.queues() {
            self.look_at_head(queue, host);
            if let Some(completion) = &mut self.completions[usize::from(queue)] {
                completion.interrupt_pending |= completion.ring.has_unread();
                self.interrupt_pending |= completion.interrupt_pending;
            }
        }
    }

    /// Before the one who drives the controller sleeps: ask the host to ring its register for the next command. Whether
    /// one has come before it could see that.
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
            self.events.raise(Event::InvalidDoorbellValue);
            self.watch(|watch| watch.note(&strict::DOORBELL_VALUE));
        }
        let submission = self.submissions[usize::from(queue)].as_mut();
        let is_busy = submission.is_some_and(|submission| !submission.ring.is_empty());
        if queue == 0 && is_busy {
            self.keep_admin_ringing(host);
        }
        is_busy
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
        if rung.is_some_and(|head| completion.ring(head).is_err()) {
            self.events.raise(Event::InvalidDoorbellValue);
            self.watch.iter_mut().for_each(|watch| watch.note(&strict::DOORBELL_VALUE));
        }
        let released = completion.release(host);
        self.interrupt_pending |= completion.interrupt_pending;
        if released.is_err() {
            self.fail(host);
        }
    }

    /// Answer those who wait for events, and let go of answers that have found no room.
    #[inline]
    fn tell(&mut self, host: &mut impl Host) {
        while let Some((command_id, result)) = self.events.take() {
            self.answer(0, command_id, Status::SUCCESS, result, host);
        }
        self.release_held(host);
    }

    #[inline]
    fn release_held(&mut self, host: &mut impl Host) {
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
            self.fail(host);
        }
    }

    /// A queue's memory has gone: nothing can be said to the host but that.
    #[cold]
    fn fail(&mut self, host: &mut impl Host) {
        host.registers().set_fatal();
        self.drop_queues();
    }

    fn drop_queues(&mut self) {
        self.submissions.fill(None);
        self.completions.fill(None);
        self.under_way.fill(0);
        self.watch(|watch| watch.forget(None));
        self.count_queues();
    }
}
