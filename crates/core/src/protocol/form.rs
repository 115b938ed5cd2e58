//! Closed form of a drive's protocol, from the form in the protocol's own folder.

use crate::closed_form::{Class, ClosedForm, Parts, Workload};
use crate::drive::Interface;

/// Returns the closed form of the drive's protocol for a class of requests; the bounds that hold for any protocol, if
/// it has none for the drive's inside.
pub fn closed_form_of_protocol(parts: &Parts, workload: &Workload, class: &Class) -> ClosedForm {
    if parts.has_processors_or_translation() && !parts.drive.protocol().foresees_inside() {
        return ClosedForm::of_data_path(parts, workload, class);
    }
    macro_rules! form_of {
        ($($protocol:ident: $Protocol:ident = $name:literal,)+) => {
            match parts.drive.interface {
                $(Interface::$Protocol => crate::protocol::$protocol::form::form(parts, workload, class),)+
            }
        };
    }
    protocols!(form_of)
}
