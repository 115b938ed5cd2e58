//! The simulator for whoever can run WebAssembly: a question as JSON goes in, an answer as JSON comes out.
//!
//! Memory is passed without a pointer that anybody has to trust: the caller asks for room with [`room`], writes the
//! question there, calls [`ask`], and reads as many bytes as it returned from [`answer`] on. What may be asked is in
//! [`phaselink_core::ask`]; an answer is `{"answer": ...}` or `{"problems": [...], "text": "..."}`.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

use std::sync::{Mutex, MutexGuard, Once, PoisonError};

static QUESTION: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static ANSWER: Mutex<String> = Mutex::new(String::new());

/// What stands there, even if a question before this one ended in a panic.
fn locked<T>(place: &'static Mutex<T>) -> MutexGuard<'static, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Room for a question of so many bytes; valid until the next call of anything here.
#[unsafe(no_mangle)]
pub extern "C" fn room(bytes: usize) -> *mut u8 {
    let mut question = locked(&QUESTION);
    question.clear();
    question.resize(bytes, 0);
    question.as_mut_ptr()
}

/// Answer the question. Returns the length of the answer in bytes.
///
/// After a trap the answer is the message of the panic, `length` bytes long, and the module is to be loaded anew.
#[unsafe(no_mangle)]
pub extern "C" fn ask() -> usize {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| std::panic::set_hook(Box::new(|panic| *locked(&ANSWER) = panic.to_string())));
    let question = std::mem::take(&mut *locked(&QUESTION));
    let text = phaselink_core::ask::answer(&question, || false).to_string();
    *locked(&ANSWER) = text;
    length()
}

/// Where the answer begins; valid until the next call of [`ask`].
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> *const u8 {
    locked(&ANSWER).as_ptr()
}

/// How many bytes the answer has.
#[unsafe(no_mangle)]
pub extern "C" fn length() -> usize {
    locked(&ANSWER).len()
}
