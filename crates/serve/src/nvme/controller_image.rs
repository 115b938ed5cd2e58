//! State of one controller on the way to another server: queues, features, events, counters and log pages.
//!
//! A controller is [drained](Controller::drain) first: no command is in flight, and every completion that has its place in
//! a queue is written there. A command that an injected fault never lets complete stays that way.

use std::collections::BTreeMap;

use phaselink_core::protocol::nvme::rules::Limits;
use phaselink_core::protocol::nvme::rules::reservation::ReservingHost;

use super::controller::{Controller, attached_namespace_list};
use super::drive_image::MovedDrive;
use super::host::AdminHost;
use super::image::{ImageField, ImageReader, ImageRefusal, image_fields};
use super::limits::interrupt_vectors;
use super::queues::{CompletionQueue, SubmissionQueue};
use super::subsystem::Subsystem;
use crate::device::store::Store;

/// Queues of a controller by their identifiers, from all of its sets.
#[derive(Debug, Default)]
struct MovedQueues {
    submissions: BTreeMap<u16, SubmissionQueue>,
    completions: BTreeMap<u16, CompletionQueue>,
    /// Namespaces of the commands that get no completion because of a fault, by submission queue and command identifier.
    unanswered: BTreeMap<(u16, u16), u32>,
}

image_fields!(MovedQueues { submissions, completions, unanswered });

impl MovedQueues {
    fn of(controller: &Controller) -> MovedQueues {
        let mut queues = MovedQueues::default();
        for set in &controller.sets {
            let numbered = (0..).zip(&set.submissions);
            queues.submissions.extend(numbered.filter_map(|(id, queue)| Some((id, queue.clone()?))));
            let numbered = (0..).zip(&set.completions);
            queues.completions.extend(numbered.filter_map(|(id, queue)| Some((id, queue.clone()?))));
            queues.unanswered.extend(set.unanswered.iter().map(|(command, namespace)| (*command, *namespace)));
        }
        queues
    }

    /// Checks that a controller with these limits can have the queues.
    fn check(&self, limits: &Limits) -> Result<(), ImageRefusal> {
        let has_id = |id: &u16| u32::from(*id) <= limits.queue_pairs;
        let fits = |id: u16, entries: u32| id == 0 && entries <= 4096 || entries <= limits.queue_entries;
        let is_completion = |(id, queue): (&u16, &CompletionQueue)| {
            let has_vector = queue.vector.is_none_or(|vector| vector < interrupt_vectors(limits));
            has_id(id) && fits(*id, queue.ring.entries()) && has_vector
        };
        let is_submission = |(id, queue): (&u16, &SubmissionQueue)| {
            let has_completion = self.completions.contains_key(&queue.completion_queue);
            has_id(id)
                && fits(*id, queue.ring.entries())
                && has_completion
                && (*id == 0) == (queue.completion_queue == 0)
        };
        let is_valid = self.completions.iter().all(is_completion)
            && self.submissions.iter().all(is_submission)
            && self.unanswered.keys().all(|(queue, _)| self.submissions.contains_key(queue));
        is_valid.then_some(()).ok_or_else(|| ImageRefusal::of_field("a queue"))
    }

    fn put_in_force(self, controller: &mut Controller) {
        for (id, queue) in self.completions {
            controller.set_of_completion_queue(id).add_completion_queue(id, queue);
        }
        for (id, queue) in self.submissions {
            controller.set_of_completion_queue(queue.completion_queue).add_submission_queue(id, queue);
        }
        for ((queue, command_id), namespace) in self.unanswered {
            controller.set_of_submission_queue(queue).unanswered.insert((queue, command_id), namespace);
        }
    }
}

impl Controller {
    /// Writes completions that have their place in a queue. Returns true if no command is in flight then, and no work or
    /// fault is pending. All queue sets must be here.
    pub fn drain(&mut self, host: &mut impl AdminHost, store: &Store) -> bool {
        self.update(host, store);
        // Each set writes its completions, even if an earlier one has commands in flight.
        let busy_sets = self.sets.iter_mut().filter_map(|set| (!set.drain(host)).then_some(())).count();
        self.report_queue_errors(host);
        busy_sets == 0 && self.pending.is_empty()
    }

    /// Appends the state of the drained controller to an image.
    pub fn put_image(&mut self, host: &mut impl AdminHost, image: &mut Vec<u8>) {
        self.collect_queue_journals();
        let mut features = self.features.clone();
        features.move_clock(host.now_ms(), 0);
        self.is_enabled.put(image);
        features.put(image);
        self.events.put(image);
        self.journal.put(image);
        self.changed_namespaces.put(image);
        self.telemetry.put(image);
        self.event_context.put(image);
        self.notices.put(image);
        self.generation.put(image);
        self.identity.host.put(image);
        (self.sets[0].shadow, self.sets[0].arbitration).put(image);
        MovedQueues::of(self).put(image);
    }

    /// Returns the state that all controllers of the drive share.
    pub fn subsystem(&self) -> &Subsystem {
        &self.identity.subsystem
    }

    /// Reads the state of the drive from an image, and checks that this drive can have it.
    ///
    /// # Errors
    /// If a part is incomplete or invalid.
    pub fn read_drive(&self, image: &mut ImageReader<'_>, store: &Store) -> Result<MovedDrive, ImageRefusal> {
        MovedDrive::of_image(image, &self.identity.limits, store)
    }

    /// Returns the controller of an image, with the identity and the number of queue sets of this one, and its clock at
    /// the time `now_ms` of the host's clock.
    ///
    /// # Errors
    /// If a part is incomplete or invalid.
    pub fn of_image(&self, image: &mut ImageReader<'_>, now_ms: u64) -> Result<Controller, ImageRefusal> {
        let mut controller = Controller::new(self.identity.clone()).with_queue_sets(self.sets.len());
        if self.sets[0].strict.is_some() {
            controller = controller.with_strict_checks();
        }
        controller.is_enabled.fill(image)?;
        controller.features.fill(image)?;
        controller.features.move_clock(0, now_ms);
        controller.events.fill(image)?;
        controller.journal.fill(image)?;
        controller.changed_namespaces.fill(image)?;
        controller.telemetry.fill(image)?;
        controller.event_context.fill(image)?;
        controller.notices.fill(image)?;
        controller.generation.fill(image)?;
        let mut host = ReservingHost::OfController(0);
        host.fill(image)?;
        let mut shared = (None, None);
        shared.fill(image)?;
        let queues: MovedQueues = image.field()?;
        queues.check(&controller.identity.limits)?;
        if controller.changed_namespaces.iter().any(|id| *id > controller.identity.limits.namespaces) {
            return Err(ImageRefusal::of_field("the list of changed namespaces"));
        }
        controller.sets.iter_mut().for_each(|set| (set.shadow, set.arbitration) = shared);
        controller.distribute_features();
        queues.put_in_force(&mut controller);
        if let ReservingHost::Named(_) | ReservingHost::NamedShortly(_) = host {
            controller.set_host(host);
        }
        Ok(controller)
    }

    /// Takes the present namespaces as those that the host knows, after the state of the drive has come. Marks an
    /// interrupt as pending for each completion queue with unread entries, since the last one may be lost.
    pub fn settle(&mut self, host: &mut impl AdminHost) {
        self.known_namespaces = (0, attached_namespace_list(&self.identity));
        self.known_path_changes = self.identity.subsystem.path_change_count(self.identity.path);
        self.is_kept_alive = true;
        self.sets.iter_mut().for_each(|set| set.mark_unread_interrupts(host));
    }
}
