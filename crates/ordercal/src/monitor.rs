//! A sequential test of "still calibrated?" over the windows of a stream, such as its days.
//!
//! The hypothesis is that every outcome occurs with the probability that was said, whatever happened before. Against it
//! the test bets: it starts with a wealth of 1, and each row multiplies the wealth of the bet on a shift δ of the log-odds by
//! the likelihood ratio e^(δh)/(1 − c + c·e^δ), for an outcome h of confidence c. While the hypothesis holds, the expected
//! wealth never exceeds 1, so by Ville's inequality the chance that it *ever* reaches 1/α is at most α: the rate of false
//! alarms over the whole stream, however often one looks.
//!
//! The wealth is divided over shifts δ in both directions and, because a change may come late, over the window from which a
//! bet is placed: the k-th has the share 1/(k(k + 1)). Of a window only the sums of its bins are needed, which a
//! [`MetricState`] has: ln(1 − c + c·e^δ) is concave in c, so its value at the mean confidence of a bin bounds the mean over
//! the bin's rows, and the wealth is, if anything, too small.
//!
//! One such test is of the predicted class, and gets half of α; the classes share the other half.
//!
//! V. Vovk, R. Wang: *E-values: Calibration, combination and applications*, Annals of Statistics 2021;
//! G. Shafer: *Testing by betting*, JRSS A 2021.

use serde::Serialize;

use crate::error::{Error, Result};
use crate::metrics::{MetricState, Reliability, Target};

/// The shifts of the log-odds that are bet on, each with both signs.
const SHIFTS: [f64; 6] = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6];

/// The bets: every shift in both directions.
const BETS: usize = 2 * SHIFTS.len();

/// The chance of a false alarm if nobody says.
pub const ALPHA: f64 = 0.05;

fn shift(bet: usize) -> f64 {
    let size = SHIFTS[bet / 2];
    if bet.is_multiple_of(2) { size } else { -size }
}

/// A test that windows are given to, one after the other.
///
/// ```
/// use ndarray::array;
/// use ordercal::metrics::{MetricOptions, MetricState, Predictions};
/// use ordercal::monitor::Monitor;
///
/// // Always 90 % sure, and right half of the time.
/// let probs = array![[0.9_f64, 0.1], [0.9, 0.1]];
/// let mut day = MetricState::new(2, MetricOptions::default())?;
/// let mut monitor = Monitor::new(2, 0.05)?;
/// for _ in 0..10 {
///     day.update(&Predictions::from_probs(probs.view(), &[0, 1])?)?;
/// }
/// while monitor.push(&day)?.alarm.is_none() {}
/// assert!(monitor.windows() < 5);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Monitor {
    classes: usize,
    alpha: f64,
    windows: usize,
    /// The test of the predicted class, then those of the classes.
    tests: Vec<Test>,
    alarm: Option<Alarm>,
}

/// Where the first alarm was, and of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Alarm {
    /// The window, counted from 0.
    pub window: usize,
    /// What is not calibrated any more.
    pub target: Target,
}

/// What a test says after a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Verdict {
    /// The natural logarithm of the wealth of the bets on the predicted class.
    pub log_wealth: f64,
    /// The class whose bets have won the most, and the logarithm of their wealth.
    pub class: usize,
    /// The logarithm of that wealth.
    pub class_log_wealth: f64,
    /// The largest share of its own threshold that a test has reached so far, as a chance: at or below α is an alarm. It is
    /// valid at every time (an anytime-valid p-value).
    pub p_value: f64,
    /// The first alarm, in this window or before.
    pub alarm: Option<Alarm>,
}

impl Monitor {
    /// A test without windows, with false alarms in at most a share `alpha` of all streams.
    ///
    /// # Errors
    /// If `alpha` is not between 0 and 1, or there are fewer than two classes.
    pub fn new(classes: usize, alpha: f64) -> Result<Self> {
        if !(alpha > 0.0 && alpha < 1.0) {
            return Err(Error::invalid("alpha", alpha, "a number between 0 and 1"));
        }
        if classes < 2 {
            return Err(Error::TooFewClasses { classes });
        }
        Ok(Self {
            classes,
            alpha,
            windows: 0,
            tests: vec![
                Test {
                    windows: 0,
                    logs: [f64::NEG_INFINITY; BETS],
                    log_wealth: 0.0,
                    highest: 0.0,
                };
                classes + 1
            ],
            alarm: None,
        })
    }

    /// The number of windows so far.
    pub fn windows(&self) -> usize {
        self.windows
    }

    /// Takes in the next window; one without rows changes nothing.
    ///
    /// # Errors
    /// If it is of another number of classes, or its rows have weights: a weighted row is not one bet.
    pub fn push(&mut self, window: &MetricState) -> Result<Verdict> {
        if window.classes() != self.classes {
            return Err(Error::WrongClasses {
                expected: self.classes,
                found: window.classes(),
            });
        }
        if window.has_weights() {
            return Err(Error::InvalidArgument {
                argument: "window",
                found: "rows with weights".to_owned(),
                expected: "rows of weight 1, each of which is one bet",
            });
        }
        let (mut best, mut p_value) = ((0, f64::NEG_INFINITY), 1.0_f64);
        for (place, test) in self.tests.iter_mut().enumerate() {
            let target = match place {
                0 => Target::TopLabel,
                class => Target::Class(class - 1),
            };
            if window.rows() > 0 {
                test.push(&window.reliability(target)?);
            }
            // Half for the predicted class; the other half is divided among the classes.
            let share = if place == 0 {
                0.5
            } else {
                0.5 / self.classes as f64
            };
            if test.highest >= -(self.alpha * share).ln() && self.alarm.is_none() {
                self.alarm = Some(Alarm {
                    window: self.windows,
                    target,
                });
            }
            p_value = p_value.min((-test.highest).exp() / share);
            if place > 0 && test.log_wealth > best.1 {
                best = (place - 1, test.log_wealth);
            }
        }
        self.windows += 1;
        Ok(Verdict {
            log_wealth: self.tests[0].log_wealth,
            class: best.0,
            class_log_wealth: best.1,
            p_value,
            alarm: self.alarm,
        })
    }
}

/// The wealth of the bets on one probability.
#[derive(Debug, Clone)]
struct Test {
    windows: usize,
    /// For each bet the logarithm of Σ over begins k of the share 1/(k(k + 1)) times what was made since.
    logs: [f64; BETS],
    log_wealth: f64,
    /// The most it ever was.
    highest: f64,
}

impl Test {
    fn push(&mut self, window: &Reliability) {
        self.windows += 1;
        let k = self.windows as f64;
        let share = -(k * (k + 1.0)).ln();
        for (bet, log) in self.logs.iter_mut().enumerate() {
            // Those that began before and the one that begins now gain alike.
            *log = log_sum(&[*log, share]) + gain(window, shift(bet));
        }
        let bets = log_sum(&self.logs) - (BETS as f64).ln();
        // The shares of windows to come: 1 − Σ 1/(k(k + 1)) = 1/(k + 1).
        self.log_wealth = log_sum(&[bets, -(k + 1.0).ln()]);
        self.highest = self.highest.max(self.log_wealth);
    }
}

/// The logarithm of what a bet on a shift makes of a wealth of 1 in a window, or less.
fn gain(window: &Reliability, shift: f64) -> f64 {
    let filled = window.bins.iter();
    let filled = filled.filter_map(|bin| Some((bin.count as f64, bin.filled?)));
    let gains = filled.map(|(count, filled)| {
        let confidence = filled.confidence.clamp(0.0, 1.0);
        let bound = (confidence * shift.exp_m1()).ln_1p();
        count * (shift * filled.accuracy - bound)
    });
    gains.sum()
}

/// ln Σ e^x.
fn log_sum(logs: &[f64]) -> f64 {
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    top + logs.iter().map(|log| (log - top).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{MetricOptions, Predictions};
    use crate::rng::Rng;
    use ndarray::Array2;

    const ROWS: usize = 100;

    /// A window of rows whose true log-odds are `factor` times those said.
    fn window(rng: &mut Rng, factor: f64) -> MetricState {
        let mut probs = Array2::zeros((ROWS, 3));
        let mut labels = Vec::new();
        for mut row in probs.outer_iter_mut() {
            let logits: Vec<f64> = (0..3).map(|_| 2.0 * rng.normal()).collect();
            let softmax = |factor: f64| {
                let exps: Vec<f64> = logits.iter().map(|x| (factor * x).exp()).collect();
                let sum: f64 = exps.iter().sum();
                exps.into_iter().map(move |e| e / sum)
            };
            softmax(1.0)
                .zip(row.iter_mut())
                .for_each(|(p, cell)| *cell = p);
            let mut left = rng.uniform();
            let label = softmax(factor).position(|p| {
                left -= p;
                left <= 0.0
            });
            labels.push(label.unwrap_or(2) as u32);
        }
        let mut state = MetricState::new(3, MetricOptions::default()).unwrap();
        let predictions = Predictions::from_probs(probs.view(), &labels).unwrap();
        state.update(&predictions).unwrap();
        state
    }

    #[test]
    fn false_alarms_are_rarer_than_stated_and_changes_are_found() {
        let mut rng = Rng::new(11);
        let mut alarms = 0;
        for _ in 0..100 {
            let mut monitor = Monitor::new(3, 0.2).unwrap();
            for _ in 0..40 {
                monitor.push(&window(&mut rng, 1.0)).unwrap();
            }
            alarms += usize::from(monitor.alarm.is_some());
        }
        assert!(alarms <= 20, "{alarms} of 100");
        let mut delays = Vec::new();
        for _ in 0..20 {
            let mut monitor = Monitor::new(3, 0.05).unwrap();
            let alarm = (0..100).find_map(|day| {
                let factor = if day < 20 { 1.0 } else { 0.5 };
                monitor.push(&window(&mut rng, factor)).unwrap().alarm
            });
            delays.push(alarm.expect("an alarm").window as i64 - 19);
        }
        delays.sort_unstable();
        assert!((1..=8).contains(&delays[10]), "{delays:?}");
    }

    #[test]
    fn the_wealth_is_that_of_its_definition() {
        let mut rng = Rng::new(5);
        let windows = [1.0, 0.5, 0.7].map(|factor| window(&mut rng, factor));
        let mut monitor = Monitor::new(3, 0.05).unwrap();
        let verdicts = windows.each_ref().map(|w| monitor.push(w).unwrap());
        let mut wealth = 1.0 / 4.0;
        for begin in 0..3 {
            for bet in 0..BETS {
                let share = 1.0 / ((begin + 1) * (begin + 2)) as f64 / BETS as f64;
                let shift = shift(bet);
                let bins = windows[begin..]
                    .iter()
                    .flat_map(|w| w.reliability(Target::TopLabel).unwrap().bins);
                let ratios = bins.filter_map(|bin| {
                    let filled = bin.filled?;
                    let (n, c) = (bin.count as f64, filled.confidence);
                    let hits = (n * filled.accuracy).round();
                    Some((shift * hits).exp() / (1.0 - c + c * shift.exp()).powf(n))
                });
                wealth += share * ratios.product::<f64>();
            }
        }
        assert!((verdicts[2].log_wealth - f64::ln(wealth)).abs() < 1e-9);
        assert!(verdicts[2].p_value <= verdicts[1].p_value);
    }

    #[test]
    fn weights_and_other_classes_are_refused() {
        let mut monitor = Monitor::new(3, 0.05).unwrap();
        let probs = Array2::from_elem((2, 3), 1.0 / 3.0);
        for weights in [[3.0, 1.0], [2.0, 2.0], [0.5, 1.5], [2.0, 0.0]] {
            let predictions = Predictions::from_probs(probs.view(), &[0, 1]).unwrap();
            let predictions = predictions.with_weights(weights.to_vec()).unwrap();
            let mut weighted = MetricState::new(3, MetricOptions::default()).unwrap();
            weighted.update(&predictions).unwrap();
            let error = monitor.push(&weighted).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
        }
        let four = MetricState::new(4, MetricOptions::default()).unwrap();
        let error = monitor.push(&four).unwrap_err();
        assert!(matches!(
            error,
            Error::WrongClasses {
                expected: 3,
                found: 4
            }
        ));
        let empty = MetricState::new(3, MetricOptions::default()).unwrap();
        assert!(monitor.push(&empty).unwrap().log_wealth <= 0.0);
        let error = Monitor::new(3, 1.5).unwrap_err();
        assert!(matches!(
            error,
            Error::InvalidParameter { name: "alpha", .. }
        ));
        let error = Monitor::new(1, 0.05).unwrap_err();
        assert!(matches!(error, Error::TooFewClasses { classes: 1 }));
    }
}
