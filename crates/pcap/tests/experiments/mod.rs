//! Captures for tests: of experiments in `tests/pcap`, as they are or altered in flight.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]
#![allow(dead_code, reason = "each test file takes what it needs")]

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use knee_pcap::{Analysis, AnalysisOptions, Input, analyse};
use knee_run::Outcome;
use knee_run::spec::Run;
use knee_scenario::{Experiment, Overrides};
use knee_sim::captures;
use knee_wire::write::File;
use knee_wire::{Captured, Direction, Interface, Record, link};

/// The first interface of a simulated host's file is the host.
pub(crate) const AT_HOST: u32 = 0;

/// A directory that goes with the test.
pub(crate) struct Temp(PathBuf);

impl Temp {
    pub(crate) fn new(name: &str) -> Temp {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{name}-{}-{number}", std::process::id());
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&dir).unwrap();
        Temp(dir)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An experiment that was run, with a capture of each host.
pub(crate) struct Made {
    pub(crate) dir: Temp,
    pub(crate) run: Run,
    pub(crate) outcome: Outcome,
}

impl Made {
    pub(crate) fn file(&self, host: &str) -> PathBuf {
        self.dir.path(&knee_wire::host::file_name(host))
    }

    /// The flow that a connection of the capture is: flow i connects from port 40000 + i.
    pub(crate) fn flow_of(&self, connecting_port: u16) -> usize {
        usize::from(connecting_port) - 40_000
    }
}

/// Runs `tests/pcap/NAME.toml` once, as `knee run --pcap` does.
pub(crate) fn simulate(name: &str, set: &[&str]) -> Made {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/pcap/{name}.toml"));
    let set = set.iter().map(|&set| set.to_owned()).collect();
    let overrides = Overrides { set, ..Overrides::default() };
    let experiment = Experiment::load(&path, &overrides).unwrap_or_else(|why| panic!("{why}"));
    let run = experiment.run(experiment.run_id(0)).unwrap();
    let dir = Temp::new(name);
    let outcome = captures::simulate(&run, &dir.0).unwrap();
    Made { dir, run, outcome }
}

/// A packet of a copy: its bytes from the Ethernet header on, to be changed in place.
pub(crate) struct Copied {
    pub(crate) interface: u32,
    pub(crate) at_ns: u64,
    pub(crate) original_len: u32,
    pub(crate) bytes: Vec<u8>,
}

/// Where things are in a frame with IPv4.
const TOS: usize = 15;
const SOURCE: usize = 26;
const TCP: usize = 34;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;
const SYN: u8 = 0x02;

impl Copied {
    pub(crate) fn source(&self) -> [u8; 4] {
        self.bytes[SOURCE..SOURCE + 4].try_into().unwrap()
    }

    pub(crate) fn has_data(&self) -> bool {
        let ip_len = u16::from_be_bytes([self.bytes[16], self.bytes[17]]);
        usize::from(ip_len) > 20 + usize::from(self.bytes[TCP + 12] >> 4) * 4
    }

    pub(crate) fn is_syn(&self) -> bool {
        self.bytes[TCP + 13] & SYN != 0
    }

    pub(crate) fn has_ece(&self) -> bool {
        self.bytes[TCP + 13] & ECE != 0
    }

    pub(crate) fn clear_ecn(&mut self) {
        self.bytes[TOS] &= !3;
    }

    pub(crate) fn clear_cwr(&mut self) {
        self.bytes[TCP + 13] &= !CWR;
    }

    pub(crate) fn set_ece(&mut self) {
        self.bytes[TCP + 13] |= ECE;
    }
}

/// Copies a capture packet by packet, as `change` has it; what it refuses is left out. Checksums stay as they were, as those
/// of captures with offloads do.
pub(crate) fn copy(from: &Path, to: &Path, mut change: impl FnMut(&mut Copied) -> bool) {
    let interface =
        |name: &str| Interface { name: name.to_owned(), link: link::ETHERNET, snaplen: 0 };
    let mut out = File::create(to, &[interface("host"), interface("port")]).unwrap();
    let each = |packet: Captured<'_>| {
        let mut copied = Copied {
            interface: packet.interface,
            at_ns: packet.at_ns,
            original_len: packet.original_len,
            bytes: packet.data.to_vec(),
        };
        if change(&mut copied) {
            out.write(&Record {
                interface: copied.interface,
                at_ns: copied.at_ns,
                original_len: copied.original_len,
                data: &copied.bytes,
                direction: None::<Direction>,
                comment: None,
            })
            .unwrap();
        }
        ControlFlow::Continue(())
    };
    let ending = knee_wire::read(fs::File::open(from).unwrap(), each).unwrap();
    assert_eq!(ending.broken, None);
    out.finish().unwrap();
}

/// Copies what a host sent and got, and makes one packet of up to so many segments that the host sends within 60 us of each other, as
/// a capture with TSO has them.
pub(crate) fn merged(from: &Path, to: &Path, most: usize) {
    const WITHIN_NS: u64 = 60_000;
    const LEN: std::ops::Range<usize> = 16..18;
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes[..4].try_into().unwrap());
    let headers = |packet: &Copied| 20 + usize::from(packet.bytes[TCP + 12] >> 4) * 4;
    let payload = |packet: &Copied| packet.original_len as usize - 14 - headers(packet);
    let mut all: Vec<Copied> = Vec::new();
    // The packet of several that is growing: its place, segments and last time, by source.
    let mut open: Option<(usize, usize, u64)> = None;
    let each = |packet: Captured<'_>| {
        if packet.interface != AT_HOST {
            return ControlFlow::Continue(());
        }
        let next = Copied {
            interface: packet.interface,
            at_ns: packet.at_ns,
            original_len: packet.original_len,
            bytes: packet.data.to_vec(),
        };
        if !next.has_data() {
            all.push(next);
            return ControlFlow::Continue(());
        }
        let grows = open.filter(|(at, count, last_ns)| {
            let whole = &all[*at];
            let end = number(&whole.bytes[TCP + 4..]).wrapping_add(payload(whole) as u32);
            let is_next = end == number(&next.bytes[TCP + 4..]);
            is_next && *count < most && next.at_ns - last_ns <= WITHIN_NS
        });
        let Some((at, count, _)) = grows else {
            open = Some((all.len(), 1, next.at_ns));
            all.push(next);
            return ControlFlow::Continue(());
        };
        let len = payload(&all[at]) + payload(&next);
        let whole = &mut all[at];
        let ip_len = headers(whole) + len;
        whole.bytes[LEN].copy_from_slice(&u16::try_from(ip_len).unwrap().to_be_bytes());
        whole.original_len = 14 + ip_len as u32;
        open = Some((at, count + 1, next.at_ns));
        ControlFlow::Continue(())
    };
    let ending = knee_wire::read(fs::File::open(from).unwrap(), each).unwrap();
    assert_eq!(ending.broken, None);
    let interface = Interface { name: "host".to_owned(), link: link::ETHERNET, snaplen: 0 };
    let mut out = File::create(to, &[interface]).unwrap();
    for packet in &all {
        out.write(&Record {
            at_ns: packet.at_ns,
            original_len: packet.original_len,
            data: &packet.bytes,
            ..Record::default()
        })
        .unwrap();
    }
    out.finish().unwrap();
}

/// Analyses captures.
pub(crate) fn analysed(files: &[PathBuf]) -> Analysis {
    let inputs = files.iter().map(|file| Input::File(file.clone())).collect();
    analyse(inputs, &AnalysisOptions::default(), &mut |_| ()).unwrap_or_else(|why| panic!("{why}"))
}
