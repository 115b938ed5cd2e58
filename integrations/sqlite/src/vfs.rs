//! The VFS `phaselink`: SQLite's files on the volumes of modelled drives.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::size_of;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use libsqlite3_sys as ffi;

use crate::volume::{Volume, VolumeError};
use crate::{NO_DATA, VOLUMES, locked};

/// Endings of the files that SQLite keeps beside a database.
const COMPANIONS: [&str; 2] = ["-journal", "-wal"];
const NAME_BYTES_MAX: c_int = 255;
/// File control of this VFS alone, which gives the volume of a database to an `Option<Arc<Mutex<Volume>>>`.
pub(crate) const GIVE_VOLUME: c_int = 0x7068_616c;

/// Number of the next open file.
static NEXT_OWNER: AtomicU64 = AtomicU64::new(1);

/// File as SQLite allocates it.
#[repr(C)]
struct DriveFile {
    base: ffi::sqlite3_file,
    /// Volume and number of the file, made by `open` and freed by `close`.
    place: *mut OpenFile,
}

struct OpenFile {
    volume: Arc<Mutex<Volume>>,
    number: usize,
    deletes: bool,
    /// Number of the open file, by which its locks are known.
    owner: u64,
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// Registers the VFS, unless it is there already.
///
/// # Safety
/// SQLite's functions are known.
pub(crate) unsafe fn register() -> c_int {
    let name = c"phaselink";
    // SAFETY: the default VFS exists as long as the process, and so does the new one, which is never freed.
    unsafe {
        if !ffi::sqlite3_vfs_find(name.as_ptr()).is_null() {
            return ffi::SQLITE_OK;
        }
        let default = ffi::sqlite3_vfs_find(ptr::null());
        if default.is_null() {
            return ffi::SQLITE_ERROR;
        }
        // Use the time, randomness and shared libraries of the default VFS.
        let mut vfs = *default;
        vfs.iVersion = 1;
        vfs.szOsFile = size_of::<DriveFile>() as c_int;
        vfs.mxPathname = NAME_BYTES_MAX;
        vfs.pNext = ptr::null_mut();
        vfs.zName = name.as_ptr();
        vfs.pAppData = NO_DATA;
        vfs.xOpen = Some(open);
        vfs.xDelete = Some(delete);
        vfs.xAccess = Some(access);
        vfs.xFullPathname = Some(full_pathname);
        vfs.xGetLastError = None;
        ffi::sqlite3_vfs_register(Box::into_raw(Box::new(vfs)), 0)
    }
}

/// Returns the name of the database that a file belongs to.
fn database_of(name: &str) -> &str {
    COMPANIONS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

fn volume_of(name: &str) -> Option<Arc<Mutex<Volume>>> {
    locked(&VOLUMES).get(database_of(name)).cloned()
}

/// Returns SQLite's number of an error, which it puts into words of its own; a log has ours.
fn number(error: &VolumeError, otherwise: c_int) -> c_int {
    match error {
        VolumeError::Full => ffi::SQLITE_FULL,
        VolumeError::PowerFailed => otherwise,
        VolumeError::Drive(reason) => {
            log(reason);
            otherwise
        }
    }
}

/// Tells SQLite's log a sentence.
fn log(sentence: &str) {
    eprintln!("phaselink: {sentence}");
}

/// Returns a text of SQLite.
///
/// # Safety
/// `text` is null or ends in a zero.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// Returns the volume of a database, which its first opening makes, from the parameters of its URI.
///
/// # Safety
/// `name` is a name that SQLite has passed to `open`.
unsafe fn volume_for(name: *const c_char) -> Option<Arc<Mutex<Volume>>> {
    // SAFETY: `name` is guaranteed by the caller, and the names of the parameters end in a zero.
    let (database, drive, settings) = unsafe {
        let parameter = |word: &CStr| text(ffi::sqlite3_uri_parameter(name, word.as_ptr()));
        (text(name)?, parameter(c"drive"), parameter(c"set"))
    };
    let mut volumes = locked(&VOLUMES);
    if let Some(volume) = volumes.get(database_of(database)).cloned() {
        let held = locked(&volume);
        if let Some(drive) = drive.filter(|drive| *drive != held.drive_name) {
            log(&format!("{database} is on the drive {}, not on {drive}, until the process ends", held.drive_name));
            return None;
        }
        drop(held);
        return Some(volume);
    }
    let Some(drive) = drive else {
        log(&format!("{database} needs a drive: file:{database}?vfs=phaselink&drive=tlc-gen4"));
        return None;
    };
    let settings: Vec<&str> = settings.unwrap_or_default().split(',').filter(|setting| !setting.is_empty()).collect();
    match Volume::new(drive, &settings) {
        Err(reason) => {
            log(&reason);
            None
        }
        Ok(volume) => {
            let volume = Arc::new(Mutex::new(volume));
            volumes.insert(database.into(), volume.clone());
            Some(volume)
        }
    }
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes memory for a file of this VFS, and a name that it has created or a null pointer.
    unsafe {
        (*file).pMethods = ptr::null();
        // Temporary files have no name.
        let Some(given) = text(name) else {
            log("temporary files are not on the drive: pragma temp_store = memory");
            return ffi::SQLITE_CANTOPEN;
        };
        let is_main = flags & ffi::SQLITE_OPEN_MAIN_DB != 0;
        let volume = if is_main { volume_for(name) } else { volume_of(given) };
        let Some(volume) = volume else { return ffi::SQLITE_CANTOPEN };
        let number = {
            let mut held = locked(&volume);
            if is_main {
                held.restart();
            }
            match (held.find(given), flags & ffi::SQLITE_OPEN_CREATE != 0) {
                (Some(number), _) => number,
                (None, false) => return ffi::SQLITE_CANTOPEN,
                (None, true) => match held.create(given) {
                    Ok(number) => number,
                    Err(error) => return self::number(&error, ffi::SQLITE_CANTOPEN),
                },
            }
        };
        let deletes = flags & ffi::SQLITE_OPEN_DELETEONCLOSE != 0;
        let owner = NEXT_OWNER.fetch_add(1, Ordering::Relaxed);
        let file = file.cast::<DriveFile>();
        (*file).place = Box::into_raw(Box::new(OpenFile { volume, number, deletes, owner }));
        (*file).base.pMethods = &METHODS;
        if !out_flags.is_null() {
            *out_flags = flags;
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, name: *const c_char, sync_directory: c_int) -> c_int {
    // SAFETY: SQLite passes a name.
    let Some(name) = (unsafe { text(name) }) else { return ffi::SQLITE_IOERR_DELETE };
    let Some(volume) = volume_of(name) else { return ffi::SQLITE_IOERR_DELETE_NOENT };
    let mut volume = locked(&volume);
    let Some(number) = volume.find(name) else { return ffi::SQLITE_IOERR_DELETE_NOENT };
    let deleted = volume.delete(number, sync_directory != 0);
    deleted.map_or_else(|error| self::number(&error, ffi::SQLITE_IOERR_DELETE), |()| ffi::SQLITE_OK)
}

unsafe extern "C" fn access(_: *mut ffi::sqlite3_vfs, name: *const c_char, _: c_int, result: *mut c_int) -> c_int {
    // SAFETY: SQLite passes a name and a pointer for the result.
    unsafe {
        let is_there =
            text(name).is_some_and(|name| volume_of(name).is_some_and(|it| locked(&it).find(name).is_some()));
        *result = is_there.into();
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_pathname(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    into: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes a name, and a buffer of `room` bytes.
    unsafe {
        let bytes = CStr::from_ptr(name).to_bytes_with_nul();
        if bytes.len() > room as usize {
            return ffi::SQLITE_CANTOPEN;
        }
        ptr::copy_nonoverlapping(bytes.as_ptr().cast(), into, bytes.len());
    }
    ffi::SQLITE_OK
}

/// Runs `act` with the volume and the number of a file.
///
/// # Safety
/// `file` is an open file of this VFS.
unsafe fn with<R>(file: *mut ffi::sqlite3_file, act: impl FnOnce(&mut Volume, usize) -> R) -> R {
    // SAFETY: the caller's promise.
    let open = unsafe { &*(*file.cast::<DriveFile>()).place };
    act(&mut locked(&open.volume), open.number)
}

/// Runs `act` with the volume, the number of a file, and that of the open file.
///
/// # Safety
/// `file` is an open file of this VFS.
unsafe fn with_owner<R>(file: *mut ffi::sqlite3_file, act: impl FnOnce(&mut Volume, usize, u64) -> R) -> R {
    // SAFETY: the caller's promise.
    let open = unsafe { &*(*file.cast::<DriveFile>()).place };
    act(&mut locked(&open.volume), open.number, open.owner)
}

fn result(done: Result<(), VolumeError>, otherwise: c_int) -> c_int {
    done.map_or_else(|error| number(&error, otherwise), |()| ffi::SQLITE_OK)
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes an open file once.
    let open = unsafe { Box::from_raw((*file.cast::<DriveFile>()).place) };
    let mut volume = locked(&open.volume);
    volume.unlock(open.number, open.owner);
    if open.deletes {
        let _ = volume.delete(open.number, false);
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, into: *mut c_void, bytes: c_int, offset: i64) -> c_int {
    // SAFETY: SQLite passes an open file, and a buffer of `bytes` bytes.
    let read = unsafe {
        let into = slice::from_raw_parts_mut(into.cast(), bytes as usize);
        with(file, |volume, number| volume.read(number, offset as u64, into))
    };
    match read {
        Ok(read) if read == bytes as usize => ffi::SQLITE_OK,
        Ok(_) => ffi::SQLITE_IOERR_SHORT_READ,
        Err(error) => number(&error, ffi::SQLITE_IOERR_READ),
    }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, from: *const c_void, bytes: c_int, offset: i64) -> c_int {
    // SAFETY: SQLite passes an open file, and `bytes` bytes of data.
    let written = unsafe {
        let from = slice::from_raw_parts(from.cast(), bytes as usize);
        with(file, |volume, number| volume.write(number, offset as u64, from))
    };
    result(written, ffi::SQLITE_IOERR_WRITE)
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, length: i64) -> c_int {
    // SAFETY: SQLite passes an open file.
    let truncated = unsafe { with(file, |volume, number| volume.truncate(number, length as u64)) };
    result(truncated, ffi::SQLITE_IOERR_TRUNCATE)
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    result(unsafe { with(file, Volume::sync) }, ffi::SQLITE_IOERR_FSYNC)
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    // SAFETY: SQLite passes an open file and a pointer for the size.
    unsafe { *size = with(file, |volume, number| volume.length(number)) as i64 };
    ffi::SQLITE_OK
}

/// Locks a file for one connection, whatever the kind of lock: transactions of several connections come one after the other.
unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    let is_locked = unsafe { with_owner(file, Volume::lock) };
    if is_locked { ffi::SQLITE_OK } else { ffi::SQLITE_BUSY }
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, kind: c_int) -> c_int {
    if kind == ffi::SQLITE_LOCK_NONE {
        // SAFETY: SQLite passes an open file.
        unsafe { with_owner(file, Volume::unlock) };
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, result: *mut c_int) -> c_int {
    // SAFETY: SQLite passes an open file and a pointer for the result.
    unsafe { *result = with_owner(file, |volume, number, owner| volume.is_locked_by_another(number, owner)).into() };
    ffi::SQLITE_OK
}

/// Answers `pragma phaselink` and [`GIVE_VOLUME`], and nothing else.
unsafe extern "C" fn file_control(file: *mut ffi::sqlite3_file, operation: c_int, argument: *mut c_void) -> c_int {
    if operation == GIVE_VOLUME {
        // SAFETY: SQLite passes an open file, and the argument comes from `with_volume`.
        unsafe { *argument.cast() = Some((*(*file.cast::<DriveFile>()).place).volume.clone()) };
        return ffi::SQLITE_OK;
    }
    if operation != ffi::SQLITE_FCNTL_PRAGMA {
        return ffi::SQLITE_NOTFOUND;
    }
    // SAFETY: the argument of a pragma is an array of texts. The second is its name, and the first takes the result.
    unsafe {
        let words = argument.cast::<*mut c_char>();
        if text(*words.add(1)) != Some("phaselink") {
            return ffi::SQLITE_NOTFOUND;
        }
        let report = CString::new(with(file, |volume, _| volume.report())).unwrap_or_default();
        let bytes = report.as_bytes_with_nul();
        let room = ffi::sqlite3_malloc(bytes.len() as c_int).cast::<c_char>();
        if room.is_null() {
            return ffi::SQLITE_NOMEM;
        }
        ptr::copy_nonoverlapping(bytes.as_ptr().cast(), room, bytes.len());
        *words = room;
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite passes an open file.
    unsafe { with(file, |volume, _| volume.drive().block_bytes()) }.clamp(512, 65_536) as c_int
}

unsafe extern "C" fn device_characteristics(_: *mut ffi::sqlite3_file) -> c_int {
    0
}
