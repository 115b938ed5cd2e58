//! Poll groups of NBD connections, while timing is on.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::Duration;

use phaselink_core::ledger::Outcome;
use rustix::event::PollFd;

use super::accept::{ExportSocket, accept};
use super::connection::{ConnectionRequest, NbdConnection};
use crate::front::lifecycle::{Delivery, RequestInFlight, RequestLifecycle, Resume};
use crate::front::poll_group::{FrontEnd, PollGroupMailbox, owner, run_all, sleep};
use crate::front::service::FrontEndService;

/// NBD connections that one device thread owns.
struct ConnectionGroup<'g, 'c> {
    /// Connections by their numbers. No number is used again, so that a request whose client has gone finds no
    /// connection.
    connections: BTreeMap<u64, NbdConnection<'c>>,
    handover: &'g PollGroupMailbox<'c, NbdConnection<'c>>,
}

impl ConnectionGroup<'_, '_> {
    /// Reads the bytes that a client has sent, begins its complete requests, and sends its replies.
    fn on_socket_ready(&mut self, life: &mut RequestLifecycle<'_, ConnectionRequest>, number: u64) {
        let is_open = self.connections.get_mut(&number).is_some_and(NbdConnection::receive);
        self.begin_received_requests(life, number, is_open);
    }

    /// Begins the received requests of a connection for which there is room, and sends replies. Removes the connection
    /// if it is broken, or if it is closed and its last reply has been sent.
    fn begin_received_requests(
        &mut self,
        life: &mut RequestLifecycle<'_, ConnectionRequest>,
        number: u64,
        is_open: bool,
    ) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        while let Some(request) = connection.next_request(&mut life.counter) {
            life.begin(connection, request);
        }
        let is_sent = is_open && connection.send(life.device).is_ok();
        let session = &connection.session;
        if !is_sent || session.is_closed() && connection.is_idle() && session.output.is_empty() {
            self.connections.remove(&number);
        }
    }
}

impl Resume<ConnectionRequest> for ConnectionGroup<'_, '_> {
    fn resume(
        &mut self,
        life: &mut RequestLifecycle<'_, ConnectionRequest>,
        request: RequestInFlight<ConnectionRequest>,
    ) {
        let number = request.request().connection;
        if let Some(connection) = self.connections.get_mut(&number) {
            life.advance(connection, request);
            self.begin_received_requests(life, number, true);
        }
    }

    fn has_clients(&self) -> bool {
        !self.connections.is_empty()
    }
}

impl FrontEnd for ConnectionGroup<'_, '_> {
    type Request = ConnectionRequest;
    const DELIVERY: Delivery = Delivery::AtInstant;

    fn attend(&mut self, life: &mut RequestLifecycle<'_, ConnectionRequest>) -> bool {
        self.connections.retain(|_, connection| !connection.is_silent());
        let arrived = self.handover.take();
        let any = !arrived.is_empty();
        for mut connection in arrived {
            let number = connection.number;
            connection.turn = life.model.next_turn();
            self.connections.insert(number, connection);
            self.on_socket_ready(life, number);
        }
        any
    }

    fn fetch(&mut self, life: &mut RequestLifecycle<'_, ConnectionRequest>) -> bool {
        if self.connections.is_empty() {
            return false;
        }
        let mut polled: Vec<PollFd<'_>> = self.connections.values().map(NbdConnection::polled).collect();
        // If the kernel cannot poll the sockets, the next sleep reports the error.
        let _ = sleep(&mut polled, Some(Duration::ZERO));
        let ready = polled.iter().zip(self.connections.keys()).filter(|(fd, _)| !fd.revents().is_empty());
        let ready: Vec<u64> = ready.map(|(_, number)| *number).collect();
        ready.iter().for_each(|number| self.on_socket_ready(life, *number));
        !ready.is_empty()
    }

    fn prepare_sleep(&mut self, _: &mut Duration) -> Option<Vec<PollFd<'_>>> {
        (!self.handover.has_any()).then(|| self.connections.values().map(NbdConnection::polled).collect())
    }
}

/// Serves NBD clients with timing on until the device is told to stop. Connections are divided among the device
/// threads.
///
/// # Errors
/// If the system gives no thread, or cannot wait for sockets.
pub(super) fn serve(service: &FrontEndService<'_>, served: &[ExportSocket]) -> io::Result<Option<Outcome>> {
    let device = service.device;
    let groups = service.groups(service.device_threads);
    let (open, number) = (AtomicUsize::new(0), groups.len());
    let handovers: Vec<PollGroupMailbox<'_, NbdConnection<'_>>> =
        groups.iter().map(|group| PollGroupMailbox::new(group.wakeup)).collect();
    thread::scope(|scope| {
        let _stop = device.stop.stop_when_dropped();
        let builder = thread::Builder::new().name(String::from("nbd listener"));
        let listener = builder.spawn_scoped(scope, || {
            accept(device, served, &open, |connection| handovers[owner(connection.number, 0, number)].put(connection))
        })?;
        let groups = groups
            .into_iter()
            .zip(&handovers)
            .map(|(group, handover)| move || group.run(ConnectionGroup { connections: BTreeMap::new(), handover }));
        let ended = run_all(device, "nbd", groups.collect());
        let accepted = listener.join().unwrap_or_else(|_| Err(io::Error::other("the listener of nbd has failed")));
        ended.and_then(|outcome| accepted.map(|()| outcome))
    })
}
