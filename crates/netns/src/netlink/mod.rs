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
mod message;
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
pub use message::{Answer, Attributes, Message, attributes};
use message::{NLM_F_DUMP_INTR, NLMSG_DONE, half, long, word};
pub use napi::receive_threads;
pub use queue::{Queue, QueueStats, ROOT, add_discipline, add_queue, ask_queue};
pub use route::{
    LinkSettings, LinkStats, NewLink, Route, VethEnd, add_address, add_neighbour, add_route,
    ask_link, new_veth, set_link,
};

// From the kernel's user API: netlink.h.
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_CREATE: u16 = 0x400;

/// What is sent at once at most; a message of its own may be longer.
const BATCH_BYTES: usize = 32 << 10;
/// The kernel's answers fit.
const ANSWER_BYTES: usize = 64 << 10;
/// How often a list is asked for again because something changed between its parts.
const LIST_ATTEMPTS: usize = 10;

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
            let next_bytes = messages.get(number + 1).map_or(0, Message::len);
            let last = number + 1 == messages.len()
                || batch.len() + message.len() + next_bytes > BATCH_BYTES;
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

    /// Sends a request for a list and takes it in whole.
    ///
    /// # Errors
    /// What the kernel answers, or that the list does not stop changing.
    pub fn list(&self, message: &Message) -> io::Result<Vec<Answer>> {
        for _ in 0..LIST_ATTEMPTS {
            if let Some(all) = self.list_once(message)? {
                return Ok(all);
            }
        }
        Err(io::Error::other("what is listed does not stop changing"))
    }

    /// None if something changed between the parts of the list, which may lack some.
    fn list_once(&self, message: &Message) -> io::Result<Option<Vec<Answer>>> {
        let mut request = Vec::new();
        message.append_to(&mut request, 0, false);
        rustix::net::send(&self.socket, &request, SendFlags::empty())?;
        let (mut all, mut is_whole) = (Vec::new(), true);
        loop {
            for answer in self.receive()? {
                is_whole &= answer.flags & NLM_F_DUMP_INTR == 0;
                match answer.error() {
                    Some(code) if code != 0 => return Err(io::Error::from_raw_os_error(-code)),
                    _ if answer.kind == NLMSG_DONE => return Ok(is_whole.then_some(all)),
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
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Answer::all(&buffer[..len]).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}
