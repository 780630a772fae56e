//! A script that is written while it is played: the stack answers first, then the line is known.

use super::{Limits, Player, Refusal, Stop};
use crate::script::{Error, Pattern, Script};
use crate::stack::{Info, Stack};
use knee_queue::time::Time;
use knee_wire::Segment;

/// A play whose lines come one by one. What the peer fills in is what it will fill in when the script is played.
pub(crate) struct Live<'a> {
    player: Player<'a>,
}

impl<'a> Live<'a> {
    /// `head` has the settings.
    pub(crate) fn new(head: &'a Script, stack: &'a mut dyn Stack) -> Live<'a> {
        Live { player: Player::new(head, stack, Limits::default()) }
    }

    /// Does a line. `echoes`: the segment that it names.
    pub(crate) fn line(&mut self, text: &str, echoes: Option<&str>) -> Result<(), Error> {
        let before = echoes.map_or("wait".to_owned(), |name| format!("out [.] as {name}"));
        let mut read = Script::parse("random", &format!("{before}\n{text}\n"))?;
        read.body.retain(|line| line.number > 1);
        self.player.lines(&read.body).map_err(|stop| {
            let (Stop::Differs(why) | Stop::Cannot(why)) = stop;
            self.player.error(format!("{text}: {why}"))
        })
    }

    /// The next segment that leaves, until then.
    pub(crate) fn next(&mut self, until: Time) -> Result<Option<(Time, Segment)>, Refusal> {
        self.player.info = None;
        self.player.stack.next_segment(until)
    }

    /// A segment has left, and its line is written.
    pub(crate) fn note(&mut self, at: Time, segment: &Segment, name: String, is_lost: bool) {
        self.player.last = at;
        let pattern = Pattern { name: Some(name), is_lost, ..Pattern::default() };
        self.player.note_received(&pattern, segment);
    }

    /// When the event before happened.
    pub(crate) fn last(&self) -> Time {
        self.player.last
    }

    pub(crate) fn now(&self) -> Time {
        self.player.stack.now()
    }

    pub(crate) fn info(&mut self) -> Result<Info, Refusal> {
        self.player.stack.info()
    }
}
