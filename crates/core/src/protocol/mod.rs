//! Protocols: each a folder with its two halves, the driver (host side) and the controller (device side), which meet
//! at the link. `docs/adding-a-protocol.md` walks through one.
//!
//! A folder is a slice through the floors: its keys (`config.rs`) stand with the other descriptions, its halves here,
//! its closed form (`form.rs`) with the predictions. This file is the list of them, and nothing else names one.

/// The list of protocols: calls `$with!` with each one's folder, the section that holds its keys, and its name in drive
/// files.
macro_rules! protocols {
    ($with:ident) => {
        $with! {
            nvme: Nvme = "nvme",
            dc_express: DcExpress = "dc-express",
            moneta: Moneta = "moneta",
            pss: Pss = "pss",
            capi: Capi = "capi",
            cxl: Cxl = "cxl",
            ramdisk: Ramdisk = "ramdisk",
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
pub mod halves;
pub mod ports;
pub(crate) mod reads;
pub mod real_hosts;
mod roles;
pub mod slots;
pub mod splitting;
