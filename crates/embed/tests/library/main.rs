//! Tests of the embedded drive, from outside.

mod allocations;
mod data;
mod interface;
mod misuse;
mod oracle;
mod power;
mod same_as_run;
mod volumes;
