//! Statistics of a trace, from one reading in bounded memory.

mod flow;
mod footprint;

pub use flow::RecordedQueueDepth;
pub use footprint::{BLOCK_BYTES, BlockFootprint};

use super::events::{RecordedRequestStep, RecordedTraceRequest, TraceEvent};
use super::file::File;
use super::format::Format;
use super::merged::TraceEventMerger;
use super::requests::ArrivalTimeStep;
use super::scan::TraceSelection;
use super::summary::Summary;
use crate::number::index;
use crate::problem::{Problem, Problems};
use crate::request::{Io, Op};
use crate::time::{Span, Time};
use flow::{QueueDepthIntegral, RequestsPerSecond, Streams};
use footprint::Counter;
use std::collections::BTreeMap;

/// Largest number of problems that are reported one by one.
const PROBLEMS_SHOWN: usize = 20;

/// Statistics of the requests of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceStatistics {
    /// Format of the trace's files.
    pub format: Format,
    /// Name and number of reads and writes of each device, by descending number of requests.
    pub devices: Vec<(String, u64)>,
    /// Device whose requests the statistics cover; `None` for all devices.
    pub device: Option<String>,
    /// Time from the first arrival to the last.
    pub span: Span,
    /// Unit of recorded times, of which all times are multiples.
    pub unit: Span,
    /// Counts and sizes of the requests.
    pub summary: Summary,
    /// Number of bytes that the requests read.
    pub read_bytes: u64,
    /// Number of bytes that the requests write, those of zeros included.
    pub written_bytes: u64,
    /// Number of reads and writes in the busiest second.
    pub busiest_second: u64,
    /// Number of reads and writes whose offset and size are multiples of 4 KiB.
    pub aligned: u64,
    /// Number of reads and writes that start where one of the last sixteen requests to their device ended.
    pub sequential: u64,
    /// Footprint: number of blocks that the requests access, and accesses to each.
    pub footprint: BlockFootprint,
    /// Queue depth of the recorded device, if the trace shows when requests completed or how long they took.
    pub depth: Option<RecordedQueueDepth>,
    /// Number of trace records of each kind that are no reads, writes or flushes.
    pub left_out: Vec<(&'static str, u64)>,
}

impl TraceStatistics {
    /// Returns the number of reads.
    pub fn reads(&self) -> u64 {
        self.summary.sizes.iter().filter(|((writes, _), _)| !writes).map(|(_, count)| count).sum()
    }

    /// Returns a percentile of the request size in bytes: the smallest size that at least `percent` per cent of the
    /// requests do not exceed.
    pub fn size_percentile(&self, percent: u64) -> u32 {
        let mut sizes = BTreeMap::new();
        self.summary.sizes.iter().for_each(|((_, bytes), count)| *sizes.entry(*bytes).or_insert(0u64) += count);
        let wanted = (u128::from(self.summary.count) * u128::from(percent)).div_ceil(100) as u64;
        let mut sum = 0;
        let found = sizes.into_iter().find(|(_, count)| {
            sum += count;
            sum >= wanted
        });
        found.map_or(0, |(bytes, _)| bytes)
    }
}

/// Reads a trace for its statistics, of all devices unless `selection` names one.
///
/// # Errors
/// All problems of the files at once; if they are many, the first ones and a note that there may be more.
pub fn info(files: &[File], selection: &TraceSelection) -> Result<TraceStatistics, Problems> {
    let mut merged = TraceEventMerger::open(files, selection.format)?;
    let name = files.first().map_or("trace", |file| file.name.as_str());
    let mut gathered =
        TraceRecordSums { wanted: selection.device.clone(), unit: merged.format.unit(), ..TraceRecordSums::default() };
    let mut problems = Vec::new();
    while let Some(event) = merged.next() {
        match event {
            Ok(event) => gathered.event(event, merged.seen_device_names()),
            Err(problem) => problems.push(problem),
        }
        if problems.len() > PROBLEMS_SHOWN {
            problems[PROBLEMS_SHOWN] = Problem::new(name, None, "and perhaps more problems", "");
            return Err(Problems(problems));
        }
    }
    problems.append(&mut gathered.sums.problems);
    if problems.is_empty() && gathered.sums.summary.count == 0 {
        let of_device = selection.device.as_ref().map_or(String::new(), |device| format!(" of device `{device}`"));
        let found = format!("{} without any read or write{of_device}", merged.format);
        problems.push(Problem::new(name, None, found, "at least one"));
    }
    let device = selection.device.clone();
    Problems(problems).or(())?;
    Ok(gathered.info(merged.format, device, merged.seen_device_names()))
}

/// Sums over the records of a trace that is being read, from which its statistics follow.
#[derive(Default)]
struct TraceRecordSums {
    wanted: Option<String>,
    unit: Span,
    chosen: Option<ArrivalTimeStep>,
    /// For each device, true if its requests count in the statistics.
    counts: Vec<bool>,
    sums: RequestSums,
    depth: QueueDepthIntegral,
}

/// Sums over the requests of a trace. They start anew at the first record of queueing after records of the driver
/// alone, because only queueing counts then.
struct RequestSums {
    devices: Vec<u64>,
    summary: Summary,
    first: u64,
    last: u64,
    read_bytes: u64,
    written_bytes: u64,
    aligned: u64,
    sequential: u64,
    rate: RequestsPerSecond,
    streams: Streams,
    blocks: Counter,
    left_out: BTreeMap<&'static str, u64>,
    problems: Vec<Problem>,
}

impl Default for RequestSums {
    fn default() -> RequestSums {
        RequestSums {
            devices: Vec::new(),
            summary: Summary::default(),
            first: u64::MAX,
            last: 0,
            read_bytes: 0,
            written_bytes: 0,
            aligned: 0,
            sequential: 0,
            rate: RequestsPerSecond::default(),
            streams: Streams::default(),
            blocks: Counter::new(),
            left_out: BTreeMap::new(),
            problems: Vec::new(),
        }
    }
}

impl TraceRecordSums {
    fn event(&mut self, event: TraceEvent, names: &[String]) {
        let TraceEvent { at, device, step } = event;
        let place = index(device);
        while self.counts.len() <= place {
            let name = names.get(self.counts.len());
            self.counts.push(self.wanted.is_none() || name == self.wanted.as_ref());
        }
        let is_counted = self.counts[place];
        let thing = match step {
            RecordedRequestStep::Completed => {
                if is_counted {
                    self.depth.completed(at);
                }
                return;
            }
            RecordedRequestStep::Issued(Err(problem)) => {
                if self.chosen != Some(ArrivalTimeStep::Asked) {
                    self.chosen = Some(ArrivalTimeStep::Issued);
                    self.sums.problems.push(*problem);
                    self.sums.problems.truncate(PROBLEMS_SHOWN);
                }
                return;
            }
            RecordedRequestStep::Issued(Ok(thing)) => {
                if is_counted {
                    self.depth.issued(at);
                }
                if self.chosen == Some(ArrivalTimeStep::Asked) {
                    return;
                }
                self.chosen = Some(ArrivalTimeStep::Issued);
                thing
            }
            RecordedRequestStep::Queued(thing) => {
                if self.chosen.replace(ArrivalTimeStep::Asked) == Some(ArrivalTimeStep::Issued) {
                    self.sums = RequestSums::default();
                }
                thing
            }
        };
        self.thing(at, device, thing, is_counted);
    }

    fn thing(&mut self, at: u64, device: u32, thing: RecordedTraceRequest, is_counted: bool) {
        let sums = &mut self.sums;
        if sums.devices.len() <= index(device) {
            sums.devices.resize(index(device) + 1, 0);
        }
        match thing {
            RecordedTraceRequest::LeftOut(kind) if is_counted => *sums.left_out.entry(kind).or_default() += 1,
            RecordedTraceRequest::LeftOut(_) => {}
            RecordedTraceRequest::Data { io, response } => {
                sums.devices[index(device)] += u64::from(io.op != Op::Flush);
                if is_counted && io.op == Op::Flush {
                    sums.flush(at, io);
                } else if is_counted {
                    response.into_iter().for_each(|response| self.depth.response(response));
                    sums.request(at, device, io, self.unit);
                }
            }
        }
    }

    fn info(mut self, format: Format, device: Option<String>, names: &[String]) -> TraceStatistics {
        let sums = &mut self.sums;
        sums.summary.settle();
        let units = sums.last - sums.first;
        let span = Span::from_ps(units.saturating_mul(self.unit.as_ps()));
        sums.summary.ends_at = Time::ZERO + span;
        let counted = names.iter().zip(&sums.devices).filter(|(_, count)| **count > 0);
        let mut devices: Vec<(String, u64)> = counted.map(|(name, count)| (name.clone(), *count)).collect();
        devices.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let sums = self.sums;
        TraceStatistics {
            format,
            devices,
            device,
            span,
            unit: self.unit,
            read_bytes: sums.read_bytes,
            written_bytes: sums.written_bytes,
            busiest_second: sums.rate.busiest(),
            aligned: sums.aligned,
            sequential: sums.sequential,
            footprint: sums.blocks.footprint(),
            depth: self.depth.over(units, self.unit),
            left_out: sums.left_out.into_iter().collect(),
            summary: sums.summary,
        }
    }
}

impl RequestSums {
    /// Counts a flush. Flushes before the first read or write are left out, as there is nothing to flush.
    fn flush(&mut self, at: u64, io: Io) {
        if self.summary.count > 0 {
            self.summary.add(io);
            self.last = self.last.max(at);
        }
    }

    fn request(&mut self, at: u64, device: u32, io: Io, unit: Span) {
        self.summary.add(io);
        self.first = self.first.min(at);
        self.last = self.last.max(at);
        let bytes = u64::from(io.bytes);
        match io.op {
            Op::Read => self.read_bytes += bytes,
            Op::Write | Op::WriteZeroes => self.written_bytes += bytes,
            Op::Flush | Op::Discard => {}
        }
        self.aligned += u64::from((io.offset | bytes).is_multiple_of(BLOCK_BYTES));
        self.sequential += u64::from(self.streams.follows(device, io));
        self.rate.add(at, unit);
        self.blocks.add(device, io);
    }
}

#[cfg(test)]
mod tests;
