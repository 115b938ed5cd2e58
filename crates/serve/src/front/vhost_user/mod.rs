//! Front-end over vhost-user, which serves a virtio block device: for hosts that have a driver for virtio and none for
//! NVMe, and for those who want the shortest path from a virtual machine's block layer.
//!
//! A client shares its memory and, in it, rings of descriptors. As with NBD, a client's request takes the place of a
//! request of the modelled application: with timing on, it passes through the modelled software stack, and each ring
//! stands for a modelled thread.
//!
//! - [`blk`] parses the bytes of a request; it does no I/O, and accepts any bytes.
//! - [`memory`] maps the client's memory, and [`ring`] takes requests out of it and writes completions.
//! - [`control`] executes the client's messages on the socket, on a thread for each socket, as they may arrive slowly.
//! - [`data`] moves bytes; [`serve`] is the device thread: one loop over the rings of all clients, with the model or without it.
//!
//! Messages and rings are read by the crates `vhost`, `virtio-queue` and `vm-memory`. Sources: Virtual I/O Device
//! (VIRTIO) 1.2, sections 2.7 (split virtqueues) and 5.2 (block device); QEMU's vhost-user protocol.

pub mod blk;
mod control;
pub mod data;
mod memory;
pub mod ring;
mod serve;

use std::io;

use phaselink_core::ledger::Outcome;
use phaselink_core::problem::{Problem, Problems};

use super::kind::{Front, FrontEndArguments, FrontKind, all};
use super::service::FrontEndService;
use super::socket::bind_unix_socket;
use crate::device::empty_exchange;
use crate::device::report::EmptyExchangeTime;
use control::VhostSocket;

/// Description of the vhost-user front-end: its flag, help text and binding of addresses.
pub const KIND: FrontKind = FrontKind {
    flag: "vhost-user",
    value: "PATH",
    help: "Serve a virtio block device over vhost-user at the socket PATH, to QEMU and other virtual machines; may be given \
           more than once",
    switches: &[],
    settings: &[],
    brings_software: false,
    sends_interrupts: false,
    has_connections: false,
    knows_zones: false,
    knows_keys: false,
    check_model: |_| Ok(()),
    socket: |path| if path.is_empty() { Err(no_path()) } else { Ok(Some(path.into())) },
    bind: |FrontEndArguments { addresses, .. }, _, _| {
        let bound = addresses.iter().map(|path| {
            if path.is_empty() {
                return Err(no_path());
            }
            let refused = |error| Problem::new("--vhost-user", None, format!("{path} cannot be served: {error}"), "");
            let listener = bind_unix_socket(path.as_ref()).map_err(refused)?;
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

/// vhost-user front-end with its bound sockets.
#[derive(Debug)]
struct VhostUser(Vec<VhostSocket>);

impl Front for VhostUser {
    fn addresses(&self) -> Vec<String> {
        self.0.iter().map(|socket| format!("vhost-user:{}", socket.path.display())).collect()
    }

    /// Measures the round trip of two eventfd notifications: a kick of the guest, and a call back.
    fn empty_exchange(&self) -> io::Result<EmptyExchangeTime> {
        empty_exchange::measure_over_eventfds(KIND.flag, None)
    }

    fn serve(&self, service: &FrontEndService<'_>) -> io::Result<Option<Outcome>> {
        serve::serve(service, &self.0)
    }
}
