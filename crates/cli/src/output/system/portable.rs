//! Functions for files and terminals by the standard library alone, for systems other than Unix. Hard links of a file
//! count as different files.
#![cfg_attr(all(test, unix), allow(dead_code, unreachable_pub))]

use std::fs::{self, File, FileType, OpenOptions};
use std::io;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

/// Identity of an existing file: its path without symbolic links.
pub(in crate::output) type FileId = PathBuf;

/// Returns the identity of the file at a path, or none if it does not exist.
pub(in crate::output) fn file_id(path: &Path) -> Option<FileId> {
    fs::canonicalize(path).ok()
}

/// True if several outputs may write to a file of this kind: it is neither an ordinary file nor a directory.
pub(in crate::output) fn is_shared(kind: FileType) -> bool {
    !kind.is_file() && !kind.is_dir()
}

/// Returns the name of a kind of special file that must never be overwritten; none here.
pub(in crate::output) fn protected_file_kind(_kind: FileType) -> Option<&'static str> {
    None
}

/// True if a path can only be that of a directory, by its last character.
pub(in crate::output) fn names_a_directory(path: &Path) -> bool {
    path.as_os_str().to_string_lossy().ends_with(['/', MAIN_SEPARATOR])
}

/// Opens a file for writing that is neither ordinary nor a directory.
///
/// # Errors
///
/// If the system refuses it.
pub(in crate::output) fn open_special(_kind: FileType, path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// Returns standard output or standard error if `path` leads there, which no path does on these systems.
pub(in crate::output) fn own_stream(_path: &Path) -> Option<File> {
    None
}

/// Gives a new file the owner of the file that it replaces. Does nothing here, since files belong to the account that
/// makes them.
pub(in crate::output) fn keep_owner(_replaced: &fs::Metadata, _file: &File) {}

/// Returns the width in columns of the terminal at standard output, which is unknown here.
pub(in crate::output) fn terminal_columns() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_to_the_same_file_have_one_identity() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        assert_eq!(file_id(&path), None);
        fs::write(&path, "{}").unwrap();
        assert_eq!(file_id(&path), file_id(&folder.path().join(".").join("out.json")));
        assert_ne!(file_id(&path), file_id(folder.path()));
    }

    #[test]
    fn path_with_a_trailing_separator_names_a_directory() {
        assert!(names_a_directory(Path::new("results/")));
        assert!(!names_a_directory(Path::new("results")));
    }
}
