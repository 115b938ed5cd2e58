//! I/O engine of a job and its batching: the system call interface of its requests, and how many go together.

use crate::config::EngineOptions;
use serde::Serialize;

/// I/O engine of a job and its options, as fio names them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EngineChoice {
    /// fio's `ioengine`; `None` if the job leaves it to the stack.
    pub engine: Option<String>,
    /// Options of the engine.
    pub switches: EngineOptions,
    /// Processor of the poll thread (fio `sqthread_poll_cpu`).
    pub poller_cpu: Option<u32>,
}

/// Batch sizes of a job in fio's terms; 0 stands for `iodepth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Batch {
    /// Number of requests that are gathered before they are submitted (fio `iodepth_batch`); fewer if there is nothing
    /// more to gather.
    pub submit: Option<u32>,
    /// Number of completions for which a thread with all its slots taken waits (fio `iodepth_batch_complete_min`).
    pub complete_min: u32,
    /// Largest number of completions that a thread collects together (fio `iodepth_batch_complete_max`).
    pub complete_max: Option<u32>,
    /// Number of slots in use down to which a thread collects once all its slots have been taken (fio `iodepth_low`).
    pub low: u32,
}

impl Default for Batch {
    /// Batches of one, unless the engine has its own default.
    fn default() -> Batch {
        Batch { submit: None, complete_min: 1, complete_max: None, low: 0 }
    }
}

/// Batch sizes of a thread, with the defaults of its queue depth and engine applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSizes {
    /// Number of requests that are gathered before they are submitted.
    pub submit: u32,
    /// Number of completions that a thread with all its slots taken waits for.
    pub complete_min: u32,
    /// Largest number of completions collected together.
    pub complete_max: u32,
    /// Number of slots in use down to which a full thread collects.
    pub low: u32,
}

impl Batch {
    /// Batch sizes for `iodepth` slots. fio submits and collects one by one unless told otherwise. A driver in user
    /// space that polls for completions collects all that it finds, and writes the doorbell for all of them.
    pub fn with_slots(&self, iodepth: u32, takes_all: bool) -> BatchSizes {
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
