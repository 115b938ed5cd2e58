//! Commands of real hosts on their way to an engine, which another thread may run, and in front of its modelled queues.

use std::collections::VecDeque;

use phaselink_core::protocol::real_hosts::{DecodedHostCommand, HostCommand, HostCommandForm};
use phaselink_core::request::Io;
use phaselink_core::time::{Span, Time};

use crate::model::wall::WallClockEngine;

/// Command of a real host, in the form in which it is sent to the engine.
#[derive(Debug)]
pub(crate) struct EngineCommand {
    /// Instant of the clock at which the host wrote the doorbell that announced the command.
    pub rung: Time,
    /// Number of the modelled queue that stands for the host's queue.
    pub queue: u16,
    pub owner: u64,
    pub entries: u32,
    /// True if completions in the command's queue raise interrupts.
    pub has_interrupts: bool,
    pub token: u32,
    pub io: Option<Io>,
    pub command: DecodedHostCommand,
    /// True if the same doorbell write announced a further command of this queue, sent next.
    pub has_more: bool,
    /// Time for which a fault has delayed the command.
    pub delayed: Span,
}

/// Commands of real hosts that wait for room in the modelled queues, by the numbers of these queues.
#[derive(Debug, Default)]
pub(super) struct HostQueues(Vec<HostQueue>);

/// Commands of one modelled queue that wait for room, with the host that owns the queue.
#[derive(Debug, Default)]
struct HostQueue {
    owner: Option<u64>,
    /// Commands that wait for room in the modelled queue, each with its source: the number of a channel, or the
    /// engine's own thread.
    waiting: VecDeque<(usize, EngineCommand)>,
}

impl HostQueues {
    /// Adds a command to those that wait for room in its queue. `lane` is its source, to which the result goes.
    pub(super) fn push(&mut self, lane: usize, command: EngineCommand) {
        let queue = usize::from(command.queue);
        if self.0.len() <= queue {
            self.0.resize_with(queue + 1, HostQueue::default);
        }
        self.0[queue].waiting.push_back((lane, command));
    }

    /// Moves waiting commands into the modelled queues, as far as these have room. `take` returns the engine's token
    /// for a command. `entered` receives the token and the model's instant at which the command entered.
    pub(super) fn enter<T>(
        &mut self,
        wall: &mut WallClockEngine,
        kept: &mut T,
        take: impl Fn(&mut T, &mut WallClockEngine, usize, &EngineCommand) -> u32,
        entered: impl Fn(&mut T, u32, Time),
    ) {
        for queue in &mut self.0 {
            while let Some((tokens, arrived)) =
                queue.enter_announced_commands(wall, |wall, lane, command| take(kept, wall, lane, command))
            {
                tokens.into_iter().for_each(|token| entered(kept, token, arrived));
            }
        }
    }
}

impl HostQueue {
    /// Moves the commands of one doorbell write into the modelled queue, as many as it has room for. Returns their
    /// tokens and the model's instant of entry; none if there is no room, or no command waits.
    fn enter_announced_commands(
        &mut self,
        wall: &mut WallClockEngine,
        mut take: impl FnMut(&mut WallClockEngine, usize, &EngineCommand) -> u32,
    ) -> Option<(Vec<u32>, Time)> {
        let &EngineCommand { rung, queue, owner, entries, has_interrupts, .. } = &self.waiting.front()?.1;
        if self.owner != Some(owner) && wall.begin_queue(queue, entries, has_interrupts) {
            self.owner = Some(owner);
        }
        let (mut batch, mut tokens): (Vec<EngineCommand>, Vec<u32>) = Default::default();
        let room = wall.room(queue);
        let is_next = |batch: &[EngineCommand], next: &EngineCommand| {
            next.owner == owner && batch.last().is_none_or(|last| last.has_more)
        };
        while batch.len() < room && self.waiting.front().is_some_and(|(_, next)| is_next(&batch, next)) {
            let Some((lane, command)) = self.waiting.pop_front() else { break };
            tokens.push(take(wall, lane, &command));
            batch.push(command);
        }
        if batch.is_empty() {
            return None;
        }
        let commands = batch.into_iter().zip(&tokens).map(|(sent, token)| HostCommand {
            queue,
            form: HostCommandForm::Decoded(sent.command),
            io: sent.io,
            token: *token,
            delayed: sent.delayed,
        });
        let arrived = wall.ring(rung, queue, commands);
        Some((tokens, arrived))
    }
}
