//! Places of figures: the tables, objects and rules that show or use a figure because its row names them.

/// Group of keys in the JSON document of a run and of rows in its table of the host. It lists figures of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunFigureGroup {
    /// Busy cores, before the times for which cores worked, spun and switched.
    Cores,
    /// Costs of the host that follow from its busy cores.
    Processor,
    /// Power of the server.
    Power,
    /// Energy for each request.
    Energy,
}

/// Table of a comparison, which has a column for each figure whose row names the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareTable {
    /// Table of jobs whose requests are all reads, or all writes.
    Alike,
    /// Table of jobs that mix reads and writes.
    Mixes,
    /// Table of jobs with flushes.
    Commits,
    /// Table of jobs whose reads belong to queries (`query_rounds`).
    Queries,
    /// Additional columns with `--energy`: energy of the whole server for each request, in total and above idle.
    Energy,
    /// Table of prediction intervals (`--intervals`).
    Intervals,
}

/// Bound on a figure by closed forms, which rules out points of a search without a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosedBound {
    /// The figure is at most the largest throughput in requests a second.
    Throughput,
    /// The figure is at most the largest throughput in bytes a second.
    Bandwidth,
    /// The figure is at least the smallest mean latency.
    MeanLatency,
}
