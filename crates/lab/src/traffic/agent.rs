//! A traffic program on another machine: commands arrive and answers leave as lines of JSON.
//!
//! It begins with [`Answer::Hello`]. Then the controller measures the clock offset ([`AgentCommand::Ping`], [`clock_offset`]), sends
//! [`AgentCommand::Prepare`], answered by [`Answer::Ready`], and [`AgentCommand::Start`] with a time of the agent's clock. The agent reports
//! at the end of the run, or soon after [`AgentCommand::Stop`]. Its connections stay until the next [`AgentCommand::Prepare`], so that none is
//! reset while another machine still counts. When its input ends it stops everything and exits. Runs can follow each other.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, Write};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use knee_algo::Algorithm;
use knee_bpf::{Embedded, Loaded};
use serde::{Deserialize, Serialize};

pub use super::devices::Device;
use super::{Algorithms, Here, Program, TrafficPlan, TrafficReport, clock, devices, prepare};
use crate::Error;
use crate::site::settings;

/// Version of this protocol. It changes with every change that an older program does not understand.
pub const PROTOCOL: u32 = 5;

/// Command to an agent. As a line: `{"ping":{"id":1}}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AgentCommand {
    /// Answer at once, with the agent's clock.
    Ping {
        /// Repeated in the answer.
        id: u64,
    },
    /// Close the sockets of the last run and open those of the next.
    Prepare(Box<Preparation>),
    /// Run what was prepared.
    Start {
        /// Time 0 of the run, by the agent's CLOCK_MONOTONIC.
        zero_ns: u64,
    },
    /// End the run now.
    Stop {},
}

/// Everything that an agent sets up before a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preparation {
    /// Algorithms to load; the plan uses their kernel names.
    pub algorithms: Vec<ToLoad>,
    /// Base RTTs of connection ends.
    pub base_rtts: Vec<BaseRtt>,
    /// The agent's machine is host 0.
    pub plan: TrafficPlan,
}

/// An algorithm to load.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToLoad {
    /// Name in the kernel.
    pub kernel_name: String,
    /// Name in knee.
    pub name: String,
    /// For an algorithm from a file: the object that the controller compiled, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Parameters, each as `name=value`; the others have their defaults.
    pub params: Vec<String>,
}

/// RTT without queues, for one end of a connection.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseRtt {
    /// Index of the flow in the run.
    pub flow: u32,
    /// Whether it is the listening side.
    pub listens: bool,
    pub base_rtt_us: NonZeroU32,
}

/// Answer of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// First line: the machine.
    Hello(Hello),
    /// Answer to [`AgentCommand::Ping`].
    Pong {
        /// Identifier of the ping.
        id: u64,
        /// Time of arrival, by the agent's CLOCK_MONOTONIC.
        received_ns: u64,
        /// Time of this answer.
        sent_ns: u64,
    },
    /// The preparation is complete.
    Ready {
        /// Flow, and the port of its listening side here.
        ports: Vec<(u32, u16)>,
    },
    /// Every finite transfer whose end this agent sees has completed.
    Done {},
    /// The run is over.
    Report(Box<TrafficReport>),
    /// The command failed. After a command that it does not understand the agent exits.
    Error {
        /// The reason, in one sentence.
        text: String,
    },
}

/// A machine, as far as results depend on it. An older agent's is understood as well, so that its protocol can be reported.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the agent.
    pub protocol: u32,
    /// Version of knee.
    pub version: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Host name.
    pub host: String,
    /// CPUs that it may use.
    pub cores: usize,
    /// Network devices and their settings.
    pub devices: Vec<Device>,
    /// Sysctls that experiments speak of, as `net.ipv4.tcp_ecn`.
    #[serde(default)]
    pub sysctls: BTreeMap<String, String>,
}

impl Hello {
    /// Describes this machine.
    pub fn this() -> Hello {
        let of_kernel = |name: &str| {
            let text = fs::read_to_string(format!("/proc/sys/kernel/{name}"));
            text.unwrap_or_default().trim().to_owned()
        };
        Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: of_kernel("osrelease"),
            host: of_kernel("hostname"),
            cores: thread::available_parallelism().map_or(1, usize::from),
            devices: devices::all(),
            sysctls: settings::all(),
        }
    }
}

/// Four timestamps of a ping of an agent, as in NTP.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// The ping leaves here.
    pub left_ns: u64,
    /// The agent receives it, by its clock ([`Answer::Pong`]).
    pub received_ns: u64,
    /// The agent answers, by its clock ([`Answer::Pong`]).
    pub sent_ns: u64,
    /// The answer arrives here.
    pub back_ns: u64,
}

/// Offset of an agent's clock against this one and its uncertainty, in ns, from the fastest round: as in NTP, both
/// directions are assumed equal. `None`: there was no round.
pub fn clock_offset(rounds: &[Round]) -> Option<(i64, u64)> {
    let offset = |round: &Round| {
        let took = round
            .back_ns
            .saturating_sub(round.left_ns)
            .saturating_sub(round.sent_ns.saturating_sub(round.received_ns));
        let there = round.received_ns as i64 - round.left_ns as i64;
        let back = round.sent_ns as i64 - round.back_ns as i64;
        (took / 2, (there + back) / 2)
    };
    rounds.iter().map(offset).min().map(|(within_ns, ahead_ns)| (ahead_ns, within_ns))
}

/// Output for answers, shared by two threads.
struct Output<W>(Arc<Mutex<W>>);

impl<W: Write> Output<W> {
    fn say(&self, answer: &Answer) -> Result<(), Error> {
        let text = serde_json::to_string(answer).map_err(|why| Error::Failed(why.to_string()))?;
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(out, "{text}")
            .and_then(|()| out.flush())
            .map_err(|why| Error::Failed(format!("cannot write answers: {why}")))
    }
}

impl<W> Clone for Output<W> {
    fn clone(&self) -> Output<W> {
        Output(self.0.clone())
    }
}

/// Input of commands, one per line.
struct Input<R> {
    lines: R,
    number: u64,
}

impl<R: BufRead> Input<R> {
    /// The next command and its time of arrival; `None`: the input has ended.
    fn next(&mut self) -> Result<Option<(AgentCommand, u64)>, Error> {
        let mut line = String::new();
        self.number += 1;
        let number = self.number;
        let malformed = |why: String| {
            Error::Failed(format!(
                "line {number} is no command ({why}): both machines need the same version of knee"
            ))
        };
        match self.lines.read_line(&mut line) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(why) if why.kind() == io::ErrorKind::InvalidData => {
                return Err(malformed(why.to_string()));
            }
            Err(why) => return Err(Error::Failed(format!("cannot read commands: {why}"))),
        }
        let received_ns = clock::now_ns();
        let command = serde_json::from_str(&line).map_err(|why| malformed(why.to_string()))?;
        Ok(Some((command, received_ns)))
    }
}

/// Executes commands until the input ends, then aborts all transfers.
///
/// # Errors
/// If a line is no command, comes at the wrong time, or answers cannot be written. The controller gets the error as well.
pub fn serve<W: Write + Send + 'static>(input: impl BufRead, output: W) -> Result<(), Error> {
    let output = Output(Arc::new(Mutex::new(output)));
    let result = obey(Input { lines: input, number: 0 }, &output);
    if let Err(why) = &result {
        // The controller may be gone.
        let _ = output.say(&Answer::Error { text: why.to_string() });
    }
    result
}

fn obey<W: Write + Send + 'static>(
    mut input: Input<impl BufRead>,
    output: &Output<W>,
) -> Result<(), Error> {
    output.say(&Answer::Hello(Hello::this()))?;
    let mut prepared = None;
    loop {
        let preparation = match prepared.take() {
            Some(preparation) => preparation,
            None => match next_preparation(&mut input, output)? {
                Some(preparation) => preparation,
                None => return Ok(()),
            },
        };
        prepared = match work_on(*preparation, &mut input, output) {
            Ok(Next::Prepare(preparation)) => Some(preparation),
            Ok(Next::Leave) => return Ok(()),
            Err(AgentFailure::Machine(why)) => {
                output.say(&Answer::Error { text: why.to_string() })?;
                None
            }
            Err(AgentFailure::Controller(why)) => return Err(why),
        };
    }
}

/// How a preparation ends.
enum Next {
    Prepare(Box<Preparation>),
    Leave,
}

/// Failure of a preparation.
enum AgentFailure {
    /// This machine cannot do it; other commands may follow.
    Machine(Error),
    /// The controller sent no valid command, or is gone.
    Controller(Error),
}

fn pong(id: u64, received_ns: u64) -> Answer {
    Answer::Pong { id, received_ns, sent_ns: clock::now_ns() }
}

fn next_preparation(
    input: &mut Input<impl BufRead>,
    output: &Output<impl Write>,
) -> Result<Option<Box<Preparation>>, Error> {
    while let Some((command, received_ns)) = input.next()? {
        match command {
            AgentCommand::Ping { id } => output.say(&pong(id, received_ns))?,
            AgentCommand::Prepare(preparation) => return Ok(Some(preparation)),
            AgentCommand::Start { .. } => {
                return Err(Error::Failed("it got start before prepare".to_owned()));
            }
            // After a preparation that failed.
            AgentCommand::Stop {} => {}
        }
    }
    Ok(None)
}

/// Carries out a preparation until the next one, or the end.
fn work_on<W: Write + Send + 'static>(
    preparation: Preparation,
    input: &mut Input<impl BufRead>,
    output: &Output<W>,
) -> Result<Next, AgentFailure> {
    let loaded = load(&preparation.algorithms).map_err(AgentFailure::Machine)?;
    let base_rtts = preparation.base_rtts.iter();
    let base_rtts = base_rtts.map(|told| ((told.flow, told.listens), told.base_rtt_us)).collect();
    let algorithms = Algorithms::new(loaded.iter().collect(), base_rtts);
    let mut program =
        prepare(preparation.plan, Here::new(algorithms)).map_err(AgentFailure::Machine)?;
    let ports = program.ports();
    let tell = output.clone();
    program.on_done(move || {
        let _ = tell.say(&Answer::Done {});
    });
    output.say(&Answer::Ready { ports }).map_err(AgentFailure::Controller)?;
    let stop = AtomicBool::new(false);
    let (start, started) = mpsc::channel();
    thread::scope(|scope| {
        let (program, stop) = (&mut program, &stop);
        scope.spawn(move || run(program, &started, stop, output));
        let next = follow(input, output, start, stop);
        // Whatever it is, this run is over.
        stop.store(true, Ordering::Relaxed);
        next.map_err(AgentFailure::Controller)
    })
}

fn load(algorithms: &[ToLoad]) -> Result<Vec<Loaded>, Error> {
    let load = |wanted: &ToLoad| -> Result<Loaded, String> {
        let of_file = wanted.object.as_ref().map(|digits| of_object(&wanted.name, digits));
        let of_file = of_file.transpose()?;
        let (algorithm, embedded) = match &of_file {
            Some(of_file) => (of_file.algorithm(), of_file),
            None => (
                Algorithm::by_name(&wanted.name).map_err(|why| why.to_string())?,
                Embedded::by_name(&wanted.name).map_err(|why| why.to_string())?,
            ),
        };
        let mut params = algorithm.default_params();
        for param in &wanted.params {
            let (name, value) = param
                .split_once('=')
                .ok_or_else(|| format!("{}: \"{param}\" is not name=value", wanted.name))?;
            algorithm.set_param(&mut params, name, value).map_err(|why| why.to_string())?;
        }
        Loaded::register_noting_init(embedded, &wanted.kernel_name, &params)
            .map_err(|why| why.to_string())
    };
    algorithms.iter().map(|wanted| load(wanted).map_err(Error::Failed)).collect()
}

/// The algorithm of an object that came with the preparation, checked like any other file.
fn of_object(name: &str, digits: &str) -> Result<Embedded, String> {
    let bytes = from_hex(digits).ok_or_else(|| format!("{name}: its object is cut short"))?;
    Embedded::of_object(Path::new(name), &bytes).map_err(|why| why.to_string())
}

/// Bytes as hexadecimal digits, for lines of JSON.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    let digit = |number: u8| char::from_digit(u32::from(number), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|number| number as u8);
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

/// Waits for the start, runs, and reports.
fn run<W: Write>(
    program: &mut Program<Here<'_>>,
    started: &mpsc::Receiver<u64>,
    stop: &AtomicBool,
    output: &Output<W>,
) {
    if let Ok(zero_ns) = started.recv() {
        let report = program.run(zero_ns, stop);
        // If the controller is gone, the input ends as well.
        let _ = output.say(&Answer::Report(Box::new(report)));
    }
}

/// Executes commands while a program is ready, running or done.
fn follow(
    input: &mut Input<impl BufRead>,
    output: &Output<impl Write>,
    start: mpsc::Sender<u64>,
    stop: &AtomicBool,
) -> Result<Next, Error> {
    let mut start = Some(start);
    while let Some((command, received_ns)) = input.next()? {
        match command {
            AgentCommand::Ping { id } => output.say(&pong(id, received_ns))?,
            AgentCommand::Prepare(preparation) => return Ok(Next::Prepare(preparation)),
            AgentCommand::Start { zero_ns } => {
                let start =
                    start.take().ok_or_else(|| Error::Failed("it got start twice".to_owned()))?;
                // Its thread waits for nothing else.
                let _ = start.send(zero_ns);
            }
            AgentCommand::Stop {} => stop.store(true, Ordering::Relaxed),
        }
    }
    Ok(Next::Leave)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_offset_is_that_of_the_fastest_round() {
        let round = |left_ns, received_ns, sent_ns, back_ns| Round {
            left_ns,
            received_ns,
            sent_ns,
            back_ns,
        };
        // 1000 ahead; 100 there, 100 back, 50 in between. The other answer was delayed by 900.
        let rounds = [round(0, 1100, 1150, 1150), round(2000, 3100, 3150, 2250)];
        assert_eq!(clock_offset(&rounds), Some((1000, 100)));
        assert_eq!(clock_offset(&[]), None);
        // Behind.
        assert_eq!(clock_offset(&[round(5000, 4010, 4020, 5030)]), Some((-1000, 10)));
    }

    fn answers_to(lines: &str) -> (Result<(), Error>, String) {
        let output = Arc::new(Mutex::new(Vec::new()));
        struct Shared(Arc<Mutex<Vec<u8>>>);
        impl Write for Shared {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let result = serve(lines.as_bytes(), Shared(output.clone()));
        let text = String::from_utf8(output.lock().unwrap().clone()).unwrap();
        (result, text)
    }

    #[test]
    fn it_says_who_it_is_and_what_time_it_is() {
        let (result, text) = answers_to("{\"ping\":{\"id\":7}}\n");
        assert_eq!(result, Ok(()));
        let mut lines = text.lines();
        let hello: Answer = serde_json::from_str(lines.next().unwrap()).unwrap();
        let Answer::Hello(hello) = hello else { panic!("{hello:?}") };
        assert_eq!(hello.protocol, PROTOCOL);
        assert!(!hello.kernel.is_empty() && !hello.host.is_empty() && hello.cores > 0);
        let pong: Answer = serde_json::from_str(lines.next().unwrap()).unwrap();
        let Answer::Pong { id: 7, received_ns, sent_ns } = pong else { panic!("{pong:?}") };
        assert!(received_ns > 0 && received_ns <= sent_ns && sent_ns <= clock::now_ns());
    }

    #[test]
    fn an_unknown_command_ends_it_in_a_sentence() {
        for (lines, wanted) in [
            ("{\"ping\":{\"id\":1}}\nhello\n", "line 2 is no command"),
            ("{\"dance\":{}}\n", "unknown variant `dance`"),
            ("{\"start\":{\"zero_ns\":1}}\n", "it got start before prepare"),
            ("{\"prepare\":{\"algorithms\":[]}}\n", "missing field `base_rtts`"),
        ] {
            let (result, text) = answers_to(lines);
            let why = result.unwrap_err().to_string();
            assert!(why.contains(wanted) && !why.contains('\n'), "{why}");
            assert!(text.lines().last().unwrap().starts_with("{\"error\":{\"text\":"), "{text}");
        }
    }

    #[test]
    fn a_failed_preparation_is_reported_and_the_next_command_is_taken() {
        let plan = TrafficPlan { end_ns: 1, ..TrafficPlan::default() };
        let prepare = |algorithms| {
            let preparation = Preparation { algorithms, base_rtts: Vec::new(), plan: plan.clone() };
            serde_json::to_string(&AgentCommand::Prepare(Box::new(preparation))).unwrap()
        };
        let to_load = |name: &str, object: Option<&str>| ToLoad {
            kernel_name: "x".to_owned(),
            name: name.to_owned(),
            object: object.map(str::to_owned),
            params: Vec::new(),
        };
        let unknown = to_load("no_such", None);
        let no_object = to_load("mine", Some(&to_hex(b"\x7fELF")));
        let cut_short = to_load("mine", Some("7f4"));
        let lines = format!(
            "{}\n{{\"stop\":{{}}}}\n{}\n{}\n{}\n{{\"ping\":{{\"id\":1}}}}\n",
            prepare(vec![unknown]),
            prepare(vec![no_object]),
            prepare(vec![cut_short]),
            prepare(Vec::new())
        );
        let (result, text) = answers_to(&lines);
        assert_eq!(result, Ok(()));
        let kinds: Vec<_> = text.lines().map(|line| line.split('"').nth(1).unwrap()).collect();
        assert_eq!(kinds, ["hello", "error", "error", "error", "ready", "pong"], "{text}");
        assert!(text.contains("mine: is no object for BPF"), "{text}");
        assert!(text.contains("mine: its object is cut short"), "{text}");
    }
}
