//! A device that says when commands are over, played by the test: its client waits for that, and no longer.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use phaselink_client::chunk::{self, COMMAND_WORDS};
use phaselink_client::shared::memory::Memory;
use phaselink_client::shared::{clock, socket};
use phaselink_client::{Client, Options};
use phaselink_ring::command::{Command, FIRST_PASS};
use phaselink_ring::greeting::{HELLO_BYTES, Hello, ServerWelcomeMessage};
use phaselink_ring::layout::{self, words};
use phaselink_ring::status::Status;
use phaselink_ring::trailer::TagWidth;

/// Serve one client, who asks once; its answer is there at once, and is over so long after it was asked.
fn serve_once(listener: &UnixListener, latency: Duration, status: Status) {
    let (socket, _) = listener.accept().unwrap();
    let mut message = [0; HELLO_BYTES];
    socket::receive(socket.as_fd(), &mut message).unwrap();
    let hello = Hello::decode(&message).unwrap();
    let (capacity_bytes, block_bytes, tag_width, layout) = (1 << 20, 512, TagWidth::Bits32, hello.layout);
    let welcome = ServerWelcomeMessage {
        capacity_bytes,
        block_bytes,
        tag_width,
        layout,
        writes: true,
        doorbells: false,
        modelled: true,
    };
    let (memory, fd) = Memory::create(layout.memory_bytes()).unwrap();
    socket::send(socket.as_fd(), &ServerWelcomeMessage::encode(Ok(welcome)), Some(fd.as_fd())).unwrap();
    let places = layout.places(0);
    let bytes = loop {
        if let Some(bytes) = chunk::take(memory.words(places.entry(0), COMMAND_WORDS), FIRST_PASS) {
            break bytes;
        }
        thread::yield_now();
    };
    let command = Command::decode(&bytes).unwrap();
    assert!((1..=clock::now_ns()).contains(&layout::load_submission_time_ns(&bytes)));
    let slot = command.slot.into();
    chunk::deliver(memory.words(places.buffer(slot), words(command.bytes)), &vec![7; command.bytes as usize]);
    memory.word(places.latency(slot)).store(latency.as_nanos() as u64, Ordering::Relaxed);
    memory.word(places.status(slot)).store(status.word(command.attempt), Ordering::Release);
}

/// Time that a read takes with this modelled latency.
fn read(test: &str, latency: Duration, status: Status) -> (Duration, bool) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("timed-{test}.sock"));
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| serve_once(&listener, latency, status));
        let mut queue = Client::connect(&path, &Options::default()).unwrap().take_queue().unwrap();
        let (asked, mut data) = (Instant::now(), [0; 4096]);
        let result = queue.read(0, &mut data);
        let elapsed = asked.elapsed();
        assert!(result.is_err() || data == [7; 4096]);
        (elapsed, result.is_ok())
    })
}

#[test]
fn early_data_is_delivered_at_its_due_time() {
    let latency = Duration::from_millis(20);
    let (elapsed, is_fine) = read("due", latency, Status::Success);
    // The measured time includes the two calls that read the clock.
    assert!(is_fine && elapsed >= latency, "{elapsed:?}");
}

#[test]
fn overdue_and_failed_requests_are_not_waited_for() {
    let second = Duration::from_secs(1);
    assert!(read("over", Duration::ZERO, Status::Success).0 < second);
    let (elapsed, is_fine) = read("failed", 10 * second, Status::Failed);
    assert!(!is_fine && elapsed < second, "{elapsed:?}");
}
