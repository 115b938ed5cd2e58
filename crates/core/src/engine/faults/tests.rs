//! Tests of the contents of the memory after faults.

use crate::config::{Fault, FaultAction};
use crate::data::check::{BLOCK_BYTES, generate};
use crate::drive::Drive;
use crate::drive_file::shipped;
use crate::simulation::Simulation;
use crate::workload::fio;

const SEED: u64 = 1;

/// Returns the first bytes of a drive after a single write to its beginning that a fault has matched.
fn bytes_after_faulty_write(drive: &Drive, action: FaultAction, bytes: u32) -> Vec<u8> {
    let mut drive = drive.clone();
    drive.faults = vec![Fault { action, ..Fault::default() }];
    let bytes_text = bytes.to_string();
    let job = fio::job_from_flags(&[("rw", "write"), ("bs", &bytes_text), ("number_ios", "1")]).unwrap();
    let jobs = job.resolve(&drive.limits(), &Default::default()).unwrap();
    let mut simulation = Simulation::with_data(&drive, &jobs, SEED).unwrap();
    while simulation.step(1 << 20) {}
    let outcome = simulation.outcome();
    assert_eq!((outcome.failed(), outcome.ios()), (1, 0), "{}", drive.name);
    let mut found = vec![0; bytes as usize];
    simulation.engine_mut().devices[0].data.as_ref().unwrap().contents.read(0, &mut found);
    found
}

/// Returns the bytes of a drive after its first write, of which only the first `there_bytes` are there, and then zeros.
fn torn_first_version(there_bytes: u32, bytes: u32) -> Vec<u8> {
    let mut expected = vec![0; bytes as usize];
    let blocks = expected[..there_bytes as usize].chunks_mut(BLOCK_BYTES as usize);
    (0..).zip(blocks).for_each(|(block, into)| generate(SEED, block, 1, 0, into));
    expected
}

/// Returns how many of the first write's bytes are there, if nothing but its beginning is; otherwise `None`.
fn there_bytes(found: &[u8]) -> Option<u32> {
    let bytes = found.len() as u32;
    (0..=bytes).step_by(BLOCK_BYTES as usize).find(|there| found == torn_first_version(*there, bytes))
}

#[test]
fn torn_write_leaves_whole_leading_blocks() {
    for drive in shipped::names().filter_map(Drive::shipped) {
        let block_bytes = drive.limits().write_block_bytes.max(BLOCK_BYTES as u32);
        for blocks in [1, 2, 7] {
            let torn = bytes_after_faulty_write(&drive, FaultAction::TornWrite, blocks * block_bytes);
            assert_eq!(there_bytes(&torn), Some(blocks / 2 * block_bytes), "{}: {blocks} blocks", drive.name);
        }
        let long = 64 * block_bytes;
        let there = there_bytes(&bytes_after_faulty_write(&drive, FaultAction::TornWrite, long));
        assert!(there.is_some_and(|there| (long / 2..long).contains(&there)), "{}: {there:?} of {long}", drive.name);
        let failed = bytes_after_faulty_write(&drive, FaultAction::Error, long);
        assert_eq!(there_bytes(&failed), Some(long), "{}: a write that only fails", drive.name);
    }
}
