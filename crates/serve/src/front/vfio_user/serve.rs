//! Poll groups of NVMe controllers: each owns the sockets of some controllers, and borrows queues of others.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use phaselink_core::ledger::Outcome;
use phaselink_core::number::{index, low_u16};
use phaselink_core::protocol::nvme::spec::Status;
use phaselink_core::time::Span;
use rustix::event::PollFd;

use super::controller::{ControllerSocket, ServedController};
use super::lending::{ControllerGroups, ControllerHandover, LentQueues, group_of};
use crate::clock::Wait;
use crate::device::Device;
use crate::device::counter::Counter;
use crate::device::empty_exchange::measure_word_round_trip;
use crate::device::pace::SLEEP_MAX;
use crate::device::tally::{ConsumedCompletionCounts, UndefinedBehaviour};
use crate::device::wakeup::Wakeup;
use crate::front::lifecycle::{Delivery, RequestInFlight, RequestLifecycle, Resume};
use crate::front::nvme_command::{CommandRequest, HandOver, Place, QueueEndpoint, fetch_from_all_queues};
use crate::front::poll_group::{FrontEnd, LentQueueOwner, PollGroup, run_all};
use crate::front::service::FrontEndService;
use crate::nvme::limits;

/// Set of queues that a thread borrows from a controller, whose socket another thread owns.
#[derive(Clone, Copy, Debug)]
struct BorrowedQueues<'a> {
    groups: &'a ControllerGroups<'a>,
    slot: &'a LentQueueOwner<LentQueues>,
    /// Number of the NVMe controller among all that the front-end serves.
    controller: usize,
}

/// Controllers that one device thread owns, and the queues that it borrows.
#[derive(Debug)]
pub(super) struct ControllerGroup<'a> {
    controllers: Vec<ServedController<'a>>,
    borrowed: Vec<BorrowedQueues<'a>>,
    /// Number of queue pairs of each controller in the model; none with timing off.
    model_queue_pairs: Option<u16>,
    transfer_bytes_max: usize,
    completion_lead: Span,
}

/// Serves the clients of `served` until the device is told to stop. Queues of all controllers are divided among the
/// device threads.
///
/// # Errors
/// If the system gives no thread, or cannot wait for sockets.
pub(super) fn serve(service: &FrontEndService<'_>, served: &[ControllerSocket]) -> io::Result<Option<Outcome>> {
    served.iter().try_for_each(|served| served.join(service))?;
    let queues: usize = served.iter().map(|served| index(served.limits().queue_pairs)).sum();
    let groups = service.groups(service.device_threads.min(queues));
    let spare_groups = service.spare_groups(spare_threads(served.len()));
    let [wakeups, spare_wakeups] =
        [&groups, &spare_groups].map(|groups| groups.iter().map(|group| group.wakeup).collect::<Vec<&Wakeup>>());
    let controllers = group_controllers(served, &wakeups, &spare_wakeups);
    let mut fronts = divide(served, &controllers, wakeups.len(), service.wait);
    fronts.extend(spare_thread_groups(served, &controllers, service.wait).into_iter().take(spare_groups.len()));
    if service.timing {
        let (lead, pairs) = (measure_word_round_trip(), low_u16(limits::offered_queue_pairs(&service.device.drive)));
        fronts.iter_mut().for_each(|front| (front.completion_lead, front.model_queue_pairs) = (lead, Some(pairs)));
    }
    let run = |(group, front): (PollGroup<'_>, ControllerGroup<'_>)| {
        let is_spare_thread = front.borrowed.is_empty() && front.controllers.iter().all(ServedController::is_elsewhere);
        if is_spare_thread && !sleep_until_needed(&group, &front) { Ok(None) } else { group.run(front) }
    };
    let groups = groups.into_iter().chain(spare_groups).zip(fronts).map(|group| move || run(group));
    run_all(service.device, "vfio-user", groups.collect())
}

/// Returns the number of spare threads, for clients that let their thread wait: one for each controller, or none for a
/// single one.
pub(super) fn spare_threads(controllers: usize) -> usize {
    if controllers > 1 { controllers } else { 0 }
}

/// Lets a spare thread sleep until a controller comes to it; returns false if the device has been told to stop.
fn sleep_until_needed(group: &PollGroup<'_>, front: &ControllerGroup<'_>) -> bool {
    let stop = &group.device.stop;
    let has_come = || front.controllers.iter().any(|controller| controller.inbox().has_any());
    while !stop.is_requested() && !has_come() {
        group.wakeup.sleep([stop.as_fd()].into_iter(), SLEEP_MAX, has_come);
    }
    !stop.is_requested()
}

fn group_controllers<'a>(
    served: &[ControllerSocket],
    wakeups: &[&'a Wakeup],
    spare_wakeups: &[&'a Wakeup],
) -> Vec<ControllerGroups<'a>> {
    let group = |(controller, served): (usize, &ControllerSocket)| {
        ControllerGroups::new(controller, served.limits(), wakeups)
            .with_spare_thread(spare_wakeups.get(controller).copied())
    };
    served.iter().enumerate().map(group).collect()
}

/// Divides controllers and their queues among `threads` threads, and returns the group of each thread.
fn divide<'a>(
    served: &'a [ControllerSocket],
    groups: &'a [ControllerGroups<'a>],
    threads: usize,
    wait: Wait,
) -> Vec<ControllerGroup<'a>> {
    let mut fronts: Vec<ControllerGroup<'a>> =
        (0..threads).map(|_| ControllerGroup::without_controllers(served)).collect();
    for (controller, (served, groups)) in served.iter().zip(groups).enumerate() {
        let owned = ServedController::new(served, controller, wait, groups);
        fronts[group_of(controller, 0, threads)].controllers.push(owned);
        for set in 1..groups.sets() {
            let borrowed = BorrowedQueues { groups, slot: groups.slot(set), controller };
            fronts[group_of(controller, set, threads)].borrowed.push(borrowed);
        }
    }
    fronts
}

/// Makes the poll groups of the spare threads, one for each controller.
fn spare_thread_groups<'a>(
    served: &'a [ControllerSocket],
    groups: &'a [ControllerGroups<'a>],
    wait: Wait,
) -> Vec<ControllerGroup<'a>> {
    let group = |(number, groups): (usize, &'a ControllerGroups<'a>)| {
        let controller = ServedController::new(&served[number], number, wait, groups).on_spare_thread();
        ControllerGroup { controllers: vec![controller], ..ControllerGroup::without_controllers(served) }
    };
    groups.iter().enumerate().map(group).collect()
}

impl<'a> ControllerGroup<'a> {
    /// Returns a group without controllers, with a buffer for the longest transfer of the served ones.
    fn without_controllers(served: &[ControllerSocket]) -> ControllerGroup<'a> {
        ControllerGroup {
            controllers: Vec::new(),
            borrowed: Vec::new(),
            model_queue_pairs: None,
            transfer_bytes_max: served.iter().map(|it| index(it.limits().transfer_bytes_max)).max().unwrap_or(0),
            completion_lead: Span::ZERO,
        }
    }

    fn first_model_queue(&self, controller: usize) -> Option<u16> {
        self.model_queue_pairs.map(|pairs| controller as u16 * pairs)
    }

    #[inline]
    fn fetch_owned(&mut self, life: &mut RequestLifecycle<'_, CommandRequest>) -> bool {
        let mut found = false;
        for place in 0..self.controllers.len() {
            let first_model_queue = self.first_model_queue(self.controllers[place].number);
            let controller = &mut self.controllers[place];
            let count = |status| life.counter.counts().errors += u64::from(status != Status::SUCCESS);
            found |= controller.administer(count);
            let (groups, client) = (controller.groups(), controller.clients_ever);
            let Some((sets, host)) = controller.own() else { continue };
            for set in sets {
                let place = Place::Owned(place);
                let mut endpoint = QueueEndpoint { place, client, groups, set, host, first_model_queue };
                found |= fetch_from_all_queues(life, &mut endpoint);
            }
            self.controllers[place].move_if_needed();
        }
        found
    }

    #[inline]
    fn fetch_from_borrowed(&mut self, life: &mut RequestLifecycle<'_, CommandRequest>) -> bool {
        let mut found = false;
        for (place, borrowed) in self.borrowed.iter().enumerate() {
            let BorrowedQueues { groups, slot, controller } = *borrowed;
            let Some(mut entered) = slot.enter() else { continue };
            let Some(lent) = &mut *entered else { continue };
            let first_model_queue = self.first_model_queue(controller);
            let LentQueues { client, set, host, .. } = &mut **lent;
            let place = Place::Borrowed(place);
            let mut endpoint = QueueEndpoint { place, client: *client, groups, set, host, first_model_queue };
            found |= fetch_from_all_queues(life, &mut endpoint);
            lent.report(groups);
        }
        found
    }

    /// Handles everything that other threads have handed over to this thread's controllers; returns true if there was
    /// anything.
    #[inline]
    fn take_handovers(&mut self, life: &mut RequestLifecycle<'_, CommandRequest>) -> bool {
        let mut any = false;
        for place in 0..self.controllers.len() {
            let inbox = self.controllers[place].inbox();
            if inbox.has_any() {
                inbox.take().into_iter().for_each(|handed_over| self.on_handover(life, place, handed_over));
                any = true;
            }
        }
        any
    }

    #[cold]
    fn on_handover(
        &mut self,
        life: &mut RequestLifecycle<'_, CommandRequest>,
        place: usize,
        handed_over: ControllerHandover,
    ) {
        // A request may need guest memory that only the client can access, over its socket, so take the queues back
        // first. The controller handles queue errors at its next turn.
        self.controllers[place].take_back();
        match handed_over {
            ControllerHandover::QueueError => {}
            ControllerHandover::Controller(state) => self.controllers[place].arrive(*state),
            ControllerHandover::Request(mut request) => {
                request.request_mut().place = Place::Owned(place);
                if let Some(request) = life.delay_until_completion_due(*request) {
                    self.resume(life, request);
                }
            }
        }
    }

    fn count_undefined(&mut self, counter: &mut Counter<'_>, device: &Device) {
        let mut note = |seen: Vec<(&'static UndefinedBehaviour, u64)>| {
            for (behaviour, count) in seen {
                device.tallies.report_first_undefined_behaviour(behaviour);
                counter.counts().count_undefined_behaviour(behaviour, count);
            }
        };
        self.controllers.iter_mut().for_each(|controller| note(controller.controller.take_undefined()));
        for borrowed in &self.borrowed {
            if let Some(mut entered) = borrowed.slot.enter() {
                entered.iter_mut().for_each(|lent| note(lent.set.take_undefined()));
            }
        }
    }

    /// Adds the completions that hosts have taken since the last call to the thread's counters.
    fn count_taken_completions(&mut self, counter: &mut Counter<'_>) {
        let mut taken = ConsumedCompletionCounts::default();
        self.controllers.iter_mut().for_each(|controller| taken.merge(&controller.take_completions_taken()));
        for borrowed in &self.borrowed {
            if let Some(mut entered) = borrowed.slot.enter()
                && let Some(lent) = &mut *entered
            {
                taken.merge(&lent.set.take_completions_taken(&mut lent.host));
            }
        }
        if taken != ConsumedCompletionCounts::default() {
            counter.counts().taken.merge(&taken);
        }
    }
}

impl Resume<CommandRequest> for ControllerGroup<'_> {
    fn resume(&mut self, life: &mut RequestLifecycle<'_, CommandRequest>, request: RequestInFlight<CommandRequest>) {
        let CommandRequest { place, client, .. } = *request.request();
        match place {
            Place::Owned(number) => {
                let controller = &mut self.controllers[number];
                let groups = controller.groups();
                let Some(mut request) = controller.forward(request) else { return };
                let Some((set, host)) = controller.find(client, &request.request().command) else { return };
                let mut endpoint = QueueEndpoint { place, client, groups, set, host, first_model_queue: None };
                endpoint.reread_unreachable_command(request.request_mut());
                life.advance(&mut endpoint, request);
                endpoint.set.send_interrupts(endpoint.host);
            }
            Place::Borrowed(number) => {
                let BorrowedQueues { groups, slot, .. } = self.borrowed[number];
                let mut entered = slot.enter();
                match entered.as_deref_mut().and_then(Option::as_mut).filter(|lent| lent.client == client) {
                    None => groups.hand_over(request),
                    Some(lent) => {
                        let LentQueues { set, host, .. } = &mut **lent;
                        let mut endpoint = QueueEndpoint { place, client, groups, set, host, first_model_queue: None };
                        life.advance(&mut endpoint, request);
                        endpoint.set.send_interrupts(endpoint.host);
                    }
                }
            }
        }
    }

    fn has_clients(&self) -> bool {
        let has_queues = |borrowed: &BorrowedQueues<'_>| borrowed.slot.enter().is_some();
        self.controllers.iter().any(|controller| controller.client.is_some()) || self.borrowed.iter().any(has_queues)
    }
}

impl FrontEnd for ControllerGroup<'_> {
    type Request = CommandRequest;
    const DELIVERY: Delivery = Delivery::BytesAhead;
    const ROUNDS_PER_ATTENTION: u32 = 512;

    fn transfer_bytes_max(&self) -> usize {
        self.transfer_bytes_max
    }

    fn completion_lead(&self) -> Span {
        self.completion_lead
    }

    fn attend(&mut self, life: &mut RequestLifecycle<'_, CommandRequest>) -> bool {
        let device = life.device;
        let any = self.controllers.iter_mut().fold(false, |any, controller| controller.attend(device) | any);
        for borrowed in &self.borrowed {
            if let Some(mut entered) = borrowed.slot.enter()
                && let Some(lent) = &mut *entered
            {
                lent.host.interrupt_again();
                lent.set.end_faults(&mut lent.host);
                lent.set.post_held(&mut lent.host);
                lent.set.send_interrupts(&mut lent.host);
            }
        }
        self.count_taken_completions(&mut life.counter);
        self.count_undefined(&mut life.counter, device);
        any
    }

    #[inline]
    fn fetch(&mut self, life: &mut RequestLifecycle<'_, CommandRequest>) -> bool {
        self.take_handovers(life) | self.fetch_owned(life) | self.fetch_from_borrowed(life)
    }

    /// Returns true if every client writes doorbells by messages. A doorbell that is written in mapped memory ends no
    /// sleep.
    fn can_sleep(&self) -> bool {
        let is_silent = |borrowed: &BorrowedQueues<'_>| {
            borrowed.slot.enter().is_some_and(|lent| lent.iter().any(|lent| lent.rings_silently))
        };
        !self.controllers.iter().any(ServedController::rings_silently) && !self.borrowed.iter().any(is_silent)
    }

    fn prepare_sleep(&mut self, time: &mut Duration) -> Option<Vec<PollFd<'_>>> {
        let mut has_work = false;
        let mut limit = |next: Option<Duration>| *time = next.map_or(*time, |next| next.min(*time));
        for controller in &mut self.controllers {
            has_work |= controller.inbox().has_any();
            let Some(client) = &mut controller.client else { continue };
            has_work |= controller.controller.request_doorbells(client);
            limit(client.interrupt_again());
        }
        for borrowed in &self.borrowed {
            let Some(mut entered) = borrowed.slot.enter() else { continue };
            let Some(lent) = &mut *entered else { continue };
            let LentQueues { set, host, rings_silently, .. } = &mut **lent;
            // A client that writes doorbells without a signal may have lent queues since the last check, so check again
            // before sleeping.
            has_work |= *rings_silently || set.request_doorbells(host) || set.has_work(host);
            limit(host.interrupt_again());
        }
        (!has_work).then(|| self.controllers.iter().filter_map(ServedController::polled).collect())
    }

    fn end(&mut self, life: &mut RequestLifecycle<'_, CommandRequest>) {
        self.count_taken_completions(&mut life.counter);
        self.count_undefined(&mut life.counter, life.device);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::Range;
    use std::os::unix::net::UnixStream;

    use super::super::connection::Connection;
    use super::super::controller::tests::sockets;
    use super::*;

    fn wakeups(threads: usize) -> Vec<Wakeup> {
        (0..threads).map(|_| Wakeup::new().unwrap()).collect()
    }

    #[test]
    fn thread_stays_awake_while_a_handover_is_pending() {
        let (served, wakeups) = (sockets("left", 1, 1), wakeups(1));
        let groups = group_controllers(&served, &wakeups.iter().collect::<Vec<_>>(), &[]);
        let mut group = divide(&served, &groups, 1, Wait::Block).remove(0);
        let host = UnixStream::pair().unwrap().0;
        group.controllers[0].client =
            Some(Connection::new(host, false, served[0].limits(), &Default::default()).unwrap());
        let mut time = Duration::from_secs(1);
        assert!(group.prepare_sleep(&mut time).is_some());
        groups[0].handover.put(ControllerHandover::QueueError);
        assert!(group.prepare_sleep(&mut time).is_none());
    }

    #[test]
    fn each_queue_set_has_one_thread_and_small_controllers_rotate() {
        for (controllers, queue_pairs, threads) in [(1, 6, 2), (1, 2, 2), (3, 2, 2), (4, 4, 3)] {
            let (served, wakeups) = (sockets("sets", controllers, queue_pairs), wakeups(threads));
            let groups = group_controllers(&served, &wakeups.iter().collect::<Vec<_>>(), &[]);
            let divided = divide(&served, &groups, threads, Wait::Adaptive);
            let sets = groups.iter().map(ControllerGroups::sets).sum::<usize>();
            let served = divided.iter().map(|group| group.controllers.len() + group.borrowed.len());
            assert_eq!(served.sum::<usize>(), sets);
            assert!(divided.iter().all(|group| !group.controllers.is_empty() || !group.borrowed.is_empty()));
            assert_eq!(groups[0].sets(), threads.min(queue_pairs as usize));
        }
        assert_eq!([0, 1, 2].map(|controller| group_of(controller, 0, 2)), [0, 1, 0]);
    }

    /// A cache line that a device thread writes for requests (a slot's lock and queues, or the owner's own set) is
    /// written by no other device thread.
    #[test]
    fn no_cache_line_is_written_by_two_device_threads_over_vfio_user() {
        const THREADS: usize = 3;
        let (served, wakeups) = (sockets("lines", 4, 3), wakeups(THREADS));
        let groups = group_controllers(&served, &wakeups.iter().collect::<Vec<_>>(), &[]);
        let mut divided = divide(&served, &groups, THREADS, Wait::Adaptive);
        let mut lines: [BTreeSet<usize>; THREADS] = Default::default();
        let of = |range: Range<usize>| range.start / 64..range.end.div_ceil(64);
        for (number, (served, groups)) in served.iter().zip(&groups).enumerate() {
            let socket = UnixStream::pair().unwrap().0;
            let mut client = Connection::new(socket, true, served.limits(), &Default::default()).unwrap();
            let own = group_of(number, 0, THREADS);
            let mut owned = divided[own].controllers.iter_mut();
            let controller = owned.find(|controller| controller.number == number).unwrap();
            lines[own].extend(of(bytes_of(&*controller.controller.queue_sets()[0])));
            for set in 1..groups.sets() {
                groups.lend(set, LentQueues::new(1, controller.controller.vacant_queue_set(), client.share(), false));
                let entered = groups.slot(set).enter().unwrap();
                let lent = entered.as_ref().unwrap();
                let own = &mut lines[group_of(number, set, THREADS)];
                own.extend(of(bytes_of(&*entered)).chain(of(bytes_of(&**lent))).chain(of(bytes_of(&*lent.set))));
            }
        }
        let all: BTreeSet<&usize> = lines.iter().flatten().collect();
        assert!(all.len() > 100);
        assert_eq!(all.len(), lines.iter().map(BTreeSet::len).sum::<usize>(), "a line is written by two threads");
    }

    fn bytes_of<T>(value: &T) -> Range<usize> {
        let start = std::ptr::from_ref(value) as usize;
        start..start + size_of::<T>()
    }
}
