//! Columns in the memory layout of Arrow: values side by side, bitmaps with the lowest bit first
//! (<https://arrow.apache.org/docs/format/Columnar.html>).

use std::ffi::{CStr, CString, c_void};
use std::ptr::null;
use std::sync::Arc;

use phaselink_core::number::narrow;
use pyo3::PyResult;

/// Columns of equal length, which those that read them share.
pub(crate) type Batch = Arc<Vec<Column>>;

/// A column with its name.
#[derive(Debug)]
pub(crate) struct Column {
    pub(super) name: CString,
    /// Number of rows.
    pub(super) rows: i64,
    /// Number of rows without a value.
    pub(super) nulls: i64,
    /// True if rows may be without a value.
    pub(super) is_nullable: bool,
    /// Bitmap of the rows that have a value; empty if all have one.
    known: Vec<u8>,
    values: Values,
}

/// Values of a column. Rows without a value have any.
#[derive(Debug)]
pub(crate) enum Values {
    /// Bitmap of the rows that are true, and the number of rows.
    Switches(Vec<u8>, usize),
    Whole(Vec<i64>),
    Counts(Vec<u64>),
    Numbers(Vec<f64>),
    /// Offset of each row's text in the bytes, and of the end of the last; the bytes of all texts.
    Texts(Vec<i32>, String),
}

impl Values {
    /// Returns a column of bits.
    pub(crate) fn switches(values: impl ExactSizeIterator<Item = bool>) -> Values {
        let rows = values.len();
        Values::Switches(bitmap(values), rows)
    }

    /// Returns a column of texts.
    ///
    /// # Errors
    /// If the texts have more than 2 GiB together, beyond which offsets of 32 bits do not reach.
    pub(crate) fn texts<'a>(values: impl Iterator<Item = &'a str>) -> PyResult<Values> {
        let (mut ends, mut bytes) = (vec![0], String::new());
        for text in values {
            bytes.push_str(text);
            ends.push(i32::try_from(bytes.len())?);
        }
        Ok(Values::Texts(ends, bytes))
    }

    fn rows(&self) -> usize {
        match self {
            Values::Switches(_, rows) => *rows,
            Values::Whole(values) => values.len(),
            Values::Counts(values) => values.len(),
            Values::Numbers(values) => values.len(),
            Values::Texts(ends, _) => ends.len() - 1,
        }
    }
}

impl Column {
    /// Makes a column. `known` has for each row if it has a value; without it, the column is not nullable.
    pub(crate) fn new(name: CString, values: Values, known: Option<&[bool]>) -> Column {
        let rows = values.rows();
        let nulls = known.map_or(0, |known| known.iter().filter(|known| !**known).count());
        let bits = if nulls == 0 { Vec::new() } else { bitmap(known.into_iter().flatten().copied()) };
        let is_nullable = known.is_some();
        Column { name, rows: narrow(rows), nulls: narrow(nulls), is_nullable, known: bits, values }
    }

    /// Returns the name.
    pub(crate) fn name(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// Returns the type as Arrow's format string.
    pub(super) fn format(&self) -> &'static CStr {
        match self.values {
            Values::Switches(..) => c"b",
            Values::Whole(_) => c"l",
            Values::Counts(_) => c"L",
            Values::Numbers(_) => c"g",
            Values::Texts(..) => c"u",
        }
    }

    /// Returns the addresses of the buffers in Arrow's order, the first null if all rows have a value. They are valid as
    /// long as the column, which nothing changes.
    pub(super) fn buffers(&self) -> Vec<*const c_void> {
        let known = if self.nulls == 0 { null() } else { self.known.as_ptr().cast() };
        match &self.values {
            Values::Switches(bits, _) => vec![known, bits.as_ptr().cast()],
            Values::Whole(values) => vec![known, values.as_ptr().cast()],
            Values::Counts(values) => vec![known, values.as_ptr().cast()],
            Values::Numbers(values) => vec![known, values.as_ptr().cast()],
            Values::Texts(ends, bytes) => vec![known, ends.as_ptr().cast(), bytes.as_ptr().cast()],
        }
    }
}

/// Returns bits in bytes, the first in the lowest bit of the first byte.
fn bitmap(bits: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (place, bit) in bits.enumerate() {
        if place % 8 == 0 {
            bytes.push(0);
        }
        if let Some(byte) = bytes.last_mut() {
            *byte |= u8::from(bit) << (place % 8);
        }
    }
    bytes
}
