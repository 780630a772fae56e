//! The page of captures: findings, flows, and the data of their plots.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::capture::{Capture, Drawn, Flow, list};
use crate::table::Column::{self, Bare, Number, Text};
use crate::table::{head, row};
use crate::text::{Unit, base64, digits, escaped};

/// Flows of the table that are seen at once.
const LISTED: usize = 20;
/// Packets of a finding that are named at once; the others open by a click.
const EVIDENCE: usize = 5;

const FINDINGS: [Column; 5] =
    [Bare("Cost"), Bare("Finding"), Text("Usual cause"), Text("Try"), Bare("Evidence (packets)")];
const FLOWS: [Column; 10] = [
    Number("Flow"),
    Bare("From, to"),
    Number("Bytes"),
    Number("Goodput"),
    Number("RTT, median"),
    Number("99th"),
    Text("Retransmitted"),
    Number("Out of order"),
    Number("Marked"),
    Text("Looks like"),
];

/// The title of the page.
pub(crate) fn title(capture: &Capture) -> String {
    let files: Vec<&str> =
        list(&capture.about["files"]).iter().filter_map(|file| file["name"].as_str()).collect();
    let short = |name: &str| name.rsplit(['/', '\\']).next().unwrap_or(name).to_owned();
    match files.as_slice() {
        [] => "Analysis of a capture".into(),
        [one] => format!("Analysis of {}", short(one)),
        [first, others @ ..] => {
            format!("Analysis of {} and {} more", short(first), others.len())
        }
    }
}

/// Everything between the heading of the document and its end.
pub(crate) fn page(capture: &Capture) -> String {
    let mut out = format!("<h1>{}</h1>", escaped(&title(capture)));
    out += &files(capture);
    out += &findings(capture);
    out += &flows(capture);
    out += &drawn(capture);
    out
}

fn count(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn files(capture: &Capture) -> String {
    let mut out = String::new();
    for file in list(&capture.about["files"]) {
        let name = file["name"].as_str().unwrap_or("");
        let mut parts = vec![
            format!("{} packets", digits(count(&file["packets"]))),
            format!("{} of TCP", digits(count(&file["tcp_packets"]))),
        ];
        if let (Some(begin), Some(end)) = (file["begin_ns"].as_u64(), file["end_ns"].as_u64()) {
            parts.push(Unit::alone("s", end.saturating_sub(begin) as f64 / 1e9));
        }
        let _ = write!(
            out,
            "<p class=\"meta\"><code>{}</code> {}</p>",
            escaped(name),
            parts.join(" · ")
        );
        for (layers, count) in file["inside"].as_object().into_iter().flatten() {
            let said =
                format!("{} packets of TCP in {layers}", digits(count.as_f64().unwrap_or(0.0)));
            let _ = write!(
                out,
                "<p class=\"meta\">{}: the inner packets are read.</p>",
                escaped(&said)
            );
        }
        let unread = &file["unread"];
        let reasons = [
            ("unknown_link", "with an unknown link layer"),
            ("cut_options", "with cut or invalid TCP options"),
            ("back_in_time", "with a time over a second earlier than a preceding packet"),
        ];
        let reasons = reasons.iter().filter(|(key, _)| count(&unread[*key]) > 0.0);
        let mut warnings: Vec<String> = reasons
            .map(|(key, what)| format!("{} packets {what}", digits(count(&unread[*key]))))
            .collect();
        let set_back = count(&unread["clock_set_back"]);
        if set_back > 0.0 {
            let times = digits(set_back);
            warnings.push(format!("its clock was set back {times} times: times go on from there"));
        }
        warnings.extend(unread["broken"].as_str().map(str::to_owned));
        if !warnings.is_empty() {
            let _ = write!(out, "<p class=\"warn\">{}.</p>", escaped(&warnings.join("; ")));
        }
    }
    out
}

/// A word, a class and a shape for how much a finding costs.
fn severity(finding: &Value) -> (&'static str, &'static str, &'static str) {
    match finding["severity"].as_str() {
        Some("severe") => ("fails", "severe", "M7 1 13.5 13H.5z"),
        Some("costs") => ("part", "costs", "M7 .5 13.5 7 7 13.5.5 7z"),
        _ => ("cannot", "note", "M7 1a6 6 0 1 1 0 12A6 6 0 1 1 7 1z"),
    }
}

/// How much a finding costs, as a word in its colour, with its shape.
pub(crate) fn chip(finding: &Value) -> String {
    let (class, word, shape) = severity(finding);
    format!(
        "<span class=\"chip {class}\"><svg class=\"icon\" width=\"14\" height=\"14\" viewBox=\"0 0 14 14\" aria-hidden=\"true\"><path d=\"{shape}\" fill=\"currentColor\"/></svg>{word}</span>"
    )
}

/// The flows of a finding, in words.
pub(crate) fn flows_of(finding: &Value) -> String {
    let ids: Vec<String> = list(&finding["flows"]).iter().map(Value::to_string).collect();
    match ids.len() {
        0 => String::new(),
        1 => format!("flow {}", ids[0]),
        n if n <= 8 => format!("flows {}", ids.join(", ")),
        n => format!("{n} flows, first {}", ids[..8].join(", ")),
    }
}

/// A packet's number; a link where its flow is drawn.
fn packet(evidence: &Value, linked: &HashSet<u64>) -> String {
    let (flow, number) = (count(&evidence["flow"]) as u64, count(&evidence["number"]) as u64);
    match linked.contains(&flow) {
        true => format!(
            "<a class=\"packet\" href=\"#flow-{flow}\" data-flow=\"{flow}\" data-number=\"{number}\">{number}</a>"
        ),
        false => number.to_string(),
    }
}

fn findings(capture: &Capture) -> String {
    let all = list(&capture.about["findings"]);
    let mut out = String::from("<section class=\"part\"><h2>Findings</h2>");
    if all.is_empty() {
        out += "<p>No known problem found.</p></section>";
        return out;
    }
    let linked: HashSet<u64> = capture.drawn.iter().map(|one| one.flow.id).collect();
    out += "<table class=\"flows findings\">";
    out += &head(&FINDINGS);
    for finding in all {
        let text = |key: &str| escaped(finding[key].as_str().unwrap_or(""));
        let items: Vec<String> = list(&finding["evidence"])
            .iter()
            .map(|one| {
                format!(
                    "<li>{} <span class=\"small\">flow {}: {}</span></li>",
                    packet(one, &linked),
                    count(&one["flow"]),
                    escaped(one["says"].as_str().unwrap_or(""))
                )
            })
            .collect();
        let (shown, folded) = items.split_at(items.len().min(EVIDENCE));
        let mut evidence = format!("<ul>{}</ul>", shown.concat());
        if !folded.is_empty() {
            let _ = write!(
                evidence,
                "<details class=\"more\"><summary>{} more</summary><ul>{}</ul></details>",
                folded.len(),
                folded.concat()
            );
        }
        let what = format!(
            "<strong>{}</strong><br>{}<br><span class=\"small\">{}, {} % sure</span>",
            escaped(&finding["kind"].as_str().unwrap_or("").replace('-', " ")),
            text("summary"),
            escaped(&flows_of(finding)),
            digits(count(&finding["confidence"]) * 100.0),
        );
        let cells = [chip(finding), what, text("usually_means"), text("try_this"), evidence];
        out += &row(&FINDINGS, cells);
    }
    out + "</tbody></table></section>"
}

fn seconds(ns: Option<f64>) -> String {
    ns.map_or("–".into(), |ns| Unit::alone("s", ns / 1e9))
}

/// Retransmissions by kind.
fn again(flow: &Flow) -> String {
    let kinds = [
        ("fast", "fast"),
        ("rto", "RTO"),
        ("after_rto", "after an RTO"),
        ("tlp", "TLP"),
        ("unclear", "unclear"),
        ("spurious", "of them spurious"),
    ];
    let number = |column| flow.number(column).unwrap_or(0.0);
    let parts: Vec<String> = kinds
        .iter()
        .filter(|(column, _)| number(column) > 0.0)
        .map(|(column, word)| format!("{} {word}", digits(number(column))))
        .collect();
    match parts.is_empty() {
        true => "0".into(),
        false => parts.join(", "),
    }
}

/// The share of marked data, as the ACKs tell it or as it is marked itself.
fn marked(flow: &Flow) -> String {
    let share = |part: &str, whole: &str| match (flow.number(part), flow.number(whole)) {
        (Some(part), Some(whole)) if whole > 0.0 => part / whole,
        _ => 0.0,
    };
    let share = match share("ece_bytes", "acked_bytes") {
        echoed if echoed > 0.0 => echoed,
        _ => share("ce", "segments"),
    };
    format!("{} %", digits(share * 100.0))
}

fn flows(capture: &Capture) -> String {
    let mut out = format!(
        "<section class=\"part\"><h2>Flows</h2><p class=\"hint\">{}Each row shows the larger \
            direction.</p>",
        match capture.flows.len() as u64 {
            shown if shown < capture.count =>
                format!("The largest {shown} of {}. ", digits(capture.count as f64)),
            _ => String::new(),
        }
    );
    let (first, more) = capture.flows.split_at(capture.flows.len().min(LISTED));
    out += &table(capture, first);
    if !more.is_empty() {
        let _ = write!(
            out,
            "<details class=\"more\"><summary>{} more</summary>{}</details>",
            more.len(),
            table(capture, more)
        );
    }
    out + "</section>"
}

fn table(capture: &Capture, flows: &[Flow]) -> String {
    let mut out = String::from("<table class=\"flows\">") + &head(&FLOWS);
    for flow in flows {
        let id = match capture.drawn.iter().any(|one| one.flow.id == flow.id) {
            true => format!("<a href=\"#flow-{0}\">{0}</a>", flow.id),
            false => flow.id.to_string(),
        };
        let sure = flow.number("confidence").unwrap_or(0.0);
        let family = match sure > 0.0 {
            true => format!("{} ({} %)", escaped(&flow.family), digits(sure * 100.0)),
            false => "–".into(),
        };
        let goodput = flow.number("goodput_bps");
        let cells = [
            id,
            format!("{} → {}", escaped(&flow.from), escaped(&flow.to)),
            Unit::alone("B", flow.bytes()),
            goodput.map_or("–".into(), |bps| Unit::alone("bps", bps)),
            seconds(flow.number("rtt_median_ns")),
            seconds(flow.number("rtt_p99_ns")),
            again(flow),
            digits(flow.number("out_of_order").unwrap_or(0.0)),
            marked(flow),
            family,
        ];
        out += &row(&FLOWS, cells);
    }
    out + "</tbody></table>"
}

fn drawn(capture: &Capture) -> String {
    if capture.drawn.is_empty() {
        return String::new();
    }
    let (shown, all) = (capture.drawn.len() as u64, capture.count);
    let mut out = String::from("<section class=\"part\"><h2>Packets</h2><p class=\"hint\">");
    if shown < all {
        let _ = write!(out, "Plots show {shown} of {} flows. ", digits(all as f64));
    }
    out += match capture.has_packets {
        true => {
            "Drag to zoom all plots of a flow, down to single packets; double-click to reset. A \
                packet number above links to the packet."
        }
        false => {
            "The directory has no packets, so plots show only round trips. knee pcap FILE --report \
                OUT.html shows packets too."
        }
    };
    let not_kept = count(&capture.about["packets_not_kept"]) + capture.not_read as f64;
    if not_kept > 0.0 {
        let _ = write!(out, " {} later packets of these flows are not listed.", digits(not_kept));
    }
    out += "</p>";
    for one in &capture.drawn {
        out += &section(capture, one);
    }
    out + "</section>"
}

fn section(capture: &Capture, one: &Drawn) -> String {
    let flow = &one.flow;
    let point = list(&capture.about["points"]).get(flow.point as usize);
    let mut meta = vec![
        Unit::alone("B", flow.bytes()),
        format!("in {}", seconds(Some(flow.end_ns.saturating_sub(flow.begin_ns) as f64))),
        format!("RTT from {}", seconds(flow.number("rtt_min_ns"))),
        format!("retransmitted: {}", again(flow)),
        format!("marked: {}", marked(flow)),
    ];
    if let Some(name) = point.and_then(|point| point["name"].as_str()) {
        meta.push(format!("captured in {name}"));
    }
    if one.len() < one.whole {
        meta.push(format!(
            "{} of {} packets are drawn: all retransmitted or reordered ones, and ends and \
                extremes of each short period",
            digits(one.len() as f64),
            digits(one.whole as f64)
        ));
    }
    let buttons = [
        ("whole", "Whole"),
        ("in", "Zoom in"),
        ("out", "Zoom out"),
        ("earlier", "Earlier"),
        ("later", "Later"),
    ];
    let buttons = buttons.iter().fold(String::new(), |mut out, (does, name)| {
        let _ = write!(out, "<button type=\"button\" data-zoom=\"{does}\">{name}</button>");
        out
    });
    format!(
        "<section class=\"capture\" id=\"flow-{id}\" data-flow=\"{id}\"><h3>Flow {id}: {} → {}</h3><p class=\"meta\">{}</p>\
         <div class=\"save zoom\">{buttons}</div><div class=\"plots\"></div><script type=\"application/json\">{}</script></section>",
        escaped(&flow.from),
        escaped(&flow.to),
        escaped(&meta.join(" · ")),
        data(capture, one),
        id = flow.id,
    )
}

fn doubles(values: impl Iterator<Item = f64>) -> String {
    base64(&values.flat_map(f64::to_le_bytes).collect::<Vec<u8>>())
}

fn floats(values: impl Iterator<Item = f64>) -> String {
    base64(&values.flat_map(|value| (value as f32).to_le_bytes()).collect::<Vec<u8>>())
}

/// Data of the plots. Times are ns since the first packet of all drawn flows; below 2^53 they are exact.
fn data(capture: &Capture, one: &Drawn) -> Value {
    let at = |ns: u64| ns.saturating_sub(capture.begin_ns) as f64;
    let (data, acks, rounds) = (&one.data, &one.acks, &one.rounds);
    let flags = data.iter().map(|packet| {
        packet.kind
            | u8::from(packet.is_ce) << 4
            | u8::from(packet.is_echoed) << 5
            | u8::from(packet.is_spurious) << 6
    });
    let sacks = || acks.iter().flat_map(|ack| ack.sacks.iter().map(move |range| (ack, range)));
    json!({
        "begin": at(one.flow.begin_ns), "end": at(one.flow.end_ns),
        "data": {
            "t": doubles(data.iter().map(|packet| at(packet.at_ns))),
            "number": doubles(data.iter().map(|packet| packet.number as f64)),
            "seq": doubles(data.iter().map(|packet| packet.seq as f64)),
            "len": floats(data.iter().map(|packet| packet.len as f64)),
            "inflight": floats(data.iter().map(|packet| packet.inflight_bytes)),
            "rtt": floats(data.iter().map(|packet| packet.rtt_ns)),
            "by": doubles(data.iter().map(|packet| packet.acked_by as f64)),
            "flags": base64(&flags.collect::<Vec<u8>>()),
        },
        "acks": {
            "t": doubles(acks.iter().map(|ack| at(ack.at_ns))),
            "number": doubles(acks.iter().map(|ack| ack.number as f64)),
            "ack": doubles(acks.iter().map(|ack| ack.ack as f64)),
            "ece": base64(&acks.iter().map(|ack| u8::from(ack.is_ece)).collect::<Vec<u8>>()),
        },
        "sacks": {
            "t": doubles(sacks().map(|(ack, _)| at(ack.at_ns))),
            "from": doubles(sacks().map(|(_, range)| range.0 as f64)),
            "to": doubles(sacks().map(|(_, range)| range.1 as f64)),
        },
        "rounds": {
            "t": doubles(rounds.iter().map(|round| at(round.begin_ns))),
            "end": doubles(rounds.iter().map(|round| at(round.begin_ns) + round.duration_ns as f64)),
            "inflight": floats(rounds.iter().map(|round| round.inflight_bytes)),
            "window": floats(rounds.iter().map(|round| round.window_bytes)),
            "rate": floats(rounds.iter().map(|round| round.rate_bps)),
            "marked": floats(rounds.iter().map(|round| round.marked)),
            "least": floats(rounds.iter().map(|round| round.stamped_min_ns)),
            "mean": floats(rounds.iter().map(|round| round.stamped_mean_ns)),
        },
    })
}
