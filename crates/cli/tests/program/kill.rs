//! A server that is killed in the middle of its work loses nothing that it has acknowledged.
#![cfg(unix)]

use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::nbd::{AllowedVersions, BLOCK_BYTES, block, connect};
use crate::common::{directory, program};
use phaselink_core::random::mix;
use phaselink_serve::front::nbd::client::Client;
use phaselink_serve::front::nbd::uri::Uri;
use phaselink_serve::front::nbd::wire::{Request, command, flag};

const BLOCKS: usize = 4096;
/// Number of writes in flight together, to different blocks.
const DEPTH: usize = 16;
const ROUNDS_DEFAULT: u64 = 3;
/// How long the store takes to open, at most.
const OPENED_MAX: Duration = Duration::from_secs(20);

fn serve(here: &Path) -> (Child, Uri) {
    let socket = here.join("kill.sock");
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let mut command = program();
    command.args(["serve", "nvme-polled", "--timing", "off", "--nbd", &uri, "--set", "media.capacity_mib=16"]);
    command.arg("--store").arg(here.join("store"));
    (command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(), Uri::parse(&uri).unwrap())
}

fn request(command: u16, number: usize, flags: u16) -> Request {
    let offset = (number * BLOCK_BYTES) as u64;
    Request { flags, command, cookie: number as u64, offset, length: BLOCK_BYTES as u32 }
}

/// Write until the server is gone. Every block has at most one write in flight, as blocks are written in turn.
fn write_until_killed(client: &mut Client, versions: &mut [AllowedVersions], round: u64) {
    let mut under_way = 0;
    for step in 0u64.. {
        let number = (mix(round) + step) as usize % BLOCKS;
        versions[number].sent += 1;
        let flags = if step % 8 == 0 { flag::FUA } else { 0 };
        client.ask(&request(command::WRITE, number, flags), &block(number, versions[number].sent));
        under_way += 1;
        while under_way >= DEPTH {
            let gone = client.send().and_then(|()| client.sleep(None)).and_then(|()| client.receive()).is_err();
            while let Ok(Some(answer)) = client.answer(|_| 0) {
                assert_eq!(answer.error, 0);
                versions[answer.cookie as usize].acknowledged = versions[answer.cookie as usize].sent;
                under_way -= 1;
            }
            if gone {
                return;
            }
        }
    }
}

fn check(client: &mut Client, versions: &mut [AllowedVersions]) {
    for (number, known) in versions.iter_mut().enumerate() {
        client.ask(&request(command::READ, number, 0), b"");
        client.send().unwrap();
        let (found, answer) = loop {
            client.sleep(None).unwrap();
            client.receive().unwrap();
            if let Some(answer) = client.take_reply_with_data(|_| BLOCK_BYTES).unwrap() {
                break answer;
            }
        };
        assert_eq!(answer.error, 0);
        let allowed = known.acknowledged..=known.sent;
        let version = allowed.clone().find(|version| found == block(number, *version));
        // A write that was interrupted may be torn. Then its completion has not been received.
        let torn = version.is_none() && known.sent > known.acknowledged;
        assert!(version.is_some() || torn, "block {number} holds none of the versions {allowed:?}");
        known.acknowledged = version.unwrap_or(known.acknowledged);
        known.sent = known.sent.max(known.acknowledged);
    }
}

#[test]
fn killed_server_keeps_acknowledged_writes_and_reopens_its_store() {
    let rounds = std::env::var("KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS_DEFAULT);
    let here = directory("kill");
    let mut versions = vec![AllowedVersions::default(); BLOCKS];
    for round in 0..rounds {
        let (mut server, uri) = serve(&here);
        let mut client = connect(&uri, OPENED_MAX);
        check(&mut client, &mut versions);
        let killer = thread::spawn(move || {
            thread::sleep(Duration::from_micros(mix(round) % 60_000));
            server.kill().unwrap();
            server.wait().unwrap();
        });
        write_until_killed(&mut client, &mut versions, round);
        killer.join().unwrap();
    }
    let written = versions.iter().filter(|known| known.acknowledged > 0).count();
    eprintln!("{rounds} rounds, {written} of {BLOCKS} blocks written, nothing lost");
    assert!(written > 0);
}
