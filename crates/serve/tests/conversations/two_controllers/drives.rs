//! Drives of conversations, whose keys are drawn.

use phaselink_core::config::PlacementIsolation;
use phaselink_core::drive::Drive;
use phaselink_core::protocol::nvme::config::DriveProtection;
use phaselink_core::random::Random;

use super::{CAPACITY_MIB, KEYS_MAX, PLACED_MIB, ZONED_MIB};

/// Draws of one conversation.
pub(super) struct ConversationDice(pub(super) Random);

impl ConversationDice {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0.bits() % end
    }

    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub(super) fn of<T: Copy>(&mut self, some: &[T]) -> T {
        some[self.below(some.len() as u64) as usize]
    }
}

pub(super) fn drive(dice: &mut ConversationDice) -> Drive {
    let mut drive = Drive::shipped("nvme").unwrap();
    drive.media.capacity_mib = CAPACITY_MIB;
    drive.nvme.queue_pairs = 1;
    drive.nvme.queue_entries = dice.of(&[2, 3, 5, 16, 64]);
    drive.nvme.fetch_entries = dice.of(&[1, 2]);
    drive.nvme.block_bytes = dice.of(&[512, 512, 4096]);
    drive.nvme.max_transfer_kib = dice.of(&[8, 16, 64, 128]);
    drive.nvme.interrupts = dice.one_in(2);
    drive.nvme.namespaces = dice.of(&[1, 1, 3]);
    drive
}

/// The drive with zones, of which few can be open.
pub(super) fn zoned(dice: &mut ConversationDice) -> Drive {
    let mut drive = drive(dice);
    drive.media.capacity_mib = ZONED_MIB;
    drive.nvme.namespaces = 1;
    drive.zones.size_mib = 1;
    drive.zones.active_max = dice.of(&[0, 3, 4]);
    drive.zones.open_max = if drive.zones.active_max > 0 { 2 } else { dice.of(&[0, 1]) };
    drive.zones.append_max_kib = dice.of(&[0, 8]);
    drive
}

/// A small flash drive on which hosts place data.
pub(super) fn placed(dice: &mut ConversationDice) -> Drive {
    let mut drive = drive(dice);
    let flash = Drive::shipped("tlc-gen4").unwrap();
    (drive.media, drive.buffer, drive.translation) = (flash.media, flash.buffer, flash.translation);
    (drive.media.capacity_mib, drive.media.block_pages) = (PLACED_MIB, 12);
    (drive.media.channels, drive.media.banks_per_channel) = (2, 1);
    // Provide a spare block for each block that a handle keeps open.
    drive.translation.over_provisioning = 20.0;
    drive.nvme.namespaces = dice.of(&[1, 1, 2]);
    drive.placement.handles = dice.of(&[1, 2, 3]);
    drive.placement.groups = dice.of(&[1, 1, 3]);
    drive.placement.isolation = dice.of(&[PlacementIsolation::Initial, PlacementIsolation::Persistent]);
    drive
}

/// A small drive that stores values by their keys, which fills up.
pub(super) fn keyed(dice: &mut ConversationDice) -> Drive {
    let mut drive = drive(dice);
    drive.nvme.namespaces = 1;
    drive.key_value.value_max_kib = drive.nvme.max_transfer_kib.min(dice.of(&[4, 32, 64]));
    drive.key_value.key_max_bytes = dice.of(&[4, 16]);
    drive.key_value.keys_max = KEYS_MAX;
    drive
}

/// The drive with protection information of some type.
pub(super) fn protected(dice: &mut ConversationDice) -> Drive {
    let mut drive = drive(dice);
    drive.nvme.protection = dice.of(&[DriveProtection::Type1, DriveProtection::Type2, DriveProtection::Type3]);
    drive
}
