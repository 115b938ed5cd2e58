//! Requests of a trace: in memory if they are few, otherwise read again from the files for each replay.

use super::events::{TraceRequest, TraceStep};
use super::file::File;
use super::format::Format;
use super::merged::{EventMerger, Sorted};
use super::summary::Summary;
use super::trace_io::TraceIo;
use crate::number::{index, wide_index};
use crate::problem::Problem;
use crate::request::{Io, Op};
use crate::time::Time;
use serde::Serialize;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Step of a recorded request whose time counts as the request's arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrivalStep {
    /// Submission by the application (queueing).
    Asked,
    /// Receipt by the driver, which counts in traces without queueing steps.
    Issued,
}

/// Requests of a trace in order of arrival; the first arrives at time zero. Copies share the memory or the files.
#[derive(Clone)]
pub struct TraceRequests(Arc<SharedRequests>);

/// Requests of a trace with their summary, shared by all copies of a [`TraceRequests`].
struct SharedRequests {
    summary: Summary,
    source: RequestStorage,
    /// First problem that occurred when the files were read again for a replay.
    failure: OnceLock<Problem>,
}

/// Storage of a trace's requests: in memory, or in files that are read again for each replay.
enum RequestStorage {
    AtHand(Vec<TraceIo>),
    Files(TraceFiles),
}

/// Information for reading the requests of one device again from the files of a trace.
#[derive(Clone, Debug)]
pub(super) struct TraceFiles {
    pub files: Vec<File>,
    pub format: Format,
    pub device: String,
    pub chosen: ArrivalStep,
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
    pub(super) fn of_files(summary: Summary, files: TraceFiles) -> TraceRequests {
        TraceRequests(Arc::new(SharedRequests {
            summary,
            source: RequestStorage::Files(files),
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
    pub fn are_streamed(&self) -> bool {
        matches!(self.0.source, RequestStorage::Files(_))
    }

    /// Returns an iterator over all requests, from the first.
    pub fn iter(&self) -> Iter {
        Iter { requests: self.clone(), position: 0, reading: None }
    }

    /// Returns the problem that occurred when the requests were read again, such as a file that has changed. A replay
    /// with such a problem ended before the end of the trace.
    pub fn failure(&self) -> Option<&Problem> {
        self.0.failure.get()
    }
}

impl FromIterator<TraceIo> for TraceRequests {
    fn from_iter<T: IntoIterator<Item = TraceIo>>(ios: T) -> TraceRequests {
        let ios: Vec<TraceIo> = ios.into_iter().collect();
        let mut summary = Summary::default();
        ios.iter().for_each(|entry| summary.add(entry.io));
        summary.settle();
        summary.ends_at = ios.last().map_or(Time::ZERO, |last| last.at);
        TraceRequests(Arc::new(SharedRequests {
            summary,
            source: RequestStorage::AtHand(ios),
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
    type Item = TraceIo;
    type IntoIter = Iter;
    fn into_iter(self) -> Iter {
        self.iter()
    }
}

/// Iterator over the requests of a trace. It ends early if a file cannot be read again; [`TraceRequests::failure`] then
/// has the problem.
pub struct Iter {
    requests: TraceRequests,
    /// Number of requests that the iterator has returned.
    position: u64,
    reading: Option<Box<Reading>>,
}

/// State of reading a long trace again from its files: files and sorter.
struct Reading {
    sorted: Sorted,
    unsorted: UnsortedReading,
}

/// Requests of a trace that is being read again, in the order of its files, before they are sorted.
struct UnsortedReading {
    merged: EventMerger,
    /// For each device of the trace, true if its requests are replayed.
    is_wanted: Vec<bool>,
    /// True once a read or write has been returned; flushes before it are left out.
    has_begun: bool,
}

impl Clone for Iter {
    /// Returns a copy at the same position. If the requests come from files, the copy opens the files itself and reads
    /// up to there.
    fn clone(&self) -> Iter {
        let mut copy = self.requests.iter();
        match &self.requests.0.source {
            RequestStorage::AtHand(_) => copy.position = self.position,
            RequestStorage::Files(_) => drop(copy.by_ref().take(wide_index(self.position)).last()),
        }
        copy
    }
}

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("requests", &self.requests).field("position", &self.position).finish()
    }
}

impl Iterator for Iter {
    type Item = TraceIo;

    #[inline]
    fn next(&mut self) -> Option<TraceIo> {
        let next = match &self.requests.0.source {
            RequestStorage::AtHand(ios) => ios.get(wide_index(self.position)).copied(),
            RequestStorage::Files(_) => self.read(),
        };
        self.position += u64::from(next.is_some());
        next
    }
}

impl Iter {
    fn read(&mut self) -> Option<TraceIo> {
        let shared = self.requests.0.clone();
        let RequestStorage::Files(files) = &shared.source else { return None };
        if self.position == shared.summary.with_flushes() || shared.failure.get().is_some() {
            self.reading = None;
            return None;
        }
        let next = self.read_on(files);
        match next {
            Ok(Some((at, io))) => {
                let ps = at.checked_sub(files.first).and_then(|at| at.checked_mul(files.unit_ps));
                if let Some(ps) = ps.filter(|ps| *ps <= shared.summary.ends_at.as_ps()) {
                    return Some(TraceIo { at: Time::from_ps(ps), io });
                }
                self.fail(files.changed_file_problem())
            }
            Ok(None) => self.fail(files.changed_file_problem()),
            Err(problem) => self.fail(problem),
        }
    }

    fn read_on(&mut self, files: &TraceFiles) -> Result<Option<(u64, Io)>, Problem> {
        if self.reading.is_none() {
            let merged = EventMerger::open(&files.files, Some(files.format))
                .map_err(|problems| problems.0.into_iter().next().unwrap_or_else(|| files.changed_file_problem()))?;
            let sorted = Sorted::new(files.held_back);
            let unsorted = UnsortedReading { merged, is_wanted: Vec::new(), has_begun: false };
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

    fn fail(&mut self, problem: Problem) -> Option<TraceIo> {
        // `set` keeps the first failure, which is the one to report.
        let _ = self.requests.0.failure.set(problem);
        self.reading = None;
        None
    }
}

impl TraceFiles {
    /// Returns time and content of the next request to the replayed device, in the order of the files; none at the end.
    fn next(&self, reading: &mut UnsortedReading) -> Result<Option<(u64, Io)>, Problem> {
        let UnsortedReading { merged, is_wanted, has_begun } = reading;
        while let Some(event) = merged.next() {
            let event = event?;
            let thing = match (event.step, self.chosen) {
                (TraceStep::Queued(thing), ArrivalStep::Asked) => thing,
                (TraceStep::Issued(thing), ArrivalStep::Issued) => thing.map_err(|problem| *problem)?,
                _ => continue,
            };
            let TraceRequest::Data { io, .. } = thing else { continue };
            let place = index(event.device);
            while is_wanted.len() <= place {
                let name = merged.device_names().get(is_wanted.len());
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
    fn changed_file_problem(&self) -> Problem {
        let name = self.files.first().map_or("trace", |file| file.name.as_str());
        Problem::new(name, None, "the trace has changed while it was replayed", "a file that stays as it is")
    }
}
