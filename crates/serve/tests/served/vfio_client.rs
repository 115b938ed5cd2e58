//! A client of vfio-user, and an NVMe driver above it that does what Linux does in the order in which it does it.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use phaselink_client::shared::memory::Memory;
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::spec::{CompletionEntry, Status, admin};
use phaselink_serve::front::vfio_user::wire::{Header, command};
use rustix::fs::MemfdFlags;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

/// Address of the guest's memory for the device, and its size.
pub(crate) const RAM: u64 = 0x10_0000;
pub(crate) const RAM_BYTES: u64 = 1 << 20;
/// The same for memory that comes without a descriptor.
pub(crate) const ISLAND: u64 = 0x4000_0000;
pub(crate) const PAGE: u64 = 4096;
/// Entries of a queue.
pub(crate) const ENTRIES: u32 = 64;
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn memory_file(bytes: u64) -> File {
    let fd = rustix::fs::memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&fd, bytes).unwrap();
    File::from(fd)
}

pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// A client: the protocol alone.
pub(crate) struct Client {
    pub socket: UnixStream,
    /// The guest's memory as a file, and as words.
    pub ram: File,
    pub ram_words: Memory,
    /// Memory that the server has to ask for.
    pub island: File,
}

/// A refused request: its error number.
pub(crate) type Refused = u32;

impl Client {
    pub(crate) fn connect(path: &Path) -> Client {
        let socket = UnixStream::connect(path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let (ram_words, ram) = Memory::create(RAM_BYTES).unwrap();
        Client { socket, ram: File::from(ram), ram_words, island: memory_file(RAM_BYTES) }
    }

    pub(crate) fn send(&self, id: u16, command: u16, flags: u32, payload: &[u8], fds: &[BorrowedFd]) {
        let mut message = Header::request(id, command, payload.len()).encode();
        message[8..12].copy_from_slice(&flags.to_le_bytes());
        let message = [&message[..], payload].concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        let sent = rustix::net::sendmsg(&self.socket, &[IoSlice::new(&message)], &mut control, SendFlags::NOSIGNAL);
        assert_eq!(sent.unwrap(), message.len());
    }

    pub(crate) fn receive(&self, into: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<()> {
        let mut filled = 0;
        while filled < into.len() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [IoSliceMut::new(&mut into[filled..])];
            let count = rustix::net::recvmsg(&self.socket, &mut parts, &mut control, RecvFlags::empty())?.bytes;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(more) = message {
                    fds.extend(more);
                }
            }
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += count;
        }
        Ok(())
    }

    /// The next message; the server's requests for memory are answered on the way.
    pub(crate) fn next(&self) -> io::Result<(Header, Vec<u8>, Vec<OwnedFd>)> {
        loop {
            let (mut head, mut fds) = ([0; 16], Vec::new());
            self.receive(&mut head, &mut fds)?;
            let header = Header::decode(&head);
            let mut payload = vec![0; header.bytes as usize - 16];
            self.receive(&mut payload, &mut fds)?;
            if header.is_reply() {
                return Ok((header, payload, fds));
            }
            self.give(&header, payload);
        }
    }

    /// Read or write the island for the server.
    pub(crate) fn give(&self, header: &Header, mut payload: Vec<u8>) {
        let address = u64::from_le_bytes(payload[..8].try_into().unwrap()) - ISLAND;
        let bytes = u64::from_le_bytes(payload[8..16].try_into().unwrap()) as usize;
        match header.command {
            command::DMA_READ => {
                payload.resize(16 + bytes, 0);
                self.island.read_exact_at(&mut payload[16..], address).unwrap();
            }
            command::DMA_WRITE => {
                self.island.write_all_at(&payload[16..], address).unwrap();
                payload.truncate(16);
            }
            other => panic!("the server asks for {other}"),
        }
        let reply = [&header.reply(payload.len()).encode()[..], &payload].concat();
        (&self.socket).write_all(&reply).unwrap();
    }

    pub(crate) fn ask(
        &self,
        command: u16,
        payload: &[u8],
        fds: &[BorrowedFd],
    ) -> Result<(Vec<u8>, Vec<OwnedFd>), Refused> {
        // SPDK's client uses message number 0 for every message.
        self.send(0, command, 0, payload, fds);
        let (header, payload, fds) = self.next().expect("an answer");
        assert_eq!((header.id, header.command), (0, command));
        match header.is_error_reply() {
            true => Err(u32_at(&header.encode(), 12)),
            false => Ok((payload, fds)),
        }
    }

    pub(crate) fn agree(&self, json: &str) -> Vec<u8> {
        let mut payload = vec![0, 0, 0, 0];
        if !json.is_empty() {
            payload.extend(json.bytes());
            payload.push(0);
        }
        self.ask(command::VERSION, &payload, &[]).unwrap().0
    }

    pub(crate) fn map(&self, address: u64, offset: u64, bytes: u64, fd: Option<BorrowedFd>) -> Result<(), Refused> {
        let mut payload = words(&[32, 3]);
        payload.extend([offset, address, bytes].into_iter().flat_map(u64::to_le_bytes));
        self.ask(command::DMA_MAP, &payload, fd.as_slice()).map(drop)
    }

    pub(crate) fn unmap(&self, address: u64, bytes: u64) -> Result<(), Refused> {
        let mut payload = words(&[24, 0]);
        payload.extend([address, bytes].into_iter().flat_map(u64::to_le_bytes));
        self.ask(command::DMA_UNMAP, &payload, &[]).map(|(echo, _)| assert_eq!(echo, payload))
    }

    pub(crate) fn access(region: u32, offset: u64, bytes: u32) -> Vec<u8> {
        [&offset.to_le_bytes()[..], &words(&[region, bytes])].concat()
    }

    pub(crate) fn region_read(&self, region: u32, offset: u64, bytes: u32) -> Result<Vec<u8>, Refused> {
        let payload = Client::access(region, offset, bytes);
        self.ask(command::REGION_READ, &payload, &[]).map(|(answer, _)| answer[16..].to_vec())
    }

    pub(crate) fn region_write(&self, region: u32, offset: u64, from: &[u8]) -> Result<(), Refused> {
        let payload = [&Client::access(region, offset, from.len() as u32)[..], from].concat();
        self.ask(command::REGION_WRITE, &payload, &[]).map(|(answer, _)| assert_eq!(answer, payload[..16]))
    }

    /// The same without waiting for an answer, as QEMU writes.
    pub(crate) fn write_region_posted(&self, region: u32, offset: u64, from: &[u8]) {
        let payload = [&Client::access(region, offset, from.len() as u32)[..], from].concat();
        self.send(7, command::REGION_WRITE, 1 << 4, &payload, &[]);
    }

    pub(crate) fn region_info(&self, region: u32, room: u32) -> (Vec<u8>, Vec<OwnedFd>) {
        let mut payload = words(&[room, 0, region, 0]);
        payload.resize(room as usize, 0);
        self.ask(command::DEVICE_GET_REGION_INFO, &payload, &[]).unwrap()
    }

    pub(crate) fn register(&self, offset: u64) -> u32 {
        u32_at(&self.region_read(0, offset, 4).unwrap(), 0)
    }

    pub(crate) fn set_register(&self, offset: u64, value: u32) {
        self.region_write(0, offset, &value.to_le_bytes()).unwrap();
    }

    /// Interrupts by vector go to these descriptors.
    pub(crate) fn set_msix_eventfds(&self, fds: &[BorrowedFd]) -> Result<(), Refused> {
        let payload = words(&[20, 4 | 32, 2, 0, fds.len() as u32]);
        self.ask(command::DEVICE_SET_IRQS, &payload, fds).map(drop)
    }
}

/// How a driver rings.
pub(crate) enum DoorbellMethod {
    Messages,
    Page(Memory),
}

/// A driver: queues in the guest's memory. Page 1 and 2 have the admin queue, 3 and 4 the other, 8 is for data.
pub(crate) struct Driver {
    pub client: Client,
    pub rings: DoorbellMethod,
    /// Where its memory is for the device: shared, or to be asked for.
    pub base: u64,
    pub tails: [u32; 2],
    pub heads: [u32; 2],
    pub phases: [bool; 2],
    pub next_id: u16,
}

pub(crate) const DATA: u64 = 16 * PAGE;

impl Driver {
    /// What a driver does before it has a queue.
    pub(crate) fn start(client: Client, base: u64, rings: DoorbellMethod) -> Driver {
        Driver::start_with_sets(client, base, rings, 0)
    }

    /// The same with a choice of command sets, in its place in CC.
    pub(crate) fn start_with_sets(client: Client, base: u64, rings: DoorbellMethod, sets: u32) -> Driver {
        let driver = Driver { client, rings, base, tails: [0; 2], heads: [0; 2], phases: [true; 2], next_id: 1 };
        for page in 1..6 {
            driver.memory().write_all_at(&[0; PAGE as usize], page * PAGE).unwrap();
        }
        let client = &driver.client;
        let high = client.register(4);
        assert_eq!(high & 0xff, 0x20);
        assert!(client.register(0) & 0xffff >= ENTRIES - 1, "the drive has to have queues as long as this driver's");
        assert_eq!((client.register(8), client.register(0x3c)), (0x0002_0000, 0));
        client.set_register(0x14, 0);
        driver.wait_for_status(0);
        client.set_register(0x24, (ENTRIES - 1) | (ENTRIES - 1) << 16);
        for (register, page) in [(0x28, 1), (0x30, 2)] {
            let address = base + page * PAGE;
            client.set_register(register, address as u32);
            client.set_register(register + 4, (address >> 32) as u32);
        }
        client.set_register(0x14, 1 | sets | 6 << 16 | 4 << 20);
        driver.wait_for_status(1);
        driver
    }

    pub(crate) fn wait_for_status(&self, ready: u32) {
        let until = Instant::now() + PATIENCE;
        while self.client.register(0x1c) & 3 != ready {
            assert!(Instant::now() < until, "the controller does not get ready");
        }
    }

    pub(crate) fn memory(&self) -> &File {
        if self.base == ISLAND { &self.client.island } else { &self.client.ram }
    }

    pub(crate) fn ring(&self, queue: usize) {
        match &self.rings {
            DoorbellMethod::Messages => {
                let at = 0x1000 + queue as u64 * 8;
                self.client.write_region_posted(0, at, &self.tails[queue].to_le_bytes());
                self.client.write_region_posted(0, at + 4, &self.heads[queue].to_le_bytes());
            }
            DoorbellMethod::Page(page) => {
                let both = u64::from(self.tails[queue]) | u64::from(self.heads[queue]) << 32;
                page.word(0x1000 + queue as u64 * 8).store(both, Ordering::Release);
            }
        }
    }

    pub(crate) fn submit(&mut self, queue: usize, opcode: u8, namespace: u32, prp: [u64; 2], dwords: [u32; 6]) -> u16 {
        let mut entry = [0; 64];
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        entry[0] = opcode;
        entry[2..4].copy_from_slice(&id.to_le_bytes());
        entry[4..8].copy_from_slice(&namespace.to_le_bytes());
        entry[24..32].copy_from_slice(&prp[0].to_le_bytes());
        entry[32..40].copy_from_slice(&prp[1].to_le_bytes());
        entry[40..].copy_from_slice(&words(&dwords));
        let at = (1 + 2 * queue as u64) * PAGE + u64::from(self.tails[queue]) * 64;
        self.memory().write_all_at(&entry, at).unwrap();
        self.tails[queue] = (self.tails[queue] + 1) % ENTRIES;
        self.ring(queue);
        id
    }

    pub(crate) fn answer(&mut self, queue: usize) -> CompletionEntry {
        let entry = self.peek_completion(queue);
        self.ring(queue);
        entry
    }

    /// The same without telling the device that it has been read.
    pub(crate) fn peek_completion(&mut self, queue: usize) -> CompletionEntry {
        let at = (2 + 2 * queue as u64) * PAGE + u64::from(self.heads[queue]) * 16;
        let until = Instant::now() + PATIENCE;
        let entry = loop {
            let mut bytes = [0; 16];
            self.memory().read_exact_at(&mut bytes, at).unwrap();
            let entry = CompletionEntry::decode(&bytes);
            if entry.phase == self.phases[queue] {
                break entry;
            }
            assert!(Instant::now() < until, "no answer comes");
            // If the server has to read guest memory over the socket, its requests are handled while a register is
            // read.
            if self.base == ISLAND {
                self.client.register(0x1c);
            } else {
                thread::yield_now();
            }
        };
        self.heads[queue] = (self.heads[queue] + 1) % ENTRIES;
        self.phases[queue] ^= self.heads[queue] == 0;
        entry
    }

    pub(crate) fn administer(&mut self, opcode: u8, namespace: u32, page: u64, dwords: [u32; 6]) -> CompletionEntry {
        let id = self.submit(0, opcode, namespace, [self.base + page * PAGE, 0], dwords);
        let answer = self.answer(0);
        assert_eq!((answer.command_id, answer.status), (id, Status::SUCCESS), "opcode {opcode:x}");
        answer
    }

    /// The order in which Linux does it.
    pub(crate) fn bring_up_like_linux(&mut self, vector: u16) {
        let data = DATA / PAGE;
        self.administer(admin::IDENTIFY, 0, data, [1, 0, 0, 0, 0, 0]);
        self.administer(admin::GET_LOG_PAGE, u32::MAX, data, [5 | 1023 << 16, 0, 0, 0, 0, 0]);
        self.administer(admin::GET_LOG_PAGE, u32::MAX, data, [2 | 127 << 16, 0, 0, 0, 0, 0]);
        assert_eq!(self.administer(admin::SET_FEATURES, 0, 0, [7, 0, 0, 0, 0, 0]).result, 0);
        let interrupts = 0b11 | u32::from(vector) << 16;
        let size = (ENTRIES - 1) << 16;
        self.administer(admin::CREATE_COMPLETION_QUEUE, 0, 4, [1 | size, interrupts, 0, 0, 0, 0]);
        self.administer(admin::CREATE_SUBMISSION_QUEUE, 0, 3, [1 | size, 1 | 1 << 16, 0, 0, 0, 0]);
        self.administer(admin::SET_FEATURES, 0, 0, [0x0b, 0x100, 0, 0, 0, 0]);
        self.submit(0, admin::ASYNC_EVENT_REQUEST, 0, [0; 2], [0; 6]);
        for (cns, namespace) in [(6, 0), (2, 0), (3, 1), (0, 1)] {
            self.administer(admin::IDENTIFY, namespace, data, [cns, 0, 0, 0, 0, 0]);
        }
        let mut page = [0; 8];
        self.memory().read_exact_at(&mut page, DATA).unwrap();
        assert_ne!(u64::from_le_bytes(page), 0);
    }

    pub(crate) fn transfer(&mut self, opcode: u8, slba: u64, blocks: u32) -> u16 {
        let data = self.base + DATA;
        self.submit(1, opcode, 1, [data, data + PAGE], [slba as u32, 0, blocks - 1, 0, 0, 0])
    }

    pub(crate) fn write(&mut self, slba: u64, bytes: &[u8]) {
        self.memory().write_all_at(bytes, DATA).unwrap();
        self.transfer(opcode::WRITE, slba, bytes.len() as u32 / 512);
        assert_eq!(self.answer(1).status, Status::SUCCESS);
    }

    pub(crate) fn read(&mut self, slba: u64, bytes: usize) -> Vec<u8> {
        self.memory().write_all_at(&vec![0xee; bytes], DATA).unwrap();
        self.transfer(opcode::READ, slba, bytes as u32 / 512);
        assert_eq!(self.answer(1).status, Status::SUCCESS);
        let mut found = vec![0; bytes];
        self.memory().read_exact_at(&mut found, DATA).unwrap();
        found
    }
}
