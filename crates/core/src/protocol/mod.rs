//! Protocols between host and device, one folder each, both halves in it.

pub mod dc_express;
