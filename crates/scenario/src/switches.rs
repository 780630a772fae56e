//! `[network.buffer]`, `[[network.buffers]]`, `[network.flow_control]` and `[network.coalesce]`: features of switches
//! besides the queues of their ports, and changes of links.

use std::collections::HashMap;

use knee_file::keys::{Below, Choice, Key, Keys, List, Shape, Special, Table, Text, entries};
use knee_file::units::{Quantity, Size};
use knee_file::{Error, Reader, Value, keys, one_of};
use knee_queue::time::Duration;
use knee_queue::{DynamicThresholdConfig, QueueConfig};
use knee_run::spec::{
    Adaptive, CoalescingPort, FlowControl, Link, LinkId, Network, NodeId, SharedBuffer, Since,
    StoppedClass, Stops, Thresholds,
};

use crate::changes;
use crate::names::expand_all;
use crate::names::few;
use crate::receiving::{self, read_coalesce};
use serde_json::{Value as Json, json};

/// Number of priorities in IEEE 802.1Q.
const MAX_STOPPED: usize = 8;

keys! {
    /// Settings of switches, for every topology.
    pub(crate) static KEYS: SwitchKeys = "switches" {
        /// Shared packet memory of each switch: docs/queues.md.
        buffer: Below = table(&BufferKeys::TABLE).usually("none"),
        /// Shared memory of some switches.
        buffers: Below = list(&BUFFERS_TABLE),
        /// IEEE 802.3x or 802.1Qbb.
        flow_control: Below = table(&FLOW_CONTROL_TABLE).usually("none"),
        /// Makes switches software routers with interrupt coalescing.
        coalesce: Below = table(&COALESCE_TABLE).usually("no coalescing"),
        /// Links that fail, slow down or lose packets during the run.
        change: Below = list(&changes::TABLE),
    }
}

keys! {
    /// Shared packet memory of a switch, with dynamic thresholds.
    static BUFFER: BufferKeys = "buffer" {
        /// Total size.
        size: Key<Size> = needed("4 MB"),
        /// Threshold of a queue, as a multiple of free memory.
        alpha: Special = takes(alphas).usually("`1`"),
        /// Reserved per port.
        reserved: Key<Size> = usually("nothing"),
        /// Record the occupancy.
        record: Key<bool> = or(true),
    }
}

keys! {
    /// Switches of a table.
    pub(crate) static SWITCHES: SwitchesKeys = "some-switches" {
        /// Names, or ranges as `leaf0..leaf3`.
        switches: Key<List<Text>> = needed("leaf0..leaf3"),
    }
}

static BUFFERS_TABLE: Table = Table {
    name: "buffers",
    says: "Shared packet memory of some switches, instead of `buffer`.",
    shape: || Shape::Keys(entries(&[&SWITCHES, &BUFFER])),
};

static COALESCE_TABLE: Table = Table {
    name: "coalesce-of-switches",
    says: "Interrupt coalescing of software routers.",
    shape: || {
        let own = entries(&[&ROUTERS]);
        Shape::Keys(receiving::coalesce_entries().into_iter().chain(own).collect())
    },
};

keys! {
    /// Ports of software routers.
    static ROUTERS: RouterKeys = "routers" {
        /// Software routers.
        switches: Key<List<Text>> = usually("all"),
        /// Only ports to these hosts or switches.
        from: Key<List<Text>> = usually("all"),
    }
}

const FLOW_CONTROL: &[(&str, bool)] = &[("pause", false), ("pfc", true)];

static FLOW_CONTROL_TABLE: Table = Table {
    name: "flow_control",
    says: "Link-level flow control of switches.",
    shape: || {
        let keys = |&(word, of_classes)| (word, entries(&flow_control_keys(of_classes)));
        Shape::By("kind", FLOW_CONTROL.iter().map(keys).collect())
    },
};

/// Returns the keys of flow control, for whole links or for classes.
fn flow_control_keys(of_classes: bool) -> [&'static dyn Keys; 3] {
    let own: &dyn Keys = if of_classes { &STOPPED } else { &THRESHOLDS };
    [&PAUSE_KIND, own, &PAUSE]
}

keys! {
    /// Flow control of either kind.
    static PAUSE_KIND: PauseKindKeys = "pause-kind" {
        /// 802.3x (whole links) or 802.1Qbb (classes).
        kind: Choice<bool> = of(FLOW_CONTROL).needed("pause"),
    }
}

keys! {
    /// Bytes of an input that wait in a switch.
    static THRESHOLDS: ThresholdKeys = "thresholds" {
        /// Pause above this.
        xoff: Key<Size> = needed("100 kB"),
        /// Resume at this.
        xon: Key<Size> = usually("half of `xoff`"),
    }
}

keys! {
    /// Classes that are stopped each by itself.
    static STOPPED: StoppedKeys = "stopped" {
        /// Classes that can be paused.
        class: Below = list(&STOPPED_TABLE).needed(),
    }
}

static STOPPED_TABLE: Table = Table {
    name: "stopped-class",
    says: "A priority class with flow control.",
    shape: || Shape::Keys(entries(&[&CLASS_NAME, &THRESHOLDS])),
};

keys! {
    /// Name of the class.
    static CLASS_NAME: ClassNameKeys = "class-name" {
        /// Name in the queues.
        name: Key<Text> = needed("storage"),
    }
}

keys! {
    /// How pauses act.
    static PAUSE: PauseKeys = "pauses" {
        /// Reaction time of a paused sender.
        reaction: Key<Duration> = or(Duration::from_us(1)),
        /// Pause time, in units of 512 bit times.
        quanta: Key<u64> = or(u16::MAX as u64).within(1, u16::MAX as u64),
        /// Refuse buffers that may still lose packets.
        lossless: Key<bool> = or(true),
        /// Switches that pause.
        switches: Key<List<Text>> = usually("all"),
    }
}

/// Reads the features of switches into a network, whose frames have at most `frame_bytes`.
pub(crate) fn read(
    network_reader: &Reader<'_>,
    network: &mut Network,
    frame_bytes: u32,
) -> Result<(), Error> {
    let switches = switches(network);
    let mut found: Vec<Option<SharedBuffer>> = vec![None; switches.len()];
    if let Some(reader) = network_reader.child(&KEYS.buffer)? {
        reader.check(&[&BUFFER])?;
        for ((id, name), place) in switches.iter().zip(&mut found) {
            *place = Some(read_buffer(&reader, network, (*id, name), frame_bytes)?);
        }
    }
    for reader in network_reader.children(&KEYS.buffers)? {
        reader.check(&[&SWITCHES, &BUFFER])?;
        reader.need_texts(&SWITCHES.switches)?;
        for at in named(&reader, &switches)?.unwrap_or_default() {
            let (id, name) = &switches[at];
            found[at] = Some(read_buffer(&reader, network, (*id, name), frame_bytes)?);
        }
    }
    network.buffers =
        found.into_iter().flatten().filter(|buffer| !buffer.links.is_empty()).collect();
    if let Some(reader) = network_reader.child(&KEYS.flow_control)? {
        network.flow_control = Some(read_flow_control(&reader, network, &switches)?);
    }
    if let Some(reader) = network_reader.child(&KEYS.coalesce)? {
        network.ports = read_ports(&reader, network, &switches)?;
    }
    changes::read(&network_reader.children(&KEYS.change)?, network)
}

/// Refuses changes of links that begin when the run has ended.
pub(crate) fn check_changes(network_reader: &Reader<'_>, end: Duration) -> Result<(), Error> {
    changes::check_starts(&network_reader.children(&KEYS.change)?, end)
}

/// Returns the switches of a network with their names.
pub(crate) fn switches(network: &Network) -> Vec<(NodeId, String)> {
    let nodes = network.nodes.iter().zip(0..);
    nodes
        .filter(|(node, _)| node.host.is_none())
        .map(|(node, id)| (id, node.name.clone()))
        .collect()
}

/// Returns the indices of the switches that the key `switches` names, if it is present.
pub(crate) fn named(
    reader: &Reader<'_>,
    switches: &[(NodeId, String)],
) -> Result<Option<Vec<usize>>, Error> {
    let Some(texts) = reader.texts(&SWITCHES.switches)? else { return Ok(None) };
    let wrong = || reader.error(&SWITCHES.switches, which(switches));
    let places: HashMap<&str, usize> =
        switches.iter().zip(0..).map(|((_, name), at)| (name.as_str(), at)).collect();
    let names = expand_all(&texts).map_err(|_| wrong())?;
    let found: Option<Vec<usize>> =
        names.iter().map(|name| places.get(name.as_str()).copied()).collect();
    found.filter(|found| !found.is_empty()).ok_or_else(wrong).map(Some)
}

fn which(switches: &[(NodeId, String)]) -> String {
    let names: Vec<&str> = match switches {
        [first, .., last] if switches.len() > 8 => vec![&first.1, "...", &last.1],
        _ => switches.iter().map(|(_, name)| name.as_str()).collect(),
    };
    format!("must name switches of this network ({}), as in \"{}\"", names.join(", "), names[0])
}

/// Reads the shared memory of one switch, for all of its ports with a queue.
fn read_buffer(
    reader: &Reader<'_>,
    network: &Network,
    (switch, name): (NodeId, &str),
    frame_bytes: u32,
) -> Result<SharedBuffer, Error> {
    let Size(size_bytes) = reader.read(&BUFFER.size)?;
    let Size(reserved_bytes) = reader.get_or(&BUFFER.reserved, Size(0))?;
    let alpha = read_alpha(reader)?;
    let law = DynamicThresholdConfig { size_bytes, alpha, reserved_bytes };
    let links: Vec<LinkId> = (0..)
        .zip(&network.links)
        .filter(|(_, link)| link.from == switch && link.rate.is_some())
        .map(|(id, _)| id)
        .collect();
    let ports = links.len();
    match law.shared_bytes(ports) {
        None => {
            let message =
                format!("must leave memory to share: {name} has {ports} ports with a queue");
            return Err(reader.error(&BUFFER.reserved, message));
        }
        Some(shared) if shared.max(reserved_bytes) < u64::from(frame_bytes) => {
            let message = format!("must hold one full packet ({frame_bytes} B)");
            return Err(reader.error(&BUFFER.size, message));
        }
        Some(_) => {}
    }
    let sampled = reader.read(&BUFFER.record)?;
    Ok(SharedBuffer { name: format!("buffer {name}"), law, links, sampled })
}

fn alphas() -> (String, Json) {
    let fraction = json!({ "type": "string", "pattern": "^ *[0-9.]+ *(/ *[0-9]+ *)?$" });
    let words = "a number or a fraction from \"1/65536\" to 65536";
    (words.to_owned(), json!({ "anyOf": [{ "type": "number" }, fraction] }))
}

/// Reads alpha: a number, or a fraction as text.
fn read_alpha(reader: &Reader<'_>) -> Result<f64, Error> {
    let Some(node) = reader.node(&BUFFER.alpha) else {
        reader.note(&BUFFER.alpha, 1);
        return Ok(1.0);
    };
    let alpha = match &node.value {
        Value::Integer(number) => Some(*number as f64),
        Value::Other(number) => number.parse().ok(),
        Value::Text(text) => match text.split_once('/') {
            Some((above, below)) => {
                let number = |text: &str| text.trim().parse::<u32>().ok().map(f64::from);
                number(above).zip(number(below)).map(|(above, below)| above / below)
            }
            None => text.trim().parse().ok(),
        },
        _ => None,
    };
    let sound = |alpha: &f64| {
        DynamicThresholdConfig { size_bytes: 0, alpha: *alpha, reserved_bytes: 0 }.has_sound_alpha()
    };
    let alpha = alpha.filter(sound).ok_or_else(|| {
        reader.error(
            &BUFFER.alpha,
            "must be a number or a fraction from \"1/65536\" to 65536, as in 0.25",
        )
    })?;
    reader.note(&BUFFER.alpha, node.json());
    Ok(alpha)
}

/// Reads the ports of software routers: all of them, or those of some switches that receive packets from some
/// neighbours.
fn read_ports(
    reader: &Reader<'_>,
    network: &Network,
    switches: &[(NodeId, String)],
) -> Result<Vec<CoalescingPort>, Error> {
    let coalesce = read_coalesce(reader, Some(&ROUTERS))?;
    let mut is_router: Vec<bool> = network.nodes.iter().map(|node| node.host.is_none()).collect();
    if let Some(named) = named(reader, switches)? {
        is_router.fill(false);
        named.into_iter().for_each(|at| is_router[switches[at].0 as usize] = true);
    }
    let mut of_neighbour: HashMap<&str, Vec<LinkId>> = HashMap::new();
    let mut all = Vec::new();
    let into_router = |(_, link): &(LinkId, &Link)| is_router[link.to as usize];
    for (id, link) in (0..).zip(&network.links).filter(into_router) {
        all.push(id);
        of_neighbour.entry(&network.nodes[link.from as usize].name).or_default().push(id);
    }
    if let Some(texts) = reader.texts(&ROUTERS.from)? {
        let names = expand_all(&texts).map_err(|why| reader.error(&ROUTERS.from, why))?;
        all.clear();
        for name in &names {
            all.extend(of_neighbour.get(name.as_str()).ok_or_else(|| {
                let shown: String = name.chars().take(40).collect();
                let message = format!(
                    "must name hosts or switches linked to such a switch: \"{shown}\" is not"
                );
                reader.error(&ROUTERS.from, message)
            })?);
        }
        all.sort_unstable();
        all.dedup();
    }
    Ok(all.into_iter().map(|link| CoalescingPort { link, coalesce }).collect())
}

/// Describes flow control and interrupt coalescing of switches.
pub fn words(network: &Network) -> Vec<String> {
    let name = |id: NodeId| network.nodes[id as usize].name.clone();
    let mut words = Vec::new();
    if let Some(spec) = &network.flow_control {
        let of = match &spec.switches {
            None => "every switch".to_owned(),
            Some(switches) => few(&switches.iter().copied().map(name).collect::<Vec<_>>()),
        };
        let stops = |what: String, at: Thresholds| {
            let (xoff, xon) = (Size(at.xoff_bytes).show(), Size(at.xon_bytes).show());
            format!("flow control of {of}: {what} above {xoff}, on at {xon}")
        };
        match &spec.stops {
            Stops::Links(at) => words.push(stops("links stop".to_owned(), *at)),
            Stops::Classes(classes) => words.extend(
                classes
                    .iter()
                    .map(|class| stops(format!("class {} pauses", class.name), class.thresholds)),
            ),
        }
    }
    words.extend(changes::words(network));
    let Some(CoalescingPort { coalesce, .. }) = network.ports.first() else { return words };
    let mut routers: Vec<NodeId> = Vec::new();
    let mut neighbours = Vec::new();
    for port in &network.ports {
        let link = &network.links[port.link as usize];
        let from = name(link.from);
        if !neighbours.contains(&from) {
            neighbours.push(from);
        }
        if routers.last() != Some(&link.to) && !routers.contains(&link.to) {
            routers.push(link.to);
        }
    }
    let into = network.links.iter().filter(|link| routers.contains(&link.to)).count();
    let ports = match into == network.ports.len() {
        true => "all ports".to_owned(),
        false => format!("the ports to {}", few(&neighbours)),
    };
    let routers: Vec<String> = routers.into_iter().map(name).collect();
    let time = match coalesce.adaptive {
        None => match coalesce.since {
            Since::First => coalesce.time.show(),
            Since::Last => format!("{} after the last", coalesce.time.show()),
            Since::Interrupt => format!("until {} after the last one", coalesce.time.show()),
        },
        Some(Adaptive::Rate(_)) => format!("up to {}, by the packet rate,", coalesce.time.show()),
        Some(Adaptive::Dim(_)) => "as DIM decides".to_owned(),
    };
    let frames = match (coalesce.frames, coalesce.adaptive) {
        (None, _) | (_, Some(Adaptive::Dim(_))) => String::new(),
        (Some(frames), _) => format!(" or for {frames} frames"),
    };
    words.push(format!("interrupts of {ports} of {} are delayed {time}{frames}", few(&routers)));
    words
}

/// Reads flow control: pauses of IEEE 802.3x, or of 802.1Qbb.
fn read_flow_control(
    reader: &Reader<'_>,
    network: &Network,
    switches: &[(NodeId, String)],
) -> Result<FlowControl, Error> {
    let of_classes = reader.choose(&PAUSE_KIND.kind)?;
    let stops = match of_classes {
        false => {
            reader.check(&flow_control_keys(of_classes))?;
            Stops::Links(read_thresholds(reader)?)
        }
        true => {
            let of_links = [&THRESHOLDS.xoff, &THRESHOLDS.xon];
            if let Some(key) = of_links.into_iter().find(|key| reader.has(key)) {
                let message = "belongs to each class, as in class = [{ name = \"storage\", xoff = \
                               \"100 kB\" }]";
                return Err(reader.error(key, message));
            }
            reader.check(&flow_control_keys(of_classes))?;
            Stops::Classes(read_stopped(reader, network)?)
        }
    };
    let quanta = reader.read(&PAUSE.quanta)?;
    let named = named(reader, switches)?;
    Ok(FlowControl {
        switches: named.map(|named| named.into_iter().map(|at| switches[at].0).collect()),
        stops,
        reaction: reader.read(&PAUSE.reaction)?,
        quanta: u16::try_from(quanta).unwrap_or(u16::MAX),
        lossless: reader.read(&PAUSE.lossless)?,
    })
}

fn read_thresholds(reader: &Reader<'_>) -> Result<Thresholds, Error> {
    let Size(xoff_bytes) = reader.read(&THRESHOLDS.xoff)?;
    let Size(xon_bytes) = reader.get_or(&THRESHOLDS.xon, Size(xoff_bytes / 2))?;
    if xon_bytes > xoff_bytes {
        return Err(reader.error(&THRESHOLDS.xon, "must not be above xoff"));
    }
    Ok(Thresholds { xoff_bytes, xon_bytes })
}

/// Reads the classes that can be paused one by one. The simulator checks that all queues have them, and its error
/// names the link.
fn read_stopped(reader: &Reader<'_>, network: &Network) -> Result<Vec<StoppedClass>, Error> {
    let example = "class = [{ name = \"storage\", xoff = \"100 kB\" }]";
    let readers = reader.children(&STOPPED.class)?;
    if readers.is_empty() || readers.len() > MAX_STOPPED {
        let message = format!("must name 1 to {MAX_STOPPED} classes, as in {example}");
        return Err(reader.error(&STOPPED.class, message));
    }
    let mut known: Vec<&str> = Vec::new();
    for link in &network.links {
        if let (Some(_), QueueConfig::Classes(config)) = (link.rate, &link.queue) {
            let names = config.classes.iter().map(|class| class.name.as_str());
            known.extend(names.filter(|name| !known.contains(name)).collect::<Vec<_>>());
        }
    }
    if known.is_empty() {
        let message = "needs queues of kind \"classes\" at all links with a rate: use them, or \
                       kind = \"pause\" for whole links";
        return Err(reader.error(&PAUSE_KIND.kind, message));
    }
    let mut stopped: Vec<StoppedClass> = Vec::with_capacity(readers.len());
    for reader in &readers {
        reader.check(&[&CLASS_NAME, &THRESHOLDS])?;
        let name = reader.need_text(&CLASS_NAME.name)?;
        if !known.contains(&name) {
            return Err(reader.error(&CLASS_NAME.name, one_of(name, known.iter().copied())));
        }
        if stopped.iter().any(|class| class.name == name) {
            return Err(
                reader.error(&CLASS_NAME.name, "must differ from that of another class here")
            );
        }
        let thresholds = read_thresholds(reader)?;
        stopped.push(StoppedClass { name: name.to_owned(), thresholds });
    }
    Ok(stopped)
}
