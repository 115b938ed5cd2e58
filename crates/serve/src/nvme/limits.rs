//! Limits of a served controller: constants that hold for all drives, and values from a drive description.

use phaselink_core::drive::Drive;
use phaselink_core::number::{index, low_u16};
use phaselink_core::problem::Problem;
use phaselink_core::protocol::nvme::rules::Limits;

use crate::device::store::Geometry;

/// Value of the VS register: NVM Express Base Specification 2.0.
pub(super) const VERSION: u32 = 0x0002_0000;
/// Maximum number of I/O queue pairs of a served drive, besides the admin queue. Most hosts have no more processors.
///
/// The doorbell page has room for 511 pairs, the MSI-X table for 127 vectors.
pub const QUEUE_PAIRS_MAX: usize = 64;
/// Maximum number of concurrent Abort commands (ACL, which counts from 0).
pub(super) const ABORTS_MAX: u8 = 4;
/// Maximum number of Asynchronous Event Requests in flight (AERL, which counts from 0).
pub(super) const EVENT_REQUESTS_MAX: u8 = 4;
/// Number of entries in the log page Error Information (ELPE, which counts from 0).
pub(super) const ERROR_LOG_ENTRIES: usize = 16;
/// Composite temperature in kelvin, 27 degrees Celsius (assumed: the controller has no sensor).
pub(super) const TEMPERATURE_KELVIN: u16 = 300;
/// Unit of the keep-alive timeout, in tenths of a second (KAS).
pub(super) const KEEP_ALIVE_TENTHS: u16 = 1;

/// Returns the number of interrupt vectors of a controller: one for each queue pair, the admin queue's included.
pub fn interrupt_vectors(limits: &Limits) -> u16 {
    low_u16(limits.queue_pairs) + 1
}

/// Returns the number of I/O queue pairs that a served drive offers. A description with one pair suits a modelled host;
/// real hosts have a pair for each processor, and some drivers fail without. Such a drive offers the maximum.
pub fn offered_queue_pairs(drive: &Drive) -> u32 {
    if drive.nvme.queue_pairs == 1 { QUEUE_PAIRS_MAX as u32 } else { drive.nvme.queue_pairs }
}

/// Returns the limits that a served drive of this capacity and block size reports to real hosts.
///
/// # Errors
/// If NVMe cannot express a value of the drive, or hosts do not accept it: the size of a block, the number of
/// namespaces or queue pairs, or the longest transfer.
pub fn served_limits(drive: &Drive, geometry: Geometry) -> Result<Limits, Problem> {
    let Geometry { capacity_bytes, block_bytes } = geometry;
    if !block_bytes.is_power_of_two() || !(512..=65536).contains(&block_bytes) {
        let found = format!("{} has blocks of {block_bytes} bytes", drive.name);
        return Err(problem(found, "nvme.block_bytes a power of two from 512 to 65536"));
    }
    let whole = Limits {
        blocks: capacity_bytes / u64::from(block_bytes),
        block_shift: block_bytes.trailing_zeros(),
        queue_pairs: offered_queue_pairs(drive),
        ..Limits::of_real_hosts(drive)
    };
    let limits = whole.divided(drive.nvme.namespaces);
    if limits.blocks == 0 {
        let found = format!("{} has nvme.namespaces = {} in {capacity_bytes} bytes", drive.name, drive.nvme.namespaces);
        return Err(problem(found, "at most as many namespaces as the drive has blocks"));
    }
    if index(limits.queue_pairs) > QUEUE_PAIRS_MAX {
        let found = format!("{} has nvme.queue_pairs = {}", drive.name, limits.queue_pairs);
        return Err(problem(found, &format!("nvme.queue_pairs from 1 to {QUEUE_PAIRS_MAX}")));
    }
    if limits.mdts_field().is_none() {
        let found = format!("{} has nvme.max_transfer_kib = {}", drive.name, drive.nvme.max_transfer_kib);
        let allowed = "nvme.max_transfer_kib of 8 or more: MDTS cannot express one page of 4 KiB, as 0 means no limit";
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

    fn limits_of_changed_drive(change: fn(&mut Drive)) -> Result<Limits, String> {
        let mut drive = Drive::shipped("nvme").expect("the drive nvme is shipped");
        change(&mut drive);
        served_limits(&drive, geometry(&drive)).map_err(|problem| problem.to_string())
    }

    #[test]
    fn served_limits_equal_the_drives_description() {
        let limits = limits_of_changed_drive(|drive| {
            let nvme = &mut drive.nvme;
            (nvme.queue_pairs, nvme.queue_entries, nvme.max_transfer_kib, nvme.block_bytes) = (4, 64, 64, 4096);
        });
        let limits = limits.expect("NVMe can express all of these values");
        assert_eq!((limits.queue_pairs, limits.queue_entries), (4, 64));
        assert_eq!((limits.transfer_bytes_max, limits.block_shift), (64 << 10, 12));
    }

    #[test]
    fn single_queue_pair_drive_offers_one_per_processor() {
        for (queue_pairs, offered) in [(1, 64), (2, 2), (64, 64)] {
            let mut drive = Drive::shipped("nvme").expect("the drive nvme is shipped");
            drive.nvme.queue_pairs = queue_pairs;
            let limits = served_limits(&drive, geometry(&drive)).expect("NVMe can express all of these values");
            assert_eq!((limits.queue_pairs, interrupt_vectors(&limits)), (offered, offered as u16 + 1));
        }
    }

    #[test]
    fn limit_that_nvme_cannot_express_is_refused_by_key() {
        for (change, word) in [
            ((|drive| drive.nvme.block_bytes = 256) as fn(&mut Drive), "blocks of 256 bytes"),
            (|drive| drive.nvme.queue_pairs = 65, "nvme.queue_pairs = 65"),
            (|drive| drive.nvme.max_transfer_kib = 4, "nvme.max_transfer_kib = 4"),
        ] {
            let refused = limits_of_changed_drive(change).expect_err(word);
            assert!(refused.contains(word), "{refused}");
        }
    }
}
