//! Memory that soon is needed, asked for all at once.
//!
//! In a large network each event is about a packet, a link and sockets that are in no cache near the core, and waiting for one after
//! the other is most of the time. What a bucket holds is known when it opens: reading a little of everything lets the processor
//! fetch it side by side. Nothing is changed by that.

use crate::events::Event;
use crate::link::LinkState;
use crate::net::{Net, PATH_END};
use crate::packet::flags;
use crate::tcp::Sock;

/// Sockets and links of more than this do not stay in the caches near a core.
const CACHE_BYTES: usize = 2 << 20;

pub(crate) fn is_worth_it(net: &Net, socks: &[Sock]) -> bool {
    size_of_val(socks) + size_of_val(&*net.links) > CACHE_BYTES
}

/// What an event needs first.
enum Needs<'a> {
    Link(&'a LinkState),
    Sock(&'a Sock),
    Nothing,
}

fn needs<'a>(event: Event, net: &'a Net, socks: &'a [Sock]) -> Needs<'a> {
    match event {
        Event::Arrive { packet } => {
            let packet = net.packets.get(packet);
            match net.paths[packet.hop as usize] {
                PATH_END if packet.has(flags::PING) => Needs::Nothing,
                PATH_END => Needs::Sock(&socks[packet.to as usize]),
                link => Needs::Link(&net.links[link as usize]),
            }
        }
        Event::Port { link } => Needs::Link(&net.links[link as usize]),
        Event::Timer { sock, .. } => Needs::Sock(&socks[sock as usize]),
        _ => Needs::Nothing,
    }
}

/// A bucket has been opened: reads packets, then what these name, then what that leads to.
#[inline(never)]
pub(crate) fn opened(net: &Net, socks: &[Sock]) {
    let mut sum = 0;
    for event in net.events.opened() {
        if let Event::Arrive { packet } = event {
            sum ^= net.packets.get(packet).hop;
        }
    }
    for event in net.events.opened() {
        sum ^= match needs(event, net, socks) {
            Needs::Link(link) => link.fetch(),
            Needs::Sock(sock) => sock.fetch(),
            Needs::Nothing => 0,
        };
    }
    for event in net.events.opened() {
        sum ^= match needs(event, net, socks) {
            Needs::Link(link) => link.fetch_behind(),
            Needs::Sock(sock) => sock.fetch_behind(),
            Needs::Nothing => 0,
        };
    }
    std::hint::black_box(sum);
}
