//! `[[network.change]]`: links that fail, slow down or lose packets during a run.

use std::collections::HashMap;

use knee_file::keys::{Key, List, Shape, Table, Text, entries};
use knee_file::units::{Quantity, Share};
use knee_file::{Error, Reader, keys};
use knee_queue::time::{Duration, Rate, Time};
use knee_run::flow_control::ways_back;
use knee_run::spec::{Changes, Link, LinkChange, LinkId, Network, NewState, RouteChange};

use crate::names::{expand_all, few};

/// Largest number of changes of links in a file, each end of a change by itself.
const MAX_CHANGES: u64 = 200_000;

/// A list of links and what happens to them.
pub(crate) static TABLE: Table = Table {
    name: "change",
    says: "Links that change during the run: docs/queues.md.",
    shape: || Shape::Keys(entries(&[&KEYS])),
};

keys! {
    /// A change of links.
    static KEYS: ChangeKeys = "link-change" {
        /// Links by name, or ranges.
        links: Key<List<Text>> = needed("leaf0-spine1"),
        /// Also the opposite directions.
        both: Key<bool> = or(false),
        /// Start.
        at: Key<Duration> = needed("20 ms"),
        /// End: the links are as before.
        until: Key<Duration> = usually("the end of the run"),
        /// Repeat with this period.
        every: Key<Duration> = at_least("1 us").like("10 ms").usually("once"),
        /// Number of repetitions, the first included.
        times: Key<u64> = within(2, 100_000),
        /// All packets are lost: waiting, on the wire and arriving.
        down: Key<bool> = or(false),
        /// Time until routes avoid a link that is down, and use it again.
        reroute: Key<Duration> = usually("never"),
        /// Rate.
        rate: Key<Rate>,
        /// Propagation delay.
        delay: Key<Duration>,
        /// Random loss before the queue.
        loss: Key<Share>,
    }
}

/// An entry.
struct Change {
    links: Vec<LinkId>,
    at: Duration,
    until: Option<Duration>,
    every: Duration,
    times: u64,
    reroute: Option<Duration>,
    states: Vec<NewState>,
}

/// Reads the changes of a network's links.
pub(crate) fn read(readers: &[Reader<'_>], network: &mut Network) -> Result<(), Error> {
    if readers.is_empty() {
        return Ok(());
    }
    let by_name: HashMap<String, LinkId> =
        network.links.iter().zip(0..).map(|(link, id)| (network.link_name(link), id)).collect();
    let mut count: u64 = 0;
    let mut taken = Vec::new();
    let mut changes = Changes::default();
    for (entry, reader) in readers.iter().enumerate() {
        let change = read_change(reader, network, &by_name)?;
        let each = change.links.len() as u64 * change.states.len() as u64 * 2;
        count = count.saturating_add(each.saturating_mul(change.times));
        if count > MAX_CHANGES {
            let key = if change.times > 1 { KEYS.times.as_ref() } else { KEYS.links.as_ref() };
            let message = format!("must give at most {MAX_CHANGES} changes in all, not {count}");
            return Err(reader.error(key, message));
        }
        for turn in 0..change.times {
            let later = Duration::from_ps(change.every.ps().saturating_mul(turn));
            let (at, until) = (change.at + later, change.until.map(|until| until + later));
            for &link in &change.links {
                for &state in &change.states {
                    taken.push(Taken { link, kind: kind(state), at, until, entry });
                    let spec = &network.links[link as usize];
                    add(&mut changes, spec, (link, state), (at, until), change.reroute);
                }
            }
        }
    }
    if let Some(second) = find_overlap(&mut taken) {
        let name = network.link_name(&network.links[second.link as usize]);
        let message =
            format!("comes while {name} is changed already: let the other change end before");
        return Err(readers[second.entry].error(&KEYS.at, message));
    }
    // What ends comes before what begins at the same time.
    changes.links.sort_by_key(|change| (change.at, begins(network, change)));
    changes.routes.sort_by_key(|change| (change.at, change.avoids));
    network.changes = changes;
    Ok(())
}

/// Refuses changes that begin when the run has ended.
pub(crate) fn check_starts(readers: &[Reader<'_>], end: Duration) -> Result<(), Error> {
    for reader in readers {
        if reader.read(&KEYS.at)? >= end {
            let message = format!("must be before the end of the run, {}", end.show());
            return Err(reader.error(&KEYS.at, message));
        }
    }
    Ok(())
}

/// Reports whether a change is not the return to what the network says.
fn begins(network: &Network, change: &LinkChange) -> bool {
    let link = &network.links[change.link as usize];
    change.to != usual(link, change.to)
}

/// Returns the kind of a change: two of a kind must not overlap.
fn kind(state: NewState) -> u8 {
    match state {
        NewState::Down | NewState::Up => 0,
        NewState::Rate(_) => 1,
        NewState::Delay(_) => 2,
        NewState::Loss(_) => 3,
    }
}

/// Returns the state of a link after a change.
fn usual(link: &Link, changed: NewState) -> NewState {
    match changed {
        NewState::Down | NewState::Up => NewState::Up,
        NewState::Rate(rate) => NewState::Rate(link.rate.unwrap_or(rate)),
        NewState::Delay(_) => NewState::Delay(link.delay),
        NewState::Loss(_) => NewState::Loss(link.loss),
    }
}

/// The time for which an entry changes a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Taken {
    link: LinkId,
    kind: u8,
    at: Duration,
    until: Option<Duration>,
    entry: usize,
}

/// Returns a change that begins before one of the same link and kind has ended.
fn find_overlap(taken: &mut [Taken]) -> Option<Taken> {
    taken.sort_unstable();
    let overlaps = |pair: &&[Taken]| {
        let (one, other) = (pair[0], pair[1]);
        (one.link, one.kind) == (other.link, other.kind)
            && one.until.is_none_or(|until| until > other.at)
    };
    taken.windows(2).find(overlaps).map(|pair| pair[1])
}

/// Adds a change of a link, its end, and what routes make of it.
fn add(
    changes: &mut Changes,
    spec: &Link,
    (link, to): (LinkId, NewState),
    (at, until): (Duration, Option<Duration>),
    reroute: Option<Duration>,
) {
    let ends = [(Some(at), to), (until, usual(spec, to))];
    for (at, to) in ends.into_iter().filter_map(|(at, to)| Some((at?, to))) {
        changes.links.push(LinkChange { at: Time::ZERO + at, link, to });
        if let Some(reroute) = reroute {
            let at = Time::ZERO + at + reroute;
            changes.routes.push(RouteChange { at, link, avoids: to == NewState::Down });
        }
    }
}

fn read_change(
    reader: &Reader<'_>,
    network: &Network,
    by_name: &HashMap<String, LinkId>,
) -> Result<Change, Error> {
    reader.check(&[&KEYS])?;
    let links = read_links(reader, network, by_name)?;
    let (at, until) = (reader.read(&KEYS.at)?, reader.get(&KEYS.until)?);
    if until.is_some_and(|until| until <= at) {
        return Err(reader.error(&KEYS.until, "must be after at"));
    }
    let (every, times) = (reader.get(&KEYS.every)?, reader.get(&KEYS.times)?);
    match (every, times, until) {
        (Some(_), None, _) => return Err(reader.error(&KEYS.every, "needs times, as in times = 5")),
        (None, Some(_), _) => {
            return Err(reader.error(&KEYS.times, "needs every, as in every = \"10 ms\""));
        }
        (Some(_), _, None) => return Err(reader.error(&KEYS.every, "needs until")),
        (Some(every), _, Some(until)) if at + every < until => {
            return Err(reader.error(&KEYS.every, "must be at least the time from at to until"));
        }
        _ => {}
    }
    let is_down = reader.read(&KEYS.down)?;
    let reroute = reader.get(&KEYS.reroute)?;
    let rate = reader.get(&KEYS.rate)?.map(NewState::Rate);
    let delay = reader.get(&KEYS.delay)?.map(NewState::Delay);
    let loss = reader.get(&KEYS.loss)?.map(|loss| NewState::Loss(loss.0));
    let down = is_down.then_some(NewState::Down);
    let states: Vec<NewState> = [down, rate, delay, loss].into_iter().flatten().collect();
    if states.is_empty() {
        return Err(reader.error(&KEYS.down, "missing: give down = true, or rate, delay or loss"));
    }
    if is_down && states.len() > 1 {
        return Err(
            reader.error(&KEYS.down, "conflicts with rate, delay and loss: leave these out")
        );
    }
    if reroute.is_some() && !is_down {
        return Err(reader.error(&KEYS.reroute, "needs down = true"));
    }
    if rate.is_some() {
        if let Some(link) = links.iter().find(|link| network.links[**link as usize].rate.is_none())
        {
            let name = network.link_name(&network.links[*link as usize]);
            let message = format!("must name links with a rate: {name} has none");
            return Err(reader.error(&KEYS.rate, message));
        }
    }
    let (every, times) = (every.unwrap_or(Duration::ZERO), times.unwrap_or(1));
    Ok(Change { links, at, until, every, times, reroute, states })
}

/// Returns the links of the key, each once, and with `both` those back.
fn read_links(
    reader: &Reader<'_>,
    network: &Network,
    by_name: &HashMap<String, LinkId>,
) -> Result<Vec<LinkId>, Error> {
    let texts = reader.need_texts(&KEYS.links)?;
    let names = expand_all(&texts).map_err(|_| {
        let why = "must be links or ranges of links, as in \"leaf0-spine0..leaf0-spine3\"";
        reader.error(&KEYS.links, why)
    })?;
    let mut links = Vec::with_capacity(names.len());
    for name in &names {
        links.push(*by_name.get(name.as_str()).ok_or_else(|| {
            let shown: String = name.chars().take(60).collect();
            let all: Vec<String> =
                network.links.iter().map(|link| network.link_name(link)).collect();
            let message = format!(
                "must name links of this network ({}): \"{shown}\" does not exist",
                few(&all)
            );
            reader.error(&KEYS.links, message)
        })?);
    }
    if reader.read(&KEYS.both)? {
        let ways_back = ways_back(network);
        for forth in links.clone() {
            links.push(ways_back[forth as usize].ok_or_else(|| {
                let name = network.link_name(&network.links[forth as usize]);
                let message = format!("{name} has no opposite direction: leave both out");
                reader.error(&KEYS.both, message)
            })?);
        }
    }
    links.sort_unstable();
    links.dedup();
    Ok(links)
}

/// Describes the first changes of a network, one sentence for each time and state.
pub(crate) fn words(network: &Network) -> Vec<String> {
    let mut words: Vec<(String, Vec<String>)> = Vec::new();
    let mut more = 0;
    for change in &network.changes.links {
        let at = change.at.since(Time::ZERO).show();
        let what = match change.to {
            NewState::Down => "down".to_owned(),
            NewState::Up => "up again".to_owned(),
            NewState::Rate(rate) => rate.show(),
            NewState::Delay(delay) => format!("delay {}", delay.show()),
            NewState::Loss(loss) => format!("loss {}", Share(loss).show()),
        };
        let head = format!("{what} at {at}: ");
        let name = network.link_name(&network.links[change.link as usize]);
        match words.iter().position(|(known, _)| *known == head) {
            Some(at) => words[at].1.push(name),
            None if words.len() < MOST_WORDS => words.push((head, vec![name])),
            None => more += 1,
        }
    }
    let mut words: Vec<String> =
        words.into_iter().map(|(head, names)| head + &few(&names)).collect();
    if more > 0 {
        words.push(format!("{more} more changes of links"));
    }
    words
}

/// The most sentences about changes.
const MOST_WORDS: usize = 8;
