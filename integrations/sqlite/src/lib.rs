//! SQLite on a modelled drive, in virtual time: a loadable extension with the VFS `phaselink`.
//!
//! ```text
//! sqlite> .load ./libphaselink_sqlite
//! sqlite> .open 'file:x.db?vfs=phaselink&drive=tlc-gen4'
//! sqlite> select phaselink_report();
//! ```
//!
//! Files live on modelled drives as long as the process does. A database has the drive that its first opening names, and its
//! journal is on the same drive. One connection uses a database at a time.

mod vfs;
mod volume;

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libsqlite3_sys as ffi;
use volume::Volume;

/// Volumes by the names of their databases.
static VOLUMES: Mutex<BTreeMap<String, Arc<Mutex<Volume>>>> = Mutex::new(BTreeMap::new());

fn locked<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Entry of the extension, as SQLite finds it by the name of the file.
///
/// # Safety
/// SQLite calls it with a connection and its table of functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_phaselinksqlite_init(
    connection: *mut ffi::sqlite3,
    message: *mut *mut c_char,
    api: *mut ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: SQLite passes its table of functions.
    unsafe {
        if ffi::rusqlite_extension_init2(api).is_err() {
            return ffi::SQLITE_ERROR;
        }
        if vfs::register() != ffi::SQLITE_OK {
            return ffi::SQLITE_ERROR;
        }
        add_functions(connection, message, api);
        // Register the functions for later connections of the process, too.
        let entry: unsafe extern "C" fn(*mut ffi::sqlite3, *mut *mut c_char, *mut ffi::sqlite3_api_routines) -> c_int =
            add_functions;
        ffi::sqlite3_auto_extension(Some(std::mem::transmute::<_, unsafe extern "C" fn()>(entry as *const ())));
        ffi::SQLITE_OK_LOAD_PERMANENTLY
    }
}

/// Name of SQLite's entry for a file of any other name.
///
/// # Safety
/// As [`sqlite3_phaselinksqlite_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    connection: *mut ffi::sqlite3,
    message: *mut *mut c_char,
    api: *mut ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { sqlite3_phaselinksqlite_init(connection, message, api) }
}

type Function = unsafe extern "C" fn(*mut ffi::sqlite3_context, c_int, *mut *mut ffi::sqlite3_value);

/// Adds the functions of the extension to a connection.
unsafe extern "C" fn add_functions(
    connection: *mut ffi::sqlite3,
    _message: *mut *mut c_char,
    _api: *mut ffi::sqlite3_api_routines,
) -> c_int {
    let functions: [(&[u8], c_int, Function); 5] = [
        (b"phaselink_report\0", 0, report),
        (b"phaselink_time_us\0", 0, time_us),
        (b"phaselink_explain\0", 0, explain),
        (b"phaselink_flushes\0", 0, flushes),
        (b"phaselink_fail_power_after\0", 2, fail_power_after),
    ];
    for (name, arguments, function) in functions {
        // SAFETY: the connection is open, and the name ends in a zero.
        let result = unsafe {
            ffi::sqlite3_create_function_v2(
                connection,
                name.as_ptr().cast(),
                arguments,
                ffi::SQLITE_UTF8,
                ptr::null_mut(),
                Some(function),
                None,
                None,
                None,
            )
        };
        if result != ffi::SQLITE_OK {
            return result;
        }
    }
    ffi::SQLITE_OK
}

/// Gives SQLite a text as the result of a function.
///
/// # Safety
/// `context` is that of a function call.
unsafe fn give_text(context: *mut ffi::sqlite3_context, text: &str) {
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: `context` is valid, and SQLite copies the text (SQLITE_TRANSIENT).
    unsafe { ffi::sqlite3_result_text(context, text.as_ptr(), -1, ffi::SQLITE_TRANSIENT()) };
}

/// Runs `give` with the volume of the connection's database, or gives an error.
///
/// # Safety
/// `context` is that of a function call.
unsafe fn with_volume(context: *mut ffi::sqlite3_context, give: impl FnOnce(&mut Volume)) {
    // SAFETY: `context` is guaranteed by the caller. Only this VFS knows the operation, and stores a volume through the
    // argument.
    unsafe {
        let mut volume: Option<Arc<Mutex<Volume>>> = None;
        let connection = ffi::sqlite3_context_db_handle(context);
        let argument = (&raw mut volume).cast();
        ffi::sqlite3_file_control(connection, c"main".as_ptr(), vfs::GIVE_VOLUME, argument);
        match volume {
            Some(volume) => give(&mut locked(&volume)),
            None => {
                let text = c"this database is not on a modelled drive: .open 'file:x.db?vfs=phaselink&drive=tlc-gen4'";
                ffi::sqlite3_result_error(context, text.as_ptr(), -1);
            }
        }
    }
}

unsafe extern "C" fn report(context: *mut ffi::sqlite3_context, _: c_int, _: *mut *mut ffi::sqlite3_value) {
    // SAFETY: SQLite calls the function with its context.
    unsafe { with_volume(context, |volume| give_text(context, &volume.report())) };
}

unsafe extern "C" fn explain(context: *mut ffi::sqlite3_context, _: c_int, _: *mut *mut ffi::sqlite3_value) {
    // SAFETY: SQLite calls the function with its context.
    unsafe { with_volume(context, |volume| give_text(context, &volume.explanation())) };
}

unsafe extern "C" fn time_us(context: *mut ffi::sqlite3_context, _: c_int, _: *mut *mut ffi::sqlite3_value) {
    // SAFETY: SQLite calls the function with its context.
    unsafe {
        with_volume(context, |volume| {
            ffi::sqlite3_result_double(context, volume.drive().now().as_ns() / 1000.0);
        });
    }
}

unsafe extern "C" fn flushes(context: *mut ffi::sqlite3_context, _: c_int, _: *mut *mut ffi::sqlite3_value) {
    // SAFETY: SQLite calls the function with its context.
    unsafe {
        with_volume(context, |volume| {
            let summary = volume.drive().summary();
            let count = summary.iter().find(|row| row.kind.name() == "flush").map_or(0, |row| row.operations);
            ffi::sqlite3_result_int64(context, count as i64);
        });
    }
}

unsafe extern "C" fn fail_power_after(
    context: *mut ffi::sqlite3_context,
    _: c_int,
    arguments: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: SQLite calls the function with its context and two arguments.
    unsafe {
        let [requests, seed] = [0, 1].map(|place| ffi::sqlite3_value_int64(*arguments.add(place)).max(0) as u64);
        with_volume(context, |volume| volume.fail_power_after(requests, seed));
    }
}

/// Data of the VFS that SQLite keeps for it, which this one does not need.
const NO_DATA: *mut c_void = ptr::null_mut();
