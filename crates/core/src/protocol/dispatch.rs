//! Driver and controller of any protocol, generated from the list of protocols. They are enums rather than trait
//! objects, as every request calls them often.

use super::halves::{Controller, Driver, PollNames, Protocol};
use super::ports::{HostPorts, Ports, Settled};
use super::real_hosts::{HostQueues, ServesHosts};
use crate::config::{Filesystem, IoEngine, StackStage};
use crate::drive::{Drive, Interface};
use crate::fabric::InitiatorTransportCosts;
use crate::ledger::stage::Ledger;
use crate::media::zones::ZonesLeft;
use crate::memory::HostMemory;
use crate::memory::sparse::SparseBytes;
use crate::problem::{BrokenCondition, Problem};
use crate::request::{Io, Op, RequestId};
use crate::scheduler::Timer;
use crate::shared::Shared;
use crate::time::{Span, Time};
use crate::tlp::{Packet, Payload, Token};
use crate::workload::{EngineSupport, FilledKeys, KeyValueSpace, Limits, ZoneJobLimits};

// Each controller's code stays in a function of its own. If all were inlined in the event loop, most of the loop's
// cache lines would hold code that never runs.
#[inline(never)]
fn dispatch_packet(half: &mut impl Controller, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
    half.on_packet(now, packet, payload, ports);
}

#[inline(never)]
fn dispatch_timer(half: &mut impl Controller, now: Time, timer: Timer, ports: &mut Ports) {
    half.on_timer(now, timer, ports);
}

macro_rules! halves_of {
    ($($protocol:ident: $Protocol:ident = $name:literal,)+) => {
        /// Driver (host side) of a drive's protocol, with one variant per protocol. The discriminant is a separate
        /// byte, as every step of the simulation reads it.
        #[derive(Clone, Debug)]
        #[repr(u8)]
        pub enum AnyDriver {
            $(
                #[doc = concat!("Driver of the protocol `", $name, "`.")]
                $Protocol(super::$protocol::Driver),
            )+
        }

        /// Controller (device side) of a drive's protocol, with one variant per protocol.
        #[derive(Clone, Debug)]
        #[repr(u8)]
        pub enum AnyController {
            $(
                #[doc = concat!("Controller of the protocol `", $name, "`.")]
                $Protocol(super::$protocol::Controller),
            )+
        }

        /// Returns the driver and the controller of a drive's protocol, ready for requests. The driver's queues are
        /// allocated in `memory`, and the controller knows their addresses.
        pub fn connect(
            drive: &Drive,
            seed: u64,
            memory: &mut HostMemory,
            shared: &mut Shared,
        ) -> (AnyDriver, AnyController) {
            match drive.interface {
                $(Interface::$Protocol => {
                    let (driver, controller) = super::$protocol::connect(drive, seed, memory, shared);
                    (AnyDriver::$Protocol(driver), AnyController::$Protocol(controller))
                })+
            }
        }

        impl Drive {
            /// Returns the section of the drive that holds the keys of its protocol, which its key `interface` chooses.
            pub fn protocol(&self) -> &dyn Protocol {
                match self.interface {
                    $(Interface::$Protocol => &self.$protocol,)+
                }
            }

            /// Returns the conditions on keys of protocols that the drive violates. All protocols are checked, also
            /// those that the drive does not use.
            pub(crate) fn broken_protocol_conditions(&self) -> Vec<BrokenCondition> {
                let protocols: &[&dyn Protocol] = &[$(&self.$protocol,)+];
                protocols.iter().flat_map(|protocol| protocol.broken(self)).collect()
            }

            /// True if simulation results can depend on a section of the drive file. False only for a protocol's
            /// section, if the drive neither uses that protocol nor builds on it.
            pub fn has_part_in(&self, section: &str) -> bool {
                let protocols = [$((stringify!($protocol), Interface::$Protocol),)+];
                let spoken = protocols.iter().find(|(name, _)| *name == section);
                spoken.is_none_or(|(name, interface)| {
                    *interface == self.interface || self.protocol().builds_on() == Some(*name)
                })
            }
        }

        /// Calls a method of the driver of a drive's protocol.
        macro_rules! on_driver {
            ($any:expr, $half:ident => $call:expr) => {
                match $any {
                    $(AnyDriver::$Protocol($half) => $call,)+
                }
            };
        }

        /// Calls a method of the controller of a drive's protocol.
        macro_rules! on_controller {
            ($any:expr, $half:ident => $call:expr) => {
                match $any {
                    $(AnyController::$Protocol($half) => $call,)+
                }
            };
        }
    };
}
protocols!(halves_of);

/// Implements methods of a half for the enum of all protocols: each calls the method of that name of the drive's own
/// half.
macro_rules! dispatched {
    ($on:ident(&mut $this:ident) $($(#[$how:meta])? fn $name:ident($($part:ident: $Type:ty),*) $(-> $Result:ty)?;)+) => {
        $($(#[$how])? fn $name(&mut $this, $($part: $Type),*) $(-> $Result)? {
            $on!($this, half => half.$name($($part),*))
        })+
    };
    ($on:ident(&$this:ident) $($(#[$how:meta])? fn $name:ident($($part:ident: $Type:ty),*) $(-> $Result:ty)?;)+) => {
        $($(#[$how])? fn $name(&$this, $($part: $Type),*) $(-> $Result)? {
            $on!($this, half => half.$name($($part),*))
        })+
    };
}

impl Driver for AnyDriver {
    dispatched! { on_driver(&self)
        #[inline(always)] fn submit_work(io: &Io, thread: u16, ledger: &mut Ledger);
        #[inline(always)] fn overlapped_work(io: &Io) -> Span;
        #[inline(always)] fn complete_work(io: &Io, ledger: &mut Ledger);
        fn acknowledge_work() -> Span;
        #[inline(always)] fn max_transfer_bytes() -> u32;
        #[inline(always)] fn whole_bytes_max() -> u32;
        fn max_command_bytes(op: Op) -> u32;
        fn counters() -> Vec<(&'static str, u64)>;
    }

    dispatched! { on_driver(&mut self)
        fn begin_polling(thread: u16) -> u16;
        fn acknowledge(thread: u16, ports: &mut HostPorts);
        fn submit_together(now: Time, requests: &[RequestId], ports: &mut HostPorts);
        #[inline(always)] fn submit(now: Time, request: RequestId, ports: &mut HostPorts);
        #[inline(always)] fn on_settled(now: Time, settled: &Settled, polling: bool, ports: &mut HostPorts);
        fn on_handled(now: Time, vector: u16, ports: &mut HostPorts) -> Option<Time>;
        fn on_answer(now: Time, answer: &Payload, ports: &mut HostPorts);
        fn on_timer(now: Time, ports: &mut HostPorts);
        fn real_hosts() -> Option<&mut dyn HostQueues>;
    }
}

impl Controller for AnyController {
    #[inline(always)]
    fn on_packet(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        on_controller!(self, half => dispatch_packet(half, now, packet, payload, ports));
    }

    #[inline(always)]
    fn on_timer(&mut self, now: Time, timer: Timer, ports: &mut Ports) {
        on_controller!(self, half => dispatch_timer(half, now, timer, ports));
    }

    dispatched! { on_controller(&self)
        fn needs_delivery_events() -> bool;
        fn zones_left(loses_power: bool) -> Option<ZonesLeft>;
        fn packet_name(packet: &Packet) -> &'static str;
        fn poll_names(packet: &Packet) -> Option<PollNames>;
        fn counters() -> Vec<(&'static str, u64)>;
    }

    dispatched! { on_controller(&mut self)
        fn on_register_write(now: Time, address: u64, value: u32, ports: &mut Ports);
        fn on_answer(now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports);
        fn on_delivered(now: Time, token: Token, ports: &mut Ports);
        fn on_user_data(packet: &Packet, arrived: &[u8], ports: &mut Ports);
        fn spare_interrupts(queue: u16);
        fn keep_data(drive: &Drive, seed: u64, held: &SparseBytes, memory: &mut HostMemory);
        fn take_over_zones(left: ZonesLeft);
        fn fill_keys(jobs: &[FilledKeys], ports: &mut Ports);
        fn real_hosts() -> Option<&mut dyn ServesHosts>;
    }
}

impl Drive {
    /// Returns the limits that a drive sets to jobs: its queues, transfers and capacity, I/O engines, zones, keys and
    /// supported operations.
    pub fn limits(&self) -> Limits {
        let protocol = self.protocol();
        Limits {
            engine_support: self.engine_support(),
            drives: self.drives.into(),
            used_bytes: self.used_bytes(),
            is_volatile: !self.keeps_acknowledged(),
            has_steady_state: protocol.has_steady_state(self),
            has_credits: self.has_credits(),
            fault_without_network: self.fault_without_network(),
            zones: self.zones.is_there().then(|| ZoneJobLimits {
                zone_bytes: self.zones.zone_bytes(),
                writable_bytes: self.zones.writable_mib() << 20,
                open_max: self.zones.open_max,
                active_max: self.zones.active_max,
                restarts: self.faults.iter().any(|fault| fault.action.does_restart_controller()),
            }),
            placement_identifiers: u16::from(self.placement.handles) * u16::from(self.placement.groups),
            keys: self.key_layout().map(|layout| KeyValueSpace {
                capacity_bytes: layout.capacity_bytes,
                granule_bytes: layout.granule_bytes,
                keys_max: layout.keys_max,
                value_bytes_max: self.key_value.value_max_bytes(),
            }),
            supported: Op::ALL.map(|op| self.supports_operation(op)),
            ..protocol.limits(self)
        }
    }

    /// True if the drive has a command for requests of this operation. A drive that stores values by keys never has
    /// Write Zeroes.
    fn supports_operation(&self, op: Op) -> bool {
        self.protocol().supports(op) && !(op == Op::WriteZeroes && self.key_value.is_there())
    }

    /// Checks that the drive has a command for requests of an operation.
    ///
    /// # Errors
    /// Returns a problem that names the drive, its protocol and the operations that it supports.
    pub fn check_supports_operation(&self, op: Op) -> Result<(), Problem> {
        if self.supports_operation(op) {
            return Ok(());
        }
        let found = format!(
            "a {} to drive `{}`, whose protocol ({}) has no such command",
            op.name(),
            self.name,
            self.protocol().title()
        );
        let supported: Vec<_> = Op::ALL.into_iter().filter(|op| self.supports_operation(*op)).map(Op::name).collect();
        Err(Problem::new(
            "drive",
            None,
            found,
            format!("{}, or a drive with another `interface`", supported.join(", ")),
        ))
    }

    /// Returns the I/O engines that jobs can choose from, with the default one; none if the host's software has no
    /// choice of engines.
    fn engine_support(&self) -> Option<EngineSupport> {
        let engines = self.stack.supported_engines().ok()?;
        let default = *engines.first()?;
        Some(EngineSupport {
            default,
            known: std::array::from_fn(|place| engines.contains(&IoEngine::ALL[place])),
            has_interrupts: self.protocol().no_interrupts().is_none(),
            interrupts_key: self.protocol().interrupts_key(),
            processors: self.host.processors().into(),
            has_files: self.stack.filesystem != Filesystem::Raw,
        })
    }

    /// Returns the stages of a request in the host's software: those of the operating system, then those of the driver
    /// that contend for locks and cache lines. If the software has I/O engines, only the driver's stages are returned,
    /// as each engine has stages of its own ([`crate::host::software`]).
    pub fn stages(&self) -> Vec<StackStage> {
        let mut stages = if self.stack.has_engines() { Vec::new() } else { self.stack.stages.clone() };
        stages.extend(self.protocol().stages(self));
        if let Some(costs) = InitiatorTransportCosts::of(&self.fabric).filter(|_| !self.stack.has_engines()) {
            let name = String::from(InitiatorTransportCosts::STAGE);
            stages.push(StackStage { name, submit: costs.submit, complete: costs.receive, ..StackStage::default() });
        }
        stages
    }

    /// Returns the names under which times of software stages are reported, in the order of
    /// [`StackStage::stack`](crate::ledger::Stage::stack).
    pub fn software_stage_names(&self) -> Vec<String> {
        if self.stack.has_engines() {
            return self.columns();
        }
        self.stages().into_iter().map(|stage| stage.name).collect()
    }

    /// Returns the distinct stage names of software with I/O engines, without the text in brackets. Stages that differ
    /// only in that text share one name.
    fn columns(&self) -> Vec<String> {
        let mut columns: Vec<String> = Vec::new();
        for stage in &self.stack.stages {
            if !columns.iter().any(|column| column == stage.column()) {
                columns.push(String::from(stage.column()));
            }
        }
        columns.extend(self.fabric.is_there().then(|| String::from(InitiatorTransportCosts::STAGE)));
        columns
    }
}
