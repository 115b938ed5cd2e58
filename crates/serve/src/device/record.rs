//! Recording of the requests of hosts, as a trace that `phaselink run --trace` and fio replay.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Mutex;
use std::time::Instant;

use phaselink_core::request::{Io, Op};
use phaselink_core::workload::trace::iolog;

use crate::device::tally::locked;

/// Trace of requests that is being written.
#[derive(Debug)]
pub struct Record {
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Log {
    /// Instant from which times count; none before the recording begins.
    start: Option<Instant>,
    file: BufWriter<File>,
    end_us: u64,
    /// First error; nothing is written after it.
    error: Option<io::Error>,
}

impl Record {
    /// Begins a trace in `file`, whose times count from now.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(file: File) -> io::Result<Record> {
        let record = Record::waiting(file)?;
        record.begin();
        Ok(record)
    }

    /// Makes a trace in `file` that leaves requests out until it [begins](Record::begin).
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn waiting(file: File) -> io::Result<Record> {
        let mut file = BufWriter::new(file);
        file.write_all(iolog::begin().as_bytes())?;
        Ok(Record { log: Mutex::new(Log { start: None, file, end_us: 0, error: None }) })
    }

    /// Begins a trace that waits. Times count from now.
    pub fn begin(&self) {
        locked(&self.log).start = Some(Instant::now());
    }

    /// Adds a request. One that is to be durable is followed by a flush, as Linux does it for a drive without force unit access.
    pub fn note(&self, Io { op, offset, bytes }: Io) {
        self.note_long(op, offset, bytes.into());
    }

    /// Adds a request, which may be longer than an [`Io`].
    pub fn note_long(&self, op: Op, offset: u64, bytes: u64) {
        let mut log = locked(&self.log);
        let Some(start) = log.start else { return };
        let at_us = start.elapsed().as_micros() as u64;
        let line = iolog::line(at_us, iolog::action(op), offset, bytes);
        log.end_us = at_us;
        log.write(&line);
    }

    /// Ends the trace. All of it is in the file that is returned, as far as the system is concerned.
    ///
    /// # Errors
    /// The first that has come up since it was begun.
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

impl Log {
    fn write(&mut self, text: &str) {
        if self.error.is_none() {
            self.error = self.file.write_all(text.as_bytes()).err();
        }
    }
}
