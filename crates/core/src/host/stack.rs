//! Costs of software: the stages between the application and the device, as the steps of four paths (reads and
//! writes, down and up). Steps that only take time are added up; at the others cores contend, and the host stops there.

use std::collections::BTreeMap;

use crate::config::{self, LockHeld};
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::request::RequestId;
use crate::request::{DataDirection, Op};
use crate::time::Span;

/// Step of a path. Numbers name lines and locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackStep {
    /// Spends processor time.
    Run {
        /// Stage that the step belongs to.
        stage: Stage,
        /// Processor time.
        time: Span,
    },
    /// Writes a cache line that other cores write too.
    Line {
        /// Stage that the step belongs to.
        stage: Stage,
        /// Number of the line.
        line: usize,
    },
    /// Takes a spinlock, spinning if need be, and holds it for a time.
    Spin {
        /// Stage that the step belongs to.
        stage: Stage,
        /// Number of the spinlock.
        lock: usize,
        /// Time for which it is held.
        hold: Span,
        /// Number of lines that are written under it.
        lines: u8,
    },
    /// Takes a lock for the request, sleeping if need be.
    Take {
        /// Stage that the step belongs to.
        stage: Stage,
        /// Number of the request lock.
        lock: usize,
    },
    /// Gives the request's lock back.
    Release {
        /// Stage that the step belongs to.
        stage: Stage,
        /// Number of the request lock.
        lock: usize,
    },
    /// Leaves the rest of the path to the kernel's worker.
    HandOver {
        /// Stage that the step belongs to.
        stage: Stage,
    },
}

/// Way of a request through the software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the application to the device.
    Down,
    /// From the device to the application.
    Up,
}

/// Request on its way through the software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The request.
    pub request: RequestId,
    /// Its operation.
    pub op: Op,
    /// Its way.
    pub way: Way,
    /// Index of the step that it takes next.
    pub place: usize,
}

/// Software stack of a drive whose requests go one at a time.
#[derive(Clone, Debug)]
pub struct Stack {
    down: [Vec<StackStep>; 2],
    up: [Vec<StackStep>; 2],
    contended: bool,
    copy_ps_per_byte: f64,
    copy_writes: bool,
    /// Number of cache lines that the steps name.
    pub lines: usize,
    /// Number of spinlocks that they name.
    pub spin_locks: usize,
    /// Number of locks that requests keep.
    pub request_locks: usize,
}

impl Stack {
    /// Stack of these stages, which a request meets in this order. Costs scale by `ratio` with the core clock.
    pub fn new(stages: &[config::StackStage], copy: &config::Stack, ratio: f64) -> Stack {
        let mut names = Names::default();
        let mut stack = Stack {
            down: [Vec::new(), Vec::new()],
            up: [Vec::new(), Vec::new()],
            contended: false,
            copy_ps_per_byte: if copy.copy_bytes_per_ns > 0.0 { 1e3 / copy.copy_bytes_per_ns * ratio } else { 0.0 },
            copy_writes: copy.copy_writes,
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

    /// True if cores contend anywhere, so that a request may have to stop on its path.
    pub fn contended(&self) -> bool {
        self.contended
    }

    /// Takes all steps up to the next at which cores contend. Returns that step, or none at the end of the path.
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

    /// Charges the copy of the data between the application's buffer and the driver's.
    #[inline]
    pub fn copy(&self, path: &Path, bytes: u32, ledger: &mut Ledger) {
        let copies = match (path.op, path.way) {
            (Op::Read, Way::Up) => true,
            (Op::Write, Way::Down) => self.copy_writes,
            _ => false,
        };
        if copies && self.copy_ps_per_byte > 0.0 {
            let time = Span::from_ps((f64::from(bytes) * self.copy_ps_per_byte).round() as u64);
            ledger.spend(Stage::Copy, time.min(Span::MAX));
        }
    }
}

/// Numbers of locks, by name.
#[derive(Debug, Default)]
struct Names {
    spin: BTreeMap<String, usize>,
    request: BTreeMap<String, usize>,
}

impl Names {
    fn lock(&mut self, config: &config::StackStage) -> Option<usize> {
        let names = match config.lock_held {
            LockHeld::Stage => &mut self.spin,
            LockHeld::Request => &mut self.request,
        };
        let next = names.len();
        (!config.lock.is_empty()).then(|| *names.entry(config.lock.clone()).or_insert(next))
    }
}

/// Stage that is being turned into steps.
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
            (Some(lock), LockHeld::Request) => {
                let mut steps = vec![StackStep::Take { stage, lock }];
                steps.extend(self.steps(config.submit + extra, config.submit_lines, None));
                steps
            }
            (Some(lock), LockHeld::Stage) => {
                // A stage that does nothing on the way down takes no lock for it.
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
            (Some(lock), LockHeld::Request) => {
                let mut steps = self.steps(config.complete, config.complete_lines, None);
                steps.push(StackStep::Release { stage, lock });
                steps
            }
            (Some(lock), LockHeld::Stage) if !held.is_zero() => {
                self.steps(config.complete - held, config.complete_lines, Some((lock, held)))
            }
            _ => self.steps(config.complete, config.complete_lines, None),
        }
    }

    /// Steps of a stretch of work, of the lines that it touches, and of a stretch under a spinlock.
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
