//! Execution of the commands that a namespace has by its kind, on a store.

pub(super) mod blocks;
pub(super) mod keys;
mod metadata;
pub(super) mod zones;
