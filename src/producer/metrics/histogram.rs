//! A histogram of fixed size: log-linear buckets, as `HdrHistogram` has them.
//!
//! Values below 16 have a bucket each; above that every power of two is cut into 16 buckets, so a quantile is off by a
//! sixteenth at most. Values of [`VALUE_MAX`] and more share the last bucket. Count, sum and maximum are exact. It
//! allocates its 2 KiB at the first value, and nothing afterwards. Plain: its owner locks.

/// Buckets per power of two, as a power of two.
const SUB_BITS: u32 = 4;
const SUB: u64 = 1 << SUB_BITS;
/// Values from here on are not told apart: in microseconds, 71 minutes.
const VALUE_MAX: u64 = 1 << 32;
const BUCKETS: usize = bucket_of(VALUE_MAX) + 1;

/// Counts by size. See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    buckets: Vec<u32>,
    pub(super) count: u64,
    pub(super) sum: u64,
    pub(super) max: u64,
}

impl Histogram {
    /// Counts `value` once.
    pub(super) fn record(&mut self, value: u64) {
        if self.buckets.is_empty() {
            self.buckets.resize(BUCKETS, 0);
        }
        if let Some(bucket) = self.buckets.get_mut(bucket_of(value.min(VALUE_MAX))) {
            *bucket = bucket.saturating_add(1);
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.max = self.max.max(value);
    }

    /// Adds all that `other` counted.
    pub(super) fn merge(&mut self, other: &Self) {
        if self.buckets.is_empty() {
            self.buckets.clone_from(&other.buckets);
        } else {
            for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
                *mine = mine.saturating_add(*theirs);
            }
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// The value that the share `quantile` of all values (0 to 1) does not exceed: the top of its bucket, at most the
    /// maximum; 0 without values.
    pub(super) fn quantile(&self, quantile: f64) -> u64 {
        let rank = ((self.count as f64 * quantile).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            seen += u64::from(*bucket);
            if seen >= rank {
                return top_of(index).min(self.max);
            }
        }
        self.max
    }

    /// The mean; 0 without values.
    pub(super) fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }
}

/// The bucket of a value: its highest bit, and the [`SUB_BITS`] bits below that.
const fn bucket_of(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    let shift = value.ilog2() - SUB_BITS;
    (((shift as u64 + 1) << SUB_BITS) + (value >> shift) - SUB) as usize
}

/// The greatest value of a bucket; the last one has no top.
fn top_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB {
        return bucket;
    }
    if bucket as usize + 1 >= BUCKETS {
        return u64::MAX;
    }
    let shift = (bucket >> SUB_BITS) - 1;
    (((bucket & (SUB - 1)) + SUB + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_counted_is_zero() {
        let empty = Histogram::default();
        assert_eq!((empty.quantile(0.5), empty.quantile(1.0), empty.max), (0, 0, 0));
        assert!(empty.mean().abs() < f64::EPSILON);
    }

    #[test]
    fn buckets_are_contiguous_and_hold_their_tops() {
        for bucket in 0..BUCKETS - 1 {
            let top = top_of(bucket);
            assert_eq!(bucket_of(top), bucket);
            assert_eq!(bucket_of(top + 1), bucket + 1);
        }
    }

    proptest! {
        #[test]
        fn a_quantile_is_off_by_a_sixteenth_at_most(
            mut values in proptest::collection::vec((0_u32..40).prop_flat_map(|bits| 0..=1_u64 << bits), 1..200),
            quantile in 0.0..=1.0_f64,
        ) {
            // Two halves, merged: that is how windows are read.
            let (mut histogram, mut other) = (Histogram::default(), Histogram::default());
            for (index, value) in values.iter().enumerate() {
                if index % 2 == 0 { histogram.record(*value) } else { other.record(*value) }
            }
            histogram.merge(&other);
            values.sort_unstable();
            let rank = ((values.len() as f64 * quantile).ceil() as usize).max(1);
            let exact = values[rank - 1];
            let told = histogram.quantile(quantile);
            prop_assert!(told >= exact, "{told} for {exact}");
            let bound = if exact >= VALUE_MAX { *values.last().expect("one") } else { exact + exact / SUB };
            prop_assert!(told <= bound, "{told} for {exact}");
            prop_assert_eq!(histogram.count, values.len() as u64);
            prop_assert_eq!(histogram.max, *values.last().expect("one"));
        }
    }
}
