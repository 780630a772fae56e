//! Parts of the values of all runs that do not depend on each other: runs, or several runs that have few values.

use knee_inference::{Known, half_width};

use crate::stats::{Bounds, SHARES, Samples};

pub(crate) fn known((low, high): Bounds) -> Known {
    Known { low: low as f64, high: high.map_or(f64::INFINITY, |high| high as f64) }
}

/// The percentiles of each part. For each share a part is a run, or as many runs in a row as have enough values together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sections([OfShare; SHARES.len()]);

#[derive(Clone, Debug, Default)]
struct OfShare {
    percentiles: Vec<Known>,
    /// Runs that have too few values so far.
    open: Option<Box<Samples>>,
}

impl Sections {
    /// Adds the next run.
    pub(crate) fn add(&mut self, run: &Samples) {
        if run.count() + run.count_cut_off() == 0 {
            return;
        }
        let of_run = run.percentiles(SHARES);
        for ((of, share), of_run) in self.0.iter_mut().zip(SHARES).zip(of_run) {
            let of_part = match (&mut of.open, of_run) {
                (None, Some(of_run)) => Some(of_run),
                (open, _) => {
                    let open = open.get_or_insert_default();
                    open.merge(run);
                    open.percentiles([share])[0]
                }
            };
            if let Some(of_part) = of_part {
                of.open = None;
                of.percentiles.push(known(of_part));
            }
        }
    }

    /// Returns the memory of the percentiles, bytes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|of| of.percentiles.capacity() * size_of::<Known>()).sum()
    }

    /// Returns half the width of the 95 % interval of each percentile of all values.
    pub(crate) fn half_widths(
        &self,
        of_all: [Option<Bounds>; SHARES.len()],
    ) -> [Option<f64>; SHARES.len()] {
        let mut half_widths = self
            .0
            .iter()
            .zip(of_all)
            .map(|(of, of_all)| half_width(known(of_all?), &of.percentiles));
        [(); SHARES.len()].map(|()| half_widths.next().flatten())
    }
}
