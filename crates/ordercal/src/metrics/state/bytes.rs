//! The byte format of states; everything is checked when a state is read.
//!
//! All numbers are little-endian.
//!
//! | bytes | |
//! |---|---|
//! | 8 | `ordcalMS` |
//! | 2, 2 | version 2; flags: 1 `marginal_ce` is kept, 2 all weights were integers, 4 the tables of classes are empty, 8 shards are listed |
//! | 4, 4, 4 | classes, bins, k of top-k |
//! | 8, 8 | norm, clip, as floats |
//! | 8, 8 | rows; rows whose label has probability 0 |
//! | 7 × 16 | weight, hits, top-k hits, negative log-likelihood, Brier score; Brier score of the confidence minus its expectation, variance of that |
//! | tables | top label, class-wise, left-closed, fine, and if kept marginal |
//! | a grid | residuals and weights |
//! | 8 × shards | hashes of the shards that it was merged from, ascending, if listed |
//!
//! A table is one bit for every bin, set if the bin is not empty, and 56 bytes for every set bit: rows,
//! weight, confidence, hits. The grid likewise, with 32 bytes for every node. So a reader never allocates
//! more than a small multiple of the length of its input.

use super::bins::{FineBins, FixedBinSum};
use super::fixed::Fixed;
use super::{GRID, MAX_ROWS, MAX_WEIGHT, MetricState, NLL_LIMIT};
use crate::error::{Error, Result};
use crate::metrics::MetricOptions;

const MAGIC: &[u8; 8] = b"ordcalMS";
const VERSION: u16 = 2;
const MARGINAL: u16 = 1;
const INTEGER_WEIGHTS: u16 = 2;
const NO_CLASS_BINS: u16 = 4;
const SHARDS: u16 = 8;

impl MetricState {
    /// Serialises the state; equal states give equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        let marginal = if self.has_marginal() { MARGINAL } else { 0 };
        let integer_weights = if self.integer_weights {
            INTEGER_WEIGHTS
        } else {
            0
        };
        let no_class_bins = if self.has_class_bins() {
            0
        } else {
            NO_CLASS_BINS
        };
        let shards = if self.shards.is_empty() { 0 } else { SHARDS };
        out.extend((marginal | integer_weights | no_class_bins | shards).to_le_bytes());
        for number in [self.classes, self.options.bins, self.options.top_k] {
            // All three were checked to fit when the state was created.
            out.extend((number as u32).to_le_bytes());
        }
        out.extend(self.options.norm.to_le_bytes());
        out.extend(self.options.clip.to_le_bytes());
        out.extend(self.rows.to_le_bytes());
        out.extend(self.impossible.to_le_bytes());
        for sum in [
            self.weight,
            self.hits,
            self.top_k_hits,
            self.nll,
            self.brier,
            self.excess,
            self.excess_variance,
        ] {
            out.extend(sum.to_le_bytes());
        }
        for table in self.tables() {
            write_bits(&mut out, table.iter().map(|bin| bin.rows > 0));
            for bin in table.iter().filter(|bin| bin.rows > 0) {
                out.extend(bin.rows.to_le_bytes());
                for sum in [bin.weight, bin.confidence, bin.hits] {
                    out.extend(sum.to_le_bytes());
                }
            }
        }
        let nodes = || self.residual.iter().zip(&self.density);
        let filled = |&(&residual, &weight): &(&Fixed, &Fixed)| residual != 0 || weight != 0;
        write_bits(&mut out, nodes().map(|node| filled(&node)));
        for (residual, weight) in nodes().filter(filled) {
            out.extend(residual.to_le_bytes());
            out.extend(weight.to_le_bytes());
        }
        out.extend(self.shards.iter().flat_map(|shard| shard.to_le_bytes()));
        out
    }

    /// Reads a state that [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    /// If the bytes are not such a state: another format or version, cut short or too long, options out
    /// of range, or sums that no rows could have produced.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut input = ByteReader(bytes);
        if input.take::<8>() != Ok(*MAGIC) {
            return invalid("it does not begin with `ordcalMS`");
        }
        if u16::from_le_bytes(input.take()?) != VERSION {
            return invalid("its version is not known; it was written by another release");
        }
        let flags = u16::from_le_bytes(input.take()?);
        if flags & !(MARGINAL | INTEGER_WEIGHTS | NO_CLASS_BINS | SHARDS) != 0 {
            return invalid("it has flags that are not known");
        }
        let [classes, bins, top_k] = [input.length()?, input.length()?, input.length()?];
        let options = MetricOptions {
            bins,
            top_k,
            norm: f64::from_le_bytes(input.take()?),
            clip: f64::from_le_bytes(input.take()?),
        };
        // Allocate only if there are enough bytes for the bits of every bin.
        let has_class_bins = flags & NO_CLASS_BINS == 0;
        let per_class = if has_class_bins { 2 * bins } else { 0 };
        let per_class = if flags & MARGINAL == 0 {
            per_class
        } else {
            per_class + FineBins::CLASS.len()
        };
        if classes.saturating_mul(per_class) / 8 > input.0.len() {
            return invalid("it is cut short");
        }
        let refused = |_| Error::InvalidState {
            reason: "its classes or options are out of range",
        };
        let empty = if has_class_bins {
            Self::new(classes, options)
        } else {
            Self::without_class_bins(classes, options)
        };
        let mut state = empty.map_err(refused)?;
        if flags & MARGINAL != 0 {
            state = state.with_marginal().map_err(refused)?;
        }
        state.integer_weights = flags & INTEGER_WEIGHTS != 0;
        state.rows = u64::from_le_bytes(input.take()?);
        state.impossible = u64::from_le_bytes(input.take()?);
        state.weight = input.sum()?;
        state.hits = input.sum()?;
        state.top_k_hits = input.sum()?;
        state.nll = input.sum()?;
        state.brier = input.sum()?;
        state.excess = input.sum()?;
        state.excess_variance = input.sum()?;
        for table in state.tables_mut() {
            for bin in input.bits(table.len())? {
                table[bin] = FixedBinSum {
                    rows: u64::from_le_bytes(input.take()?),
                    weight: input.sum()?,
                    confidence: input.sum()?,
                    hits: input.sum()?,
                };
                if table[bin].rows == 0 {
                    return invalid("a bin is marked as filled but is empty");
                }
            }
        }
        for node in input.bits(GRID + 1)? {
            state.residual[node] = input.sum()?;
            state.density[node] = input.sum()?;
        }
        if flags & SHARDS != 0 {
            while !input.0.is_empty() {
                state.shards.push(u64::from_le_bytes(input.take()?));
            }
            if state.shards.is_empty() || !state.shards.is_sorted_by(|a, b| a < b) {
                return invalid("its shards are not listed in order");
            }
        }
        if !input.0.is_empty() {
            return invalid("there are bytes after its end");
        }
        state.check()?;
        Ok(state)
    }

    fn tables(&self) -> impl Iterator<Item = &Vec<FixedBinSum>> {
        [&self.top, &self.classwise, &self.left_closed, &self.fine]
            .into_iter()
            .chain(&self.marginal)
    }

    fn tables_mut(&mut self) -> impl Iterator<Item = &mut Vec<FixedBinSum>> {
        [
            &mut self.top,
            &mut self.classwise,
            &mut self.left_closed,
            &mut self.fine,
        ]
        .into_iter()
        .chain(&mut self.marginal)
    }

    /// Refuses sums that no rows could have produced.
    fn check(&self) -> Result<()> {
        let weight = self.weight;
        if !(0..=MAX_WEIGHT).contains(&weight) {
            return invalid("its weight is out of range");
        }
        let scores_fit = 0 <= self.hits
            && self.hits <= self.top_k_hits
            && self.top_k_hits <= weight
            && (0..=weight * NLL_LIMIT as Fixed).contains(&self.nll)
            && (0..=weight * 3).contains(&self.brier)
            && (-weight..=weight).contains(&self.excess)
            && (0..=weight).contains(&self.excess_variance);
        if !scores_fit || self.impossible > self.rows {
            return invalid("its hits or losses do not fit its weight");
        }
        let counted: u64 = self
            .top
            .iter()
            .fold(0, |sum, bin| sum.saturating_add(bin.rows));
        if self.rows > MAX_ROWS || counted > self.rows || (counted == 0) != (weight == 0) {
            return invalid("its rows do not fit its weight");
        }
        let bins = self.options.bins;
        let groups = self
            .classwise
            .chunks(bins)
            .chain(self.left_closed.chunks(bins))
            .chain([&self.top[..], &self.fine[..]])
            .chain(
                self.marginal
                    .iter()
                    .flat_map(|bins| bins.chunks(FineBins::CLASS.len())),
            );
        for group in groups {
            let mut sum = FixedBinSum::default();
            for bin in group {
                let fits = (0..=weight).contains(&bin.weight)
                    && (0..=bin.weight).contains(&bin.hits)
                    // Probabilities may exceed 1 by the tolerance of their sum.
                    && (0..=bin.weight + bin.weight / 64).contains(&bin.confidence);
                if !fits {
                    return invalid("the sums of a bin contradict each other");
                }
                sum.rows = sum.rows.saturating_add(bin.rows);
                sum.weight = sum.weight.saturating_add(bin.weight);
            }
            if sum.rows != counted || sum.weight != weight {
                return invalid("a table does not hold all rows");
            }
        }
        let mut on_grid: Fixed = 0;
        for (&residual, &share) in self.residual.iter().zip(&self.density) {
            // Each row's residual and weight are truncated by less than one unit.
            let slack = Fixed::from(counted);
            let largest = share.saturating_add(share / 64).saturating_add(slack);
            if !(0..=weight).contains(&share) || residual.unsigned_abs() > largest.unsigned_abs() {
                return invalid("the sums of a grid node contradict each other");
            }
            on_grid = on_grid.saturating_add(share);
        }
        let lost = weight / (1 << 48) + 4 * Fixed::from(counted);
        if (on_grid - weight).abs() > lost {
            return invalid("the grid does not hold all rows");
        }
        Ok(())
    }
}

fn invalid<T>(reason: &'static str) -> Result<T> {
    Err(Error::InvalidState { reason })
}

fn write_bits(out: &mut Vec<u8>, bits: impl Iterator<Item = bool>) {
    let mut byte = 0;
    let mut count = 0;
    for bit in bits {
        byte |= u8::from(bit) << (count % 8);
        count += 1;
        if count % 8 == 0 {
            out.push(std::mem::take(&mut byte));
        }
    }
    if count % 8 != 0 {
        out.push(byte);
    }
}

/// The bytes that are left to read.
struct ByteReader<'a>(&'a [u8]);

impl ByteReader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((head, rest)) = self.0.split_first_chunk::<N>() else {
            return invalid("it is cut short");
        };
        self.0 = rest;
        Ok(*head)
    }

    fn length(&mut self) -> Result<usize> {
        Ok(u32::from_le_bytes(self.take()?) as usize)
    }

    fn sum(&mut self) -> Result<Fixed> {
        Ok(Fixed::from_le_bytes(self.take()?))
    }

    /// The indices of the set bits among `count`.
    fn bits(&mut self, count: usize) -> Result<Vec<usize>> {
        let Some((head, rest)) = self.0.split_at_checked(count.div_ceil(8)) else {
            return invalid("it is cut short");
        };
        self.0 = rest;
        let is_set = |index: &usize| head[index / 8] >> (index % 8) & 1 == 1;
        if (count..head.len() * 8).any(|index| is_set(&index)) {
            return invalid("a bin beyond the last is marked as filled");
        }
        Ok((0..count).filter(is_set).collect())
    }
}
