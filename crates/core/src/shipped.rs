//! Texts that come with the program, listed by the build.

include!(concat!(env!("OUT_DIR"), "/shipped.rs"));
