//! How a job's requests enter the host's software: by which engine, and how many together.

use crate::config::EngineOptions;
use serde::Serialize;

/// The engine of a job and its switches, as fio names them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Way {
    /// fio's `ioengine`; none if the job leaves it to the stack.
    pub engine: Option<String>,
    pub switches: EngineOptions,
    /// Processor of the poll thread (fio `sqthread_poll_cpu`).
    pub poller_cpu: Option<u32>,
}

/// How many requests are submitted and collected together, as fio has it; 0 stands for `iodepth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Batch {
    /// Requests that are gathered before they are submitted (fio `iodepth_batch`); fewer if there is nothing more to gather.
    pub submit: Option<u32>,
    /// Completions that a thread with all its slots taken waits for (fio `iodepth_batch_complete_min`).
    pub complete_min: u32,
    /// Completions that it collects together at most (fio `iodepth_batch_complete_max`).
    pub complete_max: Option<u32>,
    /// A thread whose slots have all been taken collects until so many are (fio `iodepth_low`).
    pub low: u32,
}

impl Default for Batch {
    /// One by one, unless the engine has its own way.
    fn default() -> Batch {
        Batch { submit: None, complete_min: 1, complete_max: None, low: 0 }
    }
}

/// The same for a thread with its slots and its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Together {
    pub submit: u32,
    pub complete_min: u32,
    pub complete_max: u32,
    pub low: u32,
}

impl Batch {
    /// What holds with so many slots. fio submits and collects one by one unless it is told otherwise; a driver in user
    /// space that looks for completions takes all that it finds, and tells the device of all that has come since.
    pub fn with_slots(&self, iodepth: u32, takes_all: bool) -> Together {
        let slots = |count: u32| if count == 0 { iodepth } else { count.min(iodepth) };
        let one = if takes_all { 0 } else { 1 };
        let complete_min = self.complete_min.clamp(1, iodepth.max(1));
        Together {
            submit: slots(self.submit.unwrap_or(one)),
            complete_min,
            complete_max: slots(self.complete_max.unwrap_or(if takes_all { 0 } else { complete_min }))
                .max(complete_min),
            low: slots(self.low),
        }
    }
}
