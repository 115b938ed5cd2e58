//! Requests of a trace: in memory if they are few, otherwise read again from the files for each replay.

use super::events::{RecordedRequestStep, RecordedTraceRequest};
use super::file::File;
use super::format::Format;
use super::merged::{ArrivalSorter, TraceEventMerger};
use super::summary::Summary;
use super::trace_io::TimedTraceRequest;
use crate::number::{index, wide_index};
use crate::problem::Problem;
use crate::request::{Io, Op};
use crate::time::Time;
use serde::Serialize;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Step of a recorded request whose time counts as the request's arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrivalTimeStep {
    /// Submission by the application (queueing).
    Asked,
    /// Receipt by the driver, which counts in traces without queueing steps.
    Issued,
}

/// Requests of a trace in order of arrival; the first arrives at time zero. Copies share the memory or the files.
#[derive(Clone)]
pub struct TraceRequests(Arc<SharedTraceRequests>);

/// Requests of a trace with their summary, shared by all copies of a [`TraceRequests`].
struct SharedTraceRequests {
    summary: Summary,
    source: TraceRequestStorage,
    /// First problem that occurred when the files were read again for a replay.
    failure: OnceLock<Problem>,
}

/// Storage of a trace's requests: in memory, or in files that are read again for each replay.
enum TraceRequestStorage {
    AtHand(Vec<TimedTraceRequest>),
    Files(StreamedTraceFiles),
}

/// Information for reading the requests of one device again from the files of a trace.
#[derive(Clone, Debug)]
pub(super) struct StreamedTraceFiles {
    pub files: Vec<File>,
    pub format: Format,
    pub device: String,
    pub chosen: ArrivalTimeStep,
    /// Arrival of the first request in units of the format; `unit_ps` is that unit in picoseconds.
    pub first: u64,
    pub unit_ps: u64,
    /// Number of requests that are held back in memory to sort them by arrival.
    pub held_back: usize,
}

impl Serialize for TraceRequests {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl TraceRequests {
    /// Makes requests that each replay reads again from the files.
    pub(super) fn of_files(summary: Summary, files: StreamedTraceFiles) -> TraceRequests {
        TraceRequests(Arc::new(SharedTraceRequests {
            summary,
            source: TraceRequestStorage::Files(files),
            failure: OnceLock::new(),
        }))
    }

    /// Returns number, sizes, end and flushes of the requests.
    pub fn summary(&self) -> &Summary {
        &self.0.summary
    }

    /// Returns the number of reads and writes, without flushes.
    pub fn count(&self) -> u64 {
        self.0.summary.count
    }

    /// True if each replay reads the requests from their files.
    pub fn are_read_from_files(&self) -> bool {
        matches!(self.0.source, TraceRequestStorage::Files(_))
    }

    /// Returns an iterator over all requests, from the first.
    pub fn iter(&self) -> TraceRequestIter {
        TraceRequestIter { requests: self.clone(), position: 0, reading: None }
    }

    /// Returns the problem that occurred when the requests were read again, such as a file that has changed. A replay
    /// with such a problem ended before the end of the trace.
    pub fn failure(&self) -> Option<&Problem> {
        self.0.failure.get()
    }
}

impl FromIterator<TimedTraceRequest> for TraceRequests {
    fn from_iter<T: IntoIterator<Item = TimedTraceRequest>>(ios: T) -> TraceRequests {
        let ios: Vec<TimedTraceRequest> = ios.into_iter().collect();
        let mut summary = Summary::default();
        ios.iter().for_each(|entry| summary.add(entry.io));
        summary.settle();
        summary.ends_at = ios.last().map_or(Time::ZERO, |last| last.at);
        TraceRequests(Arc::new(SharedTraceRequests {
            summary,
            source: TraceRequestStorage::AtHand(ios),
            failure: OnceLock::new(),
        }))
    }
}

impl PartialEq for TraceRequests {
    fn eq(&self, other: &TraceRequests) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.summary() == other.summary() && self.iter().eq(other.iter())
    }
}

impl fmt::Debug for TraceRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Requests").field(&self.0.summary).finish()
    }
}

impl IntoIterator for &TraceRequests {
    type Item = TimedTraceRequest;
    type IntoIter = TraceRequestIter;
    fn into_iter(self) -> TraceRequestIter {
        self.iter()
    }
}

/// Iterator over the requests of a trace. It ends early if a file cannot be read again; [`TraceRequests::failure`] then
/// has the problem.
pub struct TraceRequestIter {
    requests: TraceRequests,
    /// Number of requests that the iterator has returned.
    position: u64,
    reading: Option<Box<Reading>>,
}

/// State of reading a long trace again from its files: files and sorter.
struct Reading {
    sorted: ArrivalSorter,
    unsorted: UnsortedTraceReading,
}

/// Requests of a trace that is being read again, in the order of its files, before they are sorted.
struct UnsortedTraceReading {
    merged: TraceEventMerger,
    /// For each device of the trace, true if its requests are replayed.
    is_wanted: Vec<bool>,
    /// True once a read or write has been returned; flushes before it are left out.
    has_begun: bool,
}

impl Clone for TraceRequestIter {
    /// Returns a copy at the same position. If the requests come from files, the copy opens the files itself and reads
    /// up to there.
    fn clone(&self) -> TraceRequestIter {
        let mut copy = self.requests.iter();
        match &self.requests.0.source {
            TraceRequestStorage::AtHand(_) => copy.position = self.position,
            TraceRequestStorage::Files(_) => drop(copy.by_ref().take(wide_index(self.position)).last()),
        }
        copy
    }
}

impl fmt::Debug for TraceRequestIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("requests", &self.requests).field("position", &self.position).finish()
    }
}

impl Iterator for TraceRequestIter {
    type Item = TimedTraceRequest;

    #[inline]
    fn next(&mut self) -> Option<TimedTraceRequest> {
        let next = match &self.requests.0.source {
            TraceRequestStorage::AtHand(ios) => ios.get(wide_index(self.position)).copied(),
            TraceRequestStorage::Files(_) => self.read(),
        };
        self.position += u64::from(next.is_some());
        next
    }
}

impl TraceRequestIter {
    fn read(&mut self) -> Option<TimedTraceRequest> {
        let shared = self.requests.0.clone();
        let TraceRequestStorage::Files(files) = &shared.source else { return None };
        if self.position == shared.summary.request_count_with_flushes() || shared.failure.get().is_some() {
            self.reading = None;
            return None;
        }
        let next = self.read_on(files);
        match next {
            Ok(Some((at, io))) => {
                let ps = at.checked_sub(files.first).and_then(|at| at.checked_mul(files.unit_ps));
                if let Some(ps) = ps.filter(|ps| *ps <= shared.summary.ends_at.as_ps()) {
                    return Some(TimedTraceRequest { at: Time::from_ps(ps), io });
                }
                self.fail(files.changed_trace_problem())
            }
            Ok(None) => self.fail(files.changed_trace_problem()),
            Err(problem) => self.fail(problem),
        }
    }

    fn read_on(&mut self, files: &StreamedTraceFiles) -> Result<Option<(u64, Io)>, Problem> {
        if self.reading.is_none() {
            let merged = TraceEventMerger::open(&files.files, Some(files.format))
                .map_err(|problems| problems.0.into_iter().next().unwrap_or_else(|| files.changed_trace_problem()))?;
            let sorted = ArrivalSorter::new(files.held_back);
            let unsorted = UnsortedTraceReading { merged, is_wanted: Vec::new(), has_begun: false };
            self.reading = Some(Box::new(Reading { sorted, unsorted }));
        }
        let Some(reading) = &mut self.reading else { return Ok(None) };
        let Reading { sorted, unsorted } = &mut **reading;
        let mut problem = None;
        let next = sorted.next(|| {
            files.next(unsorted).unwrap_or_else(|found| {
                problem.get_or_insert(found);
                None
            })
        });
        problem.map_or(Ok(next), Err)
    }

    fn fail(&mut self, problem: Problem) -> Option<TimedTraceRequest> {
        // `set` keeps the first failure, which is the one to report.
        let _ = self.requests.0.failure.set(problem);
        self.reading = None;
        None
    }
}

impl StreamedTraceFiles {
    /// Returns time and content of the next request to the replayed device, in the order of the files; none at the end.
    fn next(&self, reading: &mut UnsortedTraceReading) -> Result<Option<(u64, Io)>, Problem> {
        let UnsortedTraceReading { merged, is_wanted, has_begun } = reading;
        while let Some(event) = merged.next() {
            let event = event?;
            let thing = match (event.step, self.chosen) {
                (RecordedRequestStep::Queued(thing), ArrivalTimeStep::Asked) => thing,
                (RecordedRequestStep::Issued(thing), ArrivalTimeStep::Issued) => thing.map_err(|problem| *problem)?,
                _ => continue,
            };
            let RecordedTraceRequest::Data { io, .. } = thing else { continue };
            let place = index(event.device);
            while is_wanted.len() <= place {
                let name = merged.seen_device_names().get(is_wanted.len());
                is_wanted.push(name.is_some_and(|name| *name == self.device));
            }
            // Skip flushes before the first read or write, as the scan of the trace does: there is nothing to flush.
            if is_wanted[place] && (*has_begun || io.op != Op::Flush) {
                *has_begun = true;
                return Ok(Some((event.at, io)));
            }
        }
        Ok(None)
    }

    /// Returns the problem that the file of a trace has changed since it was checked.
    fn changed_trace_problem(&self) -> Problem {
        let name = self.files.first().map_or("trace", |file| file.name.as_str());
        Problem::new(name, None, "the trace has changed while it was replayed", "a file that stays as it is")
    }
}
