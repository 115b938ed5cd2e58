//! In-band authentication of NVMe over Fabrics by DH-HMAC-CHAP (Base Specification 2.1, section 8.3.4), without a socket: bytes
//! of messages in, bytes of messages out.
//!
//! - [`controller`] and [`host`] are the two sides of a transaction, whose messages are in [`message`].
//! - [`key_file`] says which host has which key. [`keys`] reads keys and derives from them.
//! - [`hash`], [`group`] and [`modular`] are the arithmetic. [`secret`] keeps what must not be seen.

pub mod controller;
pub mod group;
pub mod hash;
pub mod host;
pub mod key_file;
pub mod keys;
pub mod message;
pub mod modular;
pub mod secret;
#[cfg(test)]
mod tests;
