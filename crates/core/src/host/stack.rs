//! Processor costs of software: the stages between the application and the device. They form the steps of four paths
//! (reads and writes, down and up). Steps that only take processor time are added up. At the others (shared cache
//! lines, locks, hand-overs) cores contend, and the host stops a request.

use std::collections::BTreeMap;

use crate::config::{self, LockHoldPeriod};
use crate::drive::Drive;
use crate::fabric::InitiatorTransportCosts;
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::number::whole;
use crate::request::RequestId;
use crate::request::{DataDirection, Op};
use crate::time::Span;

/// Step of a request's path through the software stack. Lines and locks are named by numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackStep {
    /// Spends processor time without contention.
    Run {
        /// Stage of a request's latency ledger that the step is charged to.
        stage: Stage,
        /// Processor time that the step spends.
        time: Span,
    },
    /// Writes a cache line that other cores write too.
    Line {
        /// Stage of a request's latency ledger that the step is charged to.
        stage: Stage,
        /// Number of the cache line among those of the stack.
        line: usize,
    },
    /// Takes a spinlock, spinning if need be, and holds it for a time.
    Spin {
        /// Stage of a request's latency ledger that the step is charged to.
        stage: Stage,
        /// Number of the spinlock among those of the stack.
        lock: usize,
        /// Time for which the spinlock is held.
        hold: Span,
        /// Number of cache lines that are written under the spinlock.
        lines: u8,
    },
    /// Takes a lock that the request keeps, and sleeps until it is free.
    Take {
        /// Stage of a request's latency ledger that the step is charged to.
        stage: Stage,
        /// Number of the lock that the request keeps.
        lock: usize,
    },
    /// Releases the lock that the request has kept.
    Release {
        /// Stage of a request's latency ledger that the step is charged to.
        stage: Stage,
        /// Number of the lock that the request has kept.
        lock: usize,
    },
    /// Hands the rest of the path over to the kernel's worker.
    HandOver {
        /// Stage of a request's latency ledger that the step is charged to.
        stage: Stage,
    },
}

/// Direction of a request through the software stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the application to the device.
    Down,
    /// From the device to the application.
    Up,
}

/// Position of a request in the software stack: its direction and its next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Index of the request in the table of requests in flight.
    pub request: RequestId,
    /// Operation of the request: read, write, flush and so on.
    pub op: Op,
    /// Direction of the request: down to the device or up to the application.
    pub way: Way,
    /// Index of the step that the request takes next.
    pub place: usize,
}

/// Software stack of a drive whose requests pass it one at a time: the steps that reads and writes take down and up.
#[derive(Clone, Debug)]
pub struct Stack {
    down: [Vec<StackStep>; 2],
    up: [Vec<StackStep>; 2],
    contended: bool,
    /// Processor time in picoseconds for each byte of a completed read, and of a submitted write.
    copy_ps_per_byte: [f64; 2],
    /// Number of cache lines in the software stack that several cores write, and for which they contend.
    pub lines: usize,
    /// Number of spinlocks that requests take on their way through the software stack.
    pub spin_locks: usize,
    /// Number of locks that requests take on their way down the software stack and keep until their way up.
    pub request_locks: usize,
}

impl Stack {
    /// Creates the software stack of a drive's host, with the work of an initiator's transport for each byte if the drive
    /// is behind a network.
    pub fn of(drive: &Drive) -> Stack {
        let ratio = drive.software_ratio();
        let mut stack = Stack::new(&drive.stages(), &drive.stack, ratio);
        if let Some(costs) = InitiatorTransportCosts::of(&drive.fabric) {
            stack.copy_ps_per_byte[DataDirection::Read as usize] += costs.read_ps_per_byte * ratio;
            stack.copy_ps_per_byte[DataDirection::Write as usize] += costs.write_ps_per_byte * ratio;
        }
        stack
    }

    /// Creates the stack of these stages, which a request passes downward in this order. Costs scale by `ratio`
    /// with the core clock.
    pub fn new(stages: &[config::StackStage], copy: &config::Stack, ratio: f64) -> Stack {
        let mut names = LockNumbersByName::default();
        let ps_per_byte = if copy.copy_bytes_per_ns > 0.0 { 1e3 / copy.copy_bytes_per_ns * ratio } else { 0.0 };
        let mut stack = Stack {
            down: [Vec::new(), Vec::new()],
            up: [Vec::new(), Vec::new()],
            contended: false,
            copy_ps_per_byte: if copy.copy_writes { [ps_per_byte; 2] } else { [ps_per_byte, 0.0] },
            lines: 0,
            spin_locks: 0,
            request_locks: 0,
        };
        for (place, config) in stages.iter().enumerate() {
            let layer = Layer { config, stage: Stage::stack(place), first_line: stack.lines, ratio };
            stack.lines += usize::from(config.submit_lines.max(config.complete_lines));
            stack.add(&layer, names.lock(config));
        }
        let paths = stack.down.iter().chain(&stack.up);
        stack.contended = paths.flatten().any(|step| !matches!(step, StackStep::Run { .. }));
        (stack.spin_locks, stack.request_locks) = (names.spin.len(), names.request.len());
        stack
    }

    fn add(&mut self, layer: &Layer, lock: Option<usize>) {
        for direction in [DataDirection::Read, DataDirection::Write] {
            self.down[direction as usize].extend(layer.down(direction, lock));
            self.up[direction as usize].splice(0..0, layer.up(lock));
        }
    }

    /// True if cores contend at any step, so that a request may have to stop on its path.
    pub fn contended(&self) -> bool {
        self.contended
    }

    /// Charges all steps of a path up to the next one at which cores contend. Returns that step; `None` at the end of
    /// the path.
    #[inline]
    pub fn advance(&self, path: &mut Path, ledger: &mut Ledger) -> Option<StackStep> {
        let steps = match path.way {
            Way::Down => &self.down[path.op.direction() as usize],
            Way::Up => &self.up[path.op.direction() as usize],
        };
        while let Some(&step) = steps.get(path.place) {
            let StackStep::Run { stage, time } = step else { return Some(step) };
            ledger.spend(stage, time);
            path.place += 1;
        }
        None
    }

    /// Charges the copy of the data between the application's buffer and the driver's, if the path has one.
    #[inline]
    pub fn copy(&self, path: &Path, bytes: u32, ledger: &mut Ledger) {
        let ps_per_byte = match (path.op, path.way) {
            (Op::Read, Way::Up) => self.copy_ps_per_byte[DataDirection::Read as usize],
            (Op::Write, Way::Down) => self.copy_ps_per_byte[DataDirection::Write as usize],
            _ => return,
        };
        if ps_per_byte > 0.0 {
            let time = Span::from_ps(whole((f64::from(bytes) * ps_per_byte).round()));
            ledger.spend(Stage::Copy, time.min(Span::MAX));
        }
    }
}

/// Numbers of spinlocks and of locks that requests keep, by their names.
#[derive(Debug, Default)]
struct LockNumbersByName {
    spin: BTreeMap<String, usize>,
    request: BTreeMap<String, usize>,
}

impl LockNumbersByName {
    fn lock(&mut self, config: &config::StackStage) -> Option<usize> {
        let names = match config.lock_held {
            LockHoldPeriod::Stage => &mut self.spin,
            LockHoldPeriod::Request => &mut self.request,
        };
        let next = names.len();
        (!config.lock.is_empty()).then(|| *names.entry(config.lock.clone()).or_insert(next))
    }
}

/// Stage of the software stack that is being turned into steps.
struct Layer<'a> {
    config: &'a config::StackStage,
    stage: Stage,
    first_line: usize,
    ratio: f64,
}

impl Layer<'_> {
    fn down(&self, direction: DataDirection, lock: Option<usize>) -> Vec<StackStep> {
        let Layer { config, stage, .. } = *self;
        let extra = if direction == DataDirection::Write { config.write_extra } else { Span::ZERO };
        let held = if config.submit_held.is_zero() { config.submit + extra } else { config.submit_held };
        let hand_over = config.hand_over.then_some(StackStep::HandOver { stage });
        match (lock, config.lock_held) {
            (None, _) => self.steps(config.submit + extra, config.submit_lines, None),
            (Some(lock), LockHoldPeriod::Request) => {
                let mut steps = vec![StackStep::Take { stage, lock }];
                steps.extend(self.steps(config.submit + extra, config.submit_lines, None));
                steps
            }
            (Some(lock), LockHoldPeriod::Stage) => {
                // A stage without work on the way down does not take the lock there.
                let lock = (!held.is_zero()).then_some((lock, held));
                self.steps(config.submit + extra - held, config.submit_lines, lock)
            }
        }
        .into_iter()
        .chain(hand_over)
        .collect()
    }

    fn up(&self, lock: Option<usize>) -> Vec<StackStep> {
        let Layer { config, stage, .. } = *self;
        let held = config.complete_held;
        match (lock, config.lock_held) {
            (Some(lock), LockHoldPeriod::Request) => {
                let mut steps = self.steps(config.complete, config.complete_lines, None);
                steps.push(StackStep::Release { stage, lock });
                steps
            }
            (Some(lock), LockHoldPeriod::Stage) if !held.is_zero() => {
                self.steps(config.complete - held, config.complete_lines, Some((lock, held)))
            }
            _ => self.steps(config.complete, config.complete_lines, None),
        }
    }

    /// Returns the steps of a software stage: its processor time, the shared cache lines that it writes, and its time
    /// under a spinlock.
    fn steps(&self, time: Span, lines: u8, lock: Option<(usize, Span)>) -> Vec<StackStep> {
        let stage = self.stage;
        let mut steps = vec![StackStep::Run { stage, time: time.scale(self.ratio) }];
        steps.extend((0..usize::from(lines)).map(|line| StackStep::Line { stage, line: self.first_line + line }));
        steps.extend(lock.map(|(lock, hold)| StackStep::Spin {
            stage,
            lock,
            hold: hold.scale(self.ratio),
            lines: self.config.lock_lines,
        }));
        steps
    }
}
