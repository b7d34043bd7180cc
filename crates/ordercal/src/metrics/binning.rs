//! The edges of bins, and sums over the rows of each bin.

use serde::{Deserialize, Serialize};

/// How the range of confidences is cut into bins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Binning {
    /// B bins of the same width. Bin i is ((i−1)/B, i/B]: a confidence exactly on an edge belongs to the
    /// lower bin, and 0 to the first. The edges are the fractions i/B, correctly rounded.
    EqualWidth,
    /// B−1 bins of the same width, closed on the left, [(i−1)/(B−1), i/(B−1)), and a bin of their own for
    /// confidences of 1: what `np.digitize` makes of `np.linspace(0, 1, B)`.
    LeftClosed,
    /// Bins of (nearly) the same number of rows, as the package uncertainty-calibration makes them.
    ///
    /// The sorted rows are cut into B runs, the first N mod B of which are one row longer; the edge lies
    /// midway between the last confidence of one run and the first of the next, and a confidence on an
    /// edge belongs to the lower bin. So equal confidences always share a bin, and there are at most N bins.
    ///
    /// With weights a run ends where the cumulative weight reaches its cut. Integer weights stand for
    /// repeated rows, and the cuts are those of the repeated rows. Otherwise cut i is at i/B of the total
    /// weight.
    EqualMass,
}

/// Sums over the rows of a bin.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct BinSum {
    /// Rows with a positive weight.
    pub(crate) rows: u64,
    pub(crate) weight: f64,
    /// Σ weight · confidence.
    pub(crate) confidence: f64,
    /// Σ weight over the hits.
    pub(crate) hits: f64,
}

impl BinSum {
    /// Mean confidence minus accuracy; the bin must not be empty.
    pub(crate) fn gap(&self) -> f64 {
        (self.confidence - self.hits) / self.weight
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.weight <= 0.0
    }
}

/// (Σ share · |gap|ᵖ)^(1/p).
pub(crate) fn norm_of_gaps(bins: &[BinSum], norm: f64) -> f64 {
    root(power_of_gaps(bins, norm), norm)
}

/// Σ share · |gap|ᵖ over the bins that are not empty.
pub(crate) fn power_of_gaps(bins: &[BinSum], norm: f64) -> f64 {
    let total: f64 = bins.iter().map(|bin| bin.weight).sum();
    let filled = bins.iter().filter(|bin| !bin.is_empty());
    if norm <= 1.0 {
        return filled
            .map(|bin| (bin.confidence - bin.hits).abs())
            .sum::<f64>()
            / total;
    }
    filled
        .map(|bin| bin.weight * bin.gap().abs().powf(norm))
        .sum::<f64>()
        / total
}

/// The p-th root, the inverse of the power in [`power_of_gaps`].
pub(crate) fn root(power: f64, norm: f64) -> f64 {
    if norm <= 1.0 {
        power
    } else {
        power.powf(1.0 / norm)
    }
}

/// The largest |gap| of a bin that is not empty.
pub(crate) fn largest_gap(bins: &[BinSum]) -> f64 {
    let filled = bins.iter().filter(|bin| !bin.is_empty());
    filled.map(|bin| bin.gap().abs()).fold(0.0, f64::max)
}

/// Σ share · (gap² − acc(1 − acc)/(weight − 1)), floored at 0; bins of weight below 2 add 0.
pub(crate) fn debiased_square(bins: &[BinSum]) -> f64 {
    let total: f64 = bins.iter().map(|bin| bin.weight).sum();
    let sum: f64 = bins
        .iter()
        .filter(|bin| bin.weight >= 2.0)
        .map(|bin| {
            let accuracy = bin.hits / bin.weight;
            let gap = bin.gap();
            bin.weight * (gap * gap - accuracy * (1.0 - accuracy) / (bin.weight - 1.0))
        })
        .sum();
    (sum / total).max(0.0)
}

/// The largest |Σ weight · (confidence − hit)| / Σ weight over the rows up to any confidence.
pub(crate) fn largest_cumulative_gap(rows: &Sorted<'_>) -> f64 {
    let (mut largest, mut sum, mut total) = (0.0_f64, 0.0, 0.0);
    for (row, &confidence) in rows.confidence.iter().enumerate() {
        let weight = rows.weight.map_or(1.0, |w| w[row]);
        sum += weight * (confidence - rows.hit[row]);
        total += weight;
        // Rows with equal confidences count together.
        let next = rows.confidence.get(row + 1);
        if next.is_none_or(|&next| next > confidence) {
            largest = largest.max(f64::abs(sum));
        }
    }
    largest / total
}

/// Edge i of `bins` bins of equal width.
pub(crate) fn edge(i: usize, bins: usize) -> f64 {
    i as f64 / bins as f64
}

/// The bin of a confidence under [`Binning::EqualWidth`].
#[inline]
pub(crate) fn equal_width_bin(confidence: f64, bins: usize) -> usize {
    bin_of(confidence, bins, bins - 1, |edge| confidence > edge)
}

/// The bin of a confidence under [`Binning::LeftClosed`] with `bins` = B, from 0 to B − 1.
#[inline]
pub(crate) fn left_closed_bin(confidence: f64, bins: usize) -> usize {
    if bins == 1 {
        return 0;
    }
    bin_of(confidence, bins - 1, bins - 1, |edge| confidence >= edge)
}

/// The bin among those of width 1/`widths`, up to the `last`, given whether the confidence is beyond an edge.
#[inline(always)]
fn bin_of(confidence: f64, widths: usize, last: usize, is_beyond: impl Fn(f64) -> bool) -> usize {
    let product = confidence * widths as f64;
    let mut bin = (product as usize).min(last);
    // So far inside of the bin that rounding does not matter.
    if (product - bin as f64 - 0.5).abs() < 0.5 - 1e-9 {
        return bin;
    }
    while bin > 0 && !is_beyond(edge(bin, widths)) {
        bin -= 1;
    }
    while bin < last && is_beyond(edge(bin + 1, widths)) {
        bin += 1;
    }
    bin
}

/// Rows in ascending order of confidence; a hit is 1, a miss 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sorted<'a> {
    pub(crate) confidence: &'a [f64],
    pub(crate) hit: &'a [f64],
    pub(crate) weight: Option<&'a [f64]>,
    /// Whether every weight is an integer, so that a weight stands for repetitions of the row.
    pub(crate) integer_weights: bool,
}

impl<'a> Sorted<'a> {
    pub(crate) fn new(confidence: &'a [f64], hit: &'a [f64], weight: Option<&'a [f64]>) -> Self {
        let integer_weights = weight.is_none_or(|weight| weight.iter().all(|w| w.fract() == 0.0));
        Self {
            confidence,
            hit,
            weight,
            integer_weights,
        }
    }

    /// The sums over the rows of every bin.
    pub(crate) fn bin_sums(&self, binning: Binning, bins: usize) -> Vec<BinSum> {
        self.sums_between(&self.ends(binning, bins))
    }

    /// The index behind the last row of every bin.
    fn ends(&self, binning: Binning, bins: usize) -> Vec<usize> {
        let c = self.confidence;
        let up_to = |edge: f64| c.partition_point(|&v| v <= edge);
        let mut ends: Vec<usize> = match binning {
            Binning::EqualWidth => (1..bins).map(|i| up_to(edge(i, bins))).collect(),
            Binning::LeftClosed => (1..bins)
                .map(|i| c.partition_point(|&v| v < edge(i, bins - 1)))
                .collect(),
            Binning::EqualMass => self.equal_mass_edges(bins).into_iter().map(up_to).collect(),
        };
        ends.push(c.len());
        ends
    }

    /// The inner edges of [`Binning::EqualMass`], ascending; repeated edges give empty bins.
    pub(crate) fn equal_mass_edges(&self, bins: usize) -> Vec<f64> {
        let c = self.confidence;
        let midway = |last: usize, first: usize| (c[last] + c[first]) / 2.0;
        let Some(weight) = self.weight else {
            let cuts = self.equal_mass_cuts(bins);
            return cuts
                .iter()
                .map(|&cut| midway(cut as usize - 1, cut as usize))
                .collect();
        };
        let total: f64 = weight.iter().sum();
        let cuts = self.equal_mass_cuts(bins);
        // Sums of fractional weights are rounded: a cut this close to the end of a row counts as its end.
        let tolerance = if self.integer_weights {
            0.0
        } else {
            total * 1e-12
        };
        let mut edges = Vec::with_capacity(cuts.len());
        let mut row = 0;
        let mut reached = 0.0;
        for cut in cuts {
            // A run ends with the row at which the cumulative weight reaches the cut.
            while row + 1 < c.len()
                && (weight[row] <= 0.0 || reached + weight[row] < cut - tolerance)
            {
                reached += weight[row];
                row += 1;
            }
            let ends_here = reached + weight[row] <= cut + tolerance;
            let next = if ends_here {
                (row + 1..c.len())
                    .find(|&next| weight[next] > 0.0)
                    .unwrap_or(row)
            } else {
                row
            };
            // By rounding, an edge can lie below the one before it.
            let last = edges.last().copied().unwrap_or(0.0);
            edges.push(f64::max(midway(row, next), last));
        }
        edges
    }

    /// The cumulative weights at which the runs of [`Binning::EqualMass`] end, without the last.
    pub(crate) fn equal_mass_cuts(&self, bins: usize) -> Vec<f64> {
        let total = self
            .weight
            .map_or(self.confidence.len() as f64, |w| w.iter().sum());
        Self::cuts(total, self.integer_weights, bins)
    }

    /// [`equal_mass_cuts`](Self::equal_mass_cuts) of rows of this total weight.
    pub(crate) fn cuts(total: f64, integer_weights: bool, bins: usize) -> Vec<f64> {
        if !integer_weights {
            return (1..bins).map(|i| total * i as f64 / bins as f64).collect();
        }
        let bins = (bins as f64).min(total);
        let length = (total / bins).floor();
        let longer = total - length * bins;
        (1..bins as usize)
            .map(|i| i as f64)
            .map(|i| i * length + i.min(longer))
            .collect()
    }

    /// The sums over consecutive runs of rows, given the index behind each run.
    fn sums_between(&self, ends: &[usize]) -> Vec<BinSum> {
        let mut start = 0;
        ends.iter()
            .map(|&end| {
                // A repeated edge, or one that rounding put below an earlier one, gives an empty bin.
                let end = end.max(start);
                let rows = start..end;
                start = end;
                let mut sum = BinSum::default();
                for row in rows {
                    let weight = self.weight.map_or(1.0, |weight| weight[row]);
                    sum.rows += u64::from(weight > 0.0);
                    sum.weight += weight;
                    sum.confidence += weight * self.confidence[row];
                    sum.hits += weight * self.hit[row];
                }
                sum
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn a_confidence_on_an_edge_belongs_to_the_side_that_is_closed() {
        for bins in [1, 2, 7, 10, 14, 15, 100, 4096] {
            for i in 0..=bins {
                let e = edge(i, bins);
                assert_eq!(equal_width_bin(e, bins), i.saturating_sub(1), "{i}/{bins}");
                if i < bins {
                    assert_eq!(equal_width_bin(e.next_up(), bins), i, "above {i}/{bins}");
                }
                assert_eq!(left_closed_bin(e, bins + 1), i, "{i}/{bins}");
                if i > 0 {
                    assert_eq!(
                        left_closed_bin(e.next_down(), bins + 1),
                        i - 1,
                        "below {i}/{bins}"
                    );
                }
            }
            // Rounding can bring a probability slightly above 1.
            assert_eq!(equal_width_bin(1.0 + 1e-4, bins), bins - 1);
            assert_eq!(left_closed_bin(1.0 + 1e-4, bins + 1), bins);
        }
        assert_eq!(left_closed_bin(1.0, 1), 0);
    }

    #[test]
    fn searching_sorted_rows_gives_the_same_bins_as_looking_at_each() {
        let mut rng = Rng::new(11);
        let mut confidence: Vec<f64> = (0..500).map(|_| rng.below(301) as f64 / 300.0).collect();
        confidence.sort_by(f64::total_cmp);
        let hit: Vec<f64> = (0..500).map(|_| rng.below(2) as f64).collect();
        let sorted = Sorted::new(&confidence, &hit, None);
        type BinOf = fn(f64, usize) -> usize;
        let schemes: [(Binning, BinOf); 2] = [
            (Binning::EqualWidth, equal_width_bin),
            (Binning::LeftClosed, left_closed_bin),
        ];
        for (binning, bin_of) in schemes {
            for bins in [1, 2, 15, 50] {
                let mut expected = vec![BinSum::default(); bins];
                for (&c, &h) in confidence.iter().zip(&hit) {
                    let bin = &mut expected[bin_of(c, bins)];
                    bin.rows += 1;
                    bin.weight += 1.0;
                    bin.confidence += c;
                    bin.hits += h;
                }
                assert_eq!(sorted.bin_sums(binning, bins), expected);
            }
        }
    }

    /// The definition in words: cut the repeated rows into runs, put edges midway, look every row up.
    fn slow_equal_mass(repeated: &[f64], bins: usize) -> Vec<usize> {
        let bins = bins.min(repeated.len());
        let mut edges: Vec<f64> = Vec::new();
        let mut end = 0;
        for i in 0..bins - 1 {
            end += repeated.len() / bins + usize::from(i < repeated.len() % bins);
            edges.push((repeated[end - 1] + repeated[end]) / 2.0);
        }
        let mut counts = vec![0; bins];
        for &value in repeated {
            counts[edges.iter().filter(|&&e| e < value).count()] += 1;
        }
        counts
    }

    #[test]
    fn equal_mass_bins_follow_the_definition_and_integer_weights_are_repeated_rows() {
        let mut rng = Rng::new(12);
        for rows in [1, 2, 14, 15, 16, 29, 200] {
            for grain in [3, 40, 1_000_000] {
                let mut confidence: Vec<f64> = (0..rows)
                    .map(|_| rng.below(grain) as f64 / grain as f64)
                    .collect();
                confidence.sort_by(f64::total_cmp);
                let hit = vec![0.0; rows];
                let mut weight: Vec<f64> = (0..rows).map(|_| rng.below(4) as f64).collect();
                weight[rows / 2] += 1.0;
                let repeated: Vec<f64> = confidence
                    .iter()
                    .zip(&weight)
                    .flat_map(|(&c, &w)| std::iter::repeat_n(c, w as usize))
                    .collect();
                let counts = |confidence: &[f64], hit: &[f64], weight| -> Vec<usize> {
                    let sorted = Sorted::new(confidence, hit, weight);
                    let sums = sorted.bin_sums(Binning::EqualMass, 15);
                    sums.iter().map(|bin| bin.weight as usize).collect()
                };
                assert_eq!(
                    counts(&confidence, &hit, None),
                    slow_equal_mass(&confidence, 15)
                );
                let expected = slow_equal_mass(&repeated, 15);
                assert_eq!(
                    counts(&repeated, &vec![0.0; repeated.len()], None),
                    expected
                );
                assert_eq!(counts(&confidence, &hit, Some(&weight)), expected);
            }
        }
    }

    #[test]
    fn weights_that_are_fractions_share_the_total_weight() {
        let confidence: Vec<f64> = (0..30).map(|i| f64::from(i) / 30.0).collect();
        let hit = vec![0.0; 30];
        // A tenth is not a binary number, so the cumulative weights are rounded.
        let weight = vec![0.1; 30];
        let sorted = Sorted::new(&confidence, &hit, Some(&weight));
        let sums = sorted.bin_sums(Binning::EqualMass, 15);
        assert!(sums.iter().all(|bin| bin.rows == 2), "{sums:?}");
        // One row with half of the weight takes half of the cuts.
        let mut weight = vec![0.5; 30];
        weight[10] = 14.5;
        let sorted = Sorted::new(&confidence, &hit, Some(&weight));
        let sums = sorted.bin_sums(Binning::EqualMass, 4);
        assert_eq!(
            sums.iter().map(|bin| bin.rows).collect::<Vec<_>>(),
            [11, 0, 5, 14]
        );
    }
}
