//! Brings the nodes of a trace into an order: those that belong together are found, and each is behind what it waits for.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use knee_file::Error;

use super::read::{Does, Traces};

/// What is carried out at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unit {
    /// A node.
    Alone(u32),
    /// An operation, by its number.
    Together(u32),
}

/// Nodes, and which of them belong together.
pub(super) struct Units {
    /// All of them; each waits only for those before it.
    pub(super) order: Vec<Unit>,
    /// The nodes of each operation, in the order of its group's ranks.
    pub(super) operations: Vec<Vec<u32>>,
    /// The node that sends what a node receives.
    pub(super) sender: HashMap<u32, u32>,
}

impl Units {
    /// Matches and orders the nodes of all ranks.
    pub(super) fn of(traces: &Traces) -> Result<Units, Error> {
        let operations = operations(traces)?;
        let sender = senders(traces)?;
        let mut units = Units { order: Vec::new(), operations, sender };
        units.order = units.sorted(traces)?;
        Ok(units)
    }

    /// Sorts units behind those that they wait for; of those that may be next, the one that is first in its file.
    fn sorted(&self, traces: &Traces) -> Result<Vec<Unit>, Error> {
        let nodes = traces.nodes.len();
        let mut unit_of: Vec<Unit> = (0..nodes as u32).map(Unit::Alone).collect();
        for (members, number) in self.operations.iter().zip(0..) {
            members.iter().for_each(|node| unit_of[*node as usize] = Unit::Together(number));
        }
        // A unit is counted at its first node.
        let place = |unit: Unit| match unit {
            Unit::Alone(node) => node,
            Unit::Together(number) => self.operations[number as usize][0],
        };
        let before = |node: usize| {
            let sender = self.sender.get(&(node as u32));
            traces.after(node).iter().chain(sender).copied()
        };
        let mut waits_for = vec![0u32; nodes];
        let mut first_next = vec![0u32; nodes + 1];
        for node in 0..nodes {
            for before in before(node) {
                waits_for[place(unit_of[node]) as usize] += 1;
                first_next[before as usize + 1] += 1;
            }
        }
        for at in 1..first_next.len() {
            first_next[at] += first_next[at - 1];
        }
        let mut fill = first_next.clone();
        let mut next = vec![0u32; first_next[nodes] as usize];
        for node in 0..nodes {
            for before in before(node) {
                let at = &mut fill[before as usize];
                next[*at as usize] = node as u32;
                *at += 1;
            }
        }
        let rank_and_place = |unit: Unit| {
            let node = place(unit) as usize;
            let rank = traces.rank(node);
            Reverse((node - traces.first[rank], rank, unit))
        };
        let is_first = |node: &u32| place(unit_of[*node as usize]) == *node;
        let free =
            (0..nodes as u32).filter(|node| waits_for[*node as usize] == 0 && is_first(node));
        let mut free: BinaryHeap<_> =
            free.map(|node| rank_and_place(unit_of[node as usize])).collect();
        let mut order = Vec::new();
        while let Some(Reverse((_, _, unit))) = free.pop() {
            order.push(unit);
            let members = match &unit {
                Unit::Alone(node) => std::slice::from_ref(node),
                Unit::Together(number) => self.operations[*number as usize].as_slice(),
            };
            for node in members {
                let [from, until] = [*node, node + 1].map(|at| first_next[at as usize] as usize);
                for later in &next[from..until] {
                    let unit = unit_of[*later as usize];
                    let count = &mut waits_for[place(unit) as usize];
                    *count -= 1;
                    if *count == 0 {
                        free.push(rank_and_place(unit));
                    }
                }
            }
        }
        match waits_for.iter().position(|count| *count > 0) {
            Some(stuck) => Err(traces.error(
                stuck,
                "waits for nodes that wait for it, too, or for others that do, here or at another rank",
            )),
            None => Ok(order),
        }
    }
}

/// Finds the nodes of each operation: the first ones of a group at all its ranks, then the second ones and so on.
fn operations(traces: &Traces) -> Result<Vec<Vec<u32>>, Error> {
    // The nodes of each group, by rank.
    let mut of_group: Vec<HashMap<u32, VecDeque<u32>>> = vec![HashMap::new(); traces.groups.len()];
    for (node, number) in traces.nodes.iter().zip(0u32..) {
        if let Does::Collective { group, .. } = node.does {
            let rank = traces.rank(number as usize) as u32;
            of_group[group as usize].entry(rank).or_default().push_back(number);
        }
    }
    let mut operations = Vec::new();
    for (nodes, ranks) in of_group.iter_mut().zip(&traces.groups) {
        loop {
            let members = ranks.iter().map(|rank| nodes.get_mut(rank)?.pop_front());
            let members: Vec<Option<u32>> = members.collect();
            let Some(first) = members.iter().flatten().next().copied() else { break };
            let of_first = traces.nodes[first as usize].does;
            let mut all = Vec::with_capacity(members.len());
            for (member, rank) in members.iter().zip(ranks) {
                let Some(member) = *member else {
                    let why = format!(
                        "rank {rank} of its process group takes no part: its file has fewer operations of the group"
                    );
                    return Err(traces.error(first as usize, why));
                };
                if !is_same(&of_first, &traces.nodes[member as usize].does) {
                    let why = format!(
                        "differs in comm_type, comm_size or comm_src from node {} of rank {rank}, which is the same operation by \
                         its place among those of the process group",
                        traces.nodes[member as usize].id
                    );
                    return Err(traces.error(first as usize, why));
                }
                all.push(member);
            }
            operations.push(all);
        }
    }
    Ok(operations)
}

/// Whether two nodes say the same of an operation.
fn is_same(one: &Does, other: &Does) -> bool {
    let about = |does: &Does| match *does {
        Does::Collective { kind, bytes, root, .. } => Some((kind, bytes, root)),
        _ => None,
    };
    about(one) == about(other)
}

/// Finds the sender of each message that is received: the first one from a rank to another with the same tag, and so on.
fn senders(traces: &Traces) -> Result<HashMap<u32, u32>, Error> {
    let mut sent: HashMap<(u32, u32, u64), VecDeque<(u32, u64)>> = HashMap::new();
    for (node, number) in traces.nodes.iter().zip(0u32..) {
        if let Does::Sends { to, tag, bytes } = node.does {
            let from = traces.rank(number as usize) as u32;
            sent.entry((from, to, tag)).or_default().push_back((number, bytes));
        }
    }
    let mut senders = HashMap::new();
    for (node, number) in traces.nodes.iter().zip(0u32..) {
        let Does::Receives { from, tag, bytes } = node.does else { continue };
        let to = traces.rank(number as usize) as u32;
        let sender = sent.get_mut(&(from, to, tag)).and_then(VecDeque::pop_front);
        let Some((sender, sent_bytes)) = sender else {
            let why = format!("receives what rank {from} does not send to it with the tag {tag}");
            return Err(traces.error(number as usize, why));
        };
        if sent_bytes != bytes {
            let why = format!(
                "receives {bytes} bytes, but node {} of rank {from} sends {sent_bytes}",
                traces.nodes[sender as usize].id
            );
            return Err(traces.error(number as usize, why));
        }
        senders.insert(number, sender);
    }
    let left = sent.values().filter_map(|nodes| nodes.front()).map(|(node, _)| *node).min();
    match left {
        Some(node) => {
            let Does::Sends { to, tag, .. } = traces.nodes[node as usize].does else {
                return Ok(senders);
            };
            let why = format!("sends what rank {to} does not receive with the tag {tag}");
            Err(traces.error(node as usize, why))
        }
        None => Ok(senders),
    }
}
