//! Recording of hosts' requests as a trace that `phaselink run --trace` and fio can replay.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Mutex;
use std::time::Instant;

use phaselink_core::request::{Io, Op};
use phaselink_core::workload::trace::iolog;

use crate::device::tally::locked;

/// Trace of hosts' requests that is being written to a file.
#[derive(Debug)]
pub struct Record {
    log: Mutex<BlockTraceLog>,
}

/// File of a recorded block trace, with the time of its last request.
#[derive(Debug)]
struct BlockTraceLog {
    /// Instant from which the times in the recorded block trace count; none before recording begins.
    start: Option<Instant>,
    file: BufWriter<File>,
    end_us: u64,
    /// First error of a write to the file, after which nothing more is written.
    error: Option<io::Error>,
}

impl Record {
    /// Begins a trace in `file`, whose times count from now.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn new(file: File) -> io::Result<Record> {
        let record = Record::create_paused_trace(file)?;
        record.begin();
        Ok(record)
    }

    /// Makes a trace in `file` that leaves requests out until [`Record::begin`] is called.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn create_paused_trace(file: File) -> io::Result<Record> {
        let mut file = BufWriter::new(file);
        file.write_all(iolog::begin().as_bytes())?;
        Ok(Record { log: Mutex::new(BlockTraceLog { start: None, file, end_us: 0, error: None }) })
    }

    /// Begins to record the hosts' requests in the block trace. Times in the trace count from now.
    pub fn begin(&self) {
        locked(&self.log).start = Some(Instant::now());
    }

    /// Adds a request to the trace, with the present time. A caller adds a flush after a request that must be durable,
    /// as Linux does for a drive without force unit access.
    pub fn note(&self, Io { op, offset, bytes }: Io) {
        self.record_long_request(op, offset, bytes.into());
    }

    /// Adds a request to the trace, with the present time. Its length may exceed that of an [`Io`].
    pub fn record_long_request(&self, op: Op, offset: u64, bytes: u64) {
        let mut log = locked(&self.log);
        let Some(start) = log.start else { return };
        let at_us = start.elapsed().as_micros() as u64;
        let line = iolog::line(at_us, iolog::action(op), offset, bytes);
        log.end_us = at_us;
        log.write(&line);
    }

    /// Ends the trace, and returns its file with all of it written to the operating system.
    ///
    /// # Errors
    ///
    /// The first error since the trace was begun.
    pub fn finish(&self) -> io::Result<File> {
        let mut log = locked(&self.log);
        let end = iolog::end(log.end_us);
        log.write(&end);
        match log.error.take() {
            Some(error) => Err(error),
            None => log.file.flush().and_then(|()| log.file.get_ref().try_clone()),
        }
    }
}

impl BlockTraceLog {
    fn write(&mut self, text: &str) {
        if self.error.is_none() {
            self.error = self.file.write_all(text.as_bytes()).err();
        }
    }
}
