//! Calibrators per group: shrinkage, fallbacks, the order.

use ordercal::grouped::{GroupFit, RowGroups};
use ordercal::ndarray::{Array2, array};
use ordercal::{Dataset, Error, Method, Model, Rng, ScoreKind, Scores, Unwatched};

/// Rows whose logits are too large by a factor of their group's own.
struct Made {
    logits: Array2<f32>,
    labels: Vec<u32>,
    group: Vec<usize>,
}

fn made(sizes: &[usize], factors: &[f64], seed: u64) -> Made {
    const CLASSES: usize = 4;
    let mut rng = Rng::new(seed);
    let group: Vec<usize> = (0..sizes.len()).flat_map(|g| vec![g; sizes[g]]).collect();
    let mut logits = Array2::zeros((group.len(), CLASSES));
    let mut labels = Vec::new();
    for (row, &group) in group.iter().enumerate() {
        let honest: Vec<f64> = (0..CLASSES).map(|_| 1.5 * rng.normal()).collect();
        let total: f64 = honest.iter().map(|h| h.exp()).sum();
        let mut left = rng.uniform() * total;
        let label = honest.iter().position(|h| {
            left -= h.exp();
            left <= 0.0
        });
        labels.push(label.unwrap_or(CLASSES - 1) as u32);
        for (class, h) in honest.iter().enumerate() {
            logits[[row, class]] = (factors[group] * h) as f32;
        }
    }
    Made {
        logits,
        labels,
        group,
    }
}

impl Made {
    fn data(&self) -> Dataset<'_> {
        let scores = Scores::new(ScoreKind::Logits, self.logits.view()).unwrap();
        Dataset::new(scores, &self.labels).unwrap()
    }

    fn groups(&self) -> RowGroups {
        RowGroups::new(self.group.len(), |row| vec![self.group[row].to_string()])
    }
}

fn nll(probs: &Array2<f64>, labels: &[u32]) -> f64 {
    let rows = labels.iter().enumerate();
    let sum: f64 = rows
        .map(|(row, &label)| -probs[[row, label as usize]].ln())
        .sum();
    sum / labels.len() as f64
}

fn ts() -> GroupFit {
    GroupFit::new(Method::from_key("ts").unwrap()).unwrap()
}

#[test]
fn shrunk_groups_beat_one_model_and_separate_models() {
    // Many small groups whose factors differ: neither extreme is right.
    let mut rng = Rng::new(7);
    let factors: Vec<f64> = (0..60).map(|_| 2.0 * (0.5 * rng.normal()).exp()).collect();
    let calib = made(&[80; 60], &factors, 1);
    let test = made(&[600; 60], &factors, 2);
    let fitted = ts()
        .fit(&calib.data(), &calib.groups(), &Unwatched)
        .unwrap();
    let [Some(m)] = fitted.report.shrinkage[..] else {
        panic!("{:?}", fitted.report.shrinkage);
    };
    assert!(m > 0.0, "{m}");
    let held = test.data();
    let shrunk = fitted
        .model
        .apply(held.scores(), &test.groups(), ScoreKind::Probs);
    let shrunk = nll(&shrunk.unwrap(), &test.labels);
    let pooled = fitted.model.pooled().apply(held.scores(), ScoreKind::Probs);
    let pooled = nll(&pooled.unwrap(), &test.labels);
    let mut separate = 0.0;
    let calib_data = calib.data();
    for group in 0..60 {
        let of = |made: &Made| -> Vec<usize> {
            (0..made.group.len())
                .filter(|&r| made.group[r] == group)
                .collect()
        };
        let own: Model = Method::from_key("ts")
            .unwrap()
            .fit(&calib_data.select(&of(&calib)))
            .unwrap()
            .model;
        let part = held.select(&of(&test));
        let probs = own.apply(part.scores(), ScoreKind::Probs).unwrap();
        separate += nll(&probs, part.labels()) / 60.0;
    }
    assert!(shrunk < pooled - 1e-3, "{shrunk} {pooled}");
    assert!(shrunk < separate - 1e-4, "{shrunk} {separate}");
    let report = &fitted.report;
    assert!(report.nll_after < report.nll_pooled.min(report.nll_separate));
}

#[test]
fn equal_groups_share_one_model_and_different_ones_do_not() {
    let equal = made(&[200; 20], &[2.0; 20], 3);
    let fitted = ts()
        .fit(&equal.data(), &equal.groups(), &Unwatched)
        .unwrap();
    let weights = fitted.report.groups.iter().map(|g| g.weight);
    assert!(
        weights.fold(0.0, f64::max) < 0.5,
        "{:?}",
        fitted.report.shrinkage
    );
    let factors: Vec<f64> = (0..20)
        .map(|g| if g % 2 == 0 { 1.0 } else { 4.0 })
        .collect();
    let different = made(&[200; 20], &factors, 4);
    let fitted = ts()
        .fit(&different.data(), &different.groups(), &Unwatched)
        .unwrap();
    let weights = fitted.report.groups.iter().map(|g| g.weight);
    assert!(
        weights.fold(1.0, f64::min) > 0.8,
        "{:?}",
        fitted.report.shrinkage
    );
}

#[test]
fn small_groups_use_the_map_of_their_parent_or_of_all_rows() {
    let data = made(&[400, 400, 20, 400, 10], &[1.0, 1.0, 1.0, 4.0, 4.0], 5);
    // Groups 0, 1 and 2 are in one country, 3 in another, 4 in a third that is too small itself.
    let country = ["a", "a", "a", "b", "c"];
    let groups = RowGroups::new(data.group.len(), |row| {
        let group = data.group[row];
        vec![country[group].to_owned(), group.to_string()]
    });
    let fitted = ts().fit(&data.data(), &groups, &Unwatched).unwrap();
    let fallback = |key: &[&str]| {
        let found = fitted.report.groups.iter().find(|g| g.key == key);
        found.unwrap().fallback.clone()
    };
    assert_eq!(fallback(&["a"]), None);
    assert_eq!(fallback(&["a", "2"]), Some(vec!["a".to_owned()]));
    assert_eq!(fallback(&["c"]), Some(vec![]));
    assert_eq!(fallback(&["c", "4"]), Some(vec![]));
    let model = |key: &[&str]| {
        let key: Vec<String> = key.iter().map(|&part| part.to_owned()).collect();
        fitted.model.model(&key).clone()
    };
    assert_eq!(model(&["a", "2"]), model(&["a"]));
    assert_ne!(model(&["a"]), model(&["b"]));
    assert_eq!(model(&["c", "4"]), *fitted.model.pooled());
    assert_eq!(model(&["never seen"]), *fitted.model.pooled());
    // Rows of different groups in one call get what each group alone gives, in the order of the rows.
    let scores = data.data().scores().clone();
    let all = fitted
        .model
        .apply::<f64>(&scores, &groups, ScoreKind::Probs)
        .unwrap();
    for row in [0, 500, 810, 900, 1225] {
        let own = fitted.model.model(groups.key(row));
        let alone = own
            .apply::<f64>(&scores.select(&[row]), ScoreKind::Probs)
            .unwrap();
        assert_eq!(all.row(row), alone.row(0));
    }
    assert!(fitted.model.order_preserving());
    for (row, probs) in all.outer_iter().enumerate() {
        let given = scores.row(row);
        for i in 0..4 {
            for j in 0..4 {
                assert_eq!(given[i] > given[j], probs[i] > probs[j], "row {row}");
            }
        }
    }
}

#[test]
fn as_many_groups_as_rows_are_needed() {
    let data = made(&[100], &[1.0], 6);
    let groups = RowGroups::new(99, |_| vec!["a".to_owned()]);
    assert!(ts().fit(&data.data(), &groups, &Unwatched).is_err());
}

#[test]
fn soft_labels_are_refused() {
    let scores = Scores::new(ScoreKind::Logits, array![[1.0_f32, 0.0], [0.0, 2.0]]).unwrap();
    let data = Dataset::soft(scores, array![[0.5, 0.5], [0.0, 1.0]].view()).unwrap();
    let groups = RowGroups::new(data.rows(), |_| vec!["a".to_owned()]);
    let refused = ts().fit(&data, &groups, &Unwatched).unwrap_err();
    assert!(matches!(refused, Error::SoftLabels { .. }), "{refused}");
    let pooled = Model::from(ordercal::models::UncalibratedModel::new(2).unwrap());
    let refused = ts().fit_part(&pooled, &data).unwrap_err();
    assert!(matches!(refused, Error::SoftLabels { .. }), "{refused}");
}

#[test]
fn rows_that_belong_together_are_held_out_together() {
    // Every row is there ten times. If its copies were in other folds, a map that learns rows by heart would be trusted.
    let once = made(&[60; 6], &[1.0; 6], 9);
    let rows: Vec<usize> = (0..10 * once.group.len()).map(|row| row / 10).collect();
    let data = once.data().select(&rows);
    let groups = RowGroups::new(rows.len(), |row| vec![once.group[rows[row]].to_string()]);
    let mut how = ts();
    how.group_method = Method::from_key("sms").unwrap();
    let weight = |data: &Dataset<'_>| {
        let fitted = how.fit(data, &groups, &Unwatched).unwrap();
        let weights = fitted.report.groups.iter().map(|g| g.weight);
        weights.fold(0.0, f64::max)
    };
    let together = data
        .clone()
        .with_groups(rows.iter().map(|&r| r as u32).collect());
    let (apart, together) = (weight(&data), weight(&together.unwrap()));
    assert!(
        together < 0.2 && apart > together + 0.2,
        "{apart} {together}"
    );
}

#[test]
fn groups_that_were_fitted_one_by_one_are_weighed_together() {
    let factors: Vec<f64> = (0..30).map(|g| 1.0 + f64::from(g % 3)).collect();
    let made = made(&[120; 30], &factors, 8);
    let (data, groups, how) = (made.data(), made.groups(), ts());
    let whole = how.fit(&data, &groups, &Unwatched).unwrap();
    let pooled = how.method.fit(&data).unwrap();
    let parts = (0..30).map(|group| {
        let rows: Vec<usize> = (0..made.group.len())
            .filter(|&r| made.group[r] == group)
            .collect();
        let part = how.fit_part(&pooled.model, &data.select(&rows)).unwrap();
        (vec![group.to_string()], part)
    });
    let joined = how.join(pooled.clone(), parts.collect()).unwrap();
    assert_eq!(joined.model.pooled(), whole.model.pooled());
    for (key, map) in whole.model.maps() {
        let other = &joined.model.maps()[key];
        assert_eq!(map.own, other.own);
        assert!(
            (map.weight - other.weight).abs() < 0.1,
            "{} {}",
            map.weight,
            other.weight
        );
    }
    assert!((joined.report.nll_after - whole.report.nll_after).abs() < 0.01);
    assert!(joined.report.nll_after < joined.report.nll_pooled - 0.01);
}
