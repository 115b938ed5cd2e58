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
//! - [`listener`] talks to sockets, so that no device thread ever waits for one: clients come, ring their doorbell and go.
//! - [`client`] is a client as the device sees it. Each command is copied once and only the copy is checked and executed; data
//!   goes nowhere but into the client's own memory, whose size is sealed. A client can harm itself, no one else.
//! - [`serve`] has the steps of a command's life, and the poll groups; [`load`] is the client's end, for `phaselink bench`.

pub mod client;
mod listener;
mod load;
mod serve;
pub mod share;

use std::io;

use phaselink_core::ledger::Outcome;

use super::kind::{Front, FrontArguments, FrontKind, TargetKind, all};
use super::service::Service;
use crate::device::empty_exchange;
use crate::device::report::EmptyExchange;

pub use share::{Share, ShareSocket};

/// Shared memory in the list of front-ends.
pub const KIND: FrontKind = FrontKind {
    flag: "shm",
    value: "PATH",
    help: "Serve in shared memory at the socket PATH[,offset=SIZE][,size=SIZE][,readonly]; may be given more than once",
    switches: &[],
    brings_software: false,
    sends_interrupts: false,
    knows_zones: false,
    knows_keys: false,
    check_model: |_| Ok(()),
    socket: |text| Share::parse(text).map(|share| Some(share.path)),
    bind: |FrontArguments { addresses, .. }, _, geometry| {
        let bind = |text: &String| ShareSocket::bind(&Share::parse(text)?, geometry);
        Ok(Box::new(Shm(all(addresses.iter().map(bind))?)))
    },
    target: Some(TargetKind { form: "shm:PATH", parse: load::parse }),
};

/// Bound sockets of shared memory. Their clients share the device threads; a single thread runs the engine.
#[derive(Debug)]
pub struct Shm(pub Vec<ShareSocket>);

impl Front for Shm {
    fn addresses(&self) -> Vec<String> {
        self.0.iter().map(|socket| socket.share.to_string()).collect()
    }

    fn empty_exchange(&self) -> io::Result<EmptyExchange> {
        Ok(empty_exchange::in_memory(KIND.flag))
    }

    fn prefers_own_engine(&self) -> bool {
        true
    }

    fn serve(&self, service: &Service<'_>) -> io::Result<Option<Outcome>> {
        serve::serve(service, &self.0)
    }
}
