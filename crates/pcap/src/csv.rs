//! Results as CSV files: flows, round trips, events, packets.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, BufWriter, ErrorKind, Seek as _, Write};
use std::path::{Path, PathBuf};

use knee_files::{Dir, NewFile};
use knee_wire::Error;

use crate::model::{Analysis, Direction, Flow, PacketRow};

const FLOWS: &str = "flow,connection,is_primary,point,direction,from,to,begin_ns,end_ns,bytes,bytes_sent,goodput_bps,segments,\
    retransmitted,fast,rto,after_rto,tlp,unclear,spurious,out_of_order,lost_before_point,not_captured_bytes,rto_stall_ns,zero_windows,\
    acks,duplicate_acks,ect0,ect1,ce,ece,cwr,ece_bytes,acked_bytes,receiver,rtt_min_ns,rtt_median_ns,rtt_p99_ns,rtt_max_ns,\
    max_inflight_bytes,initial_window_bytes,mss,family,confidence";
const ROUNDS: &str = "flow,direction,begin_ns,duration_ns,round_trips,first_number,last_number,idle_ns,bytes,acked_bytes,ece_bytes,\
    segments,ce_segments,inflight_bytes,window_bytes,rate_bps,rtt_min_ns,rtt_mean_ns,rtt_max_ns,rtt_by_timestamps_min_ns,\
    rtt_by_timestamps_mean_ns,retransmitted,rtos,out_of_order,acks,ack_ratio,largest_ack_segments,largest_burst_segments,ack_delay_ns";
const EVENTS: &str = "flow,direction,kind,at_ns,number,earlier,seq,bytes,lasted_ns,inflight_bytes,duplicate_acks,is_tail";
const PACKETS: &str = "flow,number,at_ns,direction,seq,len,ack,flags,ecn,window_bytes,sacks,inflight_bytes,rtt_ns,acked_by,repeats,why,repeated_by";

/// Files of a directory that is made for them.
pub struct Csv {
    dir: PathBuf,
    flows: Out,
    rounds: Out,
    events: Out,
}

struct Out {
    file: BufWriter<NewFile>,
    path: PathBuf,
}

impl Out {
    fn create(dir: &Path, name: &str, head: &str) -> Result<Out, Error> {
        let path = dir.join(name);
        let file = NewFile::create(&path).map_err(|why| cannot(&path, why))?;
        let mut out = Out { file: BufWriter::new(file), path };
        out.line(head)?;
        Ok(out)
    }

    fn line(&mut self, line: &str) -> Result<(), Error> {
        writeln!(self.file, "{line}").map_err(|why| cannot(&self.path, why))
    }

    fn finish(self) -> Result<(), Error> {
        let Out { file, path } = self;
        let whole = file.into_inner().map_err(io::IntoInnerError::into_error);
        whole.and_then(NewFile::keep).map_err(|why| cannot(&path, why))
    }
}

fn cannot(path: &Path, source: io::Error) -> Error {
    Error::Unwritten { name: path.display().to_string(), source }
}

impl Csv {
    /// Begins the files in a directory, which is created if needed. Removes packets.csv of an earlier capture.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(dir: &Path) -> Result<Csv, Error> {
        let held = Dir::make_all(dir).map_err(|why| cannot(dir, why))?;
        let packets = dir.join("packets.csv");
        match held.remove("packets.csv".as_ref()) {
            Err(why) if why.kind() != ErrorKind::NotFound => return Err(cannot(&packets, why)),
            _ => {}
        }
        Ok(Csv {
            dir: dir.to_owned(),
            flows: Out::create(dir, "flows.csv", FLOWS)?,
            rounds: Out::create(dir, "rounds.csv", ROUNDS)?,
            events: Out::create(dir, "events.csv", EVENTS)?,
        })
    }

    /// Adds a flow, its round trips and its events. With several points `is_primary` is known at the end.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flow(&mut self, flow: &Flow) -> Result<(), Error> {
        let ways =
            [("a-to-b", &flow.a_to_b, flow.a, flow.b), ("b-to-a", &flow.b_to_a, flow.b, flow.a)];
        for (name, way, from, to) in ways {
            if way.packets == 0 && way.bytes == 0 {
                continue;
            }
            let head = format!(
                "{},{},{},{},{name},{from},{to},{},{}",
                flow.id, flow.connection, flow.is_primary, flow.point, flow.begin_ns, flow.end_ns
            );
            self.flows.line(&(head + &of_direction(way)))?;
            self.of_rounds(flow.id, name, way)?;
            self.of_events(flow.id, name, way)?;
        }
        Ok(())
    }

    fn of_rounds(&mut self, id: u32, name: &str, way: &Direction) -> Result<(), Error> {
        for round in &way.rounds {
            let line = format!(
                "{id},{name},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.0},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                round.begin_ns,
                round.duration_ns,
                round.round_trips,
                round.first_number,
                round.last_number,
                round.idle_ns,
                round.bytes,
                round.acked_bytes,
                round.ece_bytes,
                round.segments,
                round.ce_segments,
                round.inflight_bytes,
                or_empty(round.window_bytes),
                round.rate_bps,
                or_empty(round.rtt_min_ns),
                or_empty(round.rtt_mean_ns),
                or_empty(round.rtt_max_ns),
                or_empty(round.rtt_by_timestamps_min_ns),
                or_empty(round.rtt_by_timestamps_mean_ns),
                round.retransmitted,
                round.rtos,
                round.out_of_order,
                round.acks,
                or_empty(round.ack_ratio.map(|ratio| format!("{ratio:.3}"))),
                round.largest_ack_segments,
                round.largest_burst_segments,
                or_empty(round.ack_delay_ns)
            );
            self.rounds.line(&line)?;
        }
        Ok(())
    }

    fn of_events(&mut self, id: u32, name: &str, way: &Direction) -> Result<(), Error> {
        for event in &way.events {
            let line = format!(
                "{id},{name},{},{},{},{},{},{},{},{},{},{}",
                kebab(&event.kind),
                event.at_ns,
                event.number,
                or_empty(event.earlier),
                event.seq,
                event.bytes,
                event.lasted_ns,
                event.inflight_bytes,
                event.duplicate_acks,
                event.is_tail
            );
            self.events.line(&line)?;
        }
        Ok(())
    }

    /// Adds the packets of flows that were asked for, if there are any, and what is known only at the end: findings.json with the
    /// files, the points, the findings, and which flows are another point's view of a connection. Writes what is still in memory.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self, analysis: &Analysis) -> Result<(), Error> {
        let Analysis { whole, flows, findings, packets, packets_not_kept } = analysis;
        let views: Vec<u32> =
            flows.iter().filter(|flow| !flow.is_primary).map(|flow| flow.id).collect();
        let text = serde_json::json!({
            "files": whole.files, "points": whole.points, "flows": whole.flows, "connections": whole.connections, "totals": whole.totals,
            "findings": findings, "views": views, "packets_not_kept": packets_not_kept,
        });
        let path = self.dir.join("findings.json");
        knee_files::write(&path, text.to_string() + "\n").map_err(|why| cannot(&path, why))?;
        if !packets.is_empty() {
            let mut out = Out::create(&self.dir, "packets.csv", PACKETS)?;
            for row in packets {
                out.line(&of_packet(row))?;
            }
            out.finish()?;
        }
        match whole.points.len() {
            0 | 1 => self.flows.finish()?,
            _ => mark_views(&self.dir, self.flows, flows)?,
        }
        self.rounds.finish()?;
        self.events.finish()
    }
}

/// Says of each flow in flows.csv whether it is the best view of its connection, which is known only now; nothing of those that were
/// not kept, since they were not compared.
fn mark_views(dir: &Path, written: Out, flows: &[Flow]) -> Result<(), Error> {
    let primary: BTreeMap<u32, bool> =
        flows.iter().map(|flow| (flow.id, flow.is_primary)).collect();
    let Out { file, path } = written;
    let whole = file.into_inner().map_err(io::IntoInnerError::into_error);
    let from_begin = whole.and_then(|mut file| file.rewind().map(|()| file));
    let lines = BufReader::new(from_begin.map_err(|why| cannot(&path, why))?).lines();
    let mut out = Out::create(dir, "flows.csv", FLOWS)?;
    for line in lines.skip(1) {
        let line = line.map_err(|why| cannot(&path, why))?;
        let mut fields: Vec<&str> = line.splitn(4, ',').collect();
        let known = fields[0].parse().ok().and_then(|id: u32| primary.get(&id));
        let word = known.map_or(String::new(), bool::to_string);
        if let Some(field) = fields.get_mut(2) {
            *field = &word;
        }
        out.line(&fields.join(","))?;
    }
    out.finish()
}

fn of_direction(way: &Direction) -> String {
    let (again, ecn) = (&way.retransmitted, &way.ecn);
    let mut line = format!(
        ",{},{},{},{},{},{},{},{},{},{},{},{},{}",
        way.bytes,
        way.bytes_sent,
        or_empty(way.goodput_bps.map(|bps| format!("{bps:.0}"))),
        way.segments,
        again.segments,
        again.fast,
        again.rto,
        again.after_rto,
        again.tlp,
        again.unclear,
        again.spurious,
        way.out_of_order,
        way.lost_before_point
    );
    let _ = write!(
        line,
        ",{},{},{},{},{},{},{},{},{},{},{},{},{}",
        way.bytes_not_captured,
        way.rto_stall_ns,
        way.zero_windows,
        way.acks,
        way.duplicate_acks,
        ecn.ect0,
        ecn.ect1,
        ecn.ce,
        ecn.ece,
        ecn.cwr,
        ecn.ece_bytes,
        ecn.acked_bytes,
        kebab(&way.receiver.kind)
    );
    let rtt = &way.rtt;
    let _ = write!(
        line,
        ",{},{},{},{},{},{},{},{},{:.2}",
        or_empty(rtt.min()),
        or_empty(rtt.quantile(0.5)),
        or_empty(rtt.quantile(0.99)),
        or_empty(rtt.max()),
        way.max_inflight_bytes,
        or_empty(way.initial_window_bytes),
        or_empty(way.mss),
        kebab(&way.family.family),
        way.family.confidence
    );
    line
}

fn of_packet(row: &PacketRow) -> String {
    let direction = if row.is_from_a { "a-to-b" } else { "b-to-a" };
    let sacks: Vec<String> = row.sacks.iter().map(|(a, b)| format!("{a}-{b}")).collect();
    format!(
        "{},{},{},{direction},{},{},{},{},{},{},{},{},{},{},{},{},{}",
        row.flow,
        row.number,
        row.at_ns,
        row.seq,
        row.len,
        or_empty(row.ack),
        row.flags,
        row.ecn,
        row.window_bytes,
        sacks.join(" "),
        or_empty(row.inflight_bytes),
        or_empty(row.rtt_ns),
        or_empty(row.acked_by),
        or_empty(row.repeats),
        or_empty(row.why.map(|why| kebab(&why))),
        or_empty(row.repeated_by)
    )
}

fn or_empty(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// A kind as JSON has it.
pub(crate) fn kebab(kind: &impl std::fmt::Debug) -> String {
    let mut out = String::new();
    for letter in format!("{kind:?}").chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}
