//! Simulator for WebAssembly hosts: a question in JSON goes in, an answer in JSON comes out.
//!
//! No pointer of the caller is trusted: the caller asks for room with [`room`], writes the question there, calls
//! [`ask`], and reads as many bytes as it returned from [`answer`] on. [`phaselink_studies::ask`] defines the questions;
//! an answer is `{"answer": ...}` or `{"problems": [...], "text": "..."}`.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

use std::sync::{Mutex, MutexGuard, Once, PoisonError};

static QUESTION: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static ANSWER: Mutex<String> = Mutex::new(String::new());

/// Locks a mutex, even if an earlier question has ended in a panic.
fn locked<T>(place: &'static Mutex<T>) -> MutexGuard<'static, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns room for a question of this many bytes; valid until the next call of any function here.
#[unsafe(no_mangle)]
pub extern "C" fn room(bytes: usize) -> *mut u8 {
    let mut question = locked(&QUESTION);
    question.clear();
    question.resize(bytes, 0);
    question.as_mut_ptr()
}

/// Answers the question. Returns the length of the answer in bytes.
///
/// After a trap the answer is the message of the panic, `length` bytes long, and the module must be loaded again.
#[unsafe(no_mangle)]
pub extern "C" fn ask() -> usize {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| std::panic::set_hook(Box::new(|panic| *locked(&ANSWER) = panic.to_string())));
    let question = std::mem::take(&mut *locked(&QUESTION));
    let text = phaselink_studies::ask::answer(&question, || false).to_string();
    *locked(&ANSWER) = text;
    length()
}

/// Returns the address of the answer; valid until the next call of [`ask`].
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> *const u8 {
    locked(&ANSWER).as_ptr()
}

/// Returns the length of the answer in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn length() -> usize {
    locked(&ANSWER).len()
}
