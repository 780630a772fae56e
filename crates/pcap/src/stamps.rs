//! What packets are numbered and stamped with by their sender: IP identifications and timestamps.

/// Whether a sender's IP identifications count its packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ids {
    last: Option<u16>,
    pub(crate) near: u32,
    pub(crate) all: u32,
}

impl Ids {
    /// How far apart two that follow each other may be: 64 KiB that are cut into segments take one each.
    const NEAR: u16 = 64;

    pub(crate) fn count(&mut self, id: Option<u16>) {
        let Some(id) = id else { return };
        if let Some(last) = self.last.replace(id) {
            self.all = self.all.saturating_add(1);
            let ahead = id.wrapping_sub(last);
            self.near = self.near.saturating_add(u32::from((1..=Ids::NEAR).contains(&ahead)));
        }
    }
}

/// How fast the clock of a sender's timestamps runs, by the first packet with new data and the last: value and time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stamps {
    first: Option<(u32, u64)>,
    last: (u32, u64),
}

impl Stamps {
    /// Least number of ticks: at 1 ms each, more than packet delays vary in data centers.
    const FEWEST: u32 = 16;

    pub(crate) fn note(&mut self, tsval: u32, at_ns: u64) {
        self.first.get_or_insert((tsval, at_ns));
        self.last = (tsval, at_ns);
    }

    /// Time between two ticks, if enough have passed, ns.
    pub(crate) fn tick_ns(&self) -> Option<u64> {
        let (tsval, at_ns) = self.first?;
        let ticks = self.last.0.wrapping_sub(tsval);
        let is_forward = (Stamps::FEWEST..1 << 31).contains(&ticks);
        is_forward.then(|| self.last.1.saturating_sub(at_ns) / u64::from(ticks))
    }
}
