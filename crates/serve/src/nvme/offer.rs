//! What a drive offers to real hosts: what its description says, as far as they can be told.

use phaselink_core::drive::Drive;
use phaselink_core::problem::Problem;
use phaselink_core::protocol::nvme::rules::Limits;

use super::QUEUE_PAIRS_MAX;
use crate::device::store::Geometry;

/// The limits of a drive with this geometry.
///
/// # Errors
/// What real hosts cannot be told, or do not accept: queue pairs that have no doorbell and no interrupt vector, transfers
/// that MDTS has no value for, blocks that are none of NVMe.
pub fn limits(drive: &Drive, geometry: Geometry) -> Result<Limits, Problem> {
    let Geometry { capacity_bytes, block_bytes } = geometry;
    if !block_bytes.is_power_of_two() || !(512..=65536).contains(&block_bytes) {
        let found = format!("{} has blocks of {block_bytes} bytes", drive.name);
        return Err(problem(found, "nvme.block_bytes a power of two from 512 to 65536"));
    }
    let whole = Limits {
        blocks: capacity_bytes / u64::from(block_bytes),
        block_shift: block_bytes.trailing_zeros(),
        ..Limits::of_real_hosts(drive)
    };
    let limits = whole.divided(drive.nvme.namespaces);
    if limits.blocks == 0 {
        let found = format!("{} has nvme.namespaces = {} in {capacity_bytes} bytes", drive.name, drive.nvme.namespaces);
        return Err(problem(found, "as many namespaces as there are blocks, at most"));
    }
    if limits.queue_pairs as usize > QUEUE_PAIRS_MAX {
        let found = format!("{} has nvme.queue_pairs = {}", drive.name, limits.queue_pairs);
        return Err(problem(found, &format!("nvme.queue_pairs from 1 to {QUEUE_PAIRS_MAX}")));
    }
    if limits.transfer_field().is_none() {
        let found = format!("{} has nvme.max_transfer_kib = {}", drive.name, drive.nvme.max_transfer_kib);
        let allowed = "nvme.max_transfer_kib from 8 on: one page of 4 KiB is what MDTS cannot say, as 0 means no limit";
        return Err(problem(found, allowed));
    }
    Ok(limits)
}

fn problem(found: String, allowed: &str) -> Problem {
    Problem::new("--vfio-user", None, found, allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::geometry;

    fn offered(change: fn(&mut Drive)) -> Result<Limits, String> {
        let mut drive = Drive::shipped("nvme").expect("it is shipped");
        change(&mut drive);
        limits(&drive, geometry(&drive)).map_err(|problem| problem.to_string())
    }

    #[test]
    fn what_the_drive_says_is_offered() {
        let limits = offered(|drive| {
            let nvme = &mut drive.nvme;
            (nvme.queue_pairs, nvme.queue_entries, nvme.max_transfer_kib, nvme.block_bytes) = (4, 64, 64, 4096);
        });
        let limits = limits.expect("all of it can be told");
        assert_eq!((limits.queue_pairs, limits.queue_entries), (4, 64));
        assert_eq!((limits.transfer_bytes_max, limits.block_shift), (64 << 10, 12));
    }

    #[test]
    fn what_hosts_cannot_be_told_is_refused_by_name() {
        for (change, word) in [
            ((|drive| drive.nvme.block_bytes = 256) as fn(&mut Drive), "blocks of 256 bytes"),
            (|drive| drive.nvme.queue_pairs = 33, "nvme.queue_pairs = 33"),
            (|drive| drive.nvme.max_transfer_kib = 4, "nvme.max_transfer_kib = 4"),
        ] {
            let refused = offered(change).expect_err(word);
            assert!(refused.contains(word), "{refused}");
        }
    }
}
