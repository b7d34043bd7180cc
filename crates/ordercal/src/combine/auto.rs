//! `auto`: a mixture of calibrators, learned on predictions for rows that none of them has seen.

mod candidates;
mod evidence;
mod weights;

use std::fmt;
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

use crate::data::{Dataset, Folds, ScoreKind, Scores};
use crate::error::{Error, Result};
use crate::methods::listed::{Diag, Ts, Uncalibrated};
use crate::methods::{Calibrator, Describe, FitReport, Fitted, uncalibrated_nll};
use crate::models::{ChainModel, MixtureModel, Model, UncalibratedModel, apply, clamp_log_probs};
use crate::optim::StopReason;
use crate::watch::{FitCounter, Watch};
use candidates::{Member, Sources};
use evidence::Rows;
use weights::Blend;

/// What sets [`Auto`] and [`AutoFree`] apart.
pub trait Promise: fmt::Debug + Clone + PartialEq + Default + Send + Sync + 'static {
    /// Whether free candidates are projected onto the order of the scores.
    const KEEPS_ORDER: bool;
}

/// Marks [`Auto`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept;

/// Marks [`AutoFree`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Free;

impl Promise for Kept {
    const KEEPS_ORDER: bool = true;
}

impl Promise for Free {
    const KEEPS_ORDER: bool = false;
}

/// The best calibration we know that keeps every prediction: a mixture of order-preserving maps.
///
/// 1. Candidates (`ts`, `ets`, `diag`, several `oi` and `op`, projected `svs`, `sms` and `dir-odir`, and
///    `oi` or `diag` behind `sms` or `svs`, projected) are fitted on all folds but one, for each.
/// 2. Convex weights maximise the likelihood of the labels under predictions for rows that were left out.
///    A candidate whose share makes no difference beyond one standard error goes.
/// 3. Each candidate that is left becomes the average of its fold models. A last temperature or increasing
///    function is put behind the mixture if held-out rows say that it helps.
/// 4. Where held-out rows do not clearly (95%) prefer all this to `ts`, the result is `ts`; where they
///    do not clearly prefer that to the scores as they are, it is those. It does no harm.
///
/// [`FitReport::notes`] says what became of it.
pub type Auto = Automatic<Kept>;

/// [`Auto`] without the projection: predictions may change, and are a little better for it.
pub type AutoFree = Automatic<Free>;

/// Hyperparameters of [`Auto`] and [`AutoFree`].
///
/// ```
/// use ndarray::Array2;
/// use ordercal::{Auto, Dataset, Method, ScoreKind, Scores};
///
/// let logits = Array2::from_shape_fn((90, 3), |(row, class)| (row * (class + 7) % 11) as f32);
/// let labels: Vec<u32> = (0..90).map(|row| row % 3).collect();
/// let data = Dataset::new(Scores::new(ScoreKind::Logits, logits.view())?, &labels)?;
/// let fitted = Method::from(Auto::default().with_folds(3)).fit(&data)?;
/// assert!(fitted.model.order_preserving());
/// assert!(!fitted.report.notes.is_empty());
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, bound = "")]
#[non_exhaustive]
pub struct Automatic<P: Promise> {
    /// How many folds; without a number 5, or 3 from 1000 classes on.
    pub folds: Option<usize>,
    /// Whether chains, `oi` or `diag` behind `sms` or `svs`, are among the candidates.
    pub chains: bool,
    /// Whether to try a last order-preserving map behind the mixture.
    pub polish: bool,
    /// The seed of the folds and of the candidates.
    pub seed: u64,
    #[serde(skip)]
    promise: PhantomData<P>,
}

impl<P: Promise> Default for Automatic<P> {
    fn default() -> Self {
        Self {
            folds: None,
            chains: true,
            polish: true,
            seed: 1357,
            promise: PhantomData,
        }
    }
}

impl<P: Promise> Automatic<P> {
    /// Sets the number of folds.
    #[must_use]
    pub fn with_folds(mut self, folds: usize) -> Self {
        self.folds = Some(folds);
        self
    }

    /// Sets whether chains are among the candidates.
    #[must_use]
    pub fn with_chains(mut self, chains: bool) -> Self {
        self.chains = chains;
        self
    }

    /// Sets whether to try a last order-preserving map behind the mixture.
    #[must_use]
    pub fn with_polish(mut self, polish: bool) -> Self {
        self.polish = polish;
        self
    }

    /// Sets the seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

/// Fewer rows than this cannot be told apart from noise by leaving some of them out.
const FEWEST_ROWS: usize = 20;

impl Describe for Auto {
    const BRIEF: &'static str =
        "a mixture of methods that keep predictions, learned on held-out rows";
    const PYTHON_CLASS: &'static str = "Auto";
    // Folds go by the place of a row.
    const FULL_BATCH: bool = false;
    const OWN_FOLDS: bool = true;
}

impl Describe for AutoFree {
    const BRIEF: &'static str = "the same without the projections";
    const PYTHON_CLASS: &'static str = "AutoFree";
    const FULL_BATCH: bool = false;
    const OWN_FOLDS: bool = true;
}

impl<P: Promise> Calibrator for Automatic<P> {
    fn validate(&self) -> Result<()> {
        if self.folds.is_some_and(|folds| !(2..=100).contains(&folds)) {
            return Err(Error::invalid("folds", self.folds.unwrap_or(0), "2 to 100"));
        }
        Ok(())
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        self.validate()?;
        let folds = self
            .folds
            .unwrap_or_else(|| Folds::usual(data.rows(), data.classes()));
        if data.rows() < FEWEST_ROWS.max(2 * folds) {
            let note = format!(
                "{} rows are too few to tell what helps: the scores are left as they are",
                data.rows()
            );
            return alone(&Uncalibrated::default(), data, vec![note], watch);
        }
        let folds = Folds::new(data.rows(), folds, self.seed)?;
        let weighed = |rows: &[usize]| rows.iter().any(|&row| data.weight(row) > 0.0);
        if !(0..folds.count()).all(|fold| weighed(&folds.kept(fold))) {
            return Err(Error::ZeroWeights);
        }
        let sources = Sources::new(data, P::KEEPS_ORDER, self.chains, self.seed);
        let counter = FitCounter::new(sources.fits() * folds.count(), watch);
        let members = sources.fit(data, &folds, &counter)?;
        let rows = Rows::new(data, &folds);
        let blend = Blend::learn(&members, &rows);
        let outcome = Outcome::new(&members, &blend, &rows, self.seed);
        if let Some(method) = outcome.fallback {
            return alone(&*method, data, outcome.notes, &counter);
        }
        let (mixture, polish) =
            finish(&members, &blend, data, &folds, &rows, self.polish, &counter)?;
        let mut notes = outcome.notes;
        notes.push(blend.in_words(&members, folds.count()));
        let model = match polish {
            None => mixture,
            Some((model, note)) => {
                notes.push(note);
                ChainModel::new(mixture, model)?.into()
            }
        };
        let report = FitReport {
            iterations: sources.fits() * folds.count(),
            evaluations: counter.evaluations(),
            loss: outcome.nll,
            nll_before: uncalibrated_nll(data),
            nll_after: apply::mean_nll(&model, data),
            stop: StopReason::AllFitted,
            notes,
        };
        Ok(Fitted { model, report })
    }
}

/// A single method on all rows.
fn alone(
    method: &dyn Calibrator,
    data: &Dataset<'_>,
    notes: Vec<String>,
    watch: &dyn Watch,
) -> Result<Fitted> {
    let Fitted { model, mut report } = method.fit(data, watch)?;
    report.notes = notes;
    Ok(Fitted { model, report })
}

/// What held-out rows say about the mixture.
struct Outcome {
    /// What to use instead.
    fallback: Option<Box<dyn Calibrator>>,
    /// The NLL of the mixture on rows that neither its members nor its weights have seen.
    nll: f64,
    notes: Vec<String>,
}

impl Outcome {
    fn new(members: &[Member], blend: &Blend, rows: &Rows<'_>, seed: u64) -> Self {
        let of = |name: &str| {
            let member = members.iter().find(|member| member.name == name);
            &member.expect("it is always a candidate").nlls
        };
        let (plain, ts) = (of("uncalibrated"), of("ts"));
        let mixed = blend.held_out_nlls(members, rows);
        let nll = rows.mean(&mixed);
        let (before, tempered) = (rows.mean(plain), rows.mean(ts));
        let notes = vec![format!(
            "on held-out rows: NLL {before:.4} uncalibrated, {tempered:.4} ts, {nll:.4} mixture"
        )];
        let better = |than: &[f64], now: &[f64]| rows.clearly_better(than, now, seed);
        let (fallback, why): (Option<Box<dyn Calibrator>>, _) =
            if better(ts, &mixed) && better(plain, &mixed) {
                (None, None)
            } else if better(plain, ts) {
                (
                    Some(Box::new(Ts::default())),
                    Some("the mixture is not clearly better than ts: ts alone is used"),
                )
            } else {
                (
                    Some(Box::new(Uncalibrated::default())),
                    Some("nothing is clearly better than the scores: they are left as they are"),
                )
            };
        let notes = notes.into_iter().chain(why.map(str::to_owned)).collect();
        Self {
            fallback,
            nll,
            notes,
        }
    }
}

/// The mixture of fold averages, and what to put behind it, with a word on that.
#[allow(clippy::type_complexity)]
fn finish(
    members: &[Member],
    blend: &Blend,
    data: &Dataset<'_>,
    folds: &Folds,
    rows: &Rows<'_>,
    polish: bool,
    watch: &dyn Watch,
) -> Result<(Model, Option<(Model, String)>)> {
    let share = 1.0 / folds.count() as f64;
    let all = blend.shares().flat_map(|(member, weight)| {
        let models = members[member].models.iter();
        models.map(move |model| (weight * share, model.clone()))
    });
    let mixture = MixtureModel::new(all.collect())?.into();
    let polish = if polish {
        final_step(members, blend, data, folds, rows, watch)?
    } else {
        None
    };
    Ok((mixture, polish))
}

/// A temperature or an increasing function, learned on what the mixture says about held-out rows; nothing
/// unless other held-out rows prefer it by more than a standard error.
fn final_step(
    members: &[Member],
    blend: &Blend,
    data: &Dataset<'_>,
    folds: &Folds,
    rows: &Rows<'_>,
    watch: &dyn Watch,
) -> Result<Option<(Model, String)>> {
    let mixed = held_out_scores(data, folds, |fold, part| {
        let shares = blend.shares();
        let of_fold = shares.map(|(member, weight)| (weight, members[member].models[fold].clone()));
        let mixture = Model::from(MixtureModel::new(of_fold.collect())?);
        mixture.apply(part, ScoreKind::LogProbs)
    })?;
    let mixed = data.with_scores(mixed)?;
    let identity = UncalibratedModel::new(data.classes())?;
    let mut best = (apply::row_nlls(&identity, &mixed), None);
    let methods: [Box<dyn Calibrator>; 2] = [Box::new(Ts::default()), Box::new(Diag::default())];
    for method in methods {
        let mut nlls = vec![0.0; data.rows()];
        for fold in 0..folds.count() {
            let model = method.fit(&mixed.select(&folds.kept(fold)), watch)?.model;
            let held_out = folds.held_out(fold);
            let found = apply::row_nlls(&model, &mixed.select(&held_out));
            for (row, nll) in held_out.into_iter().zip(found) {
                nlls[row] = nll;
            }
        }
        if rows.gain(&best.0, &nlls).exceeds_noise() {
            best = (nlls, Some(method));
        }
    }
    let Some(method) = best.1 else {
        return Ok(None);
    };
    let model = method.fit(&mixed, watch)?.model;
    let note = match &model {
        Model::Ts(ts) => format!("finally a temperature of {:.3}", ts.temperature()),
        _ => "finally a diag step".to_owned(),
    };
    Ok(Some((model, note)))
}

/// Log-probabilities of every row, each from a model that has not seen it.
fn held_out_scores(
    data: &Dataset<'_>,
    folds: &Folds,
    predict: impl Fn(usize, &Scores<'_>) -> Result<ndarray::Array2<f64>>,
) -> Result<Scores<'static>> {
    let mut all = ndarray::Array2::<f64>::zeros((data.rows(), data.classes()));
    for fold in 0..folds.count() {
        let held_out = folds.held_out(fold);
        let part = predict(fold, &data.scores().select(&held_out))?;
        for (row, values) in held_out.into_iter().zip(part.rows()) {
            all.row_mut(row).assign(&values);
        }
    }
    clamp_log_probs(all.as_slice_mut().expect("made row by row"));
    Ok(Scores::new(ScoreKind::LogProbs, all.view())?.into_owned())
}
