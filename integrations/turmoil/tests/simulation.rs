//! Two servers of turmoil, each with a drive of its own, that keep what a client sends; they crash meanwhile.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phaselink_embed::Description;
use phaselink_turmoil::{HostDrive, crash};
use tokio::time::timeout;
use turmoil::net::UdpSocket;
use turmoil::{Builder, Sim};

const PORT: u16 = 1000;
const BLOCK_BYTES: usize = 4096;
const VALUES: u64 = 60;
/// Servers with their drives: flash with a volatile buffer, and phase-change memory.
const SERVERS: [(&str, &str); 2] = [("flash", "tlc-gen4"), ("optane", "optane-p5800x")];

fn any() -> (IpAddr, u16) {
    (Ipv4Addr::UNSPECIFIED.into(), PORT)
}

fn block(value: u64) -> [u8; BLOCK_BYTES] {
    let mut bytes = [0; BLOCK_BYTES];
    bytes.as_chunks_mut().0.fill((value + 1).to_le_bytes());
    bytes
}

/// Writes each value into a block of its own, makes it durable, and says so.
async fn serve(drive: HostDrive, flushes: bool) -> turmoil::Result {
    let socket = UdpSocket::bind(any()).await?;
    let mut message = [0; 8];
    loop {
        let (_, sender) = socket.recv_from(&mut message).await?;
        let value = u64::from_le_bytes(message);
        drive.write(value * BLOCK_BYTES as u64, &block(value)).await?;
        if flushes {
            drive.flush().await?;
        }
        socket.send_to(&message, sender).await?;
    }
}

/// Sends a value to a server until that has said that it is durable.
async fn send_value(socket: &UdpSocket, server: &str, value: u64) -> turmoil::Result {
    let mut answer = [0; 8];
    loop {
        socket.send_to(&value.to_le_bytes(), (server, PORT)).await?;
        // A crashed server does not reply, so the value is sent again.
        while let Ok(received) = timeout(Duration::from_millis(50), socket.recv_from(&mut answer)).await {
            let (_, sender) = received?;
            // Replies to repeated values may arrive late.
            if sender.ip() == turmoil::lookup(server) && u64::from_le_bytes(answer) == value {
                return Ok(());
            }
        }
    }
}

/// Sends all values to all servers; `acknowledged` counts those that every server has.
async fn send(acknowledged: Arc<Mutex<u64>>) -> turmoil::Result {
    let socket = UdpSocket::bind(any()).await?;
    for value in 0..VALUES {
        for (server, _) in SERVERS {
            send_value(&socket, server, value).await?;
        }
        *acknowledged.lock().unwrap() = value + 1;
    }
    Ok(())
}

/// Result of a simulation: lost values, number of crashes, simulated time, and digests and commit times of the servers.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// Values that were acknowledged and are on no drive any more, by server.
    lost: Vec<(&'static str, u64)>,
    crashes: u64,
    elapsed: Duration,
    digests: [u64; 2],
    /// Mean time of a write with its flush, by server, in microseconds.
    commit_us: [f64; 2],
}

/// Crashes a server, checks its drive, and starts it again.
fn crash_and_check(
    simulation: &mut Sim,
    place: usize,
    drives: &[HostDrive; 2],
    acknowledged: u64,
    seed: u64,
) -> Vec<(&'static str, u64)> {
    let (name, _) = SERVERS[place];
    crash(simulation, name, &drives[place], seed).unwrap();
    simulation.bounce(name);
    let is_lost = |value: &u64| {
        let mut found = [0; BLOCK_BYTES];
        drives[place].with_drive(|drive| drive.peek(0, value * BLOCK_BYTES as u64, &mut found).unwrap());
        found != block(*value)
    };
    (0..acknowledged).filter(is_lost).map(|value| (name, value)).collect()
}

fn simulate(seed: u64, flushes: bool) -> Outcome {
    let mut simulation = Builder::new().rng_seed(seed).simulation_duration(Duration::from_secs(600)).build();
    let drives = SERVERS.map(|(_, drive)| HostDrive::open(&Description::shipped(drive).unwrap().seed(seed)).unwrap());
    for ((name, _), drive) in SERVERS.into_iter().zip(drives.clone()) {
        simulation.host(name, move || serve(drive.clone(), flushes));
    }
    let acknowledged = Arc::new(Mutex::new(0));
    simulation.client("client", send(acknowledged.clone()));
    let (mut crashes, mut steps, mut lost) = (0, 0u64, Vec::new());
    while !simulation.step().unwrap() {
        steps += 1;
        if steps.is_multiple_of(151) {
            crashes += 1;
            let known = *acknowledged.lock().unwrap();
            lost.extend(crash_and_check(&mut simulation, crashes as usize % 2, &drives, known, crashes));
        }
    }
    let commit_us = drives.each_ref().map(|drive| {
        let rows = drive.with_drive(|drive| drive.summary());
        rows.iter().map(|row| row.mean.as_us()).sum::<f64>()
    });
    Outcome {
        lost,
        crashes,
        elapsed: simulation.elapsed(),
        digests: drives.each_ref().map(HostDrive::digest),
        commit_us,
    }
}

#[test]
fn turmoil_servers_that_flush_lose_nothing_and_repeat_equally() {
    let outcome = simulate(1, true);
    println!("{outcome:?}");
    assert!(outcome.lost.is_empty(), "{outcome:?}");
    assert!(outcome.crashes >= 15, "{outcome:?}");
    assert_eq!(outcome, simulate(1, true));
    assert_ne!(outcome.digests, simulate(2, true).digests);
    assert!(outcome.commit_us[0] > 10.0 * outcome.commit_us[1], "the flush of flash is seen: {outcome:?}");
}

#[test]
fn turmoil_server_without_flush_loses_values_on_volatile_drives() {
    let outcome = simulate(1, false);
    assert!(outcome.lost.iter().any(|(server, _)| *server == "flash"), "{outcome:?}");
    assert!(outcome.lost.iter().all(|(server, _)| *server == "flash"), "{outcome:?}");
}
