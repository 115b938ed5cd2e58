//! Which mutant is on. A copy of this file is a module of every crate of the mutated tree.
//!
//! `PHASELINK_MUTANT=17` turns one on for the life of the process; `all` turns none on and writes down which are reached,
//! with the name of the thread that did, which under libtest is that of the test.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::Write;
use std::sync::LazyLock;

/// In the place of a number: note who is reached.
const ALL: u32 = u32::MAX;

static ON: LazyLock<u32> = LazyLock::new(|| match std::env::var("PHASELINK_MUTANT").as_deref() {
    Ok("all") => ALL,
    Ok(number) => number.parse().unwrap_or(0),
    Err(_) => 0,
});

thread_local! {
    static NOTED: RefCell<HashSet<u32>> = RefCell::default();
}

/// Whether this mutant is on. They count from 1.
#[inline]
pub(crate) fn is(mutant: u32) -> bool {
    match *ON {
        ALL => note(mutant),
        on => on == mutant,
    }
}

/// Once a thread. One short line in one write, so that those of other threads and processes stay whole.
#[cold]
fn note(mutant: u32) -> bool {
    let is_new = NOTED.try_with(|noted| noted.borrow_mut().insert(mutant)).unwrap_or(true);
    if let Some(file) = std::env::var_os("PHASELINK_MUTANTS_REACHED").filter(|_| is_new) {
        let line = format!("{mutant}\t{}\n", std::thread::current().name().unwrap_or_default());
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(file);
        let _ = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    }
    false
}
