//! Texts of the shipped drives and devices, as the build script lists them.

include!(concat!(env!("OUT_DIR"), "/shipped.rs"));
