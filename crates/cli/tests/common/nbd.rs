//! Clients of a served drive over NBD, and blocks that say which version of them they are.

use std::thread;
use std::time::{Duration, Instant};

use phaselink_core::random::mix;
use phaselink_serve::front::nbd::client::Client;
use phaselink_serve::front::nbd::uri::Uri;
use phaselink_serve::front::nbd::wire::{Request, command};

pub(crate) const BLOCK_BYTES: usize = 4096;

/// What a block may hold: the version acknowledged last, or a later one whose answer nobody has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AllowedVersions {
    pub acknowledged: u64,
    pub sent: u64,
}

/// A block that says which it is, in which version, from its first byte to its last.
pub(crate) fn block(number: usize, version: u64) -> Vec<u8> {
    let words = (0..BLOCK_BYTES as u64 / 8).map(|word| match version {
        0 => 0,
        _ => mix(version << 20 ^ (number as u64) << 8 ^ word),
    });
    words.flat_map(u64::to_le_bytes).collect()
}

/// A client of a server that has just been started, and is there within a time.
pub(crate) fn connect(uri: &Uri, within: Duration) -> Client {
    let started = Instant::now();
    loop {
        match Client::connect(uri) {
            Ok(client) => return client,
            Err(error) => assert!(started.elapsed() < within, "nobody serves: {error}"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// One request and its answer, which comes within a time: data, and error.
pub(crate) fn ask(client: &mut Client, request: &Request, data: &[u8], within: Duration) -> (Vec<u8>, u32) {
    client.ask(request, data);
    client.send().unwrap();
    let bytes = if request.command == command::READ { request.length as usize } else { 0 };
    let asked = Instant::now();
    loop {
        if let Some((data, answer)) = client.take_reply_with_data(|_| bytes).unwrap() {
            return (data, answer.error);
        }
        assert!(asked.elapsed() < within, "no answer comes within {:?}", asked.elapsed());
        client.sleep(Some(Duration::from_millis(100))).unwrap();
        client.receive().unwrap();
    }
}
