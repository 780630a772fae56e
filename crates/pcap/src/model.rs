//! What an analysis finds out, as plain data.
//!
//! Times are nanoseconds since 1970 by the clock of the capture, durations nanoseconds. Bytes are payload unless something else
//! is said. Sequence numbers count from the initial one: the SYN is byte 0, the first byte of data 1. A packet's `number` is its
//! place in its file, counted from 1, as other tools show it. What was not seen is `None`, never zero.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use crate::histogram::Histogram;

/// Everything that was found out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Analysis {
    /// Files, points and sums over all flows.
    pub whole: Whole,
    /// The flows that were kept, in the order of their identities: the largest and those that stood still longest.
    pub flows: Vec<Flow>,
    /// Findings of the diagnosis, most severe first.
    pub findings: Vec<Finding>,
    /// Packets of the flows that were asked for, in the order in which they were read.
    pub packets: Vec<PacketRow>,
    /// Packets of them beyond those that are kept.
    pub packets_not_kept: u64,
}

/// Results that concern no single flow.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Whole {
    /// Files, in the order in which they were given.
    pub files: Vec<FileSummary>,
    /// Capture points: each is one place of a path.
    pub points: Vec<Point>,
    /// Flows of all points, kept or not.
    pub flows: u64,
    /// Connections of these flows: each once, however many points saw it.
    pub connections: u64,
    /// Flows that are counted in [`Whole::totals`] only.
    pub flows_not_kept: u64,
    /// Sums over all flows.
    pub totals: Totals,
    /// Summaries of the kept flows.
    pub briefs: Vec<Brief>,
    /// Pairs of points that saw the same packets.
    pub crossings: Vec<Crossing>,
    /// Arrivals per receiver over time, for the first few hundred receivers.
    pub arrivals: Vec<Arrivals>,
}

/// Bytes that passed a point towards one receiver, over time.
#[derive(Clone, Debug, Serialize)]
pub struct Arrivals {
    /// Index of the point.
    pub point: usize,
    /// Address of the receiver.
    pub to: IpAddr,
    /// Begin of the first bin, ns.
    pub begin_ns: u64,
    /// Width of a bin, ns: 1 ms, doubled as often as there were too many.
    pub bin_ns: u64,
    /// Payload in each bin, bytes.
    pub bytes: Vec<u64>,
}

/// A file of packets.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FileSummary {
    /// Name as given; `-` is standard input.
    pub name: String,
    /// Packets that were read.
    pub packets: u64,
    /// Packets of TCP, which the analysis is made from.
    pub tcp_packets: u64,
    /// Time of the first packet, ns; nothing without packets.
    pub begin_ns: Option<u64>,
    /// The latest time of a packet, ns.
    pub end_ns: Option<u64>,
    /// Packets that could not be read, by reason.
    pub unread: Unread,
    /// TCP packets inside of tunnels, mirrors and labels, by their names: the inner packets are what the analysis is made from.
    pub inside: BTreeMap<String, u64>,
}

/// Packets that could not be used, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// Packets of an unknown link layer.
    pub unknown_link: u64,
    /// Not IP, such as ARP.
    pub not_ip: u64,
    /// IP, but neither TCP nor whole enough to be it: other protocols, later fragments, headers that are cut or broken.
    pub not_tcp: u64,
    /// TCP whose options are cut or broken: used without the missing ones.
    pub cut_options: u64,
    /// Packets whose time is before that of one in front of them by more than a second.
    pub back_in_time: u64,
    /// Times that an interface's clock was set back by more than 100 ms: times of packets behind it are as if it had gone on.
    pub clock_set_back: u64,
    /// Why the file could not be read to its end, in one sentence.
    pub broken: Option<String>,
}

/// A place of a path at which packets were captured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Point {
    /// Index of its file in [`Whole::files`].
    pub file: usize,
    /// Interfaces of the file that are this point: those that saw the two directions of the same flows.
    pub interfaces: Vec<u32>,
    /// File, interface, and what its packets were wrapped in, in a few words.
    pub name: String,
}

/// Sums over the rows of `flows.csv`, both directions of each. What the capture has twice counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Whether each connection counts once, by its best view ([`Flow::is_primary`]). Where some flows are not kept their best views are not
    /// known, and all views count.
    pub is_of_connections: bool,
    /// The larger direction of each flow: [`Direction::bytes`], bytes: the sum of the rows of the table.
    pub bytes: u64,
    /// The other direction of each flow, bytes.
    pub bytes_back: u64,
    /// Segments with payload.
    pub segments: u64,
    pub retransmitted: Retransmitted,
    /// Segments that came late.
    pub out_of_order: u64,
    /// Segments with data marked CE.
    pub ce: u64,
    /// The same, or packets that receivers counted as marked (AccECN) if these are more.
    pub marked: u64,
    /// Stalls that a retransmission timeout ended, ns.
    pub rto_stall_ns: u64,
}

/// A flow in one line, for what compares flows.
#[derive(Clone, Debug, Serialize)]
pub struct Brief {
    /// Number of the flow ([`Flow::id`]).
    pub id: u32,
    /// Number of its connection ([`Flow::connection`]).
    pub connection: u32,
    /// Capture point ([`Flow::point`]).
    pub point: usize,
    /// Whether it is the best view of its connection ([`Flow::is_primary`]).
    pub is_primary: bool,
    /// Sender of most of the bytes, and receiver.
    pub from: SocketAddr,
    /// Address and port of the receiver.
    pub to: SocketAddr,
    pub begin_ns: u64,
    pub end_ns: u64,
    /// Bytes that were acknowledged in the larger direction.
    pub bytes: u64,
    pub goodput_bps: Option<f64>,
    /// Retransmission timeouts of the larger direction.
    pub rtos: u64,
    /// Smallest RTT of the larger direction, ns.
    pub min_rtt_ns: Option<u64>,
    /// Time to live of the larger direction's first packet.
    pub ttl: u8,
}

/// Two points that saw the same packets.
#[derive(Clone, Debug, Serialize)]
pub struct Crossing {
    /// Index of the one that is nearer to [`Flow::a`] of most flows.
    pub from: usize,
    /// Index of the other.
    pub to: usize,
    /// Packets that both saw, towards `to` and back.
    pub matched: [u64; 2],
    /// By how much the clock of `to` is ahead of that of `from` in the middle, ns; 0 if it is the same clock. It is half of the
    /// difference of the smallest delays of both directions: as true as these delays are equal.
    pub offset_ns: i64,
    /// How wrong the offset may be if the smallest delays differ, ns: half of their sum. Nothing where one direction is missing.
    pub offset_uncertainty_ns: Option<u64>,
    /// Whether both have one clock, since they are in one file.
    pub is_one_clock: bool,
    /// How fast the difference of the clocks grows, parts per million; nothing where there is too little to say.
    pub drift_ppm: Option<f64>,
    /// One-way delays towards `to` and back, offset and drift taken out.
    pub delay: [Option<Delay>; 2],
    /// Packets of both directions that the first point they pass saw and the second did not, while both captured.
    pub lost: [u64; 2],
    /// Packets that could not be looked for at the other point: larger than the MSS, so cut or merged between them.
    pub not_comparable: u64,
}

/// One-way delays between two points, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Delay {
    pub min_ns: u64,
    pub mean_ns: u64,
    pub max_ns: u64,
}

/// A connection as one capture point saw it.
#[derive(Clone, Debug, Serialize)]
pub struct Flow {
    /// Counted from 1 in the order of first packets: the same in every reading of the same files.
    pub id: u32,
    /// Number of the connection, shared by the views of all points: that of the first view.
    pub connection: u32,
    /// Whether of the views of its connection it is the best one for the data: the nearest to the sender of most of it.
    pub is_primary: bool,
    /// Index of the point in [`Whole::points`].
    pub point: usize,
    /// The end that connected, or that sent first if the handshake was not seen.
    pub a: SocketAddr,
    /// The other end.
    pub b: SocketAddr,
    /// Options and RTTs of the handshake.
    pub handshake: Handshake,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub first_number: u64,
    pub last_number: u64,
    /// Packets of both directions, pure ACKs included.
    pub packets: u64,
    pub ended: Ended,
    /// Where the capture point is.
    pub location: Location,
    /// Data of `a`, and the answers of `b`.
    pub a_to_b: Direction,
    /// Data of `b`, and the answers of `a`.
    pub b_to_a: Direction,
}

/// How a flow ended in the capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// Both ends sent a FIN.
    Closed,
    Reset,
    /// Idle for so long that it left the table.
    Idle,
    /// The table was full, and this connection idle longest.
    TableFull,
    /// A new connection reused its ports.
    Reused,
    /// The capture ended before.
    #[default]
    Open,
}

/// Negotiation and timing of SYN and SYN-ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Handshake {
    /// The SYN's packet number, if it was seen.
    pub syn: Option<u64>,
    /// The SYN-ACK's packet number, if it was seen.
    pub syn_ack: Option<u64>,
    /// SYNs and SYN-ACKs that were retransmitted.
    pub repeats: u32,
    /// Whether window scaling was agreed on; nothing if a SYN or SYN-ACK was not seen.
    pub has_window_scale: Option<bool>,
    /// Whether SACK was agreed on.
    pub has_sack: Option<bool>,
    /// Whether timestamps were agreed on; without a handshake, whether packets have them.
    pub has_timestamps: Option<bool>,
    /// Whether ECN was agreed on, and which.
    pub ecn: EcnAgreed,
    /// Whether the SYN itself was ECN-capable, which only some data-center stacks do.
    pub is_syn_ect: Option<bool>,
    /// Whether the SYN-ACK was ECN-capable.
    pub is_syn_ack_ect: Option<bool>,
    /// Time from the SYN to the SYN-ACK, ns: the RTT from the point to `b` and back.
    pub rtt_to_b_ns: Option<u64>,
    /// Time from the SYN-ACK to its ACK, ns: the RTT from the point to `a` and back.
    pub rtt_to_a_ns: Option<u64>,
}

/// Result of the ECN negotiation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EcnAgreed {
    /// SYN or SYN-ACK was not seen.
    #[default]
    Unknown,
    NotAsked,
    /// Asked for, and refused by the SYN-ACK.
    Refused,
    /// ECN of RFC 3168; DCTCP looks the same here.
    Classic,
    /// AccECN (RFC 9768).
    Accurate,
}

/// Where the capture point is on the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Location {
    /// Position in one word.
    pub place: PointPosition,
    /// Smallest time from the point to `a` and back, ns.
    pub rtt_to_a_ns: Option<u64>,
    /// Smallest time from the point to `b` and back, ns.
    pub rtt_to_b_ns: Option<u64>,
    /// Source of these times.
    pub evidence: LocationEvidence,
}

/// Position of a capture point on the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PointPosition {
    #[default]
    Unknown,
    /// At `a`, or at the first switch behind it.
    NearA,
    /// At `b`, or at the last switch before it.
    NearB,
    /// Far from both.
    Between,
}

/// Evidence for a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LocationEvidence {
    #[default]
    None,
    /// The halves of the handshake.
    Handshake,
    /// Smallest times from data to its ACK, and from an ACK to the data that it lets go.
    DataAndAcks,
}

/// Data of one end, and the answers of the other.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Direction {
    /// The sender's MSS option: the largest segment that it takes, bytes.
    pub mss_option: Option<u16>,
    /// The sender's window scale option.
    pub window_scale: Option<u8>,
    /// Largest payload of a segment that went over a wire, bytes: a packet that is longer counts as several segments.
    pub mss: Option<u32>,
    /// IP time to live of its first packet.
    pub ttl: u8,
    /// Captured payload including retransmissions, bytes.
    pub bytes_sent: u64,
    /// Payload that was acknowledged, bytes; where no ACK was seen, what was captured once.
    pub bytes: u64,
    /// Payload that was acknowledged and is not in the capture: the capture missed packets, bytes.
    pub bytes_not_captured: u64,
    /// First byte of data to the last ACK of data, ns; at least one round trip of the whole path, as far as that is known.
    pub duration_ns: u64,
    /// `bytes` over `duration_ns`, bits per second; nothing where the duration is 0 or no ACK of data was seen.
    pub goodput_bps: Option<f64>,
    /// Packets of this sender, pure ACKs included.
    pub packets: u64,
    /// Time of this sender's last packet.
    pub last_packet_ns: Option<u64>,
    /// Packets with payload. One that the host hands over to be cut later is one packet here.
    pub data_packets: u64,
    /// Segments with payload, larger packets counted as the segments that they become.
    pub segments: u64,
    /// Packets larger than the MSS, which a host's capture shows before they are cut or after they were merged.
    pub super_packets: u64,
    pub retransmitted: Retransmitted,
    /// Tail loss probes with new data: sent after a silence, and their ACK reports an earlier loss. Probes without a loss look like
    /// other data.
    pub new_data_probes: u64,
    /// Segments that came after later ones, but were not retransmitted.
    pub out_of_order: u64,
    /// Largest delay of an out-of-order segment, ns.
    pub out_of_order_longest_ns: u64,
    /// Segments that the receiver said were missing, and that came later without a retransmission: reordered behind the point.
    pub reordered_behind: u64,
    /// Largest time until such a gap closed, ns.
    pub reordered_behind_longest_ns: u64,
    /// Bytes that were missing here when later ones came and were retransmitted: lost before the point, segments.
    pub lost_before_point: u64,
    /// Packets that were captured again: the same header fields at the same time. They count nowhere else.
    pub duplicates_captured: u64,
    /// Duplicates that the receiver reported (DSACK) without a retransmission seen here, times.
    pub duplicates_by_network: u64,
    /// Stalls that a retransmission timeout ended, ns in all.
    pub rto_stall_ns: u64,
    pub longest_rto_stall_ns: u64,
    /// Times that the receiver closed its window.
    pub zero_windows: u64,
    pub zero_window_ns: u64,
    /// Smallest window that the receiver gave after the first data, bytes.
    pub smallest_window_bytes: Option<u64>,
    /// ACKs that the receiver sent, those with data of its own too.
    pub acks: u64,
    /// ACKs that say again what was said before, while data was in flight.
    pub duplicate_acks: u64,
    pub ecn: EcnCounts,
    /// How the receiver echoes marks.
    pub receiver: Receiver,
    /// What was sent before the first ACK of data could have come, bytes: the initial window, or less if there was not more to
    /// send.
    pub initial_window_bytes: Option<u64>,
    /// Whether the application had more to send then.
    pub is_initial_window_full: bool,
    /// The most that was in flight at once, bytes.
    pub max_inflight_bytes: u64,
    /// The largest segment that was acknowledged, payload in bytes.
    #[serde(skip)]
    pub largest_acked_bytes: u32,
    /// The highest rate at which two segments followed each other, bits per second: near that of the link before the point.
    pub link_rate_bps: Option<f64>,
    /// RTTs by sequence numbers: from a segment that was sent once to its ACK, ns. At a point that is not at the sender it is
    /// the part of the path behind the point.
    pub rtt: Histogram,
    /// RTTs by timestamps: from the first packet with a value to its echo, ns. No finer than the sender's clock ticks.
    pub rtt_by_timestamps: Histogram,
    /// RTTs of `rtt` whose ACK told of marks (ECE), ns.
    pub rtt_marked: Histogram,
    /// Exact RTTs of senders with marks, ns: those whose ACK reports no mark, and those whose ACK does. Thinned out evenly to a
    /// bounded number.
    #[serde(skip)]
    pub exact_rtts: [Vec<u64>; 2],
    /// Rates at which ACKs came: what each acknowledged over the time since the one before it, while data was in flight
    /// throughout, bits per second.
    pub ack_rate_bps: Histogram,
    /// Rates at which segments of full size came: their payload over the time since the packet before them, bits per second.
    pub data_rate_bps: Histogram,
    /// Bursts: packets that followed each other without a gap, in segments.
    pub bursts: Histogram,
    /// Segments that one ACK acknowledged.
    pub ack_segments: Histogram,
    /// Estimated congestion control of the sender.
    pub family: FamilyGuess,
    /// Round trips. Where there are more than are kept, neighbours are merged: each has its [`Round::round_trips`].
    pub rounds: Vec<Round>,
    /// Events in the order of time, as far as they are kept.
    pub events: Vec<Event>,
    /// Events beyond those.
    pub events_not_kept: u64,
    /// Data sent over time, retransmissions included; the diagnosis measures bursts by it.
    #[serde(skip)]
    pub sending: Vec<Span>,
    /// Lost data, by the time when it was sent.
    #[serde(skip)]
    pub losses: Vec<Span>,
}

/// Data that was sent within a short time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub begin_ns: u64,
    pub end_ns: u64,
    /// Payload in bytes.
    pub bytes: u64,
    pub segments: u64,
}

/// Retransmissions, in segments but for the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Retransmitted {
    /// Retransmitted segments: the sum of the kinds below, without `spurious`.
    pub segments: u64,
    /// Retransmitted payload, bytes.
    pub bytes: u64,
    /// After duplicate ACKs or SACKs.
    pub fast: u64,
    /// First after a retransmission timeout: the number of timeouts.
    pub rto: u64,
    /// Retransmitted after a timeout, until all data in flight then is acknowledged.
    pub after_rto: u64,
    /// Tail loss probes that repeat data. Those with new data are [`Direction::new_data_probes`].
    pub tlp: u64,
    /// Retransmitted for an unknown reason.
    pub unclear: u64,
    /// Spurious ones among all of these: the original had arrived (RFC 3522).
    pub spurious: u64,
}

/// ECN of one direction's data and of the ACKs of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EcnCounts {
    /// Segments with data that are not ECN-capable.
    pub not_ect: u64,
    /// Packets with ECT(0).
    pub ect0: u64,
    /// Packets with ECT(1).
    pub ect1: u64,
    /// Marked, as far as marks are made before the point.
    pub ce: u64,
    /// Packets without data (ACKs, SYN, FIN) that are ECN-capable or marked.
    pub ect_without_data: u64,
    /// Segments that were retransmitted and are ECN-capable.
    pub ect_retransmitted: u64,
    /// Packets by which the sender said that it has reduced cwnd.
    pub cwr: u64,
    /// ACKs of the receiver that tell of a mark.
    pub ece: u64,
    /// Bytes that those acknowledged or reported by SACK first.
    pub ece_bytes: u64,
    /// Bytes that all ACKs acknowledged, after the handshake.
    pub acked_bytes: u64,
    /// Packets that the receiver counted as marked, of AccECN's counter of 3 bits, and of its option where there is one: less than the
    /// truth if the counter wrapped unseen.
    pub ace: u64,
}

/// How a receiver echoes marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Receiver {
    /// Position in one word.
    pub kind: ReceiverKind,
    /// Runs of ACKs with ECE that ended although the sender had not sent CWR since they began: only DCTCP does so.
    pub ended_without_cwr: u64,
    /// Runs that ended with the ACK of a CWR.
    pub ended_by_cwr: u64,
    /// Runs that went on for three RTTs and more without a CWR, as they do where ECE is latched.
    pub held_without_cwr: u64,
    /// ACKs with ECE of which no data was marked; only where marks are seen.
    pub ece_of_unmarked: u64,
    /// ACKs whose ECE is that of the data that they acknowledge; only where marks are seen.
    pub ece_as_marked: u64,
    /// ACKs in the longest run with ECE.
    pub longest_run_acks: u64,
    /// Duration of the longest run, ns.
    pub longest_run_ns: u64,
}

/// Kind of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReceiverKind {
    /// Too little seen.
    #[default]
    Unknown,
    /// ECE says what the data's marks were (RFC 8257).
    Dctcp,
    /// ECE from a mark to the next CWR (RFC 3168).
    Classic,
    /// Counters (RFC 9768).
    Accurate,
}

/// A guess at the sender's congestion control.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FamilyGuess {
    /// The likeliest family.
    pub family: Family,
    /// How sure, from 0 to 1; 0 for an unknown one.
    pub confidence: f64,
    /// Evidence, in sentences.
    pub evidence: Vec<String>,
}

/// Families of congestion controls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// The evidence does not allow a guess.
    #[default]
    Unknown,
    /// Linear growth, half at a loss.
    Reno,
    /// Cubic growth, 0.7 at a loss.
    Cubic,
    /// Binary search, 0.8 at a loss.
    Bic,
    /// Cuts by the share of marks.
    Dctcp,
    /// The same with ECT(1) (L4S, RFC 9330).
    Prague,
    /// Paced, with probes of bandwidth and of RTT.
    Bbr,
}

/// One round trip: from a segment's sending to its ACK; or several that were merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Round {
    pub begin_ns: u64,
    pub duration_ns: u64,
    /// Round trips that were merged into this: 1 unless there were too many.
    pub round_trips: u32,
    /// First packet of data in it.
    pub first_number: u64,
    /// Last packet of data in it.
    pub last_number: u64,
    /// Time before it during which nothing was in flight, ns.
    pub idle_ns: u64,
    /// Whether the other end sent data meanwhile: a request, or the response to one.
    pub was_idle_answered: bool,
    /// Payload that was sent, bytes.
    pub bytes: u64,
    pub acked_bytes: u64,
    /// Payload that ACKs with ECE acknowledged or reported by SACK first, bytes.
    pub ece_bytes: u64,
    /// Segments with payload.
    pub segments: u32,
    pub ce_segments: u32,
    /// Segments that were ECN-capable or marked.
    pub ect_segments: u32,
    /// Times that data changed between marked and not.
    pub ce_changes: u32,
    pub ece_acks: u32,
    /// Times that ACKs changed between ECE and none.
    pub ece_changes: u32,
    /// The most in flight, bytes: sent, and neither acknowledged nor selectively so.
    pub inflight_bytes: u64,
    /// Smallest window of the receiver, bytes.
    pub window_bytes: Option<u64>,
    /// Least room that what was sent left in the receiver's window, bytes.
    pub room_bytes: Option<u64>,
    /// `acked_bytes` over `duration_ns`, bits per second.
    pub rate_bps: f64,
    /// Smallest RTT by sequence numbers, ns.
    pub rtt_min_ns: Option<u64>,
    /// Mean RTT by sequence numbers, ns.
    pub rtt_mean_ns: Option<u64>,
    /// Largest RTT by sequence numbers, ns.
    pub rtt_max_ns: Option<u64>,
    /// Largest RTT of ACKs that a receiver does not hold back, ns: not of late duplicates, which Linux gathers, nor of a gap that is filled.
    pub rtt_max_unheld_ns: Option<u64>,
    pub rtt_by_timestamps_min_ns: Option<u64>,
    pub rtt_by_timestamps_mean_ns: Option<u64>,
    pub retransmitted: u32,
    pub rtos: u32,
    /// Segments that came late.
    pub out_of_order: u32,
    /// ACKs that acknowledged something new.
    pub acks: u32,
    /// Segments per such ACK.
    pub ack_ratio: Option<f64>,
    /// Most segments that one ACK acknowledged.
    pub largest_ack_segments: u32,
    /// Largest burst, packets that followed each other without a gap, in segments.
    pub largest_burst_segments: u32,
    /// First packet of the largest burst.
    pub largest_burst_number: u64,
    /// Duration of the largest burst, ns.
    pub largest_burst_ns: u64,
    /// The longest time that the ACK of all data in flight took beyond the smallest RTT, while that was two segments or less, ns:
    /// no queue of its own explains it.
    pub ack_delay_ns: Option<u64>,
}

impl Round {
    /// Fraction of marked data: by ECE if it is seen, else by CE; nothing without data.
    pub fn marked_fraction(&self) -> Option<f64> {
        let ratio = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        // What was reported by SACK in one round trip may be acknowledged in the next.
        match ratio(self.ece_bytes.min(self.acked_bytes), self.acked_bytes) {
            Some(fraction) if fraction > 0.0 => Some(fraction),
            ece => ratio(self.ce_segments.into(), self.segments.into()).or(ece),
        }
    }
}

/// Something that happened to a direction's data, with the packets that show it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Event {
    pub kind: EventKind,
    /// When it was seen, ns.
    pub at_ns: u64,
    /// The packet that shows it.
    pub number: u64,
    /// The packet before it that matters: the original of a retransmission, the last one before a stall, the mark of an ECE.
    pub earlier: Option<u64>,
    /// First byte that it is about.
    pub seq: u64,
    /// Bytes that it is about.
    pub bytes: u64,
    /// How long it lasted, ns: of a stall or a closed window its length, of a retransmission the time since the original.
    pub lasted_ns: u64,
    /// On its way just before, bytes.
    pub inflight_bytes: u64,
    /// Duplicate ACKs since the last new one.
    pub duplicate_acks: u32,
    /// Whether nothing newer had been sent.
    pub is_tail: bool,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A retransmission after duplicate ACKs or SACKs.
    FastRetransmission,
    /// A retransmission timeout: `lasted_ns` is the silence before.
    Rto,
    /// A segment retransmitted behind a timeout.
    RetransmissionAfterRto,
    /// A tail loss probe that repeats data.
    TailLossProbe,
    /// A tail loss probe with new data, whose ACK told of a loss before it; `lasted_ns` is the silence before.
    NewDataProbe,
    /// A retransmission for no reason that can be seen.
    UnclearRetransmission,
    /// Proof that a retransmission was spurious: `number` is the ACK, `earlier` the retransmission; both are the retransmission where
    /// the ACK had passed before. `lasted_ns` is the time from the original to its own ACK, and 0 where only the retransmission was
    /// answered.
    Spurious,
    /// A segment that came late: `earlier` is the later one that came before it.
    OutOfOrder,
    /// A gap that the receiver reported closed without a retransmission: the segment came late behind the point. `number` is the ACK,
    /// `earlier` the segment, `lasted_ns` the time since the gap was reported.
    ReorderedBehind,
    /// The receiver closed its window; `lasted_ns` until it opened.
    ZeroWindow,
    /// The first ACK with ECE of a run.
    EceBegins,
    /// The first without after it; `earlier` is the first with; `lasted_ns` the run's length.
    EceEnds,
    /// A segment with CWR.
    Cwr,
    /// A timeout for data at the tail: behind the lost segments came nothing by which the receiver could have told. `number` is the
    /// retransmission, `earlier` the original.
    TailLoss,
    /// The ACK of the last data in flight took long; `lasted_ns` beyond the smallest RTT.
    DelayedAck,
    /// Data again after nothing had been in flight for longer than a timeout.
    AfterIdle,
    /// An ACK told of a gap of the capture: data acknowledged that is not in it.
    NotCaptured,
}

impl EventKind {
    /// How many kinds there are.
    pub const COUNT: usize = EventKind::NotCaptured as usize + 1;
}

/// A packet of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PacketRow {
    pub flow: u32,
    /// Place in its file.
    pub number: u64,
    pub at_ns: u64,
    pub is_from_a: bool,
    /// First byte, as a sequence number from 0 at the SYN.
    pub seq: u64,
    /// Payload in bytes.
    pub len: u32,
    /// Acknowledgement number, counted like `seq` of the other direction; nothing without the flag.
    pub ack: Option<u64>,
    /// TCP flags as letters: S, F, R, P, A, U, E (ECE), C (CWR), N (AE).
    pub flags: String,
    /// ECN field: `not-ect`, `ect0`, `ect1`, `ce`.
    pub ecn: &'static str,
    /// Window that it gives, bytes.
    pub window_bytes: u64,
    /// SACK ranges, counted like `ack`.
    pub sacks: Vec<(u64, u64)>,
    /// On its way with this packet, bytes; nothing without data.
    pub inflight_bytes: Option<u64>,
    /// Until it was acknowledged, ns; nothing if it was not, or was retransmitted.
    pub rtt_ns: Option<u64>,
    /// Number of the packet that acknowledged it, first by SACK or in order.
    pub acked_by: Option<u64>,
    /// Number of the packet that it repeats.
    pub repeats: Option<u64>,
    /// Why it was retransmitted.
    pub why: Option<EventKind>,
    /// Number of a later packet that repeats it.
    pub repeated_by: Option<u64>,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Name of the kind, as in `docs/pcap-diagnosis.md`: `tail-loss`.
    pub kind: &'static str,
    /// The flows that it was found in, the clearest first.
    pub flows: Vec<u32>,
    /// One sentence with figures.
    pub summary: String,
    /// The packets that show it.
    pub evidence: Vec<Evidence>,
    /// Usual cause, in one sentence.
    pub usually_means: &'static str,
    /// Remedy to try, in one sentence.
    pub try_this: &'static str,
    /// How much it costs.
    pub severity: Severity,
    /// How sure, from 0 to 1.
    pub confidence: f64,
}

/// A packet and what it shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// Flow of the packet.
    pub flow: u32,
    /// Place in its file.
    pub number: u64,
    /// Observation at this packet.
    pub says: String,
}

/// How much a finding costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Good to know.
    Note,
    /// It costs time or throughput.
    Costs,
    /// It costs much: stalls, a share of the throughput.
    Severe,
}
