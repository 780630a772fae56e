//! Links whose traffic is alike.

use std::collections::HashMap;

/// What two links must have in common to share a simulation: per kind of flow and power of four of its packets, the number
/// of flows, rounded.
type Likeness<K> = Vec<((K, u32), u32)>;

/// Rounds a number of flows: exact up to 4, then steps of about a fifth.
fn rounded(flows: u32) -> u32 {
    match flows {
        0..=4 => flows,
        more => 4 + (4.0 * (f64::from(more) / 4.0).log2()).round() as u32,
    }
}

/// Returns for each link the first link with alike traffic: itself, if there is none before it, or if it needs no
/// simulation. `members` tells kind and size of each flow of a link.
pub(crate) fn leaders<K: Copy + Ord + std::hash::Hash>(
    links: usize,
    needs: impl Fn(usize) -> bool,
    members: impl Fn(usize) -> Vec<(K, u64)>,
) -> Vec<usize> {
    let mut first: HashMap<Likeness<K>, usize> = HashMap::new();
    let leader = |link: usize| {
        if !needs(link) {
            return link;
        }
        let mut counts: std::collections::BTreeMap<(K, u32), u32> = Default::default();
        for (kind, pkts) in members(link) {
            *counts.entry((kind, pkts.max(1).ilog2() / 2)).or_default() += 1;
        }
        let likeness = counts.into_iter().map(|(of, flows)| (of, rounded(flows))).collect();
        *first.entry(likeness).or_insert(link)
    };
    (0..links).map(leader).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_links_follow_the_first() {
        let members = [
            vec![(0, 3), (0, 70)],
            vec![(0, 70), (0, 3)],
            vec![(1, 3), (0, 70)],
            vec![(0, 3), (0, 70)],
        ];
        let all = leaders(4, |link| link != 3, |link| members[link].clone());
        assert_eq!(all, [0, 0, 2, 3]);
        assert_eq!([1, 4, 5, 6, 8, 100, 101].map(rounded), [1, 4, 5, 6, 8, 23, 23]);
    }
}
