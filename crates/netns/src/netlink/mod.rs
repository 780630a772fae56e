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

use std::cell::Cell;
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

/// Largest batch of messages; a single message may be longer.
const BATCH_BYTES: usize = 32 << 10;
/// The kernel's answers fit.
const ANSWER_BYTES: usize = 64 << 10;
/// How often a list is asked for again because something changed between its parts.
const LIST_ATTEMPTS: usize = 10;

/// A socket to the kernel in the namespace in which it was opened.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    /// Netlink port of this socket.
    port: u32,
    /// The number of the latest request.
    number: Cell<u32>,
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
        let kernel = SocketAddrNetlink::new(0, 0);
        rustix::net::bind(&socket, &kernel)?;
        // What others send to this port does not come through then.
        rustix::net::connect(&socket, &kernel)?;
        let own = SocketAddrNetlink::try_from(rustix::net::getsockname(&socket)?)?;
        Ok(Netlink { socket, port: own.pid(), number: Cell::new(0) })
    }

    /// The number of the next request: an answer says to which one it is.
    fn next_number(&self) -> u32 {
        self.number.set(self.number.get().wrapping_add(1));
        self.number.get()
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
        let mut numbers = Vec::new();
        for (place, message) in messages.iter().enumerate() {
            let next_bytes = messages.get(place + 1).map_or(0, Message::len);
            let last = place + 1 == messages.len()
                || batch.len() + message.len() + next_bytes > BATCH_BYTES;
            // Refusals come unasked; that all is done, the answer to the last one says.
            numbers.push(self.next_number());
            message.append_to(&mut batch, self.number.get(), last);
            if last {
                rustix::net::send(&self.socket, &batch, SendFlags::empty())?;
                self.wait_for(&numbers)?;
                batch.clear();
                numbers.clear();
            }
        }
        Ok(())
    }

    /// Until the last of these requests is answered.
    fn wait_for(&self, numbers: &[u32]) -> io::Result<()> {
        let mut first_refusal = Ok(());
        loop {
            for answer in self.receive(numbers)? {
                let Some(code) = answer.error() else { continue };
                if code != 0 && first_refusal.is_ok() {
                    first_refusal = Err(io::Error::from_raw_os_error(-code));
                }
                if numbers.last() == Some(&answer.number) {
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
        Err(io::Error::other("the listing keeps changing; try again"))
    }

    /// None if something changed between the parts of the list, which may lack some.
    fn list_once(&self, message: &Message) -> io::Result<Option<Vec<Answer>>> {
        let number = self.send(message, false)?;
        let (mut all, mut is_whole) = (Vec::new(), true);
        loop {
            for answer in self.receive(&[number])? {
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
        let number = self.send(message, true)?;
        let mut got = None;
        loop {
            for answer in self.receive(&[number])? {
                match answer.error() {
                    Some(0) => return got.ok_or_else(|| io::ErrorKind::InvalidData.into()),
                    Some(code) => return Err(io::Error::from_raw_os_error(-code)),
                    None => got = Some(answer),
                }
            }
        }
    }

    /// Sends one request, maybe with the wish for an answer in any case, and gives its number.
    fn send(&self, message: &Message, answer: bool) -> io::Result<u32> {
        let (mut request, number) = (Vec::new(), self.next_number());
        message.append_to(&mut request, number, answer);
        rustix::net::send(&self.socket, &request, SendFlags::empty())?;
        Ok(number)
    }

    /// The next answers to these requests of this socket; others are not looked at.
    fn receive(&self, numbers: &[u32]) -> io::Result<Vec<Answer>> {
        let mut buffer = vec![0; ANSWER_BYTES];
        let (len, _) = rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut answers = Answer::all(&buffer[..len]).ok_or(io::ErrorKind::InvalidData)?;
        answers.retain(|answer| answer.port == self.port && numbers.contains(&answer.number));
        Ok(answers)
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::socketpair;

    use super::*;

    const PORT: u32 = 77;
    const ENOENT: u32 = -2_i32 as u32;

    /// A socket with this port, and the kernel's end of it. What a test sends there lies ready before it is asked for.
    fn with_kernel() -> (Netlink, OwnedFd) {
        let (family, flags) = (AddressFamily::UNIX, SocketFlags::NONBLOCK);
        let (socket, kernel) = socketpair(family, SocketType::DGRAM, flags, None).unwrap();
        (Netlink { socket, port: PORT, number: Cell::new(0) }, kernel)
    }

    fn message_of(kind: u16, flags: u16, number: u32, port: u32, body: u32) -> Vec<u8> {
        let kind_and_flags = [kind.to_ne_bytes(), flags.to_ne_bytes()].concat();
        let rest = [number, port, body].map(u32::to_ne_bytes).concat();
        [&20_u32.to_ne_bytes()[..], &kind_and_flags, &rest].concat()
    }

    /// One message; the body is the code of a refusal or confirmation, or what is listed.
    fn say(kernel: &OwnedFd, (kind, flags): (u16, u16), number: u32, port: u32, body: u32) {
        let bytes = message_of(kind, flags, number, port, body);
        rustix::net::send(kernel, &bytes, SendFlags::empty()).unwrap();
    }

    fn request() -> Message {
        Message::new(18, 0, &[0; 4], &Attributes::default())
    }

    fn times_asked(kernel: &OwnedFd) -> usize {
        let mut buffer = [0; 64];
        let next = || rustix::net::recv(kernel, &mut buffer[..], RecvFlags::empty()).ok();
        std::iter::from_fn(next).count()
    }

    #[test]
    fn answers_to_others_and_to_earlier_requests_are_not_looked_at() {
        let (netlink, kernel) = with_kernel();
        for (number, port) in [(0, PORT), (1, PORT + 1), (1, 0), (2, PORT)] {
            say(&kernel, (message::NLMSG_ERROR, 0), number, port, ENOENT);
        }
        say(&kernel, (message::NLMSG_ERROR, 0), 1, PORT, 0);
        netlink.ask(&request()).unwrap();
        // The first answer again, before that to the second request.
        say(&kernel, (message::NLMSG_ERROR, 0), 1, PORT, 0);
        say(&kernel, (message::NLMSG_ERROR, 0), 2, PORT, ENOENT);
        assert_eq!(netlink.ask(&request()).unwrap_err().raw_os_error(), Some(2));
        for (number, body) in [(2, 6), (3, 7), (4, 8)] {
            say(&kernel, (16, 0), number, PORT, body);
        }
        say(&kernel, (NLMSG_DONE, 0), 2, PORT, 0);
        say(&kernel, (NLMSG_DONE, 0), 3, PORT, 0);
        let listed = netlink.list(&request()).unwrap();
        assert_eq!(listed.iter().map(|answer| answer.body[0]).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn nobody_but_the_kernel_can_answer() {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: others may send to nobody at all");
            return;
        }
        let (asking, other) = (Netlink::open().unwrap(), Netlink::open().unwrap());
        assert_ne!((asking.port, other.port), (0, 0));
        let refusal = message_of(message::NLMSG_ERROR, 0, 1, asking.port, ENOENT);
        let to = SocketAddrNetlink::new(asking.port, 0);
        rustix::net::sendto(&other.socket, &refusal, SendFlags::empty(), &to).unwrap_err();
        asking.queue_stats().unwrap();
    }

    #[test]
    fn a_list_that_changed_meanwhile_is_asked_for_again() {
        let (netlink, kernel) = with_kernel();
        for (number, flags) in [(1, NLM_F_DUMP_INTR), (2, 0)] {
            say(&kernel, (16, 0), number, PORT, number);
            say(&kernel, (NLMSG_DONE, flags), number, PORT, 0);
        }
        let listed = netlink.list(&request()).unwrap();
        assert_eq!(listed.iter().map(|answer| answer.body[0]).collect::<Vec<_>>(), [2]);
        assert_eq!(times_asked(&kernel), 2);
    }

    #[test]
    fn a_list_that_does_not_stop_changing_is_given_up() {
        let (netlink, kernel) = with_kernel();
        for number in 1..=LIST_ATTEMPTS as u32 {
            say(&kernel, (16, NLM_F_DUMP_INTR), number, PORT, 0);
            say(&kernel, (NLMSG_DONE, 0), number, PORT, 0);
        }
        let why = netlink.list(&request()).unwrap_err();
        assert_eq!(why.to_string(), "the listing keeps changing; try again");
        assert_eq!(times_asked(&kernel), LIST_ATTEMPTS);
    }
}
