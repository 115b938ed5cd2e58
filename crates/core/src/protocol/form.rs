//! Closed form of a drive's protocol, from the form in the protocol's own folder.

use crate::closed_form::{Class, Form, Parts, Workload};
use crate::drive::Interface;

/// Returns the closed form of the drive's protocol for a class of requests; the bounds that hold for any protocol, if
/// it has none for the drive's inside.
pub fn protocol_form(parts: &Parts, workload: &Workload, class: &Class) -> Form {
    if parts.has_inside() && !parts.drive.protocol().foresees_inside() {
        return Form::of_data(parts, workload, class);
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
