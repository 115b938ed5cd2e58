//! Table of the effects of faults: one row for each, with what the rest of the program asks about it.

use crate::config::section::names;
use crate::config::{FaultOperation, FaultSubject};

/// Length of a fault in a fault timeline: how it ends if its line has no length, and what a length means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultLength {
    /// Fault needs no end. One that begins at a request ends with that request, unless it has a length.
    OneRequest,
    /// Fault needs no end. One that begins at a request continues after it.
    Continuing,
    /// Fault must end.
    Limited,
    /// Fault must end at a time. One that begins at a request continues after it.
    Stall,
    /// Fault happens at an instant. Its length is the outage that follows.
    Outage,
    /// Fault needs no end, and ends at a time if it does.
    Window,
    /// Fault never ends.
    Forever,
}

impl FaultLength {
    /// True if a fault without an end is refused.
    pub(super) fn needs_explicit_end(self) -> bool {
        matches!(self, FaultLength::Limited | FaultLength::Stall | FaultLength::Outage)
    }

    /// True if a fault that begins at a request continues after that request unless it has a length.
    pub(super) fn continues(self) -> bool {
        matches!(self, FaultLength::Continuing | FaultLength::Stall)
    }

    /// True if the length of a fault can be a number of requests.
    pub(super) fn is_counted(self) -> bool {
        matches!(self, FaultLength::OneRequest | FaultLength::Continuing | FaultLength::Limited)
    }
}

/// Place at which the effect of a fault is applied, for effects that requests trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultApplicationPlace {
    /// Command of the request, or another object.
    Command,
    /// Completion queue entry or doorbell, regardless of the command.
    Queue,
    /// Network connection of the request's queue.
    Connection,
}

/// Facts about one effect of faults.
#[derive(Debug)]
pub(crate) struct ActionRow {
    /// Kind of object that the effect applies to. For a power cut, the trigger decides; see
    /// [`Fault::subject`](crate::config::Fault::subject).
    pub(super) subject: FaultSubject,
    /// Name of the effect's counter in results.
    pub(super) counter: &'static str,
    /// Operation that the effect is limited to; `Any` if it applies to any operation.
    pub(super) operation: FaultOperation,
    /// Keys of fault rules that have a meaning for this effect, beside those of its subject.
    pub(super) keys: &'static [&'static str],
    /// Keys of fault rules of which at least one must differ from its default; empty if the effect needs none.
    pub(crate) needs: &'static [&'static str],
    /// Length of the fault in a fault timeline.
    pub(super) length: FaultLength,
    /// Place at which the effect is applied.
    pub(super) place: FaultApplicationPlace,
}

macro_rules! actions {
    ($(
        $(#[doc = $doc:literal])+
        $action:ident = $name:literal: $subject:ident, $counter:literal
            $(, of $operation:ident)? $(, keys [$($key:ident)+])? $(, needs [$($need:ident)+])?
            $(, lasts $length:ident)? $(, on $place:ident)?;
    )+) => {
        /// Effect of an injected fault, such as an error, a delay or a power cut.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FaultAction {
            $($(#[doc = $doc])+ $action,)+
        }

        names! { FaultAction { $($name => $action,)+ } }

        impl FaultAction {
            /// All effects of faults, in the order of their description.
            pub const ALL: [FaultAction; [$($name),+].len()] = [$(FaultAction::$action),+];

            /// Returns the facts about this effect.
            pub(crate) const fn row(self) -> &'static ActionRow {
                match self {
                    $(FaultAction::$action => &ActionRow {
                        subject: FaultSubject::$subject,
                        counter: $counter,
                        operation: one_of!(FaultOperation, $($operation)?, Any),
                        keys: &[$($(stringify!($key)),+)?],
                        needs: &[$($(stringify!($need)),+)?],
                        length: one_of!(FaultLength, $($length)?, OneRequest),
                        place: one_of!(FaultApplicationPlace, $($place)?, Command),
                    },)+
                }
            }
        }
    };
}

/// Variant of an enum, or another one if none is given.
macro_rules! one_of {
    ($kind:ident, , $usual:ident) => {
        $kind::$usual
    };
    ($kind:ident, $given:ident, $usual:ident) => {
        $kind::$given
    };
}

actions! {
    /// Request fails with an error status.
    Error = "error": Request, "fault_errors";
    /// Device holds the request for an additional time.
    Delay = "delay": Request, "fault_delays", needs [delay_us];
    /// Device never executes the request.
    Hang = "hang": Request, "fault_hangs", keys [timeout_us];
    /// Request is executed, but its completion is never sent.
    DropCompletion = "drop-completion": Request, "fault_dropped_completions", keys [timeout_us];
    /// Completion of the request is sent a second time.
    RepeatCompletion = "repeat-completion": Request, "fault_repeated_completions", keys [delay_us];
    /// Completion entry is torn: its new phase tag becomes visible before its first double word.
    TornCompletion = "torn-completion": Request, "fault_torn_completions", needs [delay_us], on Queue;
    /// Completion entry becomes visible before its new phase tag.
    StalePhase = "stale-phase": Request, "fault_stale_phases", needs [delay_us], on Queue;
    /// Device reads a doorbell late.
    LateDoorbellRead = "late-doorbell-read": Request, "fault_late_doorbells", needs [delay_us], on Queue;
    /// Write is torn: only part of its data reaches the memory.
    TornWrite = "torn-write": Request, "fault_torn_writes", of Write;
    /// Read finds flipped bits in each sector.
    FlipBits = "flip-bits": Request, "fault_flipped_reads", of Read, keys [bits];
    /// Read finds that one memory chip of each sector has failed.
    FailChip = "fail-chip": Request, "fault_reads_of_failed_chips", of Read, keys [chip];
    /// Accesses to one memory bank take longer.
    SlowBank = "slow-bank": Bank, "fault_slow_accesses", keys [bank], needs [factor];
    /// Memory bank starts no access, so that all accesses to it wait.
    StuckBank = "stuck-bank": Bank, "fault_stuck_accesses", keys [bank], needs [until_us], lasts Limited;
    /// Packet on the link arrives damaged and is replayed.
    CorruptPacket = "corrupt-packet": Packet, "fault_corrupted_packets", keys [direction];
    /// Interrupt message never arrives at the host.
    LoseInterrupt = "lose-interrupt": Interrupt, "fault_lost_interrupts", keys [timeout_us];
    /// Interrupt message arrives at the host a second time.
    RepeatInterrupt = "repeat-interrupt": Interrupt, "fault_repeated_interrupts", keys [delay_us];
    /// Link goes down and retrains, possibly with fewer lanes or a lower data rate.
    Retrain = "retrain": Instant, "fault_retrains", keys [until_us outage_us], needs [lanes generation], lasts Window;
    /// Receiver returns no flow-control credits for a time.
    StarveCredits = "starve-credits": Instant, "fault_starvations", keys [direction outage_us], lasts Outage;
    /// Device is reset, and is out of service for a time.
    Reset = "reset": Instant, "fault_resets", keys [outage_us], lasts Outage;
    /// Device is removed from its slot and never returns.
    Remove = "remove": Instant, "fault_removed_requests", lasts Forever;
    /// Device loses power, and restarts after an outage.
    PowerCut = "power-cut": Instant, "fault_power_cuts", keys [at delay_us outage_us], lasts Outage;
    /// Device starts no request until the fault rule's time ends.
    Stall = "stall": Request, "fault_stalled_requests", needs [until_us for_us], lasts Stall;
    /// Device takes longer for each request, by a factor.
    SlowDown = "slow-down": Request, "fault_slow_requests", needs [factor], lasts Continuing;
    /// Device limits the rate of requests or of their bytes.
    Throttle = "throttle": Request, "fault_throttled_requests", needs [rate_iops rate_mib_per_s], lasts Continuing;
    /// Connection of the request carries nothing in either direction until the fault rule's time ends.
    ConnectionStall = "connection-stall": Request, "fault_connection_stalls", needs [until_us for_us], lasts Stall, on Connection;
    /// Connection of the request is reset before the target gets the request, and the host connects again.
    ConnectionReset = "connection-reset": Request, "fault_connection_resets", keys [reconnect_us], on Connection;
    /// Digest of the request's data, or of the header of its response, is wrong.
    DigestError = "digest-error": Request, "fault_digest_errors", keys [digest reconnect_us], on Connection;
    /// Target keeps the connection of the request open, but sends nothing on it any more.
    HalfOpen = "half-open": Request, "fault_half_open_connections", keys [timeout_us reconnect_us], on Connection;
}

impl FaultAction {
    /// True if this effect is on a completion queue entry or a doorbell, regardless of the command.
    pub fn is_completion_entry_or_doorbell_effect(self) -> bool {
        self.row().place == FaultApplicationPlace::Queue
    }

    /// True if this effect is on a network connection, so that only drives behind a network can have it.
    pub fn is_network_connection_effect(self) -> bool {
        self.row().place == FaultApplicationPlace::Connection
    }

    /// Returns the operation that this effect is limited to; `None` if it applies to any operation.
    pub fn operation(self) -> Option<FaultOperation> {
        Some(self.row().operation).filter(|operation| *operation != FaultOperation::Any)
    }

    /// True if this effect restarts the controller, immediately or after an outage.
    pub fn does_restart_controller(self) -> bool {
        matches!(self, FaultAction::Reset | FaultAction::PowerCut)
    }

    /// Returns the name of this effect's counter in results.
    pub fn counter(self) -> &'static str {
        self.row().counter
    }
}
