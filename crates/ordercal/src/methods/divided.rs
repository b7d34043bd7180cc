//! Fits to rows that are divided over many places: only sums over them travel.
//!
//! The fits of `ts`, `svs` and `diag` need no row twice at once: what they ask are sums of losses and gradients, quantiles
//! (from sums of counts), and a small sample. [`DividedRows`] has each [`Question`] answered for every part of the rows, by
//! whoever has them, and adds the answers up. The fit is the same code as for rows in memory, so the result is the same up to
//! the rounding of 64-bit sums.

use std::collections::BTreeMap;

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::likelihood::{Likelihood, row_spreads_of};
use super::linear::{LinearRows, LinearSums, moment_count};
use super::network::diag;
use super::rows::{GridNll, Rows};
use super::zeros::{self, Zeros};
use crate::data::{Dataset, ScoreKind, Scores};
use crate::error::{Error, Result};
use crate::math::grid::{Grid, PieceGradients};
use crate::math::sum::Compensated;
use crate::models::{Features, LinearShape};
use crate::nn::input::InputKind;
use crate::optim::scalar::Local;

/// A question about rows. It is plain data, and travels as JSON.
///
/// ```
/// use ndarray::array;
/// use ordercal::methods::divided::{Answer, DividedRows, Question};
/// use ordercal::{Dataset, ScoreKind, Scores};
///
/// let scores = Scores::new(ScoreKind::Logits, array![[1.0_f32, 0.0], [0.0, 2.0]])?;
/// let data = Dataset::new(scores, &[0, 1])?;
/// let ask = |question: &Question| {
///     // As it would arrive elsewhere.
///     let json = serde_json::to_string(question).expect("plain data");
///     let question: Question = serde_json::from_str(&json).expect("the same");
///     let mut sum = Answer::default();
///     question.add(&mut sum, question.answer(&data, 0, 0)?);
///     Ok(vec![(0, sum)])
/// };
/// assert!(DividedRows::new(&ask).is_ok());
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The share of the uniform distribution that is mixed into the rows first, if any.
    share: Option<f64>,
    ask: Ask,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Ask {
    /// The number of rows and of classes, the total weight, and [`Zeros`].
    Summary,
    /// Some rows of each part, by their places in it: weight, label and scores.
    Sample(BTreeMap<usize, Vec<usize>>),
    /// Histograms of statistics of the rows, of values that begin with the given bits.
    Histogram {
        of: Statistic,
        known: u32,
        prefixes: Vec<u64>,
    },
    /// The NLL of softmax(βx) and its two derivatives.
    Likelihood { beta: f64 },
    /// The moments from which the preconditioner of a linear map with a diagonal matrix follows.
    Moments {
        features: Features,
        params: Vec<f32>,
    },
    /// The NLL of a linear map with a diagonal matrix, and its gradient.
    Linear {
        features: Features,
        params: Vec<f32>,
    },
    /// The NLL of `diag` and its gradient on the values, both divided by the total weight of all rows.
    Grid {
        input: InputKind,
        range: (f64, f64),
        slopes: Vec<f64>,
        total: f64,
    },
}

/// What quantiles are taken of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Statistic {
    /// The spread of each row that counts and is not constant.
    Spread,
    /// The smallest relevant score of each row, and the largest one with its sign changed.
    Range { input: InputKind, beta: f64 },
}

/// The answer for some rows of a part: add up those of all parts.
///
/// ```
/// use ordercal::methods::divided::Answer;
///
/// let bytes = [1.5_f64, -2.0].map(f64::to_le_bytes).concat();
/// assert_eq!(Answer::from_bytes(&bytes)?.to_bytes(), bytes);
/// assert!(Answer::from_bytes(&bytes[1..]).is_err());
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    numbers: Vec<f64>,
}

impl Answer {
    /// The answer from its bytes.
    ///
    /// # Errors
    /// If they are not a whole number of 64-bit floats.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (numbers, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(Error::Elsewhere {
                message: format!("an answer has {} bytes, no multiple of 8", bytes.len()),
            });
        }
        let numbers = numbers.iter().map(|n| f64::from_le_bytes(*n)).collect();
        Ok(Self { numbers })
    }

    /// The answer as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
    }
}

/// The bits of a number by which one histogram divides its values.
const BITS: u32 = 13;

/// The bits of a number in the order of the numbers, see [`f64::total_cmp`].
fn ordered_bits(value: f64) -> u64 {
    let bits = value.to_bits();
    bits ^ if bits >> 63 == 1 { u64::MAX } else { 1 << 63 }
}

fn from_ordered_bits(bits: u64) -> f64 {
    f64::from_bits(bits ^ if bits >> 63 == 0 { u64::MAX } else { 1 << 63 })
}

impl Question {
    /// The answer for some rows: those of `part` from `first` on.
    ///
    /// # Errors
    /// If a share is out of range.
    pub fn answer(&self, data: &Dataset<'_>, part: usize, first: usize) -> Result<Answer> {
        let floored = self
            .share
            .map(|share| zeros::with_floor(data, share))
            .transpose()?;
        let data = floored.as_ref().unwrap_or(data);
        let numbers = match &self.ask {
            Ask::Summary => Summary::of(data).to_numbers(),
            Ask::Sample(places) => {
                let wanted = places.get(&part).map_or(&[][..], Vec::as_slice);
                let here = wanted
                    .iter()
                    .filter(|row| (first..first + data.rows()).contains(row));
                let numbers = here.flat_map(|row| {
                    let row = row - first;
                    let scores = data.scores().row(row).iter().map(|&s| f64::from(s));
                    let label = f64::from(data.labels()[row]);
                    [data.weight(row), label].into_iter().chain(scores)
                });
                numbers.collect()
            }
            Ask::Histogram {
                of,
                known,
                prefixes,
            } => {
                let bits = BITS.min(64 - known);
                let histograms = prefixes
                    .iter()
                    .zip(of.values(data))
                    .map(|(prefix, values)| {
                        let mut counts = vec![0.0; 1 << bits];
                        for (value, weight) in values {
                            let all = ordered_bits(value);
                            let begin = all.checked_shr(64 - known).unwrap_or(0);
                            if begin == *prefix {
                                let bin = (all >> (64 - known - bits)) & ((1 << bits) - 1);
                                counts[bin as usize] += weight;
                            }
                        }
                        counts
                    });
                histograms.flatten().collect()
            }
            Ask::Likelihood { beta } => Likelihood::new(data).sums(*beta).to_vec(),
            Ask::Moments { features, params } => vector_rows(data, features).moments(params)?,
            Ask::Linear { features, params } => {
                let mut numbers = vec![0.0; 1 + params.len()];
                let nll = vector_rows(data, features).pass(params, &mut numbers[1..])?;
                numbers[0] = nll;
                numbers
            }
            Ask::Grid {
                input,
                range,
                slopes,
                total,
            } => {
                let grid = Grid::new(range.0, range.1, slopes.len() - 1);
                let mut likelihood = diag::GridLikelihood::new(data, *input, grid, *total);
                let (nll, gradients) = likelihood.sums(slopes);
                [&[nll], gradients.numbers()].concat()
            }
        };
        Ok(Answer { numbers })
    }

    /// Adds the answer for more rows.
    pub fn add(&self, sums: &mut Answer, more: Answer) {
        let sums = &mut sums.numbers;
        if sums.is_empty() || matches!(self.ask, Ask::Sample(_)) {
            sums.extend(more.numbers);
            return;
        }
        if self.ask == Ask::Summary {
            if let (Some(all), Some(more)) = (Summary::read(sums), Summary::read(&more.numbers)) {
                *sums = all.and(more).to_numbers();
            }
            return;
        }
        for (sum, more) in sums.iter_mut().zip(more.numbers) {
            *sum += more;
        }
    }
}

/// What is asked first.
#[derive(Debug, Clone, Copy)]
struct Summary {
    rows: usize,
    classes: usize,
    weight: Compensated,
    zeros: Zeros,
}

impl Summary {
    fn of(data: &Dataset<'_>) -> Self {
        Self {
            rows: data.rows(),
            classes: data.classes(),
            weight: data.sum_of_weights(),
            zeros: zeros::count(data),
        }
    }

    fn and(self, more: Self) -> Self {
        let mut weight = self.weight;
        weight.add(more.weight.sum);
        weight.error += more.weight.error;
        Self {
            rows: self.rows + more.rows,
            classes: self.classes.max(more.classes),
            weight,
            zeros: Zeros {
                rows: self.zeros.rows + more.zeros.rows,
                labels: self.zeros.labels + more.zeros.labels,
                depth: self.zeros.depth.max(more.zeros.depth),
            },
        }
    }

    fn to_numbers(self) -> Vec<f64> {
        let counts = [self.rows, self.classes, self.zeros.rows, self.zeros.labels];
        let counts = counts.iter().map(|&count| count as f64);
        let depth = f64::from(self.zeros.depth);
        counts
            .chain([depth, self.weight.sum, self.weight.error])
            .collect()
    }

    /// `None` for the answer of no rows.
    fn read(numbers: &[f64]) -> Option<Self> {
        let [rows, classes, zero_rows, zero_labels, depth, sum, error] = *numbers else {
            return None;
        };
        Some(Self {
            rows: rows as usize,
            classes: classes as usize,
            weight: Compensated { sum, error },
            zeros: Zeros {
                rows: zero_rows as usize,
                labels: zero_labels as usize,
                depth: depth as f32,
            },
        })
    }
}

fn vector_rows<'a>(data: &'a Dataset<'a>, features: &Features) -> LinearRows<'a> {
    LinearRows::new(data, features.of_rows(data), LinearShape::Vector)
}

impl Statistic {
    /// The values of the rows with their weights; one or two lists.
    fn values(self, data: &Dataset<'_>) -> Vec<Vec<(f64, f64)>> {
        match self {
            Self::Spread => {
                let spreads = row_spreads_of(data);
                vec![spreads.into_iter().map(|spread| (spread, 1.0)).collect()]
            }
            Self::Range { input, beta } => {
                let (lows, highs) = diag::row_ranges(data, input, beta);
                vec![lows, highs]
            }
        }
    }
}

/// Has a question answered for every part: the number of each part, and its answer, which is that of no rows for none.
pub type Asked<'a> = dyn Fn(&Question) -> Result<Vec<(usize, Answer)>> + 'a;

/// Rows that are divided over many places, see [`Method::fit_divided`](crate::Method::fit_divided).
///
/// ```
/// use ndarray::{Array2, s};
/// use ordercal::methods::divided::DividedRows;
/// use ordercal::{Dataset, Method, ScoreKind, Scores, Unwatched};
///
/// let logits = Array2::from_shape_fn((90, 3), |(row, class)| ((7 * row + 3 * class) % 11) as f32);
/// let labels: Vec<u32> = (0..90).map(|row| row % 3).collect();
/// let part = |from: usize, to: usize| {
///     let scores = Scores::new(ScoreKind::Logits, logits.slice(s![from..to, ..]))?;
///     Dataset::new(scores, &labels[from..to])
/// };
/// let parts = [part(0, 50)?, part(50, 90)?];
/// let ask = |question: &_| {
///     let question: &ordercal::methods::divided::Question = question;
///     (0..2).map(|place| Ok((place, question.answer(&parts[place], place, 0)?))).collect()
/// };
/// let method = Method::from_key("ts")?;
/// let divided = method.fit_divided(&DividedRows::new(&ask)?, &Unwatched)?;
/// let together = method.fit(&part(0, 90)?)?;
/// assert!((divided.report.nll_after - together.report.nll_after).abs() < 1e-12);
/// # Ok::<(), ordercal::Error>(())
/// ```
pub struct DividedRows<'a> {
    ask: &'a Asked<'a>,
    share: Option<f64>,
    /// The number of rows of each part.
    parts: BTreeMap<usize, usize>,
    all: Summary,
    total: f64,
}

impl<'a> DividedRows<'a> {
    /// Asks how many rows there are.
    ///
    /// # Errors
    /// [`Error::NoRows`], [`Error::ZeroWeights`], and those of `ask`.
    pub fn new(ask: &'a Asked<'a>) -> Result<Self> {
        Self::with(ask, None)
    }

    fn with(ask: &'a Asked<'a>, share: Option<f64>) -> Result<Self> {
        let question = Question {
            share,
            ask: Ask::Summary,
        };
        let mut parts = BTreeMap::new();
        let mut all = Answer::default();
        for (part, answer) in ask(&question)? {
            if let Some(summary) = Summary::read(&answer.numbers) {
                parts.insert(part, summary.rows);
                question.add(&mut all, answer);
            }
        }
        let all = Summary::read(&all.numbers).ok_or(Error::NoRows)?;
        let total = all.weight.value();
        if total <= 0.0 {
            return Err(Error::ZeroWeights);
        }
        Ok(Self {
            ask,
            share,
            parts,
            all,
            total,
        })
    }

    /// The sum of the answers of all parts, in the order of the parts.
    fn ask(&self, ask: Ask, length: Option<usize>) -> Result<Vec<f64>> {
        let question = Question {
            share: self.share,
            ask,
        };
        let mut answers = (self.ask)(&question)?;
        answers.sort_by_key(|(part, _)| *part);
        let mut sums = Answer::default();
        for (_, answer) in answers {
            if !answer.numbers.is_empty() {
                question.add(&mut sums, answer);
            }
        }
        match length {
            Some(length) if length != sums.numbers.len() => Err(Error::Elsewhere {
                message: format!(
                    "an answer has {} numbers instead of {length}: the rows changed during the fit",
                    sums.numbers.len()
                ),
            }),
            _ => Ok(sums.numbers),
        }
    }

    /// The smallest of the values at which the cumulative weight exceeds the target, for each list of a statistic; `None` if
    /// there are no values. Found bits by bits, from the highest on, in histograms.
    fn quantiles(
        &self,
        of: Statistic,
        lists: usize,
        target: impl Fn(f64) -> f64,
    ) -> Result<Option<Vec<f64>>> {
        let mut prefixes = vec![0; lists];
        let mut below = vec![0.0; lists];
        let mut targets = Vec::new();
        let mut known = 0;
        while known < 64 {
            let bits = BITS.min(64 - known);
            let ask = Ask::Histogram {
                of,
                known,
                prefixes: prefixes.clone(),
            };
            let counts = self.ask(ask, Some(lists << bits))?;
            let counts: Vec<&[f64]> = counts.chunks(1 << bits).collect();
            if known == 0 {
                let totals = counts.iter().map(|counts| counts.iter().sum::<f64>());
                let totals: Vec<f64> = totals.collect();
                if totals.contains(&0.0) {
                    return Ok(None);
                }
                targets = totals.into_iter().map(&target).collect();
            }
            for list in 0..lists {
                let counts = counts[list];
                let mut found = 0;
                let mut sum = below[list];
                // The last bin that is not empty if rounding left the sum below the target.
                for (bin, &count) in counts.iter().enumerate().filter(|(_, c)| **c > 0.0) {
                    (found, below[list]) = (bin, sum);
                    sum += count;
                    if sum > targets[list] {
                        break;
                    }
                }
                prefixes[list] = (prefixes[list] << bits) | found as u64;
            }
            known += bits;
        }
        Ok(Some(prefixes.into_iter().map(from_ordered_bits).collect()))
    }
}

impl Rows for DividedRows<'_> {
    fn classes(&self) -> usize {
        self.all.classes
    }

    fn rows(&self) -> usize {
        self.all.rows
    }

    fn total_weight(&self) -> f64 {
        self.total
    }

    fn rows_in_memory(&self) -> usize {
        0
    }

    fn sample(&self, rows: &[usize]) -> Result<Option<Dataset<'static>>> {
        let mut places = BTreeMap::new();
        let mut first = 0;
        for (&part, &count) in &self.parts {
            let here = rows
                .iter()
                .filter(|row| (first..first + count).contains(row));
            places.insert(part, here.map(|row| row - first).collect());
            first += count;
        }
        let width = 2 + self.all.classes;
        let numbers = self.ask(Ask::Sample(places), Some(rows.len() * width))?;
        let of = |row: usize| &numbers[row * width..][..width];
        let scores = Array2::from_shape_fn((rows.len(), self.all.classes), |(row, class)| {
            of(row)[2 + class] as f32
        });
        let labels: Vec<u32> = (0..rows.len()).map(|row| of(row)[1] as u32).collect();
        let weights: Vec<f64> = (0..rows.len()).map(|row| of(row)[0]).collect();
        let scores = Scores::new(ScoreKind::Logits, scores)?.into_owned();
        if weights.iter().all(|weight| *weight == 0.0) {
            return Ok(None);
        }
        Ok(Some(Dataset::new(scores, &labels)?.with_weights(weights)?))
    }

    fn spread(&self) -> Result<f64> {
        let median = self.quantiles(Statistic::Spread, 1, |rows| (rows / 2.0).floor())?;
        Ok(median.map_or(0.0, |median| median[0]))
    }

    fn likelihood(&self) -> Box<dyn Fn(f64) -> Result<Local> + '_> {
        Box::new(|beta| {
            let sums = self.ask(Ask::Likelihood { beta }, Some(3))?;
            Ok(Local {
                value: sums[0] / self.total,
                slope: sums[1] / self.total,
                curvature: sums[2] / self.total,
            })
        })
    }

    fn linear(&self, features: &Features, shape: LinearShape) -> Box<dyn LinearSums + '_> {
        assert_eq!(shape, LinearShape::Vector, "no method asks for another");
        Box::new(DividedLinear {
            rows: self,
            features: features.clone(),
        })
    }

    fn range(&self, input: InputKind, beta: f64) -> Result<(f64, f64)> {
        let left_out = diag::OUTLIERS * self.total;
        let found = self.quantiles(Statistic::Range { input, beta }, 2, |_| left_out)?;
        let found = found.ok_or(Error::ZeroWeights)?;
        Ok(diag::not_empty(found[0], -found[1]))
    }

    fn on_grid(&self, input: InputKind, range: (f64, f64), intervals: usize) -> Box<GridNll<'_>> {
        let grid = Grid::new(range.0, range.1, intervals);
        Box::new(move |slopes| {
            let ask = Ask::Grid {
                input,
                range,
                slopes: slopes.to_vec(),
                total: self.total,
            };
            // Four numbers for each interval, and for what lies on either side.
            let numbers = self.ask(ask, Some(1 + 4 * (slopes.len() + 1)))?;
            let gradients = PieceGradients::from_numbers(&numbers[1..]);
            Ok((numbers[0], gradients.slopes(grid)))
        })
    }

    fn zeros(&self) -> Result<Zeros> {
        Ok(self.all.zeros)
    }

    fn with_floor(&self, share: f64) -> Result<Box<dyn Rows + '_>> {
        // A floor is learned on the rows as they are, so there is no other before it.
        Ok(Box::new(Self::with(self.ask, Some(share))?))
    }
}

/// The sums of a linear map over divided rows.
struct DividedLinear<'a> {
    rows: &'a DividedRows<'a>,
    features: Features,
}

impl LinearSums for DividedLinear<'_> {
    fn pass(&mut self, params: &[f32], gradient: &mut [f64]) -> Result<f64> {
        let ask = Ask::Linear {
            features: self.features.clone(),
            params: params.to_vec(),
        };
        let sums = self.rows.ask(ask, Some(1 + gradient.len()))?;
        gradient.copy_from_slice(&sums[1..]);
        Ok(sums[0])
    }

    fn moments(&mut self, params: &[f32]) -> Result<Vec<f64>> {
        let ask = Ask::Moments {
            features: self.features.clone(),
            params: params.to_vec(),
        };
        let count = moment_count(LinearShape::Vector, self.rows.all.classes);
        self.rows.ask(ask, Some(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Method;
    use crate::rng::Rng;
    use crate::watch::Unwatched;

    /// Overconfident logits with some masked classes, and weights of which some are zero.
    fn rows(rows: usize, classes: usize, weighted: bool) -> Dataset<'static> {
        let mut rng = Rng::new(7);
        let mut labels = Vec::new();
        let mut logits = Array2::zeros((rows, classes));
        for mut row in logits.rows_mut() {
            row.iter_mut().for_each(|s| *s = 3.0 * rng.normal() as f32);
            let gumbel = |s: f32, rng: &mut Rng| f64::from(s) / 2.0 - (-rng.uniform().ln()).ln();
            let noisy: Vec<f64> = row.iter().map(|&s| gumbel(s, &mut rng)).collect();
            let label = (0..classes).fold(0, |a, b| if noisy[b] > noisy[a] { b } else { a });
            labels.push(label as u32);
            if rng.uniform() < 0.1 && classes > 2 {
                row[(label + 1) % classes] = f32::NEG_INFINITY;
            }
        }
        let scores = Scores::new(ScoreKind::Logits, logits).unwrap().into_owned();
        let data = Dataset::new(scores, &labels).unwrap();
        if !weighted {
            return data;
        }
        let weights = (0..rows).map(|row| (row % 4) as f64 * 0.3).collect();
        data.with_weights(weights).unwrap()
    }

    /// Fits to the rows in parts that end at the given places, and each part in batches.
    fn fit(method: &Method, data: &Dataset<'_>, ends: &[usize]) -> Result<crate::Fitted> {
        let ask = |question: &Question| -> Result<Vec<(usize, Answer)>> {
            // As they travel.
            let text = serde_json::to_string(question).unwrap();
            let question: Question = serde_json::from_str(&text).unwrap();
            let mut answers = Vec::new();
            let mut begin = 0;
            for (part, &end) in ends.iter().enumerate() {
                let mut sums = Answer::default();
                let rows: Vec<usize> = (begin..end).collect();
                for (place, batch) in rows.chunks(701).enumerate() {
                    let answer = question.answer(&data.select(batch), part, place * 701)?;
                    question.add(&mut sums, answer);
                }
                answers.push((part, Answer::from_bytes(&sums.to_bytes())?));
                begin = end;
            }
            // Parts answer in any order.
            answers.reverse();
            Ok(answers)
        };
        method.fit_divided(&DividedRows::new(&ask)?, &Unwatched)
    }

    #[test]
    fn a_fit_to_parts_is_that_to_all_rows() {
        // The second is so large that the temperature starts from a sample.
        for (n, classes, weighted) in [(3000, 3, true), (60_000, 20, false)] {
            let data = rows(n, classes, weighted);
            for key in ["ts", "svs", "diag"] {
                let method = Method::from_key(key).unwrap();
                let together = method.fit(&data).unwrap();
                let probs = |fitted: &crate::Fitted| {
                    let model = &fitted.model;
                    model.apply::<f64>(data.scores(), ScoreKind::Probs).unwrap()
                };
                let expected = probs(&together);
                // Parts without rows, with a single one, and with most.
                for ends in [&[n][..], &[0, 1, 17, n - 300, n - 300, n]] {
                    let divided = fit(&method, &data, ends).unwrap();
                    let found = probs(&divided);
                    let pairs = found.iter().zip(&expected);
                    let error = pairs.fold(0.0_f64, |e, (a, b)| e.max((a - b).abs()));
                    assert!(error < 1e-9, "{key} {classes} {ends:?}: {error}");
                    assert_eq!(divided.report.stop, together.report.stop, "{key} {classes}");
                }
            }
        }
    }

    #[test]
    fn zeros_get_the_same_floor() {
        let mut logits = Array2::zeros((400, 3));
        let mut rng = Rng::new(4);
        let mut labels = Vec::new();
        for (row, mut scores) in logits.rows_mut().into_iter().enumerate() {
            labels.push(u32::from(rng.uniform() < 0.1));
            let far = if row % 2 == 0 { -690.0 } else { -2.0 };
            (scores[1], scores[2]) = (far - rng.uniform() as f32, far - 1.0);
        }
        let scores = Scores::new(ScoreKind::Logits, logits).unwrap();
        let data = Dataset::new(scores, &labels).unwrap();
        for key in ["ts", "svs", "diag"] {
            let method = Method::from_key(key).unwrap();
            let (together, divided) = (
                method.fit(&data).unwrap(),
                fit(&method, &data, &[150, 400]).unwrap(),
            );
            assert_eq!(divided.report.notes, together.report.notes);
            assert!(divided.report.notes[0].contains("probability 0"));
            let difference = divided.report.nll_after - together.report.nll_after;
            assert!(difference.abs() < 1e-9, "{key}: {difference}");
        }
    }

    #[test]
    fn what_cannot_be_fitted_is_refused() {
        let data = rows(100, 3, false);
        let refused = fit(&Method::from_key("auto").unwrap(), &data, &[100]).unwrap_err();
        let expected = Error::NotBySums {
            key: "auto".to_owned(),
            known: "ts, svs, diag".to_owned(),
        };
        assert_eq!(refused, expected);
        let ts = Method::from_key("ts").unwrap();
        assert_eq!(fit(&ts, &data, &[0, 0]), Err(Error::NoRows));
        let ask = |_: &Question| Err(Error::Cancelled);
        assert_eq!(DividedRows::new(&ask).err(), Some(Error::Cancelled));
        assert!(Answer::from_bytes(&[1, 2, 3]).is_err());
    }

    #[test]
    fn bits_are_in_the_order_of_the_numbers() {
        let numbers = [
            f64::NEG_INFINITY,
            -1e300,
            -1.5,
            -0.0,
            0.0,
            1e-310,
            2.0,
            1e300,
        ];
        for pair in numbers.windows(2) {
            assert!(ordered_bits(pair[0]) < ordered_bits(pair[1]), "{pair:?}");
        }
        for number in numbers {
            assert_eq!(
                from_ordered_bits(ordered_bits(number)).to_bits(),
                number.to_bits()
            );
        }
    }
}
