//! NVMe over TCP: any host with an NVMe/TCP initiator attaches the drive by a TCP connection for each queue.
//!
//! ```text
//!    host (Linux, SPDK)                   TCP                        device thread
//!    ICReq                     ── connection of a queue ────────>   session: PDUs
//!    Connect, properties       ── command capsules ─────────────>   controller: Fabrics commands
//!    commands, written data    ── capsules, H2CData ────────────>   slots, which stand for queue and memory of a host
//!    data, completions         <─ C2HData, response capsules ────   crate::nvme, through the memory of the slots
//! ```
//!
//! The NVMe controller is that of virtual machines ([`crate::nvme`]), which reads submission queue entries and data from
//! host memory. A host in a fabric has neither, so the connection keeps both: a command that has arrived with its data
//! stands in a slot ([`session`]), and the controller finds it at an address that names the queue and the slot (`host`).
//! So zones, placement, keys, faults and timing are those of every other host.
//!
//! - [`wire`] has the layout of PDUs and [`encoder`] writes them, [`fabrics`] the commands of Fabrics, [`address`] the form of addresses.
//! - [`session`] is a connection without its socket, with its commands in `slot`s; [`stream`] is its bytes, and `connection` joins both.
//! - `accept` admits hosts, `directory` gives them controllers, `controller` executes their Fabrics commands, `lending` divides
//!   the queues among poll groups, and `serve` has the poll groups.
//! - `keyring` has the keys of the hosts. [`authentication`] proves who hosts and controllers are, and [`tls`] protects connections; neither has a socket.
//! - [`client`] is the host's end of a queue, and [`initiator`] the rest of a host, by which `phaselink bench` loads a target
//!   (`load`).

mod accept;
pub mod address;
pub mod authentication;
pub mod client;
pub mod client_keys;
mod connection;
mod controller;
mod directory;
pub mod encoder;
pub mod fabrics;
mod host;
pub mod initiator;
mod keyring;
mod lending;
mod load;
mod output;
mod secured;
mod serve;
pub mod session;
mod slot;
pub mod stream;
pub mod tls;
pub mod wire;

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use phaselink_core::drive::Drive;
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::protocol::halves::Attachment;
use phaselink_core::protocol::nvme::rules::Limits;

use super::kind::{BenchTargetKind, Front, FrontEndArguments, FrontEndValueFlag, FrontKind, STRICT, Switch, all};
use super::nvme_command::STRICT_SWITCH;
use super::service::FrontEndService;
use crate::device::empty_exchange;
use crate::device::report::EmptyExchangeTime;
use crate::device::store::Geometry;
use crate::nvme::{Identity, limits};
use accept::Admission;
use directory::Directory;
use keyring::Keyring;

/// Name of the switch that allows addresses which other machines reach.
const BEYOND_LOOPBACK: &str = "beyond-loopback";
/// Name of the flag with the names of admitted hosts.
const HOSTS: &str = "hosts";
/// Name of the flag with the file of keys.
const KEYS: &str = "nvme-tcp-keys";
/// Name of the flag with the file of referrals.
const REFERRALS: &str = "referrals";
/// Maximum number of entries of an I/O queue that hosts are offered (assumed: Linux asks for 128).
const QUEUE_ENTRIES_MAX: u32 = 1024;

/// Description of the front-end for NVMe over TCP: its flags, help texts, binding of addresses and benchmark target.
pub const KIND: FrontKind = FrontKind {
    flag: "nvme-tcp",
    value: "IP:PORT",
    help: "Serve an NVMe subsystem over TCP at this address, with its discovery controller; may be given more than once",
    switches: &[
        STRICT_SWITCH,
        Switch {
            name: BEYOND_LOOPBACK,
            alias: "nvme-tcp-beyond-loopback",
            help: "Let --nvme-tcp listen at addresses that other machines reach; nothing is encrypted without tls_key in --nvme-tcp-keys",
        },
    ],
    settings: &[
        FrontEndValueFlag {
            name: HOSTS,
            value: "NQN,...",
            help: "Names of the hosts that --nvme-tcp admits; all if it is not given",
        },
        FrontEndValueFlag {
            name: KEYS,
            value: "FILE",
            help: "File with the keys of the hosts that --nvme-tcp admits, one host a line: `NQN dhchap_key=... \
                   dhchap_ctrl_key=... tls_key=...`, with keys from nvme gen-dhchap-key and gen-tls-key",
        },
        FrontEndValueFlag {
            name: REFERRALS,
            value: "FILE",
            help: "File with addresses of other discovery services, one a line, which --nvme-tcp refers hosts to; changes \
                   of the file are reported to hosts",
        },
    ],
    brings_software: true,
    sends_interrupts: false,
    has_connections: true,
    knows_zones: true,
    knows_keys: true,
    check_model,
    socket: |_| Ok(None),
    bind: |arguments, drive, geometry| Ok(Box::new(NvmeTcpFrontEnd::bind(arguments, drive, geometry)?)),
    target: Some(BenchTargetKind { form: address::FORM, parse: load::parse }),
};

fn check_model(drive: &Drive) -> Result<(), Problem> {
    if drive.protocol().attaches(Attachment::PciFunction) {
        return Ok(());
    }
    let found = format!("--nvme-tcp: hosts speak NVMe, and {} does not", drive.name);
    Err(Problem::new("serve", None, found, "a drive with an interface that hosts have a driver for, or --timing off"))
}

/// Front-end for NVMe over TCP, with its bound sockets.
#[derive(Debug)]
pub struct NvmeTcpFrontEnd {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    identity: Identity,
    admission: Admission,
    is_strict: bool,
}

impl NvmeTcpFrontEnd {
    /// Binds the addresses of the front-end for hosts of `drive`.
    ///
    /// # Errors
    /// If an address is in use or not allowed, the drive is one that [real hosts cannot have](limits::served_limits), or
    /// a flag has an invalid value.
    pub fn bind(arguments: &FrontEndArguments, drive: &Drive, geometry: Geometry) -> Result<NvmeTcpFrontEnd, Problems> {
        let is_public = arguments.switches.contains(&BEYOND_LOOPBACK);
        let parsed = all(arguments.addresses.iter().map(|text| address::parse_port_address(text, is_public)))?;
        let limits = limits::served_limits(drive, geometry)?;
        if limits.kind.metadata().is_some() {
            let found = "nvme.protection is set: in a fabric, metadata follows the data of each block, not in a buffer of its own";
            return Err(Problem::new("--nvme-tcp", None, found, "--set nvme.protection=none, or --vfio-user").into());
        }
        // One ring entry always stays free, so the model needs one entry more than the queue.
        let queue_entries = (limits.queue_entries - 1).clamp(2, QUEUE_ENTRIES_MAX);
        let limits = Limits { queue_entries, ..limits };
        let identity = Identity::new(&drive.name, limits, 0).with_atomic_bytes(drive.nvme.atomic_write_bytes);
        let listeners = all(parsed.into_iter().map(bind_tcp_listener))?;
        let addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect::<Vec<_>>();
        let keys = arguments.setting(KEYS).map(keyring::read_host_key_file).transpose()?;
        let keyring = keys.map(|keys| Arc::new(Keyring::new(keys, &identity.nvm_subsystem_name())));
        let admission = Admission {
            keyring,
            subsystem: identity.nvm_subsystem_name(),
            hosts: arguments.setting(HOSTS).map(parse_host_names).transpose()?,
            referrals: arguments.setting(REFERRALS).map(parse_referral_file_path).transpose()?,
            discovery: Arc::default(),
            directory: Directory::default(),
            data_max: controller::max_command_data_bytes(&identity),
        };
        admission.publish(&addresses);
        Ok(NvmeTcpFrontEnd {
            listeners,
            addresses,
            identity,
            admission,
            is_strict: arguments.switches.contains(&STRICT),
        })
    }

    /// Returns the name of the drive's subsystem, which hosts connect to.
    pub fn subsystem(&self) -> &str {
        &self.admission.subsystem
    }
}

fn bind_tcp_listener(address: SocketAddr) -> Result<TcpListener, Problem> {
    let bound = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.map_err(|error| Problem::new("--nvme-tcp", None, format!("{address} cannot be served: {error}"), ""))
}

fn parse_host_names(text: &str) -> Result<Vec<String>, Problem> {
    let name = |name: &str| match fabrics::is_valid_nqn(name) {
        true => Ok(String::from(name)),
        false => {
            let found = format!("`{name}` is no NVMe Qualified Name");
            Err(Problem::new("--hosts", None, found, "names that begin with nqn., with commas between them"))
        }
    };
    text.split(',').map(str::trim).map(name).collect()
}

fn parse_referral_file_path(text: &str) -> Result<PathBuf, Problem> {
    match fs::metadata(text) {
        Ok(_) => Ok(PathBuf::from(text)),
        Err(error) => Err(Problem::new(
            "--referrals",
            None,
            format!("{text} cannot be read: {error}"),
            "a file, which may be empty",
        )),
    }
}

impl Front for NvmeTcpFrontEnd {
    fn addresses(&self) -> Vec<String> {
        self.addresses.iter().map(|address| format!("{}{address}", address::SCHEME)).collect()
    }

    /// Measures the round trip of a command capsule and a response capsule.
    fn empty_exchange(&self) -> io::Result<EmptyExchangeTime> {
        empty_exchange::over_tcp(KIND.flag, [wire::CAPSULE_HEADER_BYTES, wire::RESPONSE_HEADER_BYTES])
    }

    fn brings_software(&self) -> bool {
        true
    }

    fn modelled_drive(&self, drive: &Drive) -> Drive {
        serve::behind_the_fabric(drive)
    }

    fn serve(&self, service: &FrontEndService<'_>) -> io::Result<Option<Outcome>> {
        serve::serve(service, &self.listeners, &self.identity, (&self.admission, self.is_strict))
    }
}
