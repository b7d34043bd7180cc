//! Minimising a unimodal function of one variable by safeguarded Newton steps.

use super::stop::StopReason;

/// Value, slope and curvature of the function at a point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Local {
    pub value: f64,
    pub slope: f64,
    pub curvature: f64,
}

/// How reliable the curvature is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Curvature {
    /// It is the second derivative.
    Exact,
    /// It is an approximation.
    Rough,
}

/// Where the search ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Minimum {
    pub at: f64,
    pub value: f64,
    pub evaluations: usize,
    pub stop: StopReason,
}

/// Finds the minimum in `low..=high`, from `start`.
///
/// The sign of the slope tells on which side the minimum lies, so the bracket around it shrinks at every step. A Newton
/// step that would leave the bracket is replaced by bisection, and no step is longer than 2. The search ends if the step
/// is below `tolerance`, or at an end of the interval if the function still decreases there.
///
/// If the curvature is exact, the last step is not followed by another evaluation: Newton's method converges
/// quadratically, so the error after the step can be predicted, and the value there follows from slope and curvature.
pub(crate) fn minimize<E>(
    (mut low, mut high): (f64, f64),
    start: f64,
    tolerance: f64,
    curvature: Curvature,
    mut evaluate: impl FnMut(f64) -> Result<Local, E>,
) -> Result<Minimum, E> {
    const MAX_EVALUATIONS: usize = 100;
    const MAX_STEP: f64 = 2.0;
    let (first, last) = (low, high);
    let mut at = start.clamp(low, high);
    let mut evaluations = 0;
    let mut before: Option<f64> = None;
    loop {
        let local = evaluate(at)?;
        evaluations += 1;
        let finish = |stop| Minimum {
            at,
            value: local.value,
            evaluations,
            stop,
        };
        if local.slope > 0.0 {
            high = at;
        } else {
            low = at;
        }
        if local.slope == 0.0 {
            return Ok(finish(StopReason::Converged));
        }
        if high <= first {
            return Ok(finish(StopReason::LowerBound));
        }
        if low >= last {
            return Ok(finish(StopReason::UpperBound));
        }
        if evaluations == MAX_EVALUATIONS {
            return Ok(finish(StopReason::IterationLimit));
        }
        // Infinite if the curvature is not positive; limited to the longest step below.
        let newton = local.slope / local.curvature.max(0.0);
        let mut next = (at - newton.clamp(-MAX_STEP, MAX_STEP)).clamp(first, last);
        let mut newtons = newton.abs() <= MAX_STEP && first < next && next < last;
        // Both ends of the bracket have been evaluated, unless they are those of the interval.
        if next <= low && low > first || next >= high && high < last {
            next = 0.5 * (low + high);
            newtons = false;
        }
        let step = next - at;
        if step.abs() <= tolerance {
            return Ok(finish(StopReason::Converged));
        }
        if let Some(before) = before
            && newtons
            && curvature == Curvature::Exact
        {
            // The factor of quadratic convergence, estimated from the last two steps, and not below 4.
            let growth = (step.abs() / (before * before)).max(4.0);
            if growth * step * step <= tolerance {
                return Ok(Minimum {
                    at: next,
                    value: local.value + step * (local.slope + 0.5 * local.curvature * step),
                    evaluations,
                    stop: StopReason::Converged,
                });
            }
        }
        before = newtons.then_some(step);
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn run(bounds: (f64, f64), start: f64, f: impl Fn(f64) -> (f64, f64, f64)) -> Minimum {
        let evaluate = |x| {
            let (value, slope, curvature) = f(x);
            Ok::<_, Infallible>(Local {
                value,
                slope,
                curvature,
            })
        };
        match minimize(bounds, start, 1e-10, Curvature::Exact, evaluate) {
            Ok(minimum) => minimum,
            Err(never) => match never {},
        }
    }

    #[test]
    fn finds_a_minimum_inside() {
        // Far from the minimum the Newton step of cosh is about 1, whatever the distance.
        for start in [-9.0, -1.0, 0.3, 8.0] {
            let found = run((-10.0, 10.0), start, |x| {
                ((x - 1.0).cosh(), (x - 1.0).sinh(), (x - 1.0).cosh())
            });
            assert!((found.at - 1.0).abs() < 1e-8, "{found:?}");
            assert_eq!(found.stop, StopReason::Converged);
        }
    }

    #[test]
    fn survives_negative_curvature() {
        // The minimum is at 0; the function is concave for |x| > 1.
        let found = run((-20.0, 20.0), 7.0, |x| {
            let q = 1.0 + x * x;
            (q.ln(), 2.0 * x / q, 2.0 * (1.0 - x * x) / (q * q))
        });
        assert!(found.at.abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn stops_at_a_bound_and_says_which() {
        let falling = run((-3.0, 5.0), 0.0, |x| ((-x).exp(), -(-x).exp(), (-x).exp()));
        assert_eq!((falling.at, falling.stop), (5.0, StopReason::UpperBound));
        let rising = run((-3.0, 5.0), 0.0, |x| (x.exp(), x.exp(), x.exp()));
        assert_eq!((rising.at, rising.stop), (-3.0, StopReason::LowerBound));
    }
}
