//! Figures hold the numbers they were given, in every theme, and can be drawn as pixels.

use ndarray::Array2;
use ordercal::metrics::{Binning, MetricOptions, Predictions, Reliability, Target};
use ordercal_report::{
    Arrow, Error, LineFigure, LinePanel, LinePoint, LineSeries, ReliabilityFigure, ReliabilityForm,
    ReliabilitySeries, ScoreHistogram, SimplexFigure, Svg, Theme, TransformCurve, TransformFigure,
    to_png,
};

/// 100 rows with confidence 0.9 of which 80 are right, and 50 with 0.6 of which 30 are.
fn diagram() -> Reliability {
    let mut probs = Array2::zeros((150, 2));
    let mut labels = Vec::new();
    for row in 0..150 {
        let (confidence, right) = if row < 100 {
            (0.9, row < 80)
        } else {
            (0.6, row < 130)
        };
        probs[[row, 0]] = confidence;
        probs[[row, 1]] = 1.0 - confidence;
        labels.push(u32::from(!right));
    }
    let predictions = Predictions::from_probs(probs.view(), &labels).unwrap();
    let options = MetricOptions::default().with_bins(10);
    Reliability::new(
        &predictions,
        Target::TopLabel,
        Binning::EqualWidth,
        &options,
    )
    .unwrap()
}

fn reliability(form: ReliabilityForm, names: &[&str]) -> ReliabilityFigure {
    let series = names
        .iter()
        .enumerate()
        .map(|(slot, name)| ReliabilitySeries {
            name: (*name).to_owned(),
            slot,
            diagram: diagram(),
        });
    ReliabilityFigure {
        title: "A <title> & more".to_owned(),
        series: series.collect(),
        form,
    }
}

/// Draws in all themes; the drawing library is also what says that the XML is well-formed.
fn check(draw: impl Fn(Theme) -> Svg) -> String {
    let page = draw(Theme::PAGE);
    for colour in page.as_str().split("fill=\"").skip(1) {
        assert!(
            !colour.starts_with('#'),
            "a fixed colour on a page: {}",
            &colour[..20]
        );
    }
    assert!(
        to_png(&draw(Theme::DARK), 1.0)
            .unwrap()
            .starts_with(b"\x89PNG")
    );
    let light = draw(Theme::LIGHT);
    assert!(to_png(&light, 1.0).unwrap().starts_with(b"\x89PNG"));
    for bad in ["NaN", "inf", "\"\""] {
        assert!(!light.as_str().contains(bad), "{bad} in {}", light.as_str());
    }
    light.as_str().to_owned()
}

#[test]
fn a_band_shows_what_chance_alone_would() {
    // 0.6 ± 1.96 √(0.24 / 50), and 0.9 ± 1.96 √(0.09 / 100).
    let bands: Vec<(f64, f64)> = diagram()
        .bins
        .iter()
        .filter_map(|bin| Some(bin.filled?.consistency))
        .collect();
    for (found, expected) in bands.iter().zip([(0.4642, 0.7358), (0.8412, 0.9588)]) {
        assert!((found.0 - expected.0).abs() < 1e-4, "{bands:?}");
        assert!((found.1 - expected.1).abs() < 1e-4, "{bands:?}");
    }
    let bands = |form: ReliabilityForm, names: &[&str]| {
        let text = check(|theme| reliability(form, names).draw(theme).unwrap());
        text.matches("class=\"noise\"").count()
    };
    // One for each bin, however many methods there are.
    for form in [ReliabilityForm::Gap, ReliabilityForm::Weighted] {
        assert_eq!(bands(form, &["before"]), 2);
        assert_eq!(bands(form, &["before", "after", "x"]), 2);
    }
}

#[test]
fn reliability_diagrams_say_how_many_rows_and_how_far_off() {
    for form in [
        ReliabilityForm::Gap,
        ReliabilityForm::Weighted,
        ReliabilityForm::Classic,
    ] {
        let figure = reliability(form, &["before", "after", "x", "y"]);
        let text = check(|theme| figure.draw(theme).unwrap());
        assert!(text.contains("A &lt;title&gt; &amp; more"), "{form:?}");
        assert!(text.contains("100 rows"), "{form:?}");
        assert!(
            text.contains("confidence 0.900 on average, accuracy 0.800"),
            "{form:?}"
        );
        assert!(text.contains("150 rows"), "{form:?}");
    }
    let none = reliability(ReliabilityForm::Gap, &[]);
    assert_eq!(none.draw(Theme::LIGHT), Err(Error::Empty));
}

/// The vertical places of a series' markers, from left to right.
fn heights(svg: &str) -> Vec<f64> {
    let circles = svg
        .split("<circle ")
        .skip(1)
        .filter(|c| c.contains("<title>before") && c.contains("with confidence"));
    circles
        .map(|c| {
            let cy = c.split("cy=\"").nth(1).unwrap().split('"').next().unwrap();
            cy.parse().unwrap()
        })
        .collect()
}

#[test]
fn overconfidence_lies_above_the_dashed_line() {
    let figure = reliability(ReliabilityForm::Gap, &["before"]);
    let text = figure.draw(Theme::LIGHT).unwrap().as_str().to_owned();
    let zero: f64 = {
        let dashed = text
            .split("<line ")
            .find(|l| l.contains("stroke-dasharray=\"5 4\""))
            .unwrap();
        dashed
            .split("y1=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    };
    // 0.6 is exactly right and 0.9 is too high; upwards is towards 0 on a screen.
    let at = heights(&text);
    assert_eq!(at.len(), 2);
    assert!(
        (at[0] - zero).abs() < 0.02 && at[1] < zero - 20.0,
        "{at:?} {zero}"
    );

    // Weighted by 2/3 of the rows; the axis is shared only in its zero.
    let weighted = reliability(ReliabilityForm::Weighted, &["before"]);
    let at = heights(weighted.draw(Theme::LIGHT).unwrap().as_str());
    assert!(at[1] < at[0]);
}

#[test]
fn functions_and_sweeps_are_drawn_with_their_counts() {
    let figure = TransformFigure {
        title: "functions".to_owned(),
        input: "log-probability".to_owned(),
        curves: vec![
            TransformCurve {
                name: "identity".to_owned(),
                slot: 0,
                points: vec![(-9.0, -9.0), (0.0, 0.0)],
            },
            TransformCurve {
                name: "diag".to_owned(),
                slot: 2,
                points: vec![(-9.0, -4.0), (-3.0, -3.0), (0.0, 0.0)],
            },
        ],
        scores: Some(ScoreHistogram::new([-1.0, -1.5, -8.0], (-9.0, 0.0), 9)),
    };
    let text = check(|theme| figure.draw(theme).unwrap());
    assert!(text.contains("3 scores, logarithmic counts"));
    let empty = TransformFigure {
        curves: Vec::new(),
        ..figure
    };
    assert_eq!(empty.draw(Theme::LIGHT), Err(Error::Empty));

    let point = |x: f64, y: f64| LinePoint {
        x,
        y,
        low: y - 0.01,
        high: y + 0.02,
        repetitions: 3,
    };
    let series = |name: &str, slot, y| LineSeries {
        name: name.to_owned(),
        slot,
        points: vec![point(0.001, y), point(0.1, y / 2.0), point(10.0, f64::NAN)],
    };
    let figure = LineFigure {
        title: "a sweep".to_owned(),
        x_name: "λ".to_owned(),
        logarithmic: true,
        x_ticks: vec![(0.001, "0.001".to_owned()), (10.0, "10".to_owned())],
        panels: vec![LinePanel {
            name: "nll".to_owned(),
            series: vec![series("ts", 1, 0.4), series("oi", 2, 0.3)],
        }],
        note: "1000 rows".to_owned(),
    };
    let text = check(|theme| figure.draw(theme).unwrap());
    assert!(
        text.contains("ts: nll 0.4000 at 0.0010 (0.3900 to 0.4200 in 3 repetitions)"),
        "{text}"
    );
    assert!(text.contains(">1000 rows<"));

    // Panels of the same lines share a legend, others have one each.
    let named = |text: &str, name: &str| text.matches(&format!(">{name}<")).count();
    let [first] = &figure.panels[..] else {
        unreachable!("one panel")
    };
    let with = |second: LinePanel| LineFigure {
        panels: vec![first.clone(), second],
        ..figure.clone()
    };
    let text = check(|theme| with(first.clone()).draw(theme).unwrap());
    assert_eq!((named(&text, "ts"), named(&text, "oi")), (1, 1));
    let other = LinePanel {
        name: "ece".to_owned(),
        series: vec![series("ts", 1, 0.4), series("op", 2, 0.3)],
    };
    let text = check(|theme| with(other.clone()).draw(theme).unwrap());
    assert_eq!(["ts", "oi", "op"].map(|name| named(&text, name)), [2, 1, 1]);
}

#[test]
fn the_simplex_shows_arrows_and_counts() {
    let to = |p: [f64; 3]| {
        let powers = p.map(|v: f64| v.powf(0.5));
        let sum: f64 = powers.iter().sum();
        powers.map(|v| v / sum)
    };
    let arrows = SimplexFigure::grid(8);
    let figure = SimplexFigure {
        title: "ts".to_owned(),
        classes: ["cat", "dog", "bird"].map(str::to_owned),
        arrows: arrows
            .into_iter()
            .map(|from| Arrow { from, to: to(from) })
            .collect(),
        counts: Some([10, 20, 30, 40, 50, 61]),
    };
    let text = check(|theme| figure.draw(theme).unwrap());
    assert!(text.contains("cat &gt; dog &gt; bird: 10 rows"));
    assert!(text.contains("counts of 211 rows"));
    let none = SimplexFigure {
        arrows: Vec::new(),
        ..figure
    };
    assert_eq!(none.draw(Theme::LIGHT), Err(Error::Empty));
}
