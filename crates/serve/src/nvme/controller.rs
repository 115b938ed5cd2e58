//! The controller: its life from enabling to shutting down, and the way of a command from its queue to its answer.

use std::io;
use std::ops::Range;
use std::time::Duration;

use phaselink_core::protocol::nvme::rules::completion::refusal;
use phaselink_core::protocol::nvme::spec::{Status, SubmissionEntry};

use super::QUEUE_PAIRS_MAX;
use super::admin::{Answer, Formatting};
use super::command::{Bytes, Command};
use super::events::{Event, Events};
use super::features::Features;
use super::host::{AdminHost, Host};
use super::identify::Identity;
use super::logs::Journal;
use super::queues::{CompletionQueue, SubmissionQueue};
use super::set::QueueSet;
use super::strict::Watch;
use crate::device::store::Store;
use crate::device::tally::Undefined;

/// A controller without its registers, which are the [`AdminHost`]'s.
#[derive(Debug)]
pub struct Controller {
    pub(super) identity: Identity,
    is_enabled: bool,
    /// The first has the admin queue, and is never lent.
    #[expect(clippy::vec_box, reason = "sets change places, and keep their lines")]
    sets: Vec<Box<QueueSet>>,
    pub(super) features: Features,
    pub(super) events: Events,
    pub(super) journal: Journal,
    /// The host has said that it is there.
    pub(super) heard: bool,
    /// A Format NVM that has yet to be done.
    pub(super) formatting: Option<Formatting>,
    /// Submission queues so far.
    generations: u32,
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
    /// It is done, and is to be durable before it is answered: by [`QueueSet::commit`].
    WaitsForDisk,
}

impl Controller {
    /// A controller that has just been powered on.
    pub fn new(identity: Identity) -> Controller {
        Controller {
            features: Features::new(&identity.limits),
            sets: vec![Box::new(QueueSet::new(identity.limits))],
            identity,
            is_enabled: false,
            events: Events::default(),
            journal: Journal::default(),
            heard: false,
            formatting: None,
            generations: 0,
        }
    }

    /// The same, whose queues are divided into so many sets: those of commands go with the queues that they answer to, and these
    /// take turns.
    pub fn divided(mut self, sets: usize) -> Controller {
        self.sets.resize_with(sets, || Box::new(QueueSet::new(self.identity.limits)));
        self
    }

    /// The same, looking for what hosts do that the specification leaves undefined.
    pub fn watched(mut self) -> Controller {
        self.sets.iter_mut().for_each(|set| set.watch = Some(Box::default()));
        self
    }

    /// What has been seen of that since the last time, by the sets that are at home.
    pub fn take_undefined(&mut self) -> Vec<(&'static Undefined, u64)> {
        self.sets.iter_mut().flat_map(|set| set.take_undefined()).collect()
    }

    /// The watch of the admin queue, where there is one.
    #[inline]
    pub(super) fn watch(&mut self, look: impl FnOnce(&mut Watch)) {
        self.sets[0].watch(look);
    }

    /// The sets. While one is lent, an empty one stands in its place, and nothing is asked of the controller but its own first.
    #[inline]
    pub fn sets(&mut self) -> &mut [Box<QueueSet>] {
        &mut self.sets
    }

    /// Lend a set, or take it back: it changes places with an empty one.
    ///
    /// # Panics
    /// If it is the first, or there is none of this number.
    pub fn exchange(&mut self, set: usize, other: &mut Box<QueueSet>) {
        assert!(set > 0, "the admin queue is the controller's");
        std::mem::swap(&mut self.sets[set], other);
    }

    /// What stands in the place of a set that is lent.
    pub fn no_set(&self) -> Box<QueueSet> {
        Box::new(QueueSet::new(self.identity.limits))
    }

    /// Whether a queue of commands is in a set that is at home.
    pub fn has_at_home(&self, queue: u16) -> bool {
        self.sets.iter().any(|set| set.submission(queue).is_some())
    }

    /// The set that has a queue of commands; the first, if none has.
    #[inline]
    pub fn set_of(&mut self, queue: u16) -> &mut QueueSet {
        let place = self.sets.iter().position(|set| set.submission(queue).is_some());
        &mut self.sets[place.unwrap_or(0)]
    }

    /// The set of a queue of answers.
    pub(super) fn set_of_answers(&mut self, queue: u16) -> &mut QueueSet {
        let sets = self.sets.len();
        &mut self.sets[usize::from(queue.saturating_sub(1)) % sets]
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
    pub fn give_up(&mut self, host: &mut impl AdminHost) {
        self.features.keep_alive_ms = 0;
        self.fail(host);
    }

    /// Numbers of the queues to look at, the admin queue first; not all of them need to be there.
    #[inline]
    pub fn queues(&self) -> Range<u16> {
        0..self.sets.iter().map(|set| set.queues().end).max().unwrap_or(0)
    }

    pub(super) fn has_io_queues(&self) -> bool {
        self.sets.iter().any(|set| set.has_io_queues())
    }

    /// Whether [`Controller::update`] has anything to do that takes all queues.
    #[inline]
    pub fn has_work(&self, host: &mut impl AdminHost) -> bool {
        let registers = host.registers();
        let is_asked = registers.reset || registers.recheck || registers.is_enabled() != self.is_enabled;
        let is_ending = registers.wants_shutdown() != registers.is_shut_down() && !registers.is_fatal();
        is_asked || is_ending || self.formatting.is_some() || self.sets[0].has_failed
    }

    /// Do what the registers ask for: reset, enable, shut down, tell of doorbells that are not there.
    #[inline]
    pub fn update(&mut self, host: &mut impl AdminHost, store: &Store) {
        host.registers().take_seen().into_iter().for_each(|seen| self.watch(|watch| watch.note(seen)));
        self.follow(host);
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
            self.sets.iter_mut().for_each(|set| set.interrupt_again(host));
        }
        self.format(host, store);
        self.tell(host);
        self.signal(host);
        if self.sets.iter().any(|set| set.journal.has_failures()) {
            self.collect_journals();
        }
    }

    /// Follow what has happened to the queues: a doorbell that makes no sense is told, and a queue whose memory has gone is
    /// fatal.
    #[inline]
    pub fn follow(&mut self, host: &mut impl AdminHost) {
        if self.sets.iter().any(|set| set.has_news()) {
            self.follow_news(host);
        }
    }

    #[cold]
    fn follow_news(&mut self, host: &mut impl AdminHost) {
        let mut has_failed = false;
        for set in &mut self.sets {
            has_failed |= std::mem::take(&mut set.has_failed);
            if std::mem::take(&mut set.invalid_doorbell_value) {
                self.events.raise(Event::InvalidDoorbellValue);
            }
        }
        if has_failed {
            self.fail(host);
        }
    }

    /// Section 3.7.2: queues, features and events are gone; the journal and the data stay.
    fn disable(&mut self) {
        self.is_enabled = false;
        self.drop_queues();
        self.features = Features::new(&self.identity.limits);
        self.events = Events::default();
        self.share();
        self.sets.iter_mut().for_each(|set| set.shadow = None);
        self.formatting = None;
    }

    /// Every set knows the features that it asks for.
    pub(super) fn share(&mut self) {
        let write_cache = self.features.write_cache;
        self.sets.iter_mut().for_each(|set| set.write_cache = write_cache);
    }

    /// Section 3.5.1: the admin queue is where the registers say.
    fn enable(&mut self, host: &mut impl AdminHost) {
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
        let generation = self.next_generation();
        let admin = &mut self.sets[0];
        admin.add_completion(0, CompletionQueue::new(completion, completion_entries, Some(0)));
        admin.add_submission(0, SubmissionQueue::new(submission, submission_entries, 0, generation));
    }

    /// That of the next submission queue.
    pub(super) fn next_generation(&mut self) -> u32 {
        self.generations = self.generations.wrapping_add(1);
        self.generations
    }

    /// Section 3.6: what has been written is durable when the host hears that it may switch off. A host that takes its
    /// wish back hears that too.
    fn shut_down(&mut self, host: &mut impl AdminHost, store: &Store) {
        let wants = host.registers().wants_shutdown();
        let is_safe = !wants || store.flush().is_ok();
        match is_safe {
            true => host.registers().set_shut_down(wants),
            false => host.registers().set_fatal(),
        }
    }

    /// The next command of a queue, if there is one and room for its answer. An admin command is done at once.
    #[inline]
    pub fn take(&mut self, queue: u16, host: &mut impl AdminHost) -> Taken {
        if queue == 0 {
            return self.take_admin(host);
        }
        let set = self.set_of(queue);
        let taken = if set.look(queue, host) { set.take_seen(queue, host) } else { Taken::Nothing };
        self.follow(host);
        taken
    }

    /// The next admin command, which is done at once.
    pub fn take_admin(&mut self, host: &mut impl AdminHost) -> Taken {
        let admin = &mut self.sets[0];
        let fetched = if admin.look(0, host) { admin.fetch(0, host) } else { None };
        self.follow(host);
        fetched.map_or(Taken::Nothing, |(bytes, generation)| self.accept(0, generation, &bytes, host))
    }

    /// Whether there are admin commands.
    #[inline]
    pub fn has_admin_commands(&mut self, host: &mut impl Host) -> bool {
        self.sets[0].look(0, host)
    }

    /// Take in the 64 bytes of a command as if they had been in a queue: the admin queue, if `queue` is 0. Any bytes
    /// will do, so that this is a place to begin for whoever feeds it random ones. A command belongs to the queue of this
    /// generation, the first of which is 1.
    ///
    /// # Panics
    /// If no queue can have this number.
    #[inline]
    pub fn accept(&mut self, queue: u16, generation: u32, bytes: &Bytes, host: &mut impl AdminHost) -> Taken {
        if queue > 0 {
            return Taken::Command(self.set_of(queue).accept(queue, generation, bytes, host));
        }
        let entry = SubmissionEntry::decode(bytes);
        self.watch(|watch| watch.on_command(queue, &entry));
        let administered = self.administer(&entry, host);
        self.follow(host);
        match administered {
            Ok(Answer::Done(result)) => self.answer(entry.command_id, Status::SUCCESS, result, host),
            Ok(Answer::Later) => {}
            Err(status) => {
                self.sets[0].note_failure(queue, &entry, status);
                self.answer(entry.command_id, refusal(status), 0, host);
                return Taken::Answered(status);
            }
        }
        Taken::Answered(Status::SUCCESS)
    }

    /// Execute a command of any queue: see [`QueueSet::execute`].
    pub fn execute(
        &mut self,
        command: &Command,
        host: &mut impl AdminHost,
        store: &Store,
        space: &mut [u8],
    ) -> Executed {
        let executed = self.set_of(command.queue).execute(command, host, store, space);
        self.follow(host);
        executed
    }

    /// Answer a command that has waited for the disk: see [`QueueSet::commit`].
    pub fn commit(&mut self, command: &Command, flushed: io::Result<()>, host: &mut impl AdminHost) -> Status {
        let status = self.set_of(command.queue).commit(command, flushed, host);
        self.follow(host);
        status
    }

    /// Interrupt the host for what has been posted since the last time.
    #[inline]
    pub fn signal(&mut self, host: &mut impl Host) {
        self.sets.iter_mut().for_each(|set| set.signal(host));
    }

    /// Before the one who drives the controller sleeps: see [`QueueSet::ask_to_ring`].
    pub fn ask_to_ring(&mut self, host: &mut impl AdminHost) -> bool {
        let asked = self.sets.iter_mut().fold(false, |any, set| set.ask_to_ring(host) | any);
        self.follow(host);
        asked
    }

    /// What has happened, of all sets that are at home.
    pub(super) fn collect_journals(&mut self) {
        let Controller { sets, journal, .. } = self;
        sets.iter_mut().for_each(|set| journal.absorb(&mut set.journal));
    }

    /// Answer those who wait for events, and let go of answers that have found no room.
    #[inline]
    fn tell(&mut self, host: &mut impl AdminHost) {
        while let Some((command_id, result)) = self.events.take() {
            self.answer(command_id, Status::SUCCESS, result, host);
        }
        self.sets.iter_mut().for_each(|set| set.release_held(host));
        self.follow(host);
    }

    /// Post the answer to an admin command.
    pub(super) fn answer(&mut self, command_id: u16, status: Status, result: u32, host: &mut impl AdminHost) {
        self.sets[0].answer(0, command_id, status, result, host);
        self.follow(host);
    }

    /// A queue's memory has gone: nothing can be said to the host but that.
    #[cold]
    fn fail(&mut self, host: &mut impl AdminHost) {
        host.registers().set_fatal();
        self.drop_queues();
    }

    fn drop_queues(&mut self) {
        self.sets.iter_mut().for_each(|set| set.clear());
    }
}
