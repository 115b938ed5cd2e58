//! Files of a trace, whose bytes the caller supplies: the core opens no files.

use crate::problem::Problem;
use std::fmt;
use std::sync::Arc;

/// Size in bytes of the pieces of a file that is in memory.
const PIECE_BYTES: usize = 256 << 10;

/// Unpacked content of a file from its start, as successive pieces of bytes.
pub type Pieces = Box<dyn Iterator<Item = Result<Vec<u8>, Problem>> + Send + Sync>;

/// Function that opens a file and returns its content; a file that lasts has the same content each time.
type Open = dyn Fn() -> Result<Pieces, Problem> + Send + Sync;

/// File of a trace, which is read piece by piece, at each opening from its start.
#[derive(Clone)]
pub struct File {
    /// Name of the file in messages.
    pub name: String,
    /// True if the file can be read more than once, which a pipe cannot.
    pub is_lasting: bool,
    open: Arc<Open>,
}

impl File {
    /// Makes a file that can be opened any number of times; `open` returns its content.
    pub fn reopenable(
        name: impl Into<String>,
        open: impl Fn() -> Result<Pieces, Problem> + Send + Sync + 'static,
    ) -> File {
        File { name: name.into(), is_lasting: true, open: Arc::new(open) }
    }

    /// Makes a file that can be opened only once, such as a pipe; `open` returns its content.
    pub fn single_use(
        name: impl Into<String>,
        open: impl Fn() -> Result<Pieces, Problem> + Send + Sync + 'static,
    ) -> File {
        File { is_lasting: false, ..File::reopenable(name, open) }
    }

    /// Makes a trace file from bytes in memory.
    pub fn in_memory(name: impl Into<String>, bytes: &[u8]) -> File {
        let bytes: Arc<[u8]> = bytes.into();
        let open = move || -> Result<Pieces, Problem> {
            let bytes = bytes.clone();
            let starts = (0..bytes.len()).step_by(PIECE_BYTES);
            Ok(Box::new(starts.map(move |start| Ok(bytes[start..bytes.len().min(start + PIECE_BYTES)].to_vec()))))
        };
        File::reopenable(name, open)
    }

    /// Opens the file, and returns its content from the start, piece by piece.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn pieces(&self) -> Result<Pieces, Problem> {
        (self.open)()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("name", &self.name).field("is_lasting", &self.is_lasting).finish_non_exhaustive()
    }
}
