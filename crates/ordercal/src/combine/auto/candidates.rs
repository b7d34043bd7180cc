//! What is mixed: methods and chains of methods, fitted fold by fold.

use ndarray::Array2;
use rayon::prelude::*;

use super::held_out_scores;
use crate::data::{Dataset, Folds, ScoreKind};
use crate::error::Result;
use crate::methods::Calibrator;
use crate::methods::listed::{Diag, DirOdir, Ets, Oi, Op, Sms, Svs, Ts, Uncalibrated};
use crate::methods::temperature::fit_beta;
use crate::models::{ChainModel, Model, OrderedModel, apply};
use crate::watch::{FitCounter, Unwatched};

/// One that may get a share: a model for each fold, and how they do on the rows they have not seen.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) models: Vec<Model>,
    pub(super) nlls: Vec<f64>,
}

/// The candidates before they are fitted.
pub(super) struct Sources {
    methods: Vec<(String, Box<dyn Calibrator>)>,
    /// Which method is read, and which reads it, with its name.
    chains: Vec<(usize, &'static str, Box<dyn Calibrator>)>,
    keep_order: bool,
}

impl Sources {
    pub(super) fn new(data: &Dataset<'_>, keep_order: bool, chains: bool, seed: u64) -> Self {
        fn named(name: &str, method: impl Calibrator + 'static) -> (String, Box<dyn Calibrator>) {
            (name.to_owned(), Box::new(method))
        }
        let oi = |units: usize| Oi::default().with_hidden(&[units]).with_seed(seed);
        let op = |units: usize| Op::default().with_hidden(&[units]).with_seed(seed);
        let mut methods = vec![
            named("uncalibrated", Uncalibrated::default()),
            named("ts", Ts::default()),
            named("ets", Ets::default()),
            named("diag", Diag::default()),
            named("oi (20)", oi(20)),
            named("oi (100)", oi(100)),
            named("op (20)", op(20)),
            named("op (100)", op(100)),
            named("svs", Svs::default()),
            named("sms", Sms::default()),
        ];
        for lambda in dir_odir_weights(data.classes()) {
            let method = DirOdir::default().with_lambda(lambda);
            methods.push(named(&format!("dir-odir ({lambda:e})"), method));
        }
        let place = |key: &str| methods.iter().position(|(name, _)| name == key);
        let mut list: Vec<(usize, &'static str, Box<dyn Calibrator>)> = Vec::new();
        if chains {
            for source in [place("sms"), place("svs")].into_iter().flatten() {
                list.push((source, "oi", Box::new(oi(20))));
                list.push((source, "diag", Box::new(Diag::default())));
            }
        }
        Self {
            methods,
            chains: list,
            keep_order,
        }
    }

    /// How many fits there are in a fold.
    pub(super) fn fits(&self) -> usize {
        self.methods.len() + self.chains.len()
    }

    /// Fits everything on every fold, all of it side by side.
    pub(super) fn fit(
        &self,
        data: &Dataset<'_>,
        folds: &Folds,
        counter: &FitCounter<'_>,
    ) -> Result<Vec<Member>> {
        let parts: Vec<(Dataset<'static>, Dataset<'static>, f64)> = (0..folds.count())
            .map(|fold| {
                let kept = data.select(&folds.kept(fold));
                let (beta, _) = fit_beta(&kept, &Unwatched)?;
                Ok((kept, data.select(&folds.held_out(fold)), beta))
            })
            .collect::<Result<_>>()?;
        let jobs: Vec<(usize, usize)> = (0..folds.count())
            .flat_map(|fold| (0..self.methods.len()).map(move |method| (method, fold)))
            .collect();
        let mut fitted = jobs
            .par_iter()
            .map(|&(method, fold)| {
                let fitted = self.methods[method].1.fit(&parts[fold].0, counter)?;
                counter.finish(fitted.report.evaluations, fitted.report.nll_after)?;
                Ok(((method, fold), fitted.model))
            })
            .collect::<Result<Vec<_>>>()?;
        fitted.sort_by_key(|(place, _)| *place);
        let mut models: Vec<Vec<Model>> = vec![Vec::new(); self.methods.len()];
        for ((method, _), model) in fitted {
            models[method].push(model);
        }

        let mut members = Vec::new();
        for (source, name, top) in &self.chains {
            let name = format!("{name} on {}", self.methods[*source].0);
            let first = &models[*source];
            let read = held_out_scores(data, folds, |fold, part| -> Result<Array2<f64>> {
                first[fold].apply(part, ScoreKind::LogProbs)
            })?;
            let read = data.with_scores(read)?;
            let chained = (0..folds.count())
                .into_par_iter()
                .map(|fold| {
                    let then = top.fit(&read.select(&folds.kept(fold)), counter)?;
                    counter.finish(then.report.evaluations, then.report.nll_after)?;
                    Ok(ChainModel::new(first[fold].clone(), then.model)?.into())
                })
                .collect::<Result<Vec<Model>>>()?;
            members.push((name, chained));
        }
        let names = self.methods.iter().map(|(name, _)| name.clone());
        let all = names.zip(models).chain(members);
        all.map(|(name, models)| self.member(name, models, &parts, folds))
            .collect()
    }

    /// Projects models if they need it, and scores them on the rows they have not seen.
    fn member(
        &self,
        name: String,
        models: Vec<Model>,
        parts: &[(Dataset<'static>, Dataset<'static>, f64)],
        folds: &Folds,
    ) -> Result<Member> {
        let project = self.keep_order && models.iter().any(|model| !model.order_preserving());
        let name = if project {
            format!("{name}+order")
        } else {
            name
        };
        let mut nlls = vec![0.0; folds.rows()];
        let mut finished = Vec::new();
        for (fold, (model, (_, held_out, beta))) in models.into_iter().zip(parts).enumerate() {
            let model = if project {
                OrderedModel::new(model, *beta)?.into()
            } else {
                model
            };
            let found = apply::row_nlls(&model, held_out);
            for (row, nll) in folds.held_out(fold).into_iter().zip(found) {
                nlls[row] = nll;
            }
            finished.push(model);
        }
        Ok(Member {
            name,
            models: finished,
            nlls,
        })
    }
}

/// Two penalties to choose from; the more classes, the larger the best.
fn dir_odir_weights(classes: usize) -> [f64; 2] {
    if classes < 50 { [1e1, 1e2] } else { [1e4, 1e5] }
}
