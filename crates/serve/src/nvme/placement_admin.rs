//! Admin commands of data placement: directives, features and log pages (Base Specification 2.1, sections 5.1.6, 5.1.7,
//! 5.1.12.1.28 to 5.1.12.1.31, 5.1.25.1.20 and 5.1.25.1.21).

use phaselink_core::number::{index, length, low_u8, low_u16, short_length, wide_index};
use phaselink_core::protocol::nvme::rules::placement::DATA_PLACEMENT;
use phaselink_core::protocol::nvme::rules::placement_logs::{self as logs, ENDURANCE_GROUP};
use phaselink_core::protocol::nvme::spec::fields::{directive, feature};
use phaselink_core::protocol::nvme::spec::{Status, SubmissionEntry};

use super::admin::AdminCommandOutcome;
use super::command::{copy_in, copy_out};
use super::controller::{Controller, PendingWork};
use super::host::AdminHost;
use super::kinds::PLACEMENT_FEATURE;
use super::log_pages;

/// Directive Operation (DOPER) of the Identify directive: `PARAMETERS` is Return Parameters of Directive Receive,
/// `ENABLE` is Enable Directive of Directive Send.
const PARAMETERS: u32 = 1;
const ENABLE: u32 = 1;
/// Bit of the Log Specific Field that selects host events in the log page FDP Events (FDPET).
const OF_HOSTS: u32 = 1;

impl Controller {
    /// Executes Directive Receive: returns the parameters of the Identify directive. The Data Placement directive has
    /// no operation of its own.
    pub(super) fn receive_directive(
        &self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
    ) -> Result<AdminCommandOutcome, Status> {
        let placement = self.identity.subsystem.kind.placement()?;
        if command.has(directive::TYPE) || command.get(directive::OPERATION) != PARAMETERS {
            return Err(Status::INVALID_FIELD);
        }
        self.check_namespace_attached(command.namespace_id)?;
        let page = logs::directive_parameters(&placement.placement_limits_of(command.namespace_id));
        let bytes = (u64::from(command.get(directive::DWORDS)) + 1) * 4;
        copy_out(command, host, &page[..wide_index(bytes.min(length(page.len())))])?;
        Ok(AdminCommandOutcome::Done(0))
    }

    /// Executes Directive Send: enables or disables the Data Placement directive of a namespace.
    pub(super) fn send_directive(&mut self, command: &SubmissionEntry) -> Result<AdminCommandOutcome, Status> {
        let placement = self.identity.subsystem.kind.placement()?;
        let is_enable = !command.has(directive::TYPE) && command.get(directive::OPERATION) == ENABLE;
        if !is_enable || command.get(directive::TARGET) != DATA_PLACEMENT {
            return Err(Status::INVALID_FIELD);
        }
        self.check_namespace_attached(command.namespace_id)?;
        placement.direct(command.namespace_id, command.has(directive::ENABLE))?;
        self.identity.subsystem.raise_version();
        self.pending.push_back(PendingWork::SaveSettings);
        Ok(AdminCommandOutcome::Done(0))
    }

    /// Returns the value of Flexible Data Placement. For FDP Events, copies the event types of a placement handle to
    /// the host and returns their number.
    pub(super) fn placement_feature_value(
        &self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
    ) -> Result<AdminCommandOutcome, Status> {
        let placement = self.identity.subsystem.kind.placement().map_err(|_| Status::INVALID_FIELD)?;
        if low_u8(command.get(feature::ID)) == PLACEMENT_FEATURE {
            check_endurance_group(command.get(feature::GROUP))?;
            return Ok(AdminCommandOutcome::Done(placement.is_enabled().into()));
        }
        self.check_namespace_attached(command.namespace_id)?;
        let handle = low_u16(command.get(feature::HANDLE));
        let types = logs::event_types(placement.event_types(command.namespace_id, handle, |types| types)?);
        copy_out(command, host, &types)?;
        Ok(AdminCommandOutcome::Done(short_length(types.len()) / 2))
    }

    /// Sets Flexible Data Placement or FDP Events. The value survives resets, even if the host does not ask for that.
    pub(super) fn set_placement_feature(
        &mut self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
    ) -> Result<AdminCommandOutcome, Status> {
        let placement = self.identity.subsystem.kind.placement().map_err(|_| Status::INVALID_FIELD)?;
        let is_enabled = command.has(feature::ENABLE);
        if low_u8(command.get(feature::ID)) == PLACEMENT_FEATURE {
            if !matches!(command.namespace_id, 0 | u32::MAX) {
                return Err(Status::FEATURE_NOT_OF_NAMESPACE);
            }
            check_endurance_group(command.get(feature::GROUP))?;
            // The drive has a single FDP configuration, number 0.
            if is_enabled && command.has(feature::CONFIGURATION) {
                return Err(Status::INVALID_FIELD);
            }
            let has_namespaces = self.identity.subsystem.namespaces().iter().any(Option::is_some);
            placement.enable(is_enabled, has_namespaces)?;
        } else {
            self.check_namespace_attached(command.namespace_id)?;
            let mut list = vec![0; index(command.get(feature::EVENT_TYPES))];
            if !list.is_empty() {
                copy_in(command, host, &mut list)?;
            }
            let listed = logs::event_types_of_list(&list)?;
            let change = |types| if is_enabled { types | listed } else { types & !listed };
            placement.event_types(command.namespace_id, low_u16(command.get(feature::HANDLE)), change)?;
        }
        self.identity.subsystem.raise_version();
        self.pending.push_back(PendingWork::SaveSettings);
        Ok(AdminCommandOutcome::Done(0))
    }

    /// Returns a whole log page of data placement. `group` is the endurance group, and `specific` the Log Specific
    /// Field.
    ///
    /// # Errors
    /// Invalid Log Page without data placement, Invalid Field for another endurance group, FDP Disabled.
    pub(super) fn placement_log_page(&self, log: u8, group: u32, specific: u32) -> Result<Vec<u8>, Status> {
        let placement = self.identity.subsystem.kind.placement().map_err(|_| Status::INVALID_LOG_PAGE)?;
        check_endurance_group(group)?;
        if log == log_pages::PLACEMENT_CONFIGURATIONS {
            let namespaces = self.identity.limits.namespaces;
            return Ok(logs::configurations(placement.limits(), namespaces, placement.reclaim_unit_bytes()));
        }
        if !placement.is_enabled() {
            return Err(Status::PLACEMENT_DISABLED);
        }
        Ok(match log {
            log_pages::PLACEMENT_USAGE => logs::usage(&placement.uses()),
            log_pages::PLACEMENT_STATISTICS => logs::statistics(&placement.statistics()),
            _ => logs::events(placement.events(specific & OF_HOSTS != 0).iter()),
        })
    }

    /// Checks that a command's namespace exists and is attached to the controller.
    ///
    /// # Errors
    ///
    /// Invalid Namespace, also for the identifier of all namespaces.
    pub(super) fn check_namespace_attached(&self, id: u32) -> Result<(), Status> {
        let namespace = self.identity.subsystem.namespace(id)?;
        if namespace.is_attached(self.identity.number) { Ok(()) } else { Err(Status::INVALID_NAMESPACE) }
    }
}

/// Checks that this is the identifier of the only endurance group.
fn check_endurance_group(group: u32) -> Result<(), Status> {
    if low_u16(group) == ENDURANCE_GROUP { Ok(()) } else { Err(Status::INVALID_FIELD) }
}
