//! TLS 1.3 with pre-shared keys, as NVMe/TCP uses it (NVMe/TCP Transport Specification 1.1, section 3.6.1): no certificates, no
//! resumption, no early data.
//!
//! - [`channel`] is one end of a connection, in bytes. [`server`] and [`client`] are the two sides of its handshake.
//! - [`hello`] reads and writes the messages, [`record`] the records, [`flow`] has the state of both directions.
//! - [`schedule`] derives keys. [`suite`] has the cipher suites and groups, of which [`x25519`] is one.

pub mod alert;
pub mod channel;
mod client;
mod flow;
mod hello;
mod record;
mod schedule;
mod server;
pub mod suite;
#[cfg(test)]
mod tests;
mod x25519;

/// First byte of a connection whose client begins with TLS: the type of a record with handshake messages.
pub const FIRST_BYTE: u8 = 22;
