//! `cargo measure groups [DIR]`: one model for all rows, one for each group, and what `fit --by` makes of both.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use ordercal::grouped::{GroupFit, GroupMap, GroupedModel, MIN_ROWS, RowGroups};
use ordercal::ndarray::{Array2, Axis};
use ordercal::{Dataset, Rng, ScoreKind, Scores, Ts, Unwatched};
use rayon::prelude::*;

use crate::bundles::{Bundle, bundles, draw_labels};

#[derive(clap::Args)]
pub struct Args {
    /// A folder of bundles with the splits `calib` and `test`; without one, only made data is used
    dir: Option<PathBuf>,
}

/// How often groups and made data are drawn.
const DRAWS: u64 = 10;

/// Groups of made data, and those that rows of a bundle are divided into.
const GROUPS: usize = 40;

/// The standard deviation of the logarithm of the groups' factors.
const SPREADS: [f64; 4] = [0.0, 0.1, 0.3, 0.6];

/// Rows of a group of made data.
const SIZES: [usize; 3] = [50, 200, 1000];

/// The mean NLL with one model, with one for each group, and with both mixed.
type Nlls = [f64; 3];

pub fn run(args: &Args) -> Result<()> {
    println!("| data | groups | rows of each | one model | one per group | mixed |");
    println!("|---|---|---|---|---|---|");
    let mut made = Vec::new();
    for spread in SPREADS {
        for size in SIZES {
            let draws = (0..DRAWS).into_par_iter();
            let found = draws.map(|draw| Made::new(spread, size, draw).nlls());
            let found = mean(&found.collect::<Result<Vec<Nlls>>>()?);
            print_line(
                &format!("made, spread {spread}"),
                GROUPS,
                &size.to_string(),
                found,
            );
            made.push(found);
        }
    }
    print_ratios("made", &made);
    let Some(dir) = &args.dir else {
        return Ok(());
    };
    let (mut scaled, mut predicted) = (Vec::new(), Vec::new());
    for path in bundles(dir, None)? {
        let bundle = Bundle::read(&path)?;
        let (calib, test) = (bundle.calib()?, bundle.test()?);
        let draws = (0..DRAWS).map(|draw| scaled_groups(&calib, &test, draw));
        let found = mean(&draws.collect::<Result<Vec<Nlls>>>()?);
        let rows = (calib.rows() / GROUPS).to_string();
        let name = format!("{}, scaled", bundle.name);
        print_line(&name, GROUPS, &rows, found);
        scaled.push(found);

        let groups = [&calib, &test].map(predicted_class);
        let found = nlls((&calib, &groups[0]), |model| {
            mean_nll(model, &test, &groups[1])
        })?;
        let name = format!("{}, predicted class", bundle.name);
        let rows = format!("{} on average", calib.rows() / groups[0].keys().len());
        print_line(&name, groups[0].keys().len(), &rows, found);
        predicted.push(found);
    }
    print_ratios("scaled", &scaled);
    print_ratios("predicted class", &predicted);
    Ok(())
}

fn print_line(name: &str, groups: usize, rows: &str, nlls: Nlls) {
    let nlls = nlls.map(|nll| format!("{nll:.4}")).join(" | ");
    println!("| {name} | {groups} | {rows} | {nlls} |");
}

/// The mean over all lines of the NLL as a share of that of one model.
fn print_ratios(name: &str, lines: &[Nlls]) {
    let ratios: Vec<Nlls> = lines
        .iter()
        .map(|line| line.map(|nll| nll / line[0]))
        .collect();
    let ratios = mean(&ratios).map(|ratio| format!("{ratio:.4}")).join(" | ");
    println!("| **{name}, relative** | | | {ratios} |");
}

fn mean(all: &[Nlls]) -> Nlls {
    [0, 1, 2].map(|place| all.iter().map(|nlls| nlls[place]).sum::<f64>() / all.len() as f64)
}

/// Fits, and measures each of the three.
fn nlls(
    (data, groups): (&Dataset<'_>, &RowGroups),
    nll: impl Fn(&GroupedModel) -> Result<f64>,
) -> Result<Nlls> {
    let how = GroupFit::new(Ts::default().into())?;
    let mixed = how.fit(data, groups, &Unwatched)?.model;
    let pooled = mixed.pooled().clone();
    let mut rows: BTreeMap<&[String], Vec<usize>> = BTreeMap::new();
    for row in 0..data.rows() {
        rows.entry(groups.key(row)).or_default().push(row);
    }
    let mut maps = BTreeMap::new();
    for (key, rows) in rows.into_iter().filter(|(_, rows)| rows.len() >= MIN_ROWS) {
        let part = data.select(&rows);
        let logs = pooled.apply::<f64>(part.scores(), ScoreKind::LogProbs)?;
        let scores = Scores::new(ScoreKind::LogProbs, logs.view())?;
        let own = how
            .group_method
            .fit(&Dataset::new(scores, part.labels())?)?
            .model;
        maps.insert(key.to_vec(), GroupMap { own, weight: 1.0 });
    }
    let separate = GroupedModel::new(pooled.clone(), maps)?;
    let one = GroupedModel::new(pooled, BTreeMap::new())?;
    Ok([nll(&one)?, nll(&separate)?, nll(&mixed)?])
}

fn mean_nll(model: &GroupedModel, data: &Dataset<'_>, groups: &RowGroups) -> Result<f64> {
    let logs = model.apply::<f64>(data.scores(), groups, ScoreKind::LogProbs)?;
    let rows = data.labels().iter().enumerate();
    let sum: f64 = rows.map(|(row, &y)| -logs[[row, y as usize]]).sum();
    Ok(sum / data.rows() as f64)
}

/// Divides the rows of both splits at random, and multiplies the scores of each group by a factor of its own.
fn scaled_groups(calib: &Dataset<'_>, test: &Dataset<'_>, draw: u64) -> Result<Nlls> {
    let mut rng = Rng::new(draw);
    let factors: Vec<f32> = (0..GROUPS)
        .map(|_| (0.3 * rng.normal()).exp() as f32)
        .collect();
    let mut scaled = |data: &Dataset<'_>| -> Result<_> {
        let group: Vec<usize> = (0..data.rows()).map(|_| rng.below(GROUPS)).collect();
        let mut scores = data.scores().view().to_owned();
        for (mut row, &group) in scores.outer_iter_mut().zip(&group) {
            row *= factors[group];
        }
        let scores = Scores::new(ScoreKind::Logits, scores)?;
        let groups = RowGroups::new(group.len(), |row| vec![group[row].to_string()]);
        Ok((Dataset::new(scores, data.labels())?, groups))
    };
    let (calib, test) = (scaled(calib)?, scaled(test)?);
    nlls((&calib.0, &calib.1), |model| {
        mean_nll(model, &test.0, &test.1)
    })
}

/// The class with the largest score as the group of a row.
fn predicted_class(data: &Dataset<'_>) -> RowGroups {
    RowGroups::new(data.rows(), |row| {
        let scores = data.scores().row(row).iter().enumerate();
        let largest = scores.max_by(|a, b| a.1.total_cmp(b.1));
        vec![largest.map_or(0, |(class, _)| class).to_string()]
    })
}

/// Rows whose scores are too large or too small by a factor of their group's own.
struct Made {
    scores: Array2<f32>,
    truth: Array2<f64>,
    labels: Vec<u32>,
    groups: RowGroups,
}

impl Made {
    fn new(spread: f64, size: usize, draw: u64) -> Self {
        const CLASSES: usize = 5;
        let mut rng = Rng::new(100 + draw);
        let rows = GROUPS * size;
        let factors: Vec<f64> = (0..GROUPS)
            .map(|_| 1.5 * (spread * rng.normal()).exp())
            .collect();
        let honest = Array2::from_shape_fn((rows, CLASSES), |_| 2.0 * rng.normal());
        let mut truth = honest.mapv(f64::exp);
        for mut row in truth.outer_iter_mut() {
            row /= row.sum();
        }
        let group = |row: usize| row / size;
        let score = |(row, class)| (factors[group(row)] * honest[[row, class]]) as f32;
        Self {
            scores: Array2::from_shape_fn((rows, CLASSES), score),
            labels: draw_labels(&truth, &mut rng),
            truth,
            groups: RowGroups::new(rows, |row| vec![group(row).to_string()]),
        }
    }

    /// The expected NLL of new outcomes of the same rows: with the true probabilities, no other rows are needed.
    fn nlls(&self) -> Result<Nlls> {
        let scores = Scores::new(ScoreKind::Logits, self.scores.view())?;
        let data = Dataset::new(scores, &self.labels)?;
        nlls((&data, &self.groups), |model| {
            let logs = model.apply::<f64>(data.scores(), &self.groups, ScoreKind::LogProbs)?;
            Ok(-(&self.truth * &logs)
                .sum_axis(Axis(1))
                .mean()
                .unwrap_or(f64::NAN))
        })
    }
}
