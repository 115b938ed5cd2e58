//! Commands of clients in shared memory, and the poll groups that own their queues.
//!
//! With timing on, the time that a command spends in real memory must not be added to the modelled time. So a command
//! carries the instant at which its client submitted it, and enters the model as of that instant; its data moves when
//! it is fetched. The completion carries the modelled latency, and the client waits until that time has passed. The
//! machine's own time does not show as long as it is shorter than the model's; the excess is the lag.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};
use std::thread;
use std::time::Duration;

use phaselink_core::ledger::Outcome;
use phaselink_core::number::index;
use phaselink_core::request::Io;
use phaselink_core::time::{Span, Time};
use phaselink_ring::command::Operation;
use phaselink_ring::layout::{MODE_DOORBELL, MODE_POLL, TRANSFER_BYTES_MAX};
use phaselink_ring::status::Status;
use rustix::event::PollFd;

use super::client::{self, CheckedCommand, Client, RingEntry};
use super::listener::{ClientConnectionChange, ClientListener};
use super::share::ShareSocket;
use crate::clock::{Clock, Wait};
use crate::device::Device;
use crate::device::faults::FaultEffect;
use crate::device::record::Record;
use crate::device::store::Store;
use crate::front::lifecycle::{
    Completion, Delivery, Endpoint, Fetch, PollingRoundTimes, Request, RequestClass, RequestInFlight, RequestLifecycle,
    Resume,
};
use crate::front::model::Submission;
use crate::front::poll_group::{FrontEnd, PollGroupMailbox, readable, run_all};
use crate::front::service::FrontEndService;

/// Maximum age of a client's submission stamp. A command with an older stamp, or one in the future, counts as submitted
/// now, because its client has another clock.
const WAY_MAX: Span = Span::from_ms(10);

/// Command of a shared-memory client, from its fetch to its completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientCommand {
    /// Number of the client that submitted the command.
    client: u64,
    /// Turn of the command's queue, which selects the modelled thread that submits the command.
    turn: u16,
    command: CheckedCommand,
}

impl Request for ClientCommand {
    type Status = Status;

    #[inline]
    fn io(&self) -> Option<Io> {
        Some(self.command.io())
    }

    #[inline]
    fn class(&self) -> Option<RequestClass> {
        Some(self.command.io().into())
    }

    fn thread(&self) -> u64 {
        self.command.queue.into()
    }

    fn note(&self, record: &Record) {
        record.note(self.command.io());
    }

    #[inline]
    fn submission(&self, part: usize) -> Option<Submission> {
        (part == 0).then(|| Submission::Software { turn: self.turn.into(), io: self.command.io() })
    }

    #[inline]
    fn submitted(&self, clock: &Clock, round: PollingRoundTimes) -> Time {
        submitted(self.command.asked_ns, clock, round.now)
    }
}

/// Returns the instant at which the client submitted a command that is fetched `now`, according to its stamp
/// `stamp_ns`. Returns `now` if the stamp is not credible.
fn submitted(stamp_ns: u64, clock: &Clock, now: Time) -> Time {
    let submitted = clock.at_ns(stamp_ns).filter(|submitted| now.since(*submitted) < WAY_MAX);
    submitted.unwrap_or(now).min(now)
}

impl Endpoint<ClientCommand> for Client {
    #[inline]
    fn fetch(&mut self, queue: u32, store: &Store) -> Fetch<ClientCommand> {
        match self.take_command(queue) {
            RingEntry::Nothing => Fetch::Nothing,
            RingEntry::Refused => Fetch::Refused,
            RingEntry::Command(command) => {
                self.prefetch_data(&command, store);
                Fetch::Request(ClientCommand { client: self.number, turn: self.turn(queue), command })
            }
        }
    }

    #[inline]
    fn transfer(
        &mut self,
        request: &ClientCommand,
        effect: FaultEffect,
        device: &Device,
        space: &mut Vec<u8>,
    ) -> Option<Status> {
        Some(match effect == FaultEffect::default() {
            _ if request.command.operation == Operation::Flush => Status::Success,
            true => Client::transfer(self, &request.command, &device.store, space),
            false => self.transfer_data_with_fault(effect, &request.command, &device.store, space),
        })
    }

    #[inline]
    fn complete(&mut self, request: &ClientCommand, status: Status, latency: Span, _: &Device) -> Completion {
        if request.command.operation == Operation::Flush {
            return Completion::AfterFlush;
        }
        self.finish(&request.command, status, latency.as_ps() / 1000);
        Completion::Written(status == Status::Success)
    }

    fn commit(&mut self, request: &ClientCommand, flushed: io::Result<()>, latency: Span) -> bool {
        let status = client::status(flushed);
        self.finish(&request.command, status, latency.as_ps() / 1000);
        status == Status::Success
    }

    fn abandon(&mut self, request: &ClientCommand) {
        self.forget(&request.command);
    }
}

/// Clients and queues that one device thread owns.
struct ClientGroup<'a> {
    /// Connected clients, each with those of its queues that the thread owns.
    clients: Vec<Client>,
    /// Socket of each client, in the order of `clients`. It becomes readable when the client rings its doorbell.
    sockets: Vec<OwnedFd>,
    handover: &'a PollGroupMailbox<'a, ClientConnectionChange>,
}

impl Resume<ClientCommand> for ClientGroup<'_> {
    #[inline]
    fn resume(&mut self, life: &mut RequestLifecycle<'_, ClientCommand>, request: RequestInFlight<ClientCommand>) {
        let number = request.request().client;
        if let Some(client) = self.clients.iter_mut().find(|client| client.number == number) {
            life.advance(client, request);
        }
    }

    fn has_clients(&self) -> bool {
        !self.clients.is_empty()
    }
}

impl FrontEnd for ClientGroup<'_> {
    type Request = ClientCommand;
    const DELIVERY: Delivery = Delivery::ByClient;
    const PAUSES: bool = false;

    fn transfer_bytes_max(&self) -> usize {
        index(TRANSFER_BYTES_MAX)
    }

    #[inline]
    fn attend(&mut self, life: &mut RequestLifecycle<'_, ClientCommand>) -> bool {
        if !self.handover.has_any() {
            return false;
        }
        for change in self.handover.take() {
            match change {
                ClientConnectionChange::Arrived(mut client, socket) => {
                    (0..client.queues())
                        .for_each(|queue| client.set_submitting_thread_turn(queue, life.model.next_turn() as u16));
                    self.clients.push(*client);
                    self.sockets.push(socket);
                }
                ClientConnectionChange::Left(number) => {
                    if let Some(place) = self.clients.iter().position(|client| client.number == number) {
                        self.clients.remove(place);
                        self.sockets.remove(place);
                    }
                }
            }
        }
        true
    }

    #[inline]
    fn fetch(&mut self, life: &mut RequestLifecycle<'_, ClientCommand>) -> bool {
        let mut found = false;
        for client in &mut self.clients {
            for queue in 0..client.queues() {
                found |= life.fetch_and_execute_batch(client, queue);
            }
        }
        found
    }

    /// Asks clients for doorbells, and then checks their rings once more. So either this thread sees a new command, or
    /// its client sees that it must ring.
    fn prepare_sleep(&mut self, _: &mut Duration) -> Option<Vec<PollFd<'_>>> {
        self.clients.iter().for_each(|client| client.tell_mode(MODE_DOORBELL));
        fence(Ordering::SeqCst);
        let has_command = |client: &Client| (0..client.queues()).any(|queue| client.has_command(queue));
        let has_work = self.handover.has_any() || self.clients.iter().any(has_command);
        (!has_work).then(|| self.sockets.iter().map(|socket| readable(socket.as_fd())).collect())
    }

    fn end_sleep(&mut self) {
        self.clients.iter().for_each(|client| client.tell_mode(MODE_POLL));
    }
}

/// Serves the clients of `sockets` until the device is told to stop. The queues of each client are divided among the
/// device threads.
///
/// # Errors
/// If the system gives no thread, or cannot wait for sockets.
pub(super) fn serve(service: &FrontEndService<'_>, sockets: &[ShareSocket]) -> io::Result<Option<Outcome>> {
    let FrontEndService { device, wait, timing, .. } = *service;
    let groups = service.groups(service.device_threads);
    let handovers: Vec<PollGroupMailbox<'_, ClientConnectionChange>> =
        groups.iter().map(|group| PollGroupMailbox::new(group.wakeup)).collect();
    let doorbells = wait != Wait::Spin;
    let listener = ClientListener { device, served: sockets, handovers: &handovers, doorbells, modelled: timing };
    thread::scope(|scope| {
        let _stop = device.stop.stop_when_dropped();
        let builder = thread::Builder::new().name(String::from("shm listener"));
        let listener = builder.spawn_scoped(scope, || listener.run())?;
        let groups = groups.into_iter().zip(&handovers).map(|(group, handover)| {
            move || group.run(ClientGroup { clients: Vec::new(), sockets: Vec::new(), handover })
        });
        let ended = run_all(device, "shm", groups.collect());
        let listened = listener.join().unwrap_or_else(|_| Err(io::Error::other("the listener of shm has failed")));
        ended.and_then(|outcome| listened.map(|()| outcome))
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use phaselink_client::shared::memory::Memory;
    use phaselink_ring::layout::Layout;

    use super::*;
    use crate::device::wakeup::Wakeup;
    use crate::front::poll_group;
    use crate::front::shm::share::DriveRange;

    #[test]
    fn time_stamp_is_valid_for_ten_milliseconds() {
        let (clock, now) = (Clock::Steady { start_ns: 5_000 }, Time::ZERO + Span::from_ms(50));
        let age = |stamp_ns| now.since(submitted(stamp_ns, &clock, now));
        let (now_ns, most_ns) = (50_005_000, WAY_MAX.as_ps() / 1000);
        assert_eq!([now_ns - 700, now_ns].map(age), [Span::from_ns(700), Span::ZERO]);
        assert_eq!(age(now_ns - most_ns + 1), WAY_MAX - Span::from_ns(1));
        // Stamps from too long ago, from before the clock's start, never set, or in the future count as age zero.
        assert_eq!([now_ns - most_ns, 4_999, 0, now_ns + 700].map(age), [Span::ZERO; 4]);
    }

    #[test]
    fn clients_doorbell_wakes_its_device_thread() {
        let (wakeup, layout) = (Wakeup::new().unwrap(), Layout { queues: 1, entries: 8, transfer_bytes: 512 });
        let (memory, _) = Memory::create(layout.memory_bytes()).unwrap();
        let part = DriveRange { start: 0, bytes: 1 << 20, block_bytes: 512, writes: true };
        let (mut host, device) = UnixStream::pair().unwrap();
        let handover = PollGroupMailbox::new(&wakeup);
        let clients = vec![Client::new(0, memory, layout, part, 0..1)];
        let mut group = ClientGroup { clients, sockets: vec![device.into()], handover: &handover };
        host.write_all(b"!").unwrap();
        let (since, mut time) = (Instant::now(), Duration::from_secs(10));
        let mut polled = group.prepare_sleep(&mut time).expect("there is no command");
        poll_group::sleep(&mut polled, Some(time)).unwrap();
        assert!(since.elapsed() < time, "the thread has slept to the end");
        drop(polled);
        handover.put(ClientConnectionChange::Left(0));
        assert!(group.prepare_sleep(&mut time).is_none(), "a change has been handed over");
    }
}
