//! C interface of an embedded drive; `include/phaselink_drive.h` has its declarations and documentation.
//!
//! Errors are negative numbers: the negated values of [`Misuse::code`], and two of this interface. The message of the
//! last error is kept for each thread.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod images;

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::slice;

use phaselink_embed::{
    Completion, Description, Drive, Misuse, Operation, OperationKind, Problems, Snapshot, Survival, Ticket, Time,
};

/// Error number of an invalid description or recording.
const DESCRIPTION: c_int = -100;
/// Error number of a null pointer, a text that is no UTF-8, or a number without a meaning.
const ARGUMENT: c_int = -101;

const WITHOUT_DATA: u32 = 1;
const STAGES: u32 = 2;
const POWER_CUTS: u32 = 4;
const HOST_SOFTWARE: u32 = 8;
const FLAGS: u32 = WITHOUT_DATA | STAGES | POWER_CUTS | HOST_SOFTWARE;

const DURABLE: u32 = 1;

/// Version of the library as a C string.
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version has no zero"),
};

thread_local! {
    static ERROR: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Open drive, with the stages of the completion that was taken last.
#[derive(Debug)]
pub struct OpenDrive {
    drive: Drive,
    /// Names of all stages that have occurred, as C strings that completions share.
    names: Vec<CString>,
    /// Stages of the last completion: index of the stage's name, and time in picoseconds.
    stages: Vec<(usize, u64)>,
}

impl OpenDrive {
    /// Returns an open drive for C, from which no completion has been taken.
    fn new(drive: Drive) -> OpenDrive {
        OpenDrive { drive, names: Vec::new(), stages: Vec::new() }
    }
}

/// Operation in the layout of the C interface.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OperationRecord {
    kind: u32,
    flags: u32,
    offset: u64,
    bytes: u64,
    data: *const c_void,
}

impl OperationRecord {
    /// Returns a read of `bytes` bytes from `offset` on, in the layout of the C interface.
    pub fn read(offset: u64, bytes: u64) -> OperationRecord {
        OperationRecord { kind: 0, flags: 0, offset, bytes, data: ptr::null() }
    }
}

/// Completion in the layout of the C interface.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CompletionRecord {
    ticket: u64,
    submitted_ps: u64,
    at_ps: u64,
    status: u32,
    reserved: u32,
    data: *const c_void,
    bytes: u64,
}

impl Default for CompletionRecord {
    /// Returns an empty record, for a call to fill.
    fn default() -> CompletionRecord {
        CompletionRecord { ticket: 0, submitted_ps: 0, at_ps: 0, status: 0, reserved: 0, data: ptr::null(), bytes: 0 }
    }
}

/// Records the message of an error for this thread, and returns the error's number.
#[cold]
fn fail(number: c_int, sentence: &str) -> c_int {
    let text = CString::new(sentence.replace('\0', " ")).unwrap_or_default();
    ERROR.with(|error| *error.borrow_mut() = Some(text));
    number
}

#[cold]
fn misuse(misuse: &Misuse) -> c_int {
    fail(-misuse.code(), &misuse.to_string())
}

#[cold]
fn null() -> c_int {
    fail(ARGUMENT, "a pointer is null")
}

fn result(done: Result<(), Misuse>) -> c_int {
    done.map_or_else(|error| misuse(&error), |()| 0)
}

/// Returns a C string as text, or the number of the error if it is null or no UTF-8.
///
/// # Safety
/// `text` is null or ends in a zero.
unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, c_int> {
    if text.is_null() {
        return Err(null());
    }
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| fail(ARGUMENT, "a text is no UTF-8"))
}

fn describe(drive: &str, settings: &str, seed: u64, flags: u32) -> Result<Description, Problems> {
    let mut description = match drive.contains('\n') {
        true => Description::from_toml("drive", drive)?,
        false => Description::named(drive)?,
    };
    for setting in settings.lines().map(str::trim).filter(|line| !line.is_empty()) {
        description = description.with(setting)?;
    }
    description = description.seed(seed);
    for (flag, apply) in [
        (WITHOUT_DATA, Description::without_data as fn(Description) -> Description),
        (STAGES, Description::with_stages),
        (POWER_CUTS, Description::with_power_cuts),
        (HOST_SOFTWARE, Description::with_host_software),
    ] {
        description = if flags & flag != 0 { apply(description) } else { description };
    }
    Ok(description)
}

/// Returns the version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn phaselink_drive_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Returns the sentence on the last error of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn phaselink_drive_error() -> *const c_char {
    ERROR.with(|error| error.borrow().as_deref().unwrap_or(c"").as_ptr())
}

/// Opens a drive; see the header.
///
/// # Safety
/// `drive` and `settings` are null or end in a zero, and `opened` is null or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_open(
    drive: *const c_char,
    settings: *const c_char,
    seed: u64,
    flags: u32,
    opened: *mut *mut OpenDrive,
) -> c_int {
    if opened.is_null() {
        return null();
    }
    if flags & !FLAGS != 0 {
        return fail(ARGUMENT, "the flags have a bit without a meaning");
    }
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let texts = unsafe { (text(drive), if settings.is_null() { Ok("") } else { text(settings) }) };
    let (drive, settings) = match texts {
        (Ok(drive), Ok(settings)) => (drive, settings),
        (Err(error), _) | (_, Err(error)) => return error,
    };
    match describe(drive, settings, seed, flags).and_then(|description| description.open()) {
        Err(problems) => fail(DESCRIPTION, &problems.to_string()),
        Ok(drive) => {
            let open = Box::new(OpenDrive::new(drive));
            // SAFETY: guaranteed by the caller, see `# Safety` above.
            unsafe { *opened = Box::into_raw(open) };
            0
        }
    }
}

/// Closes a drive; see the header.
///
/// # Safety
/// `drive` is null, or one that [`phaselink_drive_open`] made and that was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_close(drive: *mut OpenDrive) {
    if !drive.is_null() {
        // SAFETY: guaranteed by the caller, see `# Safety` above.
        drop(unsafe { Box::from_raw(drive) });
    }
}

/// Defines `extern "C"` functions that return a property of an open drive, or a default value for a null pointer.
macro_rules! properties {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $value:expr, or $other:expr;)+) => {$(
        $(#[doc = $doc])+
        ///
        /// # Safety
        /// `drive` is null or an open drive.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(drive: *const OpenDrive) -> $type {
            // SAFETY: guaranteed by the caller, see `# Safety` above.
            unsafe { drive.as_ref() }.map_or($other, |open| {
                let value: fn(&Drive) -> $type = $value;
                value(&open.drive)
            })
        }
    )+};
}

properties! {
    /// Returns the capacity in bytes.
    phaselink_drive_capacity: u64 = Drive::capacity_bytes, or 0;
    /// Returns the bytes of a block.
    phaselink_drive_block: u32 = Drive::block_bytes, or 0;
    /// Returns the number of queues.
    phaselink_drive_queues: u16 = Drive::queues, or 0;
    /// Returns the instant that the drive has reached.
    phaselink_drive_now: u64 = |drive| drive.now().as_ps(), or 0;
    /// Returns the number of operations in flight.
    phaselink_drive_in_flight: usize = Drive::in_flight, or 0;
    /// Returns 1 if completed writes may be lost with power unless a flush follows.
    phaselink_drive_is_volatile: c_int = |drive| drive.is_volatile().into(), or 0;
    /// Returns the earliest instant at which an operation may complete.
    phaselink_drive_next_at: u64 = |drive| drive.next_at().map_or(u64::MAX, Time::as_ps), or u64::MAX;
}

/// Returns 1 if the drive has a command for operations of this kind.
///
/// # Safety
/// `drive` is null or an open drive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_supports(drive: *const OpenDrive, kind: u32) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let open = unsafe { drive.as_ref() };
    open.zip(kind_of(kind)).is_some_and(|(open, kind)| open.drive.supports(kind)).into()
}

fn kind_of(kind: u32) -> Option<OperationKind> {
    OperationKind::ALL.get(kind as usize).copied()
}

/// Submits an operation; see the header.
///
/// # Safety
/// Each pointer is null or valid; the data of a write has as many bytes as the operation says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_submit(
    drive: *mut OpenDrive,
    now_ps: u64,
    queue: u16,
    operation: *const OperationRecord,
    ticket: *mut u64,
) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some((open, record)) = (unsafe { drive.as_mut().zip(operation.as_ref()) }) else { return null() };
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let operation = match unsafe { operation_of(record) } {
        Ok(operation) => operation,
        Err(error) => return error,
    };
    match open.drive.submit(Time::from_ps(now_ps), queue, operation) {
        Err(error) => misuse(&error),
        Ok(given) => {
            if !ticket.is_null() {
                // SAFETY: guaranteed by the caller, see `# Safety` above.
                unsafe { *ticket = given.number() };
            }
            0
        }
    }
}

/// Converts an operation record of C to an operation. Returns the number of the error if the record is invalid.
///
/// # Safety
/// The data of a write is null or has as many bytes as the record says.
unsafe fn operation_of<'a>(record: &OperationRecord) -> Result<Operation<'a>, c_int> {
    let OperationRecord { flags, offset, bytes, data, .. } = *record;
    let Some(kind) = kind_of(record.kind) else { return Err(fail(ARGUMENT, "there is no such kind of operation")) };
    if flags & !DURABLE != 0 {
        return Err(fail(ARGUMENT, "the flags of the operation have a bit without a meaning"));
    }
    let Ok(length) = u32::try_from(bytes) else {
        return Err(misuse(&Misuse::TooLong { bytes, bytes_max: u32::MAX.into() }));
    };
    let operation = match kind {
        OperationKind::Read => Operation::read(offset, length),
        OperationKind::Write if data.is_null() => Operation::write_without_data(offset, length),
        OperationKind::Write => {
            // SAFETY: the caller guarantees that `length` bytes can be read and stay valid.
            let data = unsafe { slice::from_raw_parts(data.cast(), length as usize) };
            Operation::write(offset, data)
        }
        OperationKind::Discard => Operation::discard(offset, length),
        OperationKind::WriteZeroes => Operation::write_zeroes(offset, length),
        _ => Operation::flush(),
    };
    Ok(if flags & DURABLE != 0 { operation.durable() } else { operation })
}

/// Advances to an instant; see the header.
///
/// # Safety
/// `drive` is null or an open drive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_advance(drive: *mut OpenDrive, to_ps: u64) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some(open) = (unsafe { drive.as_mut() }) else { return null() };
    result(open.drive.advance(Time::from_ps(to_ps)))
}

/// Advances to the next completion; see the header.
///
/// # Safety
/// `drive` is null or an open drive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_advance_to_completion(drive: *mut OpenDrive, to_ps: u64) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some(open) = (unsafe { drive.as_mut() }) else { return null() };
    open.drive
        .advance_to_completion(Time::from_ps(to_ps).min(Time::NEVER))
        .map_or_else(|error| misuse(&error), c_int::from)
}

/// Returns the index of a stage's name in the list of names, and adds the name if it is new.
fn name_place(names: &mut Vec<CString>, name: &str) -> usize {
    let known = names.iter().position(|known| known.as_bytes() == name.as_bytes());
    known.unwrap_or_else(|| {
        names.push(CString::new(name).unwrap_or_default());
        names.len() - 1
    })
}

fn record_of(done: &Completion, names: &mut Vec<CString>, stages: &mut Vec<(usize, u64)>) -> CompletionRecord {
    stages.clear();
    stages.extend(done.stages().map(|(name, span)| (name_place(names, name), span.as_ps())));
    let data = done.data();
    CompletionRecord {
        ticket: done.ticket().number(),
        submitted_ps: done.submitted().as_ps(),
        at_ps: done.at().as_ps(),
        status: done.status().code().into(),
        reserved: 0,
        data: if data.is_empty() { ptr::null() } else { data.as_ptr().cast() },
        bytes: data.len() as u64,
    }
}

/// Takes the next completion; see the header.
///
/// # Safety
/// Each pointer is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_next_completion(
    drive: *mut OpenDrive,
    completion: *mut CompletionRecord,
) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some((open, into)) = (unsafe { drive.as_mut().zip(completion.as_mut()) }) else { return null() };
    let Some(done) = open.drive.next_completion() else { return 0 };
    *into = record_of(&done, &mut open.names, &mut open.stages);
    1
}

/// Takes the completion of one operation; see the header.
///
/// # Safety
/// Each pointer is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_take(
    drive: *mut OpenDrive,
    ticket: u64,
    completion: *mut CompletionRecord,
) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some((open, into)) = (unsafe { drive.as_mut().zip(completion.as_mut()) }) else { return null() };
    match open.drive.take(Ticket::from_number(ticket)) {
        Err(error) => misuse(&error),
        Ok(done) => {
            *into = record_of(&done, &mut open.names, &mut open.stages);
            0
        }
    }
}

/// Advances until one operation has completed, and takes its completion; see the header.
///
/// # Safety
/// Each pointer is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_wait(
    drive: *mut OpenDrive,
    ticket: u64,
    completion: *mut CompletionRecord,
) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some((open, into)) = (unsafe { drive.as_mut().zip(completion.as_mut()) }) else { return null() };
    match open.drive.wait(Ticket::from_number(ticket)) {
        Err(error) => misuse(&error),
        Ok(done) => {
            *into = record_of(&done, &mut open.names, &mut open.stages);
            0
        }
    }
}

/// Returns a stage of the last completion; see the header.
///
/// # Safety
/// Each pointer is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_stage(
    drive: *const OpenDrive,
    place: usize,
    name: *mut *const c_char,
    time_ps: *mut u64,
) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some(open) = (unsafe { drive.as_ref() }) else { return null() };
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some((name, time_ps)) = (unsafe { name.as_mut().zip(time_ps.as_mut()) }) else { return null() };
    let Some((stage, time)) = open.stages.get(place) else { return 0 };
    (*name, *time_ps) = (open.names[*stage].as_ptr(), *time);
    1
}

/// Reads bytes without time; see the header.
///
/// # Safety
/// `drive` is null or an open drive, and `into` is null or has room for so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_peek(
    drive: *const OpenDrive,
    offset: u64,
    into: *mut c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some(open) = (unsafe { drive.as_ref() }) else { return null() };
    if into.is_null() {
        return null();
    }
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let into = unsafe { slice::from_raw_parts_mut(into.cast(), bytes) };
    result(open.drive.peek(0, offset, into))
}

/// Injects a fault; see the header.
///
/// # Safety
/// `drive` is null or an open drive, and `rule` is null or ends in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_inject_fault(drive: *mut OpenDrive, rule: *const c_char) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some(open) = (unsafe { drive.as_mut() }) else { return null() };
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    match unsafe { text(rule) } {
        Ok(rule) => result(open.drive.inject_fault(rule)),
        Err(error) => error,
    }
}

/// Cuts the drive's power; see the header.
///
/// # Safety
/// `drive` is null or an open drive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_cut_power(
    drive: *mut OpenDrive,
    now_ps: u64,
    survival: u32,
    seed: u64,
) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some(open) = (unsafe { drive.as_mut() }) else { return null() };
    let survival = match survival {
        0 => Survival::Everything,
        1 => Survival::DurableOnly,
        2 => Survival::Drawn { seed },
        _ => return fail(ARGUMENT, "there is no such survival"),
    };
    result(open.drive.cut_power(Time::from_ps(now_ps), survival))
}

/// Returns the state of a drive; see the header.
///
/// # Safety
/// `drive` is null or an open drive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_snapshot(drive: *const OpenDrive) -> *mut Snapshot {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let open = unsafe { drive.as_ref() };
    open.map_or(ptr::null_mut(), |open| Box::into_raw(Box::new(open.drive.snapshot())))
}

/// Returns a drive to a state; see the header.
///
/// # Safety
/// Each pointer is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_restore(drive: *mut OpenDrive, snapshot: *const Snapshot) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some((open, snapshot)) = (unsafe { drive.as_mut().zip(snapshot.as_ref()) }) else { return null() };
    let restored = open.drive.restore(snapshot);
    if restored.is_ok() {
        open.stages.clear();
    }
    result(restored)
}

/// Frees a state; see the header.
///
/// # Safety
/// `snapshot` is null, or one that [`phaselink_drive_snapshot`] made and that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_snapshot_free(snapshot: *mut Snapshot) {
    if !snapshot.is_null() {
        // SAFETY: guaranteed by the caller, see `# Safety` above.
        drop(unsafe { Box::from_raw(snapshot) });
    }
}
