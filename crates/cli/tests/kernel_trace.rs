//! `knee trace` of an algorithm that this test loaded, and `knee replay` of what it wrote.
#![cfg(feature = "kernel")]
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use knee_algo::Algorithm;
use knee_bpf::{Embedded, Loaded, TraceFilter, Tracer};
use knee_flight::{Ending, Reader, Record, Writer};
use knee_testbed::net::{choose, sysctl};
use knee_testbed::sandbox::Sandbox;
use libc::{SIGINT, SIGKILL, SIGTERM};

const PATIENCE: Duration = Duration::from_secs(20);

/// A host with `dctcp` registered by this process, and connections under it that come and go.
struct Traced {
    host: Sandbox,
    name: String,
    done: Arc<AtomicBool>,
    load: Option<JoinHandle<()>>,
    _loaded: Loaded,
}

impl Traced {
    fn new() -> Option<Traced> {
        if !knee_testbed::kernel_is_ready() {
            return None;
        }
        let host = Sandbox::new(env!("CARGO_BIN_EXE_knee"));
        fs::create_dir_all(host.run_dir()).unwrap();
        // The connecting side asks for ECN, without which dctcp would leave at once.
        sysctl(&host.namespace, "tcp_ecn", "1");
        let name = host.name('t');
        let dctcp = Algorithm::by_name("dctcp").unwrap();
        let loaded = Loaded::register_for_any_user(
            Embedded::by_name("dctcp").unwrap(),
            &name,
            &dctcp.default_params(),
        );
        let done = Arc::new(AtomicBool::new(false));
        let (under, stop) = (name.clone(), Arc::clone(&done));
        let listener = host.namespace.run(move || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            choose(&listener, &under);
            listener
        });
        // Only the accepting side is under it.
        let connect = {
            let at = listener.local_addr().unwrap();
            move || TcpStream::connect(at).unwrap()
        };
        let (sender, streams) = std::sync::mpsc::sync_channel(1);
        let load = thread::spawn(move || {
            for mut client in streams {
                let client: &mut TcpStream = &mut client;
                let mut server = listener.accept().unwrap().0;
                for stream in [&*client, &server] {
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                }
                server.write_all(&[1; 10_000]).unwrap();
                client.read_exact(&mut [0; 10_000]).unwrap();
            }
        });
        let namespace_load = {
            let done = Arc::clone(&stop);
            host.namespace.run(move || {
                // This thread is in the namespace: sockets that it opens are, too.
                thread::spawn(move || {
                    while !done.load(Ordering::Relaxed) && sender.send(connect()).is_ok() {}
                })
            })
        };
        let load = thread::spawn(move || {
            namespace_load.join().unwrap();
            load.join().unwrap();
        });
        Some(Traced { host, name, done, load: Some(load), _loaded: loaded.unwrap() })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.host.run_dir().join(name)
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        let load = self.load.take().unwrap().join();
        if !thread::panicking() {
            load.unwrap();
        }
    }
}

fn read(path: &Path) -> (knee_flight::Header, Vec<Record>) {
    let bytes = fs::read(path).unwrap();
    let mut reader = Reader::new(bytes.as_slice()).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        records.push(record);
    }
    (reader.header().clone(), records)
}

#[test]
fn a_trace_replays_equal_and_a_changed_one_does_not() {
    let Some(traced) = Traced::new() else { return };
    let (host, name, file) = (&traced.host, &traced.name, traced.file("a.flight"));
    let path = file.display();
    // How long it takes until there is enough is the machine's affair. So is it whether the recorder gets
    // a CPU before the ring is full: a recording with losses is as it should be, says so, and is no
    // use here, where every call is replayed.
    let whole = ["300ms", "300ms", "1s", "1s", "3s", "3s", "10s", "30s"].into_iter().any(|time| {
        let _ = fs::remove_file(&file);
        let said = host.knee(&format!("trace {name} --for {time} -o {path}")).done();
        assert!(said.starts_with(&format!("recording all connections of {name} ...\n")), "{said}");
        assert!(said.contains(" calls in ") && said.contains(" lost"), "{said}");
        said.contains(", 0 lost") && read(&file).1.len() > 1000
    });
    assert!(whole, "no recording of more than 1000 calls without a loss");

    let said = host.knee(&format!("replay {path}")).done();
    assert!(said.starts_with(&format!("{name}: dctcp shift_g=4")), "{said}");
    assert!(said.contains(" 0 differences") && said.ends_with("equal\n"), "{said}");
    let said = host.knee(&format!("replay {path} --json")).done();
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(json["replay"]["differences"], 0);
    assert!(json["replay"]["callbacks"].as_u64().unwrap() > 1000, "{said}");
    assert_eq!(json["origin"], "kernel");

    let said = host.knee(&format!("replay {path} --cc cubic")).done();
    assert!(said.contains("    calls otherwise  call\n"), "{said}");
    assert!(said.contains("dctcp has no pkts_acked, so cubic missed these calls"), "{said}");

    // A forger with a writer of his own is found by the replay, and shown in full.
    let (header, mut records) = read(&file);
    let cut = records.iter_mut().rfind(|r| r.call.operation() == "cong_avoid").unwrap();
    cut.after.snd_cwnd += 1;
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    records.iter().for_each(|record| writer.write(record).unwrap());
    let forged = traced.file("forged.flight");
    fs::write(&forged, writer.finish(&Ending::default()).unwrap()).unwrap();
    let answer = host.knee(&format!("replay {}", forged.display()));
    assert_eq!((answer.code, answer.err.as_str()), (Some(1), ""));
    assert!(answer.out.contains("first: callback") && answer.out.contains("snd_cwnd is"));
    assert!(answer.out.contains("as recorded:\ncall "), "{}", answer.out);

    // Any other change is found by the checksums.
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&forged, &bytes).unwrap();
    let refused = host.knee(&format!("replay {}", forged.display()));
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("has been changed") && refused.err.lines().count() == 1);
}

/// Nothing is switched on for a file that cannot be written.
#[test]
fn the_file_comes_before_the_recording() {
    let Some(traced) = Traced::new() else { return };
    let (host, name, file) = (&traced.host, &traced.name, traced.file("there"));
    fs::write(&file, "mine").unwrap();
    // It does not come to asking who traces.
    let tracer = Tracer::attach(name, &TraceFilter::default()).unwrap();
    let refused = host.knee(&format!("trace {name} --for 1s -o {}", file.display())).refused();
    assert!(refused.contains("cannot write: File exists"), "{refused}");
    drop(tracer);
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

#[test]
fn signals_and_limits_end_a_trace_with_a_whole_file() {
    let Some(traced) = Traced::new() else { return };
    let (host, name) = (&traced.host, &traced.name);
    for (signal, file) in [(SIGTERM, "term"), (SIGINT, "int")] {
        let path = traced.file(file);
        let running = host.start(&format!("trace {name} -o {}", path.display()));
        thread::sleep(Duration::from_millis(200));
        let second = host.knee(&format!("trace {name} -o {}", traced.file("no").display()));
        let process = running.pid();
        assert_eq!(
            second.refused(),
            format!("knee: \"{name}\" is being traced already, by process {process}\n")
        );
        running.signal(signal);
        let (code, said) = running.end();
        assert_eq!(code, Some(0));
        assert!(said.contains(" calls in "), "{said}");
        assert!(read(&path).1.len() > 100);
        host.knee(&format!("replay {}", path.display())).done();
    }
    let path = traced.file("limit");
    host.knee(&format!("trace {name} --max-records 77 -o {}", path.display())).done();
    assert_eq!(read(&path).1.len(), 77);
    let path = traced.file("nobody");
    let line = format!("trace {name} --remote 10.0.0.0/8 --for 100ms --json -o {}", path.display());
    let json: serde_json::Value = serde_json::from_str(&host.knee(&line).done()).unwrap();
    assert_eq!(json["records"], 0);
    let path = traced.file("none");
    let refused = host.knee(&format!("trace knee_t_none -o {}", path.display())).refused();
    assert_eq!(refused, "knee: nothing named \"knee_t_none\" is loaded: see knee status\n");
    assert!(!path.exists() && !traced.file("no").exists(), "files without a recording");
}

#[test]
fn after_a_killed_tracer_the_next_one_begins_anew() {
    let Some(traced) = Traced::new() else { return };
    let (host, name) = (&traced.host, &traced.name);
    let cut = traced.file("killed");
    let running = host.start(&format!("trace {name} -o {}", cut.display()));
    thread::sleep(Duration::from_millis(300));
    running.signal(SIGKILL);
    assert_eq!(running.end().0, None);

    // What had been written can be looked at, and is not taken for whole.
    let answer = host.knee(&format!("replay {}", cut.display()));
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.err.contains("cut off") || answer.err.contains("header"), "{}", answer.err);

    // Its lease ends by itself; until then nobody can know that it is dead.
    let killed = Instant::now();
    let path = traced.file("next");
    let said = loop {
        let answer = host.knee(&format!("trace {name} --for 200ms -o {}", path.display()));
        if answer.code == Some(0) {
            break answer.out;
        }
        assert!(answer.err.contains("is being traced already"), "{}", answer.err);
        assert!(killed.elapsed() < Duration::from_secs(10), "the lease does not end");
        thread::sleep(Duration::from_millis(100));
    };
    assert!(said.contains(" calls in "), "{said}");
    assert!(read(&path).1.len() > 100);
    host.knee(&format!("replay {}", path.display())).done();
}
