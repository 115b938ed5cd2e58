//! The library from outside, a file for each of its sides. They are one program of tests, so that all processors have work to
//! the end.

mod capi;
mod common;
mod contention;
mod cxl;
mod data;
mod dc_express;
mod dma;
mod engines;
mod faster_parts;
mod faults;
mod fit;
mod flash;
mod flushes;
mod forms;
mod host;
mod ladders;
mod link;
mod lone_requests;
mod mixes;
mod moneta;
mod nvm_model;
mod operations;
mod oracles;
mod power;
mod predict;
mod properties;
mod pss;
mod repository;
mod sanity;
mod several;
mod steady_state;
mod stubs;
mod switches;
mod trains;
mod volumes;
