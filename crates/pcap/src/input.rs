//! Sources of packets: files and standard input, plain or compressed, and the capture point of each packet.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use knee_wire::{Captured, Compact, Error, Layers, read};
use lzma_rust2::{Action, Status, XzStream};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder, errors};

use crate::model::Unread;

/// Size of a file's read buffer, bytes.
const BUFFER_BYTES: usize = 256 << 10;
/// Largest dictionary of an xz file, KiB: that of its largest usual preset, and some.
const MOST_XZ_KIB: u32 = 128 << 10;
/// TCP packets of a file that decide which interfaces are one point; they are buffered until then.
const SCOUTED_PACKETS: usize = 4096;
/// Capture points of a file. Interfaces beyond are put to the first.
const MOST_POINTS: usize = 256;
/// Interfaces of a file that can be told apart.
const MOST_INTERFACES: usize = 1 << 16;
/// Places of wrapped packets that are told apart, and the number of the first: behind all interfaces.
const MOST_WRAPPED: usize = 256;
const WRAPPED: u32 = (MOST_INTERFACES - MOST_WRAPPED) as u32;
/// How far a packet's time may be before that of one in front of it without being counted, ns: several queues of a device and
/// several processors' clocks.
const SLACK_NS: u64 = 1_000_000_000;

/// How far a packet's time may be before that of an earlier one of the same interface, ns: half of the shortest timeout of Linux, so that
/// no step below it looks like one. Beyond it the clock was set back.
const SET_BACK_NS: u64 = 100_000_000;
/// So few packets with earlier times are late ones, if the time goes on behind them as before.
const LATE_PACKETS: u32 = 16;

/// A file of packets, or another source of its bytes.
pub enum Input {
    File(PathBuf),
    Stdin,
    /// Anything that can be read, with a name for it.
    Reader(String, Box<dyn Read + Send>),
}

impl Input {
    /// From a name on the command line: `-` is standard input.
    pub fn named(name: &Path) -> Input {
        if name.as_os_str() == "-" { Input::Stdin } else { Input::File(name.to_owned()) }
    }

    /// The name for messages and results.
    pub fn name(&self) -> String {
        match self {
            Input::File(path) => path.display().to_string(),
            Input::Stdin => "-".to_owned(),
            Input::Reader(name, _) => name.clone(),
        }
    }

    /// Opens it; what is compressed is known by its first bytes.
    pub(crate) fn open(self) -> Result<Box<dyn Read + Send>, Error> {
        let name = self.name();
        let cannot = |source| Error::Unread { name: name.clone(), source };
        let plain: Box<dyn Read + Send> = match self {
            Input::File(path) => {
                let file = knee_files::open_file(&path, "capture");
                Box::new(file.map_err(|source| Error::Unopened { name: name.clone(), source })?)
            }
            Input::Stdin => Box::new(io::stdin()),
            Input::Reader(_, reader) => reader,
        };
        expanded(plain).map_err(cannot)
    }
}

type Whole = Chain<Cursor<Vec<u8>>, Box<dyn Read + Send>>;

/// Takes off a compression, if there is one.
fn expanded(mut plain: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut head = Vec::new();
    plain.by_ref().take(6).read_to_end(&mut head)?;
    let is = |magic: &[u8]| head.starts_with(magic);
    let (gzip, zstd, xz) =
        (is(&[0x1f, 0x8b]), is(&ZSTD_MAGIC), is(&[0xfd, b'7', b'z', b'X', b'Z', 0]));
    let is_skippable =
        head.len() >= 4 && head[0] & 0xf0 == 0x50 && head[1..4] == [0x2a, 0x4d, 0x18];
    let whole: Whole = Cursor::new(head).chain(plain);
    Ok(if gzip {
        Box::new(MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, whole)))
    } else if zstd || is_skippable {
        Box::new(Zstd::new(BufReader::with_capacity(BUFFER_BYTES, whole)))
    } else if xz {
        let source = BufReader::with_capacity(BUFFER_BYTES, whole);
        Box::new(Xz { source, decoder: XzStream::new_mem_limit(true, MOST_XZ_KIB) })
    } else {
        Box::new(whole)
    })
}

/// Reader of all streams of an xz file. It keeps data decoded before a truncation, which the crate's own reader loses.
struct Xz<R> {
    source: R,
    decoder: XzStream,
}

impl<R: BufRead> Read for Xz<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let input = self.source.fill_buf()?;
            let is_end = input.is_empty();
            let action = if is_end { Action::Finish } else { Action::Run };
            let done = self.decoder.process(input, buffer, action)?;
            self.source.consume(done.bytes_consumed);
            if done.bytes_produced > 0 || done.status == Status::StreamEnd || buffer.is_empty() {
                return Ok(done.bytes_produced);
            }
            // One that takes nothing and gives nothing would be asked for ever.
            if is_end || done.bytes_consumed == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// A last block without data, and room for the checksum that a frame may end with (RFC 8878, 3.1.1).
const ZSTD_END: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

/// Reader of all frames of a zstd file.
struct Zstd<R: BufRead> {
    source: R,
    decoder: FrameDecoder,
    /// Whether the decoder is within a frame.
    is_begun: bool,
    /// Why the frame breaks off.
    failed: Option<io::Error>,
}

impl<R: BufRead> Zstd<R> {
    fn new(source: R) -> Zstd<R> {
        Zstd { source, decoder: FrameDecoder::new(), is_begun: false, failed: None }
    }

    /// Decodes at least `bytes` bytes, if the frame has them. The decoder holds back its window; at a truncated frame, ending it
    /// releases the rest.
    fn decode(&mut self, bytes: usize) -> io::Result<()> {
        let some = BlockDecodingStrategy::UptoBytes(bytes);
        if let Err(why) = self.decoder.decode_blocks(&mut self.source, some) {
            self.failed = Some(io::Error::other(why));
            let all = BlockDecodingStrategy::All;
            self.decoder.decode_blocks(&ZSTD_END[..], all).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Begins the next frame; false if there is none.
    fn begin(&mut self) -> io::Result<bool> {
        use errors::{FrameDecoderError::ReadFrameHeaderError, ReadFrameHeaderError::SkipFrame};
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(ReadFrameHeaderError(SkipFrame { length, .. })) => {
                    let mut skipped = (&mut self.source).take(length.into());
                    io::copy(&mut skipped, &mut io::sink())?;
                }
                Err(why) => return Err(io::Error::other(why)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_begun && !self.begin()? {
                return Ok(0);
            }
            self.is_begun = true;
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decode(buffer.len())?;
            }
            match self.decoder.read(buffer)? {
                0 if buffer.is_empty() => return Ok(0),
                0 => {
                    self.is_begun = false;
                    self.failed.take().map_or(Ok(()), Err)?;
                }
                bytes => return Ok(bytes),
            }
        }
    }
}

/// A TCP packet of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) tcp: Compact,
    pub(crate) at_ns: u64,
    /// Number of the packet in the file, from 1.
    pub(crate) number: u64,
    pub(crate) interface: u32,
    /// Capture point, counted within the file.
    pub(crate) point: u16,
}

/// The clock of an interface, which goes on where the capture's is set back.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    latest_ns: u64,
    /// What is added to the times of packets, now and before the last step, ns.
    added_ns: [u64; 2],
    /// Packets since that step.
    packets: u32,
    steps: u64,
}

impl Clock {
    /// The time of a packet with this one.
    fn read(&mut self, captured_ns: u64) -> u64 {
        let [added_ns, before_ns] = self.added_ns;
        let mut at_ns = captured_ns.saturating_add(added_ns);
        self.packets = self.packets.saturating_add(1);
        if at_ns.saturating_add(SET_BACK_NS) < self.latest_ns {
            self.added_ns = [added_ns.saturating_add(self.latest_ns - at_ns), added_ns];
            (self.packets, self.steps) = (0, self.steps + 1);
            at_ns = self.latest_ns;
        } else if added_ns > before_ns
            && self.packets < LATE_PACKETS
            && captured_ns.saturating_add(before_ns) >= self.latest_ns
        {
            self.added_ns = [before_ns; 2];
            self.steps -= 1;
            at_ns = captured_ns.saturating_add(before_ns);
        }
        self.latest_ns = self.latest_ns.max(at_ns);
        at_ns
    }
}

/// Facts on a file apart from its packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileFacts {
    pub(crate) packets: u64,
    pub(crate) tcp_packets: u64,
    pub(crate) begin_ns: Option<u64>,
    pub(crate) end_ns: Option<u64>,
    pub(crate) unread: Unread,
    /// Interfaces of each capture point, and what its packets were wrapped in.
    pub(crate) points: Vec<Vec<u32>>,
    /// Places of packets that were wrapped in something: interface and wrapping, from [`WRAPPED`] on.
    pub(crate) wrapped: Vec<(u32, Layers)>,
    /// TCP packets by what they were wrapped in.
    pub(crate) inside: BTreeMap<Layers, u64>,
}

impl FileFacts {
    /// The interface of a place, and what its packets are wrapped in.
    pub(crate) fn place(&self, interface: u32) -> (u32, Layers) {
        let wrapped = interface.checked_sub(WRAPPED).and_then(|at| self.wrapped.get(at as usize));
        wrapped.copied().unwrap_or((interface, Layers::default()))
    }

    /// The place of a packet: its interface, or one beside it for each wrapping, since the same packet may be captured with it and
    /// without.
    fn place_of(&mut self, interface: u32, layers: Layers) -> u32 {
        if layers.is_empty() {
            return interface;
        }
        *self.inside.entry(layers).or_default() += 1;
        let here = (interface, layers);
        let at = self.wrapped.iter().position(|place| *place == here).unwrap_or_else(|| {
            if self.wrapped.len() < MOST_WRAPPED {
                self.wrapped.push(here);
            }
            self.wrapped.len() - 1
        });
        WRAPPED + at as u32
    }
}

/// Reads a file and hands on its TCP packets, with their points.
pub(crate) fn packets(
    name: &str,
    input: impl Read + Send,
    mut each: impl FnMut(&Seen) -> ControlFlow<()>,
) -> Result<FileFacts, Error> {
    let mut told = FileFacts::default();
    let mut scout = Scout::default();
    let mut clocks: Vec<Clock> = Vec::new();
    let mut is_wanted = ControlFlow::Continue(());
    let ending = read(input, |packet| {
        told.packets += 1;
        let interface = (packet.interface as usize).min(MOST_INTERFACES);
        if clocks.len() <= interface {
            clocks.resize(interface + 1, Clock::default());
        }
        let at = clocks[interface].read(packet.at_ns);
        told.begin_ns.get_or_insert(at);
        if told.end_ns.is_some_and(|latest| at.saturating_add(SLACK_NS) < latest) {
            told.unread.back_in_time += 1;
        }
        told.end_ns = told.end_ns.max(Some(at));
        if let Some(seen) = tcp(&packet, at, &mut told) {
            told.tcp_packets += 1;
            is_wanted = scout.take(seen, &mut each);
        }
        is_wanted
    });
    let ending =
        ending.map_err(|why| Error::Of { name: name.to_owned(), source: Box::new(why) })?;
    if is_wanted.is_continue() {
        let _ = scout.decide(&mut each);
    }
    told.unread.clock_set_back = clocks.iter().map(|clock| clock.steps).sum();
    told.unread.broken = ending.broken;
    told.points = scout.points;
    Ok(told)
}

fn tcp(packet: &Captured<'_>, at_ns: u64, told: &mut FileFacts) -> Option<Seen> {
    let unread = &mut told.unread;
    let Some(inner) = packet.inner() else {
        let reason = match packet.is_link_known() {
            true => &mut unread.not_ip,
            false => &mut unread.unknown_link,
        };
        *reason += 1;
        return None;
    };
    let Some(tcp) = Compact::decode(inner.ip, inner.original_len) else {
        unread.not_tcp += 1;
        return None;
    };
    unread.cut_options += u64::from(tcp.are_options_cut);
    let interface = told.place_of(packet.interface, inner.layers);
    Some(Seen { tcp, at_ns, number: told.packets, interface, point: 0 })
}

/// Tells which interfaces of a file are one capture point.
///
/// Interfaces that see the same direction of a connection are two places of its path. Those that never do are one place, such as
/// the two sides of a port, or the devices of a host.
#[derive(Default)]
struct Scout {
    /// Until it is decided.
    waiting: Vec<Seen>,
    is_decided: bool,
    points: Vec<Vec<u32>>,
    /// Point of each interface.
    point_of: Vec<Option<u16>>,
}

impl Scout {
    fn take(
        &mut self,
        mut seen: Seen,
        each: &mut impl FnMut(&Seen) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if self.is_decided {
            seen.point = self.point(seen.interface);
            return each(&seen);
        }
        self.waiting.push(seen);
        if self.waiting.len() < SCOUTED_PACKETS {
            ControlFlow::Continue(())
        } else {
            self.decide(each)
        }
    }

    /// Decides, and hands on what has waited.
    fn decide(&mut self, each: &mut impl FnMut(&Seen) -> ControlFlow<()>) -> ControlFlow<()> {
        self.is_decided = true;
        let waiting = std::mem::take(&mut self.waiting);
        self.group(&waiting);
        for mut seen in waiting {
            seen.point = self.point(seen.interface);
            each(&seen)?;
        }
        ControlFlow::Continue(())
    }

    /// Puts each interface to the first point that has seen none of its directions.
    fn group(&mut self, waiting: &[Seen]) {
        // By direction of a connection, the interfaces that saw it.
        let mut saw: HashMap<(SocketAddr, SocketAddr), Vec<u32>> = HashMap::new();
        let mut interfaces: Vec<u32> = Vec::new();
        for seen in waiting {
            let by = saw.entry((seen.tcp.source, seen.tcp.destination)).or_default();
            if !by.contains(&seen.interface) {
                by.push(seen.interface);
            }
            if !interfaces.contains(&seen.interface) {
                interfaces.push(seen.interface);
            }
        }
        interfaces.sort_unstable();
        for interface in interfaces {
            let others = saw.values().filter(|by| by.contains(&interface)).flatten();
            let others: Vec<u32> = others.copied().filter(|other| *other != interface).collect();
            let is_free = |point: &Vec<u32>| !point.iter().any(|member| others.contains(member));
            let at = self.points.iter().position(is_free).unwrap_or(self.points.len());
            self.join(interface, at);
        }
    }

    fn join(&mut self, interface: u32, at: usize) {
        if at == self.points.len() {
            self.points.push(Vec::new());
        }
        self.points[at].push(interface);
        let index = interface as usize;
        if self.point_of.len() <= index {
            self.point_of.resize(index + 1, None);
        }
        self.point_of[index] = Some(at as u16);
    }

    /// The point of an interface; one that shows up late is a point of its own, unless there are as many as can be told apart.
    fn point(&mut self, interface: u32) -> u16 {
        if let Some(Some(point)) = self.point_of.get(interface as usize) {
            return *point;
        }
        let is_room = self.points.len() < MOST_POINTS && (interface as usize) < MOST_INTERFACES;
        if !is_room {
            return 0;
        }
        self.join(interface, self.points.len());
        (self.points.len() - 1) as u16
    }
}
