//! Early stopping: the parameters with the lowest loss on held-out rows are kept.

use super::batch::BatchLoss;
use crate::optim::EarlyStopping;
use crate::rng::Rng;

/// Held-out rows, and the best parameters so far.
pub(super) struct HeldOut {
    rows: Vec<u32>,
    patience: usize,
    best: Option<(f64, Vec<f32>)>,
    /// Checks since the best.
    waited: usize,
}

impl HeldOut {
    /// Moves a random share of `rows` here; `None` if there are too few rows to share.
    pub(super) fn split(
        settings: &EarlyStopping,
        rng: &mut Rng,
        rows: &mut Vec<u32>,
    ) -> Option<Self> {
        let held_out = (settings.held_out * rows.len() as f64).round() as usize;
        if held_out == 0 || held_out == rows.len() {
            return None;
        }
        rng.shuffle(rows);
        Some(Self {
            rows: rows.split_off(rows.len() - held_out),
            patience: settings.patience,
            best: None,
            waited: 0,
        })
    }

    /// Evaluates new parameters; true if there was no improvement for as long as the patience lasts.
    pub(super) fn should_stop(&mut self, batch: &mut BatchLoss<'_>, params: &[f32]) -> bool {
        let loss = batch.mean(params, &self.rows);
        if self.best.as_ref().is_none_or(|(best, _)| loss < *best) {
            self.best = Some((loss, params.to_vec()));
            self.waited = 0;
        } else {
            self.waited += 1;
        }
        self.waited >= self.patience
    }

    /// The best parameters, if any were evaluated.
    pub(super) fn into_best(self) -> Option<Vec<f32>> {
        self.best.map(|(_, params)| params)
    }
}
