//! I/O engine of a job, and the numbers of requests that are submitted and of completions that are collected together.

use crate::config::EngineOptions;
use serde::Serialize;

/// I/O engine of a job and the engine's options, under fio's names.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EngineChoice {
    /// Name of the I/O engine (fio `ioengine`); `None` for the default of the host's software.
    pub engine: Option<String>,
    /// On-off options of the I/O engine, such as fio's `hipri`.
    pub switches: EngineOptions,
    /// Processor to which the kernel's poll thread is pinned (fio `sqthread_poll_cpu`); `None` if it is not pinned.
    pub poller_cpu: Option<u32>,
}

/// Batch sizes of a job as its fio options state them; 0 stands for `iodepth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Batch {
    /// Number of requests that a thread gathers before it submits them (fio `iodepth_batch`), or fewer if no more are
    /// ready. `None` stands for the default of the I/O engine.
    pub submit: Option<u32>,
    /// Number of completions for which a thread waits when all its slots are in use (fio `iodepth_batch_complete_min`).
    pub complete_min: u32,
    /// Largest number of completions that a thread collects together (fio `iodepth_batch_complete_max`); `None` for the
    /// default of the I/O engine.
    pub complete_max: Option<u32>,
    /// Number of requests in flight down to which a thread collects completions once all its slots have been in use
    /// (fio `iodepth_low`).
    pub low: u32,
}

impl Default for Batch {
    /// Returns fio's defaults: a thread waits for one completion, `iodepth_low` is the queue depth, and the I/O engine
    /// decides the other batch sizes.
    fn default() -> Batch {
        Batch { submit: None, complete_min: 1, complete_max: None, low: 0 }
    }
}

/// Batch sizes of a thread, after the defaults of its queue depth and I/O engine have been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSizes {
    /// Number of requests that a thread gathers before it submits them together.
    pub submit: u32,
    /// Number of completions for which a thread waits when all its slots are in use.
    pub complete_min: u32,
    /// Largest number of completions that a thread collects together.
    pub complete_max: u32,
    /// Number of requests in flight down to which a thread collects completions once all its slots have been in use.
    pub low: u32,
}

impl Batch {
    /// Resolves the batch sizes for `iodepth` slots. By default, fio submits and collects requests one by one. With
    /// `takes_all`, the defaults are those of a polling driver in user space: it collects all completions that it
    /// finds, and writes the doorbell once.
    pub fn batch_for_slots(&self, iodepth: u32, takes_all: bool) -> BatchSizes {
        let slots = |count: u32| if count == 0 { iodepth } else { count.min(iodepth) };
        let one = if takes_all { 0 } else { 1 };
        let complete_min = self.complete_min.clamp(1, iodepth.max(1));
        BatchSizes {
            submit: slots(self.submit.unwrap_or(one)),
            complete_min,
            complete_max: slots(self.complete_max.unwrap_or(if takes_all { 0 } else { complete_min }))
                .max(complete_min),
            low: slots(self.low),
        }
    }
}
