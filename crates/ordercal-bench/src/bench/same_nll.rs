//! Fits of networks to the NLL that PyTorch reaches on held-out rows with the paper's settings.
//!
//! PyTorch trains for the paper's 40 epochs; ours is the method as it is by default. On rows whose true map is a
//! temperature there would be nothing to learn beyond the start, so these rows have another.

use ordercal::{Dataset, Method, Model, Oi, Op, ScoreKind};

use super::data::{Set, Truth};
use super::limits::LowerBound;
use super::workloads::{Caller, LARGE, MIDDLE, Ours, Run, Workload, timed};

pub fn all() -> Vec<Workload> {
    vec![
        to_same_nll("fit oi to the same NLL", MIDDLE, Oi::default())
            .at_same_nll("torch-oi-100-held-out", 8.0),
        to_same_nll("fit oi to the same NLL", LARGE, Oi::default())
            .at_same_nll("torch-oi-150-held-out", 10.0)
            .once(),
        to_same_nll("fit op to the same NLL", LARGE, Op::default())
            .at_same_nll("torch-op-150-held-out", 10.0)
            .once(),
    ]
}

/// The same on any data with held-out rows.
pub fn on_bundles(size: (usize, usize)) -> Vec<Workload> {
    vec![
        to_same_nll("fit oi to the same NLL", size, Oi::default())
            .at_same_nll("torch-oi-100-held-out", 8.0),
        to_same_nll("fit op to the same NLL", size, Op::default())
            .at_same_nll("torch-op-100-held-out", 8.0),
    ]
}

fn to_same_nll(name: &'static str, size: (usize, usize), method: impl Into<Method>) -> Workload {
    let method = method.into();
    let run = move |set: &Set| {
        let (seconds, fitted) = timed(|| Ok(method.fit(&set.data)?))?;
        let held_out = set
            .held_out
            .as_ref()
            .expect("curved data and bundles have held-out rows");
        Ok(Run {
            seconds,
            result: nll(&fitted.model, held_out)?,
            bound: LowerBound::Unknown,
        })
    };
    Workload::of(Caller::Library, name, size, Ours::Here(Box::new(run))).on(Truth::Curved)
}

fn nll(model: &Model, data: &Dataset<'_>) -> anyhow::Result<f64> {
    let logs = model.apply::<f64>(data.scores(), ScoreKind::LogProbs)?;
    let labels = data.labels().iter().enumerate();
    let sum: f64 = labels
        .map(|(row, &label)| -logs[[row, label as usize]])
        .sum();
    Ok(sum / data.rows() as f64)
}
