//! Front-ends: the ways by which hosts reach a device. Each is one folder here and one entry of [`KINDS`].
//!
//! - [`kind`] describes a front-end to the program ([`FrontKind`](kind::FrontKind)), and lets it serve
//!   ([`Front`](kind::Front)).
//! - [`lifecycle`] has the steps of a request for all front-ends. [`model`] decides when a request completes, and
//!   [`poll_group`] which thread owns which queue. [`service`] gives each front-end its poll groups.
//! - The folders keep what is particular to each front-end: parsing, memory and notifications.

pub mod buffer;
pub mod kind;
pub mod lifecycle;
pub mod model;
pub mod nbd;
mod nvme_command;
pub mod nvme_tcp;
pub mod poll_group;
pub mod service;
pub mod shm;
mod socket;
pub mod vfio_user;
pub mod vhost_user;

use phaselink_core::drive::Drive;
use phaselink_core::problem::Problem;

pub use nvme_command::behind_the_doorbell;
pub(crate) use socket::bind_unix_socket;

pub use kind::{Front, FrontEndArguments, FrontKind, STRICT};

use kind::{BenchTargetKind, ParsedBenchTarget};

/// All front-ends, in the order in which their addresses are announced.
pub const KINDS: &[FrontKind] = &[nbd::KIND, shm::KIND, vfio_user::KIND, vhost_user::KIND, nvme_tcp::KIND];

/// Parses the address of a served drive as the target of a benchmark, in one of the forms that front-ends know.
///
/// # Errors
/// If the address has no such form, or is one that other machines reach.
pub fn parse_bench_target(text: &str) -> ParsedBenchTarget {
    let kinds = || KINDS.iter().filter_map(|kind| kind.target.as_ref());
    let forms = || kinds().map(|BenchTargetKind { form, .. }| *form).collect::<Vec<_>>().join(", ");
    let none = || Err(Problem::new(text, None, "not an address of a served drive", forms()));
    kinds().find_map(|kind| (kind.parse)(text)).unwrap_or_else(none)
}

/// Checks that a drive can be served through these front-ends together, with timing on or off.
///
/// # Errors
/// If front-ends do not go together, or one does not fit the drive.
pub fn check(kinds: &[&FrontKind], drive: &Drive, timing: bool) -> Result<(), Problem> {
    if drive.drives > 1 {
        let found = format!("drives is {}: what hosts attach to is one drive", drive.drives);
        return Err(Problem::new("serve", None, found, "--set drives=1, and a server for each"));
    }
    if timing && drive.switch.is_there() {
        let found = format!("switch.drives is {}: the model of a served drive has no switch", drive.switch.drives);
        return Err(Problem::new("serve", None, found, "--set switch.drives=0, or --timing off"));
    }
    check_at_most_one_controller_front(kinds)?;
    check_fronts_support_zones(kinds, drive)?;
    check_fronts_support_keys(kinds, drive)?;
    if timing { check_fronts_can_share_model(kinds, drive) } else { Ok(()) }
}

/// Checks that at most one front-end has controllers, which share the namespaces and the state of the drive.
fn check_at_most_one_controller_front(kinds: &[&FrontKind]) -> Result<(), Problem> {
    let mut flags = kinds.iter().filter(|kind| kind.brings_software).map(|kind| kind.flag);
    let (Some(first), Some(second)) = (flags.next(), flags.next()) else { return Ok(()) };
    let found = format!("--{first} and --{second} together: each has controllers of its own for the one drive");
    Err(Problem::new("serve", None, found, "one or the other"))
}

/// Checks that hosts can use the zones of a drive through all front-ends.
fn check_fronts_support_zones(kinds: &[&FrontKind], drive: &Drive) -> Result<(), Problem> {
    let without = kinds.iter().find(|kind| !kind.knows_zones).filter(|_| drive.zones.is_there());
    let Some(FrontKind { flag, .. }) = without else { return Ok(()) };
    let others: Vec<String> =
        KINDS.iter().filter(|kind| kind.knows_zones).map(|kind| format!("--{}", kind.flag)).collect();
    let found = format!("--{flag}: hosts cannot learn of the zones of {} there, and would write anywhere", drive.name);
    Err(Problem::new("serve", None, found, format!("{}, or --set zones.size_mib=0", others.join(", "))))
}

/// Checks that hosts can use the keys of a drive through all front-ends.
fn check_fronts_support_keys(kinds: &[&FrontKind], drive: &Drive) -> Result<(), Problem> {
    let without = kinds.iter().find(|kind| !kind.knows_keys).filter(|_| drive.key_value.is_there());
    let Some(FrontKind { flag, .. }) = without else { return Ok(()) };
    let others: Vec<String> =
        KINDS.iter().filter(|kind| kind.knows_keys).map(|kind| format!("--{}", kind.flag)).collect();
    let found = format!("--{flag}: hosts read and write blocks there, and {} stores values by their keys", drive.name);
    Err(Problem::new("serve", None, found, format!("{}, or --set key_value.value_max_kib=0", others.join(", "))))
}

/// Checks that these front-ends can share one model, and that each can serve the drive with timing on. Front-ends whose
/// hosts bring their own software cannot share it with others.
fn check_fronts_can_share_model(kinds: &[&FrontKind], drive: &Drive) -> Result<(), Problem> {
    let Some(own) = kinds.iter().find(|kind| kind.brings_software) else {
        return kinds.iter().try_for_each(|kind| (kind.check_model)(drive));
    };
    let others: Vec<String> =
        kinds.iter().filter(|kind| !kind.brings_software).map(|kind| format!("--{}", kind.flag)).collect();
    if !others.is_empty() {
        let (others, flag) = (others.join(" and "), own.flag);
        let found = format!(
            "{others} and --{flag} together: hosts over {flag} bring their own software, which is part of the model for \
             the others"
        );
        return Err(Problem::new("serve", None, found, "one or the other, or --timing off"));
    }
    kinds.iter().try_for_each(|kind| (kind.check_model)(drive))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bench_target_addresses_parse_and_print_unchanged_and_others_are_refused() {
        for text in ["shm:/run/a b", "shm:x.sock", "nbd+unix:///?socket=x"] {
            assert_eq!(parse_bench_target(text).unwrap().to_string(), text);
        }
        for text in ["", "shm:", "shm", "x.sock", "nbd://0.0.0.0/"] {
            assert!(parse_bench_target(text).is_err(), "{text}");
        }
    }
}
