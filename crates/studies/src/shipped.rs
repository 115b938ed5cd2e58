//! Texts of the shipped papers, as the build script lists them.

include!(concat!(env!("OUT_DIR"), "/shipped.rs"));
