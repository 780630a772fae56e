//! The event loop of the live table, and its terminal, which it restores at the end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::app::{App, Reaction};
use super::rows::Sampler;
use super::screen;
use crate::Failure;
use crate::kernel::select::NetnsArgs;

/// Longest delay until a signal is noticed.
const PATIENCE: Duration = Duration::from_millis(100);

/// The terminal while the table uses it. Dropping it restores the terminal, and so does a panic (`try_init` installs
/// the hook).
struct Screen(DefaultTerminal);

impl Screen {
    fn take() -> io::Result<Screen> {
        ratatui::try_init().map(Screen).inspect_err(|_| {
            // The setup may have failed half way. An error of the restoration cannot be reported any better.
            let _ = ratatui::try_restore();
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.0.show_cursor();
        let _ = ratatui::try_restore();
    }
}

pub(super) fn run(
    mut sampler: Sampler,
    netns: &NetnsArgs,
    all: bool,
    interval: Duration,
) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())
            .map_err(|why| Failure::Says(format!("cannot listen for signals: {why}")))?;
    }
    // Everything that can fail runs before the terminal is taken over.
    let mut app = App::new(all, netns.are_several());
    app.take(sampler.sample(netns, all)?, Instant::now());
    let broken = |error: io::Error| Failure::Says(format!("the terminal fails: {error}"));
    let mut terminal = Screen::take().map_err(broken)?;
    let mut is_stale = true;
    while !stop.load(Ordering::Relaxed) {
        if is_stale {
            terminal.0.draw(|frame| screen::draw(frame, &mut app)).map_err(broken)?;
            is_stale = false;
        }
        let mut asked = Reaction::Nothing;
        if wait(&app, interval).map_err(broken)? {
            // A key or a new size. The next drawing reads the size itself.
            if let Event::Key(key) = event::read().map_err(broken)? {
                asked = app.key(key);
            }
            is_stale = true;
        }
        let is_due = app.read_at.is_none_or(|at| at.elapsed() >= interval);
        match asked {
            Reaction::Quit => break,
            Reaction::Nothing if app.is_paused || !is_due => {}
            Reaction::Nothing | Reaction::Read => {
                let rows = sampler.sample(netns, app.all)?;
                app.take(rows, Instant::now());
                is_stale = true;
            }
        }
    }
    Ok(())
}

/// Waits for a key or a new size, until the next reading or the next check for signals is due.
fn wait(app: &App, interval: Duration) -> io::Result<bool> {
    let due = app.read_at.map_or(Duration::ZERO, |at| interval.saturating_sub(at.elapsed()));
    match event::poll(if app.is_paused { PATIENCE } else { due.min(PATIENCE) }) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        other => other,
    }
}
