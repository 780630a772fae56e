//! `knee top` and `knee migrate` on the running kernel.
#![cfg(feature = "kernel")]
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use knee_algo::Algorithm;
use knee_bpf::{Embedded, Loaded};
use knee_testbed::net::{self, Pair, Path, SERVER, choose, chosen, listen};
use knee_testbed::{own_name, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value as Json;

const PATIENCE: Duration = Duration::from_secs(20);

fn dctcp(name: &str) -> Loaded {
    let params = Algorithm::by_name("dctcp").unwrap().default_params();
    Loaded::register_for_any_user(Embedded::by_name("dctcp").unwrap(), name, &params).unwrap()
}

/// The two ends of a connection that carried something.
fn connect(pair: &Pair, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let (mut client, mut server) = net::connect(pair, listener);
    thread::scope(|scope| {
        scope.spawn(|| server.read_exact(&mut vec![0; 1_000_000]).unwrap());
        client.write_all(&vec![0; 1_000_000]).unwrap();
    });
    (client, server)
}

/// Standard output, standard error and exit code.
fn knee(words: &str) -> (String, String, i32) {
    let output = Command::new(env!("CARGO_BIN_EXE_knee")).args(words.split(' ')).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

fn done(words: &str) -> String {
    let (out, error, code) = knee(words);
    assert_eq!((error.as_str(), code), ("", 0), "knee {words}: {out}");
    out
}

fn json(words: &str) -> Json {
    serde_json::from_str(&done(words)).unwrap()
}

#[test]
fn top_shows_knees_connections_and_what_they_hold() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let loaded = dctcp(own_name("top"));
    let marks = Path { mark_period: 10, mark_burst: 1, ..Path::default() };
    let pair = Pair::new(own_name("top"), marks, Path::default());
    let netns = pair.client.tid();
    let listener = listen(&pair);
    let (client, _server) = connect(&pair, &listener);
    let (other, _its_end) = connect(&pair, &listener);
    choose(&other, "reno");

    let answer = json(&format!("top --once --json --netns {netns}"));
    let [one] = answer["connections"].as_array().unwrap().as_slice() else { panic!("{answer}") };
    assert_eq!(one["algorithm"], loaded.name());
    assert_eq!(one["local"], client.local_addr().unwrap().to_string());
    assert_eq!(one["remote"], client.peer_addr().unwrap().to_string());
    assert_eq!((one["ecn"].clone(), one["state"].as_str()), (Json::from(true), Some("ESTAB")));
    assert!(one["delivered_ce_pkts"].as_u64().unwrap() > 0, "{one}");
    let alpha = &one["inside"][0];
    assert_eq!((alpha["name"].as_str(), alpha["unit"].as_str()), (Some("alpha"), Some("1/1024")));
    let alpha = alpha["value"].as_u64().unwrap();
    assert!((1..1024).contains(&alpha), "{one}");

    let text = done(&format!("top --once --netns {netns}"));
    let in_words = format!("alpha 0.{:03}", (alpha * 1000 + 512) / 1024);
    assert!(text.contains(&in_words), "{in_words} in {text}");
    assert_eq!(text.lines().count(), 2, "{text}");
    let count = |more: &str| {
        let answer = json(&format!("top --once --json --netns {netns} {more}"));
        answer["connections"].as_array().unwrap().len()
    };
    assert_eq!(count("--all"), 2);
    assert_eq!(count("--algorithm reno"), 1);
    assert_eq!(count("--all --remote 10.99.0.2/32"), 2);
    assert_eq!(count("--all --remote 10.98.0.0/16"), 0);
    assert_eq!(count(&format!("--local-port {}", client.local_addr().unwrap().port())), 1);
    let all = json("top --once --json --netns all");
    let all = all["connections"].as_array().unwrap();
    assert_eq!(all.iter().filter(|one| one["algorithm"] == loaded.name()).count(), 3);
    drop((client, other));

    let (_, error, code) = knee("top --once --netns knee_o_nowhere");
    assert_eq!((error.lines().count(), code), (1, 2), "{error}");
    let (_, error, code) = knee("top");
    assert!(error.starts_with("knee: knee top needs a terminal: knee top --once"), "{error}");
    assert_eq!(code, 2);
}

#[test]
fn top_holds_while_thousands_of_connections_come_and_go() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let _loaded = dctcp(own_name("many"));
    let pair = Pair::new(own_name("many"), Path::default(), Path::default());
    let netns = pair.client.tid();
    let listener = listen(&pair);
    let (stays, _server) = connect(&pair, &listener);
    let port = listener.local_addr().unwrap().port();
    let stays = stays.local_addr().unwrap().to_string();
    let (mut readings, mut others) = (0, 0);
    let enough = AtomicBool::new(false);
    thread::scope(|scope| {
        let churn = scope.spawn(|| {
            // Thousands, and until some have been met.
            for batch in 0.. {
                if batch >= 30 && enough.load(Ordering::Relaxed) {
                    break;
                }
                let clients: Vec<TcpStream> = pair.client.run(move || {
                    (0..100).map(|_| TcpStream::connect((SERVER, port)).unwrap()).collect()
                });
                let servers: Vec<_> = (0..100).map(|_| listener.accept().unwrap()).collect();
                drop((clients, servers));
            }
        });
        while !churn.is_finished() {
            let answer = json(&format!("top --once --json --netns {netns}"));
            let connections = answer["connections"].as_array().unwrap();
            let found = connections.iter().filter(|one| one["local"] == stays).count();
            assert_eq!(found, 1, "reading {readings}");
            readings += 1;
            others += connections.len() - 1;
            enough.store((readings >= 5 && others > 0) || readings >= 200, Ordering::Relaxed);
        }
        churn.join().unwrap();
    });
    assert!(others > 0, "none was seen in {readings} readings");
}

#[test]
fn migrate_says_first_and_moves_then() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let loaded = dctcp(own_name("mig"));
    let pair = Pair::new("reno", Path::default(), Path::default());
    let listener = listen(&pair);
    let (client, _server) = connect(&pair, &listener);
    net::sysctl(&pair.server, "tcp_ecn", "0");
    let (without, _its_end) = connect(&pair, &listener);
    let [clients, servers] = [&pair.client, &pair.server].map(knee_netns::Namespace::tid);
    let to_ours = format!("migrate --from reno --to {}", loaded.name());

    let said = done(&format!("{to_ours} --dry-run --netns {clients}"));
    let local = client.local_addr().unwrap();
    assert!(said.contains(&format!("would move  {local} - ")), "{said}");
    assert!(said.contains("skipped: it did not negotiate ECN  10.99.0.1:"), "{said}");
    let summary =
        format!("would move 1 connections from reno to {}, 1 skipped, 0 failed", loaded.name());
    assert_eq!(said.lines().last(), Some(summary.as_str()));
    assert_eq!(chosen(&client), "reno");

    let said = json(&format!("{to_ours} --json --netns {clients} --remote 10.99.0.0/24"));
    assert_eq!([&said["moved"], &said["skipped"], &said["failed"]], [1, 1, 0], "{said}");
    assert_eq!([chosen(&client), chosen(&without)], [loaded.name(), "reno"]);

    let said = done(&format!("{to_ours} --listeners --netns {servers}"));
    let summary = format!("moved 1 listeners from reno to {}, 0 skipped, 0 failed", loaded.name());
    assert_eq!(said.lines().last(), Some(summary.as_str()), "{said}");
    let said = done(&format!("{to_ours} --listeners --netns {servers}"));
    assert_eq!(said, "no matching listeners of reno\n");

    let (_, error, code) = knee("migrate --from reno --to knee_o_nix");
    assert!(error.starts_with("knee: no algorithm named \"knee_o_nix\" is registered"), "{error}");
    assert_eq!((error.lines().count(), code), (1, 2));
}

/// `knee top` in a terminal of its own.
struct Watched {
    child: Child,
    master: File,
    slave: File,
    shown: Receiver<Vec<u8>>,
    so_far: String,
}

impl Watched {
    fn start(words: &str) -> Watched {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let master = File::from(master);
        let mut from = master.try_clone().unwrap();
        let (tell, shown) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                if tell.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let size = Winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).unwrap();
        let stdio = || Stdio::from(slave.try_clone().unwrap());
        let child = Command::new(env!("CARGO_BIN_EXE_knee"))
            .args(words.split(' '))
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio())
            .spawn()
            .unwrap();
        Watched { child, master, slave, shown, so_far: String::new() }
    }

    fn resize(&self, ws_row: u16, ws_col: u16) {
        let size = Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.slave, size).unwrap();
        // It has no controlling terminal, so nobody else tells it.
        kill_process(self.pid(), Signal::WINCH).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32).unwrap()
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this was shown since the last call.
    fn shows(&mut self, text: &str) {
        let begin = Instant::now();
        while !self.so_far.contains(text) {
            assert!(begin.elapsed() < PATIENCE, "no {text:?} in {:?}", self.so_far);
            if let Ok(bytes) = self.shown.recv_timeout(Duration::from_millis(50)) {
                self.so_far.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
        self.so_far.clear();
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.slave).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    fn ends(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a terminal gets when it is given back: the screen that it had before.
const GIVEN_BACK: &str = "\u{1b}[?1049l";

#[test]
fn live_top_gives_the_terminal_back_however_it_ends() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let _loaded = dctcp(own_name("live"));
    let pair = Pair::new(own_name("live"), Path::default(), Path::default());
    let listener = listen(&pair);
    let (_client, _server) = connect(&pair, &listener);
    let words = format!("top --netns {}", pair.client.tid());
    let signals = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
    for signal in [None].into_iter().chain(signals.map(Some)) {
        let mut watched = Watched::start(&words);
        watched.shows("alpha");
        assert!(watched.is_raw());
        match signal {
            None => {
                watched.press("a");
                watched.resize(2, 10);
                watched.shows("small");
                watched.resize(24, 120);
                watched.shows("alpha");
                watched.press("p");
                watched.shows("PAUSED");
                watched.press("q");
            }
            Some(signal) => kill_process(watched.pid(), signal).unwrap(),
        }
        assert!(watched.ends().success(), "{signal:?}");
        assert!(!watched.is_raw(), "{signal:?}");
        watched.shows(GIVEN_BACK);
    }
}

#[test]
fn top_names_the_mode_of_bbr_and_shows_its_bandwidth() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let name = own_name("bbr");
    let bbr = Algorithm::by_name("bbr").unwrap();
    let embedded = Embedded::by_name("bbr").unwrap();
    let _loaded = Loaded::register_for_any_user(embedded, name, &bbr.default_params()).unwrap();
    let pair = Pair::new(name, Path::default(), Path::default());
    let listener = listen(&pair);
    let _both = connect(&pair, &listener);
    let tid = pair.client.tid();
    let shown = json(&format!("top --once --json --netns {tid}"));
    let rows = shown["connections"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{shown}");
    let inside = rows[0]["inside"].as_array().unwrap();
    let view = |wanted: &str| inside.iter().find(|value| value["name"] == wanted).unwrap();
    assert!(view("bw")["value"].as_u64().unwrap() > 0, "{shown}");
    assert_eq!(view("mode")["unit"], "STARTUP|DRAIN|PROBE_BW|PROBE_RTT");
    let table = done(&format!("top --once --netns {tid}"));
    let mode = ["STARTUP", "DRAIN", "PROBE_BW"].iter().any(|mode| table.contains(mode));
    assert!(mode && table.contains("Mbps"), "{table}");
}

/// bbr3's state lies in socket storage. All of them together are more than one read of the kernel's gives.
#[test]
fn top_shows_what_lies_in_socket_storage() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let name = own_name("bbr3");
    let bbr3 = Algorithm::by_name("bbr3").unwrap();
    let embedded = Embedded::by_name("bbr3").unwrap();
    let _loaded = Loaded::register_for_any_user(embedded, name, &bbr3.default_params()).unwrap();
    let pair = Pair::new(name, Path::default(), Path::default());
    let listener = listen(&pair);
    let _busy = [(); 2].map(|()| connect(&pair, &listener));
    let _idle = [(); 110].map(|()| net::connect(&pair, &listener));
    let tid = pair.client.tid();
    let shown = json(&format!("top --once --json --netns {tid}"));
    let rows = shown["connections"].as_array().unwrap();
    assert_eq!(rows.len(), 112, "{shown}");
    for row in rows {
        let inside = row["inside"].as_array().unwrap();
        let view = |wanted: &str| inside.iter().find(|value| value["name"] == wanted).unwrap();
        let is_busy = row["acked_bytes"].as_u64().unwrap() >= 1_000_000;
        assert_eq!(view("bw")["value"].as_u64().unwrap() > 0, is_busy, "{shown}");
        assert_eq!(view("mode")["unit"], "STARTUP|DRAIN|PROBE_BW|PROBE_RTT");
        // Its window of 10 s begins with the kernel's own minimum.
        let min_rtt = view("min_rtt")["value"].as_u64().unwrap();
        assert!((1..1_000_000).contains(&min_rtt), "{shown}");
        assert!([512, 576, 256].contains(&view("cwnd_gain")["value"].as_u64().unwrap()), "{shown}");
    }
    let table = done(&format!("top --once --netns {tid}"));
    assert!(table.contains("inflight_hi") && table.contains("cwnd_gain"), "{table}");
}

#[test]
fn top_json_is_a_line_per_reading_until_a_signal_or_nobody_reads() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let name = own_name("stream");
    let _loaded = dctcp(name);
    let pair = Pair::new(name, Path::default(), Path::default());
    let netns = pair.client.tid().to_string();
    let (_client, _server) = connect(&pair, &listen(&pair));
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
        command.args(["top", "--json", "--interval", "1", "--netns", &netns]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        (child, out)
    };
    let (mut child, mut out) = start();
    let mut times = Vec::new();
    for _ in 0..2 {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let answer: Json = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["connections"][0]["algorithm"], name, "{answer}");
        times.push(answer["time_unix_s"].as_f64().unwrap());
    }
    assert!(times[1] > times[0], "{times:?}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let (mut child, out) = start();
    drop(out);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // Nobody reads, and the stream is full: one signal ends it in the write.
    let (_reader, mut full) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    while full.write(&[0]).is_ok() {}
    full.set_nonblocking(false).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
    command.args(["top", "--json", "--netns", &netns]).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::from(OwnedFd::from(full))).spawn().unwrap();
    let at = format!("/proc/{}/syscall", child.id());
    let writes = || {
        let call = fs::read_to_string(&at).unwrap();
        // write(1, ...) of x86-64 and of arm64.
        call.starts_with("1 0x1 ") || call.starts_with("64 0x1 ")
    };
    wait_until("it writes", writes);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
}
