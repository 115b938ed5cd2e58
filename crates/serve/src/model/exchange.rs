//! Channels between the thread that runs an engine and the threads that submit requests to it.
//!
//! ```text
//!    asking threads (RemoteEngine)            the engine's thread (SharedEngine)
//!  stamp with the clock, call  ──────────>  enters the model as of that instant
//!                                           the model: completed, after this latency
//!  deliver at stamp + latency  <──────────  result, as soon as it is known
//! ```
//!
//! The time that a call and its result spend on a channel does not show, as long as it is less than the modelled
//! latency: a result is due that latency after the stamp, on the clock that both threads read. Neither thread waits for
//! the other.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use phaselink_core::number::{length, low_u32, wide_index};
use phaselink_core::request::{Io, Op};
use phaselink_core::time::{Span, Time};

use crate::device::pipe::{Pipe, PipeRecord};
use crate::device::tally::locked;
use crate::device::wakeup::Wakeup;
use crate::model::commands::EngineCommand;
use crate::model::wall::{Clock, Wait};

/// Channels of one engine: one for each thread that may submit requests. No cache line of a channel is written by both
/// ends.
#[derive(Debug)]
pub struct EngineExchange {
    clock: Clock,
    pub(super) channels: Box<[EngineChannel]>,
    /// Number of channels to the engine's thread that other threads have reserved so far.
    opened: AtomicUsize,
    turns: AtomicUsize,
    engine: Wakeup,
}

/// Channel between the engine's thread and one thread that submits requests to it.
#[derive(Debug)]
pub(super) struct EngineChannel {
    pub(super) calls: Pipe,
    /// Completed requests, sent by the engine's thread. Each has the instant of the exchange's clock at which the
    /// submitting thread must deliver it; it may still be in the future.
    pub(super) results: Pipe,
    /// Commands of real hosts, each of which [`Call::Command`] announces. Only the engine's thread receives them, so that
    /// it never waits for the lock.
    commands: (Sender<EngineCommand>, Mutex<Receiver<EngineCommand>>),
    caller: Wakeup,
    /// True if the thread that submits requests may sleep while it waits for results, so that a result must wake it.
    wakes_caller: bool,
}

impl EngineChannel {
    /// Sends a command to the engine's thread, before the call that announces it.
    pub(super) fn send_command(&self, command: EngineCommand) {
        self.commands.0.send(command).expect("the channel has both ends");
    }

    /// Returns the next command that a call has announced.
    pub(super) fn receive_announced_command(&self) -> EngineCommand {
        locked(&self.commands.1).try_recv().expect("a command is sent before the call that announces it")
    }

    /// Wakes the thread that submitted the requests, if it sleeps while it waits for results.
    pub(super) fn wake_sleeping_caller(&self) {
        if self.wakes_caller {
            self.caller.wake();
        }
    }
}

impl EngineExchange {
    /// Makes an exchange with a clock that starts now and one channel for each of `callers` threads. Results wake these
    /// threads only if they wait by sleeping ([`Wait::Block`]).
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn new(wait: Wait, callers: usize) -> io::Result<EngineExchange> {
        let channel = |_| {
            let (calls, results, (sender, receiver)) = (Pipe::default(), Pipe::default(), mpsc::channel());
            let commands = (sender, Mutex::new(receiver));
            Ok(EngineChannel { calls, results, commands, caller: Wakeup::new()?, wakes_caller: wait == Wait::Block })
        };
        Ok(EngineExchange {
            clock: Clock::start(),
            channels: (0..callers).map(channel).collect::<io::Result<_>>()?,
            opened: AtomicUsize::new(0),
            turns: AtomicUsize::new(0),
            engine: Wakeup::new()?,
        })
    }

    /// Returns the clock that the engine's thread and all threads that submit requests read.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the turn of a new client: consecutive numbers, which spread the clients of all front-ends over the
    /// modelled threads.
    pub fn next_turn(&self) -> usize {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the wake-up of the engine's thread, which callers use after each call.
    pub fn engine(&self) -> &Wakeup {
        &self.engine
    }

    /// Reserves a channel for a thread and returns its number.
    ///
    /// # Panics
    /// If the exchange was made for fewer threads.
    pub(crate) fn open(&self) -> usize {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        assert!(number < self.channels.len(), "the exchange has {} channels", self.channels.len());
        number
    }

    /// Returns the wake-up of the thread that has reserved channel `channel`.
    pub(crate) fn caller(&self, channel: usize) -> &Wakeup {
        &self.channels[channel].caller
    }

    #[cfg(test)]
    pub(super) fn set_clock(&mut self, now: Time) {
        self.clock = Clock::Set(now);
    }
}

/// Message in one record, from a thread that submits requests to the engine's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Tells the engine's thread if requests are to be expected, so that it stays awake, or none are.
    Attention(bool),
    /// Announces that the channel has a further command of a real host.
    Command,
    /// Submits a request to the software of the modelled host.
    Request(ModelRequest),
}

/// Request that a served client submits to the software of the modelled host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelRequest {
    /// Instant of the clock at which the client submitted the request.
    pub submitted: Time,
    /// Turn of the client, which chooses the modelled thread.
    pub turn: usize,
    /// Operation, offset and length of the request.
    pub io: Io,
    /// Number by which the caller knows the request.
    pub token: u32,
    /// True if the caller wants the result as soon as the engine knows it, before the instant at which the request
    /// completes.
    pub early: bool,
    /// Time for which a fault has delayed the request before its submission.
    pub delayed: Span,
}

impl Call {
    const ATTENTION: u64 = 1;
    const COMMAND: u64 = 1 << 3;
    const EARLY: u64 = 1 << 2;
    /// Bit position of the operation in the first word of a request's record.
    const OP_SHIFT: u32 = 4;

    pub(super) fn encode(self) -> PipeRecord {
        match self {
            Call::Attention(expected) => [Call::ATTENTION, expected.into(), 0, 0, 0, 0, 0],
            Call::Command => [Call::COMMAND, 0, 0, 0, 0, 0, 0],
            Call::Request(ModelRequest { submitted, turn, io: Io { op, offset, bytes }, token, early, delayed }) => {
                let flags = (op as u64) << Call::OP_SHIFT | if early { Call::EARLY } else { 0 };
                [flags, submitted.as_ps(), length(turn), offset, bytes.into(), token.into(), delayed.as_ps()]
            }
        }
    }

    pub(super) fn decode([flags, submitted, turn, offset, bytes, token, delayed]: PipeRecord) -> Call {
        if flags == Call::ATTENTION {
            return Call::Attention(submitted != 0);
        }
        if flags == Call::COMMAND {
            return Call::Command;
        }
        let io = Io { op: Op::ALL[(flags >> Call::OP_SHIFT) as usize], offset, bytes: bytes as u32 };
        let early = flags & Call::EARLY != 0;
        let (submitted, delayed) = (Time::from_ps(submitted), Span::from_ps(delayed));
        Call::Request(ModelRequest { submitted, turn: wide_index(turn), io, token: low_u32(token), early, delayed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_call_decodes_to_what_was_encoded() {
        let request = |op| {
            let io = Io { op, offset: 1 << 40, bytes: 4096 };
            let (submitted, delayed) = (Time::from_ps(7), Span::from_ms(20));
            Call::Request(ModelRequest { submitted, turn: 3, io, token: u32::MAX, early: op == Op::Flush, delayed })
        };
        for call in
            [Call::Attention(true), Call::Attention(false), Call::Command].into_iter().chain(Op::ALL.map(request))
        {
            assert_eq!(Call::decode(call.encode()), call);
        }
    }
}
