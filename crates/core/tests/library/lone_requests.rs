//! Lone requests against sums that are written out by hand from the constants of the drive file, to the picosecond.
//!
//! No sum calls the closed forms or a part of the simulator: each states the packets of its protocol, their bytes, and the times between them.
//! Software takes its mean time (`host.variation = 0`). Every sum is tried again after each of its constants has been changed, so that
//! a constant which it forgets or counts twice makes the test fail.

use crate::common::{drive, figures, ns, run};
use phaselink_core::drive::Drive;
use phaselink_core::time::Span;

/// Bytes that a packet takes beside its payload: start and end, sequence number, header of four double words, LCRC.
const REQUEST_BYTES: u32 = 24;
/// Bytes that a completion takes beside its payload: its header has three double words.
const COMPLETION_BYTES: u32 = 20;
/// Bytes of a register, of an interrupt message and of a status word.
const WORD_BYTES: u32 = 4;
const SUBMISSION_ENTRY_BYTES: u32 = 64;
const COMPLETION_ENTRY_BYTES: u32 = 16;
const PSS_DESCRIPTOR_BYTES: u32 = 32;
const PSS_RECORD_BYTES: u32 = 8;
const RAMDISK_COMMAND_BYTES: u32 = 24;

/// Wire time of some bytes, rounded up to a picosecond, on the generations that these tests use.
pub(crate) fn wire(drive: &Drive, bytes: u32) -> Span {
    let link = &drive.link;
    // Time in picoseconds for that number of bytes per lane: 8b/10b at 5 GT/s, 128b/130b at 16 GT/s. After every 1538
    // symbols (or 375 blocks), a skip ordered set takes 4 symbols (or 1 block).
    let (ps, lane_bytes, every, skip) = match link.generation {
        2 => (2_000, 1, 1538, 4),
        4 => (65_000, 128, 375, 1),
        other => panic!("generation {other} has no rate here"),
    };
    let bytes_of_link = lane_bytes * u64::from(link.lanes) * every;
    Span::from_ps((u64::from(bytes) * ps * (every + skip)).div_ceil(bytes_of_link))
}

/// A posted write of some bytes, from either end to the other.
fn posted_write_time(drive: &Drive, bytes: u32) -> Span {
    wire(drive, REQUEST_BYTES + bytes) + drive.link.one_way
}

/// A read of host memory by the device that is answered in one packet.
fn host_read_time(drive: &Drive, bytes: u32) -> Span {
    let request = wire(drive, REQUEST_BYTES) + drive.link.one_way;
    request + drive.root_complex.cache_read + wire(drive, COMPLETION_BYTES + bytes) + drive.link.one_way
}

/// The data of a write, which the device reads from host memory in whole packets that follow each other.
fn data_from_host_time(drive: &Drive, bytes: u32) -> Span {
    let link = &drive.link;
    let packet_bytes = if link.completion_bytes == 0 { link.max_payload_bytes } else { link.completion_bytes };
    let packets = u64::from(bytes / packet_bytes);
    let request = wire(drive, REQUEST_BYTES) + link.one_way;
    request + drive.root_complex.cache_read + wire(drive, COMPLETION_BYTES + packet_bytes) * packets + link.one_way
}

/// The data of a read, from the instant at which its first packet can leave until it is visible to the processor.
fn data_to_host_time(drive: &Drive, bytes: u32) -> Span {
    let payload_bytes = drive.link.max_payload_bytes;
    let packets = u64::from(bytes / payload_bytes);
    wire(drive, REQUEST_BYTES + payload_bytes) * packets + drive.link.one_way + drive.root_complex.write
}

/// Data on one bus of the memory.
fn memory_bus_time(drive: &Drive, bytes: u32) -> Span {
    ns(f64::from(bytes) / drive.media.bus_bytes_per_ns)
}

/// The software above the driver, on the way down and on the way back.
fn software(drive: &Drive) -> Span {
    drive.stack.stages.iter().map(|stage| stage.submit + stage.complete).sum()
}

/// Asserts that every lone request takes the sum, with the drive as it is and after each change of a constant.
fn assert_lone_request_sum(
    name: &str,
    set: &[&str],
    job: &str,
    bytes: u32,
    sum: fn(&Drive, u32) -> Span,
    changes: &[&str],
) {
    let base = sum(&drive(name, set), bytes);
    for change in std::iter::once(None).chain(changes.iter().map(Some)) {
        let set: Vec<&str> = set.iter().chain(change).copied().collect();
        let drive = drive(name, &set);
        let expected = sum(&drive, bytes);
        assert!(change.is_none() || expected != base, "{name}: {change:?} is no constant of the sum");
        let outcome = run(&drive, &format!("{job} bs={bytes} number_ios=10"));
        let found = &figures(&outcome).total;
        assert_eq!((found.min(), found.max()), (expected, expected), "{name} {job} {bytes} {set:?}");
    }
}

/// Constants of the link, the root complex and a thread that polls.
const SHARED: [&str; 6] = [
    "link.lanes=8",
    "link.one_way_ns=260",
    "root_complex.cache_read_ns=117",
    "root_complex.write_ns=23",
    "host.poll_ns=27",
    "host.mmio_write_ns=61",
];

fn with_shared(more: &[&'static str]) -> Vec<&'static str> {
    SHARED.iter().chain(more).copied().collect()
}

/// From the call to the parsed command: doorbell, and a read of the submission queue entry.
fn nvme_command(drive: &Drive) -> Span {
    let doorbell = drive.host.mmio_write + posted_write_time(drive, WORD_BYTES);
    software(drive) + doorbell + host_read_time(drive, SUBMISSION_ENTRY_BYTES) + drive.nvme.parse
}

/// From the completion queue entry in host memory to the end: a poll, and the doorbell of the completion queue.
fn nvme_completion_time(drive: &Drive) -> Span {
    drive.host.poll + drive.host.mmio_write
}

/// A write that programs one unit of one bank.
fn nvme_write_time(drive: &Drive, bytes: u32) -> Span {
    let media = drive.media.command + memory_bus_time(drive, bytes) + drive.media.program;
    let entry = posted_write_time(drive, COMPLETION_ENTRY_BYTES) + drive.root_complex.write;
    nvme_command(drive) + data_from_host_time(drive, bytes) + media + entry + nvme_completion_time(drive)
}

#[test]
fn lone_nvme_write_is_the_sum_of_its_parts() {
    let media = ["nvme.parse_ns=40", "media.command_ns=200", "media.program_ns=90000", "media.bus_bytes_per_ns=4"];
    for bytes in [512, 4096] {
        assert_lone_request_sum("nvme-polled", &[], "rw=randwrite", bytes, nvme_write_time, &with_shared(&media));
    }
}

/// Writes of DC Express take the way of NVMe, here without an operating system. Queue reads are on the wires too: with these
/// constants, none meets a packet of the write.
#[test]
fn lone_dc_express_write_is_the_sum_of_an_nvme_write() {
    let root_complex = ["root_complex.cache_read_ns=117", "root_complex.write_ns=23"];
    let others = ["host.poll_ns=27", "nvme.parse_ns=40", "media.program_ns=90000"];
    for bytes in [512, 4096] {
        let changes = [&root_complex[..], &others].concat();
        assert_lone_request_sum("dc-express", &["link.dllps=false"], "rw=randwrite", bytes, nvme_write_time, &changes);
    }
}

/// A write whose stripes lie on different banks of two channels: each channel's bus carries its half, stripe after stripe.
fn nvme_striped_write_time(drive: &Drive, bytes: u32) -> Span {
    nvme_write_time(drive, bytes) - memory_bus_time(drive, bytes) + memory_bus_time(drive, bytes / 2)
}

/// A read whose stripes lie on different banks of two channels with slow buses: its last packet leaves when its bytes have crossed the
/// bus, behind the half of the request that the same bus carries. The completion queue entry follows the data on the wire.
fn nvme_striped_read_time(drive: &Drive, bytes: u32) -> Span {
    let media = drive.media.command + drive.media.read + memory_bus_time(drive, bytes / 2);
    let last_packet = data_to_host_time(drive, drive.link.max_payload_bytes);
    nvme_command(drive)
        + media
        + last_packet
        + wire(drive, REQUEST_BYTES + COMPLETION_ENTRY_BYTES)
        + nvme_completion_time(drive)
}

#[test]
fn lone_striped_request_is_the_sum_of_its_parts() {
    let two_channels = ["media.stripe_bytes=512", "media.channels=2", "media.program_bytes=512"];
    let changes = with_shared(&["media.command_ns=200", "media.program_ns=90000", "media.bus_bytes_per_ns=4"]);
    assert_lone_request_sum("nvme-polled", &two_channels, "rw=randwrite", 4096, nvme_striped_write_time, &changes);
    let slow_buses: Vec<&str> = two_channels.into_iter().chain(["media.bus_bytes_per_ns=0.5"]).collect();
    let changes = ["media.command_ns=200", "media.read_ns=150", "media.bus_bytes_per_ns=0.25", "link.one_way_ns=260"];
    assert_lone_request_sum("nvme-polled", &slow_buses, "rw=randread", 4096, nvme_striped_read_time, &changes);
}

/// Bytes of an Ethernet frame beside the MTU (38), and of the headers of IPv4, TCP and its timestamps (52).
const FRAME_BYTES: u32 = 90;

/// A packet with this payload on a link of the network.
fn packet(drive: &Drive, payload_bytes: u32) -> Span {
    ns(f64::from(payload_bytes + FRAME_BYTES) * 8.0 / drive.fabric.link_gbit_per_s)
}

/// The payload of a packet on a NIC's PCI Express link, in packets with headers as any write has.
fn nic_packet_time(drive: &Drive, payload_bytes: u32) -> Span {
    let mut nic = drive.clone();
    (nic.link.generation, nic.link.lanes) = (drive.fabric.nic_generation, drive.fabric.nic_lanes);
    wire(&nic, payload_bytes + payload_bytes.div_ceil(drive.link.max_payload_bytes) * REQUEST_BYTES)
}

/// A message from one memory to the other, whose packets follow each other on the network's links, which are slower than DMA: a
/// doorbell, a read by the NIC, the packets, each stored and forwarded once, and a write by the other NIC.
fn message(drive: &Drive, bytes: u32) -> Span {
    let payload_bytes = drive.fabric.mtu_bytes - 52;
    let others = u64::from(bytes.div_ceil(payload_bytes) - 1);
    let first = if others > 0 { payload_bytes } else { bytes };
    let last = bytes - payload_bytes * bytes.div_ceil(payload_bytes).saturating_sub(1);
    let fetch =
        drive.link.one_way * 3 + drive.root_complex.cache_read + nic_packet_time(drive, first) + drive.fabric.nic;
    let link = packet(drive, payload_bytes) * others + packet(drive, last) + drive.fabric.propagation;
    let port = match drive.fabric.switch.is_zero() {
        true => Span::ZERO,
        // A short last packet waits at the port for the longer packet before it.
        false => drive.fabric.switch + packet(drive, first) + drive.fabric.propagation,
    };
    fetch
        + link
        + port
        + drive.fabric.nic
        + nic_packet_time(drive, last)
        + drive.link.one_way
        + drive.root_complex.write
}

/// From the call to the command in the drive's parser: the initiator's software, the capsule, and the target's core.
fn remote_command_time(drive: &Drive, capsule_bytes: u32) -> Span {
    let fabric = &drive.fabric;
    let initiator = software(drive) + fabric.initiator_submit;
    let target = fabric.target_wake + fabric.target_command;
    let fetched =
        posted_write_time(drive, WORD_BYTES) + host_read_time(drive, SUBMISSION_ENTRY_BYTES) + drive.nvme.parse;
    initiator + message(drive, capsule_bytes) + target + fetched
}

/// From the completion queue entry in the target's memory to the end: the target's core, the response, and the initiator.
fn remote_completion_time(drive: &Drive, response_bytes: u32) -> Span {
    let fabric = &drive.fabric;
    let target = fabric.target_notice + fabric.target_response;
    target + message(drive, response_bytes) + drive.host.poll + fabric.initiator_receive
}

/// A remote read of one stripe: its last packet leaves the drive when its bytes have crossed the bus.
fn remote_read_time(drive: &Drive, bytes: u32) -> Span {
    let media = drive.media.command + drive.media.read + memory_bus_time(drive, bytes);
    let last_packet = data_to_host_time(drive, drive.link.max_payload_bytes);
    let in_drive = media + last_packet + wire(drive, REQUEST_BYTES + COMPLETION_ENTRY_BYTES);
    let copy = ns(f64::from(bytes) / drive.fabric.initiator_copy_bytes_per_ns);
    let segments = drive.fabric.target_segment * u64::from(bytes.div_ceil(drive.fabric.mtu_bytes - 52));
    remote_command_time(drive, 72) + in_drive + segments + remote_completion_time(drive, 24 + bytes + 24) + copy
}

/// A remote write: its data travels with the command up to `in_capsule_bytes`, otherwise behind an R2T that the initiator answers.
fn remote_write_time(drive: &Drive, bytes: u32) -> Span {
    let fabric = &drive.fabric;
    let is_small = bytes <= fabric.in_capsule_bytes;
    let (capsule_bytes, asked) = match is_small {
        true => (72 + bytes, Span::ZERO),
        false => (72, message(drive, 24) + fabric.initiator_receive + message(drive, 24 + bytes) + fabric.target_wake),
    };
    let received = ns(f64::from(bytes) / fabric.target_copy_bytes_per_ns)
        + fabric.target_segment * u64::from(bytes.div_ceil(fabric.mtu_bytes - 52));
    let media = drive.media.command + memory_bus_time(drive, bytes) + drive.media.program;
    let entry = posted_write_time(drive, COMPLETION_ENTRY_BYTES) + drive.root_complex.write;
    let in_drive = data_from_host_time(drive, bytes) + media + entry;
    remote_command_time(drive, capsule_bytes) + asked + received + in_drive + remote_completion_time(drive, 24)
}

#[test]
fn lone_remote_request_is_the_sum_of_its_parts() {
    let network = [
        "fabric.transport=tcp",
        "fabric.link_gbit_per_s=2",
        "fabric.nic_generation=4",
        "fabric.initiator_submit_ns=2100",
        "fabric.initiator_receive_ns=1900",
        "fabric.target_wake_ns=7000",
        "fabric.target_notice_ns=1300",
        "fabric.target_command_ns=4100",
        "fabric.target_response_ns=3700",
        "fabric.target_segment_ns=200",
        "fabric.target_copy_bytes_per_ns=5",
        "fabric.in_capsule_bytes=512",
    ];
    let changes = [
        "link.lanes=8",
        "link.one_way_ns=260",
        "root_complex.cache_read_ns=117",
        "root_complex.write_ns=23",
        "host.poll_ns=27",
        "fabric.link_gbit_per_s=2.5",
        "fabric.mtu_bytes=1400",
        "fabric.propagation_ns=90",
        "fabric.switch_ns=700",
        "fabric.nic_ns=333",
        "fabric.nic_lanes=8",
        "fabric.initiator_submit_ns=1000",
        "fabric.initiator_receive_ns=1000",
        "fabric.target_wake_ns=9000",
        "fabric.target_notice_ns=500",
        "fabric.target_command_ns=3000",
        "fabric.target_response_ns=3000",
        "fabric.target_segment_ns=100",
    ];
    let set: Vec<&str> =
        network.into_iter().chain(["fabric.initiator_copy_bytes_per_ns=6", "media.bus_bytes_per_ns=0.5"]).collect();
    let of_reads = [&changes[..], &["fabric.initiator_copy_bytes_per_ns=3", "media.read_ns=150"]].concat();
    let single_packet = |change: &&&str| !change.contains("mtu_bytes");
    let alike: Vec<&str> = of_reads.iter().filter(single_packet).copied().collect();
    assert_lone_request_sum("nvme-polled", &set, "rw=randread", 512, remote_read_time, &alike);
    let of_writes = [&changes[..], &["fabric.target_copy_bytes_per_ns=3", "media.program_ns=90000"]].concat();
    let alike: Vec<&str> = of_writes.iter().filter(single_packet).copied().collect();
    assert_lone_request_sum("nvme-polled", &network, "rw=randwrite", 512, remote_write_time, &alike);
    assert_lone_request_sum("nvme-polled", &network, "rw=randwrite", 4096, remote_write_time, &of_writes);
}

/// From the call to the firmware: a register, and a read of the descriptor.
fn pss_command_time(drive: &Drive) -> Span {
    let register = drive.host.mmio_write + posted_write_time(drive, WORD_BYTES);
    software(drive) + register + host_read_time(drive, PSS_DESCRIPTOR_BYTES) + drive.pss.firmware
}

/// From the last record to the end: an interrupt message behind the record, its handler, and a switch to the thread.
fn pss_completion_time(drive: &Drive) -> Span {
    let message = wire(drive, REQUEST_BYTES + WORD_BYTES);
    message + drive.host.interrupt + drive.host.interrupt_handler + drive.host.context_switch
}

/// Clocks of a bus for the three chips of a sector that sit on each bus: command and address, dummy clocks, and 64 bytes a chip.
fn pss_chip_time(drive: &Drive, dummy_clocks: u16) -> Span {
    let bits = f64::from(drive.media.bus_bits_per_clock);
    let clocks = f64::from(drive.media.command_clocks + dummy_clocks) + f64::from(drive.media.chip_bytes) * 8.0 / bits;
    ns(3.0 * clocks * bits / 8.0 / drive.media.bus_bytes_per_ns)
}

/// A read of up to eight sectors, each on a channel of its own.
fn pss_read_time(drive: &Drive, bytes: u32) -> Span {
    let media = pss_chip_time(drive, drive.media.dummy_clocks) + drive.media.ecc_decode;
    let record = wire(drive, REQUEST_BYTES + PSS_RECORD_BYTES);
    pss_command_time(drive) + media + data_to_host_time(drive, bytes) + record + pss_completion_time(drive)
}

/// A write of up to eight sectors, each on a channel of its own, that is complete when the cells are programmed.
fn pss_write_time(drive: &Drive, bytes: u32) -> Span {
    let media = pss_chip_time(drive, 0) + drive.media.program;
    let record = posted_write_time(drive, PSS_RECORD_BYTES) + drive.root_complex.write;
    pss_command_time(drive) + data_from_host_time(drive, bytes) + media + record + pss_completion_time(drive)
}

#[test]
fn lone_pss_request_is_the_sum_of_its_parts() {
    // Disable background work of the card's memory and moves of wear levelling, so that the request is alone.
    let alone = ["pss.cache_pages=0", "pss.prefetch_pages=0", "media.acknowledge=late", "media.wear_levelling=none"];
    let host = [
        "pss.firmware_ns=9000",
        "host.interrupt_ns=1500",
        "host.interrupt_handler_ns=700",
        "host.context_switch_ns=900",
    ];
    let reads = [&host[..], &["media.ecc_decode_ns=30", "media.dummy_clocks=16", "media.command_clocks=40"]].concat();
    let writes = [&host[..], &["media.program_ns=90000", "media.command_clocks=40", "link.lanes=8"]].concat();
    for bytes in [512, 4096] {
        assert_lone_request_sum("pss", &alone, "rw=randread", bytes, pss_read_time, &reads);
        assert_lone_request_sum("pss", &alone, "rw=randwrite", bytes, pss_write_time, &writes);
    }
}

/// From the call to the parsed command, which is what the doorbell holds.
fn ramdisk_command_time(drive: &Drive) -> Span {
    software(drive) + drive.host.mmio_write + posted_write_time(drive, RAMDISK_COMMAND_BYTES) + drive.ramdisk.parse
}

/// A read of one bank, whose first packet waits for its own bytes and whose others follow on the slower wire.
fn ramdisk_read_time(drive: &Drive, bytes: u32) -> Span {
    let first_packet = drive.media.command + drive.media.read + memory_bus_time(drive, drive.link.max_payload_bytes);
    let status = wire(drive, REQUEST_BYTES + WORD_BYTES);
    ramdisk_command_time(drive) + first_packet + data_to_host_time(drive, bytes) + status + drive.host.poll
}

fn ramdisk_write_time(drive: &Drive, bytes: u32) -> Span {
    let media = drive.media.command + memory_bus_time(drive, bytes) + drive.media.program;
    let status = posted_write_time(drive, WORD_BYTES) + drive.root_complex.write;
    ramdisk_command_time(drive) + data_from_host_time(drive, bytes) + media + status + drive.host.poll
}

#[test]
fn lone_ramdisk_request_is_the_sum_of_its_parts() {
    let reads = ["ramdisk.parse_ns=40", "media.read_ns=150", "host.mmio_write_ns=61", "host.poll_ns=27"];
    let writes = with_shared(&["ramdisk.parse_ns=40", "media.program_ns=90000"]);
    for bytes in [512, 4096] {
        assert_lone_request_sum("ramdisk", &[], "rw=randread", bytes, ramdisk_read_time, &reads);
        assert_lone_request_sum("ramdisk", &[], "rw=randwrite", bytes, ramdisk_write_time, &writes);
    }
}

/// A read from a page of flash whose cells take `cells`: its last packet leaves when the whole has crossed the bus and the decoder.
fn flash_read_time(drive: &Drive, bytes: u32, cells: Span) -> Span {
    let firmware = drive.controller.read_core + drive.controller.read_pipeline;
    let media = drive.media.command + cells + memory_bus_time(drive, bytes) + drive.media.ecc_decode;
    let last_packet = data_to_host_time(drive, drive.link.max_payload_bytes);
    let entry = wire(drive, REQUEST_BYTES + COMPLETION_ENTRY_BYTES);
    nvme_command(drive) + firmware + media + last_packet + entry + nvme_completion_time(drive)
}

#[test]
fn lone_flash_read_is_the_sum_for_its_page_type() {
    for (lower, centre, upper) in
        [(30_000, 30_000, 30_000), (50_000, 30_000, 30_000), (30_000, 50_000, 30_000), (30_000, 30_000, 50_000)]
    {
        let kinds = [("read_ns", lower), ("read_centre_ns", centre), ("read_upper_ns", upper)];
        let set = kinds.map(|(key, ns)| format!("media.{key}={ns}"));
        let drive = drive("tlc-gen4", &set.each_ref().map(String::as_str));
        let cells = [drive.media.read, drive.media.read_centre, drive.media.read_upper];
        let sums = cells.map(|cells| flash_read_time(&drive, 4096, cells));
        let outcome = run(&drive, "rw=randread bs=4k number_ios=100");
        let found = &figures(&outcome).total;
        assert_eq!(Some(found.min()), sums.into_iter().min(), "{set:?}");
        assert_eq!(Some(found.max()), sums.into_iter().max(), "{set:?}");
    }
}

/// A write that a flash drive acknowledges from its write buffer.
fn flash_write_time(drive: &Drive, bytes: u32) -> Span {
    let buffer = drive.buffer.command + drive.buffer.page * u64::from(bytes / 4096);
    let entry = posted_write_time(drive, COMPLETION_ENTRY_BYTES) + drive.root_complex.write;
    let data = data_from_host_time(drive, bytes) + drive.controller.write_core;
    nvme_command(drive) + data + buffer + entry + nvme_completion_time(drive)
}

#[test]
fn lone_flash_write_is_the_sum_of_its_buffer_path() {
    let changes = with_shared(&["controller.write_core_ns=1700", "buffer.command_ns=2000", "buffer.page_ns=500"]);
    assert_lone_request_sum("tlc-gen4", &[], "rw=randwrite", 4096, flash_write_time, &changes);
}
