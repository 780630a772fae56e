//! `[network.buffer]`, `[[network.buffers]]`, `[network.flow_control]` and `[network.coalesce]`: what switches have beside the queues
//! of their ports.

use std::collections::HashMap;

use knee_file::units::{Quantity, Size};
use knee_file::{Error, Reader, Value, one_of};
use knee_queue::time::Duration;
use knee_queue::{DynamicThresholdConfig, QueueConfig};
use knee_run::spec::{
    CoalescingPort, FlowControl, Link, LinkId, Network, NodeId, SharedBuffer, StoppedClass, Stops,
    Thresholds,
};

use crate::names::expand_all;
use crate::names::few;
use crate::receiving::read_coalesce;

/// Keys of `[network]` that every topology may have.
pub(crate) const KEYS: &[&str] = &["buffer", "buffers", "flow_control", "coalesce"];

/// IEEE 802.1Q has so many priorities.
const MAX_STOPPED: usize = 8;

const BUFFER_KEYS: &[&str] = &["size", "alpha", "reserved", "record"];

/// Puts it into a network, whose frames have at most `frame_bytes`.
pub(crate) fn read(
    network_reader: &Reader<'_>,
    network: &mut Network,
    frame_bytes: u32,
) -> Result<(), Error> {
    let switches = switches(network);
    let mut found: Vec<Option<SharedBuffer>> = vec![None; switches.len()];
    if let Some(reader) = network_reader.child("buffer")? {
        reader.check(BUFFER_KEYS)?;
        for ((id, name), place) in switches.iter().zip(&mut found) {
            *place = Some(read_buffer(&reader, network, (*id, name), frame_bytes)?);
        }
    }
    for reader in network_reader.children("buffers")? {
        reader.check(&[&["switches"], BUFFER_KEYS].concat())?;
        reader.need_texts("switches", "\"leaf0..leaf3\"")?;
        for at in named(&reader, &switches)?.unwrap_or_default() {
            let (id, name) = &switches[at];
            found[at] = Some(read_buffer(&reader, network, (*id, name), frame_bytes)?);
        }
    }
    network.buffers =
        found.into_iter().flatten().filter(|buffer| !buffer.links.is_empty()).collect();
    if let Some(reader) = network_reader.child("flow_control")? {
        network.flow_control = Some(read_flow_control(&reader, network, &switches)?);
    }
    if let Some(reader) = network_reader.child("coalesce")? {
        network.ports = read_ports(&reader, network, &switches)?;
    }
    Ok(())
}

fn switches(network: &Network) -> Vec<(NodeId, String)> {
    let nodes = network.nodes.iter().zip(0..);
    nodes
        .filter(|(node, _)| node.host.is_none())
        .map(|(node, id)| (id, node.name.clone()))
        .collect()
}

/// The places among the switches of those that the key `switches` names, where it is there.
fn named(reader: &Reader<'_>, switches: &[(NodeId, String)]) -> Result<Option<Vec<usize>>, Error> {
    let Some(texts) = reader.texts("switches")? else { return Ok(None) };
    let wrong = || reader.error("switches", which(switches));
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

/// The memory of one switch, for all of its ports that have a queue.
fn read_buffer(
    reader: &Reader<'_>,
    network: &Network,
    (switch, name): (NodeId, &str),
    frame_bytes: u32,
) -> Result<SharedBuffer, Error> {
    let Size(size_bytes) = reader.need("size", "4 MB")?;
    let Size(reserved_bytes) = reader.get_or("reserved", Size(0))?;
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
                format!("must leave something to share: {name} has {ports} ports with a queue");
            return Err(reader.error("reserved", message));
        }
        Some(shared) if shared.max(reserved_bytes) < u64::from(frame_bytes) => {
            let message =
                format!("must hold one full packet ({frame_bytes} B), or none ever passes");
            return Err(reader.error("size", message));
        }
        Some(_) => {}
    }
    let sampled = reader.flag_or("record", true)?;
    Ok(SharedBuffer { name: format!("buffer {name}"), law, links, sampled })
}

/// What a queue may have of what is free: a number, or a fraction as text.
fn read_alpha(reader: &Reader<'_>) -> Result<f64, Error> {
    let Some(node) = reader.node("alpha") else {
        reader.note("alpha", 1);
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
        reader
            .error("alpha", "must be a number or a fraction from \"1/65536\" to 65536, as in 0.25")
    })?;
    reader.note("alpha", node.json());
    Ok(alpha)
}

/// The ports of software routers: those of all switches, or of some, and there those by which packets of some neighbours come.
fn read_ports(
    reader: &Reader<'_>,
    network: &Network,
    switches: &[(NodeId, String)],
) -> Result<Vec<CoalescingPort>, Error> {
    let coalesce = read_coalesce(reader, &["switches", "from"])?;
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
    if let Some(texts) = reader.texts("from")? {
        let names = expand_all(&texts).map_err(|why| reader.error("from", why))?;
        all.clear();
        for name in &names {
            all.extend(of_neighbour.get(name.as_str()).ok_or_else(|| {
                let shown: String = name.chars().take(40).collect();
                let message = format!(
                    "must name hosts or switches with a cable to such a switch, and \"{shown}\" has none"
                );
                reader.error("from", message)
            })?);
        }
        all.sort_unstable();
        all.dedup();
    }
    Ok(all.into_iter().map(|link| CoalescingPort { link, coalesce }).collect())
}

/// What switches do beside queueing, in words: which of them stop links, and whose interrupts wait.
pub(crate) fn words(network: &Network) -> Vec<String> {
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
            Stops::Classes(classes) => words.extend(classes.iter().map(|class| {
                stops(format!("the class {} of links stops", class.name), class.thresholds)
            })),
        }
    }
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
        None => coalesce.time.show(),
        Some(_) => format!("up to {}, by the packet rate,", coalesce.time.show()),
    };
    let frames =
        coalesce.frames.map_or_else(String::new, |frames| format!(" or for {frames} frames"));
    words.push(format!("interrupts of {ports} of {} wait {time}{frames}", few(&routers)));
    words
}

/// Pauses of IEEE 802.3x, or of 802.1Qbb.
fn read_flow_control(
    reader: &Reader<'_>,
    network: &Network,
    switches: &[(NodeId, String)],
) -> Result<FlowControl, Error> {
    reader.need_text("kind", "pause")?;
    let kinds = [("pause", false), ("pfc", true)];
    let stops = match reader.choice_or("kind", &kinds, "")? {
        false => {
            reader.check(&["kind", "xoff", "xon", "reaction", "quanta", "lossless", "switches"])?;
            Stops::Links(read_thresholds(reader)?)
        }
        true => {
            if let Some(key) = ["xoff", "xon"].into_iter().find(|key| reader.has(key)) {
                let message = "belongs to each class here, as in \
                               class = [{ name = \"storage\", xoff = \"100 kB\" }]";
                return Err(reader.error(key, message));
            }
            reader.check(&["kind", "class", "reaction", "quanta", "lossless", "switches"])?;
            Stops::Classes(read_stopped(reader, network)?)
        }
    };
    let quanta = reader.integer_or("quanta", 1..=u64::from(u16::MAX), u64::from(u16::MAX))?;
    let named = named(reader, switches)?;
    Ok(FlowControl {
        switches: named.map(|named| named.into_iter().map(|at| switches[at].0).collect()),
        stops,
        reaction: reader.get_or("reaction", Duration::from_us(1))?,
        quanta: u16::try_from(quanta).unwrap_or(u16::MAX),
        lossless: reader.flag_or("lossless", true)?,
    })
}

fn read_thresholds(reader: &Reader<'_>) -> Result<Thresholds, Error> {
    let Size(xoff_bytes) = reader.need("xoff", "100 kB")?;
    let Size(xon_bytes) = reader.get_or("xon", Size(xoff_bytes / 2))?;
    if xon_bytes > xoff_bytes {
        return Err(reader.error("xon", "must not be above xoff"));
    }
    Ok(Thresholds { xoff_bytes, xon_bytes })
}

/// The classes that are stopped each by itself. That all queues have them is for the simulator to say, which names the link.
fn read_stopped(reader: &Reader<'_>, network: &Network) -> Result<Vec<StoppedClass>, Error> {
    let example = "class = [{ name = \"storage\", xoff = \"100 kB\" }]";
    let readers = reader.children("class")?;
    if readers.is_empty() || readers.len() > MAX_STOPPED {
        let message = format!("must name 1 to {MAX_STOPPED} classes, as in {example}");
        return Err(reader.error("class", message));
    }
    let mut known: Vec<&str> = Vec::new();
    for link in &network.links {
        if let (Some(_), QueueConfig::Classes(config)) = (link.rate, &link.queue) {
            let names = config.classes.iter().map(|class| class.name.as_str());
            known.extend(names.filter(|name| !known.contains(name)).collect::<Vec<_>>());
        }
    }
    if known.is_empty() {
        let message = "needs queues of kind \"classes\" at all links with a rate, and there are none: \
                       use kind = \"pause\", which stops whole links";
        return Err(reader.error("kind", message));
    }
    let mut stopped: Vec<StoppedClass> = Vec::with_capacity(readers.len());
    for reader in &readers {
        reader.check(&["name", "xoff", "xon"])?;
        let name = reader.need_text("name", "storage")?;
        if !known.contains(&name) {
            return Err(reader.error("name", one_of(name, known.iter().copied())));
        }
        if stopped.iter().any(|class| class.name == name) {
            return Err(reader.error("name", "must differ from that of another class here"));
        }
        let thresholds = read_thresholds(reader)?;
        stopped.push(StoppedClass { name: name.to_owned(), thresholds });
    }
    Ok(stopped)
}
