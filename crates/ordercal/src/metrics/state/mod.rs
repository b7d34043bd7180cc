//! Mergeable states: metrics of data that is spread over batches, files or machines.

mod bins;
mod bytes;
mod diagram;
mod estimate;
mod fixed;

use bins::{FineBins, FixedBinSum};
use fixed::{Fixed, ONE, fixed, from_units, to_units, weighted};
use rayon::prelude::*;

use super::binning::{edge, equal_width_bin, left_closed_bin};
use super::options::MetricOptions;
use super::predictions::Predictions;
use super::registry::spiegelhalter_z;
use super::row_stats::RowStat;
use super::smooth;
use crate::error::{Error, Result};
use crate::math::simd::vectorized;
use crate::memory;

pub use estimate::Estimate;

/// Positive weights must be within 2^±`WEIGHT_EXPONENT`.
const WEIGHT_EXPONENT: i32 = 40;
/// The largest total weight of a state.
const MAX_WEIGHT: Fixed = ONE << 44;
/// The largest number of rows of a state, those of weight 0 included.
const MAX_ROWS: u64 = 1 << 60;
/// A negative log-likelihood above this counts as infinite.
const NLL_LIMIT: f64 = 1024.0;
/// The number of intervals of the residual grid of `sm_ece`: 8 for each interval of relplot's coarsest grid.
const GRID: usize = 8000;
/// The number of rows whose probabilities, in units of 2⁻⁵¹, can be summed in 64 bits.
const BLOCK_ROWS: usize = 2048;
/// Batches with fewer cells (rows × classes) are added by a single thread.
const PARALLEL_CELLS: usize = 1 << 16;

/// Sums from which every metric can be computed, for data spread over batches, files or machines.
///
/// Add rows with [`update`](Self::update), [`merge`](Self::merge) states, and read the metrics with
/// [`finalize`](Self::finalize); [`to_bytes`](Self::to_bytes) and [`from_bytes`](Self::from_bytes) serialise
/// a state. Its size depends on the classes and the bins, not on the rows.
///
/// All sums are fixed-point numbers (multiples of 2⁻⁷²), so addition is associative: any split of the rows
/// into batches, merged in any order, gives the same bytes.
///
/// Metrics that are [exactly mergeable](super::Metric::is_exactly_mergeable) have the value that the rows
/// give. The others need the rows in order of confidence, which a state approximates:
/// - `adaptive_ece`, `debiased_ece` and `ks`: sums over 7682 fine bins of the confidence, each at most 1/128
///   as wide as its distance to 0 or 1. Equal-mass bins begin and end at fine bins.
/// - `auroc`, `ap`, `aurc`, `eaurc`, `accuracy_at_coverage`, and `cox_slope` and `cox_intercept` of more than two classes: the same fine bins.
/// - `sm_ece`: residuals on a grid of 8000 intervals. The value is exact if it is above 1/64, because
///   relplot's grid is then coarser.
/// - `marginal_ce`, and of two classes `cox_slope` and `cox_intercept`: 482 fine bins for each class, 1/8 as wide as their distance to 0 or 1. They take 30 KB per
///   class and more time than everything else, so they are [optional](Self::with_marginal).
///
/// [`finalize`](Self::finalize) gives each such value with a bound on its distance to the exact one.
///
/// Weights must be 0 or within 2^±40, with a total of at most 2⁴⁴. A row whose negative log-likelihood is
/// above 1024 counts as one whose label has probability 0.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{Metric, MetricOptions, MetricState, Predictions};
///
/// let probs = array![[0.7_f64, 0.2, 0.1], [0.1, 0.5, 0.4], [0.3, 0.3, 0.4]];
/// let mut state = MetricState::new(3, MetricOptions::default())?;
/// state.update(&Predictions::from_probs(probs.view(), &[0, 2, 2])?)?;
///
/// let mut other = MetricState::from_bytes(&state.to_bytes())?;
/// other.merge(&state)?;
/// assert_eq!(other.rows(), 6);
/// assert_eq!((other.classes(), other.options().bins), (3, 15));
/// assert!((other.mean_confidence()? - 1.6 / 3.0).abs() < 1e-9);
/// assert!((other.finalize()?[&Metric::Accuracy].value - 2.0 / 3.0).abs() < 1e-15);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct MetricState {
    options: MetricOptions,
    classes: usize,
    rows: u64,
    /// Rows with a positive weight whose label has probability 0.
    impossible: u64,
    /// Whether every weight was an integer.
    integer_weights: bool,
    weight: Fixed,
    hits: Fixed,
    top_k_hits: Fixed,
    nll: Fixed,
    brier: Fixed,
    /// The numerator of `spiegelhalter_z` and the square of its denominator.
    excess: Fixed,
    excess_variance: Fixed,
    /// Equal-width bins of the top label.
    top: Vec<FixedBinSum>,
    /// Equal-width bins, class by class.
    classwise: Vec<FixedBinSum>,
    /// Left-closed bins, class by class.
    left_closed: Vec<FixedBinSum>,
    /// Fine bins of the top label.
    fine: Vec<FixedBinSum>,
    /// Fine bins, class by class, if kept.
    marginal: Option<Vec<FixedBinSum>>,
    /// Σ weight · (confidence − hit) on the nodes of a grid.
    residual: Vec<Fixed>,
    /// Σ weight on the nodes of the same grid.
    density: Vec<Fixed>,
    /// Hashes of the shards that this was merged from, in order; empty unless they were [marked](Self::mark_shard).
    shards: Vec<u64>,
}

impl MetricState {
    /// The largest allowed number of bins of all classes together; with `marginal_ce` a class has 482.
    pub const MAX_BINS: usize = 1 << 24;

    /// A state without rows.
    ///
    /// # Errors
    /// If an option is out of range, there are fewer than two classes, or classes × bins is above
    /// [`MAX_BINS`](Self::MAX_BINS).
    pub fn new(classes: usize, options: MetricOptions) -> Result<Self> {
        check_bins(classes, options.bins)?;
        let class_bins = classes * options.bins;
        Self::build(classes, options, class_bins)
    }

    /// A state without rows that does not keep the bins of every class, for very many classes: it has no class-wise
    /// metrics, and its size does not grow with the classes.
    ///
    /// # Errors
    /// If an option is out of range, or there are fewer than two classes.
    pub fn without_class_bins(classes: usize, options: MetricOptions) -> Result<Self> {
        Self::build(classes, options, 0)
    }

    fn build(classes: usize, options: MetricOptions, class_bins: usize) -> Result<Self> {
        options.validate()?;
        if classes < 2 {
            return Err(Error::TooFewClasses { classes });
        }
        let bytes = 2 * class_bins * size_of::<FixedBinSum>();
        memory::check("the bins of every class", bytes)?;
        let bins = options.bins;
        Ok(Self {
            options,
            classes,
            rows: 0,
            impossible: 0,
            integer_weights: true,
            weight: 0,
            hits: 0,
            top_k_hits: 0,
            nll: 0,
            brier: 0,
            excess: 0,
            excess_variance: 0,
            top: vec![FixedBinSum::default(); bins],
            classwise: vec![FixedBinSum::default(); class_bins],
            left_closed: vec![FixedBinSum::default(); class_bins],
            fine: vec![FixedBinSum::default(); FineBins::TOP.len()],
            marginal: None,
            residual: vec![0; GRID + 1],
            density: vec![0; GRID + 1],
            shards: Vec::new(),
        })
    }

    /// Marks the rows that were added as a shard. States that were marked remember what they are merged from, so that
    /// no shard is merged twice.
    pub fn mark_shard(&mut self) {
        if self.shards.is_empty() {
            // FNV-1a.
            let hash =
                |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
            let bytes = self.to_bytes();
            self.shards
                .push(bytes.iter().fold(0xcbf2_9ce4_8422_2325, hash));
        }
    }

    /// The same state with the sums that `marginal_ce` needs.
    ///
    /// # Errors
    /// If there are too many classes, or rows have been added already.
    pub fn with_marginal(mut self) -> Result<Self> {
        if self.rows > 0 {
            return Err(Error::InvalidParameter {
                name: "marginal",
                value: format!("requested after {} rows", self.rows),
                expected: "a request before the first row",
            });
        }
        check_bins(self.classes, FineBins::CLASS.len())?;
        let bytes = self.classes * FineBins::CLASS.len() * size_of::<FixedBinSum>();
        memory::check("the fine bins of every class", bytes)?;
        self.marginal = Some(vec![
            FixedBinSum::default();
            self.classes * FineBins::CLASS.len()
        ]);
        Ok(self)
    }

    /// K, the number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The number of rows added, whatever their weights.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether a row had another weight than 1.
    pub fn has_weights(&self) -> bool {
        // Rows of weight 0 are in no bin. Where the others have whole weights that sum to their number, each has 1.
        let counted: u64 = self.top.iter().map(|bin| bin.rows).sum();
        let whole = self.integer_weights && counted == self.rows;
        !(whole && self.weight == ONE * Fixed::from(self.rows))
    }

    /// The bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        let marginal = self.marginal.as_ref().map_or(0, Vec::len);
        let bins = self.top.len() + self.classwise.len() + self.left_closed.len();
        size_of::<Self>()
            + (bins + self.fine.len() + marginal) * size_of::<FixedBinSum>()
            + (self.residual.len() + self.density.len()) * size_of::<Fixed>()
    }

    /// The parameters of the metrics.
    pub fn options(&self) -> &MetricOptions {
        &self.options
    }

    /// Whether `marginal_ce` is kept.
    pub fn has_marginal(&self) -> bool {
        self.marginal.is_some()
    }

    /// Whether the bins of every class are kept.
    pub fn has_class_bins(&self) -> bool {
        !self.classwise.is_empty()
    }

    /// The bytes that the bins of every class take in memory.
    pub fn bytes_of_class_bins(classes: usize, options: &MetricOptions) -> usize {
        let bins = classes.saturating_mul(options.bins);
        bins.saturating_mul(2 * size_of::<FixedBinSum>())
    }

    /// Adds a batch of rows.
    ///
    /// # Errors
    /// If the batch has another number of classes, or weights that are out of range; the state is then
    /// unchanged.
    pub fn update(&mut self, batch: &Predictions<'_>) -> Result<()> {
        if batch.classes() != self.classes {
            return Err(Error::WrongClasses {
                expected: self.classes,
                found: batch.classes(),
            });
        }
        let added = check_weights(batch)?;
        let rows = self.rows.saturating_add(batch.rows() as u64);
        if self.weight.saturating_add(added) > MAX_WEIGHT || rows > MAX_ROWS {
            return Err(Error::StateFull);
        }
        let rows = batch.rows();
        let threads = rayon::current_num_threads();
        if rows * self.classes < PARALLEL_CELLS || threads == 1 {
            self.add_rows(batch, 0..rows);
            return Ok(());
        }
        // Fixed-point addition is associative, so the number of parts does not change the sums.
        let part = rows.div_ceil(threads);
        let parts: Vec<Self> = (0..threads)
            .into_par_iter()
            .map(|thread| {
                let mut state = self.without_rows();
                state.add_rows(
                    batch,
                    (thread * part).min(rows)..((thread + 1) * part).min(rows),
                );
                state
            })
            .collect();
        for part in &parts {
            self.absorb(part);
        }
        Ok(())
    }

    /// Adds all rows of another state.
    ///
    /// # Errors
    /// If the classes or the options differ, only one of the two keeps `marginal_ce` or class-wise bins, the total weight
    /// is too large, or a [marked](Self::mark_shard) shard is part of both; the state is then unchanged.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        let mismatch =
            |what, left: String, right: String| Err(Error::StateMismatch { what, left, right });
        if self.classes != other.classes {
            let (left, right) = (self.classes.to_string(), other.classes.to_string());
            return mismatch("the number of classes", left, right);
        }
        let numbers = |state: &Self| {
            let options = &state.options;
            let (bins, top_k) = (options.bins as f64, options.top_k as f64);
            [bins, top_k, options.norm, options.clip]
        };
        let names = [
            "the number of bins",
            "k of the top-k accuracy",
            "the norm",
            "the clip",
        ];
        let pairs = numbers(self).into_iter().zip(numbers(other));
        for (name, (left, right)) in names.into_iter().zip(pairs) {
            if left.to_bits() != right.to_bits() {
                return mismatch(name, left.to_string(), right.to_string());
            }
        }
        let kept = |state: &Self| [state.has_marginal(), state.has_class_bins()];
        let names = ["marginal_ce", "the class-wise part"];
        for (name, (left, right)) in names
            .into_iter()
            .zip(kept(self).into_iter().zip(kept(other)))
        {
            let say = |kept: bool| if kept { "kept" } else { "not kept" };
            if left != right {
                return mismatch(name, say(left).into(), say(right).into());
            }
        }
        if self.weight + other.weight > MAX_WEIGHT || self.rows + other.rows > MAX_ROWS {
            return Err(Error::StateFull);
        }
        if self.shards.iter().any(|shard| other.shards.contains(shard)) {
            return Err(Error::SameShard);
        }
        self.absorb(other);
        self.shards.extend(&other.shards);
        self.shards.sort_unstable();
        Ok(())
    }

    fn without_rows(&self) -> Self {
        let state = Self::build(self.classes, self.options.clone(), self.classwise.len());
        let state = state.expect("the same options were fine");
        if self.has_marginal() {
            state.with_marginal().expect("the same classes were fine")
        } else {
            state
        }
    }

    fn absorb(&mut self, other: &Self) {
        fn add_bins(target: &mut [FixedBinSum], source: &[FixedBinSum]) {
            for (target, source) in target.iter_mut().zip(source) {
                target.merge(source);
            }
        }
        fn add(target: &mut [Fixed], source: &[Fixed]) {
            for (target, source) in target.iter_mut().zip(source) {
                *target += source;
            }
        }
        self.rows += other.rows;
        self.impossible += other.impossible;
        self.integer_weights &= other.integer_weights;
        self.weight += other.weight;
        self.hits += other.hits;
        self.top_k_hits += other.top_k_hits;
        self.nll += other.nll;
        self.brier += other.brier;
        self.excess += other.excess;
        self.excess_variance += other.excess_variance;
        add_bins(&mut self.top, &other.top);
        add_bins(&mut self.classwise, &other.classwise);
        add_bins(&mut self.left_closed, &other.left_closed);
        add_bins(&mut self.fine, &other.fine);
        if let (Some(target), Some(source)) = (&mut self.marginal, &other.marginal) {
            add_bins(target, source);
        }
        add(&mut self.residual, &other.residual);
        add(&mut self.density, &other.density);
    }

    fn add_rows(&mut self, batch: &Predictions<'_>, rows: std::ops::Range<usize>) {
        let mut buffers = RowBuffers {
            probs: vec![0.0; self.classes],
            totals: vec![0; self.classes],
            listed: Vec::new(),
        };
        // Adding the class totals to the bins costs as much as a few rows: not worth it for tiny batches.
        let in_bulk = batch.weights().is_none() && rows.len() >= 16 && self.has_class_bins();
        let mut start = rows.start;
        while start < rows.end {
            let end = rows.end.min(start + BLOCK_ROWS);
            for row in start..end {
                self.add_row(batch, row, in_bulk, &mut buffers);
            }
            if in_bulk {
                self.add_class_totals((end - start) as u64, &mut buffers.totals);
            }
            start = end;
        }
    }

    fn add_row(
        &mut self,
        batch: &Predictions<'_>,
        row: usize,
        in_bulk: bool,
        buffers: &mut RowBuffers,
    ) {
        self.rows += 1;
        let w = batch.weights().map_or(1.0, |weights| weights[row]);
        if w <= 0.0 {
            return;
        }
        let weight = fixed(w);
        let mut stat = [RowStat::default()];
        batch.read_rows(row..row + 1, &mut buffers.probs, &mut stat, |_, _| {});
        let [stat] = stat;
        let confidence = weighted(w, stat.confidence);
        let hit = stat.hit();

        self.integer_weights &= w.fract() == 0.0;
        self.weight += weight;
        self.hits += if hit { weight } else { 0 };
        let in_top_k = (stat.rank as usize) < self.options.top_k;
        self.top_k_hits += if in_top_k { weight } else { 0 };
        self.brier += fixed(w * stat.brier);
        let (excess, variance) = spiegelhalter_z::terms(&stat);
        self.excess += fixed(w * excess);
        self.excess_variance += fixed(w * variance);
        let nll = stat.nll.min(self.options.largest_nll());
        if nll <= NLL_LIMIT {
            self.nll += fixed(w * nll);
        } else {
            self.impossible += 1;
        }
        let bin = equal_width_bin(stat.confidence, self.options.bins);
        self.top[bin].add(weight, confidence, hit);
        self.fine[FineBins::TOP.index(stat.confidence)].add(weight, confidence, hit);

        let (node, fraction) = smooth::locate(stat.confidence, GRID);
        let residual = w * (stat.confidence - f64::from(u8::from(hit)));
        for (node, share) in [(node, 1.0 - fraction), (node + 1, fraction)] {
            self.residual[node] += fixed(residual * share);
            self.density[node] += fixed(w * share);
        }

        let label = batch.labels()[row] as usize;
        if in_bulk {
            scale_and_add(&mut buffers.probs, stat.scale, &mut buffers.totals);
            self.add_classes_in_bulk(label, buffers);
        } else {
            for p in &mut buffers.probs {
                *p *= stat.scale;
            }
            if self.has_class_bins() {
                self.add_classes(label, w, weight, &buffers.probs);
            }
        }
        if let Some(kept) = &mut self.marginal {
            for (class, &p) in buffers.probs.iter().enumerate() {
                let bin = class * FineBins::CLASS.len() + FineBins::CLASS.index(p);
                kept[bin].add(weight, weighted(w, p), class == label);
            }
        }
    }

    fn add_classes(&mut self, label: usize, w: f64, weight: Fixed, probs: &[f64]) {
        let bins = self.options.bins;
        for (class, &p) in probs.iter().enumerate() {
            let confidence = weighted(w, p);
            let first = class * bins;
            self.classwise[first + equal_width_bin(p, bins)].add(
                weight,
                confidence,
                class == label,
            );
            self.left_closed[first + left_closed_bin(p, bins)].add(
                weight,
                confidence,
                class == label,
            );
        }
    }

    /// With many classes nearly all probabilities are in the first bin. So the total of each class goes to
    /// its first bin, and the few probabilities outside it are moved from there to their bins.
    fn add_classes_in_bulk(&mut self, label: usize, buffers: &mut RowBuffers) {
        let bins = self.options.bins;
        // The smaller of the first edges of the two binnings.
        let first_edge = edge(1, bins).min(edge(1, (bins - 1).max(1)));
        buffers.listed.clear();
        list_at_least(&buffers.probs, first_edge, &mut buffers.listed);
        for &class in &buffers.listed {
            let class = class as usize;
            let p = buffers.probs[class];
            let confidence = from_units(to_units(p));
            let first = class * bins;
            for (table, bin) in [
                (&mut self.classwise, equal_width_bin(p, bins)),
                (&mut self.left_closed, left_closed_bin(p, bins)),
            ] {
                if bin > 0 {
                    table[first + bin].add(ONE, confidence, false);
                    table[first].remove(ONE, confidence);
                }
            }
        }
        let p = buffers.probs[label];
        let first = label * bins;
        self.classwise[first + equal_width_bin(p, bins)].hits += ONE;
        self.left_closed[first + left_closed_bin(p, bins)].hits += ONE;
    }

    fn add_class_totals(&mut self, rows: u64, totals: &mut [u64]) {
        let bins = self.options.bins;
        for (class, total) in totals.iter_mut().enumerate() {
            let part = FixedBinSum {
                rows,
                weight: Fixed::from(rows) * ONE,
                confidence: from_units(std::mem::take(total)),
                hits: 0,
            };
            self.classwise[class * bins].merge(&part);
            self.left_closed[class * bins].merge(&part);
        }
    }
}

/// Buffers for the probabilities of a row and of a block of rows.
struct RowBuffers {
    probs: Vec<f64>,
    /// The sum of each class's probabilities over the current block of rows, in units of 2⁻⁵¹.
    totals: Vec<u64>,
    listed: Vec<u32>,
}

fn check_bins(classes: usize, bins: usize) -> Result<()> {
    if classes.saturating_mul(bins) > MetricState::MAX_BINS {
        return Err(Error::InvalidParameter {
            name: "bins",
            value: format!("{bins} for each of {classes} classes"),
            expected: "classes × bins up to 2^24",
        });
    }
    Ok(())
}

/// Refuses weights out of range, and returns their total.
fn check_weights(batch: &Predictions<'_>) -> Result<Fixed> {
    let Some(weights) = batch.weights() else {
        return Ok((batch.rows() as Fixed).saturating_mul(ONE));
    };
    let range = 2_f64.powi(-WEIGHT_EXPONENT)..=2_f64.powi(WEIGHT_EXPONENT);
    let mut total: Fixed = 0;
    for (row, &value) in weights.iter().enumerate() {
        if value > 0.0 && !range.contains(&value) {
            return Err(Error::WeightOutOfRange { row, value });
        }
        total = total.saturating_add(fixed(value));
    }
    Ok(total)
}

vectorized! {
    /// Turns exponentials into probabilities and adds them, in units of 2⁻⁵¹, to the totals.
    fn scale_and_add(values: &mut [f64], scale: f64, totals: &mut [u64]) {
        for (value, total) in values.iter_mut().zip(totals) {
            let p = *value * scale;
            *value = p;
            *total += to_units(p);
        }
    }
}

vectorized! {
    /// Lists the indices of the values that are at least `limit`.
    fn list_at_least(values: &[f64], limit: f64, listed: &mut Vec<u32>) {
        // Without branches inside, the check of a whole chunk is vectorised; most chunks have none.
        const CHUNK: usize = 32;
        for (chunk, values) in values.chunks(CHUNK).enumerate() {
            let mut any = 0;
            for &value in values {
                any |= u64::from(value >= limit);
            }
            if any != 0 {
                for (place, &value) in values.iter().enumerate() {
                    if value >= limit {
                        listed.push((chunk * CHUNK + place) as u32);
                    }
                }
            }
        }
    }
}
