//! Names of files, methods and classes come from outside: none may control a terminal, break a table, or run.

use std::collections::BTreeMap;

use ordercal::Rng;
use ordercal::metrics::Metric;
use ordercal_report::{
    Arrow, BeforeAfter, Comparison, DataSource, DatasetResult, MethodResult, Report, SimplexFigure,
    Table, Theme, to_csv, to_latex, to_markdown, to_text,
};

/// Parts of which names are made.
const PARTS: [&str; 16] = [
    "\u{1b}[31m",
    "\u{7}",
    "\0",
    "\n",
    "\r",
    "\t",
    "\u{9b}2J",
    "\u{202e}",
    "\u{2028}",
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "=1+1",
    "@SUM(A1)",
    "a,b",
    "| c |",
    "&amp;",
];

fn name(rng: &mut Rng) -> String {
    let count = 1 + rng.below(4);
    (0..count).map(|_| PARTS[rng.below(PARTS.len())]).collect()
}

fn method(name: &str, nll: f64) -> MethodResult {
    MethodResult {
        method: name.to_owned(),
        metrics: BTreeMap::from([(Metric::Nll, nll)]),
        resampled: BTreeMap::new(),
        order_preserving: true,
        changed_predictions: 0,
        fit_seconds: None,
        chosen: serde_json::Value::Null,
    }
}

fn check(what: &str, text: &str) {
    let control = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{2028}');
    assert!(!text.contains(control), "{what}: {text:?}");
}

#[test]
fn no_name_controls_what_shows_it() {
    let mut rng = Rng::new(11);
    for _ in 0..200 {
        let (set, own, class) = (name(&mut rng), name(&mut rng), name(&mut rng));
        let dataset = DatasetResult {
            name: set.clone(),
            n_calib: 10,
            n_test: 20,
            classes: 3,
            methods: vec![method("uncalibrated", 1.0), method(&own, 0.5)],
        };
        let comparison = Comparison::new(vec![Metric::Nll], vec![dataset]).unwrap();
        let table = Table::of_metric(&comparison, Metric::Nll);
        let rows = to_markdown(&table).lines().count();
        let plain = Table::of_metric(&plain(), Metric::Nll);
        assert_eq!(rows, to_markdown(&plain).lines().count(), "{own:?} {set:?}");
        for (what, text) in [
            ("text", to_text(&table)),
            ("markdown", to_markdown(&table)),
            ("latex", to_latex(&table)),
            ("csv", to_csv(&comparison)),
        ] {
            check(what, &text);
        }
        for line in to_csv(&comparison).lines() {
            let mut fields = line.split(',').map(|field| field.trim_start_matches('"'));
            assert!(!fields.any(|f| f.starts_with(['=', '@'])), "{line}");
        }
        let report = Report {
            title: own.clone(),
            comparison,
            before_after: vec![BeforeAfter {
                dataset: set.clone(),
                pictures: Vec::new(),
            }],
            figures: Vec::new(),
            sources: vec![DataSource {
                name: set.clone(),
                file: format!("{set}.npz"),
                sha256: String::new(),
            }],
            run: vec![("command".to_owned(), set.clone())],
        };
        let html = report.to_html().unwrap();
        check("html", &html);
        for part in ["<script>alert", "<img src=x"] {
            assert!(!html.contains(part), "{part}");
        }
        let figure = SimplexFigure {
            title: set,
            classes: [class, own, "c".to_owned()],
            arrows: vec![Arrow {
                from: [0.2, 0.3, 0.5],
                to: [0.3, 0.3, 0.4],
            }],
            counts: None,
        };
        let svg = figure.draw(Theme::LIGHT).unwrap();
        let svg = svg.as_str();
        check("svg", &svg.replace('\t', " "));
        assert!(!svg.contains("<script") && !svg.contains("<img"));
    }
}

fn plain() -> Comparison {
    let dataset = DatasetResult {
        name: "a".to_owned(),
        n_calib: 10,
        n_test: 20,
        classes: 3,
        methods: vec![method("uncalibrated", 1.0), method("ts", 0.5)],
    };
    Comparison::new(vec![Metric::Nll], vec![dataset]).unwrap()
}
