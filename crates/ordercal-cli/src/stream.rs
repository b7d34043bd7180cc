//! Metrics of more rows than should be in memory at once: one pass, chunk by chunk.

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use ordercal::compare::{Measures, changed_predictions, predictions};
use ordercal::metrics::{Metric, MetricState, Predictions};
use ordercal::{Dataset, Model, ScoreKind};
use ordercal_io::RowReader;

use crate::measure::Measured;
use crate::verdict::Gap;

/// Above this many scores, rows are not kept: 25,000 × 1000 still are, and then take about 400 MB.
const KEPT_CELLS: usize = 1 << 25;

/// Whether the rows of a file are too many to be kept.
pub fn is_large(rows: usize, classes: usize) -> bool {
    rows.saturating_mul(classes) > KEPT_CELLS
}

/// What one pass over a file gave.
pub struct Streamed {
    /// N.
    pub rows: usize,
    /// The scores themselves and each of the models.
    pub measured: Vec<Measured>,
    /// The state of the last of them, as [`state_of`](crate::measure::state_of) makes it.
    pub state: MetricState,
}

/// Measures the scores and models on all rows of a reader, without intervals.
pub fn measure_stream(
    reader: RowReader,
    models: &[(String, &Model)],
    plan: &Measures,
    keep_state: bool,
    bar: &ProgressBar,
) -> Result<Streamed> {
    let classes = reader.classes();
    let empty = MetricState::new(classes, plan.options.clone())?;
    let mut state = empty.clone();
    let new = if plan.metrics.contains(&Metric::MarginalCe) {
        empty.with_marginal()?
    } else {
        empty
    };
    let mut runs = vec![Run::new("uncalibrated", None, &new)];
    runs.extend(
        models
            .iter()
            .map(|(name, model)| Run::new(name, Some(model), &new)),
    );
    let last = runs.len() - 1;
    let mut rows = 0;
    for chunk in reader {
        let chunk = chunk?;
        let data = chunk.dataset()?;
        for (place, run) in runs.iter_mut().enumerate() {
            let also = (keep_state && place == last).then_some(&mut state);
            run.add(&data, also)?;
        }
        rows += chunk.len();
        bar.set_position(rows as u64);
    }
    if rows == 0 {
        bail!("there are no rows to evaluate");
    }
    let measured = runs.into_iter().map(|run| run.finish(plan, rows));
    Ok(Streamed {
        rows,
        measured: measured.collect::<Result<_>>()?,
        state,
    })
}

/// The scores or one model, half way through the file.
struct Run<'a> {
    name: String,
    model: Option<&'a Model>,
    state: MetricState,
    changed: usize,
}

impl<'a> Run<'a> {
    fn new(name: &str, model: Option<&'a Model>, state: &MetricState) -> Self {
        Self {
            name: name.to_owned(),
            model,
            state: state.clone(),
            changed: 0,
        }
    }

    fn add(&mut self, data: &Dataset<'_>, also: Option<&mut MetricState>) -> ordercal::Result<()> {
        let probs = match self.model {
            Some(model) => Some(model.apply::<f64>(data.scores(), ScoreKind::Probs)?),
            None => None,
        };
        let batch = match &probs {
            Some(probs) => {
                self.changed += changed_predictions(data, probs.view());
                predictions(probs.view(), data)?
            }
            None => Predictions::from(data),
        };
        self.state.update(&batch)?;
        also.map_or(Ok(()), |state| state.update(&batch))
    }

    fn finish(self, plan: &Measures, rows: usize) -> Result<Measured> {
        let found = self.state.finalize()?;
        let gap = Gap {
            ece: found[&Metric::Ece].value,
            excess: self.state.mean_confidence()? - found[&Metric::Accuracy].value,
        };
        let shown = || found.iter().filter(|(m, _)| plan.metrics.contains(m));
        Ok(Measured {
            name: self.name,
            rows,
            values: shown().map(|(m, e)| (*m, e.value)).collect(),
            bounds: shown()
                .filter(|(_, e)| e.error_bound > 0.0)
                .map(|(m, e)| (*m, e.error_bound))
                .collect(),
            intervals: Default::default(),
            changed: self.changed,
            gap,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{measure_whole, state_of};
    use ordercal::Method;
    use ordercal::metrics::MetricOptions;
    use ordercal_io::{DataRef, LabelNeed, LoadedData, ReadOptions};

    #[test]
    fn one_pass_gives_what_the_rows_in_memory_give() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/letters.npz");
        let data = DataRef::new(path).with_split("test");
        let options = ReadOptions::default().with_labels(LabelNeed::Required);
        let loaded = LoadedData::read(&data, options.clone()).unwrap();
        let whole = loaded.dataset().unwrap();
        let models: Vec<Model> = ["ts", "vs"]
            .map(|key| Method::from_key(key).unwrap().fit(&whole).unwrap().model)
            .into();
        let models: Vec<(String, &Model)> = models.iter().map(|m| ("m".to_owned(), m)).collect();
        let plan = Measures {
            metrics: Metric::ALL.to_vec(),
            options: MetricOptions::default(),
            bootstrap: None,
        };
        let expected = measure_whole(&whole, &models, &plan).unwrap();
        assert!(expected[2].changed > 0, "vs should change some");

        let reader = RowReader::open(&data, options.with_chunk_rows(700)).unwrap();
        let bar = ProgressBar::hidden();
        let found = measure_stream(reader, &models, &plan, true, &bar).unwrap();
        assert_eq!(found.rows, whole.rows());
        let state = state_of(&whole, Some(models[1].1), &plan.options).unwrap();
        assert_eq!(found.state.to_bytes(), state.to_bytes());
        for (found, expected) in found.measured.iter().zip(&expected) {
            assert_eq!(found.changed, expected.changed);
            assert!((found.gap.excess - expected.gap.excess).abs() < 1e-12);
            assert_eq!(found.values.len(), Metric::ALL.len());
            for (metric, value) in &found.values {
                let bound = found.bounds.get(metric).copied().unwrap_or(0.0);
                let distance = (value - expected.values[metric]).abs();
                assert!(distance <= bound + 1e-12, "{metric}: {distance} > {bound}");
            }
        }
    }
}
