//! Runs that involve code of users' files. Such code can leave values that make the simulator
//! panic. The panic then ends that run, like a crash of the code, and no other run.

use std::cell::{Cell, RefCell};
use std::panic::{
    AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind, set_hook, take_hook,
};
use std::sync::{Arc, Mutex, PoisonError};

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
    let _in_run = guard::InRun::begin();
    let hook = Hook::install();
    let outer = IS_WATCHED.replace(true);
    // The run's state, and with it all that the file's code changed, is dropped.
    let result = catch_unwind(AssertUnwindSafe(run));
    IS_WATCHED.set(outer);
    drop(hook);
    let said = SAID.take();
    result.or_else(|panic| match Fault::of(panic) {
        Ok(fault) => Err(fault),
        Err(panic) => match guard::last_call(said.unwrap_or_default()) {
            Some(fault) => Err(fault),
            None => resume_unwind(panic),
        },
    })
}

type UsualHook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

/// The hook that ours replaced, and the number of runs for which ours is there. Our hook does not take this lock: to replace a hook is to
/// wait until no thread is in it.
static USUAL: Mutex<(Option<Arc<UsualHook>>, usize)> = Mutex::new((None, 0));

/// While there is one of these, a hook keeps the message of such a panic for the sentence, instead of printing it.
struct Hook;

impl Hook {
    fn install() -> Hook {
        let mut usual = USUAL.lock().unwrap_or_else(PoisonError::into_inner);
        usual.1 += 1;
        if usual.1 == 1 {
            let before = Arc::new(take_hook());
            usual.0 = Some(before.clone());
            set_hook(Box::new(move |info| {
                if IS_WATCHED.get() && guard::has_called() {
                    SAID.set(Some(words(info)));
                } else {
                    before(info);
                }
            }));
        }
        Hook
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        let mut usual = USUAL.lock().unwrap_or_else(PoisonError::into_inner);
        usual.1 -= 1;
        let is_last = usual.1 == 0;
        if let Some(before) = usual.0.take_if(|_| is_last) {
            // Ours goes, and with it the other reference.
            drop(take_hook());
            set_hook(match Arc::try_unwrap(before) {
                Ok(before) => before,
                Err(before) => Box::new(move |info| before(info)),
            });
        }
    }
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
