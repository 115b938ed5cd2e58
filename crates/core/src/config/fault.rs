//! Keys of faults that are injected into a run. What is wrong with files is in [`super::refused`].

use serde_json::Value as Json;

use crate::config::section::{Section, any, names, section};
use crate::config::spans::{LONGEST, ZERO, us};
use crate::time::Span;

section! {
    /// A fault that is injected into a run: what it meets, and what happens then.
    pub struct Fault ("faults") {
        /// What happens: to a request `error`, `delay`, `hang`, `drop-completion`, `repeat-completion` or `torn-write`; to what a read finds `flip-bits` or `fail-chip`; to a bank `slow-bank` or `stuck-bank`; to a packet `corrupt-packet`; to an interrupt `lose-interrupt` or `repeat-interrupt`; at an instant to the link `retrain` or `starve-credits`, and to the device `reset` or `remove`; at any moment `power-cut`
        action => action: FaultAction = FaultAction::Error, any();
        /// When a `power-cut` comes: at a `time`, after an `event` of the run, or when a `request` goes to the device
        at => at: FaultMoment = FaultMoment::Time, any();
        /// Requests that it meets: `read`, `write` or `any`
        operation => operation: FaultOperation = FaultOperation::Any, any();
        /// First byte of the device that it is about
        offset_bytes => offset_bytes: u64 = 0, any();
        /// Bytes from there on, or 0 for all that follow
        size_bytes => size_bytes: u64 = 0, any();
        /// Thread whose requests it meets, counted from 1, or 0 for any
        thread => thread: u16 = 0, any();
        /// The first of those it meets that it happens to, counted from 1; of a `power-cut` after an event, the number of that
        first => first: u64 = 1, 1..=1 << 40;
        /// It happens to every so manyth from there on
        every => every: u64 = 1, 1..=1 << 40;
        /// How often it happens, or 0 for no limit
        times => times: u64 = 0, any();
        /// Chance with which it then happens
        probability => probability: f64 = 1.0, 0.0..=1.0;
        /// Begin of the time in which it happens, or the instant at which it does
        from_us => from: Span = ZERO, ZERO..=LONGEST;
        /// End of that time, or 0 for none
        until_us => until: Span = ZERO, ZERO..=LONGEST;
        /// For how long a `delay` keeps a request in the device, after what time a `repeat-completion` or `repeat-interrupt` comes again, or how long after its request a `power-cut` comes
        delay_us => delay: Span = ZERO, ZERO..=LONGEST;
        /// When the host gives a request up, or looks for completions of which no interrupt has told (nvme_core.io_timeout of Linux: 30 s)
        timeout_us => timeout: Span = us(30_000_000), ZERO..=LONGEST;
        /// The bank that is slow or stuck, counted from 0 in the order in which stripes go round
        bank => bank: u32 = 0, any();
        /// How many times as long an access takes in a slow bank
        factor => factor: f64 = 1.0, 1.0..=1e6;
        /// Bits of each sector of 512 bytes, and of what protects it, that a read finds flipped: 39 can be corrected
        bits => bits: u16 = 1, 1..=4608;
        /// The chip of a sector that a read finds failed: 0 to 7 with data, 8 with what protects them
        chip => chip: u8 = 0, 0..=8;
        /// Packets that are corrupted, or have to do without credits: those `to-host` or `to-device`
        direction => direction: FaultDirection = FaultDirection::ToHost, any();
        /// Lanes after a `retrain`, or 0 for as many as before
        lanes => lanes: u8 = 0, [0, 1, 2, 4, 8, 12, 16, 32];
        /// Generation, and so rate, after a `retrain`, or 0 for that before
        generation => generation: u8 = 0, 0..=6;
        /// For how long the link is away for a `retrain`, no credits come back, or the device is away for a `reset` or, until it has begun again, for a `power-cut`
        outage_us => outage: Span = us(100), ZERO..=LONGEST;
    }
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultAction {
    Error,
    Delay,
    Hang,
    DropCompletion,
    RepeatCompletion,
    TornWrite,
    FlipBits,
    FailChip,
    SlowBank,
    StuckBank,
    CorruptPacket,
    LoseInterrupt,
    RepeatInterrupt,
    Retrain,
    StarveCredits,
    Reset,
    Remove,
    PowerCut,
}

names! {
    FaultAction {
        "error" => Error,
        "delay" => Delay,
        "hang" => Hang,
        "drop-completion" => DropCompletion,
        "repeat-completion" => RepeatCompletion,
        "torn-write" => TornWrite,
        "flip-bits" => FlipBits,
        "fail-chip" => FailChip,
        "slow-bank" => SlowBank,
        "stuck-bank" => StuckBank,
        "corrupt-packet" => CorruptPacket,
        "lose-interrupt" => LoseInterrupt,
        "repeat-interrupt" => RepeatInterrupt,
        "retrain" => Retrain,
        "starve-credits" => StarveCredits,
        "reset" => Reset,
        "remove" => Remove,
        "power-cut" => PowerCut,
    }
}

/// Requests that a fault meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOperation {
    Any,
    Read,
    Write,
}

names! { FaultOperation { "any" => Any, "read" => Read, "write" => Write } }

/// Packets that a fault meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultDirection {
    ToHost,
    ToDevice,
}

names! { FaultDirection { "to-host" => ToHost, "to-device" => ToDevice } }

/// When power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultMoment {
    Time,
    Event,
    Request,
}

names! { FaultMoment { "time" => Time, "event" => Event, "request" => Request } }

/// What a fault is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultSubject {
    Request,
    Bank,
    Packet,
    Interrupt,
    /// It happens at an instant.
    Instant,
    /// It happens after an event of the run.
    Event,
}

impl Fault {
    /// The table that it is in a drive file: what says something of it.
    pub fn table(&self) -> serde_json::Map<String, Json> {
        self.said().into_iter().map(|(key, value)| (String::from(key), value)).collect()
    }

    /// The keys that say something of it, with their values where these are not the usual ones, `action` first.
    pub(crate) fn said(&self) -> Vec<(&'static str, Json)> {
        let usual = Fault::default().values();
        let said = self.values().into_iter().zip(usual);
        let said = said.filter(|((key, value), (_, usual))| *key == "action" || value != usual);
        said.map(|(said, _)| said).collect()
    }

    /// What it is about.
    pub fn subject(&self) -> FaultSubject {
        match (self.action, self.at) {
            (FaultAction::PowerCut, FaultMoment::Event) => FaultSubject::Event,
            (FaultAction::PowerCut, FaultMoment::Request) => FaultSubject::Request,
            (action, _) => action.subject(),
        }
    }

    /// Whether a key says something of it.
    pub fn takes(&self, key: &str) -> bool {
        use FaultAction::*;
        let (action, subject) = (self.action, self.subject());
        match key {
            "at" => action == PowerCut,
            "operation" => subject == FaultSubject::Request && action.operation().is_none(),
            "offset_bytes" | "size_bytes" | "thread" => subject == FaultSubject::Request,
            "first" | "every" | "times" => matches!(
                subject,
                FaultSubject::Request | FaultSubject::Packet | FaultSubject::Interrupt | FaultSubject::Event
            ),
            "probability" => {
                matches!(subject, FaultSubject::Request | FaultSubject::Packet | FaultSubject::Interrupt)
            }
            "from_us" => subject != FaultSubject::Event,
            "until_us" => !matches!(subject, FaultSubject::Instant | FaultSubject::Event),
            "outage_us" => matches!(action, Retrain | StarveCredits | Reset | PowerCut),
            "bank" => subject == FaultSubject::Bank,
            "direction" => subject == FaultSubject::Packet || action == StarveCredits,
            "delay_us" => match action {
                PowerCut => subject == FaultSubject::Request,
                _ => matches!(action, Delay | RepeatCompletion | RepeatInterrupt),
            },
            "bits" => action == FlipBits,
            "chip" => action == FailChip,
            "timeout_us" => matches!(action, Hang | DropCompletion | LoseInterrupt),
            "factor" => action == SlowBank,
            "lanes" | "generation" => action == Retrain,
            _ => true,
        }
    }
}

impl FaultAction {
    /// All of them, in the order of their description.
    pub const ALL: [FaultAction; 18] = [
        FaultAction::Error,
        FaultAction::Delay,
        FaultAction::Hang,
        FaultAction::DropCompletion,
        FaultAction::RepeatCompletion,
        FaultAction::TornWrite,
        FaultAction::FlipBits,
        FaultAction::FailChip,
        FaultAction::SlowBank,
        FaultAction::StuckBank,
        FaultAction::CorruptPacket,
        FaultAction::LoseInterrupt,
        FaultAction::RepeatInterrupt,
        FaultAction::Retrain,
        FaultAction::StarveCredits,
        FaultAction::Reset,
        FaultAction::Remove,
        FaultAction::PowerCut,
    ];

    /// What it happens to; a power cut to what [the fault](Fault::subject) says.
    fn subject(self) -> FaultSubject {
        use FaultAction::*;
        match self {
            Error | Delay | Hang | DropCompletion | RepeatCompletion | TornWrite | FlipBits | FailChip => {
                FaultSubject::Request
            }
            SlowBank | StuckBank => FaultSubject::Bank,
            CorruptPacket => FaultSubject::Packet,
            LoseInterrupt | RepeatInterrupt => FaultSubject::Interrupt,
            Retrain | StarveCredits | Reset | Remove | PowerCut => FaultSubject::Instant,
        }
    }

    /// The only requests that it can happen to, if it cannot to others.
    pub fn operation(self) -> Option<FaultOperation> {
        match self {
            FaultAction::TornWrite => Some(FaultOperation::Write),
            FaultAction::FlipBits | FaultAction::FailChip => Some(FaultOperation::Read),
            _ => None,
        }
    }

    /// Under which name it is counted.
    pub fn counter(self) -> &'static str {
        use FaultAction::*;
        match self {
            Error => "fault_errors",
            Delay => "fault_delays",
            Hang => "fault_hangs",
            DropCompletion => "fault_dropped_completions",
            RepeatCompletion => "fault_repeated_completions",
            TornWrite => "fault_torn_writes",
            FlipBits => "fault_flipped_reads",
            FailChip => "fault_reads_of_failed_chips",
            SlowBank => "fault_slow_accesses",
            StuckBank => "fault_stuck_accesses",
            CorruptPacket => "fault_corrupted_packets",
            LoseInterrupt => "fault_lost_interrupts",
            RepeatInterrupt => "fault_repeated_interrupts",
            Retrain => "fault_retrains",
            StarveCredits => "fault_starvations",
            Reset => "fault_resets",
            Remove => "fault_removed_requests",
            PowerCut => "fault_power_cuts",
        }
    }
}
