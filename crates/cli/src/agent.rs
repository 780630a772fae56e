//! `knee agent`: runs the applications of a run's hosts on a machine that another knee controls.

use std::io::{self, BufReader, Read, Stdin};
use std::os::fd::AsFd as _;

use knee_lab::traffic::agent;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::Failure;

/// Time without any message after which the agent gives up. The controlling knee asks every second whether the agent
/// is alive. Nothing reports a controller whose machine lost its network.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// Obeys orders from standard input until it ends or stays silent for `PATIENCE`.
pub(crate) fn run() -> Result<(), Failure> {
    let orders = BufReader::new(Orders { input: io::stdin(), has_begun: false });
    agent::serve(orders, io::stdout()).map_err(|why| Failure::Says(why.to_string()))
}

struct Orders {
    input: Stdin,
    has_begun: bool,
}

impl Orders {
    /// Waits for input. Returns whether there is data, or the end of the input.
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
        // The first order has no time limit, because a person may type it.
        if self.has_begun && !self.wait()? {
            return Ok(0);
        }
        self.has_begun = true;
        // Reads without the lock and buffer of `Stdin`, because poll does not see buffered data.
        Ok(rustix::io::read(self.input.as_fd(), buffer)?)
    }
}
