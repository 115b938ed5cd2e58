//! Served over vhost-user, as the block device of virtio: for the hosts that have a driver of virtio and none of NVMe, and
//! for those who want the shortest way from a virtual machine's block layer.
//!
//! A client hands over its memory and, in it, rings of descriptors. As with NBD, the request is where a real host meets the
//! device: with timing on, it goes down the modelled software stack, and a ring is one of its threads.
//!
//! - [`blk`] says what the bytes of a request mean; it is pure, and never fails on any.
//! - [`memory`] is the client's, and [`ring`] takes requests out of it and puts answers there.
//! - [`control`] hears what the client says over the socket: one thread for each, as its messages may be slow to come.
//! - [`data`] moves bytes; [`serve`] is the device thread: one loop over the rings of all clients, with the model or without it.
//!
//! Messages and rings are read by the crates `vhost`, `virtio-queue` and `vm-memory`. Sources: Virtual I/O Device (VIRTIO)
//! 1.2, sections 2.7 (split virtqueues) and 5.2 (block device); QEMU's vhost-user protocol.

pub mod blk;
mod control;
pub mod data;
mod memory;
pub mod ring;
mod serve;

use std::io;

use phaselink_core::ledger::Outcome;
use phaselink_core::problem::{Problem, Problems};

use super::kind::{Front, FrontArguments, FrontKind, all};
use super::service::Service;
use super::socket::bind_unix;
use crate::device::empty_exchange;
use crate::device::report::EmptyExchange;
use control::VhostSocket;

/// vhost-user in the list of front-ends.
pub const KIND: FrontKind = FrontKind {
    flag: "vhost-user",
    value: "PATH",
    help: "Serve a virtio block device over vhost-user at the socket PATH, to QEMU and other virtual machines; may be given \
           more than once",
    switches: &[],
    brings_software: false,
    sends_interrupts: false,
    knows_zones: false,
    knows_keys: false,
    check_model: |_| Ok(()),
    socket: |path| if path.is_empty() { Err(no_path()) } else { Ok(Some(path.into())) },
    bind: |FrontArguments { addresses, .. }, _, _| {
        let bound = addresses.iter().map(|path| {
            if path.is_empty() {
                return Err(no_path());
            }
            let refused = |error| Problem::new("--vhost-user", None, format!("{path} cannot be served: {error}"), "");
            let listener = bind_unix(path.as_ref()).map_err(refused)?;
            listener.set_nonblocking(true).map_err(refused)?;
            Ok(VhostSocket { path: path.into(), listener })
        });
        let sockets: Result<Vec<VhostSocket>, Problems> = all(bound);
        Ok(Box::new(VhostUser(sockets?)))
    },
    target: None,
};

fn no_path() -> Problem {
    Problem::new("--vhost-user", None, "the socket has no path", "--vhost-user PATH")
}

/// Bound addresses of vhost-user.
#[derive(Debug)]
struct VhostUser(Vec<VhostSocket>);

impl Front for VhostUser {
    fn addresses(&self) -> Vec<String> {
        self.0.iter().map(|socket| format!("vhost-user:{}", socket.path.display())).collect()
    }

    /// Measures a kick and a call.
    fn empty_exchange(&self) -> io::Result<EmptyExchange> {
        empty_exchange::over_events(KIND.flag, None)
    }

    fn serve(&self, service: &Service<'_>) -> io::Result<Option<Outcome>> {
        serve::serve(service, &self.0)
    }
}
