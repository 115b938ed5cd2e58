//! What software costs whose requests may go together: the stages that one engine's requests meet, as sums.
//!
//! Unlike a [`Stack`](super::stack::Stack), which is alike for all jobs, there is one of these for each way in. What a
//! batch costs once stands apart from what each of its requests costs, and the application's own code apart from the
//! kernel's, which another thread may run.

use crate::config::engine::{Engine, Switches, polls};
use crate::config::{self, Stage as Layer};
use crate::drive::Drive;
use crate::ledger::Stage;
use crate::request::{DataDirection, Io};
use crate::time::Span;

/// The pieces of memory by which data is pinned and mapped.
const PAGE_BYTES: u32 = 4096;

/// What a stage costs a request on one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    pub stage: Stage,
    /// For each request, and for each 4 KiB of it.
    pub each: Span,
    pub page: Span,
    /// A spinlock, and the time at the end for which it is held.
    pub lock: Option<(usize, Span)>,
}

/// What a stage costs a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchCost {
    pub stage: Stage,
    pub time: Span,
    /// Spent only by a thread that had to wait.
    pub if_waited: bool,
}

/// The costs of one way: what the application does for each request, what the kernel does, and what is done once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    pub user: Vec<Cost>,
    pub kernel: Vec<Cost>,
    pub batch: Vec<BatchCost>,
}

/// The software that the requests of one engine meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Software {
    pub engine: Engine,
    pub switches: Switches,
    /// By operation.
    pub down: [Costs; 2],
    pub up: Costs,
    /// Looking for completions: while the requests are under way, or in line if there are some already.
    pub look: Vec<BatchCost>,
}

impl Cost {
    /// Processor time for a request.
    pub fn of(&self, io: &Io) -> Span {
        if self.page.is_zero() {
            return self.each;
        }
        self.each + self.page * u64::from(io.data_bytes().div_ceil(PAGE_BYTES))
    }
}

impl Software {
    /// What requests of this engine meet on this drive's host.
    pub fn new(drive: &Drive, engine: Engine, switches: Switches) -> Software {
        let columns = drive.stage_names();
        let words = drive.stack.words(engine, switches);
        let locks = locks(&drive.stack);
        let ratio = drive.software_ratio();
        let layers: Vec<Met> = drive
            .stack
            .stages
            .iter()
            .filter(|layer| layer.holds(&words))
            .map(|layer| {
                let place = columns.iter().position(|column| column == layer.column()).unwrap_or_default();
                let lock = locks.iter().position(|lock| *lock == layer.lock);
                Met { layer, stage: Stage::stack(place), lock, ratio }
            })
            .collect();
        Software {
            engine,
            switches,
            down: [DataDirection::Read, DataDirection::Write].map(|direction| Costs::down(&layers, direction)),
            up: Costs::up(&layers),
            look: layers.iter().filter_map(|met| met.batch(met.layer.wait_batch, met.layer.if_waited)).collect(),
        }
    }

    /// Whether completions are looked for, rather than announced by an interrupt.
    pub fn polls(&self) -> bool {
        polls(self.engine, self.switches)
    }

    /// Processor time of looking for completions that are not there yet.
    pub fn wait_time(&self) -> Span {
        self.look.iter().map(|cost| cost.time).sum()
    }

    /// The costs on the way down.
    pub fn down(&self, direction: DataDirection) -> &Costs {
        &self.down[direction as usize]
    }
}

/// The spinlocks that a stack's stages name.
pub fn locks(stack: &config::Stack) -> Vec<&str> {
    let mut locks: Vec<&str> = stack.stages.iter().map(|layer| layer.lock.as_str()).collect();
    locks.retain(|lock| !lock.is_empty());
    locks.sort_unstable();
    locks.dedup();
    locks
}

/// A stage that requests meet.
struct Met<'a> {
    layer: &'a Layer,
    stage: Stage,
    lock: Option<usize>,
    ratio: f64,
}

impl Met<'_> {
    fn scaled(&self, time: Span) -> Span {
        time.scale(self.ratio)
    }

    fn cost(&self, each: Span, page: Span, held: Span) -> Option<Cost> {
        let lock = self.lock.filter(|_| !held.is_zero()).map(|lock| (lock, self.scaled(held)));
        let cost = Cost { stage: self.stage, each: self.scaled(each - held), page: self.scaled(page), lock };
        (!each.is_zero() || !page.is_zero()).then_some(cost)
    }

    fn down(&self, direction: DataDirection) -> Option<Cost> {
        let layer = self.layer;
        let each = layer.submit + if direction == DataDirection::Write { layer.write_extra } else { Span::ZERO };
        let all = layer.submit_held.is_zero() && self.lock.is_some();
        self.cost(each, layer.submit_page, if all { each } else { layer.submit_held })
    }

    fn up(&self) -> Option<Cost> {
        self.cost(self.layer.complete, self.layer.complete_page, self.layer.complete_held)
    }

    fn batch(&self, time: Span, if_waited: bool) -> Option<BatchCost> {
        (!time.is_zero()).then(|| BatchCost { stage: self.stage, time: self.scaled(time), if_waited })
    }
}

impl Costs {
    fn down(layers: &[Met], direction: DataDirection) -> Costs {
        let costs =
            |user: bool| layers.iter().filter(move |met| met.layer.user == user).filter_map(|met| met.down(direction));
        Costs {
            user: costs(true).collect(),
            kernel: costs(false).collect(),
            batch: layers.iter().filter_map(|met| met.batch(met.layer.submit_batch, false)).collect(),
        }
    }

    fn up(layers: &[Met]) -> Costs {
        let costs = |user: bool| layers.iter().rev().filter(move |met| met.layer.user == user).filter_map(Met::up);
        let batch = layers.iter().rev().filter_map(|met| met.batch(met.layer.complete_batch, met.layer.if_waited));
        Costs { user: costs(true).collect(), kernel: costs(false).collect(), batch: batch.collect() }
    }
}
