//! Files of captured packets, pcap and pcapng, read in one go with little memory.

use crate::Error;
use crate::overlay::{Layers, Next, innermost};
use pcap_parser::pcapng::Block;
use pcap_parser::{PcapBlockOwned, PcapError, create_reader};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::OnceLock;

/// The buffer, bytes: at first, and as far as it grows for one large packet.
const BUFFER_BYTES: usize = 256 << 10;
const MOST_BUFFER_BYTES: usize = 16 << 20;
/// Interfaces of a section; more are a broken file.
const MAX_INTERFACES: usize = 4096;

/// Kinds of link-layer headers, by their numbers at <https://www.tcpdump.org/linktypes.html>.
pub mod link {
    /// BSD loopback: the address family in the byte order of the machine.
    pub const NULL: u32 = 0;
    /// `LINKTYPE_ETHERNET`.
    pub const ETHERNET: u32 = 1;
    /// PPP, with or without address and control.
    pub const PPP: u32 = 9;
    /// PPP on serial lines, with address and control.
    pub const PPP_SERIAL: u32 = 50;
    /// PPPoE without Ethernet.
    pub const PPP_ETHER: u32 = 51;
    /// IP without a link-layer header, as some systems have numbered it.
    pub const RAW_OLD: [u32; 2] = [12, 14];
    /// IP without a link-layer header.
    pub const RAW: u32 = 101;
    /// OpenBSD loopback: the address family in network order.
    pub const LOOP: u32 = 108;
    /// Linux "cooked" capture.
    pub const LINUX_SLL: u32 = 113;
    /// IPv4 without a link-layer header.
    pub const IPV4: u32 = 228;
    /// IPv6 without a link-layer header.
    pub const IPV6: u32 = 229;
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: u32 = 276;
}

/// A packet of a file.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// Time since 1970, ns; 0 where the file has none.
    pub at_ns: u64,
    /// Interface, counted from 0 through all sections of the file.
    pub interface: u32,
    /// Link-layer type, one of [`link`].
    pub link: u32,
    /// Length on the wire, bytes; `data` may be only the beginning.
    pub original_len: u32,
    /// Bytes from the link-layer header on.
    pub data: &'a [u8],
}

/// How the reading of a file ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    pub packets: u64,
    /// Why what follows could not be read, in one sentence.
    pub broken: Option<String>,
}

#[derive(Clone, Copy)]
struct Interface {
    link: u32,
    /// Resolution of timestamps as in the file: a power of 10, or of 2 with the highest bit.
    resolution: u8,
    offset_s: i64,
    snaplen: u32,
}

/// Reads a file packet by packet, until its end or until `each` breaks off.
///
/// # Errors
/// If it is no capture at all. A file that ends or breaks in its middle is read as far as it goes.
pub fn read(
    input: impl Read + Send,
    mut each: impl FnMut(Captured) -> ControlFlow<()>,
) -> Result<Ending, Error> {
    let failed = OnceLock::new();
    let full = Full { input, failed: &failed };
    let mut reader =
        create_reader(BUFFER_BYTES, full).map_err(|why| match (why, failed.get()) {
            (_, Some(why)) => Error::Capture(io::Error::new(why.kind(), why.to_string())),
            (PcapError::Eof, _) => Error::Empty,
            (PcapError::Incomplete(_), _) => Error::CutOff,
            _ => Error::Foreign,
        })?;
    let mut state = Reading::default();
    let mut buffer_bytes = BUFFER_BYTES;
    loop {
        let before = reader.data().len();
        let wants = match reader.next() {
            Ok((0, _)) => return Ok(state.broken("it contains a block without a length")),
            Ok((length, block)) => {
                let flow = state.block(&block, &mut each);
                reader.consume(length);
                match flow {
                    Ok(ControlFlow::Continue(())) => continue,
                    Ok(ControlFlow::Break(())) => return Ok(state.ending),
                    Err(why) => return Ok(state.broken(why)),
                }
            }
            Err(PcapError::Eof | PcapError::UnexpectedEof) => {
                return Ok(match failed.get() {
                    Some(why) => state.broken(&format!("the rest is unreadable: {why}")),
                    None if before == 0 => state.ending,
                    None => state.broken("it ends inside a packet"),
                });
            }
            Err(PcapError::Incomplete(_)) => Wants::Data,
            Err(PcapError::BufferTooSmall) => Wants::Room,
            Err(_) => return Ok(state.broken("the next block is not a packet")),
        };
        if wants == Wants::Data {
            if reader.refill().is_err() {
                return Ok(state.broken("the rest is unreadable"));
            }
            if reader.reader_exhausted() || reader.data().len() > before {
                continue;
            }
        }
        // The buffer is full, and there is no whole block in it.
        buffer_bytes *= 4;
        if buffer_bytes > MOST_BUFFER_BYTES || !reader.grow(buffer_bytes) {
            return Ok(state.broken("it contains a block that is too large for a packet"));
        }
        if reader.refill().is_err() {
            return Ok(state.broken("the rest is unreadable"));
        }
    }
}

#[derive(PartialEq, Eq)]
enum Wants {
    Data,
    Room,
}

/// Fills a buffer as far as there is data: the parser takes a short read for the end. A failure is an end too, so that what came before
/// it is not lost, and kept for who asks.
struct Full<'a, R> {
    input: R,
    failed: &'a OnceLock<io::Error>,
}

impl<R: Read> Read for Full<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() && self.failed.get().is_none() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => drop(self.failed.set(why)),
            }
        }
        Ok(filled)
    }
}

#[derive(Default)]
struct Reading {
    ending: Ending,
    /// Interfaces of this section.
    interfaces: Vec<Interface>,
    /// Number of interfaces of earlier sections.
    before: u32,
    is_nanosecond: bool,
}

type Flow = Result<ControlFlow<()>, &'static str>;

impl Reading {
    fn broken(mut self, why: &str) -> Ending {
        self.ending.broken = Some(format!("{why}, after {} packets", self.ending.packets));
        self.ending
    }

    fn block(
        &mut self,
        block: &PcapBlockOwned,
        each: &mut impl FnMut(Captured) -> ControlFlow<()>,
    ) -> Flow {
        let go_on = Ok(ControlFlow::Continue(()));
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.is_nanosecond = header.is_nanosecond_precision();
                // The upper half may tell of frame check sequences.
                let link = header.network.0 as u32 & 0xffff;
                let snaplen = header.snaplen;
                self.interfaces = vec![Interface { link, resolution: 6, offset_s: 0, snaplen }];
                go_on
            }
            PcapBlockOwned::Legacy(packet) => {
                let scale = if self.is_nanosecond { 1 } else { 1000 };
                let at_ns =
                    u64::from(packet.ts_sec) * 1_000_000_000 + u64::from(packet.ts_usec) * scale;
                let caplen = packet.caplen as usize;
                self.packet(0, at_ns, packet.origlen, cut(packet.data, caplen), each)
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.before = self.before.saturating_add(self.interfaces.len() as u32);
                self.interfaces.clear();
                go_on
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                if self.interfaces.len() >= MAX_INTERFACES {
                    return Err("it declares too many interfaces");
                }
                // The crate reads this option in one byte order; a block type of 1 is that one.
                let offset_s = match interface.block_type {
                    1 => interface.if_tsoffset,
                    _ => interface.if_tsoffset.swap_bytes(),
                };
                self.interfaces.push(Interface {
                    link: interface.linktype.0 as u32 & 0xffff,
                    resolution: interface.if_tsresol,
                    offset_s,
                    snaplen: interface.snaplen,
                });
                go_on
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let Some(interface) = self.interfaces.get(packet.if_id as usize) else {
                    return Err("a packet names an interface that the file does not declare");
                };
                let ticks = (u64::from(packet.ts_high) << 32) | u64::from(packet.ts_low);
                let at_ns = interface.ns(ticks);
                let data = cut(packet.data, packet.caplen as usize);
                self.packet(packet.if_id, at_ns, packet.origlen, data, each)
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                let Some(interface) = self.interfaces.first() else {
                    return Err("a packet names an interface that the file does not declare");
                };
                let most = match interface.snaplen {
                    0 => packet.origlen,
                    snaplen => packet.origlen.min(snaplen),
                };
                self.packet(0, 0, packet.origlen, cut(packet.data, most as usize), each)
            }
            PcapBlockOwned::NG(_) => go_on,
        }
    }

    fn packet(
        &mut self,
        interface: u32,
        at_ns: u64,
        original_len: u32,
        data: &[u8],
        each: &mut impl FnMut(Captured) -> ControlFlow<()>,
    ) -> Flow {
        let Some(known) = self.interfaces.get(interface as usize) else {
            return Err("a packet names an interface that the file does not declare");
        };
        self.ending.packets += 1;
        let interface = self.before.saturating_add(interface);
        Ok(each(Captured { at_ns, interface, link: known.link, original_len, data }))
    }
}

impl Interface {
    fn ns(&self, ticks: u64) -> u64 {
        let (ticks, exponent) = (u128::from(ticks), u32::from(self.resolution & 0x7f));
        let ns = if self.resolution & 0x80 != 0 {
            (ticks * 1_000_000_000) >> exponent
        } else if exponent <= 9 {
            ticks * 10_u128.pow(9 - exponent)
        } else {
            10_u128.checked_pow(exponent - 9).map_or(0, |scale| ticks / scale)
        };
        let ns = i128::try_from(ns).unwrap_or(i128::MAX);
        let at = ns.saturating_add(i128::from(self.offset_s) * 1_000_000_000);
        u64::try_from(at.max(0)).unwrap_or(u64::MAX)
    }
}

fn cut(data: &[u8], len: usize) -> &[u8] {
    data.get(..len).unwrap_or(data)
}

/// An IP packet as it was captured, and what it was wrapped in.
#[derive(Clone, Copy, Debug)]
pub struct Inner<'a> {
    /// Bytes from its header on.
    pub ip: &'a [u8],
    /// Its length on the wire, bytes, with whatever follows it.
    pub original_len: u32,
    /// Tunnels, mirrors and labels around it.
    pub layers: Layers,
}

impl<'a> Captured<'a> {
    /// The IP packet that holds no other: the one inside of tunnels, mirrors and labels. Nothing if there is none, or its link layer is
    /// not known.
    pub fn inner(&self) -> Option<Inner<'a>> {
        let (at, next) = self.first()?;
        let (at, layers) = innermost(self.data, at, next)?;
        let original_len = self.original_len.checked_sub(u32::try_from(at).ok()?)?;
        Some(Inner { ip: self.data.get(at..)?, original_len, layers })
    }

    /// The same packet and its length on the wire.
    pub fn ip(&self) -> Option<(&'a [u8], u32)> {
        self.inner().map(|inner| (inner.ip, inner.original_len))
    }

    /// Whether what is in packets of this link layer can be found.
    pub fn is_link_known(&self) -> bool {
        use link::{ETHERNET, IPV4, IPV6, LINUX_SLL, LINUX_SLL2, LOOP, NULL, PPP, PPP_ETHER, RAW};
        matches!(
            self.link,
            NULL | ETHERNET | PPP | PPP_ETHER | RAW | LOOP | LINUX_SLL | IPV4 | IPV6 | LINUX_SLL2
        ) || link::RAW_OLD.contains(&self.link)
            || link::PPP_SERIAL == self.link
    }

    /// What is first behind the capture's own header, and where.
    fn first(&self) -> Option<(usize, Next)> {
        let kind_at =
            |at: usize| Some(u16::from_be_bytes([*self.data.get(at)?, *self.data.get(at + 1)?]));
        Some(match self.link {
            link::ETHERNET => (0, Next::Ethernet),
            link::LINUX_SLL => (16, Next::Kind(kind_at(14)?)),
            link::LINUX_SLL2 => (20, Next::Kind(kind_at(0)?)),
            link::NULL | link::LOOP => (4, Next::Ip),
            link::PPP | link::PPP_SERIAL => (0, Next::Ppp),
            link::PPP_ETHER => (0, Next::PppOe),
            _ if self.is_link_known() => (0, Next::Ip),
            _ => return None,
        })
    }
}
