//! Optional commands of NVMe, as a driver meets them: unreadable blocks and what a controller says of itself.

#[allow(dead_code)]
#[path = "common/nvme_bench.rs"]
mod nvme_bench;

use nvme_bench::{Bench, DATA, Fields, GEOMETRY, LIMITS, transfer};
use phaselink_core::protocol::nvme::spec::{Status, admin, opcode};
use phaselink_serve::device::store::Store;
use phaselink_serve::nvme::{Controller, Identity};

fn u16_at(page: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([page[at], page[at + 1]])
}

/// The entry of a command in the log page of command effects: 1024 bytes further for I/O commands.
fn effects(bench: &mut Bench, place: usize) -> u8 {
    let fields = Fields { opcode: admin::GET_LOG_PAGE, prp: [DATA, 0], ..Fields::default() };
    assert_eq!(bench.administer(Fields { dwords: [5 | 1023 << 16, 0, 0, 0, 0, 0], ..fields }).status, Status::SUCCESS);
    bench.machine.memory[DATA as usize + place]
}

/// NVM Command Set Specification 1.0, section 3.2.7.
#[test]
fn blocks_written_uncorrectable_cannot_be_read_until_they_are_written() {
    let mut bench = Bench::new();
    assert_eq!(u16_at(&bench.identify(1, 0).1, 520) >> 1 & 1, 1, "ONCS");
    assert_eq!(effects(&mut bench, 1024 + 4 * usize::from(opcode::WRITE_UNCORRECTABLE)), 0b11);
    let status = |bench: &mut Bench, opcode, slba, blocks| bench.ask(transfer(opcode, slba, blocks, [DATA, 0])).status;
    assert_eq!(status(&mut bench, opcode::WRITE_UNCORRECTABLE, 10, 4), Status::SUCCESS);
    for (opcode, slba, blocks) in
        [(opcode::READ, 10, 1), (opcode::READ, 8, 8), (opcode::COMPARE, 13, 1), (opcode::VERIFY, 0, 64)]
    {
        assert_eq!(status(&mut bench, opcode, slba, blocks), Status::UNRECOVERED_READ_ERROR, "{opcode:x} {slba}");
    }
    assert_eq!(status(&mut bench, opcode::READ, 6, 4), Status::SUCCESS);
    assert_eq!(status(&mut bench, opcode::READ, 14, 8), Status::SUCCESS);
    assert_eq!(status(&mut bench, opcode::WRITE, 10, 2), Status::SUCCESS);
    assert_eq!(status(&mut bench, opcode::READ, 10, 2), Status::SUCCESS);
    assert_eq!(status(&mut bench, opcode::READ, 12, 1), Status::UNRECOVERED_READ_ERROR);
    assert_eq!(status(&mut bench, opcode::WRITE_ZEROES, 12, 1), Status::SUCCESS);
    assert_eq!(status(&mut bench, opcode::READ, 12, 1), Status::SUCCESS);
    let ends = nvme_bench::BLOCKS;
    assert_eq!(status(&mut bench, opcode::WRITE_UNCORRECTABLE, ends - 1, 2), Status::LBA_OUT_OF_RANGE);
    let elsewhere = Fields { namespace: 2, ..transfer(opcode::WRITE_UNCORRECTABLE, 0, 1, [0, 0]) };
    assert_eq!(bench.ask(elsewhere).status, Status::INVALID_NAMESPACE);
    // A reset of the controller changes no data.
    bench.set(0x14, 0);
    bench.enable();
    assert!(bench.store.read(13 * 512, &mut [0; 512]).is_err());
}

#[test]
fn atomic_write_units_are_those_of_the_drive() {
    let mut bench = Bench::off();
    bench.controller = Controller::new(Identity::new("test", LIMITS, 0).with_atomic_bytes(4096));
    bench.store = Store::in_memory(GEOMETRY).unwrap();
    bench.enable();
    let (controller, namespace) = (bench.identify(1, 0).1, bench.identify(0, 1).1);
    assert_eq!((u16_at(&controller, 526), u16_at(&controller, 528)), (7, 7), "AWUN, AWUPF");
    assert_eq!((namespace[24] & 2, [34, 36, 40, 44].map(|at| u16_at(&namespace, at))), (2, [7; 4]));
    let namespace = Bench::enabled().identify(0, 1).1;
    assert_eq!((namespace[24] & 2, [34, 36, 40, 44].map(|at| u16_at(&namespace, at))), (0, [0; 4]));
}
