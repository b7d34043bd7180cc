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
use super::{MAX_ROWS, MAX_WEIGHT, MetricState, NLL_LIMIT, TOP};
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
        let flags = [
            (MARGINAL, self.has_marginal()),
            (INTEGER_WEIGHTS, self.integer_weights),
            (NO_CLASS_BINS, !self.has_class_bins()),
            (SHARDS, !self.shards.is_empty()),
        ];
        let flags = flags.map(|(flag, set)| if set { flag } else { 0 });
        out.extend(flags.iter().sum::<u16>().to_le_bytes());
        for number in [self.classes, self.options.bins, self.options.top_k] {
            // All three were checked to fit when the state was created.
            out.extend((number as u32).to_le_bytes());
        }
        out.extend(self.options.norm.to_le_bytes());
        out.extend(self.options.clip.to_le_bytes());
        let mut writer = Writer(out);
        let written = self.clone().transfer(&mut writer);
        debug_assert!(written.is_ok(), "nothing can be wrong with what is written");
        let Writer(mut out) = writer;
        out.extend(self.shards.iter().flat_map(|shard| shard.to_le_bytes()));
        out
    }

    /// Reads a state that [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    /// If the bytes are not such a state: another format or version, cut short or too long, options out
    /// of range, or sums that no rows could have produced.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut input = Reader(bytes);
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
        let is_set = |flag: u16| flags & flag != 0;
        let mut length = || Ok(u32::from_le_bytes(input.take()?) as usize);
        let (classes, bins, top_k) = (length()?, length()?, length()?);
        let options = MetricOptions {
            bins,
            top_k,
            norm: f64::from_le_bytes(input.take()?),
            clip: f64::from_le_bytes(input.take()?),
        };
        // Allocate only if there are enough bytes for the bits of every bin.
        let class_bins = if is_set(NO_CLASS_BINS) { 0 } else { 2 * bins };
        let marginal = if is_set(MARGINAL) {
            FineBins::CLASS.len()
        } else {
            0
        };
        if classes.saturating_mul(class_bins + marginal) / 8 > input.0.len() {
            return invalid("it is cut short");
        }
        let empty = match is_set(NO_CLASS_BINS) {
            true => Self::without_class_bins(classes, options),
            false => Self::new(classes, options),
        };
        let empty = match is_set(MARGINAL) {
            true => empty.and_then(Self::with_marginal),
            false => empty,
        };
        let Ok(mut state) = empty else {
            return invalid("its classes or options are out of range");
        };
        state.integer_weights = is_set(INTEGER_WEIGHTS);
        state.transfer(&mut input)?;
        if is_set(SHARDS) {
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
        if !state.is_possible() {
            return invalid("its sums contradict each other");
        }
        Ok(state)
    }

    /// Reads or writes the sums.
    fn transfer(&mut self, to: &mut impl Transfer) -> Result<()> {
        to.count(&mut self.rows)?;
        to.count(&mut self.impossible)?;
        for sum in &mut self.sums {
            to.sum(sum)?;
        }
        for table in &mut self.tables {
            let is_filled = |bin: &FixedBinSum| bin.rows > 0;
            to.cells(table, is_filled, |to, bin| {
                to.count(&mut bin.rows)?;
                to.sum(&mut bin.weight)?;
                to.sum(&mut bin.confidence)?;
                to.sum(&mut bin.hits)
            })?;
        }
        let is_filled = |node: &[Fixed; 2]| *node != [0; 2];
        to.cells(&mut self.grid, is_filled, |to, [residual, weight]| {
            to.sum(residual)?;
            to.sum(weight)
        })
    }

    /// Whether rows can have produced the sums.
    fn is_possible(&self) -> bool {
        let [weight, hits, top_k, nll, brier, excess, variance] = self.sums;
        let rows_of = |bins: &[FixedBinSum]| {
            let rows = bins.iter().map(|bin| bin.rows);
            rows.fold(0, u64::saturating_add)
        };
        let rows = rows_of(&self.tables[TOP]);
        let sums_fit = (0..=MAX_WEIGHT).contains(&weight)
            && (0..=top_k).contains(&hits)
            && (hits..=weight).contains(&top_k)
            && (0..=weight * NLL_LIMIT as Fixed).contains(&nll)
            && (0..=weight * 3).contains(&brier)
            && (-weight..=weight).contains(&excess)
            && (0..=weight).contains(&variance)
            && self.impossible <= self.rows
            && (rows..=MAX_ROWS).contains(&self.rows)
            && (rows == 0) == (weight == 0);
        let bin_fits = |bin: &FixedBinSum| {
            (0..=weight).contains(&bin.weight)
                && (0..=bin.weight).contains(&bin.hits)
                // Probabilities may exceed 1 by the tolerance of their sum.
                && (0..=bin.weight + bin.weight / 64).contains(&bin.confidence)
        };
        let bins = self.options.bins;
        let lengths = [bins, bins, bins, FineBins::TOP.len(), FineBins::CLASS.len()];
        let tables = self.tables.iter().zip(lengths);
        let mut groups = tables.flat_map(|(table, length)| table.chunks(length));
        let node_fits = |&[residual, share]: &[Fixed; 2]| {
            // Each row's residual and weight are truncated by less than one unit.
            let largest = share.saturating_add(share / 64 + Fixed::from(rows));
            (0..=weight).contains(&share) && residual.unsigned_abs() <= largest.unsigned_abs()
        };
        let truncated = weight / (1 << 48) + 4 * Fixed::from(rows);
        sums_fit
            && groups.all(|group| {
                group.iter().all(bin_fits)
                    && rows_of(group) == rows
                    && saturating_sum(group.iter().map(|bin| bin.weight)) == weight
            })
            && self.grid.iter().all(node_fits)
            && (saturating_sum(self.grid.iter().map(|node| node[1])) - weight).abs() <= truncated
    }
}

fn saturating_sum(terms: impl Iterator<Item = Fixed>) -> Fixed {
    terms.fold(0, Fixed::saturating_add)
}

fn invalid<T>(reason: &'static str) -> Result<T> {
    Err(Error::InvalidState { reason })
}

/// Reads values from bytes, or writes them.
trait Transfer {
    fn bytes(&mut self, bytes: &mut [u8]) -> Result<()>;

    fn count(&mut self, value: &mut u64) -> Result<()> {
        let mut bytes = value.to_le_bytes();
        self.bytes(&mut bytes)?;
        *value = u64::from_le_bytes(bytes);
        Ok(())
    }

    fn sum(&mut self, value: &mut Fixed) -> Result<()> {
        let mut bytes = value.to_le_bytes();
        self.bytes(&mut bytes)?;
        *value = Fixed::from_le_bytes(bytes);
        Ok(())
    }

    /// A bit for each cell, and the cells whose bit is set.
    fn cells<T>(
        &mut self,
        cells: &mut [T],
        is_filled: impl Fn(&T) -> bool,
        transfer: impl Fn(&mut Self, &mut T) -> Result<()>,
    ) -> Result<()> {
        let mut bits = vec![0; cells.len().div_ceil(8)];
        for (place, cell) in cells.iter().enumerate() {
            bits[place / 8] |= u8::from(is_filled(cell)) << (place % 8);
        }
        self.bytes(&mut bits)?;
        let is_set = |place: usize| bits[place / 8] >> (place % 8) & 1 == 1;
        if (cells.len()..8 * bits.len()).any(is_set) {
            return invalid("a bin beyond the last is marked as filled");
        }
        for (place, cell) in cells.iter_mut().enumerate() {
            if is_set(place) {
                transfer(self, cell)?;
                if !is_filled(cell) {
                    return invalid("a bin is marked as filled but is empty");
                }
            }
        }
        Ok(())
    }
}

struct Writer(Vec<u8>);

impl Transfer for Writer {
    fn bytes(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// The bytes that are left to read.
struct Reader<'a>(&'a [u8]);

impl Transfer for Reader<'_> {
    fn bytes(&mut self, bytes: &mut [u8]) -> Result<()> {
        let Some((head, rest)) = self.0.split_at_checked(bytes.len()) else {
            return invalid("it is cut short");
        };
        bytes.copy_from_slice(head);
        self.0 = rest;
        Ok(())
    }
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.bytes(&mut bytes)?;
        Ok(bytes)
    }
}
