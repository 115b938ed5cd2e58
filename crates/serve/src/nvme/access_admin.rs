//! Events and log page of the paths to namespaces (asymmetric namespace access).

use super::access::log_page;
use super::controller::Controller;
use super::events::AsyncEvent;
use crate::device::paths::DrivePaths;

impl Controller {
    /// Raises an event if the state of the controller's path has changed, and the host wants to know.
    pub(super) fn report_path_change(&mut self) {
        let changes = self.identity.subsystem.path_change_count(self.identity.path);
        if changes != self.known_path_changes && self.features.wants_access_events() {
            self.events.raise(AsyncEvent::AccessChange);
        }
        self.known_path_changes = changes;
    }

    /// Returns the log page Asymmetric Namespace Access with the namespaces that are attached to the controller.
    pub(super) fn access_log(&self, groups_alone: bool) -> Vec<u8> {
        let subsystem = &self.identity.subsystem;
        let namespaces = subsystem.namespaces();
        let attached =
            (1..).zip(&namespaces).filter(|(_, it)| it.is_some_and(|it| it.is_attached(self.identity.number)));
        let ids = attached.map(|(id, _)| id);
        match subsystem.paths() {
            Some(paths) => log_page(paths, self.identity.path, ids, groups_alone),
            None => log_page(&DrivePaths::default(), self.identity.path, ids, groups_alone),
        }
    }
}
