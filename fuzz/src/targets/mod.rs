//! All targets, one file each.

mod authentication;
mod control;
mod crash;
mod drive;
mod explore;
mod job;
mod migration;
mod nbd;
mod nvme;
mod nvme_tcp;
mod plan;
mod shm;
mod store;
mod trace;
mod vfio_user;
mod vhost_user;
mod word;

use crate::Target;

/// List of all targets.
pub const ALL: &[Target] = &[
    nbd::SESSION,
    nbd::HANDSHAKE,
    shm::COMMANDS,
    shm::GREETING,
    vfio_user::MESSAGES,
    vhost_user::RING,
    nvme::HOST,
    nvme::ZONES,
    nvme::PLACEMENT,
    nvme::KEYS,
    nvme::PROTECTION,
    nvme::ADMIN,
    migration::IMAGE,
    nvme_tcp::SESSION,
    authentication::MESSAGES,
    authentication::TLS,
    authentication::KEYS,
    store::HEADER,
    store::KEYS,
    control::CONTROL,
    crash::RECORDING,
    crash::IMAGE,
    drive::FILE,
    drive::RUN,
    explore::EXPLORE,
    job::FILE,
    trace::FILE,
    trace::FORCED,
    plan::SWEEP,
    plan::REPRODUCTION,
    word::WORD,
];

/// Returns the target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.name == name)
}

/// Returns the text that a file may hold: bytes that are not UTF-8 are replaced, as programs refuse them before any
/// reader sees them.
fn text(input: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(input)
}
