//! Acceptance of client connections at the sockets of NBD exports.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::event::{PollFd, PollFlags};

use super::connection::{NbdConnection, OpenConnectionGuard};
use super::export::Export;
use super::session::Session;
use super::socket::{Listener, Stream};
use crate::device::Device;
use crate::front::poll_group::sleep;

/// Maximum number of connections of one NBD server, over all its addresses. Each holds at most two messages of 32 MiB.
const CONNECTIONS_MAX: usize = 64;
/// Maximum number of further connections, whose clients are only told that the server has too many.
const REFUSED_MAX: usize = 64;
/// Message to clients that are refused because there are too many connections.
const TOO_MANY: &str = "the server has as many connections as it takes (64)";

/// Export of an NBD server, with the listening socket at which clients find it.
#[derive(Debug)]
pub struct ExportSocket {
    /// Listening socket at which clients connect.
    pub listener: Listener,
    /// Export that clients of this socket can choose.
    pub export: Export,
}

impl ExportSocket {
    /// Accepts the next waiting client, and returns its stream and session; none if no client waits. With too many
    /// connections `open`, the session only refuses the client, or the client is disconnected at once.
    fn accept(&self, open: usize) -> Option<(Stream, Session)> {
        // If the connection fails before it is accepted, only that client is affected.
        let stream = self.listener.accept().ok().flatten()?;
        match open {
            0..CONNECTIONS_MAX => Some((stream, Session::begin())),
            _ if open < CONNECTIONS_MAX + REFUSED_MAX => Some((stream, Session::session_that_refuses_client(TOO_MANY))),
            _ => None,
        }
    }
}

/// Accepts client connections until the device is told to stop, and passes each to `connect`.
///
/// # Errors
/// If the system cannot wait for sockets.
pub(super) fn accept<'a>(
    device: &Device,
    served: &'a [ExportSocket],
    open: &'a AtomicUsize,
    mut connect: impl FnMut(NbdConnection<'a>),
) -> io::Result<()> {
    let _stop = device.stop.stop_when_dropped();
    let mut number = 0;
    while !device.stop.is_requested() {
        let mut polled: Vec<PollFd<'_>> = served.iter().map(|one| PollFd::new(&one.listener, PollFlags::IN)).collect();
        polled.push(PollFd::new(&*device.stop, PollFlags::IN));
        sleep(&mut polled, None)?;
        for one in served {
            let Some(accepted) = one.accept(open.load(Ordering::Relaxed)) else { continue };
            let block_bytes = device.store.geometry().block_bytes;
            connect(NbdConnection::new(number, accepted, &one.export, block_bytes, OpenConnectionGuard::new(open)));
            number += 1;
        }
    }
    Ok(())
}
