//! Cores of the target: when they work, poll and sleep, and what a command costs them.

use super::pdu::TransportFraming;
use crate::config;
use crate::number::whole;
use crate::request::{Io, Op};
use crate::time::{Span, Time};

/// Core of the target, which serves the commands and completions of its queue pairs in turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct TargetCoreQueue {
    free_at: Time,
    /// Time that the core has worked for commands, without polling.
    pub worked: Span,
}

impl TargetCoreQueue {
    /// True if the core sleeps at `now`, because it has had no work for longer than it polls.
    pub fn sleeps(&self, now: Time, poll: Span) -> bool {
        now > self.free_at + poll
    }

    /// Lets the core work for `time`, from `ready` on or as soon as it is free, and returns the beginning.
    pub fn take(&mut self, ready: Time, time: Span) -> Time {
        let begin = ready.max(self.free_at);
        self.free_at = begin + time;
        self.worked += time;
        begin
    }
}

/// Processor time of the target for commands, responses and data.
#[derive(Clone, Copy, Debug)]
pub struct TargetCoreCosts {
    command: Span,
    response: Span,
    segment: Span,
    receive_ps_per_byte: f64,
    send_ps_per_byte: f64,
}

impl TargetCoreCosts {
    /// Returns the costs of a drive file's target.
    pub fn new(config: &config::Fabric) -> TargetCoreCosts {
        let each = |rate: f64| if rate > 0.0 { 1e3 / rate } else { 0.0 };
        let digest = if config.data_digest { each(config.digest_bytes_per_ns) } else { 0.0 };
        TargetCoreCosts {
            command: config.target_command,
            response: config.target_response,
            segment: config.target_segment,
            receive_ps_per_byte: each(config.target_copy_bytes_per_ns) + digest,
            send_ps_per_byte: digest,
        }
    }

    fn data(&self, bytes: u32, ps_per_byte: f64, framing: &TransportFraming) -> Span {
        let segments = self.segment * u64::from(framing.segments(bytes));
        segments + Span::from_ps(whole((f64::from(bytes) * ps_per_byte).round()))
    }

    /// Returns the time to receive this many bytes of a write.
    pub fn receive(&self, bytes: u32, framing: &TransportFraming) -> Span {
        self.data(bytes, self.receive_ps_per_byte, framing)
    }

    /// Returns the time to receive a command, with the data in its capsule, and to submit it or to ask for its data.
    pub fn command(&self, io: &Io, framing: &TransportFraming) -> Span {
        let in_capsule = io.op == Op::Write && !framing.needs_data_request(io);
        self.command + if in_capsule { self.receive(io.bytes, framing) } else { Span::ZERO }
    }

    /// Returns the time to complete a command and to send its response, with the data of a read.
    pub fn response(&self, io: &Io, framing: &TransportFraming) -> Span {
        let data_bytes = if io.op == Op::Read { io.bytes } else { 0 };
        self.response + self.data(data_bytes, self.send_ps_per_byte, framing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_core_sleeps_after_polling_without_work() {
        let mut core = TargetCoreQueue::default();
        let at = |us: u64| Time::ZERO + Span::from_us(us);
        assert_eq!(core.take(at(5), Span::from_us(2)), at(5));
        let poll = Span::from_us(40);
        assert!(!core.sleeps(at(47), poll) && core.sleeps(at(47) + Span::from_ps(1), poll));
        assert_eq!(core.take(at(6), Span::from_us(2)), at(7));
        assert_eq!(core.worked, Span::from_us(4));
    }
}
