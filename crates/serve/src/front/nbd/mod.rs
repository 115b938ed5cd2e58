//! Served over NBD, the network block device protocol: fixed newstyle, structured replies, Unix sockets and TCP on this
//! machine.
//!
//! The request is where a real host meets the device: it takes the place of the modelled application's. With timing on,
//! it goes down the modelled software stack and is answered when the model says ([`timed`]), be that on the same thread
//! or another ([`model`]); with timing off, it goes straight to the store, on the thread that has read it ([`lean`]).
//!
//! - [`wire`] has the messages, [`handshake`] and [`session`] their order; these are pure, and never fail on any bytes.
//! - [`uri`], [`socket`] and [`buffer`] are the way to the client; [`export`] says what requests are acceptable.
//! - [`client`] is the other end, for `phaselink bench`.

pub mod buffer;
pub mod client;
pub mod export;
pub mod handshake;
pub mod lean;
pub mod model;
pub mod session;
pub mod socket;
pub mod timed;
pub mod uri;
pub mod wire;

/// Connections of one server, over all its addresses. Each holds at most two messages of 32 MiB.
pub const CONNECTIONS_MAX: usize = 64;

use export::Export;
use socket::Listener;

/// An address with what is served there.
#[derive(Debug)]
pub struct Served {
    pub listener: Listener,
    pub export: Export,
}
