//! Agents on all machines of a file: start, clock offsets, commands, failures.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::connection::{Connection, Event};
use super::{Binary, Machine, Machines};
use crate::Error;
use crate::traffic::agent::{AgentCommand, Answer, Hello, PROTOCOL, Round, clock_offset};
use crate::traffic::clock;

/// Period of checks of `stop` and of the machines.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Timeout of [`Answer::Hello`], since the last activity of the connection.
const HELLO_WITHIN: Duration = Duration::from_secs(30);
/// Timeout of a preparation. An agent answers nothing meanwhile: it loads algorithms and opens sockets.
const PREPARE_WITHIN: Duration = Duration::from_secs(60);
/// Timeout of any other answer, in seconds.
const SILENT_MAX_S: u32 = 10;
/// Pings per measurement of a clock's offset; the fastest counts. More follow until one is within [`CLOCK_WITHIN_NS`].
const CLOCK_ROUNDS: usize = 30;
const CLOCK_ROUNDS_MAX: usize = 300;
const CLOCK_WITHIN_NS: u64 = 200_000;

/// Tells whether to stop early.
pub(super) type Stop<'a> = &'a dyn Fn() -> bool;

/// Offset of a machine's clock at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ClockAt {
    /// The moment, by the clock of this machine.
    pub(super) at_ns: u64,
    /// That machine's clock minus this one's.
    pub(super) ahead_ns: i64,
    /// Uncertainty of the offset, plus or minus.
    pub(super) within_ns: u64,
}

/// Agents on all machines. They exit when this is dropped.
pub(super) struct Fleet {
    connections: Vec<Connection>,
    events: Receiver<(usize, Event)>,
    /// Machines as their agents report them, in the order of the file.
    pub(super) hellos: Vec<Hello>,
}

impl Fleet {
    /// Starts an agent on each machine.
    ///
    /// # Errors
    /// If a machine cannot be reached, or differs from the file; with its name and the reason.
    pub(super) fn connect(machines: &Machines, stop: Stop<'_>) -> Result<Fleet, Error> {
        let (tell, events) = mpsc::channel();
        let mut fleet = Fleet { connections: Vec::new(), events, hellos: Vec::new() };
        for (number, machine) in machines.machines.iter().enumerate() {
            fleet.connections.push(Connection::open(machine, number, tell.clone())?);
        }
        drop(tell);
        let is_still = |connection: &Connection| connection.still_for() > HELLO_WITHIN;
        let mut hellos: Vec<Option<Hello>> = machines.machines.iter().map(|_| None).collect();
        while let Some(waits) = hellos.iter().position(Option::is_none) {
            match fleet.next(stop) {
                Ok(Some((number, Answer::Hello(hello), _))) => hellos[number] = Some(hello),
                Ok(Some((number, other, _))) => return Err(fleet.unexpected(number, &other)),
                Ok(None) if is_still(&fleet.connections[waits]) => {
                    let why = format!("nothing came for {} s", HELLO_WITHIN.as_secs());
                    return Err(not_started(&machines.machines[waits], &why));
                }
                Ok(None) => {}
                Err(Interruption::Stopped) => return Err(stopped()),
                Err(Interruption::Gone(number, why)) => {
                    return Err(not_started(&machines.machines[number], &why));
                }
            }
        }
        fleet.hellos = hellos.into_iter().flatten().collect();
        for (machine, hello) in machines.machines.iter().zip(&fleet.hellos) {
            check(machine, hello)?;
        }
        Ok(fleet)
    }

    /// Sends a command to one machine.
    pub(super) fn send(&self, machine: usize, command: AgentCommand) {
        self.connections[machine].send(command);
    }

    /// Sends a command to all machines.
    pub(super) fn send_all(&self, command: &AgentCommand) {
        for connection in &self.connections {
            connection.send(command.clone());
        }
    }

    /// Sends each machine its preparation and waits until all are ready.
    ///
    /// # Errors
    /// If a machine cannot; with its name and the reason.
    pub(super) fn prepare(
        &mut self,
        commands: Vec<AgentCommand>,
        stop: Stop<'_>,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        let mut waits = vec![true; commands.len()];
        for (machine, command) in commands.into_iter().enumerate() {
            self.send(machine, command);
        }
        while let Some(machine) = waits.iter().position(|waits| *waits) {
            match self.next(stop) {
                Ok(Some((machine, Answer::Ready { .. }, _))) => waits[machine] = false,
                Ok(Some((machine, other, _))) => return Err(self.unexpected(machine, &other)),
                Ok(None) if begun.elapsed() > PREPARE_WITHIN => {
                    let why = format!("it is not ready after {} s", PREPARE_WITHIN.as_secs());
                    return Err(self.died(machine, &why));
                }
                Ok(None) => {}
                Err(interruption) => return Err(self.error(interruption)),
            }
        }
        Ok(())
    }

    /// Measures the offsets of all clocks.
    ///
    /// # Errors
    /// If a machine is gone; with its name.
    pub(super) fn clocks(&mut self, stop: Stop<'_>) -> Result<Vec<ClockAt>, Error> {
        (0..self.connections.len()).map(|machine| self.clock(machine, stop)).collect()
    }

    /// Measures one clock at a time, so that no other traffic delays the pings.
    fn clock(&mut self, machine: usize, stop: Stop<'_>) -> Result<ClockAt, Error> {
        let mut rounds = Vec::new();
        let is_enough = |rounds: &[Round]| {
            let within = clock_offset(rounds).is_some_and(|(_, within)| within <= CLOCK_WITHIN_NS);
            rounds.len() >= if within { CLOCK_ROUNDS } else { CLOCK_ROUNDS_MAX }
        };
        while !is_enough(&rounds) {
            let id = rounds.len() as u64;
            let left_ns = clock::now_ns();
            self.send(machine, AgentCommand::Ping { id });
            loop {
                match self.next_alive(stop)? {
                    Some((from, Answer::Pong { id: of, received_ns, sent_ns }, back_ns))
                        if (from, of) == (machine, id) =>
                    {
                        rounds.push(Round { left_ns, received_ns, sent_ns, back_ns });
                        break;
                    }
                    Some((from, other, _)) => return Err(self.unexpected(from, &other)),
                    None => {}
                }
            }
        }
        let at_ns = clock::now_ns();
        let (ahead_ns, within_ns) = clock_offset(&rounds).unwrap_or_default();
        Ok(ClockAt { at_ns, ahead_ns, within_ns })
    }

    /// The next answer with its time of arrival; `None`: none within [`LOOK_EVERY`].
    ///
    /// # Errors
    /// If a machine is gone, or `stop` is set.
    pub(super) fn next_alive(
        &mut self,
        stop: Stop<'_>,
    ) -> Result<Option<(usize, Answer, u64)>, Error> {
        let next = self.next(stop).map_err(|interruption| self.error(interruption))?;
        let silent = |connection: &Connection| connection.unanswered_s() > SILENT_MAX_S;
        match self.connections.iter().position(silent) {
            Some(machine) if next.is_none() => {
                Err(self.died(machine, &format!("it has not answered for {SILENT_MAX_S} s")))
            }
            _ => Ok(next),
        }
    }

    fn next(&mut self, stop: Stop<'_>) -> Result<Option<(usize, Answer, u64)>, Interruption> {
        if stop() {
            return Err(Interruption::Stopped);
        }
        match self.events.recv_timeout(LOOK_EVERY) {
            Ok((machine, Event::Said(answer, at_ns))) => Ok(Some((machine, answer, at_ns))),
            Ok((machine, Event::Ended(why))) => {
                let why = why.unwrap_or_else(|| self.connections[machine].why_it_ended());
                Err(Interruption::Gone(machine, why))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            // Each says that it has ended before it is gone.
            Err(RecvTimeoutError::Disconnected) => {
                Err(Interruption::Gone(0, "its connection closed".to_owned()))
            }
        }
    }

    fn error(&self, interruption: Interruption) -> Error {
        match interruption {
            Interruption::Stopped => stopped(),
            Interruption::Gone(machine, why) => self.died(machine, &why),
        }
    }

    fn died(&self, machine: usize, why: &str) -> Error {
        let name = self.connections[machine].name();
        Error::Failed(format!(
            "machine {name} is gone during a run, so knee stopped the others: {why}"
        ))
    }

    /// The error for [`Answer::Error`], or for an answer that does not fit the command.
    pub(super) fn unexpected(&self, machine: usize, answer: &Answer) -> Error {
        let name = self.connections[machine].name();
        Error::Failed(match answer {
            Answer::Error { text } => format!("machine {name}: {text}"),
            _ => format!(
                "machine {name} sent an unexpected answer: all machines need the same version of knee"
            ),
        })
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // All at once; each is waited for when its connection is dropped.
        self.connections.iter_mut().for_each(Connection::leave);
    }
}

/// Reason why there is no next answer.
enum Interruption {
    Stopped,
    /// A machine is gone: its number, and the reason.
    Gone(usize, String),
}

fn stopped() -> Error {
    Error::Stopped
}

fn not_started(machine: &Machine, why: &str) -> Error {
    let way_out = match machine.knee {
        Binary::There(_) => "its key knee must name a knee of this version there",
        Binary::Copied(_) | Binary::Same => {
            "knee copies its program to /tmp there, which must not be mounted noexec; for another architecture set copy to \
             a knee for it, or knee to one that is installed there"
        }
    };
    Error::Failed(format!(
        "machine {}: \"ssh {}\" started no knee agent; it must work without a question ({way_out}): {why}",
        machine.name, machine.ssh
    ))
}

fn check(machine: &Machine, hello: &Hello) -> Result<(), Error> {
    let refuse = |why: String| Err(Error::Failed(format!("machine {}: {why}", machine.name)));
    if hello.protocol != PROTOCOL {
        return refuse(format!(
            "its knee has version {} and another protocol than this one, {}: install the same version on both",
            hello.version,
            env!("CARGO_PKG_VERSION")
        ));
    }
    if hello.devices.iter().any(|device| device.name == machine.device) {
        return Ok(());
    }
    let devices: Vec<_> = hello.devices.iter().map(|device| device.name.as_str()).collect();
    refuse(format!("it has no device {}; it has {}", machine.device, devices.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_of_another_protocol_is_told_by_its_version() {
        let machine = Machine {
            name: "left".to_owned(),
            ssh: "left".to_owned(),
            address: [192, 0, 2, 1].into(),
            device: "eth1".to_owned(),
            roles: vec!["s1".to_owned()],
            knee: Binary::Same,
            options: Vec::new(),
        };
        // As agents of protocol 1 say who they are, and one that knows no sysctls.
        let older = r#"{"hello":{"protocol":1,"version":"0.0.9","kernel":"6.1.0","host":"left","cores":2,"devices":[]}}"#;
        let Ok(Answer::Hello(hello)) = serde_json::from_str(older) else { panic!("{older}") };
        let why = check(&machine, &hello).unwrap_err().to_string();
        let expected =
            "machine left: its knee has version 0.0.9 and another protocol than this one";
        assert!(why.starts_with(expected), "{why}");
        let same = Hello { protocol: PROTOCOL, ..hello };
        assert!(check(&machine, &same).unwrap_err().to_string().contains("it has no device eth1"));
    }
}
