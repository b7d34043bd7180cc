//! `cargo xtask picture`: the README's picture, a reliability diagram before and after calibration.

use std::path::Path;

use anyhow::Result;
use ordercal::metrics::{Binning, MetricOptions, Predictions, Reliability, Target};
use ordercal::{Method, ScoreKind};
use ordercal_io::{DataRef, load};
use ordercal_report::{ReliabilityFigure, ReliabilityForm, ReliabilitySeries, Theme};

/// Calibrates the demo's Fashion-MNIST classifier and draws it to `target`.
pub fn run(target: &Path) -> Result<()> {
    let bundle = DataRef::new("demo/fashion_mnist.npz");
    let calib = load(&bundle.clone().with_split("calib"), None)?;
    let test = load(&bundle.with_split("test"), None)?;
    let model = Method::from_key("oi")?.fit(&calib.dataset()?)?.model;
    let test = test.dataset()?;
    let probs = model.apply::<f64>(test.scores(), ScoreKind::Probs)?;
    let after = Predictions::from_probs(probs.view(), test.labels())?;
    let panels = [
        ("before", Predictions::from(&test)),
        ("after: oi, no prediction changed", after),
    ];
    let mut series = Vec::new();
    for (slot, (name, predictions)) in panels.into_iter().enumerate() {
        let options = MetricOptions::default();
        let diagram = Reliability::new(
            &predictions,
            Target::TopLabel,
            Binning::EqualWidth,
            &options,
        )?;
        series.push(ReliabilitySeries {
            name: name.to_owned(),
            slot,
            diagram,
        });
    }
    let figure = ReliabilityFigure {
        title: "Reliability of a Fashion-MNIST classifier before and after calibration".to_owned(),
        series,
        form: ReliabilityForm::Classic,
    };
    std::fs::write(target, figure.draw(Theme::LIGHT)?.as_str())?;
    println!("{}", target.display());
    Ok(())
}
