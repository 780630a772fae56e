//! Cables: links in one direction with the queue of their sending end.

use knee_file::keys::{Below, Choice, Key};
use knee_file::units::{Burst, Overhead, Share};
use knee_file::{Error, Reader, keys};
use knee_queue::time::{Duration, Rate};
use knee_queue::{DropTailConfig, Limit, PortProperties, QueueConfig};
use knee_run::spec::Serialisation;
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
}

keys! {
    /// A link in one direction, with the sender's queue.
    pub(crate) static CABLE: CableKeys = "cable" {
        /// Rate. Without it: only delay, no queue.
        rate: Key<Rate>,
        /// Depth of a token bucket, as tbf, in full packets.
        burst: Key<Burst> = usually("none"),
        /// Bytes per frame on the wire, not in the queue: `24 B` is Ethernet's preamble, FCS and gap.
        overhead: Key<Overhead> = usually("none"),
        /// Propagation delay.
        delay: Key<Duration> = or(Duration::ZERO),
        /// Random extra delay per packet, 0 to this; may reorder.
        jitter: Key<Duration> = or(Duration::ZERO),
        /// Random loss before the queue.
        loss: Key<Share> = or(Share(0.0)),
        /// Unit of loss: a packet, or a burst of one socket.
        loss_per: Choice<bool> = of(&[("packet", false), ("burst", true)]).or("packet"),
        /// Random duplication before the queue, as netem's.
        duplicate: Key<Share> = or(Share(0.0)),
        /// Queue of the sending end.
        queue: Below = table(&crate::queues::TABLE).usually("unlimited at hosts; required at switches"),
        /// Record the queue.
        record: Key<bool> = usually("true for the bottleneck and ports to receivers"),
    }
}

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
        let rate = reader.get(&CABLE.rate)?;
        if rate.is_none() {
            for key in [
                CABLE.queue.as_ref(),
                CABLE.burst.as_ref(),
                CABLE.overhead.as_ref(),
                CABLE.record.as_ref(),
            ] {
                if reader.has(key) {
                    return Err(reader.error(key, "needs a rate"));
                }
            }
        }
        let has_burst = reader.has(&CABLE.burst);
        let queue = match (rate, reader.child(&CABLE.queue)?) {
            (Some(rate), Some(queue)) => read_queue(
                &queue,
                PortProperties { frame_bytes: self.frame_bytes, rate, has_burst },
            )?,
            (Some(_), None) if end == End::Switch => {
                return Err(reader.error(
                    &CABLE.queue,
                    "missing, as in queue = { kind = \"droptail\", limit = \"500 pkts\" }",
                ));
            }
            _ => unlimited(),
        };
        Ok(Cable {
            rate,
            serialisation: self.serialisation(reader)?,
            delay: reader.read(&CABLE.delay)?,
            jitter: reader.read(&CABLE.jitter)?,
            loss: reader.read(&CABLE.loss)?.0,
            overhead_bytes: reader.get(&CABLE.overhead)?.map_or(0, |overhead| overhead.0),
            loses_bursts: loses_bursts(reader)?,
            duplicate: reader.read(&CABLE.duplicate)?.0,
            queue,
            sampled: rate.is_some() && reader.get_or(&CABLE.record, recorded)?,
        })
    }

    fn serialisation(&self, reader: &Reader<'_>) -> Result<Serialisation, Error> {
        let burst_bytes = match reader.get(&CABLE.burst)? {
            None => return Ok(Serialisation::StoreAndForward),
            Some(Burst::Bytes(bytes)) => bytes,
            Some(Burst::Pkts(pkts)) => pkts.saturating_mul(self.frame_bytes),
        };
        if burst_bytes < self.frame_bytes {
            return Err(reader.error(
                &CABLE.burst,
                format!("must hold one full packet ({} B)", self.frame_bytes),
            ));
        }
        Ok(Serialisation::TokenBucket { burst_bytes })
    }
}

/// Reads whether losses drop whole bursts. The key requires a loss.
fn loses_bursts(reader: &Reader<'_>) -> Result<bool, Error> {
    if reader.has(&CABLE.loss_per) && !reader.has(&CABLE.loss) {
        return Err(reader.error(&CABLE.loss_per, "needs loss"));
    }
    reader.choose(&CABLE.loss_per)
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
