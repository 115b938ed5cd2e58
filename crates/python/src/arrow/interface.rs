//! Arrow's C stream interface (<https://arrow.apache.org/docs/format/CStreamInterface.html>): structures of addresses that
//! a producer fills, a consumer copies and releases by the function in them. A structure without that function is released.
//!
//! Each structure owns what its addresses point to by a box in `private_data`. These three structures are all that is
//! needed of Arrow, whose crates take longer to compile than the core.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use phaselink_core::number::narrow;
use pyo3::PyResult;

use super::columns::{Batch, Column};

/// Flag of a column whose rows may be without a value.
const NULLABLE: i64 = 2;

/// Status of a batch that cannot be made: `EINVAL` of C.
const INVALID: c_int = 22;

/// `ArrowSchema`: name and type of a column, or of a table with its columns as children.
#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private_data: *mut c_void,
}

/// `ArrowArray`: buffers of a column, or a batch with its columns as children.
#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private_data: *mut c_void,
}

/// `ArrowArrayStream`: batches that are made on demand.
#[repr(C)]
pub(super) struct Stream {
    get_schema: unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int,
    get_next: unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int,
    get_last_error: unsafe extern "C" fn(*mut Stream) -> *const c_char,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private_data: *mut c_void,
}

/// Memory behind a schema.
struct SchemaMemory {
    name: CString,
    children: Children<Schema>,
}

/// Memory behind an array. The columns stay as long as any array has addresses of theirs.
struct ArrayMemory {
    _columns: Batch,
    buffers: Vec<*const c_void>,
    children: Children<Array>,
}

/// Source of a stream.
struct Batches {
    first: Batch,
    batches: Box<dyn Iterator<Item = PyResult<Batch>> + Send>,
}

/// Structures on the heap, by address as the interface wants them. Each belongs to its parent.
struct Children<T>(Vec<*mut T>);

impl<T> Children<T> {
    fn new(children: impl Iterator<Item = T>) -> Children<T> {
        Children(children.map(|child| Box::into_raw(Box::new(child))).collect())
    }
}

impl<T> Drop for Children<T> {
    fn drop(&mut self) {
        for child in self.0.drain(..) {
            // SAFETY: the address is that of a box, which nobody else frees: who takes a child copies it.
            drop(unsafe { Box::from_raw(child) });
        }
    }
}

/// Defines for a structure the function that releases it and the drop of one that nobody has released or taken.
macro_rules! released_by {
    ($structure:ident, $release:ident, $memory:ty) => {
        /// Frees the memory behind a structure and marks it as released.
        unsafe extern "C" fn $release(structure: *mut $structure) {
            // SAFETY: the interface demands a valid structure that has not been released, so that its private data is
            // the box that was made with it.
            unsafe {
                (*structure).release = None;
                drop(Box::from_raw((*structure).private_data.cast::<$memory>()));
            }
        }

        impl Drop for $structure {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: it has not been released, or it would be without this function.
                    unsafe { release(self) };
                }
            }
        }
    };
}

released_by!(Schema, release_schema, SchemaMemory);
released_by!(Array, release_array, ArrayMemory);
released_by!(Stream, release_stream, Batches);

// SAFETY: what a stream owns is boxed and may go to another thread; a stream is used by one thread at a time.
unsafe impl Send for Stream {}

impl Schema {
    fn new(format: &'static CStr, name: CString, flags: i64, children: Children<Schema>) -> Schema {
        let mut memory = Box::new(SchemaMemory { name, children });
        Schema {
            format: format.as_ptr(),
            name: memory.name.as_ptr(),
            metadata: null(),
            flags,
            n_children: count(&memory.children.0),
            children: memory.children.0.as_mut_ptr(),
            dictionary: null_mut(),
            release: Some(release_schema),
            private_data: Box::into_raw(memory).cast(),
        }
    }

    fn of_column(column: &Column) -> Schema {
        let flags = if column.is_nullable { NULLABLE } else { 0 };
        Schema::new(column.format(), column.name.clone(), flags, Children::new(std::iter::empty()))
    }

    fn of_batch(batch: &Batch) -> Schema {
        Schema::new(c"+s", CString::default(), 0, Children::new(batch.iter().map(Schema::of_column)))
    }
}

impl Array {
    fn new(
        columns: Batch,
        (length, null_count): (i64, i64),
        buffers: Vec<*const c_void>,
        children: Children<Array>,
    ) -> Array {
        let mut memory = Box::new(ArrayMemory { _columns: columns, buffers, children });
        Array {
            length,
            null_count,
            offset: 0,
            n_buffers: count(&memory.buffers),
            n_children: count(&memory.children.0),
            buffers: memory.buffers.as_mut_ptr(),
            children: memory.children.0.as_mut_ptr(),
            dictionary: null_mut(),
            release: Some(release_array),
            private_data: Box::into_raw(memory).cast(),
        }
    }

    fn of_batch(batch: &Batch) -> Array {
        let of_column = |column: &Column| {
            let none = Children::new(std::iter::empty());
            Array::new(batch.clone(), (column.rows, column.nulls), column.buffers(), none)
        };
        let children = Children::new(batch.iter().map(of_column));
        let rows = batch.first().map_or(0, |column| column.rows);
        Array::new(batch.clone(), (rows, 0), vec![null()], children)
    }

    /// Returns the array that ends a stream: one without memory, already released.
    fn end() -> Array {
        Array {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: null_mut(),
            children: null_mut(),
            dictionary: null_mut(),
            release: None,
            private_data: null_mut(),
        }
    }
}

impl Stream {
    /// Makes a stream of batches whose columns have the names and types of `first`.
    pub(super) fn new(first: Batch, batches: impl Iterator<Item = PyResult<Batch>> + Send + 'static) -> Stream {
        let batches = Batches { first, batches: Box::new(batches) };
        Stream {
            get_schema,
            get_next,
            get_last_error,
            release: Some(release_stream),
            private_data: Box::into_raw(Box::new(batches)).cast(),
        }
    }
}

/// Returns a length as the interface has it.
fn count<T>(items: &[T]) -> i64 {
    narrow(items.len())
}

/// Returns what a stream makes batches of.
///
/// # Safety
/// The stream must be valid, not released, and used by nobody else meanwhile.
unsafe fn batches_of<'a>(stream: *mut Stream) -> &'a mut Batches {
    // SAFETY: the private data of a stream that is not released is its box.
    unsafe { &mut *(*stream).private_data.cast() }
}

/// Writes the schema of all batches to `out`.
unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: the interface demands a valid stream and room for a schema.
    unsafe { out.write(Schema::of_batch(&batches_of(stream).first)) };
    0
}

/// Writes the next batch to `out`, or a released array at the end.
unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: the Arrow C stream interface obliges the caller to pass a valid stream, used by one thread at a time.
    let array = match unsafe { batches_of(stream) }.batches.next() {
        Some(Ok(batch)) => Array::of_batch(&batch),
        Some(Err(_)) => return INVALID,
        None => Array::end(),
    };
    // SAFETY: the interface demands room for an array.
    unsafe { out.write(array) };
    0
}

/// Returns no text: the interface allows errors without one.
unsafe extern "C" fn get_last_error(_: *mut Stream) -> *const c_char {
    null()
}
