//! Cables: links in one direction with the queue of their sending end.

use knee_file::keys::{Below, Shape, Table, entries};
use knee_file::{Error, Fields, Reader};
use knee_queue::time::Rate;
use knee_queue::{DropTailConfig, Limit, PortProperties, QueueConfig};
use knee_run::topology::Cable;

use crate::queues::read_queue;

/// Kind of node at the sending end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum End {
    /// A host. Its queue is unlimited by default, because it is never the subject of an experiment.
    Host,
    /// A switch. The file must give its queue.
    Switch,
}

pub(super) struct Cables<'r, 'a> {
    pub(super) network: &'r Reader<'a>,
    pub(super) frame_bytes: u32,
    /// Rate of cables that do not say theirs.
    pub(super) rate: Option<Rate>,
}

/// The keys of a cable.
pub(crate) static CABLE: Fields =
    Fields { show: |v| nothing().fields(v), tables: |queue| queue.table(&crate::queues::TABLE) };

/// A link in one direction.
pub(crate) static TABLE: Table = Table {
    name: "cable",
    says: "A link in one direction, with the sender's queue.",
    shape: || Shape::Keys(entries(&[&CABLE])),
};

impl Cables<'_, '_> {
    /// Reads the cable of a required key.
    pub(super) fn need(&self, key: &Below, end: End, recorded: bool) -> Result<Cable, Error> {
        let reader = self.network.need_child(key)?;
        self.read(&reader, end, recorded)
    }

    /// Reads the cable of a key. Its default is `forth` without its losses.
    pub(super) fn back_of(&self, key: &Below, forth: &Cable) -> Result<Cable, Error> {
        match self.network.child(key)? {
            Some(back) => self.read(&back, End::Switch, false),
            None => Ok(Cable { sampled: false, loss: 0.0, ..forth.clone() }),
        }
    }

    pub(super) fn read(
        &self,
        reader: &Reader<'_>,
        end: End,
        recorded: bool,
    ) -> Result<Cable, Error> {
        reader.check(&[&CABLE])?;
        self.read_checked(reader, end, recorded)
    }

    /// Reads a cable like `read`, from a table whose keys are checked already.
    pub(super) fn read_checked(
        &self,
        reader: &Reader<'_>,
        end: End,
        recorded: bool,
    ) -> Result<Cable, Error> {
        let mut cable = Cable { sampled: recorded, rate: self.rate, ..nothing() };
        reader.fill_rest(self.frame_bytes, |v| cable.fields(v))?;
        cable.sampled &= cable.rate.is_some();
        match (cable.rate, reader.child("queue")?) {
            (Some(rate), Some(queue)) => {
                let has_burst = reader.has("burst");
                let place = PortProperties { frame_bytes: self.frame_bytes, rate, has_burst };
                cable.queue = read_queue(&queue, place)?;
            }
            (Some(_), None) if end == End::Switch => {
                return Err(reader.error(
                    "queue",
                    "missing, as in queue = { kind = \"droptail\", limit = \"500 pkts\" }",
                ));
            }
            _ => {}
        }
        Ok(cable)
    }
}

/// Returns whether a queue draws anything.
pub(super) fn draws(queue: &QueueConfig) -> bool {
    let mut draws = false;
    queue.clone().seed(&mut || {
        draws = true;
        0
    });
    draws
}

pub(super) fn unlimited() -> QueueConfig {
    QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(u64::MAX) })
}

/// Returns a cable without rate and delay, as if the ends were the same place.
pub(super) fn nothing() -> Cable {
    Cable::new(None, unlimited())
}
