//! L-BFGS with a line search for the strong Wolfe conditions (Nocedal and Wright, chapters 3 and 7).

use std::collections::VecDeque;

use derive_setters::Setters;
use serde::{Deserialize, Serialize};

use super::stop::StopReason;
use super::vector::{add_scaled, combine, dot};
use crate::error::{Error, Result};

/// L-BFGS (Nocedal, 1980) with a line search for the strong Wolfe conditions, on all rows at every step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Setters)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[setters(prefix = "with_")]
pub struct Lbfgs {
    /// The largest number of iterations.
    pub max_iterations: usize,
    /// How many past steps approximate the Hessian.
    pub history: usize,
    /// Converged if no component of the gradient is larger than this.
    pub tolerance: f64,
}

impl Default for Lbfgs {
    fn default() -> Self {
        Self {
            max_iterations: 300,
            history: 10,
            tolerance: 1e-6,
        }
    }
}

/// Returns the value at a point and writes the gradient there.
pub(crate) type Objective<'a> = dyn FnMut(&[f64], &mut [f64]) -> f64 + 'a;

/// An accepted step.
pub(crate) struct Step<'a> {
    pub iteration: usize,
    pub value: f64,
    pub point: &'a [f64],
}

/// How a search ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub iterations: usize,
    pub evaluations: usize,
    pub stop: StopReason,
}

/// The constants c₁ (sufficient decrease) and c₂ (curvature) of the strong Wolfe conditions, as usual for quasi-Newton
/// methods.
const DECREASE: f64 = 1e-4;
const CURVATURE: f64 = 0.9;
const MAX_LINE_EVALUATIONS: usize = 25;

impl Lbfgs {
    pub(crate) fn validate(&self) -> Result<()> {
        if self.history == 0 {
            return Err(Error::invalid("history", self.history, "at least 1"));
        }
        if !(self.tolerance >= 0.0 && self.tolerance.is_finite()) {
            return Err(Error::invalid(
                "tolerance",
                self.tolerance,
                "a finite number, 0 or more",
            ));
        }
        Ok(())
    }

    /// Minimises a function, starting at `point`, which is overwritten by the last accepted point.
    ///
    /// `evaluate` returns the value at a point and writes the gradient there. `noise` is the relative precision of the
    /// values. `on_step` is called with every accepted point; if it returns a reason, the search ends.
    pub(crate) fn minimize(
        &self,
        point: &mut [f64],
        noise: f64,
        evaluate: &mut Objective<'_>,
        on_step: &mut dyn FnMut(&Step<'_>) -> Result<Option<StopReason>>,
    ) -> Result<Outcome> {
        let n = point.len();
        let mut search = LineSearch {
            origin: point.to_vec(),
            direction: vec![0.0; n],
            point: point.to_vec(),
            gradient: vec![0.0; n],
            evaluations: 0,
            evaluate,
        };
        let mut memory = Memory {
            history: self.history,
            pairs: VecDeque::new(),
        };
        let mut gradient = vec![0.0; n];
        let mut value = (search.evaluate)(point, &mut gradient);
        search.evaluations += 1;
        let mut flat_steps = 0;
        let mut iterations = 0;
        let stop = loop {
            if gradient.iter().all(|g| g.abs() <= self.tolerance) {
                break StopReason::Converged;
            }
            if iterations == self.max_iterations {
                break StopReason::IterationLimit;
            }
            search.origin.copy_from_slice(point);
            memory.direction(&gradient, &mut search.direction);
            let mut slope = dot(&gradient, &search.direction);
            if slope >= 0.0 || !slope.is_finite() {
                memory.pairs.clear();
                memory.direction(&gradient, &mut search.direction);
                slope = dot(&gradient, &search.direction);
            }
            // The quadratic model promises a decrease of half the slope; it may be off where the function is flat.
            if !memory.pairs.is_empty() && -slope <= 0.01 * noise * value.abs() {
                break StopReason::NoiseFloor;
            }
            // Without history the direction has no scale: the first step is at most 1 long.
            let first = if memory.pairs.is_empty() {
                1.0 / (-slope).sqrt().max(1.0)
            } else {
                1.0
            };
            let Some(next) = search.run(first, value, slope, noise) else {
                if memory.pairs.is_empty() {
                    break StopReason::NoiseFloor;
                }
                memory.pairs.clear();
                continue;
            };
            iterations += 1;
            memory.push(point, &search.point, &gradient, &search.gradient);
            point.copy_from_slice(&search.point);
            gradient.copy_from_slice(&search.gradient);
            flat_steps = if value - next <= noise * value.abs().max(next.abs()) {
                flat_steps + 1
            } else {
                0
            };
            value = next;
            let step = Step {
                iteration: iterations,
                value,
                point,
            };
            if let Some(reason) = on_step(&step)? {
                break reason;
            }
            if flat_steps == 3 {
                break StopReason::NoiseFloor;
            }
        };
        Ok(Outcome {
            iterations,
            evaluations: search.evaluations,
            stop,
        })
    }
}

/// The function along one direction.
struct LineSearch<'f> {
    origin: Vec<f64>,
    direction: Vec<f64>,
    point: Vec<f64>,
    gradient: Vec<f64>,
    evaluations: usize,
    evaluate: &'f mut Objective<'f>,
}

/// Step, value and slope at a point on the line.
#[derive(Clone, Copy)]
struct At {
    step: f64,
    value: f64,
    slope: f64,
}

impl LineSearch<'_> {
    fn at(&mut self, step: f64) -> At {
        let (origin, direction) = (&self.origin, &self.direction);
        combine(&mut self.point, origin, direction, |o, d| o + step * d);
        let value = (self.evaluate)(&self.point, &mut self.gradient);
        self.evaluations += 1;
        let slope = dot(&self.gradient, &self.direction);
        if value.is_finite() && slope.is_finite() {
            At { step, value, slope }
        } else {
            At {
                step,
                value: f64::INFINITY,
                slope: 0.0,
            }
        }
    }

    /// Finds a step that satisfies the strong Wolfe conditions, and returns the value there. `point` and `gradient` are
    /// those of the step.
    fn run(&mut self, first: f64, value: f64, slope: f64, noise: f64) -> Option<f64> {
        let slack = noise * value.abs();
        let enough = |at: &At| at.value <= value + DECREASE * at.step * slope + slack;
        let flat = |at: &At| at.slope.abs() <= -CURVATURE * slope;
        let mut low = At {
            step: 0.0,
            value,
            slope,
        };
        let mut step = first;
        let mut high = None;
        for _ in 0..MAX_LINE_EVALUATIONS {
            let here = self.at(step);
            if !enough(&here) || (here.value > low.value + slack && low.step > 0.0) {
                high = Some(here);
            } else if flat(&here) {
                return Some(here.value);
            } else if here.slope * (high.map_or(f64::INFINITY, |h: At| h.step) - low.step) >= 0.0 {
                high = Some(low);
                low = here;
            } else {
                low = here;
            }
            step = match high {
                Some(high) => {
                    let next = between(&low, &high);
                    if (next - low.step).abs() <= 1e-15 * low.step.abs().max(1e-300) {
                        return None;
                    }
                    next
                }
                None => 4.0 * low.step,
            };
        }
        // No step satisfies both conditions; one that decreases the value is still progress.
        if low.step > 0.0 && low.value < value {
            let here = self.at(low.step);
            return Some(here.value);
        }
        None
    }
}

/// The minimum of the cubic interpolant of both ends, kept away from them; the middle if it has none.
fn between(low: &At, high: &At) -> f64 {
    let width = high.step - low.step;
    let middle = low.step + 0.5 * width;
    if !high.value.is_finite() {
        return low.step + 0.1 * width;
    }
    let a = low.slope + high.slope - 3.0 * (low.value - high.value) / (low.step - high.step);
    let root = a * a - low.slope * high.slope;
    if root < 0.0 {
        return middle;
    }
    let b = root.sqrt().copysign(width);
    let step = high.step - width * (high.slope + b - a) / (high.slope - low.slope + 2.0 * b);
    let (near, far) = (low.step + 0.05 * width, high.step - 0.05 * width);
    if step.is_finite() {
        step.clamp(near.min(far), near.max(far))
    } else {
        middle
    }
}

/// The last steps and gradient changes, the oldest first.
struct Memory {
    history: usize,
    pairs: VecDeque<Pair>,
}

struct Pair {
    step: Vec<f64>,
    change: Vec<f64>,
    inverse: f64,
    alpha: f64,
}

impl Memory {
    fn push(&mut self, from: &[f64], to: &[f64], gradient_from: &[f64], gradient_to: &[f64]) {
        let difference = |from, to: &[f64]| {
            let mut difference = vec![0.0; to.len()];
            combine(&mut difference, from, to, |a, b| b - a);
            difference
        };
        let step = difference(from, to);
        let change = difference(gradient_from, gradient_to);
        let product = dot(&step, &change);
        // Without positive curvature, the approximation of the Hessian would not be positive definite.
        if product > 1e-14 * dot(&change, &change) {
            if self.pairs.len() == self.history {
                self.pairs.pop_front();
            }
            self.pairs.push_back(Pair {
                step,
                change,
                inverse: 1.0 / product,
                alpha: 0.0,
            });
        }
    }

    /// The two-loop recursion: −H·g for the approximation H of the inverse Hessian.
    fn direction(&mut self, gradient: &[f64], direction: &mut [f64]) {
        for (d, g) in direction.iter_mut().zip(gradient) {
            *d = -g;
        }
        for pair in self.pairs.iter_mut().rev() {
            pair.alpha = pair.inverse * dot(&pair.step, direction);
            add_scaled(direction, -pair.alpha, &pair.change);
        }
        if let Some(newest) = self.pairs.back() {
            let scale = 1.0 / (newest.inverse * dot(&newest.change, &newest.change));
            direction.iter_mut().for_each(|d| *d *= scale);
        }
        for pair in &self.pairs {
            let beta = pair.inverse * dot(&pair.change, direction);
            add_scaled(direction, pair.alpha - beta, &pair.step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go_on(_: &Step<'_>) -> Result<Option<StopReason>> {
        Ok(None)
    }

    fn rosenbrock(x: &[f64], gradient: &mut [f64]) -> f64 {
        gradient.fill(0.0);
        let mut value = 0.0;
        for i in 0..x.len() - 1 {
            let (a, b) = (1.0 - x[i], x[i + 1] - x[i] * x[i]);
            value += a * a + 100.0 * b * b;
            gradient[i] += -2.0 * a - 400.0 * b * x[i];
            gradient[i + 1] += 200.0 * b;
        }
        value
    }

    #[test]
    fn finds_rosenbrocks_minimum() {
        for n in [2, 10, 50] {
            let mut x: Vec<f64> = (0..n)
                .map(|i| if i % 2 == 0 { -1.2 } else { 1.0 })
                .collect();
            let settings = Lbfgs::default().with_max_iterations(1000);
            let found = settings
                .minimize(&mut x, 1e-16, &mut rosenbrock, &mut go_on)
                .unwrap();
            assert_eq!(found.stop, StopReason::Converged, "{n}: {found:?}");
            assert!(x.iter().all(|v| (v - 1.0).abs() < 1e-5), "{n}: {x:?}");
            assert!(found.evaluations < 3 * found.iterations, "{found:?}");
        }
    }

    #[test]
    fn backs_off_from_infinities() {
        // −ln x + x: a step to x ≤ 0 has no value.
        let mut barrier = |x: &[f64], g: &mut [f64]| {
            g[0] = 1.0 - 1.0 / x[0];
            if x[0] > 0.0 {
                x[0] - x[0].ln()
            } else {
                f64::NAN
            }
        };
        let mut x = [30.0];
        let found = Lbfgs::default()
            .minimize(&mut x, 1e-15, &mut barrier, &mut go_on)
            .unwrap();
        assert!((x[0] - 1.0).abs() < 1e-5, "{x:?} {found:?}");
    }

    #[test]
    fn ends_at_the_noise_floor() {
        // Values in steps of 1e-6, and a gradient that never gets below 1e-3: no tolerance is reached.
        let mut noisy = |x: &[f64], g: &mut [f64]| {
            let jitter = if x[0].to_bits().count_ones().is_multiple_of(2) {
                1e-3
            } else {
                -1e-3
            };
            g[0] = if x[0].abs() < 5e-4 {
                jitter
            } else {
                2.0 * x[0]
            };
            1.0 + (x[0] * x[0] * 1e6).round() * 1e-6
        };
        let mut x = [3.0];
        let found = Lbfgs::default()
            .minimize(&mut x, 1e-6, &mut noisy, &mut go_on)
            .unwrap();
        assert_eq!(found.stop, StopReason::NoiseFloor);
        assert!(x[0].abs() < 1e-2, "{x:?}");
    }

    #[test]
    fn stops_when_told_to() {
        let mut x = [-1.2, 1.0];
        let mut third = |step: &Step<'_>| {
            assert!(step.point.len() == 2 && step.value.is_finite());
            Ok((step.iteration == 3).then_some(StopReason::EarlyStopping))
        };
        let found = Lbfgs::default()
            .minimize(&mut x, 1e-16, &mut rosenbrock, &mut third)
            .unwrap();
        assert_eq!(
            (found.iterations, found.stop),
            (3, StopReason::EarlyStopping)
        );
        let mut cancel = |_: &Step<'_>| Err(Error::Cancelled);
        let result = Lbfgs::default().minimize(&mut x, 1e-16, &mut rosenbrock, &mut cancel);
        assert_eq!(result.unwrap_err(), Error::Cancelled);
    }
}
