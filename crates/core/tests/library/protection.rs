//! Drives whose blocks have protection information: what its transfer costs, and which drives cannot have any.

use crate::common::{STEADY, drive, figures, run};
use crate::lone_requests::wire;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{KeyOverride, shipped};
use phaselink_core::time::Span;

/// Bytes that a packet of the device takes beside its payload.
const REQUEST_BYTES: u32 = 24;

fn drive_with_protection_information(set: &[&str]) -> Drive {
    drive("nvme-polled", &[&["nvme.protection=type1"], set].concat())
}

fn single_request_latency(drive: &Drive, direction: &str, bytes: u32) -> Span {
    let job = format!("rw={direction} bs={bytes} size=16m iodepth=1 number_ios=1");
    figures(&run(drive, &job)).total.min()
}

#[test]
fn metadata_of_a_single_read_adds_wire_time_before_its_completion_entry() {
    for (bytes, block_bytes) in [(512, 512), (4096, 512), (4096, 4096), (8192, 512)] {
        let block = format!("nvme.block_bytes={block_bytes}");
        let plain = drive("nvme-polled", &[&block]);
        let metadata = wire(&plain, REQUEST_BYTES + 8 * bytes / block_bytes);
        let expected = single_request_latency(&plain, "randread", bytes);
        assert_eq!(
            single_request_latency(&drive_with_protection_information(&[&block]), "randread", bytes),
            expected + metadata,
            "{bytes} {block_bytes}"
        );
        let by_controller = drive_with_protection_information(&[&block, "nvme.protection_by=controller"]);
        assert_eq!(single_request_latency(&by_controller, "randread", bytes), expected, "{bytes} {block_bytes}");
    }
}

#[test]
fn write_metadata_adds_latency_unless_the_controller_inserts_it() {
    for bytes in [512, 4096, 65_536] {
        let expected = single_request_latency(&drive("nvme-polled", &[]), "randwrite", bytes);
        let by_host = single_request_latency(&drive_with_protection_information(&[]), "randwrite", bytes);
        let by_controller = single_request_latency(
            &drive_with_protection_information(&["nvme.protection_by=controller"]),
            "randwrite",
            bytes,
        );
        assert_eq!(by_controller, expected, "{bytes}");
        assert!(by_host > expected && by_host < expected + Span::from_ns(1_000), "{bytes}: {by_host:?} {expected:?}");
    }
}

#[test]
fn queued_protected_writes_complete_with_all_protection_types_and_lists() {
    for set in ["nvme.protection=type2", "nvme.protection=type3", "nvme.data_pointer=sgl", "nvme.max_transfer_kib=16"] {
        let outcome =
            run(&drive_with_protection_information(&[set]), "rw=randrw bs=64k size=16m iodepth=32 number_ios=256");
        assert_eq!(outcome.ios(), 256, "{set}");
    }
}

#[test]
fn protection_information_needs_blocks_with_metadata() {
    let nvme = shipped::find("nvme").expect("a shipped drive");
    for (set, found) in [
        (&["nvme.block_bytes=256"][..], "nvme.protection is set with blocks of less than 512 bytes"),
        (&["zones.size_mib=64"], "nvme.protection is set in a drive with zones"),
        (&["key_value.value_max_kib=64"], "nvme.protection is set in a drive with keys and values"),
    ] {
        let all = [STEADY, "nvme.protection=type1"].iter().chain(set).map(|text| KeyOverride::parse(text).unwrap());
        let refused = Drive::from_toml(nvme.file, nvme.text, &all.collect::<Vec<_>>()).unwrap_err().to_string();
        assert!(refused.contains(found), "{set:?}: {refused}");
    }
}
