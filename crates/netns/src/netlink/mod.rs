//! Netlink: devices, addresses, routes, neighbours and queues of a namespace, asked for and set without a command.
//!
//! A [`Netlink`] is a socket in the namespace in which it was opened, whatever thread uses it. What is asked is a
//! [`Message`]; the modules' functions make those that are needed.
//!
//! ```no_run
//! use knee_netns::netlink::{self, LinkSettings, Netlink};
//!
//! let kernel = Netlink::open()?;
//! let lo = kernel.index_of("lo")?;
//! kernel.ask(&netlink::set_link(lo, &LinkSettings { up: true, ..LinkSettings::default() }))?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod features;
mod napi;
mod queue;
mod route;

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice,
};

pub use features::Features;
pub use napi::receive_threads;
pub use queue::{Queue, QueueStats, ROOT, add_queue};
pub use route::{
    LinkSettings, LinkStats, Route, VethEnd, add_address, add_neighbour, add_route, new_veth,
    set_link,
};

// From the kernel's user API: netlink.h.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const NLA_F_NESTED: u16 = 1 << 15;
const HEADER_BYTES: usize = 16;

/// What is sent at once at most; a message of its own may be longer.
const BATCH_BYTES: usize = 32 << 10;
/// The kernel's answers fit.
const ANSWER_BYTES: usize = 64 << 10;

/// One request: a header, the family's fixed part, attributes.
#[derive(Clone, Debug)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn new(kind: u16, flags: u16, fixed: &[u8]) -> Message {
        let mut bytes = Vec::with_capacity(128);
        // The length is known when it is sent.
        bytes.extend([0; 4]);
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(fixed);
        let mut message = Message { bytes };
        message.pad();
        message
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn put(&mut self, kind: u16, value: &[u8]) {
        self.attribute(kind, |message| message.bytes.extend(value));
    }

    fn put_u32(&mut self, kind: u16, value: u32) {
        self.put(kind, &value.to_ne_bytes());
    }

    /// The kernel wants names with their end.
    fn put_name(&mut self, kind: u16, name: &str) {
        self.attribute(kind, |message| {
            message.bytes.extend(name.bytes());
            message.bytes.push(0);
        });
    }

    /// An attribute that holds those that `fill` puts.
    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Message)) {
        self.attribute(kind | NLA_F_NESTED, fill);
    }

    fn attribute(&mut self, kind: u16, fill: impl FnOnce(&mut Message)) {
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        fill(self);
        let len = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        self.pad();
    }

    /// The request as it is sent: with its number, and maybe with the wish for an answer in any case.
    fn append_to(&self, batch: &mut Vec<u8>, number: u32, answer: bool) {
        let start = batch.len();
        batch.extend(&self.bytes);
        batch[start..start + 4].copy_from_slice(&(self.bytes.len() as u32).to_ne_bytes());
        batch[start + 8..start + 12].copy_from_slice(&number.to_ne_bytes());
        if answer {
            let flags = half(batch, start + 6).unwrap_or_default() | NLM_F_ACK;
            batch[start + 6..start + 8].copy_from_slice(&flags.to_ne_bytes());
        }
    }
}

/// A socket to the kernel in the namespace in which it was opened.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    /// Opens one in the namespace of the calling thread.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn open() -> io::Result<Netlink> {
        // Protocol 0 is NETLINK_ROUTE.
        Netlink::of(None)
    }

    fn of(protocol: Option<Protocol>) -> io::Result<Netlink> {
        let (family, flags) = (AddressFamily::NETLINK, SocketFlags::CLOEXEC);
        let socket = rustix::net::socket_with(family, SocketType::RAW, flags, protocol)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Netlink { socket })
    }

    /// The number of a device.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn index_of(&self, device: &str) -> io::Result<u32> {
        Ok(netdevice::name_to_index(&self.socket, device)?)
    }

    /// Sends one request and waits for the kernel's answer.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn ask(&self, message: &Message) -> io::Result<()> {
        self.ask_all(std::slice::from_ref(message))
    }

    /// Sends any number of requests, many at a time, and waits until the kernel has done them all.
    ///
    /// # Errors
    /// What the kernel answers to the first that it does not do. Those behind it may be done.
    pub fn ask_all(&self, messages: &[Message]) -> io::Result<()> {
        let mut batch = Vec::with_capacity(BATCH_BYTES);
        for (number, message) in messages.iter().enumerate() {
            let next_bytes = messages.get(number + 1).map_or(0, |next| next.bytes.len());
            let last = number + 1 == messages.len()
                || batch.len() + message.bytes.len() + next_bytes > BATCH_BYTES;
            // Refusals come unasked; that all is done, the answer to the last one says.
            message.append_to(&mut batch, number as u32, last);
            if last {
                rustix::net::send(&self.socket, &batch, SendFlags::empty())?;
                self.wait_for(number as u32)?;
                batch.clear();
            }
        }
        Ok(())
    }

    fn wait_for(&self, number: u32) -> io::Result<()> {
        let mut first_refusal = Ok(());
        loop {
            for answer in self.receive()? {
                let Some(code) = answer.error() else { continue };
                if code != 0 && first_refusal.is_ok() {
                    first_refusal = Err(io::Error::from_raw_os_error(-code));
                }
                if answer.number == number {
                    return first_refusal;
                }
            }
        }
    }

    /// Sends a request for a list and takes it in.
    fn list(&self, message: &Message) -> io::Result<Vec<Answer>> {
        let mut request = Vec::new();
        message.append_to(&mut request, 0, false);
        rustix::net::send(&self.socket, &request, SendFlags::empty())?;
        let mut all = Vec::new();
        loop {
            for answer in self.receive()? {
                match answer.error() {
                    Some(code) if code != 0 => return Err(io::Error::from_raw_os_error(-code)),
                    _ if answer.kind == NLMSG_DONE => return Ok(all),
                    _ => all.push(answer),
                }
            }
        }
    }

    /// Sends a request to which one message and then the confirmation are the answer.
    fn get(&self, message: &Message) -> io::Result<Answer> {
        let mut request = Vec::new();
        message.append_to(&mut request, 0, true);
        rustix::net::send(&self.socket, &request, SendFlags::empty())?;
        let mut got = None;
        loop {
            for answer in self.receive()? {
                match answer.error() {
                    Some(0) => return got.ok_or_else(|| io::ErrorKind::InvalidData.into()),
                    Some(code) => return Err(io::Error::from_raw_os_error(-code)),
                    None => got = Some(answer),
                }
            }
        }
    }

    fn receive(&self) -> io::Result<Vec<Answer>> {
        let mut buffer = vec![0; ANSWER_BYTES];
        let (len, _) = rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
        Answer::all(&buffer[..len]).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// A message of the kernel's.
struct Answer {
    kind: u16,
    number: u32,
    body: Vec<u8>,
}

impl Answer {
    fn all(mut bytes: &[u8]) -> Option<Vec<Answer>> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let len = word(bytes, 0)? as usize;
            let body = bytes.get(HEADER_BYTES..len)?.to_vec();
            all.push(Answer { kind: half(bytes, 4)?, number: word(bytes, 8)?, body });
            bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        Some(all)
    }

    /// The code of a refusal, negative, or 0 of a confirmation.
    fn error(&self) -> Option<i32> {
        (self.kind == NLMSG_ERROR).then(|| word(&self.body, 0).unwrap_or_default() as i32)
    }

    /// The attributes behind a fixed part of this length.
    fn attributes(&self, fixed_bytes: usize) -> impl Iterator<Item = (u16, &[u8])> {
        attributes(self.body.get(fixed_bytes..).unwrap_or_default())
    }
}

/// Kinds and values of attributes.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(half(bytes, 0)?);
        let kind = half(bytes, 2)? & !NLA_F_NESTED;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
