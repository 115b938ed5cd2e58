//! Get and Set Features for Key Value Configuration, a feature of a namespace that stores values by their keys (Key
//! Value Command Set Specification 1.0, section 4.1.3.1).

use phaselink_core::protocol::nvme::commands::command::ALL_NAMESPACES;
use phaselink_core::protocol::nvme::spec::fields::feature;
use phaselink_core::protocol::nvme::spec::{Status, SubmissionEntry};

use super::admin::AdminCommandOutcome;
use super::controller::{Controller, PendingWork};
use super::kind_state::KeyNamespaceSettings;

impl Controller {
    /// Returns the value of Key Value Configuration: 1 if deleting a key that does not exist is an error (EDNEK).
    ///
    /// # Errors
    ///
    /// Invalid Field if the drive has logical blocks, Invalid Namespace.
    pub(super) fn key_value_configuration(&self, command: &SubmissionEntry) -> Result<AdminCommandOutcome, Status> {
        Ok(AdminCommandOutcome::Done(self.key_settings(command)?.reports_missing().into()))
    }

    /// Sets Key Value Configuration. The value survives resets and power cycles, even if the host does not ask for
    /// that.
    ///
    /// # Errors
    /// As [`Controller::key_value_configuration`].
    pub(super) fn set_key_value_feature(&mut self, command: &SubmissionEntry) -> Result<AdminCommandOutcome, Status> {
        self.key_settings(command)?.set_missing_key_is_error(command.has(feature::REPORTS_MISSING));
        self.pending.push_back(PendingWork::SaveSettings);
        Ok(AdminCommandOutcome::Done(0))
    }

    /// Returns the settings of keys, for a command that addresses a namespace that is attached and stores values by
    /// their keys, or all namespaces.
    fn key_settings(&self, command: &SubmissionEntry) -> Result<&KeyNamespaceSettings, Status> {
        let settings = self.identity.subsystem.kind.key_settings()?;
        if command.namespace_id != ALL_NAMESPACES {
            self.check_namespace_attached(command.namespace_id)?;
        }
        Ok(settings)
    }
}
