//! Embedded drive for Python: a modelled drive in virtual time.

use std::sync::Mutex;

use phaselink_embed::{
    Completion, Description, Drive, LegalImage, Misuse, Operation, Problems, Snapshot, Survival, Ticket, Time,
};
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::input;

create_exception!(
    phaselink,
    MisuseError,
    PyValueError,
    "A call that an embedded drive cannot carry out. The drive stays as it was.\n\n\
     The text says the reason; `code` is its number, as in the C interface."
);

/// Modelled drive in the caller's time, for one thread at a time.
#[pyclass(frozen, module = "phaselink._native")]
#[derive(Debug)]
pub struct EmbeddedDrive(Mutex<Drive>);

/// State of an embedded drive.
#[pyclass(frozen, module = "phaselink._native")]
#[derive(Debug)]
pub(crate) struct DriveSnapshot(Snapshot);

/// State that a power cut may leave an embedded drive in.
#[pyclass(frozen, module = "phaselink._native")]
#[derive(Debug)]
pub(crate) struct DriveImage(LegalImage);

#[pymethods]
impl DriveImage {
    #[getter]
    fn name(&self) -> String {
        self.0.name()
    }

    #[getter]
    fn explanation(&self) -> Vec<String> {
        self.0.explanation()
    }

    fn read(&self, py: Python<'_>, offset: u64, bytes: usize) -> PyResult<Py<PyBytes>> {
        let mut found = room(bytes)?;
        self.0.read(offset, &mut found).map_err(|error| misuse(py, &error))?;
        Ok(PyBytes::new(py, &found).unbind())
    }
}

/// Returns images of a recording: the one of a name, or up to `wanted` of all.
#[pyfunction]
pub(crate) fn recording_images(
    py: Python<'_>,
    file: &str,
    bytes: &[u8],
    name: Option<&str>,
    wanted: usize,
    seed: u64,
) -> PyResult<Vec<DriveImage>> {
    let found = match name {
        None => LegalImage::of_recording(file, bytes, wanted, seed),
        Some(name) => LegalImage::named_of_recording(file, bytes, name).map(|image| vec![image]),
    };
    let found = found.map_err(|problems| input::error(py, &problems))?;
    Ok(found.into_iter().map(DriveImage).collect())
}

/// Returns a buffer of `bytes` zeros into which data is read. MemoryError if there is no memory for it.
fn room(bytes: usize) -> PyResult<Vec<u8>> {
    let mut found = Vec::new();
    let beyond = |_| pyo3::exceptions::PyMemoryError::new_err("there is no memory for so many bytes");
    found.try_reserve_exact(bytes).map_err(beyond)?;
    found.resize(bytes, 0);
    Ok(found)
}

/// Completion as a Python tuple: ticket, times of submission and completion in picoseconds, status, data, stages.
type CompletionTuple = (u64, u64, u64, String, Py<PyBytes>, Vec<(String, u64)>);

/// Results of a batch of operations in three columns: submission times and completion times in picoseconds, as 64-bit
/// numbers, and statuses, a byte each.
type BatchResult = (Py<PyBytes>, Py<PyBytes>, Py<PyBytes>);

/// Names of the statuses in a batch's results, by number. The first five are those of the C interface.
const BATCH_STATUSES: [&str; 7] =
    ["success", "media error", "timed out", "drive removed", "power lost", "never completes", "not submitted"];
const NEVER_COMPLETES: u8 = 5;
const NOT_SUBMITTED: u8 = 6;

fn misuse(py: Python<'_>, misuse: &Misuse) -> PyErr {
    let error = MisuseError::new_err(misuse.to_string());
    match error.value(py).setattr("code", misuse.code()) {
        Ok(()) => error,
        Err(other) => other,
    }
}

fn tuple(py: Python<'_>, done: &Completion<'_>) -> CompletionTuple {
    let stages = done.stages().map(|(name, span)| (String::from(name), span.as_ps())).collect();
    let data = PyBytes::new(py, done.data()).unbind();
    let (ticket, submitted, at) = (done.ticket().number(), done.submitted().as_ps(), done.at().as_ps());
    (ticket, submitted, at, done.status().to_string(), data, stages)
}

/// Returns the operation of a kind, given as a Python word, with its range, data and durability.
fn operation<'a>(
    kind: &str,
    offset: u64,
    bytes: u32,
    data: Option<&'a [u8]>,
    is_durable: bool,
) -> PyResult<Operation<'a>> {
    let operation = match (kind, data) {
        ("read", _) => Operation::read(offset, bytes),
        ("write", Some(data)) => Operation::write(offset, data),
        ("write", None) => Operation::write_without_data(offset, bytes),
        ("flush", _) => Operation::flush(),
        ("discard", _) => Operation::discard(offset, bytes),
        ("write zeroes", _) => Operation::write_zeroes(offset, bytes),
        _ => {
            let kinds = "read, write, flush, discard, write zeroes";
            return Err(PyValueError::new_err(format!("there is no operation {kind:?}; there are {kinds}")));
        }
    };
    Ok(if is_durable { operation.durable() } else { operation })
}

/// Splits bytes into 64-bit numbers in the machine's byte order.
fn numbers(bytes: &[u8]) -> impl ExactSizeIterator<Item = u64> + '_ {
    bytes.as_chunks::<8>().0.iter().map(|number| u64::from_ne_bytes(*number))
}

impl EmbeddedDrive {
    fn with<R>(&self, use_it: impl FnOnce(&mut Drive) -> R) -> PyResult<R> {
        let mut held = self.0.try_lock().map_err(|_| PyRuntimeError::new_err("another thread uses this drive"))?;
        Ok(use_it(&mut held))
    }

    fn try_with<R>(&self, py: Python<'_>, use_it: impl FnOnce(&mut Drive) -> Result<R, Misuse>) -> PyResult<R> {
        self.with(use_it)?.map_err(|error| misuse(py, &error))
    }
}

/// Option that is applied to a description before the drive is opened.
type Step = fn(Description) -> Description;

fn open(drive: (&str, &str), settings: &[String], seed: u64, wants: [bool; 4]) -> Result<Drive, Problems> {
    let (file, text) = drive;
    let mut description = Description::from_toml(file, text)?;
    for setting in settings {
        description = description.with(setting)?;
    }
    let [has_no_data, has_stages, has_power_cuts, has_host_software] = wants;
    let steps: [(bool, Step); 4] = [
        (has_no_data, Description::without_data),
        (has_stages, Description::with_stages),
        (has_power_cuts, Description::with_power_cuts),
        (has_host_software, Description::with_host_software),
    ];
    for (is_wanted, step) in steps {
        description = if is_wanted { step(description) } else { description };
    }
    description.seed(seed).open()
}

#[pymethods]
impl EmbeddedDrive {
    #[new]
    fn new(
        py: Python<'_>,
        drive: (String, String),
        settings: Vec<String>,
        seed: u64,
        wants: [bool; 4],
    ) -> PyResult<EmbeddedDrive> {
        let opened = py.detach(|| open((&drive.0, &drive.1), &settings, seed, wants));
        opened.map(|drive| EmbeddedDrive(Mutex::new(drive))).map_err(|problems| input::error(py, &problems))
    }

    #[getter]
    fn name(&self) -> PyResult<String> {
        self.with(|drive| drive.name().into())
    }

    #[getter]
    fn capacity_bytes(&self) -> PyResult<u64> {
        self.with(|drive| drive.capacity_bytes())
    }

    #[getter]
    fn block_bytes(&self) -> PyResult<u32> {
        self.with(|drive| drive.block_bytes())
    }

    #[getter]
    fn queues(&self) -> PyResult<u16> {
        self.with(|drive| drive.queues())
    }

    #[getter]
    fn is_volatile(&self) -> PyResult<bool> {
        self.with(|drive| drive.is_volatile())
    }

    #[getter]
    fn now_ps(&self) -> PyResult<u64> {
        self.with(|drive| drive.now().as_ps())
    }

    #[getter]
    fn in_flight(&self) -> PyResult<usize> {
        self.with(|drive| drive.in_flight())
    }

    #[getter]
    fn next_at_ps(&self) -> PyResult<Option<u64>> {
        self.with(|drive| drive.next_at().map(Time::as_ps))
    }

    #[allow(clippy::too_many_arguments, reason = "each is a word of one operation")]
    fn submit(
        &self,
        py: Python<'_>,
        now_ps: u64,
        queue: u16,
        kind: &str,
        offset: u64,
        bytes: u32,
        data: Option<&[u8]>,
        durable: bool,
    ) -> PyResult<u64> {
        let operation = operation(kind, offset, bytes, data, durable)?;
        self.try_with(py, |drive| drive.submit(Time::from_ps(now_ps), queue, operation)).map(Ticket::number)
    }

    fn advance(&self, py: Python<'_>, to_ps: u64) -> PyResult<()> {
        self.try_with(py, |drive| drive.advance(Time::from_ps(to_ps)))
    }

    fn advance_to_completion(&self, py: Python<'_>, to_ps: u64) -> PyResult<bool> {
        self.try_with(py, |drive| drive.advance_to_completion(Time::from_ps(to_ps)))
    }

    fn next_completion(&self, py: Python<'_>) -> PyResult<Option<CompletionTuple>> {
        self.with(|drive| drive.next_completion().map(|done| tuple(py, &done)))
    }

    fn take(&self, py: Python<'_>, ticket: u64) -> PyResult<CompletionTuple> {
        self.try_with(py, |drive| drive.take(Ticket::from_number(ticket)).map(|done| tuple(py, &done)))
    }

    fn wait(&self, py: Python<'_>, ticket: u64) -> PyResult<CompletionTuple> {
        self.try_with(py, |drive| drive.wait(Ticket::from_number(ticket)).map(|done| tuple(py, &done)))
    }

    /// Carries out many operations without data in one call. Each of `offsets` is a number of 64 bits; `at_ps`, if given, holds
    /// the instants of submission, and otherwise up to `depth` operations are kept in flight.
    #[allow(clippy::too_many_arguments, reason = "each is a word of one batch")]
    fn batch(
        &self,
        py: Python<'_>,
        queue: u16,
        kinds: Vec<String>,
        offsets: &[u8],
        bytes: u32,
        at_ps: Option<&[u8]>,
        depth: usize,
    ) -> PyResult<BatchResult> {
        let count = offsets.len() / 8;
        let operations = numbers(offsets).enumerate().map(|(place, offset)| {
            let kind = &kinds[place % kinds.len()];
            operation(kind, offset, bytes, None, false)
        });
        let operations: Vec<Operation> = operations.collect::<PyResult<_>>()?;
        let instants: Option<Vec<u64>> = at_ps.map(|at_ps| numbers(at_ps).collect());
        let done = py.detach(|| self.with(|drive| carry_out(drive, queue, &operations, instants.as_deref(), depth)))?;
        let done = done.map_err(|error| misuse(py, &error))?;
        let column = |of: fn(&BatchRow) -> u64| {
            let mut bytes = Vec::with_capacity(8 * count);
            done.iter().for_each(|row| bytes.extend(of(row).to_ne_bytes()));
            PyBytes::new(py, &bytes).unbind()
        };
        let statuses: Vec<u8> = done.iter().map(|row| row.status).collect();
        Ok((column(|row| row.submitted), column(|row| row.at), PyBytes::new(py, &statuses).unbind()))
    }

    /// Names of the statuses of a batch, by number.
    #[classattr]
    fn batch_statuses() -> Vec<&'static str> {
        BATCH_STATUSES.into()
    }

    fn peek(&self, py: Python<'_>, offset: u64, bytes: usize) -> PyResult<Py<PyBytes>> {
        let mut found = room(bytes)?;
        self.try_with(py, |drive| drive.peek(0, offset, &mut found))?;
        Ok(PyBytes::new(py, &found).unbind())
    }

    fn inject_fault(&self, py: Python<'_>, rule: &str) -> PyResult<()> {
        self.try_with(py, |drive| drive.inject_fault(rule))
    }

    fn cut_power(&self, py: Python<'_>, now_ps: u64, survives: &str, seed: u64) -> PyResult<()> {
        let survival = match survives {
            "everything" => Survival::Everything,
            "durable" => Survival::DurableOnly,
            "drawn" => Survival::Drawn { seed },
            _ => {
                let found = format!("survives={survives:?}; there are \"everything\", \"durable\" and \"drawn\"");
                return Err(PyValueError::new_err(found));
            }
        };
        self.try_with(py, |drive| drive.cut_power(Time::from_ps(now_ps), survival))
    }

    fn cut_power_to(&self, py: Python<'_>, now_ps: u64, image: &DriveImage) -> PyResult<()> {
        self.try_with(py, |drive| drive.cut_power(Time::from_ps(now_ps), Survival::Image(&image.0)))
    }

    fn images(&self, py: Python<'_>, wanted: usize, seed: u64) -> PyResult<Vec<DriveImage>> {
        Ok(self.try_with(py, |drive| drive.images(wanted, seed))?.into_iter().map(DriveImage).collect())
    }

    fn image(&self, py: Python<'_>, name: &str) -> PyResult<DriveImage> {
        self.try_with(py, |drive| drive.image(name)).map(DriveImage)
    }

    fn drawn_image(&self, py: Python<'_>, seed: u64) -> PyResult<DriveImage> {
        self.try_with(py, |drive| drive.drawn_image(seed)).map(DriveImage)
    }

    fn load_image(&self, py: Python<'_>, image: &DriveImage) -> PyResult<()> {
        self.try_with(py, |drive| drive.load_image(&image.0))
    }

    fn snapshot(&self) -> PyResult<DriveSnapshot> {
        self.with(|drive| DriveSnapshot(drive.snapshot()))
    }

    fn restore(&self, py: Python<'_>, snapshot: &DriveSnapshot) -> PyResult<()> {
        self.try_with(py, |drive| drive.restore(&snapshot.0))
    }

    /// Returns for each kind of operation: name, number, bytes, mean, p99 and maximum in picoseconds, and the stages.
    #[allow(clippy::type_complexity, reason = "a row of a table")]
    fn summary(&self) -> PyResult<Vec<(String, u64, u64, u64, u64, u64, Vec<(String, u64)>)>> {
        self.with(|drive| {
            let rows = drive.summary().into_iter().map(|row| {
                let stages = row.stages.into_iter().map(|(name, span)| (name, span.as_ps())).collect();
                let [mean, p99, max] = [row.mean, row.p99, row.max].map(|span| span.as_ps());
                (row.kind.name().into(), row.operations, row.bytes, mean, p99, max, stages)
            });
            rows.collect()
        })
    }
}

/// Result of one operation of a batch: times in picoseconds, and a status number. A time that never comes is the
/// largest number.
#[derive(Clone, Copy)]
struct BatchRow {
    submitted: u64,
    at: u64,
    status: u8,
}

/// Checks that the drive accepts all operations of a batch, before any of them is submitted.
fn check_all(drive: &Drive, queue: u16, operations: &[Operation], instants: Option<&[u64]>) -> Result<(), Misuse> {
    let mut now = drive.now();
    for (place, operation) in operations.iter().enumerate() {
        let at = instants.map_or(now, |instants| Time::from_ps(instants[place]));
        if at < now {
            return Err(Misuse::TimeBackwards { at, now });
        }
        drive.check(at, queue, operation)?;
        now = at;
    }
    Ok(())
}

/// Executes the operations of a batch: all of them, or none if the drive refuses one. Without submission times in
/// `instants`, keeps up to `depth` operations in flight.
fn carry_out(
    drive: &mut Drive,
    queue: u16,
    operations: &[Operation],
    instants: Option<&[u64]>,
    depth: usize,
) -> Result<Vec<BatchRow>, Misuse> {
    check_all(drive, queue, operations, instants)?;
    let mut tickets = Vec::with_capacity(operations.len());
    for (place, operation) in operations.iter().enumerate() {
        let at = match instants {
            Some(instants) => Time::from_ps(instants[place]),
            None => {
                while drive.in_flight() >= depth && drive.advance_to_completion(Time::NEVER)? {}
                if drive.in_flight() >= depth {
                    break;
                }
                drive.now()
            }
        };
        tickets.push((at, drive.submit(at, queue, *operation)?));
    }
    let mut rows = vec![BatchRow { submitted: u64::MAX, at: u64::MAX, status: NOT_SUBMITTED }; operations.len()];
    for (row, (submitted, ticket)) in rows.iter_mut().zip(tickets) {
        let done = drive.wait(ticket);
        let (at, status) = done.map_or((u64::MAX, NEVER_COMPLETES), |done| (done.at().as_ps(), done.status().code()));
        *row = BatchRow { submitted: submitted.as_ps(), at, status };
    }
    Ok(rows)
}
