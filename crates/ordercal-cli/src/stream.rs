//! Metrics of files that are too large for memory: one pass, chunk by chunk.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use ordercal::Error::SoftLabels;
use ordercal::compare::Measures;
use ordercal::diagnose::RowChecks;
use ordercal::grouped::GroupKey;
use ordercal::metrics::{Metric, MetricState};
use ordercal::{Dataset, memory};
use ordercal_io::RowReader;

use crate::measure::{Evaluation, Part, with_predictions};
use crate::models::{Applied, Columns};
use crate::verdict::Gap;

/// Files with more scores (rows × classes) are streamed. 25,000 × 1000 scores still are in memory, and take
/// about 400 MB.
const MAX_SCORES_IN_MEMORY: usize = 1 << 25;

/// `marginal_ce` takes 30 KB for each class, of the scores and of each model: above 500 MB it is left out.
const MAX_MARGINAL_CLASSES: usize = 1 << 14;

/// The bins of every class, of the scores and of each model, may take this many bytes together; for more classes the
/// class-wise metrics are left out.
const MAX_CLASS_BINS: usize = 400 << 20;

/// Whether a file has too many scores to be in memory.
pub fn is_large(rows: usize, classes: usize) -> bool {
    rows.saturating_mul(classes) > MAX_SCORES_IN_MEMORY
}

/// The results of one pass over a file.
pub struct Streamed {
    /// The scores themselves and each of the models, on all rows.
    pub all: Part,
    /// The same of each group.
    pub groups: BTreeMap<GroupKey, Part>,
    /// What was seen in the rows.
    pub checks: RowChecks,
    /// The state of the last of them, if one was given to be filled.
    pub state: Option<MetricState>,
}

/// Evaluates the scores and the models on all rows of a reader, and on those of each group by the columns `by`, without
/// intervals. A `state` without rows is filled with those of the last model, or of the scores; `checks` are told the rows.
pub fn evaluate_stream(
    reader: RowReader,
    models: &[(String, Applied<'_>)],
    by: &[String],
    measures: &Measures,
    mut state: Option<MetricState>,
    mut checks: RowChecks,
    bar: &ProgressBar,
) -> Result<Streamed> {
    let (classes, options) = (reader.classes(), &measures.options);
    // Every thread has a copy of one of them while it adds rows.
    let copies = models.len() + 1 + rayon::current_num_threads();
    let bytes = MetricState::bytes_of_class_bins(classes, options).saturating_mul(copies);
    let empty = match bytes <= MAX_CLASS_BINS {
        true => MetricState::new(classes, options.clone())?,
        false => MetricState::without_class_bins(classes, options.clone())?,
    };
    let mut wanted = measures.metrics.iter();
    let wanted = wanted.any(|metric| metric.reads_class_bins(reader.classes()));
    let new = if wanted && reader.classes() * (models.len() + 1) <= MAX_MARGINAL_CLASSES {
        empty.with_marginal()?
    } else {
        empty
    };
    let empty = || Sums::new(models, &new);
    let mut all = empty();
    let mut groups: BTreeMap<GroupKey, Sums<'_>> = BTreeMap::new();
    let names: Vec<String> = reader.ids().iter().map(|(name, _)| name.clone()).collect();
    for chunk in reader {
        let chunk = chunk?;
        let data = chunk.dataset()?;
        if data.has_soft_labels() {
            let what = "an evaluation of more rows than are held in memory";
            return Err(chunk.locate(SoftLabels { what }).into());
        }
        checks.add(&data);
        let (names, values) = (&names[..], &chunk.ids[..]);
        let columns = Columns { names, values };
        let added = all.add(&data, columns, state.as_mut());
        added.map_err(|e| chunk.locate(e))?;
        for (key, rows) in columns.rows_of(by) {
            if !groups.contains_key(&key) {
                let states = (groups.len() + 2).saturating_mul(models.len() + 1);
                let bytes = new.bytes().saturating_mul(states);
                memory::check("the sums of all groups", bytes).map_err(|e| chunk.locate(e))?;
            }
            let values = columns.keep(&rows);
            let columns = Columns {
                names,
                values: &values,
            };
            let group = groups.entry(key).or_insert_with(empty);
            let added = group.add(&data.select(&rows), columns, None);
            added.map_err(|e| chunk.locate(e))?;
        }
        bar.set_position(all.rows as u64);
    }
    if all.rows == 0 {
        bail!("there are no rows to evaluate");
    }
    let groups = groups.into_iter();
    let groups = groups.map(|(key, group)| Ok((key, group.finish(measures)?)));
    Ok(Streamed {
        all: all.finish(measures)?,
        groups: groups.collect::<Result<_>>()?,
        checks,
        state,
    })
}

/// The sums over the rows read so far.
struct Sums<'a> {
    models: &'a [(String, Applied<'a>)],
    rows: usize,
    /// The state of the scores and of each of the models, with the number of changed predictions.
    each: Vec<(MetricState, usize)>,
}

impl<'a> Sums<'a> {
    fn new(models: &'a [(String, Applied<'a>)], empty: &MetricState) -> Self {
        Self {
            models,
            rows: 0,
            each: vec![(empty.clone(), 0); 1 + models.len()],
        }
    }

    /// Adds rows, those of the last model to a state as well.
    fn add(
        &mut self,
        data: &Dataset<'_>,
        columns: Columns<'_>,
        mut also: Option<&mut MetricState>,
    ) -> ordercal::Result<()> {
        self.rows += data.rows();
        for (place, (state, total)) in self.each.iter_mut().enumerate() {
            let model = place.checked_sub(1).map(|place| self.models[place].1);
            let also = also.as_deref_mut();
            let also = also.filter(|_| place == self.models.len());
            with_predictions(data, columns, model, |batch, changed| {
                *total += changed;
                state.update(batch)?;
                also.map_or(Ok(()), |state| state.update(batch))
            })?;
        }
        Ok(())
    }

    fn finish(self, measures: &Measures) -> Result<Part> {
        let names = self.models.iter().map(|(name, _)| name.as_str());
        let names = std::iter::once("uncalibrated").chain(names);
        let evaluate = |(name, (state, changed)): (&str, (MetricState, usize))| {
            let found = state.finalize()?;
            // What needs all rows in memory is left out.
            let asked = || found.iter().filter(|(m, _)| measures.metrics.contains(m));
            let bounded = asked().filter(|(_, estimate)| estimate.error_bound > 0.0);
            Ok(Evaluation {
                name: name.to_owned(),
                rows: self.rows,
                values: asked().map(|(m, e)| (*m, e.value)).collect(),
                bounds: bounded.map(|(m, e)| (*m, e.error_bound)).collect(),
                intervals: BTreeMap::new(),
                changed: changed as u64,
                gap: Gap {
                    ece: found[&Metric::Ece].value,
                    excess: state.mean_confidence()? - found[&Metric::Accuracy].value,
                },
            })
        };
        Ok(Part {
            rows: self.rows,
            evaluations: names.zip(self.each).map(evaluate).collect::<Result<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{evaluate_in_memory, evaluate_parts, state_of};
    use ordercal::metrics::MetricOptions;
    use ordercal::{Method, Model};
    use ordercal_io::{DataRef, LabelNeed, LoadedData, ReadOptions};

    fn all_metrics() -> Measures {
        Measures {
            metrics: Metric::for_classes(26),
            options: MetricOptions::default(),
            bootstrap: None,
            intervals: true,
            keep_resamples: false,
        }
    }

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
        let models = models.iter().map(|m| ("m".to_owned(), Applied::One(m)));
        let models: Vec<(String, Applied<'_>)> = models.collect();
        let measures = all_metrics();
        let none = Columns::default();
        let expected = evaluate_in_memory(&whole, none, &models, &measures).unwrap();
        assert!(expected[2].changed > 0, "vs should change some");

        let reader = RowReader::open(&data, options.with_chunk_rows(700)).unwrap();
        let bar = ProgressBar::hidden();
        let empty = || MetricState::new(whole.classes(), measures.options.clone()).unwrap();
        let found = evaluate_stream(
            reader,
            &models,
            &[],
            &measures,
            Some(empty()),
            RowChecks::new(whole.classes()),
            &bar,
        )
        .unwrap();
        assert_eq!(found.all.rows, whole.rows());
        let state = state_of(&whole, none, Some(models[1].1), empty()).unwrap();
        assert_eq!(found.state.unwrap().to_bytes(), state.to_bytes());
        for (found, expected) in found.all.evaluations.iter().zip(&expected) {
            assert_eq!(found.changed, expected.changed);
            assert!((found.gap.ece - expected.gap.ece).abs() < 1e-12);
            assert!((found.gap.excess - expected.gap.excess).abs() < 1e-12);
            assert_eq!(found.values.len(), Metric::ALL.len() - 1);
            for (metric, value) in &found.values {
                let bound = found.bounds.get(metric).copied().unwrap_or(0.0);
                let distance = (value - expected.values[metric]).abs();
                assert!(distance <= bound + 1e-12, "{metric}: {distance} > {bound}");
            }
        }
    }

    #[test]
    fn groups_of_one_pass_are_those_of_the_rows_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.csv");
        let mut text = String::from("label,logit_0,logit_1,logit_2,country\n");
        for row in 0..300 {
            let country = ["DE", "FR", "NL"][row * row % 3];
            let score = (row * 37 % 101) as f64 / 20.0;
            text.push_str(&format!("{},{score},1.5,2,{country}\n", row % 3));
        }
        std::fs::write(&path, text).unwrap();
        let by = ["country".to_owned()];
        let mut options = ReadOptions::default().with_labels(LabelNeed::Required);
        options.columns = options.columns.with_ids(by.as_slice());
        let loaded = LoadedData::read(&DataRef::new(&path), options.clone()).unwrap();
        let data = loaded.dataset().unwrap();
        let mut measures = all_metrics();
        measures.metrics = vec![Metric::Accuracy, Metric::Nll, Metric::Ece];
        let columns = Columns {
            names: &by,
            values: loaded.ids(),
        };
        let expected = evaluate_parts(&data, columns, &by, &[], &measures).unwrap();
        assert_eq!(expected.len(), 2);
        let reader = RowReader::open(&DataRef::new(&path), options.with_chunk_rows(7)).unwrap();
        let (checks, bar) = (RowChecks::new(3), ProgressBar::hidden());
        let found = evaluate_stream(reader, &[], &by, &measures, None, checks, &bar).unwrap();
        assert_eq!(found.groups.len(), expected.len());
        for (key, part) in expected {
            let found = &found.groups[&key];
            assert_eq!(found.rows, part.rows);
            for (metric, value) in &part.evaluations[0].values {
                let other = found.evaluations[0].values[metric];
                assert!((value - other).abs() < 1e-12, "{metric}: {value} {other}");
            }
        }
    }

    #[test]
    fn errors_name_the_row_of_the_file_whatever_its_chunk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.csv");
        let error_of = |bad: &str| {
            let mut text = String::from("label,logit_0,logit_1,weight\n");
            for row in 0..100 {
                text.push_str(if row == 57 { bad } else { "0,1.0,0.5,1\n" });
            }
            std::fs::write(&path, text).unwrap();
            let options = ReadOptions::default().with_labels(LabelNeed::Required);
            let reader = RowReader::open(&DataRef::new(&path), options.with_chunk_rows(10));
            let bar = ProgressBar::hidden();
            let streamed = evaluate_stream(
                reader.unwrap(),
                &[],
                &[],
                &all_metrics(),
                None,
                RowChecks::new(2),
                &bar,
            );
            streamed.map(|_| ()).unwrap_err().to_string()
        };
        for bad in [
            "0,1.0,0.5,1e-30\n",
            "0,1.0,0.5,-1\n",
            "7,1.0,0.5,1\n",
            "0,inf,0.5,1\n",
            "0,1.0,nan,1\n",
        ] {
            let error = error_of(bad);
            assert!(
                error.contains("row 57") && error.contains("d.csv"),
                "{error}"
            );
        }
    }
}
