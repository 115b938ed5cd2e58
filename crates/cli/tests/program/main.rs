//! The program as its users meet it, a file for each of its sides. They are one program of tests, so that those which wait and
//! those which compute run side by side.

#[path = "../common/mod.rs"]
mod common;

mod book;
mod choices;
mod crash;
mod crash_vfio_user;
mod dependencies;
mod explore;
mod export;
mod guest;
mod guest_network;
mod kill;
mod links;
mod makefile;
mod outputs;
mod pressure;
mod real_clients;
mod reports;
mod results;
mod serve;
mod signals;
mod soak;
mod sweep;
mod torture;
mod traces;
mod trust;
mod wrong_input;
