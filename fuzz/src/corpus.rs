//! Inputs that are kept in `corpus/`, one folder for each target.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Target;

/// Returns the folder with the kept inputs of a target.
pub fn folder(target: &Target) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/corpus")).join(target.name)
}

/// Returns the seeds and the kept inputs of a target, in the same order on every machine.
pub fn inputs(target: &Target) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder(target)).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let mut inputs = (target.seeds)();
    inputs.extend(paths.iter().filter_map(|path| fs::read(path).ok()));
    inputs
}
