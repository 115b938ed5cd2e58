//! Inputs that are kept: in `corpus/`, one folder a target.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Target;
use crate::mutate::INPUT_BYTES_MAX;

/// Where the inputs of a target are.
pub fn folder(target: &Target) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/corpus")).join(target.name)
}

/// Seeds and kept inputs of a target, in an order that does not depend on the machine.
pub fn inputs(target: &Target) -> Vec<Vec<u8>> {
    let mut inputs = (target.seeds)();
    let entries = fs::read_dir(folder(target)).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    inputs.extend(paths.iter().filter_map(|path| fs::read(path).ok()));
    inputs.retain(|input| input.len() <= INPUT_BYTES_MAX);
    inputs
}
