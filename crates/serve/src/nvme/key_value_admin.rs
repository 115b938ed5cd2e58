//! Get and Set Features for Key Value Configuration, a feature of a namespace that stores values by their keys (Key
//! Value Command Set Specification 1.0, section 4.1.3.1).

use phaselink_core::protocol::nvme::spec::{Status, SubmissionEntry};

use super::admin::AdminOutcome;
use super::controller::{Controller, PendingWork};

impl Controller {
    /// Returns the value of Key Value Configuration: 1 if deleting a key that does not exist is an error (EDNEK).
    ///
    /// # Errors
    ///
    /// Invalid Field if the drive has logical blocks, Invalid Namespace.
    pub(super) fn key_value_feature(&self, command: &SubmissionEntry) -> Result<AdminOutcome, Status> {
        self.check_key_value(command)?;
        Ok(AdminOutcome::Done(self.identity.subsystem.reports_missing_keys().into()))
    }

    /// Sets Key Value Configuration. The value survives resets and power cycles, even if the host does not ask for
    /// that.
    ///
    /// # Errors
    /// As [`Controller::key_value_feature`].
    pub(super) fn set_key_value_feature(&mut self, command: &SubmissionEntry) -> Result<AdminOutcome, Status> {
        self.check_key_value(command)?;
        self.identity.subsystem.report_missing_keys(command.dwords[1] & 1 == 1);
        self.pending.push_back(PendingWork::SaveKeyValue);
        Ok(AdminOutcome::Done(0))
    }

    /// Checks that a command addresses a namespace that is attached and stores values by their keys, or all namespaces.
    fn check_key_value(&self, command: &SubmissionEntry) -> Result<(), Status> {
        let is_there = self.identity.limits.key_value.is_some();
        match command.namespace_id {
            _ if !is_there => Err(Status::INVALID_FIELD),
            u32::MAX => Ok(()),
            id => self.check_attached(id),
        }
    }
}
