//! `cargo xtask picture`: the README's picture, a reliability diagram before and after calibration.

use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use ordercal::metrics::{
    Binning, Metric, MetricOptions, Predictions, Reliability, Target, evaluate,
};
use ordercal::{Method, ScoreKind};
use ordercal_io::{DataRef, load};

/// The side of a diagram, and the room around it.
const SIDE: f64 = 260.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 64.0;
const GAP: f64 = 56.0;

/// Calibrates the demo's Fashion-MNIST classifier and draws it to `target`.
pub fn run(target: &Path) -> Result<()> {
    let bundle = DataRef::new("demo/fashion_mnist.npz");
    let calib = load(&bundle.clone().with_split("calib"), None)?;
    let test = load(&bundle.with_split("test"), None)?;
    let model = Method::from_key("oi")?.fit(&calib.dataset()?)?.model;
    let test = test.dataset()?;
    let probs = model.apply::<f64>(test.scores(), ScoreKind::Probs)?;
    let after = Predictions::from_probs(probs.view(), test.labels())?;
    let width = LEFT + 2.0 * SIDE + GAP + 20.0;
    let height = TOP + SIDE + 84.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
         <title>Reliability of a Fashion-MNIST classifier before and after calibration</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    panel(&mut svg, LEFT, "before", &Predictions::from(&test))?;
    panel(
        &mut svg,
        LEFT + SIDE + GAP,
        "after: oi, no prediction changed",
        &after,
    )?;
    writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{:.1}\" fill=\"#444\"><tspan fill=\"#0072b2\">■</tspan> accuracy  \
         <tspan fill=\"#d55e00\" fill-opacity=\"0.65\">■</tspan> gap to the confidence, per bin of \
         confidence; the dashed line is perfect calibration</text>",
        height - 8.0,
    )?;
    svg.push_str("</svg>\n");
    std::fs::write(target, svg)?;
    println!("{}", target.display());
    Ok(())
}

/// One diagram with its left edge at `x`.
fn panel(svg: &mut String, x: f64, title: &str, predictions: &Predictions<'_>) -> Result<()> {
    let options = MetricOptions::default();
    let diagram = Reliability::new(predictions, Target::TopLabel, Binning::EqualWidth, &options)?;
    let values = evaluate(predictions, &[Metric::Ece, Metric::Nll], &options)?;
    let at = |confidence: f64| x + SIDE * confidence;
    let up = |accuracy: f64| TOP + SIDE * (1.0 - accuracy);
    writeln!(
        svg,
        "<text x=\"{x}\" y=\"24\" font-weight=\"600\" fill=\"#111\">{title}</text>\n\
         <text x=\"{x}\" y=\"44\" fill=\"#444\">ECE {:.1} %, NLL {:.3}</text>\n\
         <rect x=\"{x}\" y=\"{TOP}\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"#f6f6f6\" stroke=\"#999\"/>",
        100.0 * values[&Metric::Ece],
        values[&Metric::Nll],
    )?;
    for bin in &diagram.bins {
        let Some(filled) = &bin.filled else { continue };
        let (from, to) = (at(bin.lower), at(bin.upper));
        let (low, high) = (
            filled.accuracy.min(filled.confidence),
            filled.accuracy.max(filled.confidence),
        );
        writeln!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#0072b2\" stroke=\"#fff\">\
             <title>{} rows: confidence {:.3}, accuracy {:.3}</title></rect>\n\
             <rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#d55e00\" fill-opacity=\"0.65\"/>",
            up(filled.accuracy),
            to - from,
            SIDE * filled.accuracy,
            bin.count,
            filled.confidence,
            filled.accuracy,
            up(high),
            to - from,
            SIDE * (high - low),
        )?;
    }
    writeln!(
        svg,
        "<line x1=\"{x}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{TOP}\" stroke=\"#111\" stroke-dasharray=\"5 4\"/>",
        up(0.0),
        at(1.0),
    )?;
    for tick in 0..=4 {
        let value = f64::from(tick) / 4.0;
        writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#444\">{value}</text>",
            at(value),
            up(0.0) + 18.0,
        )?;
        if title == "before" {
            writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#444\">{value}</text>",
                x - 8.0,
                up(value) + 4.0,
            )?;
        }
    }
    writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#111\">confidence</text>",
        at(0.5),
        up(0.0) + 40.0,
    )?;
    if title == "before" {
        let middle = up(0.5);
        writeln!(
            svg,
            "<text x=\"14\" y=\"{middle:.1}\" text-anchor=\"middle\" fill=\"#111\" \
             transform=\"rotate(-90 14 {middle:.1})\">accuracy</text>"
        )?;
    }
    Ok(())
}
