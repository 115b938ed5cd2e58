//! Simulated storage protocols. Each folder holds a driver (host side) and a controller (device side), which exchange
//! packets over the link. `docs/adding-a-protocol.md` explains how to add a protocol.
//!
//! The folder of a protocol holds all of its code: its keys of drive files (`config.rs`), driver, controller and closed
//! form (`form.rs`). This file lists the protocols; no other code outside their folders names one.

/// Calls the macro `$with` with the list of protocols. Each entry has the protocol's folder, the type of its section of
/// drive files, and its name in drive files.
macro_rules! protocols {
    ($with:ident) => {
        $with! {
            nvme: Nvme = "nvme",
            dc_express: DcExpress = "dc-express",
            moneta: Moneta = "moneta",
            pss: PssKeys = "pss",
            capi: Capi = "capi",
            cxl: Cxl = "cxl",
            ramdisk: RamdiskKeys = "ramdisk",
        }
    };
}

pub mod capi;
pub mod cxl;
pub mod dc_express;
pub mod moneta;
pub mod nvme;
pub mod pss;
pub mod ramdisk;

mod command_slots;
pub mod dispatch;
pub mod form;
pub mod halves;
pub mod ports;
pub(crate) mod reads;
pub mod real_hosts;
mod roles;
pub mod slots;
pub mod splitting;
