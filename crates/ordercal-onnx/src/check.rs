#![cfg_attr(test, allow(clippy::float_cmp))]
//! Checks an export: the graph and the model have to agree on sample rows.

use half::f16;
use ndarray::{Array2, ArrayView2};
use ordercal::{Model, Rng, ScoreKind, Scores};
use prost::Message;

use crate::interpreter::{self, Tensor};
use crate::proto::ModelProto;
use crate::{InputType, OnnxError, TOLERANCE};

/// About how many scores there are in the sample, and the fewest and most rows.
const CELLS: usize = 40_000;
const ROWS: (usize, usize) = (24, 400);

/// Two probabilities of a free model that are closer than this may change places, because the graph and the
/// library round differently.
const NEAR_TIE: f32 = 1e-6;

/// Compares what the bytes of a file compute with what the model computes.
pub fn check(
    bytes: &[u8],
    model: &Model,
    kind: ScoreKind,
    input_type: InputType,
) -> Result<(), OnnxError> {
    let failed = |what: String| OnnxError::CheckFailed { what };
    let graph = ModelProto::decode(bytes).map_err(|e| failed(e.to_string()))?;
    let classes = model.classes();
    let count = (CELLS / classes).clamp(ROWS.0, ROWS.1);
    let mut rows = sample_rows(classes, kind, count);
    let narrow: Array2<f16> = match input_type {
        InputType::F32 => Array2::default((0, 0)),
        InputType::F16 => {
            let values = rows.iter_mut().map(|value| {
                // Masks stay, and what is beyond the range becomes its end.
                let narrow = if value.is_finite() {
                    f16::from_f32(value.clamp(-65504.0, 65504.0))
                } else {
                    f16::from_f32(*value)
                };
                *value = narrow.to_f32();
                narrow
            });
            Array2::from_shape_vec((count, classes), values.collect()).expect("rows of equal width")
        }
    };
    let input = Tensor::matrix(count, classes, rows.clone());
    let outputs = interpreter::run(&graph, input).map_err(failed)?;
    let output = |name: &str| {
        let found = outputs.get(name).and_then(Tensor::as_f32);
        found.ok_or_else(|| failed(format!("it has no output {name} of 32-bit floats")))
    };
    let (probabilities, logits) = (output("probabilities")?, output("logits")?);

    let view = ArrayView2::from_shape((count, classes), &rows).expect("rows of equal width");
    let scores = match input_type {
        InputType::F32 => Scores::new(kind, view)?,
        InputType::F16 => Scores::new(kind, narrow.view())?,
    };
    let expected = model.apply::<f32>(&scores, ScoreKind::Probs)?;
    // In 64 bits, because in 32 the library separates classes whose logits round to the same value, and the graph
    // does not.
    let expected_logits = model.apply::<f64>(&scores, ScoreKind::Logits)?;
    for (row, expected) in expected.rows().into_iter().enumerate() {
        let expected = expected.to_slice().expect("a row lies in one piece");
        let cells = row * classes..(row + 1) * classes;
        let found = &probabilities[cells.clone()];
        let (wanted, got) = (largest(expected), largest(found));
        let tied = !model.order_preserving() && expected[wanted] - expected[got] < NEAR_TIE;
        if wanted != got && !tied {
            return Err(failed(format!(
                "in sample row {row} it predicts class {got}, the model {wanted}"
            )));
        }
        for (class, (e, f)) in expected.iter().zip(found).enumerate() {
            let close = (e - f).abs() <= TOLERANCE;
            if !close {
                return Err(failed(format!(
                    "in sample row {row} class {class} gets {f}, from the model {e}"
                )));
            }
        }
        let wanted = expected_logits.row(row);
        // Only differences of logits count, and networks are computed in 32 bits.
        let finite = wanted.iter().filter(|e| e.is_finite());
        let size = finite.fold(1.0_f64, |size, e| size.max(e.abs()));
        let found = logits[cells].iter().map(|&f| f64::from(f));
        for (class, (e, f)) in wanted.iter().zip(found).enumerate() {
            // The logits of classes with next to no probability are not compared.
            let compared = expected[class] > 1e-9;
            let masked = *e == f64::NEG_INFINITY;
            // The graph clamps logits that 32 bits cannot hold.
            let beyond = |value: f64| value.abs() >= f64::from(f32::MAX / 2.0);
            let close = (e - f).abs() <= f64::from(TOLERANCE) * size
                || (beyond(*e) && beyond(f) && e.signum() == f.signum());
            if (masked && f.total_cmp(e).is_ne()) || (!masked && compared && !close) {
                return Err(failed(format!(
                    "in sample row {row} class {class} has the logit {f}, in the model {e}"
                )));
            }
        }
    }
    Ok(())
}

fn largest(row: &[f32]) -> usize {
    let mut at = 0;
    for (class, value) in row.iter().enumerate() {
        if *value > row[at] {
            at = class;
        }
    }
    at
}

/// Rows of many scales, with ties, masked classes, neighbouring floats and very large scores.
pub fn sample_rows(classes: usize, kind: ScoreKind, count: usize) -> Vec<f32> {
    let mut rng = Rng::new(1357);
    let mut rows = Vec::with_capacity(count * classes);
    for row in 0..count {
        let scale = [0.01, 1.0, 3.0, 10.0, 30.0, 1000.0][row % 6];
        let mut scores: Vec<f32> = (0..classes)
            .map(|_| (rng.normal() * scale) as f32)
            .collect();
        let (one, other) = (rng.below(classes), rng.below(classes));
        match row % 8 {
            1 => scores[one] = scores[other],
            2 => scores[one] = scores[other].next_up(),
            3 => scores[other] = scores[largest(&scores)].next_down(),
            4 if row % 16 == 4 => scores[one] *= 1e20,
            5 if classes > 2 && kind == ScoreKind::Logits => {
                let top = largest(&scores);
                if one != top {
                    scores[one] = f32::NEG_INFINITY;
                }
            }
            _ => {}
        }
        if kind != ScoreKind::Logits {
            let top = f64::from(scores[largest(&scores)]);
            let sum: f64 = scores.iter().map(|&s| (f64::from(s) - top).exp()).sum();
            for score in &mut scores {
                let log = f64::from(*score) - top - sum.ln();
                *score = match kind {
                    ScoreKind::Probs => log.exp() as f32,
                    _ => log as f32,
                };
            }
        }
        rows.extend(scores);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx_bytes;
    use ordercal::models::TsModel;

    #[test]
    fn a_graph_of_another_model_is_refused() {
        let one: Model = TsModel::new(5, 0.5).unwrap().into();
        let other: Model = TsModel::new(5, 0.500_2).unwrap().into();
        let bytes = onnx_bytes(&one, ScoreKind::Logits).unwrap();
        assert_eq!(
            check(&bytes, &one, ScoreKind::Logits, InputType::F32),
            Ok(())
        );
        let found = check(&bytes, &other, ScoreKind::Logits, InputType::F32);
        assert!(
            matches!(found, Err(OnnxError::CheckFailed { .. })),
            "{found:?}"
        );
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let model: Model = TsModel::new(3, 0.5).unwrap().into();
        let bytes = onnx_bytes(&model, ScoreKind::Logits).unwrap();
        let found = check(
            &bytes[..bytes.len() - 30],
            &model,
            ScoreKind::Logits,
            InputType::F32,
        );
        assert!(
            matches!(found, Err(OnnxError::CheckFailed { .. })),
            "{found:?}"
        );
    }

    #[test]
    fn samples_hold_ties_and_masked_classes() {
        let rows = sample_rows(6, ScoreKind::Logits, 400);
        assert!(rows.contains(&f32::NEG_INFINITY));
        let tied = |row: &[f32]| (0..6).any(|i| (0..i).any(|j| row[i] == row[j]));
        assert!(rows.chunks(6).any(tied));
    }
}
