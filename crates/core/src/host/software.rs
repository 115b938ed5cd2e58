//! Costs of software whose requests may go together: the stages that one engine's requests meet, as sums.
//!
//! Unlike a [`Stack`](super::stack::Stack), which is alike for all jobs, there is one of these for each way in. What a
//! batch costs once stands apart from what each of its requests costs, and the application's own code apart from the
//! kernel's, which another thread may run.

use crate::config::engine::{EngineOptions, IoEngine, polls};
use crate::config::{self, StackStage as Layer};
use crate::drive::Drive;
use crate::ledger::Stage;
use crate::request::{DataDirection, Io};
use crate::time::Span;

/// Size of the pages in which data is pinned and mapped.
const PAGE_BYTES: u32 = 4096;

/// Cost of a stage for a request on one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Stage that the time is charged to.
    pub stage: Stage,
    /// Time for each request.
    pub each: Span,
    /// Time for each 4 KiB of its data.
    pub page: Span,
    /// Extra time for data of more than 4 KiB.
    pub list: Span,
    /// Spinlock of the stage.
    pub lock: Option<LockCost>,
}

/// Spinlock that a stage holds at its end. Each drive has one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockCost {
    /// Number of the lock among those of one drive.
    pub lock: usize,
    /// Time for which the lock is held.
    pub hold: Span,
    /// Number of cache lines that its holder writes, each of which comes from the core that held it last.
    pub lines: u8,
}

/// Cost of a stage for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchCost {
    /// Stage that the time is charged to.
    pub stage: Stage,
    /// Time for the whole batch.
    pub time: Span,
    /// Additional time for each other request of the thread in flight.
    pub depth: Span,
    /// True if only a thread that had to wait spends it.
    pub if_waited: bool,
}

/// Costs of one way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Costs of the application for each request.
    pub user: Vec<Cost>,
    /// Costs of the kernel for each request.
    pub kernel: Vec<Cost>,
    /// Costs that a batch has once.
    pub batch: Vec<BatchCost>,
}

/// Software that the requests of one engine meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Software {
    /// Engine of the requests.
    pub engine: IoEngine,
    /// Switches that the engine is used with.
    pub switches: EngineOptions,
    /// Costs on the way down: of reads, and of all other operations.
    pub down: [Costs; 2],
    /// Costs on the way up.
    pub up: Costs,
    /// Number of spinlocks of the stack, of which each drive has its own.
    pub locks: usize,
    /// Costs of looking for completions, which pass while the requests are in flight, or in line if there are some already.
    pub look: Vec<BatchCost>,
}

impl Cost {
    /// Processor time that the stage costs a request.
    pub fn of(&self, io: &Io) -> Span {
        if self.page.is_zero() && self.list.is_zero() {
            return self.each;
        }
        let pages = io.data_bytes().div_ceil(PAGE_BYTES);
        let list = if pages > 1 { self.list } else { Span::ZERO };
        self.each + self.page * u64::from(pages) + list
    }
}

impl Software {
    /// Software that requests of this engine meet on this drive's host.
    pub fn new(drive: &Drive, engine: IoEngine, switches: EngineOptions) -> Software {
        let columns = drive.stage_names();
        let words = drive.stack.words(engine, switches);
        let locks = locks(&drive.stack);
        let ratio = drive.software_ratio();
        let layers: Vec<EngineStage> = drive
            .stack
            .stages
            .iter()
            .filter(|layer| layer.is_passed(&words))
            .map(|layer| {
                let place = columns.iter().position(|column| column == layer.column()).unwrap_or_default();
                let lock = locks.iter().position(|lock| *lock == layer.lock);
                EngineStage { layer, stage: Stage::stack(place), lock, ratio }
            })
            .collect();
        Software {
            engine,
            switches,
            down: [DataDirection::Read, DataDirection::Write].map(|direction| Costs::down(&layers, direction)),
            up: Costs::up(&layers),
            locks: locks.len(),
            look: layers.iter().filter_map(|met| met.batch(met.layer.wait_batch, met.layer.if_waited)).collect(),
        }
    }

    /// True if the thread looks for completions, rather than have an interrupt announce them.
    pub fn polls(&self) -> bool {
        polls(self.engine, self.switches)
    }

    /// Processor time of a look for completions that are not there yet.
    pub fn wait_time(&self) -> Span {
        self.look.iter().map(|cost| cost.time).sum()
    }

    /// Costs on the way down of requests that move data in this direction.
    pub fn down(&self, direction: DataDirection) -> &Costs {
        &self.down[direction as usize]
    }
}

/// Names of the spinlocks of a stack's stages.
pub fn locks(stack: &config::Stack) -> Vec<&str> {
    let mut locks: Vec<&str> = stack.stages.iter().map(|layer| layer.lock.as_str()).collect();
    locks.retain(|lock| !lock.is_empty());
    locks.sort_unstable();
    locks.dedup();
    locks
}

/// Stage that the requests of an engine meet.
struct EngineStage<'a> {
    layer: &'a Layer,
    stage: Stage,
    lock: Option<usize>,
    ratio: f64,
}

impl EngineStage<'_> {
    fn scaled(&self, time: Span) -> Span {
        time.scale(self.ratio)
    }

    fn cost(&self, each: Span, (page, list): (Span, Span), held: Span) -> Option<Cost> {
        let lock = self.lock.filter(|_| !held.is_zero());
        let lock = lock.map(|lock| LockCost { lock, hold: self.scaled(held), lines: self.layer.lock_lines });
        let (page, list) = (self.scaled(page), self.scaled(list));
        let cost = Cost { stage: self.stage, each: self.scaled(each - held), page, list, lock };
        (!each.is_zero() || !page.is_zero() || !list.is_zero()).then_some(cost)
    }

    fn down(&self, direction: DataDirection) -> Option<Cost> {
        let layer = self.layer;
        let each = layer.submit + if direction == DataDirection::Write { layer.write_extra } else { Span::ZERO };
        let all = layer.submit_held.is_zero() && self.lock.is_some();
        self.cost(each, (layer.submit_page, layer.submit_list), if all { each } else { layer.submit_held })
    }

    fn up(&self) -> Option<Cost> {
        let layer = self.layer;
        self.cost(layer.complete, (layer.complete_page, layer.complete_list), layer.complete_held)
    }

    fn batch(&self, time: Span, if_waited: bool) -> Option<BatchCost> {
        let cost = BatchCost { stage: self.stage, time: self.scaled(time), depth: Span::ZERO, if_waited };
        (!time.is_zero()).then_some(cost)
    }

    fn submit_batch(&self) -> Option<BatchCost> {
        let (time, depth) = (self.layer.submit_batch, self.layer.submit_depth);
        let cost =
            BatchCost { stage: self.stage, time: self.scaled(time), depth: self.scaled(depth), if_waited: false };
        (!time.is_zero() || !depth.is_zero()).then_some(cost)
    }
}

impl Costs {
    fn down(layers: &[EngineStage], direction: DataDirection) -> Costs {
        let costs =
            |user: bool| layers.iter().filter(move |met| met.layer.user == user).filter_map(|met| met.down(direction));
        Costs {
            user: costs(true).collect(),
            kernel: costs(false).collect(),
            batch: layers.iter().filter_map(EngineStage::submit_batch).collect(),
        }
    }

    fn up(layers: &[EngineStage]) -> Costs {
        let costs =
            |user: bool| layers.iter().rev().filter(move |met| met.layer.user == user).filter_map(EngineStage::up);
        let batch = layers.iter().rev().filter_map(|met| met.batch(met.layer.complete_batch, met.layer.if_waited));
        Costs { user: costs(true).collect(), kernel: costs(false).collect(), batch: batch.collect() }
    }
}
