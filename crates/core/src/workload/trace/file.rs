//! Files of a trace, whose bytes the caller supplies: the core opens no files.

use crate::problem::Problem;
use std::fmt;
use std::sync::Arc;

/// Size in bytes of the pieces of a file that is in memory.
const PIECE_BYTES: usize = 256 << 10;

/// The bytes of a file from its start, unpacked, piece by piece.
pub type Pieces = Box<dyn Iterator<Item = Result<Vec<u8>, Problem>> + Send + Sync>;

/// Function that opens a file; it gives the same bytes each time.
type Open = dyn Fn() -> Result<Pieces, Problem> + Send + Sync;

/// A file of a trace, which is read piece by piece.
#[derive(Clone)]
pub struct File {
    /// Name of the file for messages.
    pub name: String,
    /// True if it can be read more than once, which a pipe cannot.
    pub is_lasting: bool,
    open: Arc<Open>,
}

impl File {
    /// Makes a file that can be opened any number of times.
    pub fn lasting(
        name: impl Into<String>,
        open: impl Fn() -> Result<Pieces, Problem> + Send + Sync + 'static,
    ) -> File {
        File { name: name.into(), is_lasting: true, open: Arc::new(open) }
    }

    /// Makes a file that can be opened only once.
    pub fn passing(
        name: impl Into<String>,
        open: impl Fn() -> Result<Pieces, Problem> + Send + Sync + 'static,
    ) -> File {
        File { is_lasting: false, ..File::lasting(name, open) }
    }

    /// Makes a file whose bytes are in memory.
    pub fn at_hand(name: impl Into<String>, bytes: &[u8]) -> File {
        let bytes: Arc<[u8]> = bytes.into();
        let open = move || -> Result<Pieces, Problem> {
            let bytes = bytes.clone();
            let starts = (0..bytes.len()).step_by(PIECE_BYTES);
            Ok(Box::new(starts.map(move |start| Ok(bytes[start..bytes.len().min(start + PIECE_BYTES)].to_vec()))))
        };
        File::lasting(name, open)
    }

    /// Bytes of the file from its start.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn pieces(&self) -> Result<Pieces, Problem> {
        (self.open)()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("name", &self.name).field("is_lasting", &self.is_lasting).finish_non_exhaustive()
    }
}
