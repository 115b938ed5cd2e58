//! DC Express in shared memory: the endpoint polls the rings of user-space hosts, and data completes reads by its tags.
//!
//! ```text
//!       client's thread              its memory                 device thread
//!   mark trailers, publish ─────> ring ────────────────────> poll, private copy, checks
//!                                                              the model, if timing is on
//!   all tags gone? copy out <──── buffer: trailers last ───── store
//!                                   status word, behind all ────
//! ```
//!
//! Layout, commands, tags and the order of memory accesses are [`phaselink_ring`]'s, which both sides use. What is said
//! here is who is served and protected from whom:
//!
//! - [`share`] is a socket and what its clients may do: a range of the drive, with or without writing.
//! - [`keeper`] talks to sockets, so that the device thread never waits for one: clients come, ring and go.
//! - [`peer`] is a client as the device sees it. Each command is copied once and only the copy is checked and obeyed;
//!   data goes nowhere but into the client's own memory, whose size is sealed. A client can harm itself, no one else.
//! - [`lean`] and [`timed`] are the device thread, without and with the model.

pub mod crowd;
pub mod keeper;
pub mod lean;
pub mod peer;
pub mod share;
pub mod timed;

/// Clients of one server, over all its sockets; each has at most [`phaselink_ring::layout::MEMORY_BYTES_MAX`].
pub const CLIENTS_MAX: usize = 32;

pub use share::{Served, Share};
