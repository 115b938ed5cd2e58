//! Notices of reservations on their way to the host of one controller (Base Specification 2.0, section 8.19): those that the
//! host has not read yet, and the kinds that it does not want.

use std::collections::{BTreeMap, VecDeque};

use phaselink_core::number::{low_u8, short_length};
use phaselink_core::protocol::nvme::spec::layout::Layout;
use phaselink_core::protocol::nvme::spec::logs::ReservationNotice;

use super::reservations::HostNamespaceNotice;

/// Number of unread notices that a controller keeps, as many as the log page can count; older ones are lost.
const UNREAD_MAX: usize = 256;

/// Notices of reservations on their way to the host of a controller.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingReservationNotices {
    /// Number of notices of the drive when the controller last looked for new ones.
    known: u64,
    /// Notices that the host has not read yet, the oldest first, each with its number.
    unread: VecDeque<(u64, HostNamespaceNotice)>,
    /// Number of notices to this host so far.
    count: u64,
    /// Value of Reservation Notification Mask by namespace; 0 where there is none.
    masks: BTreeMap<u32, u32>,
}

impl PendingReservationNotices {
    /// Returns notices of a controller that is enabled when the drive has had `known` notices.
    pub(super) fn starting_at(known: u64) -> PendingReservationNotices {
        PendingReservationNotices { known, ..PendingReservationNotices::default() }
    }

    /// Returns the log page with the oldest unread notice; zeros if there is none.
    pub(super) fn page(&self) -> Vec<u8> {
        let mut page = ReservationNotice::zeros();
        if let Some((number, HostNamespaceNotice { kind, namespace, .. })) = self.unread.front() {
            page = page
                .with(ReservationNotice::NUMBER, *number)
                .with(ReservationNotice::KIND, kind.number())
                .with(ReservationNotice::LEFT, low_u8(short_length(self.unread.len()) - 1))
                .with(ReservationNotice::NAMESPACE, *namespace);
        }
        page.into_bytes().to_vec()
    }

    /// Drops the notice that the host has read. Returns true if there are more.
    pub(super) fn drop_read_notice(&mut self) -> bool {
        self.unread.pop_front();
        !self.unread.is_empty()
    }

    /// Returns the number of notices of the drive when the controller last looked for new ones.
    pub(super) fn known(&self) -> u64 {
        self.known
    }

    /// Returns the value of Reservation Notification Mask of a namespace.
    pub(super) fn mask(&self, namespace: u32) -> u32 {
        self.masks.get(&namespace).copied().unwrap_or(0)
    }

    /// Sets the value of Reservation Notification Mask of a namespace.
    pub(super) fn set_notification_mask(&mut self, namespace: u32, mask: u32) {
        self.masks.insert(namespace, mask);
    }

    /// Adds notices, unless they are masked. The drive has had `known` by now. Returns true if one was added.
    pub(super) fn add(&mut self, known: u64, notices: Vec<HostNamespaceNotice>) -> bool {
        self.known = known;
        let before = self.count;
        for notice in notices {
            if self.mask(notice.namespace) >> notice.kind.number() & 1 == 1 {
                continue;
            }
            self.count += 1;
            if self.unread.len() == UNREAD_MAX {
                self.unread.pop_front();
            }
            self.unread.push_back((self.count, notice));
        }
        self.count > before
    }
}
