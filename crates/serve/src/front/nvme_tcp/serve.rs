//! Poll groups of NVMe/TCP: each owns the controllers of some places, and borrows queues of others.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use phaselink_core::drive::Drive;
use phaselink_core::ledger::Outcome;
use phaselink_core::number::{index, length, low_u16};
use phaselink_core::protocol::nvme::config::DataPointerFormat;
use phaselink_core::protocol::nvme::spec::Status;
use rustix::event::{PollFd, PollFlags};

use super::accept::{Admission, accept};
use super::address::SCHEME;
use super::controller::{
    ControllerPlaceSettings, ServedControllerPlace, post_and_send_completions, receive_for_lent_queues,
};
use super::directory::{DISCOVERY_PLACES, DRIVE_PLACES};
use super::lending::{ControllerOwnerMessage, ControllerPollGroups, LentConnections, group_of};
use crate::device::Device;
use crate::device::counter::Counter;
use crate::device::tally::UndefinedBehaviour;
use crate::device::wakeup::Wakeup;
use crate::front::lifecycle::{Delivery, RequestInFlight, RequestLifecycle, Resume};
use crate::front::nvme_command::{
    CommandRequest, HandOver, Place, QueueEndpoint, behind_the_doorbell, fetch_from_all_queues, join_nvm_subsystem,
};
use crate::front::poll_group::{FrontEnd, LentQueueOwner, run_all};
use crate::front::service::FrontEndService;
use crate::nvme::{Identity, limits};

/// Set of queues that a thread borrows from a place that another thread owns.
#[derive(Clone, Copy, Debug)]
struct BorrowedQueueSet<'a> {
    groups: &'a ControllerPollGroups<'a>,
    slot: &'a LentQueueOwner<LentConnections>,
    place: usize,
}

/// Places that one device thread owns, and the queues that it borrows.
#[derive(Debug)]
struct PlaceGroup<'a> {
    places: Vec<ServedControllerPlace<'a>>,
    borrowed: Vec<BorrowedQueueSet<'a>>,
    /// Number of queue pairs of each controller in the model; none with timing off.
    model_queue_pairs: Option<u16>,
    transfer_bytes_max: usize,
    /// True if every socket is read in the next round, since one of them may have ended a sleep.
    is_forced: bool,
    /// Sockets that end the present sleep.
    watched: Vec<(Arc<TcpStream>, PollFlags)>,
}

/// Returns the drive that is modelled for hosts with software of their own, whose data pointers are SGLs: with queues
/// for all controllers.
pub(super) fn behind_the_fabric(drive: &Drive) -> Drive {
    let mut drive = behind_the_doorbell(drive, DRIVE_PLACES);
    drive.nvme.data_pointer = DataPointerFormat::Sgl;
    drive
}

/// Serves hosts until the device is told to stop. Controllers and their queues are divided among the device threads.
///
/// # Errors
/// If the system gives no thread, or cannot wait for sockets.
pub(super) fn serve(
    service: &FrontEndService<'_>,
    listeners: &[TcpListener],
    identity: &Identity,
    (admission, is_strict): (&Admission, bool),
) -> io::Result<Option<Outcome>> {
    let device = service.device;
    let identity = &join_nvm_subsystem(service, identity)?;
    let addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok());
    let path = |address: SocketAddr| {
        (address.port(), identity.subsystem.add_host_path(&device.faults, format!("{SCHEME}{address}")))
    };
    let paths: Vec<(u16, u32)> = addresses.map(path).collect();
    let settings = ControllerPlaceSettings { identity, paths: &paths, admission, is_strict, is_timed: service.timing };
    let groups = service.groups(service.device_threads);
    let wakeups: Vec<&Wakeup> = groups.iter().map(|group| group.wakeup).collect();
    let sets = wakeups.len().min(index(identity.limits.queue_pairs));
    let of_place = |place| ControllerPollGroups::new(place, if place < DRIVE_PLACES { sets } else { 1 }, &wakeups);
    let places: Vec<ControllerPollGroups<'_>> = (0..DRIVE_PLACES + DISCOVERY_PLACES).map(of_place).collect();
    let mut fronts = divide_places_among_threads(&settings, &places, wakeups.len());
    if service.timing {
        let pairs = low_u16(limits::offered_queue_pairs(&device.drive));
        fronts.iter_mut().for_each(|front| front.model_queue_pairs = Some(pairs));
    }
    thread::scope(|scope| {
        let _stop = device.stop.stop_when_dropped();
        let builder = thread::Builder::new().name(String::from("nvme-tcp listener"));
        let listener = builder.spawn_scoped(scope, || {
            accept(device, listeners, admission, |place, arrival| {
                places[place].handover.put(ControllerOwnerMessage::Arrival(Box::new(arrival)));
            })
        })?;
        let groups = groups.into_iter().zip(fronts).map(|(group, front)| move || group.run(front));
        let ended = run_all(device, "nvme-tcp", groups.collect());
        let accepted = listener.join().unwrap_or_else(|_| Err(io::Error::other("the listener of nvme-tcp has failed")));
        ended.and_then(|outcome| accepted.map(|()| outcome))
    })
}

/// Divides places and the queues of their controllers among `threads` threads, and returns the group of each thread.
fn divide_places_among_threads<'a>(
    settings: &'a ControllerPlaceSettings<'a>,
    groups: &'a [ControllerPollGroups<'a>],
    threads: usize,
) -> Vec<PlaceGroup<'a>> {
    let empty = || PlaceGroup {
        places: Vec::new(),
        borrowed: Vec::new(),
        model_queue_pairs: None,
        transfer_bytes_max: index(settings.identity.limits.transfer_bytes_max),
        is_forced: true,
        watched: Vec::new(),
    };
    let mut fronts: Vec<PlaceGroup<'a>> = (0..threads).map(|_| empty()).collect();
    for (place, groups) in groups.iter().enumerate() {
        fronts[group_of(place, 0, threads)].places.push(ServedControllerPlace::new(place, settings, groups));
        for set in 1..groups.sets() {
            let borrowed = BorrowedQueueSet { groups, slot: groups.slot(set), place };
            fronts[group_of(place, set, threads)].borrowed.push(borrowed);
        }
    }
    fronts
}

impl PlaceGroup<'_> {
    /// Returns the number of the modelled queue that stands for I/O queue 1 of the controller in a place.
    fn first_model_queue(&self, place: usize) -> Option<u16> {
        self.model_queue_pairs.map(|pairs| low_u16(length(place)) * pairs)
    }

    #[inline]
    fn fetch_owned(&mut self, life: &mut RequestLifecycle<'_, CommandRequest>, is_forced: bool) -> bool {
        let (mut found, device) = (false, life.device);
        for at in 0..self.places.len() {
            if !self.places[at].has_connected_host() {
                continue;
            }
            let first_model_queue = self.first_model_queue(self.places[at].number);
            let place = &mut self.places[at];
            found |= place.receive(is_forced, device);
            let count = |status| life.counter.counts().errors += u64::from(status != Status::SUCCESS);
            found |= place.administer(count);
            let (groups, client) = (place.groups(), place.clients_ever);
            let Some((sets, host)) = place.own() else { continue };
            for set in sets {
                let place = Place::Owned(at);
                let mut endpoint = QueueEndpoint { place, client, groups, set, host, first_model_queue };
                found |= fetch_from_all_queues(life, &mut endpoint);
                post_and_send_completions(endpoint.set, endpoint.host);
            }
            host.flush();
        }
        found
    }

    #[inline]
    fn fetch_from_borrowed_queues(&mut self, life: &mut RequestLifecycle<'_, CommandRequest>, is_forced: bool) -> bool {
        let mut found = false;
        for (at, borrowed) in self.borrowed.iter().enumerate() {
            let BorrowedQueueSet { groups, slot, place } = *borrowed;
            let Some(mut entered) = slot.enter() else { continue };
            let Some(lent) = &mut *entered else { continue };
            found |= receive_for_lent_queues(lent, is_forced, groups);
            let first_model_queue = self.first_model_queue(place);
            let LentConnections { client, set, host, .. } = &mut **lent;
            let place = Place::Borrowed(at);
            let mut endpoint = QueueEndpoint { place, client: *client, groups, set, host, first_model_queue };
            found |= fetch_from_all_queues(life, &mut endpoint);
            post_and_send_completions(endpoint.set, endpoint.host);
            endpoint.host.flush();
        }
        found
    }

    /// Handles everything that other threads have handed over to this thread's places; returns true if there was
    /// anything.
    #[inline]
    fn process_handed_over_items(&mut self, life: &mut RequestLifecycle<'_, CommandRequest>) -> bool {
        let mut any = false;
        for at in 0..self.places.len() {
            let inbox = self.places[at].inbox();
            if inbox.has_any() {
                inbox.take().into_iter().for_each(|message| self.on_owner_message(life, at, message));
                any = true;
            }
        }
        any
    }

    #[cold]
    fn on_owner_message(
        &mut self,
        life: &mut RequestLifecycle<'_, CommandRequest>,
        at: usize,
        message: ControllerOwnerMessage,
    ) {
        let place = &mut self.places[at];
        match message {
            ControllerOwnerMessage::Arrival(arrival) => place.connect(*arrival, life.device),
            ControllerOwnerMessage::Attention => {
                place.take_back();
                place.receive(true, life.device);
                place.attend(life.device);
            }
            ControllerOwnerMessage::Request(mut request) => {
                place.take_back();
                request.request_mut().place = Place::Owned(at);
                if let Some(request) = life.delay_until_completion_due(*request) {
                    self.resume(life, request);
                }
            }
        }
    }

    fn count_undefined_host_behaviour(&mut self, counter: &mut Counter<'_>, device: &Device) {
        let mut note = |seen: Vec<(&'static UndefinedBehaviour, u64)>| {
            for (behaviour, count) in seen {
                device.tallies.report_first_undefined_behaviour(behaviour);
                counter.counts().count_undefined_behaviour(behaviour, count);
            }
        };
        for place in &mut self.places {
            place.controller().into_iter().for_each(|controller| note(controller.take_undefined()));
        }
        for borrowed in &self.borrowed {
            if let Some(mut entered) = borrowed.slot.enter() {
                entered.iter_mut().for_each(|lent| note(lent.set.take_undefined()));
            }
        }
    }
}

impl Resume<CommandRequest> for PlaceGroup<'_> {
    fn resume(&mut self, life: &mut RequestLifecycle<'_, CommandRequest>, request: RequestInFlight<CommandRequest>) {
        let CommandRequest { place, client, .. } = *request.request();
        match place {
            Place::Owned(at) => {
                let served = &mut self.places[at];
                let groups = served.groups();
                let Some((set, host)) = served.find(client, &request.request().command) else { return };
                let mut endpoint = QueueEndpoint { place, client, groups, set, host, first_model_queue: None };
                life.advance(&mut endpoint, request);
                endpoint.host.flush();
            }
            Place::Borrowed(at) => {
                let BorrowedQueueSet { groups, slot, .. } = self.borrowed[at];
                let mut entered = slot.enter();
                match entered.as_deref_mut().and_then(Option::as_mut).filter(|lent| lent.client == client) {
                    None => groups.hand_over(request),
                    Some(lent) => {
                        let LentConnections { set, host, .. } = &mut **lent;
                        let mut endpoint = QueueEndpoint { place, client, groups, set, host, first_model_queue: None };
                        life.advance(&mut endpoint, request);
                        endpoint.host.flush();
                    }
                }
            }
        }
    }

    fn has_clients(&self) -> bool {
        let has_queues = |borrowed: &BorrowedQueueSet<'_>| borrowed.slot.enter().is_some();
        self.places.iter().any(ServedControllerPlace::has_connected_host) || self.borrowed.iter().any(has_queues)
    }
}

impl FrontEnd for PlaceGroup<'_> {
    type Request = CommandRequest;
    const DELIVERY: Delivery = Delivery::BytesAhead;
    const ROUNDS_PER_ATTENTION: u32 = 64;

    fn transfer_bytes_max(&self) -> usize {
        self.transfer_bytes_max
    }

    fn attend(&mut self, life: &mut RequestLifecycle<'_, CommandRequest>) -> bool {
        let device = life.device;
        let any = self.places.iter_mut().fold(false, |any, place| place.attend(device) | any);
        self.count_undefined_host_behaviour(&mut life.counter, device);
        any
    }

    #[inline]
    fn fetch(&mut self, life: &mut RequestLifecycle<'_, CommandRequest>) -> bool {
        let is_forced = std::mem::take(&mut self.is_forced);
        self.process_handed_over_items(life)
            | self.fetch_owned(life, is_forced)
            | self.fetch_from_borrowed_queues(life, is_forced)
    }

    fn prepare_sleep(&mut self, time: &mut Duration) -> Option<Vec<PollFd<'_>>> {
        self.watched.clear();
        for place in &mut self.places {
            if place.inbox().has_any() {
                return None;
            }
            let connections = place.connections().into_iter().flat_map(|queues| queues.all());
            for (_, connection) in connections {
                if connection.has_unread() {
                    return None;
                }
                *time = connection.remaining_stall_time().map_or(*time, |rest| rest.min(*time));
                self.watched.push(connection.watched());
            }
        }
        for borrowed in &self.borrowed {
            let Some(mut entered) = borrowed.slot.enter() else { continue };
            let connections = entered.iter_mut().flat_map(|lent| lent.host.all());
            for (_, connection) in connections {
                if connection.has_unread() {
                    return None;
                }
                *time = connection.remaining_stall_time().map_or(*time, |rest| rest.min(*time));
                self.watched.push(connection.watched());
            }
        }
        Some(self.watched.iter().map(|(socket, events)| PollFd::from_borrowed_fd(socket.as_fd(), *events)).collect())
    }

    fn end_sleep(&mut self) {
        self.is_forced = true;
    }

    fn end(&mut self, life: &mut RequestLifecycle<'_, CommandRequest>) {
        self.count_undefined_host_behaviour(&mut life.counter, life.device);
    }
}
