//! Buckets of whole numbers, each a few per cent wide.

/// A bucket: each power of two is cut into 2^`BITS` equal ones, so that a bucket is at most 2^-`BITS` of its lower end wide. They need
/// whole numbers only, so they are the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket<const BITS: u32> {
    /// Its number, in the order of values.
    pub number: u16,
    /// The smallest value that belongs here.
    pub from: u64,
    /// The largest value that belongs here.
    pub to: u64,
}

impl<const BITS: u32> Bucket<BITS> {
    /// Buckets of all 64-bit values: 2^`BITS` with a value each, and as many for each further power of two.
    pub const ALL: u16 = ((64 - BITS + 1) << BITS) as u16;

    /// The bucket of a value.
    pub fn of(value: u64) -> Self {
        // Below 2^BITS each value has its own bucket.
        let shift = (value | 1 << BITS).ilog2() - BITS;
        let number = (u64::from(shift) << BITS) + (value >> shift);
        // With 6 bits at most 58 * 64 + 127 < 2^16.
        Bucket::with(number as u16, shift)
    }

    /// The bucket of a number. `None` from [`Bucket::ALL`] on.
    pub fn numbered(number: u16) -> Option<Self> {
        let octave = u32::from(number) >> BITS;
        (number < Self::ALL).then(|| Bucket::with(number, octave.saturating_sub(1)))
    }

    fn with(number: u16, shift: u32) -> Self {
        let from = (u64::from(number) - (u64::from(shift) << BITS)) << shift;
        Bucket { number, from, to: from + ((1 << shift) - 1) }
    }

    /// The middle.
    pub fn middle(self) -> f64 {
        self.from as f64 + (self.to - self.from) as f64 / 2.0
    }
}
