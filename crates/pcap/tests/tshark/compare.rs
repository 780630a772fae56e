//! Both analyses of one capture, packet by packet.

use std::collections::BTreeMap;
use std::path::Path;

use knee_pcap::{Analysis, Direction, EventKind, Flow, Input, Options, PacketRow, analyse};

use crate::kinds::Kind;
use crate::program::Told;
use crate::record::{Cause, Truth};

/// What was found: of each kind, how often and where first. What has no kind is put into words.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) kinds: BTreeMap<Kind, (u64, String)>,
    pub(crate) unknown: Vec<String>,
    /// Comparisons in which both said the same, by what was compared.
    pub(crate) agreed: BTreeMap<&'static str, u64>,
}

impl Found {
    /// One disagreement.
    fn kind(&mut self, kind: Kind, at: String) {
        self.kinds.entry(kind).or_insert((0, at)).0 += 1;
    }

    /// One comparison in which nothing differs, or that has no kind.
    fn same(&mut self, what: &'static str, is_same: bool, at: impl FnOnce() -> String) {
        match is_same {
            true => *self.agreed.entry(what).or_default() += 1,
            false => self.unknown.push(format!("{what}: {}", at())),
        }
    }
}

/// A capture, analysed by both.
pub(crate) struct Both<'a> {
    pub(crate) name: &'a str,
    pub(crate) analysis: Analysis,
    pub(crate) told: Vec<Told>,
    pub(crate) truth: &'a [Truth],
    pub(crate) found: &'a mut Found,
}

/// knee's analysis of a file, with all its packets.
pub(crate) fn by_knee(file: &Path) -> Analysis {
    let options = Options { flows: (1..1000).collect(), ..Options::default() };
    analyse(vec![Input::File(file.to_owned())], &options, &mut |_| ()).unwrap()
}

/// What knee says of a packet with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knee {
    New,
    Fast,
    Timeout,
    Behind,
    Probe,
    Unclear,
    Late,
}

/// What tshark does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tshark {
    New,
    Fast,
    Plain,
    Spurious,
    Late,
    KeepAlive,
}

fn of_knee(row: &PacketRow) -> Knee {
    match row.why {
        None => Knee::New,
        Some(EventKind::FastRetransmission) => Knee::Fast,
        Some(EventKind::Rto) => Knee::Timeout,
        Some(EventKind::RetransmissionAfterRto) => Knee::Behind,
        Some(EventKind::TailLossProbe) => Knee::Probe,
        Some(EventKind::OutOfOrder) => Knee::Late,
        Some(_) => Knee::Unclear,
    }
}

fn of_tshark(told: &Told) -> Tshark {
    let has = |field| told.has(field);
    if has("tcp.analysis.keep_alive") {
        Tshark::KeepAlive
    } else if has("tcp.analysis.spurious_retransmission") {
        Tshark::Spurious
    } else if has("tcp.analysis.fast_retransmission") {
        Tshark::Fast
    } else if has("tcp.analysis.retransmission") {
        Tshark::Plain
    } else if has("tcp.analysis.out_of_order") {
        Tshark::Late
    } else {
        Tshark::New
    }
}

/// What a direction's data and the ACKs of it come to, counted in the plainest way.
#[derive(Default)]
struct Tally {
    next: u64,
    una: u64,
    /// What was sent here and is neither acknowledged nor anything else.
    seen: Ranges,
    sacked: Ranges,
    /// Ranges of the last ACK, and whether one of them is a DSACK.
    last_sacks: Vec<(u64, u64)>,
    last_has_dsack: bool,
    /// Whether something came again behind its ACK, and no new ACK since.
    has_needless: bool,
    /// Whether an ACK was of what had not passed.
    has_missed: bool,
    window: Option<u64>,
    is_closed: bool,
}

/// Bytes, as ranges that do not touch.
#[derive(Clone, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn add(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        let touched: Vec<u64> =
            self.0.range(..=end).filter(|(_, to)| **to >= start).map(|(from, _)| *from).collect();
        for from in touched {
            let to = self.0.remove(&from).unwrap();
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
    }

    fn remove_below(&mut self, byte: u64) {
        while let Some((&from, &to)) = self.0.first_key_value().filter(|(from, _)| **from < byte) {
            self.0.remove(&from);
            if to > byte {
                self.0.insert(byte, to);
            }
        }
    }

    fn bytes(&self) -> u64 {
        self.0.iter().map(|(from, to)| to - from).sum()
    }
}

impl Both<'_> {
    /// Everything that can be compared.
    pub(crate) fn compare(&mut self) {
        self.fields();
        let rows = std::mem::take(&mut self.analysis.packets);
        let told = std::mem::take(&mut self.told);
        let flows = std::mem::take(&mut self.analysis.flows);
        for flow in &flows {
            let of: Vec<(&PacketRow, &Told)> =
                rows.iter().zip(&told).filter(|(row, _)| row.flow == flow.id).collect();
            self.packets(flow, &of);
            if !self.truth[0].is_two_points {
                self.handshake(flow, &of);
                self.rtts(flow, &of);
            }
        }
    }

    fn at(&self, number: u64) -> String {
        format!("{} {number}", self.name)
    }

    fn truth(&self, row: &PacketRow) -> Truth {
        self.truth[row.number as usize - 1]
    }

    /// Whether a packet repeats what the other host had not got, and it got it.
    fn has_repaired(&self, row: &PacketRow) -> bool {
        let truth = self.truth(row);
        truth.has_brought && truth.cause != Cause::New
    }

    /// What stands in the packets.
    fn fields(&mut self) {
        let rows = std::mem::take(&mut self.analysis.packets);
        assert_eq!(rows.len(), self.told.len(), "{}", self.name);
        assert_eq!(rows.len(), self.truth.len(), "{}", self.name);
        let mut streams: BTreeMap<u32, u64> = BTreeMap::new();
        for (row, told) in rows.iter().zip(&self.told) {
            let stream = told.number("tcp.stream").unwrap();
            let known = *streams.entry(row.flow).or_insert(stream);
            let flow = self.analysis.flows.iter().find(|flow| flow.id == row.flow).unwrap();
            let by_ports = (flow.a.port(), flow.b.port());
            let ports = match row.is_from_a {
                true => by_ports,
                false => (by_ports.1, by_ports.0),
            };
            let number = |field| told.number(field);
            let ecn = match number("ip.dsfield.ecn").or(number("ipv6.tclass.ecn")) {
                Some(0) => "not-ect",
                Some(1) => "ect1",
                Some(2) => "ect0",
                _ => "ce",
            };
            let has_ack = told.number("tcp.flags").unwrap() & 0x10 != 0;
            let ours = (
                Some(row.number),
                known,
                (u64::from(ports.0), u64::from(ports.1)),
                u64::from(row.len),
                row.seq,
                row.ack,
                row.ecn,
                row.flags.clone(),
            );
            let theirs = (
                number("frame.number"),
                stream,
                (number("tcp.srcport").unwrap(), number("tcp.dstport").unwrap()),
                number("tcp.len").unwrap(),
                number("tcp.seq").unwrap(),
                has_ack.then(|| number("tcp.ack").unwrap()),
                ecn,
                letters(number("tcp.flags").unwrap()),
            );
            let at = || format!("{} {ours:?} {theirs:?}", self.name);
            self.found.same("fields", ours == theirs, at);
            // Where no handshake was seen, tshark takes a window as if it were not scaled.
            if flow.handshake.has_window_scale.is_some() {
                let windows = (Some(row.window_bytes), number("tcp.window_size"));
                let at = || format!("{} {} {windows:?}", self.name, row.number);
                self.found.same("window", windows.0 == windows.1, at);
            }
            let lists = (told.numbers("tcp.options.sack_le"), told.numbers("tcp.options.sack_re"));
            let theirs: Vec<(u64, u64)> = lists.0.into_iter().zip(lists.1).collect();
            // tshark shows a DSACK apart from the others.
            let has_dsack = told.has("tcp.options.sack.dsack_le");
            let ours = &row.sacks[usize::from(has_dsack).min(row.sacks.len())..];
            let is_same = ours == theirs || row.sacks == theirs;
            let at = || format!("{} {} {ours:?} {theirs:?}", self.name, row.number);
            self.found.same("SACKs", is_same, at);
        }
        self.analysis.packets = rows;
    }

    /// Handshakes, ends, and sums.
    fn handshake(&mut self, flow: &Flow, of: &[(&PacketRow, &Told)]) {
        let shake = &flow.handshake;
        let syn = |is_answer: bool| {
            of.iter()
                .find(|(row, _)| row.flags.contains('S') && row.flags.contains('A') == is_answer)
        };
        let (first, second) = (syn(false), syn(true));
        let number = |syn: Option<&(&PacketRow, &Told)>| syn.map(|(row, _)| row.number);
        let is_same = (shake.syn, shake.syn_ack) == (number(first), number(second));
        self.found.same("SYNs", is_same, || format!("{} flow {}", self.name, flow.id));
        for (syn, side) in [(first, &flow.a_to_b), (second, &flow.b_to_a)] {
            let Some((row, told)) = syn else { continue };
            let theirs =
                (told.number("tcp.options.mss_val"), told.number("tcp.options.wscale.shift"));
            let ours = (side.mss_option.map(u64::from), side.window_scale.map(u64::from));
            let at = self.at(row.number);
            self.found.same("options of SYNs", ours == theirs, || at);
        }
        if let (Some((_, first)), Some((_, second))) = (first, second) {
            let both = |field| Some(first.has(field) && second.has(field));
            let ours = (shake.has_sack, shake.has_timestamps, shake.has_window_scale);
            let theirs = (
                both("tcp.options.sack_perm"),
                both("tcp.options.timestamp.tsval"),
                both("tcp.options.wscale.shift"),
            );
            let at = format!("{} flow {}: {ours:?} {theirs:?}", self.name, flow.id);
            self.found.same("agreed options", ours == theirs, || at);
        }
        let ours = shake.rtt_to_a_ns.zip(shake.rtt_to_b_ns).map(|(a, b)| a + b);
        let theirs = of.iter().find_map(|(_, told)| told.ns("tcp.analysis.initial_rtt"));
        let at = format!("{} flow {}: {ours:?} {theirs:?}", self.name, flow.id);
        match ours.is_none() && shake.repeats > 0 && theirs.is_some() {
            true => self.found.kind(Kind::HandshakeRepeated, at),
            false => self.found.same("initial RTT", ours == theirs, || at),
        }
        for (is_from_a, side) in [(true, &flow.a_to_b), (false, &flow.b_to_a)] {
            let mine = || of.iter().filter(|(row, _)| row.is_from_a == is_from_a);
            let count = |wanted: &dyn Fn(&Told) -> bool| {
                mine().filter(|(_, told)| wanted(told)).count() as u64
            };
            let has_data = |told: &Told| told.number("tcp.len") != Some(0);
            let ecn =
                |told: &Told| told.number("ip.dsfield.ecn").or(told.number("ipv6.tclass.ecn"));
            let flag = |told: &Told, bit: u64| told.number("tcp.flags").unwrap() & bit != 0;
            let ours = (side.packets, side.data_packets, side.ecn.ce, side.ecn.ect0, side.ecn.cwr);
            let probes = count(&|told| told.has("tcp.analysis.keep_alive") && has_data(told))
                + count(&|told| told.has("tcp.analysis.zero_window_probe"));
            let theirs = (
                count(&|_| true),
                count(&has_data) - probes,
                count(&|told| has_data(told) && ecn(told) == Some(3)),
                count(&|told| has_data(told) && ecn(told) == Some(2)),
                count(&|told| flag(told, 0x80) && !flag(told, 0x02)),
            );
            let is_accurate = shake.ecn == knee_pcap::model::EcnAgreed::Accurate;
            let at = format!("{} flow {} {is_from_a}: {ours:?} {theirs:?}", self.name, flow.id);
            self.found.same("sums", ours == theirs || is_accurate, || at);
            let closings = closings(of.iter().filter(|(row, _)| row.is_from_a != is_from_a));
            let at = format!("{} flow {}: {} {closings}", self.name, flow.id, side.zero_windows);
            self.found.same("closed windows", side.zero_windows == closings, || at);
            self.full_windows(flow, side, is_from_a, of);
        }
    }

    /// Windows that were filled to the last byte, by round trips.
    fn full_windows(
        &mut self,
        flow: &Flow,
        side: &Direction,
        is_from_a: bool,
        of: &[(&PacketRow, &Told)],
    ) {
        for round in &side.rounds {
            let within =
                |row: &PacketRow| (round.first_number..=round.last_number).contains(&row.number);
            let mut mine = of.iter().filter(|(row, _)| row.is_from_a == is_from_a && within(row));
            let theirs = mine.any(|(_, told)| told.has("tcp.analysis.window_full"));
            let ours = round.room_bytes == Some(0);
            let at = format!(
                "{} flow {} from {}: {ours} {theirs}",
                self.name, flow.id, round.first_number
            );
            self.found.same("full windows", ours == theirs, || at);
        }
    }

    /// Packets in their order: data, ACKs, and what is on its way.
    fn packets(&mut self, flow: &Flow, of: &[(&PacketRow, &Told)]) {
        let mut tallies = [Tally::default(), Tally::default()];
        let mut duplicates = [0, 0];
        let mut last_ack = [None, None];
        for (index, (row, told)) in of.iter().enumerate() {
            let from = usize::from(!row.is_from_a);
            let side = [&flow.a_to_b, &flow.b_to_a][from];
            let is_syn = row.flags.contains('S');
            if tallies[from].next == 0 {
                let first = row.seq + u64::from(is_syn);
                (tallies[from].next, tallies[from].una) = (first, first);
            }
            if let Some(ack) = row.ack {
                let about = &mut tallies[1 - from];
                let is_duplicate = about.is_duplicate(row, ack, last_ack[from]);
                duplicates[1 - from] += u64::from(is_duplicate);
                self.duplicate(row, told, is_duplicate, about);
                let other = [&flow.b_to_a, &flow.a_to_b][from];
                self.unseen(row, told, other, about.has_missed);
                about.acked(row, ack);
                last_ack[from] = Some(ack);
            }
            let tally = &mut tallies[from];
            if row.len > 0 {
                self.data(row, told, side);
                self.gap(row, told, tally, &of[index..]);
                tally.sent(row);
                self.flight(row, told, tally);
            } else {
                self.probe(row, told, tally);
            }
        }
        for (duplicates, side) in duplicates.iter().zip([&flow.a_to_b, &flow.b_to_a]) {
            let ours = side.duplicate_acks;
            let at =
                format!("{} flow {}: {ours}, by the definition {duplicates}", self.name, flow.id);
            self.found.same("duplicate ACKs, sums", ours == *duplicates, || at);
        }
    }

    /// Why a packet with data was sent.
    fn data(&mut self, row: &PacketRow, told: &Told, side: &Direction) {
        let (knee, tshark, truth) = (of_knee(row), of_tshark(told), self.truth(row));
        let at = self.at(row.number);
        if truth.is_two_points {
            match (knee, tshark) {
                (Knee::New, Tshark::New) => self.found.same("data", true, String::new),
                (Knee::New, _) => self.found.kind(Kind::SecondPoint, at),
                _ => self.found.unknown.push(format!("{at}: {knee:?} {tshark:?} {truth:?}")),
            }
            return;
        }
        let is_again = !matches!(knee, Knee::New | Knee::Late);
        if truth.is_needless && is_again {
            let is_it = |event: &knee_pcap::Event| {
                event.kind == EventKind::Spurious && event.earlier == Some(row.number)
            };
            match (side.events.iter().any(is_it), tshark == Tshark::Spurious) {
                (true, false) => self.found.kind(Kind::NeedlessToldLater, at.clone()),
                (false, true) => self.found.unknown.push(format!("not told as needless: {at}")),
                _ => self.found.same("needlessness", true, String::new),
            }
        } else {
            let is_wrong = tshark == Tshark::Spurious;
            self.found.same("needlessness", !is_wrong, || at.clone());
        }
        let probe = told.has("tcp.analysis.zero_window_probe");
        let kind = match (knee, tshark, truth.cause) {
            (Knee::New, Tshark::New, Cause::Probing) if probe => None,
            (Knee::New, Tshark::KeepAlive, Cause::Probing) => None,
            // What had not been here before: nobody can know whether it was sent before.
            (Knee::New, Tshark::New, _) => None,
            (Knee::Late, Tshark::Late, Cause::New) if truth.is_late => None,
            (Knee::Fast, Tshark::Fast, Cause::Fast) => None,
            // Where it was not needed, tshark does not say why it was sent.
            (Knee::Fast, Tshark::Spurious, Cause::Fast) => None,
            (Knee::Timeout, Tshark::Spurious, Cause::Timeout) => None,
            (Knee::Behind, Tshark::Spurious, Cause::Behind) => None,
            (Knee::Probe, Tshark::Spurious, Cause::Probe) => None,
            (Knee::Unclear, Tshark::Spurious, cause) if cause != Cause::New => None,
            (Knee::Fast, Tshark::Late, Cause::Fast) => Some(Kind::FastAsOutOfOrder),
            (Knee::Fast, Tshark::Plain, Cause::Fast) => Some(Kind::FastAsPlain),
            (Knee::Probe, Tshark::Plain, Cause::Probe) => Some(Kind::ProbeUnnamed),
            (Knee::Timeout, Tshark::Plain, Cause::Timeout) => Some(Kind::TimeoutUnnamed),
            (Knee::Behind, Tshark::Plain, Cause::Behind) => Some(Kind::TimeoutUnnamed),
            (Knee::Behind, Tshark::Fast, Cause::Behind) => Some(Kind::BehindAsFast),
            (Knee::Timeout, Tshark::Plain | Tshark::Spurious, Cause::Behind) => {
                Some(Kind::BehindAsTimeout)
            }
            (Knee::Fast, Tshark::Plain | Tshark::Spurious, Cause::Behind | Cause::Timeout) => {
                Some(Kind::BehindAsSentFast)
            }
            (Knee::Behind, Tshark::Late, Cause::Behind) => Some(Kind::BehindAsOutOfOrder),
            (Knee::Fast, Tshark::Fast | Tshark::Late, Cause::Behind) => Some(Kind::BehindAsNeither),
            (Knee::Fast, Tshark::Fast, Cause::New) if truth.is_late => Some(Kind::LateAsNeither),
            (Knee::Late, Tshark::Fast | Tshark::Plain, Cause::New) if truth.is_late => {
                Some(Kind::LateAsRetransmission)
            }
            (Knee::Fast, Tshark::Late, Cause::New) if truth.is_late => Some(Kind::LateBeyondTheRtt),
            (Knee::New, Tshark::Plain, cause) if cause != Cause::New => Some(Kind::ToldByABareAck),
            _ => {
                self.found.unknown.push(format!("{at}: {knee:?} {tshark:?} {truth:?}"));
                return;
            }
        };
        match kind {
            Some(kind) => self.found.kind(kind, at),
            None => self.found.same("data", true, String::new),
        }
    }

    /// A packet without data that tshark takes for one that keeps the connection alive. Neither counts it as data.
    fn probe(&mut self, row: &PacketRow, told: &Told, tally: &Tally) {
        let at = self.at(row.number);
        if self.truth(row).cause != Cause::Probing {
            self.found.same("keep-alives", !told.has("tcp.analysis.keep_alive"), || at);
        } else if told.has("tcp.analysis.keep_alive") && tally.is_closed {
            self.found.kind(Kind::WindowProbeAsKeepAlive, at);
        } else {
            self.found.same("keep-alives", told.has("tcp.analysis.keep_alive"), || at);
        }
    }

    /// Data that has not come in order.
    fn gap(&mut self, row: &PacketRow, told: &Told, tally: &Tally, rest: &[(&PacketRow, &Told)]) {
        let theirs = told.has("tcp.analysis.lost_segment");
        let is_gap = row.seq > tally.next;
        let at = self.at(row.number);
        if self.truth(row).is_two_points {
            return;
        }
        if !theirs {
            self.found.same("gaps", !is_gap, || at);
            return;
        }
        let fills = |other: &&(&PacketRow, &Told)| {
            let other = other.0;
            other.is_from_a == row.is_from_a
                && other.len > 0
                && other.seq < row.seq
                && other.seq + u64::from(other.len) > tally.next
        };
        let filled = rest.iter().find(fills).map(|(other, _)| (of_knee(other), self.truth(other)));
        match filled {
            Some((Knee::Late, truth)) if is_gap && truth.is_late => {
                self.found.kind(Kind::GapWasReordering, at);
            }
            Some((Knee::Late | Knee::New, _)) => self.found.unknown.push(format!("gap: {at}")),
            Some((_, truth)) if is_gap && truth.cause != Cause::New => {
                self.found.kind(Kind::GapWasLoss, at);
            }
            None if is_gap => self.found.kind(Kind::GapNotFilled, at),
            None if tally.has_missed => self.found.kind(Kind::GapWasAcked, at),
            _ => self.found.unknown.push(format!("gap: {at}")),
        }
    }

    /// What is on its way with a packet.
    fn flight(&mut self, row: &PacketRow, told: &Told, tally: &Tally) {
        let Some(ours) = row.inflight_bytes else { return };
        if self.truth(row).is_two_points {
            return;
        }
        let theirs = told.number("tcp.analysis.bytes_in_flight");
        let by_numbers = tally.next - tally.una - tally.sacked.bytes();
        let at =
            format!("{}: {ours} {theirs:?}, by the definition {by_numbers}", self.at(row.number));
        self.found.same("bytes on their way", ours == by_numbers, || at.clone());
        let of_last: u64 = tally.last_sacks.iter().map(|(from, to)| to - from).sum();
        // It begins below a bare ACK's number, so that tshark has sent it before.
        let is_told_by_ack = (of_knee(row), of_tshark(told)) == (Knee::New, Tshark::Plain);
        let unseen = tally.next - tally.una - tally.seen.bytes();
        match theirs {
            Some(theirs) if theirs == ours => self.found.same("bytes in flight", true, || at),
            None if is_told_by_ack => self.found.kind(Kind::FlightBehindAGap, at),
            _ if unseen > 0 || tally.has_missed => self.found.kind(Kind::FlightBehindAGap, at),
            Some(theirs)
                if theirs == tally.next - tally.una - of_last.min(tally.next - tally.una) =>
            {
                let kind = match tally.last_has_dsack {
                    true => Kind::FlightWithDsack,
                    false => Kind::FlightWithoutOldSacks,
                };
                self.found.kind(kind, at);
            }
            _ if tally.has_needless => self.found.kind(Kind::FlightOfNeedless, at),
            _ => self.found.unknown.push(format!("flight: {at} unseen {unseen} last {of_last}")),
        }
    }

    /// An ACK that says again what was said before.
    fn duplicate(&mut self, row: &PacketRow, told: &Told, is_duplicate: bool, about: &Tally) {
        let theirs = told.has("tcp.analysis.duplicate_ack");
        let at = self.at(row.number);
        let truth = self.truth(row);
        if truth.is_two_points {
            match theirs {
                true => self.found.kind(Kind::SecondPoint, at),
                false => self.found.same("duplicate ACKs", true, String::new),
            }
            return;
        }
        let is_update = told.has("tcp.analysis.window_update");
        match (is_duplicate, theirs) {
            (true, false) if is_update && !row.sacks.is_empty() => {
                self.found.kind(Kind::SackAsWindowUpdate, at);
            }
            (false, true) if about.next <= about.una => match truth.is_outstanding {
                true => self.found.kind(Kind::DuplicateUnseen, at),
                false => self.found.unknown.push(format!("duplicate of nothing: {at}")),
            },
            (ours, theirs) => {
                let window = (about.window, row.window_bytes);
                let text = format!("{at}: {ours} {theirs} {window:?} {}", row.flags);
                self.found.same("duplicate ACKs", ours == theirs, || text);
            }
        }
    }

    /// ACKs of what was not captured.
    fn unseen(&mut self, row: &PacketRow, told: &Told, of: &Direction, has_missed: bool) {
        let is_it = |event: &knee_pcap::Event| {
            event.kind == EventKind::NotCaptured && event.number == row.number
        };
        let (ours, theirs) =
            (of.events.iter().any(is_it), told.has("tcp.analysis.ack_lost_segment"));
        if self.truth(row).is_two_points {
            return;
        }
        let at = format!("{}: {ours} {theirs}", self.at(row.number));
        if theirs && !ours && has_missed {
            self.found.kind(Kind::AckOfSeenAsUnseen, at);
            return;
        }
        self.found.same("ACKs of what was not captured", ours == theirs, || at);
    }

    /// RTTs, from packets to their ACKs.
    fn rtts(&mut self, flow: &Flow, of: &[(&PacketRow, &Told)]) {
        let rows: BTreeMap<u64, &PacketRow> =
            of.iter().map(|(row, _)| (row.number, *row)).collect();
        let mut measured = BTreeMap::new();
        for (row, told) in of {
            let fields = (told.number("tcp.analysis.acks_frame"), told.ns("tcp.analysis.ack_rtt"));
            let (Some(acked), Some(theirs)) = fields else { continue };
            let Some(acked) = rows.get(&acked) else {
                self.found.unknown.push(format!("RTT of another flow: {}", self.at(row.number)));
                continue;
            };
            measured.insert(acked.number, row.number);
            let at =
                format!("{} of {}: {:?} {theirs}", self.at(row.number), acked.number, acked.rtt_ns);
            if acked.flags.contains('S') {
                let shake = &flow.handshake;
                let ours = if acked.is_from_a { shake.rtt_to_b_ns } else { shake.rtt_to_a_ns };
                match ours.is_none() && shake.repeats > 0 {
                    true => self.found.kind(Kind::HandshakeRepeated, at),
                    false => self.found.same("RTTs", ours == Some(theirs), || at),
                }
                continue;
            }
            let was_repeated = acked.why.is_some() || acked.repeated_by.is_some();
            let by_sack = acked.acked_by.is_some_and(|by| by < row.number);
            match acked.rtt_ns {
                Some(ours) if ours == theirs && acked.acked_by == Some(row.number) => {
                    self.found.same("RTTs", true, || at);
                }
                None if self.truth(acked).cause == Cause::Probing => {
                    self.found.kind(Kind::RttOfProbe, at);
                }
                None if was_repeated && !self.has_repaired(acked) => {
                    self.found.kind(Kind::RttOfRepeated, at)
                }
                Some(_) if by_sack => self.found.kind(Kind::RttOfSacked, at),
                // A FIN has no RTT here.
                None if acked.len == 0 => self.found.same("RTTs", true, || at),
                _ => self.found.unknown.push(format!("RTT: {at}")),
            }
        }
        for row in rows.values().filter(|row| row.rtt_ns.is_some() && row.len > 0) {
            if measured.contains_key(&row.number) {
                continue;
            }
            let at = self.at(row.number);
            let by = row.acked_by.and_then(|by| rows.get(&by));
            let end = row.seq + u64::from(row.len);
            match by {
                Some(_) if row.rtt_ns == Some(0) => self.found.kind(Kind::RttOfZero, at),
                Some(by) if by.ack > Some(end) => self.found.kind(Kind::RttOfEachSegment, at),
                Some(by) if by.ack < Some(end) => self.found.kind(Kind::RttOfSacked, at),
                _ => self.found.unknown.push(format!("RTT of knee alone: {at} {row:?}")),
            }
        }
    }
}

impl Tally {
    /// Data as it passes.
    fn sent(&mut self, row: &PacketRow) {
        if row.inflight_bytes.is_none() {
            return;
        }
        let end = row.seq + u64::from(row.len);
        self.next = self.next.max(end);
        self.has_needless |= row.seq < self.una;
        self.seen.add(row.seq.max(self.una), end);
    }

    /// Whether an ACK is a duplicate: it brings nothing, says what the last one said while data is on its way, and its window is
    /// that of the last one (RFC 5681, section 2), or it has SACKs (RFC 6675, section 2).
    fn is_duplicate(&self, row: &PacketRow, ack: u64, last: Option<u64>) -> bool {
        let is_bare = row.len == 0 && !row.flags.contains(['S', 'F', 'R']);
        let is_open = !self.is_closed;
        let is_same_window = self.window == Some(row.window_bytes) || !row.sacks.is_empty();
        is_bare
            && last == Some(ack)
            && self.next > self.una
            && ack == self.una
            && is_same_window
            && is_open
    }

    /// An ACK as it passes.
    fn acked(&mut self, row: &PacketRow, ack: u64) {
        self.has_missed |= ack > self.next;
        self.next = self.next.max(ack);
        self.has_needless &= ack <= self.una;
        self.una = self.una.max(ack);
        self.window = Some(row.window_bytes);
        self.is_closed = row.window_bytes == 0;
        self.last_sacks.clone_from(&row.sacks);
        let is_within =
            |inner: (u64, u64), outer: (u64, u64)| outer.0 <= inner.0 && inner.1 <= outer.1;
        let has_dsack = row.sacks.first().is_some_and(|first| {
            first.1 <= ack || row.sacks.get(1).is_some_and(|second| is_within(*first, *second))
        });
        self.last_has_dsack = has_dsack;
        for (from, to) in &row.sacks {
            self.sacked.add((*from).max(self.una), (*to).min(self.next));
        }
        self.sacked.remove_below(self.una);
        self.seen.remove_below(self.una);
    }
}

/// How often a side closed its window.
fn closings<'a>(of: impl Iterator<Item = &'a (&'a PacketRow, &'a Told)>) -> u64 {
    let (mut closed, mut count) = (false, 0);
    for (row, told) in of {
        if row.flags.contains(['S', 'R']) {
            continue;
        }
        let is_zero = told.has("tcp.analysis.zero_window");
        count += u64::from(is_zero && !closed);
        closed = is_zero;
    }
    count
}

/// Flags as letters, in the order in which knee has them.
fn letters(flags: u64) -> String {
    let all =
        [(1, 'S'), (0, 'F'), (2, 'R'), (3, 'P'), (4, 'A'), (5, 'U'), (6, 'E'), (7, 'C'), (8, 'N')];
    all.iter().filter(|(bit, _)| flags >> bit & 1 == 1).map(|(_, letter)| letter).collect()
}
