//! Service times of a drive as tables that other simulators read: a drive reduced to quantiles of latency by mix, size and
//! requests in flight.
//!
//! There are two tables. One has a closed loop at each number of requests in flight: for readers that count them, and draw the
//! latency of each request alone. The other has requests at random times at each load: for readers that know their load,
//! and for writes, whose latency depends on how full the write buffer is rather than on the requests in flight. Both lose
//! the order of requests, the state of the memory between them, and everything between conditions. `checks` measures how
//! much, beside the simulation that the tables come from.

mod answer;
mod checks;
mod forms;
mod question;
mod replay;
mod table;
mod words;

pub use answer::{
    CheckedLatency, ExportAnswer, ExportCondition, ExportLoad, LatencyQuantiles, LeftOutCheck, LoadCheck,
};
pub use question::{ExportQuestion, ExportStudy};

#[cfg(test)]
mod tests;
