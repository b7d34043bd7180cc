//! What each row contributes to the metrics, and weighted means of it.

/// The contribution of one row to the metrics that are means over rows or depend on the predicted class only.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct RowStat {
    /// The largest probability.
    pub confidence: f64,
    /// −log of the label's probability; infinite if that is 0.
    pub nll: f64,
    /// Σⱼ (pⱼ − 1{y = j})².
    pub brier: f64,
    /// The most probable class; of equally probable ones the first.
    pub predicted: u32,
    /// How many classes precede the label in order of descending probability, ties in order of class index.
    pub rank: u32,
    /// What the row's exponentials, or its given probabilities, are multiplied by.
    pub(crate) scale: f64,
}

impl RowStat {
    /// Whether the prediction is right.
    pub fn hit(&self) -> bool {
        self.rank == 0
    }
}

/// The statistics of all rows with their weights.
pub(crate) struct WeightedRows<'a> {
    pub(crate) stats: &'a [RowStat],
    pub(crate) weights: Option<&'a [f64]>,
    pub(crate) classes: usize,
}

impl WeightedRows<'_> {
    /// Σ w f / Σ w; rows of weight 0 do not count even where f is infinite.
    pub(crate) fn mean(&self, value: impl Fn(&RowStat) -> f64) -> f64 {
        // Blocked summation: rounding errors grow with the number of blocks instead of the number of rows.
        const BLOCK: usize = 256;
        match self.weights {
            None => {
                let blocks = self.stats.chunks(BLOCK);
                let sums = blocks.map(|rows| rows.iter().map(&value).sum::<f64>());
                sums.sum::<f64>() / self.stats.len() as f64
            }
            Some(weights) => {
                let blocks = self.stats.chunks(BLOCK).zip(weights.chunks(BLOCK));
                let (sum, total) = blocks.fold((0.0, 0.0), |(sum, total), (stats, weights)| {
                    let rows = stats.iter().zip(weights).filter(|&(_, &w)| w > 0.0);
                    let (s, t) = rows.fold((0.0, 0.0), |(s, t), (stat, &w)| {
                        (s + w * value(stat), t + w)
                    });
                    (sum + s, total + t)
                });
                sum / total
            }
        }
    }

    /// The share of rows whose label is among the `k` most probable classes.
    pub(crate) fn top_k(&self, k: usize) -> f64 {
        self.mean(|stat| f64::from(u8::from((stat.rank as usize) < k)))
    }
}
