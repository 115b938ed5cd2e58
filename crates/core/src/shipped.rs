//! Texts of the shipped drives and devices, as the build script lists them.

/// Base address under which the JSON Schemas of this version are published: a placeholder until the project has a site.
pub const SCHEMA_BASE: &str = "https://phaselink.example/schemas";

include!(concat!(env!("OUT_DIR"), "/shipped.rs"));
