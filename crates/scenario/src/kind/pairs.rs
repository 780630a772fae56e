//! Hosts of `from` and `to`, and pairs of them.

use knee_file::keys::{Key, List, Text};
use knee_file::{Error, Reader, keys};
use knee_run::spec::NodeId;

use super::connections::TIMED_CONNECTIONS;
use super::{EntryReader, MAX_FLOWS};
use crate::network::NetworkSpec;

keys! {
    /// Hosts of traffic.
    pub(super) static BETWEEN: BetweenKeys = "between" {
        /// Connecting hosts: names, or ranges as `s1..s10`.
        from: Key<List<Text>> = needed("s1..s10"),
        /// Listening hosts: one, all from one, or pair by pair.
        to: Key<List<Text>> = needed("s1..s10"),
    }
}

/// Hosts of `from` and of `to`.
pub(super) type FromTo = (Vec<NodeId>, Vec<NodeId>);
type Pairs = Vec<(NodeId, NodeId)>;

/// Reads the hosts of `from` and `to`.
pub(super) fn read_hosts(reader: &Reader<'_>, network: &NetworkSpec) -> Result<FromTo, Error> {
    let hosts = |key: &Key<List<Text>>| -> Result<Vec<NodeId>, Error> {
        let texts = reader.need_texts(key)?;
        network.hosts_of(&texts).map_err(|why| reader.error(key, why))
    };
    Ok((hosts(&BETWEEN.from)?, hosts(&BETWEEN.to)?))
}

impl EntryReader<'_> {
    /// Pairs hosts one to one, all to one, or one to all.
    pub(super) fn pairs(&self) -> Result<Pairs, Error> {
        let pairs: Pairs = match (self.hosts.0.as_slice(), self.hosts.1.as_slice()) {
            (from, [to]) => from.iter().map(|from| (*from, *to)).collect(),
            ([from], to) => to.iter().map(|to| (*from, *to)).collect(),
            (from, to) if from.len() == to.len() => {
                from.iter().copied().zip(to.iter().copied()).collect()
            }
            (from, to) => {
                let message = format!(
                    "must name one host, or as many as \"from\" ({}), not {}",
                    from.len(),
                    to.len()
                );
                return Err(self.reader.error(&BETWEEN.to, message));
            }
        };
        match pairs.iter().find(|(from, to)| from == to) {
            Some((host, _)) => {
                let message =
                    format!("must not name {}, which is in \"from\" too", self.network.name(*host));
                Err(self.reader.error(&BETWEEN.to, message))
            }
            None => Ok(pairs),
        }
    }

    /// Pairs every host of `from` with every other host of `to`.
    pub(super) fn all_pairs(&self) -> Result<Pairs, Error> {
        let (from, to) = &self.hosts;
        if (from.len() as u64).saturating_mul(to.len() as u64) > 2 * MAX_FLOWS {
            let message = format!("must give at most {MAX_FLOWS} flows in all, from each to each");
            return Err(self.reader.error(&BETWEEN.to, message));
        }
        let pairs = from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to)));
        let pairs: Pairs = pairs.filter(|(from, to)| from != to).collect();
        if pairs.is_empty() {
            let message = "must name a host that is not in \"from\"";
            return Err(self.reader.error(&BETWEEN.to, message));
        }
        Ok(pairs)
    }

    /// Repeats the pairs `flows` times. Flow i of each pair comes before flow i + 1 of any pair.
    pub(super) fn repeated(&self, pairs: &[(NodeId, NodeId)]) -> Result<Pairs, Error> {
        let flows = self.reader.read(&TIMED_CONNECTIONS.flows)?;
        if flows.saturating_mul(pairs.len() as u64) > MAX_FLOWS {
            let message =
                format!("must give at most {MAX_FLOWS} flows in all ({} pairs)", pairs.len());
            return Err(self.reader.error(&TIMED_CONNECTIONS.flows, message));
        }
        Ok((0..flows).flat_map(|_| pairs.iter().copied()).collect())
    }
}
