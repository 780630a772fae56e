//! Tasks on several threads, with results in the order of the tasks.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use knee_run::Error;

/// Carries out task 0 to `tasks` - 1 on this number of threads. Results come in the order of the tasks, so they are the
/// same for any number of threads. With several errors, the first task's counts.
///
/// # Errors
/// That of a task; [`Error::Stopped`] once `stop` is set.
pub(crate) fn map<T: Send>(
    threads: usize,
    tasks: usize,
    stop: &AtomicBool,
    task: impl Fn(usize) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let done: Mutex<Vec<(usize, Result<T, Error>)>> = Mutex::new(Vec::with_capacity(tasks));
    let work = || {
        let mut mine = Vec::new();
        while !stop.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= tasks {
                break;
            }
            let result = task(index);
            if result.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            mine.push((index, result));
        }
        if let Ok(mut done) = done.lock() {
            done.append(&mut mine);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(tasks) {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_unstable_by_key(|(index, _)| *index);
    let results = done.into_iter().map(|(_, result)| result).collect::<Result<Vec<_>, _>>()?;
    if results.len() < tasks { Err(Error::Stopped) } else { Ok(results) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_a_stop_ends_them() {
        let stop = AtomicBool::new(false);
        let squares = map(3, 100, &stop, |i| Ok(i * i)).unwrap();
        assert!(squares.iter().enumerate().all(|(i, square)| *square == i * i));
        let failed = map(2, 50, &stop, |i| match i {
            7 => Err(Error::Failed("seven".into())),
            _ => Ok(i),
        });
        assert_eq!(failed, Err(Error::Failed("seven".into())));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(map(2, 50, &stop, Ok), Err(Error::Stopped));
    }
}
