//! The device thread: one loop over the clients, with the model or without it.

use std::io;
use std::thread;
use std::time::Duration;

use phaselink_ring::status::Status;

use super::ShareSocket;
use super::client::Client;
use super::clients::Clients;
use super::listener::{Inbox, Listener};
use crate::device::Device;
use crate::device::flusher::Flusher;
use crate::model::wall::Wait;

/// What becomes of commands: at once, or when the model says.
pub(super) trait Execution {
    /// Whether clients are told how long their commands take.
    const IS_MODELLED: bool;

    /// A client has come.
    fn greet(&mut self, client: &mut Client);

    /// Look at all queues, and at whatever else there is; whether anything was there.
    fn round(&mut self, clients: &mut Clients<'_>) -> bool;

    /// A flush has been answered.
    fn flushed(&mut self, status: Status);

    /// How long nothing is due, for a thread that waits like this.
    fn idle_for(&self, wait: Wait) -> Duration;

    /// Nothing has been there for a while.
    fn rested(&mut self);
}

/// Serve those who come to the sockets until the device is told to stop.
///
/// # Errors
/// If the system gives no thread, or cannot wait for sockets.
pub(super) fn serve<E: Execution>(
    device: &Device,
    sockets: &[ShareSocket],
    wait: Wait,
    execution: &mut E,
) -> io::Result<()> {
    let inbox = Inbox::new(thread::current());
    let doorbells = wait != Wait::Spin;
    let listener = Listener { device, served: sockets, inbox: &inbox, doorbells, modelled: E::IS_MODELLED };
    thread::scope(|scope| {
        let _stop = device.stop.at_the_end();
        let builder = thread::Builder::new().name(String::from("shm listener"));
        let listener = builder.spawn_scoped(scope, || listener.run())?;
        let thread = thread::current();
        let flusher = Flusher::of_store(scope, &device.store, move || thread.unpark())?;
        run(device, wait, &mut Clients::new(&inbox, flusher, wait), execution);
        listener.join().unwrap_or_else(|_| Err(io::Error::other("the listener at sockets has failed")))
    })
}

fn run<E: Execution>(device: &Device, wait: Wait, clients: &mut Clients<'_>, execution: &mut E) {
    while !device.stop.is_requested() {
        clients.update(|client| execution.greet(client));
        while let Some(status) = clients.answer_flush() {
            execution.flushed(status);
        }
        if execution.round(clients) {
            clients.busy();
        } else if clients.idle(|| execution.idle_for(wait)) {
            execution.rested();
        }
    }
}
