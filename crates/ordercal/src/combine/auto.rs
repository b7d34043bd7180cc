//! `auto`: a mixture of calibrators, learned on predictions for rows that none of them has seen.

mod candidates;
mod evidence;
mod plan;
mod thin;
mod weights;

use derive_setters::Setters;
use serde::{Deserialize, Serialize};

use crate::data::{Dataset, Folds};
use crate::error::{Error, Result};
use crate::methods::listed::{Ts, Uncalibrated};
use crate::methods::zeros::Floor;
use crate::methods::{Calibrator, Describe, Estimate, FitReport, Fitted};
use crate::models::{ChainModel, MixtureModel, Model, OrderedModel, UncalibratedModel, apply};
use crate::optim::StopReason;
use crate::watch::{FitCounter, Watch};
use crate::words::count;
use candidates::{Fits, Member, held_out_scores};
use evidence::{Gain, divergence, posterior};
pub use plan::AutoEffort;
use plan::{Plan, TS};
use weights::{in_words, mixed_nlls, shares};

/// The best calibration we know that keeps every prediction: a mixture of calibrators, projected onto the order.
///
/// 1. Candidates are fitted on all folds but one, for each, in two levels. Confidence first: `ts`, `ets`, `diag`,
///    `oi`, `op`. Classes second: `svs`, `sms` and kernel models of several strengths that read the scores, or what
///    `diag` or `oi` say of held-out rows.
/// 2. Convex weights maximise the likelihood of the labels under predictions for rows that were left out.
///    Those that can be spared without a noticeable change are left out; the others are fitted once more on all rows.
/// 3. The mixture is projected onto the order of the scores ([`Projector`](crate::models::Projector)), and a last temperature
///    is learned on what it says of held-out rows.
/// 4. The result is averaged with `ts` and the scores as they are, each weighted by its prior times its likelihood on
///    held-out rows: where the rows do not speak for a change, there is next to none.
///
/// [`FitReport::notes`] says what became of it.
pub type Auto = Automatic<true>;

/// [`Auto`] without the projection: predictions may change, and are a little better for it.
pub type AutoFree = Automatic<false>;

/// Hyperparameters of [`Auto`] and [`AutoFree`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Setters)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
#[setters(prefix = "with_", strip_option)]
pub struct Automatic<const KEEP_ORDER: bool> {
    /// How many folds; without a number 5, or 10 where there are few rows, or 3 where there are many.
    #[serde(default)]
    pub folds: Option<usize>,
    /// How much work it may do.
    #[serde(default)]
    pub effort: AutoEffort,
    /// Whether there are candidates that read what `diag` or `oi` say.
    #[serde(default = "yes")]
    pub chains: bool,
    /// Whether to put a last temperature behind the mixture.
    #[serde(default = "yes")]
    pub polish: bool,
    /// The seed of the folds and of the candidates.
    #[serde(default = "seed")]
    pub seed: u64,
}

// Defaults for serde, whose derive has none for the whole of a type with constant parameters.
fn yes() -> bool {
    true
}

fn seed() -> u64 {
    1357
}

impl<const KEEP_ORDER: bool> Default for Automatic<KEEP_ORDER> {
    fn default() -> Self {
        Self {
            folds: None,
            effort: AutoEffort::default(),
            chains: yes(),
            polish: yes(),
            seed: seed(),
        }
    }
}

impl<const KEEP_ORDER: bool> Automatic<KEEP_ORDER> {
    fn plan(&self, rows: usize, classes: usize) -> Plan {
        let mut plan = Plan::new((rows, classes), self.effort, self.chains, self.seed);
        plan.folds = self.folds.unwrap_or(plan.folds);
        plan
    }
}

/// Fewer rows than this cannot be told apart from noise by leaving some of them out.
const FEWEST_ROWS: usize = 20;

/// What is believed of the scores as they are, of `ts` and of the mixture before any row was seen.
const PRIOR: [f64; 3] = [0.965, 0.02, 0.015];

/// As many rows, whose labels are drawn from the scores as they are, are part of the evidence. Where a few hundred rows
/// happen to have no wrong prediction, the likelihood alone would speak for being certain.
const PRIOR_ROWS: f64 = 18.0;

/// What would be this small a part of an average is left out.
const NEGLIGIBLE: f64 = 1e-6;

impl<const KEEP_ORDER: bool> Describe for Automatic<KEEP_ORDER> {
    const BRIEF: &'static str = if KEEP_ORDER {
        "a mixture of methods, learned on held-out rows and projected onto the order of the scores"
    } else {
        "the same without the projection"
    };
    const PYTHON_CLASS: &'static str = if KEEP_ORDER { "Auto" } else { "AutoFree" };
    // Folds go by the place of a row.
    const FULL_BATCH: bool = false;
    const OWN_FOLDS: bool = true;
}

impl<const KEEP_ORDER: bool> Calibrator for Automatic<KEEP_ORDER> {
    fn validate(&self) -> Result<()> {
        if self.folds.is_some_and(|folds| !(2..=100).contains(&folds)) {
            return Err(Error::invalid("folds", self.folds.unwrap_or(0), "2 to 100"));
        }
        Ok(())
    }

    fn estimate(&self, rows: usize, classes: usize) -> Option<Estimate> {
        Some(
            self.plan(rows, classes)
                .estimate(rayon::current_num_threads()),
        )
    }

    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        self.validate()?;
        let plan = self.plan(data.examples(), data.classes());
        let most = data.most_folds();
        let folds = self.folds.unwrap_or(plan.folds.min(most / 2).max(2));
        if data.examples() < FEWEST_ROWS.max(2 * folds) || most < 2 * folds {
            let few = match most < data.examples() {
                true => count(most, "group of rows", "groups of rows"),
                false => count(most, "row", "rows"),
            };
            let verb = if most == 1 { "is" } else { "are" };
            let note =
                format!("{few} {verb} too few to tell what helps: the scores are left as they are");
            let mut fitted = Uncalibrated::default().fit(data, watch)?;
            fitted.report.notes.push(note);
            return Ok(fitted);
        }
        let folds = data.folds(folds, self.seed)?;
        let weighed = |rows: &[usize]| rows.iter().any(|&row| data.weight(row) > 0.0);
        if !(0..folds.count()).all(|fold| weighed(&folds.kept(fold))) {
            return Err(Error::ZeroWeights);
        }
        let counter = FitCounter::new(plan.candidates.len() * (folds.count() + 1), watch);
        let floor = Floor::learn(data)?;
        let read = floor.as_ref().map(|floor| floor.read(data)).transpose()?;
        let read = read.as_ref().unwrap_or(data);
        let work = Work {
            given: data,
            data: read,
            floor: floor.as_ref(),
            fits: Fits::new(&plan, read, &folds, &counter)?,
            folds,
            plan,
            keep_order: KEEP_ORDER,
            polish: self.polish,
        };
        work.finish(&counter)
    }
}

/// A fit after its candidates were fitted fold by fold.
struct Work<'a> {
    given: &'a Dataset<'a>,
    /// What the members read: the same, behind the floor if there is one.
    data: &'a Dataset<'a>,
    floor: Option<&'a Floor>,
    plan: Plan,
    folds: Folds,
    fits: Fits,
    keep_order: bool,
    polish: bool,
}

impl Work<'_> {
    fn members(&self) -> &[Member] {
        &self.fits.members
    }

    fn finish(&self, counter: &FitCounter<'_>) -> Result<Fitted> {
        let (given, data) = (self.given, self.data);
        let classes = data.classes();
        let identity = Model::from(UncalibratedModel::new(classes)?);
        let members = self.members();
        let all: Vec<usize> = (0..data.rows()).collect();
        let mixed_shares = shares(members, data, &all);
        // For an honest judgement the shares, too, are learned without the fold.
        let nested: Vec<Vec<f64>> = (0..self.folds.count())
            .map(|fold| shares(members, data, &self.folds.kept(fold)))
            .collect();
        let honest = self.held_out(|fold| &nested[fold])?;
        let honest_nlls = apply::row_nlls(&identity, &honest);
        let mut after_nlls = honest_nlls.clone();
        let mut last = None;
        if self.polish {
            // Averages of confident predictions are less confident than they could be: one temperature sharpens them.
            let method = Ts::default();
            for fold in 0..self.folds.count() {
                let model = method
                    .fit(&honest.select(&self.folds.kept(fold)), counter)?
                    .model;
                let held_out = self.folds.held_out(fold);
                let found = apply::row_nlls(&model, &honest.select(&held_out));
                for (row, nll) in held_out.into_iter().zip(found) {
                    after_nlls[row] = nll;
                }
            }
            last = Some(
                method
                    .fit(&self.held_out(|_| &mixed_shares)?, counter)?
                    .model,
            );
        }
        let plain_nlls = apply::row_nlls(&identity, given);
        let judged = [&plain_nlls[..], &members[TS].nlls, &after_nlls];
        let tempered = held_out_scores(data, &self.folds, |fold| &members[TS].models[fold])?;
        let surprises = [&tempered, honest.scores()].map(|scores| divergence(given, scores));
        let prior = [0.0, surprises[0], surprises[1]];
        let prior: Vec<f64> = PRIOR
            .iter()
            .zip(prior)
            .map(|(p, d)| p.ln() - PRIOR_ROWS * d)
            .collect();
        let gate = posterior(&judged, &prior, data);
        let parts = judged.into_iter().zip(gate.iter().copied());
        let final_nlls = mixed_nlls(parts, 0..data.rows());
        let words = Words {
            data,
            judged,
            final_nlls: &final_nlls,
            gate: &gate,
        };
        let mut notes = words.notes(&in_words(&mixed_shares, members));
        let price_of_order = self.keep_order.then(|| {
            let free: Vec<f64> = all
                .iter()
                .flat_map(|&row| {
                    let shares = &nested[self.folds.fold_of(row)];
                    let parts = members.iter().map(|m| &m.nlls[..]);
                    mixed_nlls(parts.zip(shares.iter().copied()), row..row + 1)
                })
                .collect();
            // Without the last temperature on either side.
            let [kept, free] = [&honest_nlls, &free].map(|mixed| {
                let judged = [&plain_nlls[..], &members[TS].nlls, mixed];
                let gate = posterior(&judged, &prior, data);
                let parts = judged.into_iter().zip(gate);
                apply::mean(&mixed_nlls(parts, 0..data.rows()), data)
            });
            notes.extend(price_in_words(kept, free));
            kept - free
        });

        let mut parts = vec![(gate[0], identity)];
        let ts = self.plan.candidates[TS].method.fit(data, counter)?.model;
        if gate[1] > NEGLIGIBLE {
            parts.push((gate[1], self.behind_floor(ts.clone())?));
        }
        if gate[2] > NEGLIGIBLE {
            let mut model = self.refit(&mixed_shares, &ts, counter)?;
            if let Some(step) = last {
                model = ChainModel::new(model, step)?.into();
            }
            parts.push((gate[2], model));
        }
        notes.extend(self.floor.map(|floor| floor.note(given)));
        let model = mixture(parts)?;
        let report = FitReport {
            iterations: self.plan.candidates.len() * self.folds.count(),
            evaluations: counter.evaluations(),
            loss: apply::mean(&final_nlls, data),
            nll_before: apply::mean(&plain_nlls, data),
            nll_after: apply::mean_nll(&model, given),
            stop: StopReason::AllFitted,
            notes,
            price_of_order,
        };
        Ok(Fitted { model, report })
    }

    /// What the mixture says of held-out rows, with the shares that a fold is given.
    fn held_out<'s>(&self, shares: impl Fn(usize) -> &'s Vec<f64>) -> Result<Dataset<'static>> {
        let models = (0..self.folds.count())
            .map(|fold| {
                let member = |member: usize| self.members()[member].models[fold].clone();
                self.assemble(shares(fold), &member(TS), member)
            })
            .collect::<Result<Vec<Model>>>()?;
        let scores = held_out_scores(self.given, &self.folds, |fold| &models[fold])?;
        self.data.with_scores(scores)
    }

    /// Every member with a share, fitted once more on all rows, mixed.
    fn refit(&self, shares: &[f64], ts: &Model, counter: &FitCounter<'_>) -> Result<Model> {
        use rayon::prelude::*;
        let needed: Vec<usize> = (0..shares.len())
            .filter(|&member| {
                let read = self.members().iter().zip(shares);
                shares[member] > 0.0
                    || read
                        .into_iter()
                        .any(|(m, &s)| s > 0.0 && m.reads == Some(member))
            })
            .collect();
        let models = needed
            .par_iter()
            .with_max_len(1)
            .map(|&member| {
                let read = self.fits.read_by(member, self.data);
                let fitted = self.plan.candidates[member].method.fit(read, counter)?;
                counter.finish(fitted.report.evaluations, fitted.report.nll_after)?;
                Ok(fitted.model)
            })
            .collect::<Result<Vec<Model>>>()?;
        self.assemble(shares, ts, |member| {
            let place = needed.binary_search(&member).expect("all that are needed");
            models[place].clone()
        })
    }

    /// A model that reads the scores as they were given.
    fn behind_floor(&self, model: Model) -> Result<Model> {
        Ok(match self.floor {
            Some(floor) => ChainModel::new(floor.model().clone(), model)?.into(),
            None => model,
        })
    }

    /// The mixture by the given shares, projected with the temperature of `ts`. Members that read the same source stand behind
    /// it together.
    fn assemble(
        &self,
        shares: &[f64],
        ts: &Model,
        model: impl Fn(usize) -> Model,
    ) -> Result<Model> {
        let members = self.members();
        let classes = self.data.classes();
        let mut parts = Vec::new();
        for (place, member) in members.iter().enumerate() {
            if member.reads.is_some() {
                continue;
            }
            let mut behind: Vec<(f64, Model)> = Vec::new();
            for (reader, share) in shares.iter().enumerate() {
                if members[reader].reads == Some(place) && *share > 0.0 {
                    behind.push((*share, model(reader)));
                }
            }
            let own = shares[place];
            if behind.is_empty() {
                if own > 0.0 {
                    parts.push((own, model(place)));
                }
                continue;
            }
            let total = own + behind.iter().map(|(share, _)| share).sum::<f64>();
            behind.push((own, UncalibratedModel::new(classes)?.into()));
            parts.push((
                total,
                ChainModel::new(model(place), mixture(behind)?)?.into(),
            ));
        }
        let mixed = self.behind_floor(mixture(parts)?)?;
        // Onto the order of the scores themselves: behind the floor, those that were far below are all but tied.
        match ts {
            Model::Ts(ts) if self.keep_order && !mixed.order_preserving() => {
                Ok(OrderedModel::new(mixed, ts.inverse_temperature())?.into())
            }
            _ => Ok(mixed),
        }
    }
}

/// A mixture of what is not negligible, or the one model that is left.
fn mixture(mut parts: Vec<(f64, Model)>) -> Result<Model> {
    parts.retain(|(weight, _)| *weight > NEGLIGIBLE);
    if parts.len() == 1 {
        return Ok(parts.remove(0).1);
    }
    Ok(MixtureModel::new(parts)?.into())
}

/// What there is to say, from the NLLs of held-out rows: as the scores are, under `ts`, under the mixture.
struct Words<'a> {
    data: &'a Dataset<'a>,
    judged: [&'a [f64]; 3],
    final_nlls: &'a [f64],
    gate: &'a [f64],
}

/// A price of order above this share of the NLL is worth a remark.
const NOTED_PRICE: f64 = 0.02;

impl Words<'_> {
    fn mean(&self, nlls: &[f64]) -> f64 {
        apply::mean(nlls, self.data)
    }

    fn notes(&self, made_of: &str) -> Vec<String> {
        let [plain, ts, mixed] = self.judged.map(|nlls| self.mean(nlls));
        let gain = Gain::new(self.judged[0], self.final_nlls, self.data);
        let mut notes = vec![format!(
            "on held-out rows: NLL {plain:.4} as the scores are, {ts:.4} with ts, {mixed:.4} with the mixture; the \
             result gains {:.4} (95% interval {:.4} to {:.4})",
            gain.mean,
            gain.mean - 1.96 * gain.error,
            gain.mean + 1.96 * gain.error
        )];
        let [plain, ts, mixed] = [0, 1, 2].map(|part| self.gate[part]);
        let percent = |share: f64| format!("{:.0}%", 100.0 * share);
        if mixed > 0.5 {
            notes.push(format!("a mixture of {made_of}"));
        }
        if plain > 0.5 {
            notes.push(format!(
                "the scores are left as they are ({}): held-out rows do not say that a change helps",
                percent(plain)
            ));
        } else if ts > 0.5 {
            notes.push(format!(
                "the result is ts ({}): held-out rows do not say that more than a temperature helps",
                percent(ts)
            ));
        }
        notes
    }
}

/// What keeping every prediction costs, if it is much.
fn price_in_words(kept: f64, free: f64) -> Option<String> {
    let price = kept - free;
    (price > NOTED_PRICE * kept).then(|| {
        format!(
            "keeping every prediction costs {price:.4} of NLL on held-out rows ({:.1}%): auto-free, which may change \
             predictions, does without that",
            100.0 * price / kept
        )
    })
}
