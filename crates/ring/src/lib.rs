//! Host-device protocol of DC Express: commands, incomplete tags, layout of the shared memory, greeting and status.
//!
//! Three programs use this crate. The simulator's driver and endpoint exchange commands and tags in modelled memory; a served
//! device and its clients do so in real memory. The functions that decide which bytes stand where take bytes and numbers, and
//! build on any system.
//!
//! Module [`shared`] has the real memory: mapping, atomic words, wide copies, the clock that both processes read, and the
//! socket that carries the memory's descriptor. It needs Linux (sealed memory files) and is the only part with `unsafe`. It
//! is in this crate, and not in the client's or the server's, because the memory order of [`chunk`] holds only if both ends
//! use the same functions.

#![deny(unsafe_code)]

pub mod chunk;
pub mod command;
pub mod greeting;
pub mod layout;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub mod shared;
pub mod status;
pub mod trailer;
