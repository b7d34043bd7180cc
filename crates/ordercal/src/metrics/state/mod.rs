//! Mergeable states: metrics of data that is spread over batches, files or machines.

mod bins;
mod bytes;
mod diagram;
mod estimate;
mod fixed;

use std::ops::Range;

use bins::{FineBins, FixedBinSum};
use fixed::{Fixed, ONE, fixed, from_units, to_units, weighted};
use rayon::prelude::*;

use super::binning::{edge, equal_width_bin, left_closed_bin};
use super::kernels;
use super::options::MetricOptions;
use super::predictions::Predictions;
use super::row_stats::RowStat;
use super::{smooth, spiegelhalter};
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
/// Adding the totals of classes costs as much as a few rows: not worth it for batches with fewer.
const BULK_ROWS: usize = 16;

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
/// give. The others need the rows in order of confidence, which a state approximates; [`finalize`](Self::finalize)
/// gives each such value with a bound on its distance to the exact one:
/// - `sm_ece`: residuals on a grid of 8000 intervals. The value is exact if it is above 1/64, because
///   relplot's grid is then coarser.
/// - `marginal_ce`, and of two classes `cox_slope` and `cox_intercept`: 482 fine bins for each class, 1/8 as wide as
///   their distance to 0 or 1. They take 30 KB per class and more time than everything else, so they are
///   [optional](Self::with_marginal).
/// - the others: sums over 7682 fine bins of the confidence, each at most 1/128 as wide as its distance to 0 or 1.
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
    sums: [Fixed; 7],
    /// Sums over the rows of every bin.
    tables: [Vec<FixedBinSum>; 5],
    /// Σ weight · (confidence − hit) and Σ weight on the nodes of a grid.
    grid: Vec<[Fixed; 2]>,
    /// Hashes of the shards that this was merged from, in order; empty unless they were [marked](Self::mark_shard).
    shards: Vec<u64>,
}

/// The places of the sums over all rows.
const WEIGHT: usize = 0;
const HITS: usize = 1;
const TOP_K_HITS: usize = 2;
const NLL: usize = 3;
const BRIER: usize = 4;
/// The numerator of `spiegelhalter_z`, and the square of its denominator.
const EXCESS: usize = 5;
const EXCESS_VARIANCE: usize = 6;

/// The places of the tables: bins of equal width and fine bins of the top label; for every class, bins of equal width,
/// left-closed bins and fine bins, which are empty if they are not kept.
const TOP: usize = 0;
const CLASSWISE: usize = 1;
const LEFT_CLOSED: usize = 2;
const FINE: usize = 3;
const MARGINAL: usize = 4;

impl MetricState {
    /// The largest allowed number of bins of all classes together; with `marginal_ce` a class has 482.
    pub const MAX_BINS: usize = 1 << 24;

    /// A state without rows.
    ///
    /// # Errors
    /// If an option is out of range, there are fewer than two classes, or classes × bins is above
    /// [`MAX_BINS`](Self::MAX_BINS).
    pub fn new(classes: usize, options: MetricOptions) -> Result<Self> {
        let bins = options.bins;
        let mut state = Self::without_class_bins(classes, options)?;
        check_bins(classes, bins)?;
        memory::check(
            "the bins of every class",
            Self::bytes_of_class_bins(classes, &state.options),
        )?;
        state.tables[CLASSWISE] = vec![FixedBinSum::default(); classes * bins];
        state.tables[LEFT_CLOSED] = state.tables[CLASSWISE].clone();
        Ok(state)
    }

    /// A state without rows that does not keep the bins of every class, for very many classes: it has no class-wise
    /// metrics, and its size does not grow with the classes.
    ///
    /// # Errors
    /// If an option is out of range, or there are fewer than two classes.
    pub fn without_class_bins(classes: usize, options: MetricOptions) -> Result<Self> {
        options.validate()?;
        if classes < 2 {
            return Err(Error::TooFewClasses { classes });
        }
        Ok(Self {
            classes,
            rows: 0,
            impossible: 0,
            integer_weights: true,
            sums: [0; 7],
            tables: [
                vec![FixedBinSum::default(); options.bins],
                Vec::new(),
                Vec::new(),
                vec![FixedBinSum::default(); FineBins::TOP.len()],
                Vec::new(),
            ],
            grid: vec![[0; 2]; GRID + 1],
            shards: Vec::new(),
            options,
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
            let value = format!("requested after {} rows", self.rows);
            let expected = "a request before the first row";
            return Err(Error::invalid("marginal", value, expected));
        }
        check_bins(self.classes, FineBins::CLASS.len())?;
        let bins = self.classes * FineBins::CLASS.len();
        memory::check(
            "the fine bins of every class",
            bins * size_of::<FixedBinSum>(),
        )?;
        self.tables[MARGINAL] = vec![FixedBinSum::default(); bins];
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
        let counted: u64 = self.tables[TOP].iter().map(|bin| bin.rows).sum();
        let whole = self.integer_weights && counted == self.rows;
        !(whole && self.sums[WEIGHT] == ONE * Fixed::from(self.rows))
    }

    /// The bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        let bins: usize = self.tables.iter().map(Vec::len).sum();
        size_of::<Self>() + bins * size_of::<FixedBinSum>() + size_of_val(&self.grid[..])
    }

    /// The parameters of the metrics.
    pub fn options(&self) -> &MetricOptions {
        &self.options
    }

    /// Whether `marginal_ce` is kept.
    pub fn has_marginal(&self) -> bool {
        !self.tables[MARGINAL].is_empty()
    }

    /// Whether the bins of every class are kept.
    pub fn has_class_bins(&self) -> bool {
        !self.tables[CLASSWISE].is_empty()
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
        self.check_size(check_weights(batch)?, batch.rows() as u64)?;
        let rows = batch.rows();
        let threads = rayon::current_num_threads();
        if rows * self.classes < PARALLEL_CELLS || threads == 1 {
            self.add_rows(batch, 0..rows);
            return Ok(());
        }
        // Fixed-point addition is associative, so the number of parts does not change the sums.
        let part = rows.div_ceil(threads);
        let empty = self.without_rows();
        let parts: Vec<Self> = (0..threads)
            .into_par_iter()
            .map(|thread| {
                let mut state = empty.clone();
                let end = ((thread + 1) * part).min(rows);
                state.add_rows(batch, (thread * part).min(rows)..end);
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
        let properties = |state: &Self| {
            let kept = |kept: bool| if kept { "kept" } else { "not kept" }.to_owned();
            let options = &state.options;
            [
                ("the number of classes", state.classes.to_string()),
                ("the number of bins", options.bins.to_string()),
                ("k of the top-k accuracy", options.top_k.to_string()),
                ("the norm", options.norm.to_string()),
                ("the clip", options.clip.to_string()),
                ("marginal_ce", kept(state.has_marginal())),
                ("the class-wise part", kept(state.has_class_bins())),
            ]
        };
        for ((what, left), (_, right)) in properties(self).into_iter().zip(properties(other)) {
            if left != right {
                return Err(Error::StateMismatch { what, left, right });
            }
        }
        self.check_size(other.sums[WEIGHT], other.rows)?;
        if self.shards.iter().any(|shard| other.shards.contains(shard)) {
            return Err(Error::SameShard);
        }
        self.absorb(other);
        self.shards.extend(&other.shards);
        self.shards.sort_unstable();
        Ok(())
    }

    /// Refuses rows with which the state would exceed its limits.
    fn check_size(&self, weight: Fixed, rows: u64) -> Result<()> {
        let fits = self.sums[WEIGHT].saturating_add(weight) <= MAX_WEIGHT
            && self.rows.saturating_add(rows) <= MAX_ROWS;
        if fits { Ok(()) } else { Err(Error::StateFull) }
    }

    fn without_rows(&self) -> Self {
        Self {
            options: self.options.clone(),
            tables: self
                .tables
                .each_ref()
                .map(|table| vec![FixedBinSum::default(); table.len()]),
            grid: vec![[0; 2]; GRID + 1],
            shards: Vec::new(),
            rows: 0,
            impossible: 0,
            integer_weights: true,
            sums: [0; 7],
            classes: self.classes,
        }
    }

    fn absorb(&mut self, other: &Self) {
        self.rows += other.rows;
        self.impossible += other.impossible;
        self.integer_weights &= other.integer_weights;
        let sums = self.sums.iter_mut().chain(self.grid.as_flattened_mut());
        for (target, source) in sums.zip(other.sums.iter().chain(other.grid.as_flattened())) {
            *target += source;
        }
        let bins = self.tables.iter_mut().flatten();
        for (target, source) in bins.zip(other.tables.iter().flatten()) {
            target.merge(source);
        }
    }

    fn add_rows(&mut self, batch: &Predictions<'_>, rows: Range<usize>) {
        let bins = self.options.bins;
        let bulk = batch.weights().is_none() && rows.len() >= BULK_ROWS;
        let mut buffers = RowBuffers {
            probs: vec![0.0; self.classes],
            // The smaller of the first edges of the two binnings.
            edge: if bulk {
                edge(1, bins).min(edge(1, (bins - 1).max(1)))
            } else {
                0.0
            },
            below: vec![0; self.classes],
            listed: Vec::new(),
            count: vec![0; self.classes],
        };
        let end = rows.end;
        for start in rows.step_by(BLOCK_ROWS) {
            let block = start..end.min(start + BLOCK_ROWS);
            for row in block.clone() {
                self.add_row(batch, row, &mut buffers);
            }
            if bulk && self.has_class_bins() {
                self.add_below(block.len() as u64, &mut buffers);
            }
        }
    }

    fn add_row(&mut self, batch: &Predictions<'_>, row: usize, buffers: &mut RowBuffers) {
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
        let sums = &mut self.sums;
        sums[WEIGHT] += weight;
        sums[HITS] += if hit { weight } else { 0 };
        let in_top_k = (stat.rank as usize) < self.options.top_k;
        sums[TOP_K_HITS] += if in_top_k { weight } else { 0 };
        sums[BRIER] += fixed(w * stat.brier);
        let (excess, variance) = spiegelhalter::terms(&stat);
        sums[EXCESS] += fixed(w * excess);
        sums[EXCESS_VARIANCE] += fixed(w * variance);
        let nll = stat.nll.min(self.options.largest_nll());
        if nll <= NLL_LIMIT {
            sums[NLL] += fixed(w * nll);
        } else {
            self.impossible += 1;
        }
        let tables = &mut self.tables;
        let bin = equal_width_bin(stat.confidence, self.options.bins);
        tables[TOP][bin].add(weight, confidence, hit);
        tables[FINE][FineBins::TOP.index(stat.confidence)].add(weight, confidence, hit);

        let (node, fraction) = smooth::locate(stat.confidence, GRID);
        let residual = w * (stat.confidence - f64::from(u8::from(hit)));
        for (node, share) in [(node, 1.0 - fraction), (node + 1, fraction)] {
            self.grid[node][0] += fixed(residual * share);
            self.grid[node][1] += fixed(w * share);
        }

        let label = batch.labels()[row] as usize;
        let RowBuffers {
            probs, edge, below, ..
        } = buffers;
        scale_and_add(probs, stat.scale, *edge, below);
        if !tables[MARGINAL].is_empty() {
            for (class, &p) in probs.iter().enumerate() {
                let bin = class * FineBins::CLASS.len() + FineBins::CLASS.index(p);
                tables[MARGINAL][bin].add(weight, weighted(w, p), class == label);
            }
        }
        if self.has_class_bins() {
            self.add_classes(label, w, buffers);
        }
    }

    /// With many classes nearly all probabilities are in the first bin. So only those of at least the edge are added to
    /// their bins one by one; [`add_below`](Self::add_below) adds the others.
    fn add_classes(&mut self, label: usize, w: f64, buffers: &mut RowBuffers) {
        let bins = self.options.bins;
        let weight = fixed(w);
        let [_, classwise, left_closed, ..] = &mut self.tables;
        kernels::split(&buffers.probs, buffers.edge, &mut buffers.listed);
        for &(class, p) in &buffers.listed {
            let class = class as usize;
            let confidence = weighted(w, p);
            let first = class * bins;
            let hit = class == label;
            classwise[first + equal_width_bin(p, bins)].add(weight, confidence, hit);
            left_closed[first + left_closed_bin(p, bins)].add(weight, confidence, hit);
            buffers.count[class] += 1;
        }
        if buffers.probs[label] < buffers.edge {
            classwise[label * bins].hits += weight;
            left_closed[label * bins].hits += weight;
        }
    }

    /// Adds what was below the edge in a number of rows to the first bin of each class.
    fn add_below(&mut self, rows: u64, buffers: &mut RowBuffers) {
        let bins = self.options.bins;
        let counts = buffers.below.iter_mut().zip(&mut buffers.count);
        for (class, (below, count)) in counts.enumerate() {
            let rows = rows - std::mem::take(count);
            let part = FixedBinSum {
                rows,
                weight: Fixed::from(rows) * ONE,
                confidence: from_units(std::mem::take(below)),
                hits: 0,
            };
            self.tables[CLASSWISE][class * bins].merge(&part);
            self.tables[LEFT_CLOSED][class * bins].merge(&part);
        }
    }
}

/// Buffers for the probabilities of a row and of a block of rows.
struct RowBuffers {
    probs: Vec<f64>,
    /// Smaller probabilities are in the first bin, and are added together.
    edge: f64,
    /// The sum of each class's probabilities below the edge, in units of 2⁻⁵¹.
    below: Vec<u64>,
    /// The classes and probabilities of at least the edge in a row, and how often each class was among them.
    listed: Vec<(u32, f64)>,
    count: Vec<u64>,
}

fn check_bins(classes: usize, bins: usize) -> Result<()> {
    if classes.saturating_mul(bins) > MetricState::MAX_BINS {
        let value = format!("{bins} for each of {classes} classes");
        return Err(Error::invalid("bins", value, "classes × bins up to 2^24"));
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
    /// Turns exponentials into probabilities, and adds those below the edge, in units of 2⁻⁵¹, to the totals.
    fn scale_and_add(values: &mut [f64], scale: f64, edge: f64, totals: &mut [u64]) {
        for (value, total) in values.iter_mut().zip(totals) {
            let p = *value * scale;
            *value = p;
            *total += if p < edge { to_units(p) } else { 0 };
        }
    }
}
