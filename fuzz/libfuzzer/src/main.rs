//! The target that the environment variable `TARGET` names, under libFuzzer.
#![no_main]

use std::env;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use phaselink_fuzz::{Target, find};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = env::var("TARGET").unwrap_or_default();
    find(&name).unwrap_or_else(|| panic!("TARGET={name} is none of the targets"))
});

fuzz_target!(|input: &[u8]| (TARGET.run)(input));
