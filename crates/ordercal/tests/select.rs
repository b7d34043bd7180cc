//! Hyperparameter searches, fold ensembles and `auto`, on simulated data.

use ndarray::Array2;
use ordercal::select::{Effort, Folds, Search, search, space};
use ordercal::{
    Auto, AutoEffort, AutoFree, Dataset, Error, Method, Model, Oi, Progress, Rng, ScoreKind,
    Scores, Ts, Unwatched,
};
use ordercal_testkit::promise::violation;
use ordercal_testkit::rows::{hostile_matrix, overconfident_data};
use std::ops::ControlFlow;

/// Perfectly calibrated logits: labels are drawn from their softmax.
fn perfect(rows: usize, classes: usize, seed: u64) -> Dataset<'static> {
    let mut rng = Rng::new(seed);
    let logits = Array2::from_shape_fn((rows, classes), |_| 2.0 * rng.normal() as f32);
    let labels: Vec<u32> = logits
        .rows()
        .into_iter()
        .map(|row| {
            let drawn = row
                .iter()
                .map(|&v| f64::from(v) - (-rng.uniform().max(1e-300).ln()).ln());
            let best = drawn.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
            best.unwrap().0 as u32
        })
        .collect();
    Dataset::new(Scores::new(ScoreKind::Logits, logits).unwrap(), &labels).unwrap()
}

fn nll(model: &Model, data: &Dataset<'_>) -> f64 {
    let logs: Array2<f64> = model.apply(data.scores(), ScoreKind::LogProbs).unwrap();
    let rows = data.labels().iter().enumerate();
    -rows.map(|(row, &y)| logs[[row, y as usize]]).sum::<f64>() / data.rows() as f64
}

/// The NLL of the scores as they are.
fn nll_before(data: &Dataset<'_>) -> f64 {
    let method = Method::from_key("uncalibrated").unwrap();
    nll(&method.fit(data).unwrap().model, data)
}

#[test]
fn auto_does_not_worsen_calibrated_scores() {
    for (classes, seed) in [(3, 1), (3, 2), (10, 3), (10, 4)] {
        let (calib, test) = (
            perfect(1500, classes, seed),
            perfect(4000, classes, 100 + seed),
        );
        let before = nll_before(&test);
        for method in [Method::from(Auto::default()), AutoFree::default().into()] {
            let fitted = method.fit(&calib).unwrap();
            let change = nll(&fitted.model, &test) / before - 1.0;
            assert!(
                change.abs() < 1e-3,
                "{classes}: {change} {:?}",
                fitted.report.notes
            );
        }
    }
}

#[test]
fn few_rows_without_an_error_do_not_make_auto_certain() {
    // Four in two hundred are wrong in truth, none of these.
    let mut rng = Rng::new(6);
    let logits = Array2::from_shape_fn((200, 4), |(_, class)| {
        let top = if class == 0 { 5.0 } else { 0.0 };
        top + 0.5 * rng.normal() as f32
    });
    let data = Dataset::new(Scores::new(ScoreKind::Logits, logits).unwrap(), &[0; 200]).unwrap();
    let top = |method: Method| {
        let model = method.fit(&data).unwrap().model;
        let probs: Vec<f64> = model
            .apply_row(&[5.0, 0.0, 0.0, 0.0], ScoreKind::Probs)
            .unwrap();
        1.0 - probs[0]
    };
    let honest = top(Method::from_key("uncalibrated").unwrap());
    assert!(top(Ts::default().into()) < 1e-9 * honest);
    // Without a prior in rows it would be 0.08.
    let found = top(Auto::default().into()) / honest;
    assert!(found > 0.3, "{found}");
}

#[test]
fn the_price_of_order_is_measured_and_told() {
    // Trained on as many of either class, where one in twenty-five is positive: the line is at the wrong place.
    let mut rng = Rng::new(9);
    let mut labels = Vec::new();
    let mut margins = Vec::new();
    for _ in 0..3000 {
        let positive = rng.uniform() < 0.04;
        labels.push(u32::from(positive));
        margins.push(if positive { 1.0 } else { -1.0 } + 1.4 * rng.normal());
    }
    let logits = Array2::from_shape_fn((3000, 2), |(row, class)| {
        margins[row] as f32 * if class == 0 { -0.5 } else { 0.5 }
    });
    let data = Dataset::new(Scores::new(ScoreKind::Logits, logits).unwrap(), &labels).unwrap();
    let kept = Method::from(Auto::default()).fit(&data).unwrap();
    let free = Method::from(AutoFree::default()).fit(&data).unwrap();
    let price = kept.report.price_of_order.unwrap();
    let found = nll(&kept.model, &data) - nll(&free.model, &data);
    assert!(
        price > 0.02 && (price / found - 1.0).abs() < 0.2,
        "{price} {found}"
    );
    let notes = kept.report.notes.join(" ");
    assert!(notes.contains("keeping every prediction costs"), "{notes}");
    assert_eq!(free.report.price_of_order, None);
}

#[test]
fn auto_beats_ts_where_a_temperature_is_not_enough() {
    // The scores of half of the classes are too large, which a single temperature cannot correct.
    let skew = |data: Dataset<'static>| {
        let mut scores = data.scores().view().to_owned();
        for (class, mut column) in scores.columns_mut().into_iter().enumerate() {
            column.mapv_inplace(|v| 1.5 * v + if class % 2 == 0 { 1.0 } else { 0.0 });
        }
        data.with_scores(Scores::new(ScoreKind::Logits, scores).unwrap())
            .unwrap()
    };
    let (calib, test) = (skew(perfect(2000, 6, 5)), skew(perfect(4000, 6, 6)));
    let fit = |method: &str| Method::from_key(method).unwrap().fit(&calib).unwrap();
    let (ts, auto, free) = (fit("ts"), fit("auto"), fit("auto-free"));
    let [ts, kept, changed] = [&ts, &auto, &free].map(|fitted| nll(&fitted.model, &test));
    assert!(kept < 0.995 * ts && changed < kept, "{ts} {kept} {changed}");
    assert!(auto.model.order_preserving() && !free.model.order_preserving());
    let notes = auto.report.notes.join(" ");
    assert!(notes.contains("mixture") && notes.contains('%'), "{notes}");
}

#[test]
fn auto_is_the_same_on_any_number_of_threads() {
    let data = overconfident_data(300, 4, 3);
    let fit = |threads: usize, key: &str| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let method = Method::from_key(key).unwrap();
        pool.build().unwrap().install(|| method.fit(&data).unwrap())
    };
    for key in ["auto", "auto-free"] {
        assert_eq!(fit(1, key), fit(3, key), "{key}");
    }
}

#[test]
fn every_effort_helps_and_quick_is_close_behind() {
    let (calib, test) = (
        overconfident_data(1200, 5, 4),
        overconfident_data(4000, 5, 5),
    );
    let before = nll_before(&test);
    let [quick, standard] = [AutoEffort::Quick, AutoEffort::Standard].map(|effort| {
        let method = Method::from(Auto::default().with_effort(effort));
        nll(&method.fit(&calib).unwrap().model, &test)
    });
    assert!(
        quick < before && standard < before,
        "{before} {quick} {standard}"
    );
    assert!(quick < 1.01 * standard, "{quick} {standard}");
}

#[test]
fn auto_does_not_calibrate_with_too_few_rows() {
    for rows in [1, 2, 19] {
        let data = overconfident_data(rows, 4, 1);
        let fitted = Method::from(Auto::default()).fit(&data).unwrap();
        assert!(matches!(fitted.model, Model::Uncalibrated(_)));
        assert!(fitted.report.notes[0].contains("too few"));
    }
}

#[test]
fn fold_ensembles_are_the_average_and_keep_the_order() {
    let data = overconfident_data(300, 5, 9);
    let how = Search::default().with_folds(3).with_seed(4);
    let method = Method::from(Oi::default().with_hidden([5]));
    let found = search(&method, &data, &how, &Unwatched).unwrap();
    assert_eq!(found.method, method);
    let model = &found.fitted.model;
    assert!(model.order_preserving());

    let folds = Folds::new(300, 3, 4).unwrap();
    let mut mean = Array2::<f64>::zeros((300, 5));
    for fold in 0..3 {
        let one = method.fit(&data.select(&folds.kept(fold))).unwrap().model;
        mean += &one.apply::<f64>(data.scores(), ScoreKind::Probs).unwrap();
    }
    mean /= 3.0;
    let ours: Array2<f64> = model.apply(data.scores(), ScoreKind::Probs).unwrap();
    assert!((&ours - &mean).iter().all(|d| d.abs() < 1e-12));

    let logits = hostile_matrix(2000, 5, &mut Rng::new(8));
    let scores = Scores::new(ScoreKind::Logits, logits.view()).unwrap();
    for kind in [ScoreKind::Logits, ScoreKind::Probs] {
        let out: Array2<f32> = model.apply(&scores, kind).unwrap();
        for (row, input) in logits.rows().into_iter().enumerate() {
            let (input, output) = (input.to_vec(), out.row(row).to_vec());
            assert_eq!(violation(&input, &output, kind), None, "row {row}");
        }
    }
}

#[test]
fn grid_search_and_successive_halving_give_similar_results() {
    let data = overconfident_data(400, 4, 12);
    let method = Method::from_key("dir-odir").unwrap();
    let run = |effort| {
        let how = Search::default().with_effort(effort).with_folds(3);
        search(&method, &data, &how, &Unwatched).unwrap()
    };
    let (paper, quick) = (run(Effort::Paper), run(Effort::Quick));
    assert_eq!(paper.ranking.len(), 5);
    assert!(paper.ranking.is_sorted_by(|a, b| a.nll <= b.nll));
    assert_eq!(paper.ranking[0].method, paper.method);
    assert!(space(&method, 4).contains(&quick.method));
    let gap = quick.ranking[0].nll / paper.ranking[0].nll - 1.0;
    assert!((0.0..3e-3).contains(&gap), "{gap}");
}

#[test]
fn searches_are_repeatable_watched_and_cancelled() {
    let data = overconfident_data(200, 3, 2);
    let how = Search::default().with_effort(Effort::Quick).with_folds(2);
    let method = Method::from_key("ms-odir+order").unwrap();
    let found = search(&method, &data, &how, &Unwatched).unwrap();
    assert_eq!(found, search(&method, &data, &how, &Unwatched).unwrap());
    assert!(found.method.promises_order());

    let stop = |_: &Progress| ControlFlow::Break(());
    assert_eq!(
        search(&method, &data, &how, &stop).unwrap_err(),
        Error::Cancelled
    );
    // Without hyperparameters to choose, the method is fitted once to all rows.
    let ts = Method::from(Ts::default());
    let plain = Search::default().with_effort(Effort::Paper);
    let found = search(&ts, &data, &plain, &Unwatched).unwrap();
    assert_eq!(found.fitted, ts.fit(&data).unwrap());
    assert!(found.ranking.is_empty());
}
