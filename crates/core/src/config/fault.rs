//! Keys of fault rules, by which faults are injected into a run. Errors in drive files are in [`super::refused`]
//! instead.

use serde_json::Value as Json;

use crate::config::FaultAction;
use crate::config::fault_action::FaultApplicationPlace;
use crate::config::section::{Section, any, names, section};
use crate::config::spans::{LONGEST, ZERO, us};
use crate::time::Span;

section! {
    /// A fault rule: a fault that is injected into a run, with its trigger and its effect.
    pub struct Fault ("faults") {
        /// Effect of the fault. On a request: `error`, `delay`, `hang`, `drop-completion`, `repeat-completion`, `torn-completion`, `stale-phase`, `late-doorbell-read`, `torn-write`, `stall`, `slow-down` or `throttle`; on the network connection of a request: `connection-stall`, `connection-reset`, `digest-error` or `half-open`; on the data of a read: `flip-bits` or `fail-chip`; on a bank of the memory: `slow-bank` or `stuck-bank`; on a packet: `corrupt-packet`; on an interrupt: `lose-interrupt` or `repeat-interrupt`; on the link at an instant: `retrain` or `starve-credits`; on the device at an instant: `reset` or `remove`; on the power supply: `power-cut`
        action => action: FaultAction = FaultAction::Error, any();
        /// Trigger of a fault `power-cut`: a `time`, an `event` of the run, or a `request` being submitted to the
        /// device
        at => at: PowerCutMoment = PowerCutMoment::Time, any();
        /// Requests that the fault rule matches: `read`, `write` or `any`
        operation => operation: FaultOperation = FaultOperation::Any, any();
        /// First byte of the address range on the device that the fault rule matches
        offset_bytes => offset_bytes: u64 = 0, any();
        /// Length of the address range that the fault rule matches, from `offset_bytes` on; 0: to the end of the device
        size_bytes => size_bytes: u64 = 0, any();
        /// Thread whose requests the fault rule matches, counted from 1; 0: every thread
        thread => thread: u16 = 0, any();
        /// Number of the first match that triggers the fault, counted from 1; for a `power-cut` after an `event`, the
        /// number of that event
        first => first: u64 = 1, 1..=1 << 40;
        /// Interval of matches that trigger the fault: from `first` on, every n-th match
        every => every: u64 = 1, 1..=1 << 40;
        /// Largest number of times that the fault is triggered; 0: no limit
        times => times: u64 = 0, any();
        /// Probability with which a match that `first`, `every` and `times` select triggers the fault
        probability => probability: f64 = 1.0, 0.0..=1.0;
        /// Start of the time in which the fault rule matches, or the instant of a fault that happens at an instant
        from_us => from: Span = ZERO, ZERO..=LONGEST;
        /// End of the time in which the fault rule matches; 0: no end
        until_us => until: Span = ZERO, ZERO..=LONGEST;
        /// Time for which the fault rule continues to match from its first trigger on; 0: no limit by this key
        for_us => lasts: Span = ZERO, ZERO..=LONGEST;
        /// Delay of the fault's effect: of a request for `delay`, of the whole completion entry for `torn-completion`
        /// and `stale-phase`, of the device's read for `late-doorbell-read`, of the second copy for `repeat-completion`
        /// and `repeat-interrupt`; for a `power-cut`, the time after the request that triggers it
        delay_us => delay: Span = ZERO, ZERO..=LONGEST;
        /// Time after which the host gives up a request whose completion is missing, or looks for completions although
        /// an interrupt is missing (nvme_core.io_timeout of Linux: 30 s)
        timeout_us => timeout: Span = us(30_000_000), ZERO..=LONGEST;
        /// Memory bank that a fault `slow-bank` or `stuck-bank` affects, counted from 0 in the order in which stripes
        /// are distributed
        bank => bank: u32 = 0, any();
        /// Factor by which a fault `slow-bank` lengthens accesses to its bank, or `slow-down` lengthens requests
        factor => factor: f64 = 1.0, 1.0..=1e6;
        /// Largest rate of requests during a fault `throttle`, in operations a second; 0: no such limit
        rate_iops => rate_iops: f64 = 0.0, 0.0..=1e9;
        /// Largest bandwidth of requests during a fault `throttle`, in MiB/s; 0: no such limit
        rate_mib_per_s => rate_mib_per_s: f64 = 0.0, 0.0..=1e6;
        /// Number of bits that a fault `flip-bits` flips in each sector of 512 bytes and its check bytes; up to 39 can
        /// be corrected
        bits => bits: u16 = 1, 1..=4608;
        /// Memory chip of a sector that a fault `fail-chip` makes unreadable: 0 to 7 hold data, 8 holds check bytes
        chip => chip: u8 = 0, 0..=8;
        /// Direction of the packets that a fault `corrupt-packet` corrupts or `starve-credits` blocks: `to-host` or
        /// `to-device`
        direction => direction: FaultDirection = FaultDirection::ToHost, any();
        /// Number of lanes of the link after a fault `retrain`; 0: unchanged
        lanes => lanes: u8 = 0, [0, 1, 2, 4, 8, 12, 16, 32];
        /// PCI Express generation of the link, and so its data rate, after a fault `retrain`; 0: unchanged
        generation => generation: u8 = 0, 0..=7;
        /// Digest that a fault `digest-error` makes wrong: of the request's `data`, or of the `header` of its response
        digest => digest: FaultDigest = FaultDigest::Data, any();
        /// Time from the loss of a connection until the host has connected again (NVMF_DEF_RECONNECT_DELAY of Linux:
        /// 10 s)
        reconnect_us => reconnect: Span = us(10_000_000), ZERO..=LONGEST;
        /// Duration of an outage by a fault: of the link for `retrain`, of returned credits for `starve-credits`, of
        /// the device for `reset`, or of the device until it has restarted for `power-cut`
        outage_us => outage: Span = us(100), ZERO..=LONGEST;
    }
}

/// Operation of the requests that a fault rule matches: reads, writes or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOperation {
    /// Fault rule matches reads and writes.
    Any,
    /// Fault rule matches only reads.
    Read,
    /// Fault rule matches only writes.
    Write,
}

names! { FaultOperation { "any" => Any, "read" => Read, "write" => Write } }

/// Direction of the packets on the link that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultDirection {
    /// Fault affects packets from the device to the host.
    ToHost,
    /// Fault affects packets from the host to the device.
    ToDevice,
}

names! { FaultDirection { "to-host" => ToHost, "to-device" => ToDevice } }

/// Digest of an NVMe/TCP PDU that a fault makes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultDigest {
    /// Fault makes the digest of the request's data wrong.
    Data,
    /// Fault makes the digest of the header of the request's response wrong.
    Header,
}

names! { FaultDigest { "data" => Data, "header" => Header } }

/// Trigger of a power cut: a time, a simulated event, or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerCutMoment {
    /// Power is cut at a given time of the run.
    Time,
    /// Power is cut after the simulated event of a given number.
    Event,
    /// Power is cut when a matching request is submitted to the device.
    Request,
}

names! { PowerCutMoment { "time" => Time, "event" => Event, "request" => Request } }

/// Object that a fault applies to, which decides how its rule is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultSubject {
    /// Fault applies to a request.
    Request,
    /// Fault applies to a bank of the memory.
    Bank,
    /// Fault applies to a packet on the link.
    Packet,
    /// Fault applies to an interrupt message.
    Interrupt,
    /// Fault applies to the link or the device, at a given time of the run.
    Instant,
    /// Fault applies to the device, after a given event of the run.
    Event,
}

impl Fault {
    /// Returns this fault rule as a table for a drive file: all keys that differ from their defaults. It also has the
    /// bank or chip that fails, even if that is the default 0.
    pub fn table(&self) -> serde_json::Map<String, Json> {
        let named = self.values().into_iter().filter(|(key, _)| matches!(*key, "bank" | "chip") && self.takes(key));
        self.said().into_iter().chain(named).map(|(key, value)| (String::from(key), value)).collect()
    }

    /// Returns the keys of this fault rule that differ from their defaults, with their values; always `action`, which
    /// comes first.
    pub(crate) fn said(&self) -> Vec<(&'static str, Json)> {
        let usual = Fault::default().values();
        let said = self.values().into_iter().zip(usual);
        let said = said.filter(|((key, value), (_, usual))| *key == "action" || value != usual);
        said.map(|(said, _)| said).collect()
    }

    /// Returns the kind of object that this fault applies to, such as a request, a bank or a packet.
    pub fn subject(&self) -> FaultSubject {
        match (self.action, self.at) {
            (FaultAction::PowerCut, PowerCutMoment::Event) => FaultSubject::Event,
            (FaultAction::PowerCut, PowerCutMoment::Request) => FaultSubject::Request,
            (action, _) => action.row().subject,
        }
    }

    /// Checks that the time in which the rule matches ends after it begins. Returns what was found and what is allowed if
    /// not.
    pub(crate) fn check_fault_window(&self) -> Option<(String, String)> {
        let is_empty = !self.until.is_zero() && self.until <= self.from;
        is_empty.then(|| (String::from("until_us is not after from_us"), String::from("until_us above from_us, or 0")))
    }

    /// True if a key of fault rules has a meaning for this kind of fault.
    pub fn takes(&self, key: &str) -> bool {
        use FaultSubject::*;
        let (row, subject) = (self.action.row(), self.subject());
        let of_command = subject == Request && row.place != FaultApplicationPlace::Queue;
        match key {
            "action" => true,
            "operation" => of_command && row.operation == FaultOperation::Any,
            "offset_bytes" | "size_bytes" | "thread" => of_command,
            "first" | "every" | "times" => matches!(subject, Request | Packet | Interrupt | Event),
            "probability" => matches!(subject, Request | Packet | Interrupt),
            "for_us" => matches!(subject, Request | Packet | Interrupt) && self.action != FaultAction::PowerCut,
            "from_us" => subject != Event,
            "until_us" => !matches!(subject, Instant | Event) || row.keys.contains(&key),
            "delay_us" if self.action == FaultAction::PowerCut => subject == Request,
            _ => row.keys.contains(&key) || row.needs.contains(&key),
        }
    }
}
