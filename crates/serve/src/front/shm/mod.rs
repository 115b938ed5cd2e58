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
//! Layout, commands, tags and the order of memory accesses are in [`phaselink_ring`], which both sides use. The modules
//! here decide who is served, and who is protected from whom:
//!
//! - [`share`] is a socket and the access of its clients: a range of the drive, with or without writing.
//! - [`listener`] talks to sockets, so that no device thread ever waits for one: clients come, ring their doorbell and go.
//! - [`client`] is a client as the device sees it. Each command is copied once, and only the copy is checked and
//!   executed. Data is written only to the client's own memory, whose size is sealed, so that a client can harm only itself.
//! - [`serve`] has the steps of a command and the poll groups; [`load`] is the client's end, for `phaselink bench`.

pub mod client;
mod listener;
mod load;
mod serve;
pub mod share;

use std::io;

use phaselink_core::ledger::Outcome;

use super::kind::{BenchTargetKind, Front, FrontEndArguments, FrontKind, all};
use super::service::FrontEndService;
use crate::device::empty_exchange;
use crate::device::report::EmptyExchangeTime;

pub use share::{Share, ShareSocket};

/// Description of the shared-memory front-end: its flag, help text, binding of addresses and benchmark target.
pub const KIND: FrontKind = FrontKind {
    flag: "shm",
    value: "PATH",
    help: "Serve in shared memory at the socket PATH[,offset=SIZE][,size=SIZE][,readonly]; may be given more than once",
    switches: &[],
    settings: &[],
    brings_software: false,
    sends_interrupts: false,
    has_connections: false,
    knows_zones: false,
    knows_keys: false,
    check_model: |_| Ok(()),
    socket: |text| Share::parse(text).map(|share| Some(share.path)),
    bind: |FrontEndArguments { addresses, .. }, _, geometry| {
        let bind = |text: &String| ShareSocket::bind(&Share::parse(text)?, geometry);
        Ok(Box::new(ShmFrontEnd(all(addresses.iter().map(bind))?)))
    },
    target: Some(BenchTargetKind { form: "shm:PATH", parse: load::parse }),
};

/// Shared-memory front-end with its bound sockets. Their clients share the device threads.
#[derive(Debug)]
pub struct ShmFrontEnd(pub Vec<ShareSocket>);

impl Front for ShmFrontEnd {
    fn addresses(&self) -> Vec<String> {
        self.0.iter().map(|socket| socket.share.to_string()).collect()
    }

    fn empty_exchange(&self) -> io::Result<EmptyExchangeTime> {
        Ok(empty_exchange::in_memory(KIND.flag))
    }

    fn prefers_own_engine(&self) -> bool {
        true
    }

    fn serve(&self, service: &FrontEndService<'_>) -> io::Result<Option<Outcome>> {
        serve::serve(service, &self.0)
    }
}
