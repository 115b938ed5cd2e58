//! The host: what its cores, its software and its power supply add to a request.

pub mod power;
