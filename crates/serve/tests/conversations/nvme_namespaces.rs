//! Several namespaces and scatter-gather lists, as a driver of NVMe meets them.

use crate::nvme_bench::{Bench, DATA, Fields, LIMITS, LISTS, PAGE, transfer, u64_at};
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::spec::{Status, admin};

const NAMESPACES: u32 = 4;
const BLOCKS: u64 = crate::nvme_bench::BLOCKS / NAMESPACES as u64;

fn bench() -> Bench {
    Bench::with(LIMITS.divided(NAMESPACES))
}

fn fill(bench: &mut Bench, namespace: u32, slba: u64, byte: u8) -> Status {
    bench.machine.memory[DATA as usize..][..512].fill(byte);
    bench.ask(Fields { namespace, ..transfer(opcode::WRITE, slba, 1, [DATA, 0]) }).status
}

fn read(bench: &mut Bench, namespace: u32, slba: u64) -> u8 {
    bench.machine.memory[DATA as usize..][..512].fill(0xee);
    assert_eq!(bench.ask(Fields { namespace, ..transfer(opcode::READ, slba, 1, [DATA, 0]) }).status, Status::SUCCESS);
    bench.machine.memory[DATA as usize]
}

#[test]
fn identify_lists_and_describes_all_namespaces() {
    let mut bench = bench();
    let (_, controller) = bench.identify(1, 0);
    assert_eq!(controller[516..520], NAMESPACES.to_le_bytes());
    let list = |bench: &mut Bench, above| {
        let (status, page) = bench.identify(2, above);
        assert_eq!(status, Status::SUCCESS);
        let ids = page.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id));
        ids.take_while(|id| *id > 0).collect::<Vec<_>>()
    };
    assert_eq!((list(&mut bench, 0), list(&mut bench, 2), list(&mut bench, 4)), (vec![1, 2, 3, 4], vec![3, 4], vec![]));
    let mut names = Vec::new();
    for namespace in 1..=NAMESPACES {
        let (status, page) = bench.identify(0, namespace);
        assert_eq!((status, u64_at(&page, 0), u64_at(&page, 8)), (Status::SUCCESS, BLOCKS, BLOCKS));
        names.push(bench.identify(3, namespace).1[4..20].to_vec());
    }
    names.dedup();
    assert_eq!(names.len(), NAMESPACES as usize, "each has a name of its own");
    for (cns, namespace) in [(0, 0), (0, 5), (3, 5), (8, 5), (5, u32::MAX), (2, u32::MAX - 1)] {
        assert_eq!(bench.identify(cns, namespace).0, Status::INVALID_NAMESPACE, "{cns} {namespace}");
    }
}

#[test]
fn namespaces_have_disjoint_blocks_and_limits() {
    let mut bench = bench();
    for namespace in 1..=NAMESPACES {
        for slba in [0, BLOCKS - 1] {
            assert_eq!(fill(&mut bench, namespace, slba, namespace as u8 * 2 + (slba > 0) as u8), Status::SUCCESS);
        }
        assert_eq!(fill(&mut bench, namespace, BLOCKS, 0xff), Status::LBA_OUT_OF_RANGE);
    }
    for namespace in [0, NAMESPACES + 1, u32::MAX] {
        assert_eq!(fill(&mut bench, namespace, 0, 0xff), Status::INVALID_NAMESPACE);
    }
    for namespace in 1..=NAMESPACES {
        assert_eq!(read(&mut bench, namespace, 0), namespace as u8 * 2);
        assert_eq!(read(&mut bench, namespace, BLOCKS - 1), namespace as u8 * 2 + 1);
    }
    for namespace in [2, u32::MAX] {
        assert_eq!(bench.ask(Fields { namespace, opcode: opcode::FLUSH, ..Fields::default() }).status, Status::SUCCESS);
    }
}

#[test]
fn deallocate_and_copy_stay_within_their_namespace() {
    let mut bench = bench();
    for namespace in 1..=NAMESPACES {
        (0..8).for_each(|slba| assert_eq!(fill(&mut bench, namespace, slba, 7), Status::SUCCESS));
    }
    let list = |bench: &mut Bench, words: &[u32]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bench.machine.memory[DATA as usize..][..bytes.len()].copy_from_slice(&bytes);
    };
    list(&mut bench, &[0, 8, 0, 0]);
    let deallocate = Fields { opcode: opcode::DATASET_MANAGEMENT, namespace: 3, prp: [DATA, 0], ..Fields::default() };
    let deallocate = Fields { dwords: [0, 4, 0, 0, 0, 0], ..deallocate };
    assert_eq!(bench.ask(deallocate).status, Status::SUCCESS);
    let kept = |bench: &mut Bench| [1, 2, 3, 4].map(|namespace| read(bench, namespace, 7));
    assert_eq!(kept(&mut bench), [7, 7, 0, 7]);
    assert_eq!(fill(&mut bench, 2, 0, 9), Status::SUCCESS);
    list(&mut bench, &[0, 0, 0, 0, 0, 0, 0, 0]);
    let copy = Fields { opcode: opcode::COPY, namespace: 2, prp: [DATA, 0], ..Fields::default() };
    assert_eq!(bench.ask(Fields { dwords: [7, 0, 0, 0, 0, 0], ..copy }).status, Status::SUCCESS);
    assert_eq!(kept(&mut bench), [7, 9, 0, 7]);
}

#[test]
fn one_or_all_namespaces_can_be_formatted() {
    let mut bench = bench();
    (1..=NAMESPACES).for_each(|namespace| assert_eq!(fill(&mut bench, namespace, BLOCKS - 1, 7), Status::SUCCESS));
    let format = |namespace| Fields { opcode: admin::FORMAT_NVM, namespace, ..Fields::default() };
    let kept = |bench: &mut Bench| [1, 2, 3, 4].map(|namespace| read(bench, namespace, BLOCKS - 1));
    assert_eq!(bench.administer(format(3)).status, Status::SUCCESS);
    assert_eq!(kept(&mut bench), [7, 7, 0, 7]);
    assert_eq!(bench.administer(format(5)).status, Status::INVALID_NAMESPACE);
    assert_eq!(bench.administer(format(u32::MAX)).status, Status::SUCCESS);
    assert_eq!(kept(&mut bench), [0; 4]);
}

/// Data in three pieces at any address, described in two segments.
#[test]
fn sgl_segments_scatter_and_gather_data() {
    let mut bench = Bench::new();
    assert_eq!(bench.identify(1, 0).1[536..540], [1, 0, 2, 0], "SGLS");
    let pieces = [(DATA + 3, 100_u64), (DATA + PAGE, 900), (DATA + 3 * PAGE + 1, 24)];
    let block = |(address, bytes): (u64, u64)| [address, bytes];
    let segments = [vec![block(pieces[0]), [LISTS + 512, 3 << 60 | 32]], vec![block(pieces[1]), block(pieces[2])]];
    for (place, segment) in segments.iter().enumerate() {
        let bytes: Vec<u8> = segment.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
        bench.machine.memory[LISTS as usize + place * 512..][..bytes.len()].copy_from_slice(&bytes);
    }
    let data: Vec<u8> = (0..1024).map(|place| (place % 251) as u8).collect();
    let mut rest = &data[..];
    for (address, bytes) in pieces {
        let (piece, others) = rest.split_at(bytes as usize);
        bench.machine.memory[address as usize..][..piece.len()].copy_from_slice(piece);
        rest = others;
    }
    let gather = |opcode| Fields { flags: 0x40, ..transfer(opcode, 5, 2, [LISTS, 2 << 60 | 32]) };
    assert_eq!(bench.ask(gather(opcode::WRITE)).status, Status::SUCCESS);
    let mut held = vec![0; 1024];
    bench.store.read(5 * 512, &mut held).unwrap();
    assert!(held == data);
    pieces.iter().for_each(|(address, bytes)| bench.machine.memory[*address as usize..][..*bytes as usize].fill(0));
    assert_eq!(bench.ask(gather(opcode::READ)).status, Status::SUCCESS);
    let found: Vec<u8> = pieces
        .iter()
        .flat_map(|(address, bytes)| bench.machine.memory[*address as usize..][..*bytes as usize].to_vec())
        .collect();
    assert!(found == data);
    assert_eq!(bench.ask(gather(opcode::COMPARE)).status, Status::SUCCESS);
    // The data block is one byte too short. Admin commands must not use SGLs at all (section 4.1.2).
    let short = Fields { flags: 0x40, ..transfer(opcode::READ, 5, 2, [DATA, 1023]) };
    assert_eq!(bench.ask(short).status, Status::INVALID_SGL_LENGTH);
    let identify = Fields { opcode: admin::IDENTIFY, flags: 0x40, prp: [DATA, 4096], ..Fields::default() };
    let identify = Fields { dwords: [1, 0, 0, 0, 0, 0], ..identify };
    assert_eq!(bench.administer(identify).status, Status::INVALID_FIELD);
}
