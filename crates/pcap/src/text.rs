//! An analysis as text: a table of flows, the findings, and one flow in full.

use std::fmt::Write as _;

use crate::csv::kebab;
use crate::histogram::Histogram;
use crate::model::{
    Analysis, Direction, EcnAgreed, Event, EventKind, FileSummary, Finding, Flow, Handshake,
    PacketRow, PointPosition, Round,
};

/// Packets of a finding that are shown.
const SHOWN_EVIDENCE: usize = 4;
/// Events of a direction that are shown.
const SHOWN_EVENTS: usize = 40;

/// Parts of the text to print.
#[derive(Clone, Copy, Debug, Default)]
pub struct Show {
    /// Rows of the table of flows.
    pub top: usize,
    /// A flow to print in full, by its number.
    pub flow: Option<u32>,
    /// Print that flow's round trips.
    pub rounds: bool,
    /// Print that flow's packets.
    pub packets: bool,
}

/// The analysis as text.
pub fn text(analysis: &Analysis, show: Show) -> String {
    let mut out = String::new();
    for file in &analysis.whole.files {
        out += &of_file(file);
    }
    let begin_ns = analysis.whole.files.iter().filter_map(|file| file.begin_ns).min().unwrap_or(0);
    match show.flow {
        None => {
            out += "\n";
            out += &table(analysis, show.top);
            out += &crossings(analysis);
            out += &findings(&analysis.findings);
        }
        Some(id) => match analysis.flows.iter().find(|flow| flow.id == id) {
            Some(flow) => out += &in_full(flow, analysis, show, begin_ns),
            None => drop(writeln!(out, "\nThere is no flow {id} among the flows that knee kept.")),
        },
    }
    out
}

fn of_file(file: &FileSummary) -> String {
    let mut out = format!("{}: {} packets, {} of TCP", file.name, file.packets, file.tcp_packets);
    if let (Some(begin), Some(end)) = (file.begin_ns, file.end_ns) {
        let _ = write!(out, ", {}", duration(end.saturating_sub(begin)));
    }
    out.push('\n');
    let unread = &file.unread;
    let reasons = [
        (unread.unknown_link, "of an unknown link layer"),
        (unread.not_ip, "not IP (ARP and the like)"),
        (unread.not_tcp, "not TCP, or too short to tell"),
        (unread.cut_options, "with cut TCP options: capture more of each packet (tcpdump -s 128)"),
        (unread.back_in_time, "with times more than a second before earlier packets"),
    ];
    for (count, what) in reasons.iter().filter(|reason| reason.0 > 0) {
        let _ = writeln!(out, "  {count} packets {what}");
    }
    if unread.clock_set_back > 0 {
        let count = unread.clock_set_back;
        let _ = writeln!(out, "  its clock was set back {count} times: times go on from there");
    }
    for (layers, count) in &file.inside {
        let _ = writeln!(out, "  {count} packets of TCP in {layers}: knee reads the inner packets");
    }
    if let Some(broken) = &unread.broken {
        let _ = writeln!(out, "  the rest is unreadable: {broken}");
    }
    out
}

fn table(analysis: &Analysis, top: usize) -> String {
    let mut flows: Vec<&Flow> = analysis.flows.iter().filter(|flow| flow.is_primary).collect();
    flows.sort_by_key(|flow| (std::cmp::Reverse(flow.bytes()), flow.id));
    let ends = |flow: &Flow| match flow.is_mostly_from_a() {
        true => [flow.a, flow.b].map(|end| end.to_string()),
        false => [flow.b, flow.a].map(|end| end.to_string()),
    };
    let some = |count: u64| if count == 0 { "-".to_owned() } else { count.to_string() };
    let lasted = |flow: &Flow| match flow.main().duration_ns {
        0 => flow.end_ns.saturating_sub(flow.begin_ns),
        ns => ns,
    };
    let again = |flow: &Flow| flow.main().retransmitted;
    let reordered = |way: &Direction| way.out_of_order + way.reordered_behind;
    let columns: [Column<'_, &Flow>; 14] = [
        ("flow", &|flow| flow.id.to_string()),
        ("from", &|flow| ends(flow)[0].clone()),
        ("to", &|flow| ends(flow)[1].clone()),
        ("bytes", &|flow| bytes(flow.main().bytes)),
        ("duration", &|flow| duration(lasted(flow))),
        ("goodput", &|flow| flow.main().goodput_bps.map_or("-".to_owned(), rate)),
        ("RTT min", &|flow| or_dash(flow.main().rtt.min())),
        ("median", &|flow| or_dash(flow.main().rtt.quantile(0.5))),
        ("99 %", &|flow| or_dash(flow.main().rtt.quantile(0.99))),
        ("retrans", &|flow| some(again(flow).segments)),
        ("RTO", &|flow| some(again(flow).rto)),
        ("reordered", &|flow| some(reordered(flow.main()))),
        ("marked", &|flow| marked(flow.main())),
        ("sender", &|flow| family(flow.main())),
    ];
    let mut out = table_of(&columns, flows.iter().take(top), 3);
    let whole = &analysis.whole;
    if flows.len() > top {
        let _ = writeln!(out, "and {} smaller flows (--top {})", flows.len() - top, flows.len());
    }
    if whole.flows_not_kept > 0 {
        let _ = writeln!(
            out,
            "{} of {} flows are in the sums only: knee keeps the largest and those with the longest stalls",
            whole.flows_not_kept, whole.flows
        );
    }
    let totals = &whole.totals;
    let of = &totals.retransmitted;
    let points = match whole.points.len() {
        _ if totals.is_of_connections => String::new(),
        0 | 1 => String::new(),
        // A packet that was seen at two points is in the sums twice.
        several => format!(", at {several} points together"),
    };
    let _ = writeln!(
        out,
        "\nin all{points}: {}, and {} in the other direction, in {} segments; retransmitted {} (fast {}, timeouts {}, after \
         timeouts {}, probes {}, unclear {}), spurious {}; out of order {}; marked {}",
        bytes(totals.bytes),
        bytes(totals.bytes_back),
        totals.segments,
        of.segments,
        of.fast,
        of.rto,
        of.after_rto,
        of.tlp,
        of.unclear,
        of.spurious,
        totals.out_of_order,
        totals.marked
    );
    out
}

fn crossings(analysis: &Analysis) -> String {
    let mut out = String::new();
    for crossing in &analysis.whole.crossings {
        let name = |point: usize| analysis.whole.points[point].name.as_str();
        let _ = writeln!(out, "\n{} to {}:", name(crossing.from), name(crossing.to));
        for (way, label) in [(0, "there"), (1, "back")] {
            if let Some(delay) = crossing.delay[way] {
                let [min, mean, max] = [delay.min_ns, delay.mean_ns, delay.max_ns].map(duration);
                let _ = writeln!(
                    out,
                    "  {label}: {} packets, lost {}, delay {min} to {max}, mean {mean}",
                    crossing.matched[way], crossing.lost[way]
                );
            }
        }
        if let (false, Some(uncertainty)) = (crossing.is_one_clock, crossing.offset_uncertainty_ns)
        {
            let sign = if crossing.offset_ns < 0 { "behind" } else { "ahead" };
            let drift = crossing.drift_ppm.map_or(String::new(), |ppm| format!(", {ppm:+.2} ppm"));
            let _ = writeln!(
                out,
                "  the second clock is {} {sign}, give or take {}{drift}",
                duration(crossing.offset_ns.unsigned_abs()),
                duration(uncertainty)
            );
        }
        if crossing.offset_uncertainty_ns.is_none() {
            out += "  packets in one direction only: knee cannot compare the clocks\n";
        }
        if crossing.not_comparable > 0 {
            let _ = writeln!(
                out,
                "  {} packets are larger than a segment, so knee cannot compare them: capture with segmentation and merging off",
                crossing.not_comparable
            );
        }
    }
    out
}

fn findings(list: &[Finding]) -> String {
    let mut out = String::new();
    for finding in list {
        let _ = writeln!(out, "\n{}: {}", finding.kind, finding.summary);
        for evidence in finding.evidence.iter().take(SHOWN_EVIDENCE) {
            let _ = writeln!(
                out,
                "  flow {} packet {}: {}",
                evidence.flow, evidence.number, evidence.says
            );
        }
        let _ = writeln!(out, "  usually: {}", finding.usually_means);
        let _ = writeln!(out, "  try: {}", finding.try_this);
    }
    out
}

fn in_full(flow: &Flow, analysis: &Analysis, show: Show, begin_ns: u64) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "\nflow {}: {} to {}, packets {} to {}, {}, ended: {}",
        flow.id,
        flow.a,
        flow.b,
        flow.first_number,
        flow.last_number,
        duration(flow.end_ns.saturating_sub(flow.begin_ns)),
        word(&flow.ended)
    );
    let point = analysis.whole.points.get(flow.point).map_or("", |point| point.name.as_str());
    let location = &flow.location;
    let place = match location.place {
        PointPosition::Unknown => "at an unknown position on the path",
        PointPosition::NearA => "at the first end",
        PointPosition::NearB => "at the second end",
        PointPosition::Between => "between the ends",
    };
    let _ = writeln!(
        out,
        "captured at {point}, {place}: to the first end and back {}, to the second {}",
        or_dash(location.rtt_to_a_ns),
        or_dash(location.rtt_to_b_ns)
    );
    let others = analysis
        .flows
        .iter()
        .filter(|other| other.connection == flow.connection && other.id != flow.id);
    let others: Vec<String> = others.map(|other| other.id.to_string()).collect();
    if !others.is_empty() {
        let _ = writeln!(out, "the same connection at other points: flow {}", others.join(", "));
    }
    out += &handshake(&flow.handshake);
    for (name, direction) in [("first end", &flow.a_to_b), ("second end", &flow.b_to_a)] {
        if direction.data_packets > 0 || direction.bytes > 0 {
            let _ = writeln!(out, "\ndata of the {name}:");
            out += &of_direction(direction);
            if show.rounds {
                out += "\n";
                out += &rounds(&direction.rounds, begin_ns);
            }
            out += &events(direction, begin_ns);
        }
    }
    let mine: Vec<Finding> = analysis
        .findings
        .iter()
        .filter(|finding| finding.flows.contains(&flow.id))
        .cloned()
        .collect();
    out += &findings(&mine);
    if show.packets {
        out += "\n";
        out += &packets(&analysis.packets, begin_ns);
        if analysis.packets_not_kept > 0 {
            let _ = writeln!(out, "and {} more packets", analysis.packets_not_kept);
        }
    }
    out
}

fn handshake(of: &Handshake) -> String {
    let word = |is: Option<bool>| is.map_or("not seen", |is| if is { "yes" } else { "no" });
    let ecn = match of.ecn {
        EcnAgreed::Unknown => "not seen",
        EcnAgreed::NotAsked => "not asked for",
        EcnAgreed::Refused => "refused",
        EcnAgreed::Classic => "yes",
        EcnAgreed::Accurate => "AccECN",
    };
    let syn = if of.is_syn_ect == Some(true) { ", the SYN itself ECN-capable" } else { "" };
    let repeats = match of.repeats {
        0 => String::new(),
        count => format!(", {count} SYNs retransmitted"),
    };
    format!(
        "agreed: SACK {}, timestamps {}, window scaling {}, ECN {ecn}{syn}{repeats}\n",
        word(of.has_sack),
        word(of.has_timestamps),
        word(of.has_window_scale)
    )
}

fn of_direction(of: &Direction) -> String {
    let mut out = String::new();
    let mut line = |label: &str, text: String| out += &format!("  {label:<16} {text}\n");
    let goodput = of.goodput_bps.map_or(String::new(), |bps| format!(", {}", rate(bps)));
    line(
        "data",
        format!(
            "{} in {} segments of at most {} bytes, {}{goodput}",
            bytes(of.bytes),
            of.segments,
            of.mss.unwrap_or(0),
            duration(of.duration_ns)
        ),
    );
    if of.bytes_not_captured > 0 {
        line("not captured", bytes(of.bytes_not_captured));
    }
    let again = &of.retransmitted;
    line(
        "retransmitted",
        format!(
            "{}: fast {}, timeouts {}, after timeouts {}, probes {}, unclear {}; spurious {}",
            again.segments,
            again.fast,
            again.rto,
            again.after_rto,
            again.tlp,
            again.unclear,
            again.spurious
        ),
    );
    if of.new_data_probes > 0 {
        line(
            "probes",
            format!("{} with new data, whose ACKs reported earlier losses", of.new_data_probes),
        );
    }
    if of.rto_stall_ns > 0 {
        line(
            "stalls",
            format!(
                "{} in timeouts, the longest {}",
                duration(of.rto_stall_ns),
                duration(of.longest_rto_stall_ns)
            ),
        );
    }
    if of.reordered_behind > 0 {
        line(
            "reordered behind",
            format!(
                "{} segments, by at most {}: gaps that closed without a retransmission",
                of.reordered_behind,
                duration(of.reordered_behind_longest_ns)
            ),
        );
    }
    if of.out_of_order + of.lost_before_point + of.duplicates_by_network + of.duplicates_captured
        > 0
    {
        line(
            "order",
            format!(
                "out of order {} (by at most {}), lost before the point {}, duplicates by the network {}, by the capture {}",
                of.out_of_order,
                duration(of.out_of_order_longest_ns),
                of.lost_before_point,
                of.duplicates_by_network,
                of.duplicates_captured
            ),
        );
    }
    line("RTT", quantiles(&of.rtt));
    if of.rtt_by_timestamps.count() > 0 {
        line("by timestamps", quantiles(&of.rtt_by_timestamps));
    }
    line("in flight", format!("at most {}", bytes(of.max_inflight_bytes)));
    if let Some(window) = of.initial_window_bytes {
        let mss = f64::from(of.mss.unwrap_or(1));
        let more = if of.is_initial_window_full { "" } else { ", application-limited" };
        line(
            "initial window",
            format!("{} ({:.1} segments){more}", bytes(window), window as f64 / mss),
        );
    }
    if let Some(window) = of.smallest_window_bytes {
        let closed = match of.zero_windows {
            0 => String::new(),
            times => format!(", closed {times} times for {}", duration(of.zero_window_ns)),
        };
        line(
            "receiver",
            format!(
                "window at least {}{closed}; {} ACKs, {} duplicate",
                bytes(window),
                of.acks,
                of.duplicate_acks
            ),
        );
    }
    if let (Some(median), Some(most)) = (of.bursts.quantile(0.5), of.bursts.max()) {
        let link =
            of.link_rate_bps.map_or(String::new(), |bps| format!(", at up to {}", rate(bps)));
        line("bursts", format!("median {median}, largest {most} segments{link}"));
    }
    if let (Some(mean), Some(most)) = (of.ack_segments.mean(), of.ack_segments.max()) {
        line("ACKs", format!("{mean} segments each, at most {most}"));
    }
    let ecn = &of.ecn;
    line(
        "ECN",
        format!(
            "not capable {}, ECT(0) {}, ECT(1) {}, CE {}; ECE {}, CWR {}; marked {}; receiver: {}",
            ecn.not_ect,
            ecn.ect0,
            ecn.ect1,
            ecn.ce,
            ecn.ece,
            ecn.cwr,
            marked(of),
            word(&of.receiver.kind)
        ),
    );
    line(
        "sender",
        format!(
            "{} ({} round trips)",
            family(of),
            of.rounds.iter().map(|round| u64::from(round.round_trips)).sum::<u64>()
        ),
    );
    for evidence in &of.family.evidence {
        line("", evidence.clone());
    }
    out
}

fn rounds(list: &[Round], begin_ns: u64) -> String {
    let columns: [Column<'_, Round>; 16] = [
        ("time", &|round| duration(round.begin_ns.saturating_sub(begin_ns))),
        ("duration", &|round| duration(round.duration_ns)),
        ("of", &|round| round.round_trips.to_string()),
        ("packet", &|round| round.first_number.to_string()),
        ("sent", &|round| bytes(round.bytes)),
        ("acked", &|round| bytes(round.acked_bytes)),
        ("in flight", &|round| bytes(round.inflight_bytes)),
        ("rate", &|round| rate(round.rate_bps)),
        ("RTT min", &|round| or_dash(round.rtt_min_ns)),
        ("mean", &|round| or_dash(round.rtt_mean_ns)),
        ("marked", &|round| {
            let share = round.marked_fraction();
            share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0))
        }),
        ("retrans", &|round| round.retransmitted.to_string()),
        ("reordered", &|round| round.out_of_order.to_string()),
        ("ACK ratio", &|round| round.ack_ratio.map_or("-".to_owned(), |of| format!("{of:.1}"))),
        ("burst", &|round| round.largest_burst_segments.to_string()),
        ("ACK delay", &|round| or_dash(round.ack_delay_ns)),
    ];
    table_of(&columns, list, 0)
}

fn events(of: &Direction, begin_ns: u64) -> String {
    let mut out = String::new();
    // ECE comes and goes with each mark, CWR with each window: their counts are above.
    let is_shown = |event: &&Event| {
        !matches!(event.kind, EventKind::EceBegins | EventKind::EceEnds | EventKind::Cwr)
    };
    let all = of.events.iter().filter(is_shown).count();
    for event in of.events.iter().filter(is_shown).take(SHOWN_EVENTS) {
        let earlier = event.earlier.map_or(String::new(), |number| format!(", of packet {number}"));
        let lasted = if event.lasted_ns > 0 {
            format!(", after {}", duration(event.lasted_ns))
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "  {} packet {}: {}{earlier}{lasted}, byte {}",
            duration(event.at_ns.saturating_sub(begin_ns)),
            event.number,
            word(&event.kind),
            event.seq
        );
    }
    let beyond = (all.saturating_sub(SHOWN_EVENTS)) as u64 + of.events_not_kept;
    if beyond > 0 {
        let _ = writeln!(out, "  and {beyond} more (--csv writes those that knee kept)");
    }
    out
}

fn packets(list: &[PacketRow], begin_ns: u64) -> String {
    let number = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
    let columns: [Column<'_, PacketRow>; 12] = [
        ("packet", &|row| row.number.to_string()),
        ("time", &|row| duration(row.at_ns.saturating_sub(begin_ns))),
        ("from", &|row| if row.is_from_a { "a" } else { "b" }.to_owned()),
        ("flags", &|row| row.flags.clone()),
        ("ECN", &|row| row.ecn.to_owned()),
        ("seq", &|row| row.seq.to_string()),
        ("len", &|row| row.len.to_string()),
        ("ack", &|row| number(row.ack)),
        ("in flight", &|row| number(row.inflight_bytes)),
        ("RTT", &|row| or_dash(row.rtt_ns)),
        ("acked by", &|row| number(row.acked_by)),
        ("why", &|row| match (row.why, row.repeats) {
            (Some(why), Some(earlier)) => format!("{} of {earlier}", word(&why)),
            (Some(why), None) => word(&why),
            (None, _) => row.repeated_by.map_or(String::new(), |by| format!("retransmitted: {by}")),
        }),
    ];
    table_of(&columns, list, 0)
}

/// A kind in words.
fn word(kind: &impl std::fmt::Debug) -> String {
    kebab(kind).replace('-', " ")
}

fn marked(of: &Direction) -> String {
    let (part, whole) = match of.ecn.ece_bytes {
        0 => (of.ecn.ce, of.segments),
        bytes => (bytes, of.ecn.acked_bytes),
    };
    match (part, whole) {
        (0, _) | (_, 0) => "-".to_owned(),
        _ => format!("{:.1} %", part as f64 / whole as f64 * 100.0),
    }
}

fn family(of: &Direction) -> String {
    match of.family.confidence {
        0.0 => "-".to_owned(),
        confidence => format!("{} {:.0} %", word(&of.family.family), confidence * 100.0),
    }
}

fn quantiles(of: &Histogram) -> String {
    let at = |share| or_dash(of.quantile(share));
    format!(
        "min {}, median {}, 99 % {}, max {} ({} values)",
        or_dash(of.min()),
        at(0.5),
        at(0.99),
        or_dash(of.max()),
        of.count()
    )
}

fn or_dash(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), duration)
}

/// A duration in its usual unit.
fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", ns as f64 / 1e9),
    }
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

fn rate(bps: f64) -> String {
    match bps {
        bps if bps >= 1e9 => format!("{:.2} Gbps", bps / 1e9),
        bps if bps >= 1e6 => format!("{:.1} Mbps", bps / 1e6),
        bps => format!("{:.1} kbps", bps / 1e3),
    }
}

/// A column of a table: its heading, and the cell of a row.
type Column<'a, Row> = (&'a str, &'a dyn Fn(&Row) -> String);

/// A table with columns as wide as they need; the first `left` columns are set to the left.
fn table_of<'a, Row: 'a>(
    columns: &[Column<'_, Row>],
    of: impl IntoIterator<Item = &'a Row>,
    left: usize,
) -> String {
    let head = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let cells = |row| columns.iter().map(|(_, cell)| cell(row)).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(of.into_iter().map(cells)).collect();
    knee_units::aligned(&rows, |at| at >= left).join("\n") + "\n"
}
