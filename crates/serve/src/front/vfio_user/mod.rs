//! NVMe over vfio-user: a PCI device in this process, for virtual machines and user-space drivers of others.
//!
//! ```text
//!    client (QEMU, SPDK)                     socket                    device thread
//!    VERSION, regions, interrupts  <──────────────────────────────>   session
//!    DMA_MAP with descriptors      ───────────────────────────────>   memory: mapped here
//!    register or doorbell write    ── REGION_WRITE ───────────────>   registers, doorbell page
//!    doorbell write, page mapped   ═══ memory ════════════════════>   doorbell page
//!    commands, data, answers       <══ memory ════════════════════>   crate::nvme
//!    interrupt                     <── eventfd ────────────────────
//! ```
//!
//! The protocol is that of QEMU's documentation (docs/interop/vfio-user.rst) and of libvfio-user, version 0.1, as
//! clients really speak it: messages are framed by their length, requests may be padded, JSON may be missing, memory
//! may come without a descriptor and is then reached by asking the client.
//!
//! - [`wire`] is the layout of messages, [`pci`] the configuration space.
//! - [`session`] executes messages. It has no socket: one message in, one reply out.
//! - [`memory`] is the client's memory, and [`mapping`] a mapped region of it, with the only `unsafe` code.
//! - [`connection`] is the socket, and the [`Host`](crate::nvme::Host) of a controller. [`reach`] is the access of
//!   threads without the socket.
//! - `migration` has the states of a controller that moves to another server, `moving` the stream of its bytes and state,
//!   and [`page_log`] the client's pages that the device writes meanwhile.
//! - `controller` is a socket with its controller. `lending` divides the controller's queues among poll groups, and
//!   `serve` has the poll groups. The steps of a command are in `front/nvme_command.rs`.
//!
//! When a client disconnects, its memory and interrupts are released, the controller is as after a loss of power, and
//! the next client may connect. The data stays.

pub mod connection;
mod controller;
pub mod interrupts;
mod lending;
pub mod mapping;
pub mod memory;
mod migration;
mod moving;
pub mod page_log;
pub mod pci;
pub mod reach;
mod serve;
pub mod session;
pub mod wire;

use std::io;
use std::path::Path;

use phaselink_core::drive::Drive;
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::Problem;
use phaselink_core::protocol::halves::Attachment;

use super::kind::{Front, FrontEndArguments, FrontKind, STRICT, Switch, all};
use super::nvme_command::{STRICT_SWITCH, behind_the_doorbell};
use super::service::FrontEndService;
use crate::clock::Wait;
use crate::device::empty_exchange;
use crate::device::report::EmptyExchangeTime;

pub use controller::{ControllerSocket, socket_path};

/// Name of the switch that makes all controllers of a drive those of one NVM subsystem.
const ONE_SUBSYSTEM: &str = "one-subsystem";
const ONE_SUBSYSTEM_SWITCH: Switch = Switch {
    name: ONE_SUBSYSTEM,
    alias: "vfio-user-one-subsystem",
    help: "Let hosts see the controllers of --vfio-user, and those of --nvme-tcp, as paths to the same namespaces of one \
           NVM subsystem; without it, each is a drive of its own to hosts",
};

/// Description of the front-end for NVMe over vfio-user: its flags, help texts and binding of addresses.
pub const KIND: FrontKind = FrontKind {
    flag: "vfio-user",
    value: "PATH",
    help: "Serve an NVMe device over vfio-user at the socket PATH, or at PATH/cntrl if PATH is a directory; may be given \
           more than once",
    switches: &[STRICT_SWITCH, ONE_SUBSYSTEM_SWITCH],
    settings: &[],
    brings_software: true,
    sends_interrupts: true,
    has_connections: false,
    knows_zones: true,
    knows_keys: true,
    check_model,
    socket: |text| Ok(Some(socket_path(Path::new(text)))),
    bind: |FrontEndArguments { addresses, switches, .. }, drive, geometry| {
        let is_strict = switches.contains(&STRICT);
        let bind = |(number, path): (usize, &String)| {
            let bound = ControllerSocket::bind(Path::new(path), drive, geometry, number)?;
            let bound = if is_strict { bound.strictly() } else { bound };
            Ok(if switches.contains(&ONE_SUBSYSTEM) { bound.in_one_subsystem() } else { bound })
        };
        Ok(Box::new(VfioUser(all(addresses.iter().enumerate().map(bind))?)))
    },
    target: None,
};

fn check_model(drive: &Drive) -> Result<(), Problem> {
    if drive.protocol().attaches(Attachment::PciFunction) {
        return Ok(());
    }
    let found = format!("--vfio-user: hosts speak NVMe, and {} does not", drive.name);
    Err(Problem::new("serve", None, found, "a drive with an interface that hosts have a driver for, or --timing off"))
}

/// Front-end for NVMe over vfio-user, with its bound sockets.
#[derive(Debug)]
pub struct VfioUser(pub Vec<ControllerSocket>);

impl Front for VfioUser {
    fn addresses(&self) -> Vec<String> {
        self.0.iter().map(ControllerSocket::address).collect()
    }

    fn notes(&self, wait: Wait) -> Vec<String> {
        self.0.iter().filter_map(|socket| socket.note(wait)).collect()
    }

    /// Measures the round trip of a doorbell message and an interrupt. For sockets of user-space drivers, which map the
    /// doorbells and poll, measures that of words in memory.
    fn empty_exchange(&self) -> io::Result<EmptyExchangeTime> {
        match self.0.first().is_some_and(ControllerSocket::is_for_drivers) {
            true => Ok(empty_exchange::in_memory(KIND.flag)),
            false => empty_exchange::measure_over_eventfds(KIND.flag, Some(session::RING_BYTES)),
        }
    }

    fn brings_software(&self) -> bool {
        true
    }

    fn spare_threads(&self) -> usize {
        serve::spare_threads(self.0.len())
    }

    fn modelled_drive(&self, drive: &Drive) -> Drive {
        behind_the_doorbell(drive, self.0.len())
    }

    fn serve(&self, service: &FrontEndService<'_>) -> io::Result<Option<Outcome>> {
        serve::serve(service, &self.0)
    }
}
