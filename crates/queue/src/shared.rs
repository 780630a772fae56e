//! Memory that several queues share, with dynamic thresholds (Choudhury and Hahne 1998).
//!
//! With `B` the memory, `Q` what waits in all the queues, and `q` what waits in one of them, that queue takes a packet of
//! `len` bytes if
//!
//! ```text
//! q < alpha * (B - Q)   and   Q + len <= B
//! ```
//!
//! so that `n` queues that all want more end with `alpha * B / (1 + n * alpha)` each, and a share of `1 / (1 + n * alpha)`
//! stays free for those to come. Bytes set aside for each queue are outside of all this: neither in `B`, nor in `Q`, nor in `q`.

/// Parts of one that `alpha` is counted in: powers of two from 2^-16 on are exact.
const ALPHA_SHIFT: u32 = 16;

/// Settings of a memory that queues share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DynamicThresholdConfig {
    /// The whole memory.
    pub size_bytes: u64,
    /// Share of the free memory that one queue may take, from 2^-16 to 2^16, in steps of 2^-16.
    pub alpha: f64,
    /// Memory reserved for each queue.
    pub reserved_bytes: u64,
}

impl DynamicThresholdConfig {
    /// Whether `alpha` is in range.
    pub fn has_sound_alpha(&self) -> bool {
        let unit = f64::from(1_u32 << ALPHA_SHIFT);
        (1.0 / unit..=unit).contains(&self.alpha)
    }

    /// `B`: what is left of the memory when each of `queues` queues has its own; `None`: it does not suffice for that.
    pub fn shared_bytes(&self, queues: usize) -> Option<u64> {
        self.size_bytes.checked_sub(self.reserved_bytes.checked_mul(queues as u64)?)
    }
}

/// Dynamic threshold on a shared memory. The caller holds the queues and passes their lengths.
#[derive(Clone, Debug)]
pub struct DynamicThreshold {
    /// `B` of the formula: shared memory.
    shared_bytes: u64,
    /// `Q` of the formula: shared memory in use.
    used_bytes: u64,
    reserved_bytes: u64,
    /// alpha of the formula, in 1/65536.
    alpha: u64,
}

impl DynamicThreshold {
    /// Empty memory for this many queues. Reserves that pass the memory leave nothing to share.
    pub fn new(config: &DynamicThresholdConfig, queues: usize) -> DynamicThreshold {
        DynamicThreshold {
            shared_bytes: config.shared_bytes(queues).unwrap_or(0),
            used_bytes: 0,
            reserved_bytes: config.reserved_bytes,
            alpha: (config.alpha * f64::from(1_u32 << ALPHA_SHIFT)).round() as u64,
        }
    }

    /// Whether a queue in which `waiting_bytes` wait may take `len_bytes` more.
    #[inline]
    pub fn admits(&self, waiting_bytes: u64, len_bytes: u32) -> bool {
        let before = self.beyond_reserve(waiting_bytes);
        let growth = self.beyond_reserve(waiting_bytes + u64::from(len_bytes)) - before;
        let free = self.shared_bytes.saturating_sub(self.used_bytes);
        // q < alpha * (B - Q); 2^32 * 2^64 at most.
        let is_below =
            u128::from(before) << ALPHA_SHIFT < u128::from(self.alpha) * u128::from(free);
        growth == 0 || (is_below && growth <= free)
    }

    /// Updates the shared memory in use after a queue's length changed.
    #[inline]
    pub fn change(&mut self, before_bytes: u64, after_bytes: u64) {
        let rest = self.used_bytes.saturating_sub(self.beyond_reserve(before_bytes));
        self.used_bytes = rest + self.beyond_reserve(after_bytes);
    }

    /// `Q`: what waits beyond the queues' reserves.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    fn beyond_reserve(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.reserved_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTE: u32 = 1;

    fn memory(size_bytes: u64, alpha: f64, reserved_bytes: u64, queues: usize) -> DynamicThreshold {
        DynamicThreshold::new(&DynamicThresholdConfig { size_bytes, alpha, reserved_bytes }, queues)
    }

    /// Where `hot` queues end that are offered one byte in turn for as long as any is taken.
    fn filled(mut memory: DynamicThreshold, hot: usize) -> (Vec<u64>, u64) {
        let mut queues = vec![0; hot];
        loop {
            let mut grew = false;
            for queue in &mut queues {
                if memory.admits(*queue, BYTE) {
                    memory.change(*queue, *queue + 1);
                    *queue += 1;
                    grew = true;
                }
            }
            if !grew {
                return (queues, memory.used_bytes());
            }
        }
    }

    #[test]
    fn hot_queues_get_alpha_b_over_one_plus_n_alpha_each() {
        // alpha = 1: one has B/2, two B/3 each. alpha = 1/4: one has B/5, four B/8 each.
        assert_eq!(filled(memory(12_000, 1.0, 0, 1), 1), (vec![6_000], 6_000));
        assert_eq!(filled(memory(12_000, 1.0, 0, 2), 2), (vec![4_000; 2], 8_000));
        assert_eq!(filled(memory(12_000, 0.25, 0, 1), 1), (vec![2_400], 2_400));
        assert_eq!(filled(memory(12_000, 0.25, 0, 4), 4), (vec![1_500; 4], 6_000));
    }

    #[test]
    fn a_queue_that_turns_hot_later_finds_room_and_gets_less() {
        // alpha = 2: one queue has 2/3 of 9000. The next has q < 2 * (9000 - 6000 - q), so 2000.
        let mut memory = memory(9_000, 2.0, 0, 2);
        let (mut first, mut second) = (0, 0);
        while memory.admits(first, BYTE) {
            memory.change(first, first + 1);
            first += 1;
        }
        while memory.admits(second, BYTE) {
            memory.change(second, second + 1);
            second += 1;
        }
        assert_eq!((first, second), (6_000, 2_000));
        // The first has fallen behind its threshold of 2 * 1000, and takes nothing until it is below.
        assert!(!memory.admits(first, BYTE));
        memory.change(first, 0);
        assert!(memory.admits(0, BYTE));
    }

    #[test]
    fn what_is_set_aside_is_there_however_full_the_rest_is() {
        // 10000 less 2 * 1000 are shared, and alpha = 8 leaves a ninth of them: 7112 + 1000 in the hot queue.
        let mut memory = memory(10_000, 8.0, 1_000, 2);
        let mut hot = 0;
        while memory.admits(hot, BYTE) {
            memory.change(hot, hot + 1);
            hot += 1;
        }
        assert_eq!((hot, memory.used_bytes()), (1_000 + 7_112, 7_112));
        assert!(memory.admits(0, 1_000) && memory.admits(999, BYTE));
        // 889 are left beyond, to whoever is below its threshold.
        assert!(memory.admits(1_000, 888) && !memory.admits(1_000, 889));
    }

    #[test]
    fn a_packet_must_fit_whole_whatever_alpha_says() {
        let memory = memory(2_000, 65_536.0, 0, 1);
        assert!(memory.admits(0, 2_000));
        assert!(!memory.admits(0, 2_001));
    }

    #[test]
    fn reserves_beyond_the_memory_are_told_of() {
        let config = DynamicThresholdConfig { size_bytes: 1_000, alpha: 1.0, reserved_bytes: 400 };
        assert_eq!((config.shared_bytes(2), config.shared_bytes(3)), (Some(200), None));
        let alpha = |alpha| DynamicThresholdConfig { alpha, ..config }.has_sound_alpha();
        assert!(alpha(0.25) && alpha(1.0 / 65_536.0) && alpha(65_536.0));
        assert!(!alpha(0.0) && !alpha(-1.0) && !alpha(f64::NAN) && !alpha(f64::INFINITY));
    }

    proptest! {
        #[test]
        fn no_more_waits_than_there_is_memory(
            size in 0_u64..20_000,
            alpha in prop::sample::select(vec![1.0 / 128.0, 0.2, 1.0, 8.0]),
            reserved in 0_u64..2_000,
            steps in prop::collection::vec((0_usize..4, 0_u32..3_000), 0..200),
        ) {
            let config = DynamicThresholdConfig { size_bytes: size, alpha, reserved_bytes: reserved };
            prop_assume!(config.shared_bytes(4).is_some());
            let mut memory = DynamicThreshold::new(&config, 4);
            let mut queues = [0_u64; 4];
            for (queue, len_bytes) in steps {
                let before = queues[queue];
                // A length of less than 500 takes that much away instead.
                let after = if len_bytes < 500 {
                    before.saturating_sub(u64::from(len_bytes) * 4)
                } else if memory.admits(before, len_bytes) {
                    before + u64::from(len_bytes)
                } else {
                    before
                };
                memory.change(before, after);
                queues[queue] = after;
                prop_assert!(queues.iter().sum::<u64>() <= size);
                let beyond: u64 = queues.iter().map(|q| q.saturating_sub(reserved)).sum();
                prop_assert_eq!(memory.used_bytes(), beyond);
            }
        }
    }
}
