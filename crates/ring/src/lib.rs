//! What host and device of DC Express agree on: the command, the tags in a read's buffer, the layout of the memory that
//! both share, the greeting, and how a command ended.
//!
//! Three programs ask these rules. The simulator's driver and endpoint put the same commands into rings of modelled
//! memory and look at the same tags; a served device and its clients do so in real memory. Whatever decides *which* bytes
//! stand *where* is written here once, as functions of bytes and numbers that build anywhere.
//!
//! The memory itself is in [`shared`]: mapping, atomic words, wide copies, the clock that two processes have in common,
//! and the socket that hands the descriptor over. It is Linux's (sealed memory files), and the only part with `unsafe`.
//! It stands beside the rules rather than in the client's crate or the server's, because the order of accesses in
//! [`chunk`] holds only as long as both ends use the same few functions.

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
