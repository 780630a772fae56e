//! Packets without TCP, and the answers of hosts.

use knee_queue::time::Time;
use knee_run::outcome::PingRecord;

use crate::events::Event;
use crate::packet::{NO_SACKS, Packet, Tos, flags};
use crate::sim::Simulation;

impl Simulation<'_> {
    pub(crate) fn send_ping(&mut self, index: u32) {
        let ping = &self.run.pings[index as usize];
        let record = self.outcome.pings.len() as u32;
        let sent = self.net.now;
        self.outcome.pings.push(PingRecord { ping: index, sent, rtt: None, in_flight: false });
        self.ping_records[index as usize].push(record);
        let number = self.ping_records[index as usize].len() as u32 - 1;
        let packet = Packet {
            to: index,
            hop: self.ping_paths[index as usize].0,
            wire_bytes: ping.wire_bytes,
            seq: number,
            end_seq: number,
            ack_seq: 0,
            window_bytes: 0,
            ts_val: 0,
            ts_ecr: 0,
            flags: flags::PING,
            tos: Tos::new(ping.dscp, ping.ecn),
            sacks_len: 0,
            sacks: NO_SACKS,
        };
        let _ = self.net.transmit(packet);
        self.schedule_ping(index, self.net.now + ping.interval);
    }

    pub(crate) fn schedule_ping(&mut self, index: u32, at: Time) {
        let until = self.run.pings[index as usize].one_way_until;
        if until.is_none_or(|until| at < until) {
            self.net.events.push(at, Event::Ping { ping: index });
        }
    }

    /// Returns stream and number of each packet that goes one way and is in this domain.
    pub(crate) fn one_way_in_flight(&self) -> Vec<(u32, u32)> {
        if self.run.pings.iter().all(|ping| ping.one_way_until.is_none()) {
            return Vec::new();
        }
        let is_one_way = |packet: &&Packet| {
            let stream = || &self.run.pings[packet.to as usize];
            packet.has(flags::PING) && stream().one_way_until.is_some()
        };
        let packets = self.net.packets.in_flight().filter(is_one_way);
        packets.map(|packet| (packet.to, packet.seq)).collect()
    }

    pub(crate) fn on_ping(&mut self, mut packet: Packet) {
        let index = packet.to as usize;
        if packet.has(flags::ACK) {
            let record = self.ping_records[index][packet.seq as usize] as usize;
            let record = &mut self.outcome.pings[record];
            // Of a copy the first answer counts.
            record.rtt.get_or_insert(self.net.now.since(record.sent));
            return;
        }
        if self.run.pings[index].one_way_until.is_some() {
            self.arrivals.push((packet.to, packet.seq, self.net.now));
            return;
        }
        packet.flags |= flags::ACK;
        packet.tos.set_ecn(self.run.pings[index].ecn);
        packet.hop = self.ping_paths[index].1;
        let _ = self.net.transmit(packet);
    }
}
