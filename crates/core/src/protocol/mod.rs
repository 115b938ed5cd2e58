//! Protocols: each a folder with its two halves, the driver (host side) and the controller (device side), which meet
//! at the link. A new protocol is one more folder and one more line in each list below.

/// The list of protocols: calls `$with!` with each one's folder, the name of its keys, and its name in drive files.
macro_rules! protocols {
    ($with:ident) => {
        $with! {
            nvme: Nvme = "nvme",
            dc_express: DcExpress = "dc-express",
            moneta: Moneta = "moneta",
            pss: Pss = "pss",
            capi: Capi = "capi",
            cxl: Cxl = "cxl",
        }
    };
}

pub mod capi;
pub mod cxl;
pub mod dc_express;
pub mod moneta;
pub mod nvme;
pub mod pss;
mod reads;

use crate::config::{self, Wait};
use crate::drive::{Drive, Fitted, Interface};
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::link::Link;
use crate::media::Media;
use crate::memory::HostMemory;
use crate::request::{Io, Op};
use crate::request::{Request, RequestId};
use crate::scheduler::Timer;
use crate::shared::Shared;
use crate::time::{Span, Time};
use crate::tlp::{Kind, Packet, Payload};

impl Drive {
    /// The fitted keys on which this drive's results can depend: not those of a protocol that it does not speak, nor
    /// of interrupts that nobody waits for.
    pub fn fitted_in_effect(&self) -> impl Iterator<Item = &Fitted> {
        self.fitted.iter().filter(|mark| match mark.key.split_once('.') {
            Some(("dc_express", _)) => self.interface == Interface::DcExpress,
            Some(("moneta", _)) => self.interface == Interface::Moneta,
            Some(("pss", _)) => self.interface == Interface::Pss,
            Some(("capi", _)) => self.interface == Interface::Capi,
            Some(("cxl", _)) => self.interface == Interface::Cxl,
            Some(("host", key)) if key.starts_with("interrupt") => self.host.wait == Wait::Sleep,
            _ => true,
        })
    }
}

/// What a controller can reach: the link to the host, the media, and the shared for what is to happen.
#[derive(Debug)]
pub struct Ports<'a> {
    pub link: &'a mut Link,
    pub media: &'a mut Media,
    pub shared: &'a mut Shared,
}

/// Packets of a burst that are in host memory now.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    pub packet: Packet,
    pub first: u32,
    pub count: u32,
}

/// The host's half.
#[derive(Clone, Debug)]
pub enum Driver {
    Nvme(nvme::driver::Driver),
    DcExpress(dc_express::driver::Driver),
    Moneta(moneta::driver::Driver),
    Pss(pss::driver::Driver),
    Capi(capi::driver::Driver),
    Cxl(cxl::driver::Driver),
}

/// The device's half.
#[derive(Clone, Debug)]
pub enum Controller {
    Nvme(nvme::controller::Controller),
    DcExpress(dc_express::endpoint::Endpoint),
    Moneta(moneta::controller::Controller),
    Pss(pss::controller::Controller),
    Capi(capi::afu::Afu),
    Cxl(cxl::device::Device),
}

/// Both halves of a drive's protocol, set up and connected.
pub fn connect(drive: &Drive, seed: u64, shared: &mut Shared) -> (Driver, Controller) {
    match drive.interface {
        Interface::Nvme => {
            let (driver, controller) = nvme::connect(drive, shared);
            (Driver::Nvme(driver), Controller::Nvme(controller))
        }
        Interface::DcExpress => {
            let (driver, endpoint) = dc_express::connect(drive, seed, shared);
            (Driver::DcExpress(driver), Controller::DcExpress(endpoint))
        }
        Interface::Moneta => {
            let (driver, controller) = moneta::connect(drive, shared);
            (Driver::Moneta(driver), Controller::Moneta(controller))
        }
        Interface::Pss => {
            let (driver, controller) = pss::connect(drive, shared);
            (Driver::Pss(driver), Controller::Pss(controller))
        }
        Interface::Capi => {
            let (driver, afu) = capi::connect(drive, seed, shared);
            (Driver::Capi(driver), Controller::Capi(afu))
        }
        Interface::Cxl => {
            let (driver, device) = cxl::connect(drive, shared);
            (Driver::Cxl(driver), Controller::Cxl(device))
        }
    }
}

/// All stages of a request's way through the host's software: the operating system's, then those of the protocol's
/// driver, which contends for locks and lines like the rest.
pub fn stages(drive: &Drive) -> Vec<config::Stage> {
    let mut stages = drive.stack.stages.clone();
    stages.extend(match drive.interface {
        Interface::Nvme | Interface::DcExpress | Interface::Pss | Interface::Capi | Interface::Cxl => Vec::new(),
        Interface::Moneta => moneta::driver::stages(drive),
    });
    stages
}

/// Largest request whose thread spins in the driver, on a host whose threads sleep otherwise.
pub fn spin_up_to_bytes(drive: &Drive) -> u32 {
    if drive.interface == Interface::Moneta { drive.moneta.spin_up_to_bytes } else { 0 }
}

/// Time from a completion's arrival in memory to a spinning core having seen it. A load returns by itself.
pub fn poll(drive: &Drive) -> Span {
    if drive.interface == Interface::Cxl { Span::ZERO } else { drive.host.poll }
}

/// Most bytes that a racing write can change at once: those of one packet.
pub fn packet_bytes(drive: &Drive) -> u32 {
    if drive.interface == Interface::Cxl { cxl::LINE_BYTES } else { drive.link.max_payload_bytes }
}

/// Names of these stages, in the order of [`Stage::stack`].
pub fn stage_names(drive: &Drive) -> Vec<String> {
    stages(drive).into_iter().map(|stage| stage.name).collect()
}

impl Driver {
    /// Charge the processor time of submitting a request.
    #[inline(always)]
    pub fn submit_work(&self, io: &Io, thread: u16, memory: &HostMemory, ledger: &mut Ledger) {
        match (self, io.op) {
            (Driver::Nvme(driver), _) => driver.submit_work(thread, memory, ledger),
            (Driver::DcExpress(driver), Op::Read) => driver.submit_work(io.bytes, ledger),
            (Driver::DcExpress(driver), Op::Write) => driver.nvme.submit_work(thread, memory, ledger),
            // All of it is in the stages of its driver.
            (Driver::Moneta(_), _) => {}
            (Driver::Pss(driver), _) => driver.submit_work(ledger),
            (Driver::Capi(driver), _) => driver.submit_work(ledger),
            (Driver::Cxl(driver), _) => driver.submit_work(io.bytes, ledger),
        }
    }

    /// Charge the processor time of completing it.
    pub fn complete_work(&self, io: &Io, ledger: &mut Ledger) {
        match (self, io.op) {
            (Driver::Nvme(driver), _) => driver.complete_work(ledger),
            (Driver::DcExpress(driver), Op::Read) => driver.complete_work(io.bytes, ledger),
            (Driver::DcExpress(driver), Op::Write) => driver.nvme.complete_work(ledger),
            (Driver::Moneta(driver), _) => driver.complete_work(io, ledger),
            (Driver::Pss(_), _) => {}
            // Seeing its status is all.
            (Driver::Capi(_), _) => {}
            // The load has returned, the store is known to be persistent.
            (Driver::Cxl(_), _) => {}
        }
    }

    /// Hand a request to the device, in as many commands as its size needs.
    #[inline(always)]
    pub fn submit(&mut self, now: Time, request: RequestId, link: &mut Link, shared: &mut Shared) {
        let bytes_max = self.max_transfer_bytes();
        if shared.requests[request].io.bytes <= bytes_max {
            return self.submit_command(now, request, link, shared);
        }
        let whole = shared.requests[request].clone();
        shared.requests[request].parts_left = whole.io.bytes.div_ceil(bytes_max);
        let mut done = 0;
        while done < whole.io.bytes {
            let bytes = bytes_max.min(whole.io.bytes - done);
            let io = Io { offset: whole.io.offset + u64::from(done), bytes, ..whole.io };
            let part = shared.requests.insert(Request { io, parent: Some(request), ..whole.clone() });
            self.submit_command(now, part, link, shared);
            done += bytes;
        }
    }

    #[inline(always)]
    fn submit_command(&mut self, now: Time, request: RequestId, link: &mut Link, shared: &mut Shared) {
        match self {
            Driver::Nvme(driver) => driver.submit(request, link, shared),
            Driver::DcExpress(driver) => driver.submit(now, request, link, shared),
            Driver::Moneta(driver) => driver.submit(request, link, shared),
            Driver::Pss(driver) => driver.submit(request, link, shared),
            Driver::Capi(driver) => driver.submit(request, link, shared),
            Driver::Cxl(driver) => driver.submit(request, link, shared),
        }
    }

    fn max_transfer_bytes(&self) -> u32 {
        match self {
            Driver::Nvme(nvme) | Driver::DcExpress(dc_express::driver::Driver { nvme, .. }) => {
                nvme.max_transfer_bytes()
            }
            Driver::Moneta(driver) => driver.max_transfer_bytes(),
            Driver::Pss(driver) => driver.max_transfer_bytes(),
            Driver::Capi(driver) => driver.max_transfer_bytes(),
            Driver::Cxl(_) => cxl::LINE_BYTES,
        }
    }

    /// Packets from the device are in host memory.
    pub fn on_settled(&mut self, now: Time, settled: &Settled, polling: bool, link: &mut Link, shared: &mut Shared) {
        let Settled { packet, first, count } = settled;
        match (self, packet.token.role) {
            (Driver::DcExpress(driver), dc_express::role::DATA) => {
                driver.on_data_settled(now, settled, link, shared);
            }
            (_, nvme::role::DATA | moneta::role::DATA | pss::role::DATA | capi::role::DATA)
                if first + count == packet.count() =>
            {
                shared.requests.charge(packet.request, Stage::Settle, now);
            }
            (
                Driver::Nvme(nvme) | Driver::DcExpress(dc_express::driver::Driver { nvme, .. }),
                nvme::role::COMPLETION,
            ) => nvme.on_entry_settled(now, packet, polling, link, shared),
            (Driver::Pss(driver), pss::role::RECORD) => driver.on_record_settled(now, packet, polling, link, shared),
            (Driver::Capi(driver), capi::role::STATUS) => driver.on_status_settled(now, packet, link, shared),
            (Driver::Cxl(driver), cxl::role::DATA | cxl::role::DONE) => driver.on_settled(now, packet, link, shared),
            _ => {}
        }
    }

    /// An interrupt handler has run. If it now waits for the device's answer to a read, until when, as far as it can
    /// tell.
    pub fn on_handled(&mut self, now: Time, vector: u16, link: &mut Link, shared: &mut Shared) -> Option<Time> {
        match self {
            Driver::Nvme(nvme) | Driver::DcExpress(dc_express::driver::Driver { nvme, .. }) => {
                nvme.on_handled(now, vector, link, shared);
                None
            }
            Driver::Moneta(driver) => Some(driver.on_handled(now, vector, link, shared)),
            Driver::Pss(driver) => {
                driver.on_handled(now, link, shared);
                None
            }
            Driver::Capi(_) | Driver::Cxl(_) => None,
        }
    }

    /// The device has answered a read of the handler.
    pub fn on_answer(&mut self, now: Time, answer: &Payload, link: &mut Link, shared: &mut Shared) {
        if let Driver::Moneta(driver) = self {
            driver.on_status(now, answer.u64(), link, shared);
        }
    }

    /// The driver's timer has fired.
    pub fn on_timer(&mut self, now: Time, link: &mut Link, shared: &mut Shared) {
        match self {
            Driver::Nvme(_) | Driver::Moneta(_) | Driver::Pss(_) | Driver::Capi(_) | Driver::Cxl(_) => {}
            Driver::DcExpress(driver) => driver.on_timer(now, link, shared),
        }
    }

    /// What the driver has counted, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        match self {
            Driver::Nvme(nvme) => vec![("doorbells", nvme.doorbells)],
            Driver::DcExpress(driver) => vec![
                ("doorbells", driver.nvme.doorbells),
                ("oops", driver.counts.oops),
                ("tag_collisions", driver.counts.tag_collisions),
                ("tag_timeouts", driver.counts.tag_timeouts),
                ("late_packets", driver.counts.late_packets),
            ],
            Driver::Moneta(driver) => vec![
                ("register_writes", driver.register_writes),
                ("status_reads", driver.status_reads),
                ("foreign_tags", driver.foreign_tags),
            ],
            Driver::Pss(driver) => vec![("doorbells", driver.doorbells)],
            Driver::Capi(driver) => vec![("doorbells", driver.doorbells)],
            Driver::Cxl(driver) => vec![("loads", driver.loads), ("stores", driver.stores)],
        }
    }
}

impl Controller {
    /// Packets from the host have arrived: a register write, or the answer to a read.
    pub fn on_packet(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        match (self, packet.kind) {
            (Controller::Nvme(nvme), Kind::Completion) => nvme.on_answer(now, packet, payload, ports),
            (Controller::DcExpress(endpoint), Kind::Completion) => endpoint.on_answer(now, packet, payload, ports),
            (Controller::Moneta(moneta), _) => moneta.on_packet(now, packet, payload, ports),
            (Controller::Pss(pss), Kind::Completion) => pss.on_answer(now, packet, payload, ports),
            (Controller::Capi(afu), Kind::Completion) => afu.on_answer(now, packet, payload, ports),
            (Controller::Cxl(device), _) => device.on_packet(now, packet, ports),
            (controller, _) => {
                controller.on_register_write(now, packet.address, payload.u32(), ports);
            }
        }
    }

    /// Data of a write arrives: in runs with data, the device holds it from now on.
    #[inline]
    pub fn store(&mut self, packet: &Packet, ports: &mut Ports) {
        if ports.shared.data.is_none() || !packet.user_data {
            return;
        }
        if let Controller::DcExpress(endpoint) = self {
            endpoint.learn_tails(packet, ports);
        }
        ports.shared.store_user_data(packet);
    }

    /// From now on, a run with data: keep what chunks end in, where the choice of tags needs it.
    pub fn keep_tails(&mut self, drive: &Drive, seed: u64, shared: &mut Shared) {
        if let Controller::DcExpress(endpoint) = self {
            endpoint.keep_tails(drive, seed, shared);
        }
    }

    /// A register write has arrived.
    pub fn on_register_write(&mut self, now: Time, address: u64, value: u32, ports: &mut Ports) {
        match self {
            Controller::Nvme(nvme) => nvme.on_register_write(now, address, value, ports),
            Controller::DcExpress(endpoint) => endpoint.on_register_write(now, address, value, ports),
            Controller::Moneta(moneta) => moneta.on_register_write(now, address, value.into(), ports),
            Controller::Pss(pss) => pss.on_register_write(now, address, value, ports),
            Controller::Capi(afu) => afu.on_register_write(now, address, value, ports),
            // It has no registers beside those of its configuration.
            Controller::Cxl(_) => {}
        }
    }

    /// One of the controller's timers has fired.
    pub fn on_timer(&mut self, now: Time, timer: Timer, ports: &mut Ports) {
        match self {
            Controller::Nvme(nvme) => nvme.on_timer(now, timer, ports),
            Controller::DcExpress(endpoint) => endpoint.on_timer(now, timer, ports),
            Controller::Moneta(moneta) => moneta.on_timer(now, timer, ports),
            Controller::Pss(pss) => pss.on_timer(now, timer, ports),
            Controller::Capi(afu) => afu.on_timer(now, timer, ports),
            Controller::Cxl(device) => device.on_timer(timer.context, ports),
        }
    }

    /// What the controller has counted, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let (nvme, endpoint) = match self {
            Controller::Nvme(nvme) => (nvme, None),
            Controller::DcExpress(endpoint) => (&endpoint.nvme, Some(endpoint)),
            Controller::Moneta(moneta) => {
                return vec![
                    ("commands", moneta.commands_done),
                    ("interrupts", moneta.interrupts_sent()),
                    ("pieces", moneta.pieces_taken),
                    ("refused", moneta.refused),
                ];
            }
            Controller::Pss(pss) => return pss.counts.named().to_vec(),
            Controller::Capi(afu) => return afu.counters(),
            Controller::Cxl(device) => return device.counters(),
        };
        let reads = endpoint.map(|endpoint| endpoint.counts).unwrap_or_default();
        let mut counters =
            vec![("commands", nvme.commands_done + reads.commands), ("interrupts", nvme.interrupts_sent)];
        if let Some(endpoint) = endpoint {
            counters.extend([
                ("queue_reads", reads.queue_reads),
                ("queue_reads_wasted", reads.queue_reads_wasted),
                ("mode_switches", reads.mode_switches),
                ("refused_reads", reads.refused),
            ]);
            counters.extend(endpoint.tag_changes().map(|changes| ("tag_changes", changes)));
        }
        counters
    }
}

/// What a packet carries, in the words of its protocol.
pub fn packet_name(packet: &Packet) -> &'static str {
    use nvme::role as nvme;
    match (packet.token.role, packet.kind) {
        (nvme::DOORBELL | dc_express::role::DOORBELL, _) => "doorbell",
        (nvme::FETCH, Kind::MemoryRead) => "fetch command",
        (nvme::FETCH, _) => "command",
        (nvme::PAGE_LIST, Kind::MemoryRead) => "read page list",
        (nvme::PAGE_LIST, _) => "page list",
        (nvme::PAYLOAD, Kind::MemoryRead) => "read data",
        (nvme::SHADOW, Kind::MemoryRead) => "read shadow doorbell",
        (nvme::SHADOW, _) => "shadow doorbell",
        (nvme::EVENT_INDEX, _) => "event index",
        (nvme::COMPLETION, _) => "completion entry",
        (nvme::INTERRUPT, _) => "interrupt message",
        (dc_express::role::POLL, Kind::MemoryRead) => "queue read",
        (dc_express::role::POLL, _) => "command",
        (dc_express::role::MODE, _) => "polling mode",
        (dc_express::role::TAG, _) => "incomplete tag",
        (moneta::role::REQUEST, _) => "request word",
        (moneta::role::READ_DATA, Kind::MemoryRead) => "read data",
        (moneta::role::STATUS, Kind::MemoryRead) => "read status",
        (moneta::role::STATUS, _) => "status",
        (pss::role::TAIL, _) => "doorbell",
        (pss::role::DESCRIPTORS, Kind::MemoryRead) => "read descriptors",
        (pss::role::DESCRIPTORS, _) => "descriptors",
        (pss::role::READ_DATA, Kind::MemoryRead) => "read data",
        (pss::role::METADATA, _) => "metadata",
        (pss::role::RECORD, _) => "completion record",
        (capi::role::DOORBELL, _) => "doorbell",
        (capi::role::ELEMENT, Kind::MemoryRead) => "fetch element",
        (capi::role::ELEMENT, _) => "element",
        (capi::role::PAYLOAD, Kind::MemoryRead) => "read lines",
        (capi::role::PAYLOAD | capi::role::DATA, _) => "lines",
        (capi::role::CLAIM, Kind::MemoryRead) => "claim lines",
        (capi::role::CLAIM, _) => "claimed",
        (capi::role::PAGE_TABLE, Kind::MemoryRead) => "read page table",
        (capi::role::PAGE_TABLE, _) => "page table",
        (capi::role::STATUS, _) => "status",
        (cxl::role::READ, _) => "MemRd",
        (cxl::role::DATA, _) => "MemData",
        (cxl::role::WRITE, _) => "MemWr",
        (cxl::role::DONE, _) => "Cmp",
        _ => "data",
    }
}

/// A completed request leaves its driver: itself, or the whole that it was the last part of.
#[inline(always)]
pub fn completed(part: RequestId, shared: &mut Shared) -> Option<RequestId> {
    let Some(whole) = shared.requests[part].parent else { return Some(part) };
    let ledger = std::mem::take(&mut shared.requests[part].ledger);
    shared.requests.vacate(part);
    let request = &mut shared.requests[whole];
    request.parts_left -= 1;
    // The whole takes as long as its last part.
    request.ledger = ledger;
    (request.parts_left == 0).then_some(whole)
}

/// The queue, of so many, in which a thread's requests go.
fn queue_of(thread: u16, queues: usize) -> usize {
    let thread = usize::from(thread);
    // Nearly always there are queues enough, and a division takes long.
    if thread < queues { thread } else { thread % queues }
}

/// Start the media on a read, and find when its data can start to flow to the host without a pause.
#[inline(always)]
fn start_read(
    now: Time,
    offset: u64,
    bytes: u32,
    chunk_bytes: u32,
    request: Option<RequestId>,
    ports: &mut Ports,
) -> Time {
    let timing = ports.media.read(now, offset, bytes, bytes.min(chunk_bytes));
    let start = ports.link.stream_start(bytes, chunk_bytes, timing.first_at, timing.last_at);
    ports.shared.requests.charge(request, Stage::MediaWait, timing.started);
    ports.shared.requests.charge(request, Stage::Media, start);
    start
}
