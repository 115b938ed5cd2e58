//! First reading of a trace: chooses the device, finds all mistakes, and sums up the requests.

use super::Trace;
use super::events::{RecordedRequestStep, RecordedTraceRequest, TraceEvent};
use super::file::File;
use super::format::Format;
use super::merged::{ArrivalDisorder, TraceEventMerger};
use super::requests::{ArrivalTimeStep, StreamedTraceFiles, TraceRequests};
use super::summary::Summary;
use super::trace_io::TimedTraceRequest;
use crate::number::index;
use crate::problem::{Problem, Problems};
use crate::request::{Io, Op};
use crate::time::Time;
use std::collections::BTreeMap;

/// Largest number of problems that are reported one by one; of the others only the number is reported.
const PROBLEMS_SHOWN: usize = 20;
/// Largest number of requests that are kept in memory, where they take 24 MiB; a longer trace is read again for each
/// replay.
pub(super) const KEPT_MAX: usize = 1 << 20;
/// Number of requests after which reading of a trace of several devices stops if none is chosen: by then the busiest
/// ones are known.
const UNCHOSEN_MAX: u64 = 1 << 22;
/// Largest number of devices that a message lists.
const DEVICES_SHOWN: usize = 5;

/// Device and format of a trace that are to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceSelection {
    /// Name of the device in the trace; `None` if no device is chosen. A replay then needs a trace of one device;
    /// statistics cover all of them.
    pub device: Option<String>,
    /// Format of the trace; `None` if it is to be detected by the content.
    pub format: Option<Format>,
}

/// Trace as a job names it: path, device and format.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedJobTrace {
    /// Path of the trace as the job gives it.
    pub path: String,
    /// Device and format that are to be read from the trace.
    pub selection: TraceSelection,
}

impl NamedJobTrace {
    /// Makes a trace at `path` that holds one device, in the format that is detected by its content.
    pub fn whole(path: impl Into<String>) -> NamedJobTrace {
        NamedJobTrace { path: path.into(), selection: TraceSelection::default() }
    }
}

/// Reads a trace, which has several files if there is one for each processor. Up to `kept_max` requests are kept in
/// memory, or all of them if a file can be read only once.
pub(super) fn scan(files: &[File], selection: &TraceSelection, kept_max: usize) -> Result<Trace, Problems> {
    let mut merged = TraceEventMerger::open(files, selection.format)?;
    let name = files.first().map_or("trace", |file| file.name.as_str());
    let can_be_read_again = files.iter().all(|file| file.is_lasting);
    let mut scan = TraceScan {
        name,
        wanted: selection.device.as_deref(),
        kept_max: if can_be_read_again { kept_max } else { usize::MAX },
        chosen: None,
        part: TraceScanSums::default(),
        problems: Vec::new(),
        problems_more: 0,
    };
    while let Some(event) = merged.next() {
        match event {
            Ok(event) => scan.event(event, merged.seen_device_names()),
            Err(problem) => scan.problem(problem),
        }
        if scan.is_device_undecided() {
            break;
        }
    }
    scan.finish(files, &merged)
}

/// First pass over a trace, which finds its summary and problems.
struct TraceScan<'a> {
    name: &'a str,
    wanted: Option<&'a str>,
    kept_max: usize,
    /// Step whose time counts as arrival: the driver's receipt of a request, until a queueing step occurs.
    chosen: Option<ArrivalTimeStep>,
    part: TraceScanSums,
    problems: Vec<Problem>,
    problems_more: usize,
}

/// Sums over the requests of the trace so far.
struct TraceScanSums {
    /// Number of reads and writes of each device. `device` is the index of the chosen device, or of the first one with
    /// a read or write if none is chosen.
    counts: Vec<u64>,
    device: Option<usize>,
    summary: Summary,
    /// Arrival, in units of the format, and content of each request; none if there are too many to keep in memory.
    kept: Option<Vec<(u64, Io)>>,
    first: u64,
    last: u64,
    disorder: ArrivalDisorder,
    left_out: BTreeMap<&'static str, u64>,
    /// Problems in trace records of requests that the driver received. They do not matter if a record of queueing
    /// follows.
    problems: Vec<Problem>,
}

impl Default for TraceScanSums {
    fn default() -> TraceScanSums {
        TraceScanSums {
            counts: Vec::new(),
            device: None,
            summary: Summary::default(),
            kept: Some(Vec::new()),
            first: u64::MAX,
            last: 0,
            disorder: ArrivalDisorder::new(),
            left_out: BTreeMap::new(),
            problems: Vec::new(),
        }
    }
}

impl TraceScan<'_> {
    fn event(&mut self, event: TraceEvent, names: &[String]) {
        let thing = match event.step {
            RecordedRequestStep::Completed => return,
            RecordedRequestStep::Issued(_) if self.chosen == Some(ArrivalTimeStep::Asked) => return,
            RecordedRequestStep::Issued(Err(problem)) => {
                self.chosen = Some(ArrivalTimeStep::Issued);
                return self.part.problems.push(*problem);
            }
            RecordedRequestStep::Issued(Ok(thing)) => {
                self.chosen = Some(ArrivalTimeStep::Issued);
                thing
            }
            RecordedRequestStep::Queued(thing) => {
                if self.chosen.replace(ArrivalTimeStep::Asked) == Some(ArrivalTimeStep::Issued) {
                    self.part = TraceScanSums::default();
                }
                thing
            }
        };
        self.thing(event.at, index(event.device), thing, names);
    }

    fn thing(&mut self, at: u64, place: usize, thing: RecordedTraceRequest, names: &[String]) {
        let part = &mut self.part;
        if part.counts.len() <= place {
            part.counts.resize(place + 1, 0);
        }
        if part.device.is_none() {
            let is_wanted = self.wanted.is_none_or(|wanted| names.get(place).is_some_and(|name| name == wanted));
            // A trace may name a device for which it has only flushes, so choose the first device with reads or writes.
            let is_data =
                matches!(thing, RecordedTraceRequest::Data { io, .. } if io.op != Op::Flush) || self.wanted.is_some();
            part.device = (is_wanted && is_data).then_some(place);
        }
        match thing {
            RecordedTraceRequest::LeftOut(kind) => {
                if part.device.is_none_or(|device| device == place) {
                    *part.left_out.entry(kind).or_default() += 1;
                }
            }
            RecordedTraceRequest::Data { io, .. } if io.op == Op::Flush => {
                if part.device == Some(place) && part.summary.count > 0 {
                    part.request(at, io, self.kept_max);
                }
            }
            RecordedTraceRequest::Data { io, .. } => {
                part.counts[place] += 1;
                if part.device == Some(place) {
                    part.request(at, io, self.kept_max);
                }
            }
        }
    }

    fn problem(&mut self, problem: Problem) {
        match self.problems.len() < PROBLEMS_SHOWN {
            true => self.problems.push(problem),
            false => self.problems_more += 1,
        }
    }

    /// True if the trace has requests of several devices, none is chosen, and enough were read to know the busiest
    /// ones.
    fn is_device_undecided(&self) -> bool {
        self.wanted.is_none() && self.part.is_of_several() && self.part.counts.iter().sum::<u64>() >= UNCHOSEN_MAX
    }

    fn finish(mut self, files: &[File], merged: &TraceEventMerger) -> Result<Trace, Problems> {
        for problem in std::mem::take(&mut self.part.problems) {
            self.problem(problem);
        }
        let (format, names) = (merged.format, merged.seen_device_names());
        if self.problems_more > 0 {
            let found = format!("and {} more problems", self.problems_more);
            self.problems.push(Problem::new(self.name, None, found, ""));
        } else if self.problems.is_empty() {
            self.problems.extend(self.replay_obstacle_problem(format, names));
        }
        let TraceScan { part, chosen, problems, .. } = self;
        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        let device = part.device.and_then(|place| names.get(place)).cloned().unwrap_or_default();
        let left_out = part.left_out.clone().into_iter().collect();
        let chosen = chosen.unwrap_or(ArrivalTimeStep::Asked);
        let requests = part.requests(files, format, &device, chosen);
        Ok(Trace { format, device, requests, left_out })
    }

    /// Returns the problem that keeps a trace without mistakes from being replayed: no requests, several devices, too
    /// long a time, or too much disorder.
    fn replay_obstacle_problem(&self, format: Format, names: &[String]) -> Option<Problem> {
        let part = &self.part;
        let problem = |found: String, allowed: &str| Some(Problem::new(self.name, None, found, allowed));
        if let (Some(wanted), 0) = (self.wanted, part.summary.count) {
            let allowed = format!("one of {}", part.busiest_device_text(names));
            return problem(format!("no read or write of device `{wanted}`"), &allowed);
        }
        if self.wanted.is_none() && part.is_of_several() {
            let found = format!("requests to several devices: {}", part.busiest_device_text(names));
            return problem(found, "one of them, chosen with trace_device (--trace-device)");
        }
        if part.summary.count == 0 {
            return problem(format!("{format} without any read or write"), "at least one");
        }
        let span_ps = (part.last - part.first).checked_mul(format.unit().as_ps());
        if span_ps.is_none_or(|ps| ps >= Time::NEVER.as_ps()) {
            let found = "the first and the last request are too far apart";
            return problem(found.into(), "less than 106 days");
        }
        let is_too_long = part.kept.is_none() && part.disorder.held_back().is_none();
        let found = format!("a request comes more than {} requests too late in the file", ArrivalDisorder::MAX);
        is_too_long.then(|| problem(found, "traces in order of time, or nearly"))?
    }
}

impl TraceScanSums {
    fn request(&mut self, at: u64, io: Io, kept_max: usize) {
        self.summary.add(io);
        self.disorder.add(at);
        self.first = self.first.min(at);
        self.last = self.last.max(at);
        match &mut self.kept {
            Some(kept) if kept.len() < kept_max => kept.push((at, io)),
            _ => self.kept = None,
        }
    }

    fn is_of_several(&self) -> bool {
        self.counts.iter().filter(|count| **count > 0).count() > 1
    }

    /// Returns the devices with the most requests and the number of the other devices, as text for a message.
    fn busiest_device_text(&self, names: &[String]) -> String {
        let mut devices: Vec<(&u64, &String)> =
            self.counts.iter().zip(names).filter(|(count, _)| **count > 0).collect();
        devices.sort_by_key(|(count, _)| std::cmp::Reverse(**count));
        let shown: Vec<String> =
            devices.iter().take(DEVICES_SHOWN).map(|(count, name)| format!("`{name}` ({count} requests)")).collect();
        let more = devices.len().saturating_sub(DEVICES_SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        if shown.is_empty() { String::from("none: it has no reads or writes") } else { shown.join(", ") + &more }
    }

    fn requests(mut self, files: &[File], format: Format, device: &str, chosen: ArrivalTimeStep) -> TraceRequests {
        let (first, unit_ps) = (self.first, format.unit().as_ps());
        let arrival = |at: u64| Time::from_ps((at - first) * unit_ps);
        if let Some(mut kept) = self.kept {
            kept.sort_by_key(|entry| entry.0);
            return kept.into_iter().map(|(at, io)| TimedTraceRequest { at: arrival(at), io }).collect();
        }
        self.summary.settle();
        self.summary.ends_at = arrival(self.last);
        let held_back = self.disorder.held_back().unwrap_or(0);
        let (files, device) = (files.to_vec(), device.into());
        TraceRequests::of_files(
            self.summary,
            StreamedTraceFiles { files, format, device, chosen, first, unit_ps, held_back },
        )
    }
}
