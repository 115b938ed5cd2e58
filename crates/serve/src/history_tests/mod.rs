//! Histories of several hosts at one drive: random commands of hosts at real controllers of one subsystem, in one thread and in
//! an order that a seed determines, and the proof that the outcome is one of a drive that executes them one by one.
//!
//! ```text
//!   host 0 ── path 0 ─┐                submit ── fetch ── execute ── reap     each step of a command at a time of its own
//!          ── path 1 ─┼─ controllers      └──── steps of other hosts ────┘
//!   host 1 ── path 2 ─┘  of one store  states of paths, resets with commands in flight, restarts of the server,
//!                                      moves to another server
//! ```
//!
//! A [`HostCall`](drive_model::HostCall) has the times of its submission and of its completion. The [checker] looks for an order
//! of all calls that respects these times (linearizability, Herlihy and Wing 1990) and in which the
//! [model of the drive](drive_model) gives each response. In such an order a write after a lost reservation, a lost write,
//! or a command on a path without access has no place.

mod checker;
mod drive_model;
mod path;
mod proofs;
mod run;
