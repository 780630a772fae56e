//! One ssh connection to an agent: start, commands, answers, end.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{Binary, Machine, program};
use crate::Error;
use crate::error::failed;
use crate::traffic::agent::{AgentCommand, Answer};
use crate::traffic::clock;

/// Nothing asks a question, nothing is forwarded, and no master stays behind. What comes first counts, so that no file can say
/// otherwise.
const FIXED: [&str; 7] = [
    "BatchMode=yes",
    "ClearAllForwardings=yes",
    "ControlMaster=no",
    "ControlPath=none",
    "PermitLocalCommand=no",
    "RequestTTY=no",
    "UpdateHostKeys=no",
];
/// Default of the connection timeout; the file may set another.
const CONNECT_TIMEOUT: &str = "ConnectTimeout=10";
/// Period of keep-alive pings while there are no other commands.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Identifier of keep-alive pings.
const ASKS: u64 = u64::MAX;
/// Lines that shells may print before the agent speaks.
const MOST_FOREIGN_LINES: u32 = 1000;
/// Bytes of a line before the agent has spoken, and behind that, where a run's report is one. Beyond it is no agent of knee.
const MOST_FIRST_BYTES: u64 = 1 << 20;
const MOST_REPORT_BYTES: u64 = 512 << 20;
/// Longest part of a line of ssh's stderr that is read at once.
const COMPLAINT_BYTES: usize = 4096;
/// Longest quotation of ssh's stderr in an error.
const MOST_REASON_BYTES: usize = 400;
/// Bytes of a program that are sent at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// Timeout from the end of the agent's input to the end of ssh.
const LEAVE_WITHIN: Duration = Duration::from_secs(3);

/// Event of a connection.
pub(super) enum Event {
    /// An answer, and its time of arrival on CLOCK_MONOTONIC.
    Said(Answer, u64),
    /// The connection ended; the reason, unless ssh itself ended.
    Ended(Option<String>),
}

/// Activity of a connection, for timeouts.
struct Pulse {
    /// Times that the agent was asked since it last said anything.
    unanswered: AtomicU32,
    moved: Mutex<Instant>,
}

impl Pulse {
    fn moves(&self) {
        *self.moved.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

/// Reader that records each read in the [`Pulse`].
struct Heard<R>(R, Arc<Pulse>);

impl<R: Read> Read for Heard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        self.1.unanswered.store(0, Ordering::Relaxed);
        self.1.moves();
        Ok(read)
    }
}

/// An agent on a machine, by ssh. It ends when this is dropped.
pub(super) struct Connection {
    name: String,
    child: Child,
    commands: Option<Sender<AgentCommand>>,
    pulse: Arc<Pulse>,
    complaints: Option<JoinHandle<String>>,
    reason: String,
    left_at: Option<Instant>,
}

impl Connection {
    /// Starts it. What it says goes to `events` with its number.
    ///
    /// # Errors
    /// If there is no ssh, or no program to be copied.
    pub(super) fn open(
        machine: &Machine,
        number: usize,
        events: Sender<(usize, Event)>,
    ) -> Result<Connection, Error> {
        let copy = match &machine.knee {
            Binary::There(_) => None,
            Binary::Copied(path) => Some(path.clone()),
            Binary::Same => Some(std::env::current_exe().map_err(failed(
                "this program does not find its own file, which it copies to machines",
            ))?),
        };
        let copy = copy.map(|path| ToCopy::open(&path)).transpose()?;
        let mut child = command(machine, copy.as_ref()).spawn().map_err(failed(
            "ssh does not start; install it (Debian: apt-get install openssh-client)",
        ))?;
        let pulse =
            Arc::new(Pulse { unanswered: AtomicU32::new(0), moved: Mutex::new(Instant::now()) });
        let (commands, to_send) = mpsc::channel();
        if let Some(input) = child.stdin.take() {
            let pulse = pulse.clone();
            thread::spawn(move || send_all(input, copy, &to_send, &pulse));
        }
        if let Some(output) = child.stdout.take() {
            let pulse = pulse.clone();
            thread::spawn(move || hear(Heard(output, pulse), number, &events));
        }
        let complaints = child.stderr.take().map(|text| thread::spawn(move || last_line(text)));
        Ok(Connection {
            name: machine.name.clone(),
            child,
            commands: Some(commands),
            pulse,
            complaints,
            reason: String::new(),
            left_at: None,
        })
    }

    /// The machine's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Sends a command. If the connection has ended, its event reports that.
    pub(super) fn send(&self, command: AgentCommand) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(command);
        }
    }

    /// Seconds without an answer of the agent.
    pub(super) fn unanswered_s(&self) -> u32 {
        self.pulse.unanswered.load(Ordering::Relaxed)
    }

    /// Time since anything was sent or received.
    pub(super) fn still_for(&self) -> Duration {
        self.pulse.moved.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Exit status of ssh and the last line of its stderr.
    pub(super) fn why_it_ended(&mut self) -> String {
        let status = self.wait_until(Instant::now() + LEAVE_WITHIN);
        self.leave_now();
        if let Some(complaints) = self.complaints.take() {
            self.reason = complaints.join().unwrap_or_default();
        }
        let how = match status {
            Some(status) => format!("ssh ended ({status})"),
            None => "its connection ended".to_owned(),
        };
        match self.reason.as_str() {
            "" => how,
            reason => format!("{how}: {reason}"),
        }
    }

    /// Closes the agent's input, upon which the agent exits.
    pub(super) fn leave(&mut self) {
        self.commands = None;
        self.left_at.get_or_insert_with(Instant::now);
    }

    fn wait_until(&mut self, deadline: Instant) -> Option<ExitStatus> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
                _ => return None,
            }
        }
    }

    fn leave_now(&mut self) {
        self.leave();
        let left_at = self.left_at.unwrap_or_else(Instant::now);
        if self.wait_until(left_at + LEAVE_WITHIN).is_none() {
            // Then sshd ends the agent's input.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.leave_now();
    }
}

/// A program to be copied.
/// The longest program that is copied. With debug information one of knee has some 120 MB.
const MOST_PROGRAM_BYTES: u64 = 512 << 20;

struct ToCopy {
    file: File,
    bytes: u64,
}

impl ToCopy {
    fn open(path: &std::path::Path) -> Result<ToCopy, Error> {
        let what = || format!("{}, to be copied to machines", path.display());
        let file = knee_files::open_file(path, "program")
            .map_err(|why| Error::Failed(format!("{}: it {why}", what())))?;
        let about = file.metadata().map_err(failed(what()))?;
        // The author of the file of machines may try to get another file of this machine.
        if !about.is_file() || !program::is_knee(&file).map_err(failed(what()))? {
            return Err(Error::Failed(format!("{}: it is no program of knee", what())));
        }
        if about.len() > MOST_PROGRAM_BYTES {
            let most = MOST_PROGRAM_BYTES >> 20;
            return Err(Error::Failed(format!("{}: it is longer than {most} MiB", what())));
        }
        Ok(ToCopy { file, bytes: about.len() })
    }
}

fn command(machine: &Machine, copy: Option<&ToCopy>) -> Command {
    let mut ssh = Command::new("ssh");
    ssh.args(["-T", "-x", "-a"]);
    let options = FIXED.into_iter().chain(machine.options.iter().map(String::as_str));
    for option in options.chain([CONNECT_TIMEOUT]) {
        ssh.args(["-o", option]);
    }
    ssh.args(["--", &machine.ssh, &on_machine(&machine.knee, copy)]);
    ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Ctrl-C is for this process, which ends the others in command.
    ssh.process_group(0);
    ssh
}

/// The command for the machine's shell, in words that sh, csh and fish all understand.
///
/// A copied program has no name any more when it starts, so nothing stays behind when it ends. Commands follow only after
/// its first answer, so that the shell reads no more than the program's bytes.
fn on_machine(knee: &Binary, copy: Option<&ToCopy>) -> String {
    match (knee, copy) {
        (Binary::There(path), _) => format!("exec {path} agent"),
        (_, None) => "exec false".to_owned(),
        (_, Some(ToCopy { bytes, .. })) => format!(
            "exec sh -c 'umask 077; d=$(mktemp -d /tmp/knee-agent.XXXXXX) || exit 1; \
             trap \"rm -rf $d\" EXIT; trap \"exit 1\" HUP INT TERM; \
             head -c {bytes} >$d/knee && test $(wc -c <$d/knee) -eq {bytes} && chmod 700 $d/knee && exec 3<$d/knee || exit 1; \
             rm -rf $d; trap - EXIT HUP INT TERM; exec /proc/self/fd/3 agent'"
        ),
    }
}

/// Sends the program, if there is one, then commands, and keep-alive pings while there are none. The agent's input ends when
/// the receiver or all senders are gone.
fn send_all(
    mut input: ChildStdin,
    copy: Option<ToCopy>,
    commands: &mpsc::Receiver<AgentCommand>,
    pulse: &Pulse,
) {
    if let Some(copy) = copy {
        if send_program(&mut input, copy, pulse).is_err() {
            return;
        }
    }
    // No ping before the first answer: until then the shell may still read the program.
    let Ok(first) = commands.recv() else { return };
    let mut next = Some(first);
    loop {
        let command = match next.take() {
            Some(command) => command,
            None => match commands.recv_timeout(ASK_EVERY) {
                Ok(command) => command,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    pulse.unanswered.fetch_add(1, Ordering::Relaxed);
                    AgentCommand::Ping { id: ASKS }
                }
            },
        };
        let Ok(mut line) = serde_json::to_vec(&command) else { return };
        line.push(b'\n');
        if input.write_all(&line).is_err() {
            return;
        }
    }
}

fn send_program(input: &mut ChildStdin, copy: ToCopy, pulse: &Pulse) -> io::Result<()> {
    let mut program = copy.file.take(copy.bytes);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = program.read(&mut chunk)?;
        if read == 0 {
            return Ok(());
        }
        input.write_all(&chunk[..read])?;
        pulse.moves();
    }
}

/// Reads the agent's answers until its output ends.
fn hear(output: impl Read, number: usize, events: &Sender<(usize, Event)>) {
    let mut lines = BufReader::new(output);
    let mut foreign = 0;
    let mut has_spoken = false;
    let why = loop {
        let mut line = Vec::new();
        let most = if has_spoken { MOST_REPORT_BYTES } else { MOST_FIRST_BYTES };
        match (&mut lines).take(most).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break None,
            Ok(read) if read as u64 == most && !line.ends_with(b"\n") => {
                break Some(format!("it sent a line of more than {most} bytes"));
            }
            Ok(_) => {}
        }
        let now_ns = clock::now_ns();
        match serde_json::from_slice(&line) {
            Ok(Answer::Pong { id: ASKS, .. }) => {}
            Ok(answer) => {
                has_spoken = true;
                if events.send((number, Event::Said(answer, now_ns))).is_err() {
                    return;
                }
            }
            // Output of the machine's shell when it starts.
            Err(_) if !has_spoken && foreign < MOST_FOREIGN_LINES => foreign += 1,
            Err(why) => {
                break Some(format!(
                    "it sent an unknown answer ({why}): all machines need the same version of knee"
                ));
            }
        }
    };
    let _ = events.send((number, Event::Ended(why)));
}

/// The last line of ssh's stderr.
fn last_line(text: impl Read) -> String {
    let mut last = String::new();
    let mut lines = BufReader::new(text);
    let mut line = Vec::new();
    let mut next = |line: &mut Vec<u8>| {
        (&mut lines).take(COMPLAINT_BYTES as u64).read_until(b'\n', line).is_ok_and(|read| read > 0)
    };
    while next(&mut line) {
        let text = String::from_utf8_lossy(&line);
        let text: String = text.trim().chars().filter(|c| !c.is_control()).collect();
        if !text.is_empty() {
            last = text.chars().take(MOST_REASON_BYTES).collect();
        }
        line.clear();
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(output: impl Read) -> Option<String> {
        let (events, told) = mpsc::channel();
        hear(output, 7, &events);
        match told.recv() {
            Ok((7, Event::Ended(why))) => why,
            _ => panic!("it ends"),
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_waited_for() {
        assert_eq!(heard(io::repeat(b'x')).unwrap(), "it sent a line of more than 1048576 bytes");
        // What shells print is no such line.
        assert_eq!(heard(&b"Welcome\n to\n this machine"[..]), None);
        // All of it is read: ssh waits for that. Its last line is what it complains of.
        let complaint = vec![b'x'; 10 << 20];
        assert_eq!(last_line(&complaint[..]).len(), MOST_REASON_BYTES);
        assert_eq!(last_line(&b"a\nb\n"[..]), "b");
    }

    #[test]
    fn only_knee_is_copied_to_machines() {
        let dir = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&own).unwrap();
        let made = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        // A core dump of knee itself holds all of knee, and what it had read.
        let mut core = bytes.clone();
        core[16] = 4;
        let mut unnamed = bytes.clone();
        let note = b"program of knee\0";
        let at: Vec<usize> =
            (0..bytes.len() - note.len()).filter(|at| bytes[*at..].starts_with(note)).collect();
        at.iter().for_each(|at| unnamed[*at] = b'P');
        let why = |path: &std::path::Path| ToCopy::open(path).err().map(|why| why.to_string());
        for file in [
            made("secret", b"root:x:0:0"),
            made("magic", b"\x7fELFroot:x:0:0"),
            made("empty", b""),
            made("short", &bytes[..64]),
            made("core", &core),
            made("unnamed", &unnamed),
            "/bin/sh".into(),
        ] {
            let why = why(&file).unwrap_or_else(|| panic!("{} is taken", file.display()));
            assert!(why.ends_with("it is no program of knee"), "{}: {why}", file.display());
        }
        assert!(why(dir.path()).unwrap().ends_with("it is a directory, not a program"));
        assert!(why(std::path::Path::new("/dev/zero")).unwrap().ends_with(", not a program"));
        let mut this = ToCopy::open(&made("copy", &bytes)).unwrap();
        // From its first byte on.
        let mut magic = [0; 4];
        this.file.read_exact(&mut magic).unwrap();
        assert_eq!(magic, *b"\x7fELF");
    }
}
