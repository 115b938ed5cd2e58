//! Served over NBD, the network block device protocol: fixed newstyle, structured replies, Unix sockets and TCP on this
//! machine.
//!
//! A client's request takes the place of a request of the modelled application. With timing on, it passes through the
//! modelled software stack, and completes when the model says ([`serve`]). With timing off, the thread that has read it
//! executes it on the store at once ([`connection_thread`]).
//!
//! - [`wire`] has the messages, [`handshake`] and [`session`] their order; they do no I/O, and accept any bytes.
//! - [`uri`], [`socket`] and [`buffer`] connect to the client; [`export`] checks which requests are acceptable.
//! - [`connection`] executes the requests of a connection.
//! - [`client`] is the client's end, by which `phaselink bench` loads a server ([`load`]).

mod accept;
pub mod client;
mod connection;
mod connection_thread;
pub mod export;
pub mod handshake;
mod load;
mod serve;
pub mod session;
pub mod socket;
pub mod uri;
pub mod wire;

use std::io;

use phaselink_core::ledger::Outcome;

use super::kind::{BenchTargetKind, Front, FrontEndArguments, FrontKind, Switch, all};
use super::service::FrontEndService;
use crate::device::empty_exchange;
use crate::device::report::EmptyExchangeTime;
use export::Export;
use socket::Listener;
use uri::{Address, Uri};

pub use accept::ExportSocket;

const SIMPLE_REPLIES: &str = "no-sr";

/// Description of the NBD front-end: its flags, help texts, binding of addresses and benchmark target.
pub const KIND: FrontKind = FrontKind {
    flag: "nbd",
    value: "URI",
    help: "Serve over NBD at nbd+unix:///EXPORT?socket=PATH or nbd://127.0.0.1:PORT/EXPORT; may be given more than once",
    switches: &[Switch {
        name: SIMPLE_REPLIES,
        alias: "no-structured-replies",
        help: "Answer NBD clients with simple replies only, which common clients receive with fewer calls",
    }],
    settings: &[],
    brings_software: false,
    sends_interrupts: false,
    has_connections: false,
    knows_zones: false,
    knows_keys: false,
    check_model: |_| Ok(()),
    socket: |text| {
        Uri::parse(text).map(|uri| match uri.place {
            Address::Unix(path) => Some(path),
            Address::Tcp(_) => None,
        })
    },
    bind: |FrontEndArguments { addresses, switches, .. }, _, geometry| {
        let structured_replies = !switches.contains(&SIMPLE_REPLIES);
        let uris = all(addresses.iter().map(|text| Uri::parse(text)))?;
        let bound = uris.iter().map(|uri| {
            let export = Export { name: uri.export.clone(), geometry, structured_replies };
            Ok(ExportSocket { listener: Listener::bind(uri)?, export })
        });
        Ok(Box::new(Nbd(all(bound)?)))
    },
    target: Some(BenchTargetKind {
        form: "nbd+unix:///EXPORT?socket=PATH or nbd://127.0.0.1:PORT/EXPORT",
        parse: load::parse,
    }),
};

/// NBD front-end with its bound sockets.
#[derive(Debug)]
pub struct Nbd(pub Vec<ExportSocket>);

impl Front for Nbd {
    fn addresses(&self) -> Vec<String> {
        self.0.iter().map(|one| one.listener.uri().to_string()).collect()
    }

    /// Measures the round trip of a request without data and its simple reply, over the transport of the first address.
    fn empty_exchange(&self) -> io::Result<EmptyExchangeTime> {
        let is_tcp = self.0.first().is_some_and(|one| matches!(one.listener.uri().place, uri::Address::Tcp(_)));
        let measure = if is_tcp { empty_exchange::over_tcp } else { empty_exchange::measure_over_unix_socket };
        measure(KIND.flag, [wire::REQUEST_BYTES, wire::SIMPLE_REPLY_BYTES])
    }

    fn serve(&self, service: &FrontEndService<'_>) -> io::Result<Option<Outcome>> {
        match service.timing {
            true => serve::serve(service, &self.0),
            false => connection_thread::serve(service.device, &self.0, service.wait).map(|()| None),
        }
    }
}
