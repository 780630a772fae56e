//! Results as CSV files: flows, round trips, events, packets.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, BufWriter, ErrorKind, Seek as _, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use knee_files::{Dir, NewFile};
use knee_wire::Error;

use crate::model::{
    Analysis, Direction, Event, EventKind, Family, Flow, PacketRow, ReceiverKind, Round,
};

/// A value as CSV has it.
trait Cell {
    fn cell(&self) -> String;
}

impl<T: Cell> Cell for Option<T> {
    fn cell(&self) -> String {
        self.as_ref().map_or(String::new(), T::cell)
    }
}

macro_rules! cells {
    ($show:expr => $($type:ty)*) => {$(
        impl Cell for $type {
            fn cell(&self) -> String {
                $show(self)
            }
        }
    )*};
}
cells!(ToString::to_string => bool u32 u64 usize String &str SocketAddr);
cells!(kebab => EventKind ReceiverKind Family);

/// A file and its columns.
type Head = (&'static str, &'static [&'static str]);

/// The columns of a file, and a row's cells: `round.bytes` is the column `bytes` with this field, `flow` the argument of this name.
macro_rules! columns {
    ($head:ident $file:literal fn $row:ident($($arg:ident: $type:ty),*) {
        $($first:ident $(. $field:ident)? $(= $value:expr)?),* $(,)?
    }) => {
        const $head: Head = ($file, &[$(columns!(@name $first $(. $field)? $(= $value)?)),*]);

        fn $row($($arg: $type),*) -> String {
            [$(columns!(@value $first $(. $field)? $(= $value)?).cell()),*].join(",")
        }
    };
    (@name $name:ident) => { stringify!($name) };
    (@name $name:ident = $value:expr) => { stringify!($name) };
    (@name $owner:ident . $name:ident) => { stringify!($name) };
    (@value $name:ident) => { $name };
    (@value $name:ident = $value:expr) => { $value };
    (@value $owner:ident . $name:ident) => { $owner.$name };
}

columns! { FLOWS "flows.csv" fn of_way(flow: &Flow, direction: &str, from: SocketAddr, to: SocketAddr, way: &Direction) {
    flow = flow.id, flow.connection, flow.is_primary, flow.point, direction, from, to, flow.begin_ns, flow.end_ns,
    way.bytes, way.bytes_sent, goodput_bps = way.goodput_bps.map(|bps| format!("{bps:.0}")), way.segments,
    retransmitted = way.retransmitted.segments, fast = way.retransmitted.fast, rto = way.retransmitted.rto,
    after_rto = way.retransmitted.after_rto, tlp = way.retransmitted.tlp, unclear = way.retransmitted.unclear,
    spurious = way.retransmitted.spurious, way.out_of_order, way.lost_before_point,
    not_captured_bytes = way.bytes_not_captured, way.rto_stall_ns, way.zero_windows, way.acks, way.duplicate_acks,
    ect0 = way.ecn.ect0, ect1 = way.ecn.ect1, ce = way.ecn.ce, ece = way.ecn.ece, cwr = way.ecn.cwr,
    ece_bytes = way.ecn.ece_bytes, acked_bytes = way.ecn.acked_bytes, receiver = way.receiver.kind,
    rtt_min_ns = way.rtt.min(), rtt_median_ns = way.rtt.quantile(0.5), rtt_p99_ns = way.rtt.quantile(0.99),
    rtt_max_ns = way.rtt.max(), way.max_inflight_bytes, way.initial_window_bytes, way.mss,
    family = way.family.family, confidence = format!("{:.2}", way.family.confidence),
} }

columns! { ROUNDS "rounds.csv" fn of_round(flow: u32, direction: &str, round: &Round) {
    flow, direction, round.begin_ns, round.duration_ns, round.round_trips, round.first_number, round.last_number,
    round.idle_ns, round.bytes, round.acked_bytes, round.ece_bytes, round.segments, round.ce_segments,
    round.inflight_bytes, round.window_bytes, rate_bps = format!("{:.0}", round.rate_bps), round.rtt_min_ns,
    round.rtt_mean_ns, round.rtt_max_ns, round.rtt_by_timestamps_min_ns, round.rtt_by_timestamps_mean_ns,
    round.retransmitted, round.rtos, round.out_of_order, round.acks,
    ack_ratio = round.ack_ratio.map(|ratio| format!("{ratio:.3}")), round.largest_ack_segments,
    round.largest_burst_segments, round.ack_delay_ns,
} }

columns! { EVENTS "events.csv" fn of_event(flow: u32, direction: &str, event: &Event) {
    flow, direction, event.kind, event.at_ns, event.number, event.earlier, event.seq, event.bytes, event.lasted_ns,
    event.inflight_bytes, event.duplicate_acks, event.is_tail,
} }

columns! { PACKETS "packets.csv" fn of_packet(row: &PacketRow) {
    row.flow, row.number, row.at_ns, direction = if row.is_from_a { "a-to-b" } else { "b-to-a" }, row.seq, row.len,
    row.ack, row.flags, row.ecn, row.window_bytes,
    sacks = row.sacks.iter().map(|(a, b)| format!("{a}-{b}")).collect::<Vec<_>>().join(" "), row.inflight_bytes,
    row.rtt_ns, row.acked_by, row.repeats, row.why, row.repeated_by,
} }

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
    fn create(dir: &Path, (name, columns): Head) -> Result<Out, Error> {
        let path = dir.join(name);
        let file = NewFile::create(&path).map_err(|why| cannot(&path, why))?;
        let mut out = Out { file: BufWriter::new(file), path };
        out.line(&columns.join(","))?;
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
            flows: Out::create(dir, FLOWS)?,
            rounds: Out::create(dir, ROUNDS)?,
            events: Out::create(dir, EVENTS)?,
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
            self.flows.line(&of_way(flow, name, from, to, way))?;
            let rounds = &mut self.rounds;
            way.rounds.iter().try_for_each(|one| rounds.line(&of_round(flow.id, name, one)))?;
            let events = &mut self.events;
            way.events.iter().try_for_each(|one| events.line(&of_event(flow.id, name, one)))?;
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
            let mut out = Out::create(&self.dir, PACKETS)?;
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
    let mut out = Out::create(dir, FLOWS)?;
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
