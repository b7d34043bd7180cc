//! Metrics of data that is never in one place: states that are filled apart, merged and read.

mod bytes;
mod estimate;
mod fixed;
mod table;

use fixed::{Fixed, ONE, fixed, from_places, places, weighted};
use rayon::prelude::*;
use table::{Cell, Scale};

use super::binning::{edge, equal_width_bin, left_closed_bin};
use super::metric::MetricOptions;
use super::predictions::Predictions;
use super::scoring::nll_limit;
use super::smooth;
use crate::error::{Error, Result};
use crate::math::simd::vectorized;

pub use estimate::Estimate;

/// Weights must be within 2^±this, or 0.
const WEIGHT_EXPONENT: i32 = 40;
/// The weights of a state's rows add up to at most this.
const MAX_WEIGHT: Fixed = ONE << 44;
/// Rows of weight 0 count here, so this is not implied by the weights.
const MAX_ROWS: u64 = 1 << 60;
/// A row's negative log-likelihood above this counts as infinite.
const NLL_LIMIT: f64 = 1024.0;
/// The intervals of the grid that keeps residuals for the smooth error: 8 in each of the coarsest grid's.
const GRID: usize = 8000;
/// Rows whose probabilities can be summed in 64 bits.
const RUN: usize = 2048;
/// Batches with fewer cells are not worth a second thread.
const PARALLEL_CELLS: usize = 1 << 16;

/// Sums from which every metric can be computed, for rows that are spread over batches, files or machines.
///
/// Fill states with [`update`](Self::update), [`merge`](Self::merge) them, read the metrics with
/// [`finalize`](Self::finalize); [`to_bytes`](Self::to_bytes) and [`from_bytes`](Self::from_bytes) carry a
/// state from one place to another. Its size depends on the classes and the bins, never on the rows.
///
/// All sums are integers (multiples of 2⁻⁷²), so a state depends on which rows went in and on nothing
/// else: any split into batches, merged in any order, gives the same bytes.
///
/// `accuracy`, `top5`, `nll`, `brier`, `ece`, `mce`, `classwise_ece` and `classwise_ece_sum` are what the
/// rows themselves give. The others need rows in order of confidence, and a state keeps bounded stand-ins:
/// - `adaptive_ece`, `debiased_ece` and `ks`: sums over 7682 fixed cells of the confidence, each at most
///   1/128 as wide as its distance to 0 or 1. Bins begin and end at cells.
/// - `sm_ece`: residuals on a grid of 8000 intervals, from which the smooth error is exact if it is above
///   1/64, because its own grid is then coarser.
/// - `marginal_ce`: 482 cells for each class, 1/8 as wide as their distance to 0 or 1. It takes 30 KB per
///   class and more time than everything else, so it is kept [if asked for](Self::with_marginal).
///
/// [`finalize`](Self::finalize) gives each such value with a bound on its distance to the exact one.
///
/// Weights must be 0 or within 2^±40, and add up to at most 2⁴⁴. A row whose negative log-likelihood is
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
    /// Whether every weight was a whole number.
    whole: bool,
    weight: Fixed,
    hits: Fixed,
    top_k_hits: Fixed,
    nll: Fixed,
    brier: Fixed,
    /// Equal-width bins of the top label.
    top: Vec<Cell>,
    /// Equal-width bins, class by class.
    classwise: Vec<Cell>,
    /// Left-closed bins, class by class.
    left_closed: Vec<Cell>,
    /// Fine cells of the top label.
    fine: Vec<Cell>,
    /// Fine cells of every class, if kept.
    marginal: Option<Vec<Cell>>,
    /// Residuals on a grid.
    residual: Vec<Fixed>,
    /// Weights on the same grid.
    density: Vec<Fixed>,
}

impl MetricState {
    /// The most cells a table may have: classes × bins, or × 482 with `marginal_ce`.
    pub const MAX_CELLS: usize = 1 << 24;

    /// A state without rows.
    ///
    /// # Errors
    /// If an option is out of range, there are fewer than two classes, or classes × bins is above
    /// [`MAX_CELLS`](Self::MAX_CELLS).
    pub fn new(classes: usize, options: MetricOptions) -> Result<Self> {
        options.validate()?;
        if classes < 2 {
            return Err(Error::TooFewClasses { classes });
        }
        check_cells(classes, options.bins)?;
        let bins = options.bins;
        Ok(Self {
            options,
            classes,
            rows: 0,
            impossible: 0,
            whole: true,
            weight: 0,
            hits: 0,
            top_k_hits: 0,
            nll: 0,
            brier: 0,
            top: vec![Cell::default(); bins],
            classwise: vec![Cell::default(); classes * bins],
            left_closed: vec![Cell::default(); classes * bins],
            fine: vec![Cell::default(); Scale::TOP.len()],
            marginal: None,
            residual: vec![0; GRID + 1],
            density: vec![0; GRID + 1],
        })
    }

    /// Keeps what `marginal_ce` needs, too. Only of use before the first row.
    ///
    /// # Errors
    /// If there are too many classes for it, or rows have been taken in already.
    pub fn with_marginal(mut self) -> Result<Self> {
        if self.rows > 0 {
            return Err(Error::InvalidParameter {
                name: "marginal",
                value: format!("asked for after {} rows", self.rows),
                expected: "to be asked for before the first row",
            });
        }
        check_cells(self.classes, Scale::CLASS.len())?;
        self.marginal = Some(vec![Cell::default(); self.classes * Scale::CLASS.len()]);
        Ok(self)
    }

    /// K, the number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// How many rows were taken in, whatever their weights.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The options the metrics are computed with.
    pub fn options(&self) -> &MetricOptions {
        &self.options
    }

    /// Whether `marginal_ce` is kept.
    pub fn has_marginal(&self) -> bool {
        self.marginal.is_some()
    }

    /// Takes in a batch of rows.
    ///
    /// # Errors
    /// If the batch has another number of classes, or weights that are out of range; the state is then
    /// as it was.
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
        // Integers add up to the same whatever the parts, so there may be as many parts as threads.
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

    /// Takes in all rows of another state.
    ///
    /// # Errors
    /// If the classes, the options or what is kept differ, or both together are too heavy; the state is
    /// then as it was.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        let mismatch =
            |what, left: String, right: String| Err(Error::StateMismatch { what, left, right });
        if self.classes != other.classes {
            let (left, right) = (self.classes.to_string(), other.classes.to_string());
            return mismatch("the number of classes", left, right);
        }
        if self.options != other.options {
            let (left, right) = (
                format!("{:?}", self.options),
                format!("{:?}", other.options),
            );
            return mismatch("the options", left, right);
        }
        if self.has_marginal() != other.has_marginal() {
            let kept = |state: &Self| {
                if state.has_marginal() {
                    "kept"
                } else {
                    "not kept"
                }
            };
            return mismatch("marginal_ce", kept(self).into(), kept(other).into());
        }
        if self.weight + other.weight > MAX_WEIGHT || self.rows + other.rows > MAX_ROWS {
            return Err(Error::StateFull);
        }
        self.absorb(other);
        Ok(())
    }

    fn without_rows(&self) -> Self {
        let state =
            Self::new(self.classes, self.options.clone()).expect("the same options were fine");
        if self.has_marginal() {
            state.with_marginal().expect("the same classes were fine")
        } else {
            state
        }
    }

    fn absorb(&mut self, other: &Self) {
        fn add_cells(target: &mut [Cell], source: &[Cell]) {
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
        self.whole &= other.whole;
        self.weight += other.weight;
        self.hits += other.hits;
        self.top_k_hits += other.top_k_hits;
        self.nll += other.nll;
        self.brier += other.brier;
        add_cells(&mut self.top, &other.top);
        add_cells(&mut self.classwise, &other.classwise);
        add_cells(&mut self.left_closed, &other.left_closed);
        add_cells(&mut self.fine, &other.fine);
        if let (Some(target), Some(source)) = (&mut self.marginal, &other.marginal) {
            add_cells(target, source);
        }
        add(&mut self.residual, &other.residual);
        add(&mut self.density, &other.density);
    }

    fn add_rows(&mut self, batch: &Predictions<'_>, rows: std::ops::Range<usize>) {
        let mut scratch = Scratch {
            probs: vec![0.0; self.classes],
            totals: vec![0; self.classes],
            listed: Vec::new(),
        };
        // Emptying the totals costs as much as a few rows: not for batches of one.
        let in_bulk = batch.weights().is_none() && rows.len() >= 16;
        let mut start = rows.start;
        while start < rows.end {
            let end = rows.end.min(start + RUN);
            for row in start..end {
                self.add_row(batch, row, in_bulk, &mut scratch);
            }
            if in_bulk {
                self.empty_totals((end - start) as u64, &mut scratch.totals);
            }
            start = end;
        }
    }

    fn add_row(
        &mut self,
        batch: &Predictions<'_>,
        row: usize,
        in_bulk: bool,
        scratch: &mut Scratch,
    ) {
        self.rows += 1;
        let w = batch.weights().map_or(1.0, |weights| weights[row]);
        if w <= 0.0 {
            return;
        }
        let weight = fixed(w);
        let normaliser = batch.exponentials(row, &mut scratch.probs);
        let stat = batch.row_stat(row, normaliser, &mut scratch.probs);
        let confidence = weighted(w, stat.confidence);
        let hit = stat.hit();

        self.whole &= w.fract() == 0.0;
        self.weight += weight;
        self.hits += if hit { weight } else { 0 };
        let in_top_k = (stat.rank as usize) < self.options.top_k;
        self.top_k_hits += if in_top_k { weight } else { 0 };
        self.brier += fixed(w * stat.brier);
        let nll = stat.nll.min(nll_limit(self.options.clip));
        if nll <= NLL_LIMIT {
            self.nll += fixed(w * nll);
        } else {
            self.impossible += 1;
        }
        let bin = equal_width_bin(stat.confidence, self.options.bins);
        self.top[bin].add(weight, confidence, hit);
        self.fine[Scale::TOP.index(stat.confidence)].add(weight, confidence, hit);

        let (node, fraction) = smooth::locate(stat.confidence, GRID);
        let residual = w * (stat.confidence - f64::from(u8::from(hit)));
        for (node, share) in [(node, 1.0 - fraction), (node + 1, fraction)] {
            self.residual[node] += fixed(residual * share);
            self.density[node] += fixed(w * share);
        }

        let label = batch.labels()[row] as usize;
        if in_bulk {
            scale_and_add(&mut scratch.probs, normaliser.scale, &mut scratch.totals);
            self.add_classes_in_bulk(label, scratch);
        } else {
            for p in &mut scratch.probs {
                *p *= normaliser.scale;
            }
            self.add_classes(label, w, weight, &scratch.probs);
        }
        if let Some(cells) = &mut self.marginal {
            for (class, &p) in scratch.probs.iter().enumerate() {
                let cell = class * Scale::CLASS.len() + Scale::CLASS.index(p);
                cells[cell].add(weight, weighted(w, p), class == label);
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

    /// With many classes nearly all probabilities are in the first bin: all are added to the class's total,
    /// which becomes the first bin's, and the others are moved from there to where they belong.
    fn add_classes_in_bulk(&mut self, label: usize, scratch: &mut Scratch) {
        let bins = self.options.bins;
        // The edges of both schemes; the lower one decides which probabilities are looked at.
        let first_edge = edge(1, bins).min(edge(1, (bins - 1).max(1)));
        scratch.listed.clear();
        list_at_least(&scratch.probs, first_edge, &mut scratch.listed);
        for &class in &scratch.listed {
            let class = class as usize;
            let p = scratch.probs[class];
            let confidence = from_places(places(p));
            let first = class * bins;
            for (table, bin) in [
                (&mut self.classwise, equal_width_bin(p, bins)),
                (&mut self.left_closed, left_closed_bin(p, bins)),
            ] {
                if bin > 0 {
                    table[first + bin].add(ONE, confidence, false);
                    table[first].take_out(ONE, confidence);
                }
            }
        }
        let p = scratch.probs[label];
        let first = label * bins;
        self.classwise[first + equal_width_bin(p, bins)].hits += ONE;
        self.left_closed[first + left_closed_bin(p, bins)].hits += ONE;
    }

    fn empty_totals(&mut self, rows: u64, totals: &mut [u64]) {
        let bins = self.options.bins;
        for (class, total) in totals.iter_mut().enumerate() {
            let part = Cell {
                rows,
                weight: Fixed::from(rows) * ONE,
                confidence: from_places(std::mem::take(total)),
                hits: 0,
            };
            self.classwise[class * bins].merge(&part);
            self.left_closed[class * bins].merge(&part);
        }
    }
}

struct Scratch {
    probs: Vec<f64>,
    /// Sums of each class's probabilities, in their places.
    totals: Vec<u64>,
    listed: Vec<u32>,
}

fn check_cells(classes: usize, bins: usize) -> Result<()> {
    if classes.saturating_mul(bins) > MetricState::MAX_CELLS {
        return Err(Error::InvalidParameter {
            name: "bins",
            value: format!("{bins} for each of {classes} classes"),
            expected: "classes × bins up to 2^24",
        });
    }
    Ok(())
}

/// Refuses weights that the sums cannot hold, and returns their total.
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
    /// Turns exponentials into probabilities and adds those, in their places, to the totals.
    fn scale_and_add(values: &mut [f64], scale: f64, totals: &mut [u64]) {
        for (value, total) in values.iter_mut().zip(totals) {
            let p = *value * scale;
            *value = p;
            *total += places(p);
        }
    }
}

vectorized! {
    /// Lists the places of the values that are at least as large as `limit`.
    fn list_at_least(values: &[f64], limit: f64, listed: &mut Vec<u32>) {
        const BLOCK: usize = 32;
        for (block, values) in values.chunks(BLOCK).enumerate() {
            let mut any = 0;
            for &value in values {
                any |= u64::from(value >= limit);
            }
            if any != 0 {
                for (place, &value) in values.iter().enumerate() {
                    if value >= limit {
                        listed.push((block * BLOCK + place) as u32);
                    }
                }
            }
        }
    }
}
