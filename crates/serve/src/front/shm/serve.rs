//! The device threads: one loop over the clients, with the model or without it.

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
use crate::device::wakeup::Wakeup;
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

    /// Whether others than the clients have asked for anything, who ring if the thread sleeps.
    fn is_asked(&mut self) -> bool {
        false
    }

    /// How long nothing is due, for a thread that waits like this.
    fn idle_for(&self, wait: Wait) -> Duration;

    /// Nothing has been there for a while.
    fn rested(&mut self);
}

/// Serve those who come to the sockets until the device is told to stop, on as many threads as there are executions, which
/// are made there, each with the wakeup of its thread. The first of them is the calling one.
///
/// # Errors
/// If the system gives no thread, or cannot wait for sockets.
///
/// # Panics
/// If there is no execution.
pub(super) fn serve<E: Execution>(
    device: &Device,
    sockets: &[ShareSocket],
    wait: Wait,
    mut executions: Vec<(&Wakeup, impl FnOnce() -> E + Send)>,
) -> io::Result<()> {
    let inboxes: Vec<Inbox<'_>> = executions.iter().map(|(wakeup, _)| Inbox::new(wakeup)).collect();
    let doorbells = wait != Wait::Spin;
    let listener = Listener { device, served: sockets, inboxes: &inboxes, doorbells, modelled: E::IS_MODELLED };
    thread::scope(|scope| {
        let _stop = device.stop.at_the_end();
        let builder = thread::Builder::new().name(String::from("shm listener"));
        let listener = builder.spawn_scoped(scope, || listener.run())?;
        let (_, first) = executions.swap_remove(0);
        let others = inboxes[1..].iter().zip(executions).map(|(inbox, (_, execution))| {
            let builder = thread::Builder::new().name(String::from("shm device"));
            builder.spawn_scoped(scope, move || serve_one(device, wait, inbox, &mut execution()))
        });
        let others = others.collect::<io::Result<Vec<_>>>()?;
        let served = serve_one(device, wait, &inboxes[0], &mut first());
        let joined = others.into_iter().chain([listener]).map(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of shared memory has failed")))
        });
        // All of them, before the first error.
        joined.collect::<Vec<_>>().into_iter().fold(served, io::Result::and)
    })
}

/// One device thread, until the device is told to stop.
fn serve_one<E: Execution>(device: &Device, wait: Wait, inbox: &Inbox<'_>, execution: &mut E) -> io::Result<()> {
    thread::scope(|scope| {
        let _stop = device.stop.at_the_end();
        let flusher = Flusher::of_store(scope, &device.store, || inbox.wakeup().signal())?;
        run(device, &mut Clients::new(inbox, flusher, wait), execution);
        Ok(())
    })
}

/// Bells of so many threads.
///
/// # Errors
/// If the process has no descriptor left.
pub(super) fn wakeups(threads: usize) -> io::Result<Vec<Wakeup>> {
    (0..threads).map(|_| Wakeup::new()).collect()
}

fn run<E: Execution>(device: &Device, clients: &mut Clients<'_>, execution: &mut E) {
    while !device.stop.is_requested() {
        clients.update(|client| execution.greet(client));
        while let Some(status) = clients.answer_flush() {
            execution.flushed(status);
        }
        if execution.round(clients) {
            clients.busy();
        } else if clients.idle(execution) {
            execution.rested();
        }
    }
}
