//! Processor costs of software whose requests may go in batches: the stages that the requests of one I/O engine pass,
//! added up.
//!
//! A [`Stack`](super::stack::Stack) is the same for all jobs; here, each engine with its options has its own costs.
//! Costs of a whole batch are kept apart from those of each request, and the application's own code apart from the
//! kernel's, which another thread may run.

use crate::config::engine::{EngineOptions, IoEngine, polls};
use crate::config::{self, LockScope, StackStage as Layer};
use crate::drive::Drive;
use crate::fabric::InitiatorTransportCosts;
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::request::{DataDirection, Io, Op};
use crate::time::Span;

/// Size in bytes of the pages in which data is pinned and mapped.
const PAGE_BYTES: u32 = 4096;

/// Processor time that a stage of the software costs one request, in the downward or the upward direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageCostTime {
    /// Stage of a request's latency ledger that the time is charged to.
    pub stage: Stage,
    /// Processor time for each request, whatever its size.
    pub each: Span,
    /// Processor time for each 4 KiB of the request's data.
    pub page: Span,
    /// Extra processor time for a request with more than 4 KiB of data.
    pub list: Span,
    /// True if only data of reads costs time for each 4 KiB.
    pub is_of_reads: bool,
    /// Spinlock that the stage holds; `None` without one.
    pub lock: Option<StageLockCost>,
    /// Cache lines that the stage writes and that all processors share.
    pub lines: SharedLineRange,
    /// True if an interrupt handler runs the stage.
    pub in_handler: bool,
    /// True if the stage takes its exact time, whatever the other hardware thread of the core does.
    pub stalls: bool,
}

/// Cache lines of a drive, counted from its first one, that a stage of the software writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedLineRange {
    /// Number of the first cache line among those of one drive.
    pub first: usize,
    /// Number of cache lines that the stage writes.
    pub count: u8,
}

/// Spinlock that a stage of the software holds at the end of its work. Each drive, or each queue pair, has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageLockCost {
    /// Number of the lock among those of one drive or queue pair.
    pub lock: usize,
    /// Scope of the lock: a drive, or a queue pair.
    pub scope: LockScope,
    /// Time for which the lock is held.
    pub hold: Span,
    /// Number of cache lines that its holder writes, each of which comes from the core that held it last.
    pub lines: u8,
}

/// Processor time that a stage of the software costs a whole batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageBatchCost {
    /// Stage of a request's latency ledger that the time is charged to.
    pub stage: Stage,
    /// Processor time for the whole batch.
    pub time: Span,
    /// Additional time of a batch for each other request of the thread in flight.
    pub depth: Span,
    /// True if only a thread that had to wait for completions spends this time.
    pub if_waited: bool,
}

/// Costs of the software in one direction: submission or completion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectionCosts {
    /// Costs of each request in the application.
    pub user: Vec<StageCostTime>,
    /// Costs of each request in the kernel.
    pub kernel: Vec<StageCostTime>,
    /// Costs of a whole batch, in the application and in the kernel.
    pub batch: Vec<StageBatchCost>,
}

/// Numbers of the spinlocks of a stack's stages: each drive has some for all its queue pairs, and some for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackLockNumbers {
    /// Number of spinlocks of one drive or queue pair.
    each: usize,
    drives: usize,
}

impl StackLockNumbers {
    /// Creates the numbers of the spinlocks of this drive's stack.
    pub fn new(drive: &Drive) -> StackLockNumbers {
        StackLockNumbers { each: locks(&drive.stack).len(), drives: drive.drives.into() }
    }

    /// Returns the number of spinlocks up to those of queue pair `queue` of the last drive.
    pub fn count(&self, queue: usize) -> usize {
        (self.queue(queue) + 1) * self.drives * self.each
    }

    /// Returns the number of the spinlock of a request to `drive` through queue pair `queue`.
    pub fn number(&self, lock: &StageLockCost, drive: u16, queue: usize) -> usize {
        let queue = if lock.scope == LockScope::Queue { self.queue(queue) } else { 0 };
        (queue * self.drives + usize::from(drive)) * self.each + lock.lock
    }

    /// Returns the queue pair by which the locks of `queue` are numbered. Events number locks in 16 bits, so that with
    /// tens of thousands of them several queue pairs share theirs.
    fn queue(&self, queue: usize) -> usize {
        queue % (usize::from(u16::MAX) / (self.drives * self.each).max(1)).max(1)
    }
}

/// Software that the requests of one I/O engine pass on a drive's host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Software {
    /// I/O engine of the requests.
    pub engine: IoEngine,
    /// Options that the I/O engine is used with.
    pub switches: EngineOptions,
    /// Costs of submission: of reads, and of all other operations.
    pub down: [DirectionCosts; 2],
    /// Costs of completion, of all operations.
    pub up: DirectionCosts,
    /// Numbers of the spinlocks of the stack.
    pub locks: StackLockNumbers,
    /// Number of cache lines that processors share, of which each drive has its own.
    pub lines: usize,
    /// Processor time of one look for completions. A thread with requests in flight spends it while it waits; if
    /// completions are there already, it spends the time before collecting them.
    pub look: Vec<StageBatchCost>,
}

impl StageCostTime {
    /// Returns the processor time that the stage costs a request.
    pub fn of(&self, io: &Io) -> Span {
        if self.page.is_zero() && self.list.is_zero() {
            return self.each;
        }
        if self.is_of_reads && io.op != Op::Read {
            return self.each;
        }
        let pages = io.data_bytes().div_ceil(PAGE_BYTES);
        let list = if pages > 1 { self.list } else { Span::ZERO };
        self.each + self.page * u64::from(pages) + list
    }

    /// Returns the processor time that the stage costs a request, lock included, if no other processor contends.
    pub fn alone(&self, io: &Io) -> Span {
        self.of(io) + self.lock.filter(|lock| lock.scope == LockScope::Drive).map_or(Span::ZERO, |lock| lock.hold)
    }
}

/// Charges a request for `time` in a stage, at the pace of its ledger unless the stage only waits (`stalls`).
#[inline]
pub fn charge(ledger: &mut Ledger, stage: Stage, time: Span, stalls: bool) {
    match stalls {
        true => ledger.until(stage, ledger.cursor() + time),
        false => ledger.spend(stage, time),
    }
}

impl Software {
    /// Creates the software that requests of this engine pass on this drive's host.
    pub fn new(drive: &Drive, engine: IoEngine, switches: EngineOptions) -> Software {
        let columns = drive.software_stage_names();
        let words = drive.stack.words(engine, switches);
        let locks = locks(&drive.stack);
        let ratio = drive.software_ratio();
        let mut lines = 0;
        // Number the stages that these requests skip too, because other threads may pass them.
        let numbered = drive.stack.stages.iter().map(|layer| {
            let first_line = lines;
            lines += usize::from(layer.submit_lines.max(layer.complete_lines));
            (layer, first_line)
        });
        let layers: Vec<EngineStackStage> = numbered
            .filter(|(layer, _)| layer.applies_to_job(&words))
            .map(|(layer, first_line)| {
                let place = columns.iter().position(|column| column == layer.column()).unwrap_or_default();
                let lock = locks.iter().position(|lock| *lock == layer.lock);
                EngineStackStage { layer, stage: Stage::stack(place), lock, first_line, ratio }
            })
            .collect();
        let software = Software {
            engine,
            switches,
            down: [DataDirection::Read, DataDirection::Write].map(|direction| DirectionCosts::down(&layers, direction)),
            up: DirectionCosts::up(&layers),
            locks: StackLockNumbers::new(drive),
            lines,
            look: layers.iter().filter_map(|met| met.batch(met.layer.wait_batch, met.layer.if_waited)).collect(),
        };
        match InitiatorTransportCosts::of(&drive.fabric) {
            None => software,
            Some(costs) => software.with_initiator_transport(&costs, columns.len() - 1, ratio),
        }
    }

    /// Returns this software with the work of an initiator's transport, the last on the way down and the first on the
    /// way up; `column` is its place among the stages of the stack.
    fn with_initiator_transport(mut self, costs: &InitiatorTransportCosts, column: usize, ratio: f64) -> Software {
        let page = |ps_per_byte| InitiatorTransportCosts::time(ps_per_byte, PAGE_BYTES).scale(ratio);
        let cost = |each: Span, page, is_of_reads| StageCostTime {
            stage: Stage::stack(column),
            each: each.scale(ratio),
            page,
            list: Span::ZERO,
            is_of_reads,
            lock: None,
            lines: SharedLineRange::default(),
            in_handler: false,
            stalls: false,
        };
        self.down[DataDirection::Read as usize].kernel.push(cost(costs.submit, Span::ZERO, true));
        self.down[DataDirection::Write as usize].kernel.push(cost(costs.submit, page(costs.write_ps_per_byte), false));
        self.up.kernel.insert(0, cost(costs.receive, page(costs.read_ps_per_byte), true));
        self
    }

    /// True if the thread polls for completions, instead of waiting for an interrupt.
    pub fn polls(&self) -> bool {
        polls(self.engine, self.switches)
    }

    /// True if the thread waits for each request in a system call, which the kernel counts as a wait for I/O.
    pub fn waits_in_system_call(&self) -> bool {
        self.engine == IoEngine::Sync && !self.polls()
    }

    /// Returns the processor time of looking for completions that are not there yet.
    pub fn empty_poll_time(&self) -> Span {
        self.look.iter().map(|cost| cost.time).sum()
    }

    /// Returns the costs of submission of requests that move data in this direction.
    pub fn down(&self, direction: DataDirection) -> &DirectionCosts {
        &self.down[direction as usize]
    }
}

/// Returns the number of cache lines of one drive that the stages of a stack share among processors.
pub fn count_shared_lines(stack: &config::Stack) -> usize {
    stack.stages.iter().map(|layer| usize::from(layer.submit_lines.max(layer.complete_lines))).sum()
}

/// Returns the names of the spinlocks of a stack's stages, sorted, each once.
pub fn locks(stack: &config::Stack) -> Vec<&str> {
    let mut locks: Vec<&str> = stack.stages.iter().map(|layer| layer.lock.as_str()).collect();
    locks.retain(|lock| !lock.is_empty());
    locks.sort_unstable();
    locks.dedup();
    locks
}

/// Stage of the software stack that the requests of an engine pass, with its place in the ledger, its lock and the
/// ratio of its costs.
struct EngineStackStage<'a> {
    layer: &'a Layer,
    stage: Stage,
    lock: Option<usize>,
    /// Number of the first cache line that the stage shares with other processors.
    first_line: usize,
    ratio: f64,
}

impl EngineStackStage<'_> {
    fn scaled_stage_time(&self, time: Span) -> Span {
        time.scale(self.ratio)
    }

    fn cost(&self, each: Span, (page, list): (Span, Span), held: Span, lines: u8) -> Option<StageCostTime> {
        let scope = self.layer.lock_scope;
        let lock = self.lock.filter(|_| !held.is_zero());
        let lock = lock.map(|lock| StageLockCost {
            lock,
            scope,
            hold: self.scaled_stage_time(held),
            lines: self.layer.lock_lines,
        });
        // The time under a queue pair's lock counts separately only if threads share the queue pair.
        let apart = if scope == LockScope::Drive { held } else { Span::ZERO };
        let lines = SharedLineRange { first: self.first_line, count: lines };
        let (each, page, list) =
            (self.scaled_stage_time(each - apart), self.scaled_stage_time(page), self.scaled_stage_time(list));
        let takes_time = !each.is_zero() || !page.is_zero() || !list.is_zero() || lock.is_some();
        let (stage, stalls) = (self.stage, self.layer.stalls);
        let cost =
            StageCostTime { stage, each, page, list, is_of_reads: false, lock, lines, in_handler: false, stalls };
        (takes_time || lines.count > 0).then_some(cost)
    }

    fn down(&self, direction: DataDirection) -> Option<StageCostTime> {
        let layer = self.layer;
        let each = layer.submit + if direction == DataDirection::Write { layer.write_extra } else { Span::ZERO };
        let all = layer.submit_held.is_zero() && self.lock.is_some();
        let held = if all { each } else { layer.submit_held };
        self.cost(each, (layer.submit_page, layer.submit_list), held, layer.submit_lines)
    }

    fn up(&self) -> Option<StageCostTime> {
        let layer = self.layer;
        let of_size = (layer.complete_page, layer.complete_list);
        let cost = self.cost(layer.complete, of_size, layer.complete_held, layer.complete_lines)?;
        Some(StageCostTime { in_handler: layer.in_handler, ..cost })
    }

    fn batch(&self, time: Span, if_waited: bool) -> Option<StageBatchCost> {
        let cost =
            StageBatchCost { stage: self.stage, time: self.scaled_stage_time(time), depth: Span::ZERO, if_waited };
        (!time.is_zero()).then_some(cost)
    }

    fn submit_batch(&self) -> Option<StageBatchCost> {
        let (time, depth) = (self.layer.submit_batch, self.layer.submit_depth);
        let cost = StageBatchCost {
            stage: self.stage,
            time: self.scaled_stage_time(time),
            depth: self.scaled_stage_time(depth),
            if_waited: false,
        };
        (!time.is_zero() || !depth.is_zero()).then_some(cost)
    }
}

impl DirectionCosts {
    fn down(layers: &[EngineStackStage], direction: DataDirection) -> DirectionCosts {
        let costs =
            |user: bool| layers.iter().filter(move |met| met.layer.user == user).filter_map(|met| met.down(direction));
        DirectionCosts {
            user: costs(true).collect(),
            kernel: costs(false).collect(),
            batch: layers.iter().filter_map(EngineStackStage::submit_batch).collect(),
        }
    }

    fn up(layers: &[EngineStackStage]) -> DirectionCosts {
        let costs =
            |user: bool| layers.iter().rev().filter(move |met| met.layer.user == user).filter_map(EngineStackStage::up);
        let batch = layers.iter().rev().filter_map(|met| met.batch(met.layer.complete_batch, met.layer.if_waited));
        DirectionCosts { user: costs(true).collect(), kernel: costs(false).collect(), batch: batch.collect() }
    }
}
