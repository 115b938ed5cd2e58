//! The model of a device thread: none, an engine that the thread runs itself, or the engine of another thread.

use std::time::Duration;

use phaselink_core::drive::Drive;
use phaselink_core::engine::Completed;
use phaselink_core::ledger::Outcome;
use phaselink_core::request::{Io, Op};
use phaselink_core::time::{Span, Time};

use crate::clock::{Clock, Wait};
use crate::model::commands::SentCommand;
use crate::model::exchange::Exchange;
use crate::model::remote::RemoteEngine;
use crate::model::shared::SharedEngine;

/// Model that decides when the requests of a device thread are over.
#[derive(Debug)]
pub enum Model<'a> {
    /// Timing is off: requests are over as soon as they have been executed.
    None,
    /// The thread runs the engine, for itself and for callers on other threads.
    Here(Box<SharedEngine<'a>>),
    /// Another thread runs the engine.
    Elsewhere(Box<RemoteEngine<'a>>),
}

/// Queue of the model that stands for the queue of a real host.
#[derive(Clone, Copy, Debug)]
pub struct ModelQueue {
    /// Number among the queues of the model.
    pub number: u16,
    /// Identifies the host's queue among all that the model's queue has stood for.
    pub owner: u64,
    /// Entries of the host's queue.
    pub entries: u32,
    /// True if the host has created its completion queue with interrupts.
    pub has_interrupts: bool,
}

/// Request as it enters the model.
#[derive(Clone, Copy, Debug)]
pub enum Submission<'r> {
    /// Request to the software of the modelled host.
    Software {
        /// Turn of the request's client among the modelled threads.
        turn: usize,
        /// Operation, place and size.
        io: Io,
    },
    /// Command in the queue of a real host, whose own software has placed it there.
    Command {
        /// The model's queue.
        queue: ModelQueue,
        /// Operation, place and size; nothing for a command that is refused.
        io: Option<Io>,
        /// Submission queue entry.
        entry: &'r [u8; 64],
        /// Lists of pages and ranges that were read for the command.
        lists: Option<&'r [u8]>,
    },
}

/// Operations that the modelled drive has a use and a command for.
#[derive(Clone, Copy, Debug)]
pub struct ModelledOperations {
    /// True if the drive has a volatile buffer and a command to flush it.
    has_flush: bool,
    has_discard: bool,
    has_zeroes: bool,
}

impl ModelledOperations {
    /// Returns the operations of a drive.
    pub fn of(drive: &Drive) -> ModelledOperations {
        let limits = drive.limits();
        ModelledOperations {
            has_flush: limits.is_volatile && limits.supports(Op::Flush),
            has_discard: limits.supports(Op::Discard),
            has_zeroes: limits.supports(Op::WriteZeroes),
        }
    }

    /// Returns the request that the modelled host makes of a submission, as Linux does: it leaves out flushes that the drive
    /// does not need and discards that it does not know, and writes zeros as data where there is no command for them. Returns
    /// nothing for a request that is left out, and so takes no modelled time. A command of a real host stays what it is.
    #[inline]
    pub fn modelled<'r>(&self, submission: Submission<'r>) -> Option<Submission<'r>> {
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

    fn exchange(&self) -> Option<&'a Exchange> {
        match self {
            Model::None => None,
            Model::Here(engine) => Some(engine.exchange()),
            Model::Elsewhere(engine) => Some(engine.exchange()),
        }
    }

    /// Returns the clock that the model follows, if there is one.
    #[inline]
    pub fn clock(&self) -> Option<&'a Clock> {
        self.exchange().map(Exchange::clock)
    }

    /// Returns the turn of a new client among the modelled threads.
    pub fn next_turn(&self) -> usize {
        self.exchange().map_or(0, Exchange::next_turn)
    }

    /// Submits a request at an instant of the clock. `early` says that its result is wanted as soon as it is known; `has_more`
    /// says that the next command of its queue was announced by the same doorbell; a fault has held the request back for
    /// `delayed` before.
    ///
    /// # Panics
    /// If there is no model.
    #[inline]
    pub fn submit(
        &mut self,
        submitted: Time,
        submission: Submission<'_>,
        token: u32,
        (early, has_more): (bool, bool),
        delayed: Span,
    ) {
        match submission {
            Submission::Software { turn, io } => match self {
                Model::None => unreachable!("a request is submitted to a model"),
                Model::Here(engine) => engine.submit(submitted, turn, io, token, early, delayed),
                Model::Elsewhere(engine) => engine.submit(submitted, turn, io, token, early, delayed),
            },
            Submission::Command { queue, io, entry, lists } => {
                let ModelQueue { number: queue, owner, entries, has_interrupts } = queue;
                let (rung, entry, lists) = (submitted, *entry, lists.map(<[u8]>::to_vec));
                let sent = SentCommand {
                    rung,
                    queue,
                    owner,
                    entries,
                    has_interrupts,
                    token,
                    io,
                    entry,
                    lists,
                    has_more,
                    delayed,
                };
                match self {
                    Model::None => unreachable!("a command is submitted to a model"),
                    Model::Here(engine) => engine.submit_command(sent),
                    Model::Elsewhere(engine) => engine.submit_command(&sent),
                }
            }
        }
    }

    /// Lets the model run up to the clock's `now`; one that is idle no further than `earliest`, the earliest instant at which a
    /// request may still turn out to have been submitted. `has_clients` says that requests may come. Returns true if there was
    /// anything.
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

    /// Returns the next result that is known, which may be before it is due. Its instant is the clock's.
    #[inline]
    pub fn take_known(&mut self) -> Option<Completed> {
        match self {
            Model::None => None,
            Model::Here(engine) => engine.take_known(),
            Model::Elsewhere(engine) => engine.take_known(),
        }
    }

    /// Takes in what callers on other threads have submitted; returns true if there was anything.
    pub fn listen(&mut self) -> bool {
        match self {
            Model::Here(engine) => engine.listen(),
            Model::None | Model::Elsewhere(_) => false,
        }
    }

    /// Returns true if threads elsewhere expect results of this thread's engine.
    pub fn has_callers(&self) -> bool {
        matches!(self, Model::Here(engine) if engine.has_callers())
    }

    /// Returns true if no request is in the model.
    pub fn is_idle(&self) -> bool {
        match self {
            Model::None => true,
            Model::Here(engine) => engine.is_idle(),
            Model::Elsewhere(engine) => engine.is_idle(),
        }
    }

    /// Returns how long a thread that waits as `wait` says may sleep, unless something arrives.
    pub fn rest_for(&self, wait: Wait) -> Duration {
        match self {
            Model::None => Duration::MAX,
            Model::Here(engine) => engine.rest_for(wait),
            Model::Elsewhere(engine) => engine.rest_for(wait),
        }
    }

    /// Returns what the engine of this thread has measured.
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            Model::Here(engine) => Some(engine.outcome()),
            Model::None | Model::Elsewhere(_) => None,
        }
    }
}
