//! Runs that involve code of users' files. Such code can leave values that make the simulator
//! panic. The panic then ends that run, like a crash of the code, and no other run.

use std::cell::{Cell, RefCell};
use std::panic::{
    AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind, set_hook, take_hook,
};
use std::sync::Once;

use super::fault::Fault;
use super::guard;

thread_local! {
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    /// Message and place of the panic.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Carries out a run.
///
/// # Errors
/// The sentence about the file whose code failed. A panic counts as such a failure if the run had
/// called code of a file before.
pub fn carry_out<R>(run: impl FnOnce() -> R) -> Result<R, Fault> {
    install();
    guard::forget_last();
    let outer = IS_WATCHED.replace(true);
    // The run's state, and with it all that the file's code changed, is dropped.
    let result = catch_unwind(AssertUnwindSafe(run));
    IS_WATCHED.set(outer);
    let said = SAID.take();
    result.or_else(|panic| match Fault::of(panic) {
        Ok(fault) => Err(fault),
        Err(panic) => match guard::last_call(said.unwrap_or_default()) {
            Some(fault) => Err(fault),
            None => resume_unwind(panic),
        },
    })
}

/// Installs a hook that keeps the message of such a panic for the sentence, instead of printing it.
fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |info| {
            if IS_WATCHED.get() && guard::has_called() {
                SAID.set(Some(words(info)));
            } else {
                usual(info);
            }
        }));
    });
}

fn words(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("a panic").lines().next().unwrap_or_default();
    let place = info.location().map_or_else(String::new, |place| {
        let file = place.file();
        let file = file.find("crates/").map_or(file, |at| &file[at..]);
        format!(" ({file}:{})", place.line())
    });
    format!("{text}{place}")
}
