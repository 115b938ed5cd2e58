//! The models from outside, a file for each of their sides. They are one program of tests, so that all processors have work to
//! the end.

mod common;
mod contention;
mod cxl_hosts;
mod data;
mod dc_express;
mod dma;
mod faster_parts;
mod fault_network;
mod fault_timeline;
mod faults;
mod flash;
mod flushes;
mod group_commit;
mod host;
mod key_value;
mod link;
mod lone_requests;
mod moneta;
mod nvm_model;
mod operations;
mod oracles;
mod placement;
mod power;
mod properties;
mod protection;
mod pss;
mod queries;
mod remote;
mod steady_state;
mod trains;
mod zones;
