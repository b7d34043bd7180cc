//! Fits every method to simulated data and prints what changed.
//!
//! `cargo run --release --example calibrate`

#![allow(clippy::print_stdout)]

use ndarray::{Array2, ArrayView1, s};
use ordercal::rank::argmax;
use ordercal::{Dataset, Method, Result, Rng, ScoreKind, Scores};

const CLASSES: usize = 10;

/// Logits of an overconfident classifier: the larger the confidence, the more overconfident.
fn classifier(rows: usize) -> (Array2<f32>, Vec<u32>) {
    let mut rng = Rng::new(2020);
    let mut labels = Vec::with_capacity(rows);
    let mut logits = Array2::zeros((rows, CLASSES));
    for mut row in logits.rows_mut() {
        let favourite = rng.below(CLASSES);
        let lift = 9.0 * rng.uniform();
        for (class, logit) in row.iter_mut().enumerate() {
            let bonus = if class == favourite { lift } else { 0.0 };
            *logit = (1.5 * rng.normal() + bonus) as f32;
        }
        // The true distribution is less certain than the logits: each is shrunk towards zero.
        let truth = row.mapv(|v| f64::from(v.signum() * v.abs().powf(0.75)));
        labels.push(draw(&mut rng, truth.view()));
    }
    (logits, labels)
}

fn draw(rng: &mut Rng, logits: ArrayView1<'_, f64>) -> u32 {
    let weights = logits.mapv(f64::exp);
    let mut left = rng.uniform() * weights.sum();
    let chosen = weights.iter().position(|w| {
        left -= w;
        left < 0.0
    });
    chosen.unwrap_or(CLASSES - 1) as u32
}

fn main() -> Result<()> {
    let (logits, labels) = classifier(10_000);
    let (calib, test) = (logits.slice(s![..5000, ..]), logits.slice(s![5000.., ..]));
    let data = Dataset::new(Scores::new(ScoreKind::Logits, calib)?, &labels[..5000])?;
    let test = Scores::new(ScoreKind::Logits, test)?;

    println!("10 classes, 5000 rows to calibrate on, 5000 to test on\n");
    println!("method          NLL      mean confidence  accuracy  ranking  predictions changed");
    let mut free = Vec::new();
    for method in Method::all() {
        let model = method.fit(&data)?.model;
        let probs: Array2<f64> = model.apply(&test, ScoreKind::Probs)?;
        let (mut nll, mut confidence, mut hits, mut changed) = (0.0, 0.0, 0, 0);
        for (row, probs) in probs.rows().into_iter().enumerate() {
            let label = labels[5000 + row] as usize;
            let top = argmax(probs);
            nll -= probs[label].ln() / 5000.0;
            confidence += probs[top] / 5000.0;
            hits += usize::from(top == label);
            changed += usize::from(top != argmax(test.row(row)));
        }
        let accuracy = hits as f64 / 5000.0;
        println!(
            "{:<14}  {nll:.4}   {confidence:.4}           {accuracy:.4}    {:<7}  {changed}",
            method.key(),
            if method.promises_order() {
                "kept"
            } else {
                "free"
            }
        );
        if !method.promises_order() {
            free.push(method.key().to_owned());
        }
    }
    println!(
        "\nConfidence and accuracy agree after calibration. {} methods are free to change",
        free.len()
    );
    println!("predictions ({});", free.join(", "));
    println!("the others keep the ranking of every row.");
    Ok(())
}
