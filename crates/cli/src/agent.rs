//! `knee agent`: the hosts' applications of a run, on a machine that another one gives orders to.

use std::io::{self, BufReader, Read, Stdin};
use std::os::fd::AsFd as _;

use knee_lab::traffic::agent;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::Failure;

/// Whoever gives orders asks every second whether this is there. Without a word for so long it is gone, though nothing has said
/// so: its machine may have lost its network.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// Obeys the orders on standard input until it ends, or nothing comes any more.
pub(crate) fn run() -> Result<(), Failure> {
    let orders = BufReader::new(Orders { input: io::stdin(), has_begun: false });
    agent::serve(orders, io::stdout()).map_err(|why| Failure::Says(why.to_string()))
}

struct Orders {
    input: Stdin,
    has_begun: bool,
}

impl Orders {
    /// Whether there is something to read, or its end.
    fn wait(&self) -> io::Result<bool> {
        loop {
            let mut input = [PollFd::new(&self.input, PollFlags::IN)];
            match poll(&mut input, Some(&PATIENCE)) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(why) => return Err(why.into()),
            }
        }
    }
}

impl Read for Orders {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Somebody who types has time.
        if self.has_begun && !self.wait()? {
            return Ok(0);
        }
        self.has_begun = true;
        // Not through its lock and buffer, of which poll knows nothing.
        Ok(rustix::io::read(self.input.as_fd(), buffer)?)
    }
}
