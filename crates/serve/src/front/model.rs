//! The model of a device thread: none, an engine that the thread runs itself, or the engine of another thread.

use std::time::Duration;

use phaselink_core::drive::Drive;
use phaselink_core::engine::Completed;
use phaselink_core::ledger::Outcome;
use phaselink_core::protocol::real_hosts::DecodedHostCommand;
use phaselink_core::request::{Io, Op};
use phaselink_core::time::{Span, Time};

use crate::clock::{Clock, Wait};
use crate::model::commands::EngineCommand;
use crate::model::exchange::{EngineExchange, ModelRequest};
use crate::model::remote::RemoteEngine;
use crate::model::shared::SharedEngine;

/// Model that decides when the requests of a device thread complete.
#[derive(Debug)]
pub enum Model<'a> {
    /// Timing is off: requests complete as soon as they have been executed.
    None,
    /// Timing is on: the device thread runs the engine, for itself and for callers on other threads.
    Here(Box<SharedEngine<'a>>),
    /// Timing is on, and another thread runs the engine.
    Elsewhere(Box<RemoteEngine<'a>>),
}

/// Modelled queue that stands for a queue of a real host.
#[derive(Clone, Copy, Debug)]
pub struct ModelledHostQueue {
    /// Number of the modelled queue, among all queues of the model.
    pub number: u16,
    /// Identifier of the host's queue among all that the modelled queue has stood for.
    pub owner: u64,
    /// Number of entries of the host's queue.
    pub entries: u32,
    /// True if the host has created its completion queue with interrupts.
    pub has_interrupts: bool,
}

/// Request in the form in which it enters the model.
#[derive(Debug)]
pub enum Submission {
    /// Request to the software of the modelled host, which submits it to the modelled drive.
    Software {
        /// Turn of the request's client, which selects one of the modelled threads.
        turn: usize,
        /// Operation, offset and length of the request.
        io: Io,
    },
    /// Command in the queue of a real host, whose own software has placed it there.
    Command {
        /// Modelled queue that the command enters.
        queue: ModelledHostQueue,
        /// Operation, offset and length; none for a command that is refused.
        io: Option<Io>,
        /// Command as the device has decoded it.
        command: DecodedHostCommand,
    },
}

/// Optional operations that reach the modelled drive: it has a command for each, and for a flush also a volatile
/// buffer.
#[derive(Clone, Copy, Debug)]
pub struct OptionalModelledOperations {
    /// True if the drive has a volatile buffer and a command to flush it.
    has_flush: bool,
    has_discard: bool,
    has_zeroes: bool,
}

impl OptionalModelledOperations {
    /// Returns the optional operations of a drive.
    pub fn of(drive: &Drive) -> OptionalModelledOperations {
        let limits = drive.limits();
        OptionalModelledOperations {
            has_flush: limits.is_volatile && limits.supports(Op::Flush),
            has_discard: limits.supports(Op::Discard),
            has_zeroes: limits.supports(Op::WriteZeroes),
        }
    }

    /// Returns the request that the modelled host makes of a submission, as Linux does: it leaves out flushes that the
    /// drive does not need and discards that it does not know, and writes zeros as data where there is no command for
    /// them. Returns nothing for a request that is left out, and so takes no modelled time. A command of a real host
    /// stays what it is.
    #[inline]
    pub fn convert_to_modelled_submission(&self, submission: Submission) -> Option<Submission> {
        let Submission::Software { turn, io } = submission else { return Some(submission) };
        let op = match io.op {
            Op::Flush if !self.has_flush => return None,
            Op::Discard if !self.has_discard => return None,
            Op::WriteZeroes if !self.has_zeroes => Op::Write,
            op => op,
        };
        Some(Submission::Software { turn, io: Io { op, ..io } })
    }
}

impl<'a> Model<'a> {
    /// Returns true if timing is off.
    #[inline]
    pub fn is_none(&self) -> bool {
        matches!(self, Model::None)
    }

    fn exchange(&self) -> Option<&'a EngineExchange> {
        match self {
            Model::None => None,
            Model::Here(engine) => Some(engine.exchange()),
            Model::Elsewhere(engine) => Some(engine.exchange()),
        }
    }

    /// Returns the clock that the model follows; none with timing off.
    #[inline]
    pub fn clock(&self) -> Option<&'a Clock> {
        self.exchange().map(EngineExchange::clock)
    }

    /// Returns the turn of a new client, by which clients are spread over the modelled threads; 0 with timing off.
    pub fn next_turn(&self) -> usize {
        self.exchange().map_or(0, EngineExchange::next_turn)
    }

    /// Submits a request to the model as of the instant `submitted` of the clock. `early` asks for the result as soon
    /// as it is known. `has_more` says that the same doorbell write announced a further command of the queue. A fault
    /// has delayed the request by `delayed`.
    ///
    /// # Panics
    /// If there is no model.
    #[inline]
    pub fn submit(
        &mut self,
        submitted: Time,
        submission: Submission,
        token: u32,
        (early, has_more): (bool, bool),
        delayed: Span,
    ) {
        match submission {
            Submission::Software { turn, io } => {
                let request = ModelRequest { submitted, turn, io, token, early, delayed };
                match self {
                    Model::None => unreachable!("a request is submitted to a model"),
                    Model::Here(engine) => engine.submit(request),
                    Model::Elsewhere(engine) => engine.submit(request),
                }
            }
            Submission::Command { queue, io, command } => {
                let ModelledHostQueue { number: queue, owner, entries, has_interrupts } = queue;
                let rung = submitted;
                let sent = EngineCommand {
                    rung,
                    queue,
                    owner,
                    entries,
                    has_interrupts,
                    token,
                    io,
                    command,
                    has_more,
                    delayed,
                };
                match self {
                    Model::None => unreachable!("a command is submitted to a model"),
                    Model::Here(engine) => engine.submit_command(sent),
                    Model::Elsewhere(engine) => engine.submit_command(sent),
                }
            }
        }
    }

    /// Runs an engine on this thread up to the clock's `now`, and returns true if it has received or completed a
    /// request. An idle engine runs only up to `earliest`: requests that were submitted since then may still be
    /// fetched. An engine on another thread is told `has_clients`: that requests may come.
    #[inline]
    pub fn poll(&mut self, now: Time, earliest: Time, has_clients: bool) -> bool {
        match self {
            Model::None => false,
            Model::Here(engine) => engine.poll(now, earliest),
            Model::Elsewhere(engine) => {
                engine.expect(has_clients);
                false
            }
        }
    }

    /// Returns the next result that the model knows. Its instant of completion, by the clock, may still be in the
    /// future.
    #[inline]
    pub fn take_known(&mut self) -> Option<Completed> {
        match self {
            Model::None => None,
            Model::Here(engine) => engine.take_known(),
            Model::Elsewhere(engine) => engine.take_known(),
        }
    }

    /// Accepts requests that other threads have submitted to this thread's engine; returns true if there was any.
    pub fn listen(&mut self) -> bool {
        match self {
            Model::Here(engine) => engine.listen(),
            Model::None | Model::Elsewhere(_) => false,
        }
    }

    /// Returns true if this thread runs the engine, and other threads expect results or have announced requests.
    pub fn has_callers(&self) -> bool {
        matches!(self, Model::Here(engine) if engine.has_callers())
    }

    /// Returns true if the engine has no request of this thread, nor of others if this thread runs the engine.
    pub fn is_idle(&self) -> bool {
        match self {
            Model::None => true,
            Model::Here(engine) => engine.is_idle(),
            Model::Elsewhere(engine) => engine.is_idle(),
        }
    }

    /// Returns the longest time for which a thread that waits as `wait` says may sleep, if nothing arrives.
    pub fn rest_for(&self, wait: Wait) -> Duration {
        match self {
            Model::None => Duration::MAX,
            Model::Here(engine) => engine.rest_for(wait),
            Model::Elsewhere(engine) => engine.rest_for(wait),
        }
    }

    /// Returns the outcome of the simulation, if this thread runs the engine.
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            Model::Here(engine) => Some(engine.outcome()),
            Model::None | Model::Elsewhere(_) => None,
        }
    }
}
