//! `kind = "shuffle"`: transfers from each to each, so many at a time.

use std::sync::Arc;

use knee_file::keys::{Choice, Key, List};
use knee_file::units::Size;
use knee_file::{Error, Reader, keys};
use knee_queue::time::Time;
use knee_run::spec::{Flow, Run, Sequence, Series};

use super::connections::{CONNECTIONS, Connections, Rounds};
use super::pairs::BETWEEN;
use super::{
    COMMON, Described, EntryInRun, EntryParts, EntryReader, Group, MAX_FLOWS, NAMED, Pattern,
    TIMED, TrafficSpec,
};
use super::{incast, rounds};
use crate::metric::{Kind, Measured};
use crate::random::Random;

keys! {
    /// Transfers from each to each.
    static KEYS: ShuffleKeys = "shuffle" {
        /// Transfer size, or one per flow.
        size: Key<List<Size>> = needed("10 kB"),
        /// Rounds, one after another, on new connections.
        rounds: Key<u64> = or(1).within(1, MAX_FLOWS),
        /// Parallel transfers per host.
        parallel: Key<u32> = or(4).within(1, MAX_FLOWS),
        /// Count parallel transfers per sender or receiver.
        per: Choice<Per> = of(&[("sender", Per::Sender), ("receiver", Per::Receiver)]).or("receiver"),
        /// First transfer: to the next host, or random.
        order: Choice<Turn> = of(&[("rotated", Turn::Rotated), ("random", Turn::Random)]).or("rotated"),
    }
}

pub(super) static SHUFFLE: Described =
    Described { keys: &[&NAMED, &BETWEEN, &COMMON, &TIMED, &CONNECTIONS, &KEYS], read };

/// Each host has at most `parallel` transfers at a time. Rounds follow each other as in incast.
#[derive(Debug)]
struct Shuffle {
    parallel: u32,
    per: Per,
    order: Turn,
}

/// The side at which parallel transfers are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Per {
    Sender,
    Receiver,
}

/// Order of a host's transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Each host begins with the next one in the list.
    Rotated,
    /// A random order for each host and round.
    Random,
}

fn read(entry: &EntryReader<'_>) -> Result<EntryParts, Error> {
    let reader = entry.reader;
    let pairs = entry.all_pairs()?;
    let rounds = |reader: &Reader<'_>| {
        Ok(Rounds { count: reader.read(&KEYS.rounds)?, wait: true, ..Rounds::ONE })
    };
    let connections = Connections::read(entry, rounds, incast::read_sizes)?;
    let flows = (pairs.len() as u64).saturating_mul(connections.rounds.count);
    let key = if reader.has(&KEYS.rounds) { KEYS.rounds.as_ref() } else { BETWEEN.to.as_ref() };
    rounds::check_flows(reader, key, flows)?;
    let shuffle = Shuffle {
        parallel: reader.read(&KEYS.parallel)?,
        per: reader.choose(&KEYS.per)?,
        order: reader.choose(&KEYS.order)?,
    };
    let (connections, pattern) = (Some(connections), Arc::new(shuffle));
    Ok(EntryParts { kind: Kind::Shuffle, pairs, connections, pattern })
}

impl Pattern for Shuffle {
    fn build(&self, entry: &TrafficSpec, in_run: &EntryInRun, run: &mut Run) {
        let first = entry.connect(in_run, run);
        let (start, mut random) = (Time::ZERO + entry.start, in_run.random(6));
        let whose = |flow: &Flow| if self.per == Per::Sender { flow.from } else { flow.to };
        let flows = &mut run.flows[first..];
        let per_round = flows.len() / entry.rounds() as usize;
        let mut series = Series::default();
        for (round, flows) in flows.chunks_mut(per_round).enumerate() {
            let mut lanes = Vec::new();
            for (place, mut members) in rounds::by_host(flows, whose).into_values().enumerate() {
                match self.order {
                    Turn::Rotated => {
                        let length = members.len();
                        members.rotate_left(place % length);
                    }
                    Turn::Random => shuffle(&mut members, &mut random),
                }
                if round == 0 {
                    // The start time of waiting flows counts from their turn, not from the start of the entry.
                    for i in members.iter().skip(self.parallel as usize) {
                        flows[*i].start = Time::ZERO + flows[*i].start.since(start);
                    }
                }
                let flows = members.into_iter().map(|i| (first + round * per_round + i) as u32);
                lanes.push(Sequence { flows: flows.collect(), parallel: self.parallel });
            }
            series.rounds.push(lanes);
        }
        run.schedule.series.push(series);
    }

    fn measure(&self, measured: &mut Measured, group: &Group<'_>) {
        group.measure_transfers(measured);
        rounds::measure(measured, group);
    }
}

/// Shuffles uniformly (Fisher and Yates).
fn shuffle(all: &mut [usize], random: &mut Random) {
    for last in (1..all.len()).rev() {
        all.swap(last, random.below(last + 1));
    }
}
