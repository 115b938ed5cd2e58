//! Targets that act as a vfio-user client.

use std::os::fd::OwnedFd;

use phaselink_core::protocol::nvme::rules::{Limits, NamespaceKind};
use phaselink_serve::front::vfio_user::session::Session;
use phaselink_serve::front::vfio_user::wire::{HEADER_BYTES, Header, command};
use rustix::event::EventfdFlags;
use rustix::fs::MemfdFlags;

use crate::Target;
use crate::script::Script;

/// Checks messages, each behind two bytes: its length, and its descriptors. The first byte of all is odd if versions
/// have been negotiated.
pub(super) const MESSAGES: Target = Target { name: "vfio-user", run: messages, seeds };

/// Bytes of the client's memory.
const MEMORY_BYTES: u64 = 64 << 10;
const LIMITS: Limits = Limits {
    namespaces: 1,
    blocks: 128,
    block_shift: 9,
    transfer_bytes_max: 128 << 10,
    queue_pairs: 4,
    queue_entries: 64,
    takes_segments: true,
    kind: NamespaceKind::PLAIN,
};

fn messages(input: &[u8]) {
    let mut script = Script::new(input);
    let how = script.byte();
    let mut session = Session::new(how & 2 == 0, &LIMITS).expect("memory");
    if how & 1 == 1 {
        exchange(&mut session, &version(), Vec::new());
    }
    while !script.is_over() {
        let (bytes, fds) = (usize::from(script.byte()), script.byte());
        let message = script.bytes(bytes);
        exchange(&mut session, message, descriptors(fds));
        look_around(&mut session, fds);
    }
}

/// Sends one message, and checks the reply.
fn exchange(session: &mut Session, message: &[u8], fds: Vec<OwnedFd>) {
    let before = session.registers.clone();
    let reply = session.on_message(message, fds);
    if Session::only_rings(message) {
        // Other threads may serve queues in the meantime.
        let mut after = session.registers.clone();
        after.invalid_doorbell = before.invalid_doorbell;
        assert_eq!(after, before, "who only rings changes nothing else");
    }
    let Some(asked) = message.first_chunk().map(Header::decode) else { return assert!(reply.is_none()) };
    assert_eq!(reply.is_some(), !asked.needs_no_reply(), "each message is answered, unless it wants no answer");
    let Some(reply) = reply else { return };
    let answer = Header::decode(reply.bytes.first_chunk().expect("a header"));
    assert!(answer.is_reply() && (answer.id, answer.command) == (asked.id, asked.command));
    assert_eq!(answer.bytes as usize, reply.bytes.len());
    assert!(!answer.is_error_reply() || reply.bytes.len() == HEADER_BYTES);
}

/// Acts as the controller would between messages.
fn look_around(session: &mut Session, place: u8) {
    session.interrupts.raise(u16::from(place), session.registers.masked);
    let _ = session.doorbells().tail_and_head_doorbells(u16::from(place) % 33);
    let address = u64::from(place) << 12;
    if let Some((_, here)) = session.memory.find(address, 8192) {
        assert!((1..=8192).contains(&here));
    }
}

/// Returns up to three descriptors: memory, an event, memory that is shorter than any region.
fn descriptors(which: u8) -> Vec<OwnedFd> {
    let memory = |bytes| {
        let fd = rustix::fs::memfd_create("client", MemfdFlags::CLOEXEC).expect("memory");
        rustix::fs::ftruncate(&fd, bytes).expect("memory");
        fd
    };
    match which % 8 {
        1 => vec![memory(MEMORY_BYTES)],
        2 => vec![rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an event")],
        3 => vec![memory(100)],
        4 => vec![memory(MEMORY_BYTES), rustix::event::eventfd(0, EventfdFlags::NONBLOCK).expect("an event")],
        _ => Vec::new(),
    }
}

fn message(number: u16, payload: &[u8]) -> Vec<u8> {
    [&Header::request(9, number, payload.len()).encode()[..], payload].concat()
}

fn version() -> Vec<u8> {
    let said = b"{\"capabilities\":{\"max_msg_fds\":8,\"max_data_xfer_size\":4096}}\0";
    message(command::VERSION, &[&[0, 0, 1, 0][..], said].concat())
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns an access: offset, region and length.
fn access(offset: u32, region: u32, count: u32, data: &[u8]) -> Vec<u8> {
    [&words(&[offset, 0, region, count])[..], data].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let map = message(command::DMA_MAP, &words(&[32, 3, 0, 0, 0x4000, 0, MEMORY_BYTES as u32, 0]));
    let unmap = message(command::DMA_UNMAP, &words(&[24, 0, 0x4000, 0, MEMORY_BYTES as u32, 0]));
    let all = [
        (message(command::DEVICE_GET_INFO, &words(&[16, 0, 0, 0])), 0),
        (message(command::DEVICE_GET_REGION_INFO, &words(&[32, 0, 0, 0, 0, 0, 0, 0])), 0),
        (message(command::DEVICE_GET_REGION_INFO, &words(&[64, 0, 7, 0, 0, 0, 0, 0])), 0),
        (message(command::DEVICE_GET_IRQ_INFO, &words(&[16, 0, 2, 0])), 0),
        (message(command::DEVICE_SET_IRQS, &words(&[20, 0x24, 2, 0, 1])), 2),
        (message(command::DEVICE_SET_IRQS, &words(&[20, 0x21, 2, 0, 0])), 0),
        (map, 1),
        (message(command::REGION_READ, &access(0, 7, 64, b"")), 0),
        (message(command::REGION_WRITE, &access(0x14, 0, 4, &[1, 0, 0x46, 0])), 4),
        (message(command::REGION_WRITE, &access(0x1008, 0, 4, &[3, 0, 0, 0])), 0),
        (message(command::REGION_WRITE, &access(4, 7, 2, &[6, 4])), 0),
        (message(command::REGION_WRITE_MULTI, &[&words(&[1, 0])[..], &access(0x1000, 0, 4, &[2; 8])].concat()), 0),
        (unmap, 0),
        (message(command::DEVICE_RESET, b""), 0),
    ];
    let entry = |(message, fds): &(Vec<u8>, u8)| [&[message.len() as u8, *fds][..], message].concat();
    let mut seeds: Vec<Vec<u8>> = all.iter().map(|one| [&[1][..], &entry(one)].concat()).collect();
    let everything: Vec<u8> = all.iter().flat_map(entry).collect();
    seeds.push([&[3][..], &everything].concat());
    seeds.push([&[0, version().len() as u8, 0][..], &version(), &everything].concat());
    seeds
}
