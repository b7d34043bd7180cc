//! A check that a row keeps its order, which only compares floats.

use ordercal::{Real, ScoreKind};

/// Describes how an output row violates the order of its input row; `None` if it does not.
///
/// For every pair of classes, x_i > x_j ⇒ out_i > out_j and x_i = x_j ⇒ out_i = out_j; masked classes stay masked.
/// Probabilities sum to 1, and a strict inequality may become an equality if the smaller one is below the smallest normal
/// number of the type, except for the top class.
pub fn violation<T: Real>(input: &[f32], output: &[T], kind: ScoreKind) -> Option<String> {
    let probs = kind == ScoreKind::Probs;
    let mut order: Vec<usize> = (0..input.len()).collect();
    order.sort_by(|&a, &b| input[b].partial_cmp(&input[a]).expect("no NaN"));
    for pair in order.windows(2) {
        let (above, below) = (pair[0], pair[1]);
        let (high, low) = (output[above], output[below]);
        let exempt = probs && low.to_f64() < T::MIN_POSITIVE && low <= high;
        let kept = if input[below] == f32::NEG_INFINITY {
            true
        } else if input[above] > input[below] {
            high > low || exempt
        } else {
            high == low
        };
        if !kept {
            return Some(format!(
                "classes {above} and {below}: scores {:e} and {:e} became {high} and {low}",
                input[above], input[below]
            ));
        }
    }
    let mut sum = 0.0;
    for (class, (&score, &value)) in input.iter().zip(output).enumerate() {
        let value = value.to_f64();
        let masked = if probs { 0.0 } else { f64::NEG_INFINITY };
        if score == f32::NEG_INFINITY {
            if value.partial_cmp(&masked) != Some(std::cmp::Ordering::Equal) {
                return Some(format!("class {class} is masked but became {value}"));
            }
        } else if !value.is_finite() || (probs && !(0.0..=1.0).contains(&value)) {
            return Some(format!("class {class}: score {score:e} became {value}"));
        }
        sum += value;
    }
    if probs {
        if (sum - 1.0).abs() > 1e-5 {
            return Some(format!("the probabilities sum to {sum}"));
        }
        let (top, second) = (order[0], order[1]);
        if input[top] > input[second] && output[top] <= output[second] {
            return Some(format!("the top class {top} is now tied"));
        }
    }
    None
}
