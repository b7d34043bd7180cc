//! A state as bytes and back, with everything checked on the way back.
//!
//! All numbers are little-endian.
//!
//! | bytes | |
//! |---|---|
//! | 8 | `ordcalMS` |
//! | 2, 2 | version 1; flags: 1 `marginal_ce` is kept, 2 all weights were whole |
//! | 4, 4, 4 | classes, bins, k of top-k |
//! | 8, 8 | norm, clip, as floats |
//! | 8, 8 | rows; rows whose label has probability 0 |
//! | 5 × 16 | weight, hits, top-k hits, negative log-likelihood, Brier score |
//! | tables | top label, class-wise, left-closed, fine, and if kept marginal |
//! | a grid | residuals and weights |
//!
//! A table is one bit for every cell, set if it is not empty, and 56 bytes for every set bit: rows, weight,
//! confidence, hits. The grid likewise, with 32 bytes for every node. So the length of the bytes bounds
//! what they can make a reader allocate.

use super::fixed::Fixed;
use super::table::{Cell, Scale};
use super::{GRID, MAX_ROWS, MAX_WEIGHT, MetricState, NLL_LIMIT};
use crate::error::{Error, Result};
use crate::metrics::metric::MetricOptions;

const MAGIC: &[u8; 8] = b"ordcalMS";
const VERSION: u16 = 1;
const MARGINAL: u16 = 1;
const WHOLE: u16 = 2;

impl MetricState {
    /// The state as bytes: the same state is always the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        let marginal = if self.has_marginal() { MARGINAL } else { 0 };
        let whole = if self.whole { WHOLE } else { 0 };
        out.extend((marginal | whole).to_le_bytes());
        for number in [self.classes, self.options.bins, self.options.top_k] {
            // All three were checked to fit when the state was made.
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
        ] {
            out.extend(sum.to_le_bytes());
        }
        for table in self.tables() {
            write_bits(&mut out, table.iter().map(|cell| cell.rows > 0));
            for cell in table.iter().filter(|cell| cell.rows > 0) {
                out.extend(cell.rows.to_le_bytes());
                for sum in [cell.weight, cell.confidence, cell.hits] {
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
        out
    }

    /// The state that [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    /// If the bytes are not such a state: another format or version, cut short or too long, options out
    /// of range, or sums that no rows could have given.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut input = Input(bytes);
        if input.take::<8>() != Ok(*MAGIC) {
            return invalid("it does not begin with `ordcalMS`");
        }
        if u16::from_le_bytes(input.take()?) != VERSION {
            return invalid("its version is not known; it was written by another release");
        }
        let flags = u16::from_le_bytes(input.take()?);
        if flags & !(MARGINAL | WHOLE) != 0 {
            return invalid("it has flags that are not known");
        }
        let [classes, bins, top_k] = [input.length()?, input.length()?, input.length()?];
        let options = MetricOptions {
            bins,
            top_k,
            norm: f64::from_le_bytes(input.take()?),
            clip: f64::from_le_bytes(input.take()?),
        };
        // Nothing is allocated before there are enough bytes for the bits of every cell.
        let per_class = if flags & MARGINAL == 0 {
            2 * bins
        } else {
            2 * bins + Scale::CLASS.len()
        };
        if classes.saturating_mul(per_class) / 8 > input.0.len() {
            return invalid("it is cut short");
        }
        let refused = |_| Error::InvalidState {
            reason: "its classes or options are out of range",
        };
        let mut state = Self::new(classes, options).map_err(refused)?;
        if flags & MARGINAL != 0 {
            state = state.with_marginal().map_err(refused)?;
        }
        state.whole = flags & WHOLE != 0;
        state.rows = u64::from_le_bytes(input.take()?);
        state.impossible = u64::from_le_bytes(input.take()?);
        state.weight = input.sum()?;
        state.hits = input.sum()?;
        state.top_k_hits = input.sum()?;
        state.nll = input.sum()?;
        state.brier = input.sum()?;
        for table in state.tables_mut() {
            for cell in input.bits(table.len())? {
                table[cell] = Cell {
                    rows: u64::from_le_bytes(input.take()?),
                    weight: input.sum()?,
                    confidence: input.sum()?,
                    hits: input.sum()?,
                };
                if table[cell].rows == 0 {
                    return invalid("a cell is marked as filled and is empty");
                }
            }
        }
        for node in input.bits(GRID + 1)? {
            state.residual[node] = input.sum()?;
            state.density[node] = input.sum()?;
        }
        if !input.0.is_empty() {
            return invalid("there are bytes after its end");
        }
        state.check()?;
        Ok(state)
    }

    fn tables(&self) -> impl Iterator<Item = &Vec<Cell>> {
        [&self.top, &self.classwise, &self.left_closed, &self.fine]
            .into_iter()
            .chain(&self.marginal)
    }

    fn tables_mut(&mut self) -> impl Iterator<Item = &mut Vec<Cell>> {
        [
            &mut self.top,
            &mut self.classwise,
            &mut self.left_closed,
            &mut self.fine,
        ]
        .into_iter()
        .chain(&mut self.marginal)
    }

    /// Refuses sums that no rows could have given.
    fn check(&self) -> Result<()> {
        let weight = self.weight;
        if !(0..=MAX_WEIGHT).contains(&weight) {
            return invalid("its weight is out of range");
        }
        let scores_fit = 0 <= self.hits
            && self.hits <= self.top_k_hits
            && self.top_k_hits <= weight
            && (0..=weight * NLL_LIMIT as Fixed).contains(&self.nll)
            && (0..=weight * 3).contains(&self.brier);
        if !scores_fit || self.impossible > self.rows {
            return invalid("its hits or losses do not fit its weight");
        }
        let counted: u64 = self
            .top
            .iter()
            .fold(0, |sum, cell| sum.saturating_add(cell.rows));
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
                    .flat_map(|cells| cells.chunks(Scale::CLASS.len())),
            );
        for group in groups {
            let mut sum = Cell::default();
            for cell in group {
                let fits = (0..=weight).contains(&cell.weight)
                    && (0..=cell.weight).contains(&cell.hits)
                    // Probabilities may exceed 1 by the tolerance of their sum.
                    && (0..=cell.weight + cell.weight / 64).contains(&cell.confidence);
                if !fits {
                    return invalid("the sums of a cell do not fit each other");
                }
                sum.rows = sum.rows.saturating_add(cell.rows);
                sum.weight = sum.weight.saturating_add(cell.weight);
            }
            if sum.rows != counted || sum.weight != weight {
                return invalid("a table does not hold all rows");
            }
        }
        let mut on_grid: Fixed = 0;
        for (&residual, &share) in self.residual.iter().zip(&self.density) {
            // A share below the last place is dropped from either, one row at a time.
            let slack = Fixed::from(counted);
            let largest = share.saturating_add(share / 64).saturating_add(slack);
            if !(0..=weight).contains(&share) || residual.unsigned_abs() > largest.unsigned_abs() {
                return invalid("the sums of a grid node do not fit each other");
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

/// What is left to read.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
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

    /// The places of the set bits among `count`.
    fn bits(&mut self, count: usize) -> Result<Vec<usize>> {
        let Some((head, rest)) = self.0.split_at_checked(count.div_ceil(8)) else {
            return invalid("it is cut short");
        };
        self.0 = rest;
        let is_set = |place: &usize| head[place / 8] >> (place % 8) & 1 == 1;
        if (count..head.len() * 8).any(|place| is_set(&place)) {
            return invalid("a cell beyond the last is marked as filled");
        }
        Ok((0..count).filter(is_set).collect())
    }
}
