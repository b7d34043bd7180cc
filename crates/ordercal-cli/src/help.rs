//! Help texts that list what the registries hold.

use ordercal::Method;
use ordercal::compare::{METHODS, METRICS};
use ordercal::curve::CurveAxis;
use ordercal::metrics::Metric;
use ordercal_io::{readable_endings, writable_endings};
use serde_json::Value;

const WIDTH: usize = 78;

pub fn data() -> String {
    format!(
        "FILE, FILE#SPLIT, or - for standard input: {}",
        readable_endings()
    )
}

pub fn output() -> String {
    format!(
        "Where the calibrated scores go, or - for standard output: {}",
        writable_endings()
    )
}

pub fn fit() -> String {
    let keys = |kept: bool| {
        let methods = Method::all().into_iter();
        let of_kind = methods.filter(|m| m.promises_order() == kept);
        list(of_kind.map(|m| m.key().to_owned()))
    };
    format!(
        "Methods that keep every prediction:\n{}\nMethods that may change predictions, or keep them \
         as KEY+order:\n{}\nOf a bundle without #SPLIT the split `calib` is used, or `val` or `valid`.\n\n\
         Examples:\n  ordercal fit scores.npz#calib -o model.safetensors\n  \
         ordercal fit --logits val.npy --labels y.npy --method diag -o m.safetensors\n  \
         ordercal fit val.csv --method sms --keep-order --lambda 0.5 -o m.safetensors\n  \
         ordercal fit val.npz --method oi --search quick -o m.safetensors\n  \
         ordercal fit val.parquet --by country,device -o m.safetensors\n  \
         ordercal fit val.csv --label-column truth --score-columns 'score_*' -o m.safetensors\n  \
         zcat val.jsonl.gz | ordercal fit - --format jsonl -o m.safetensors",
        keys(true),
        keys(false)
    )
}

pub fn evaluate() -> String {
    format!(
        "Metrics:\n{}\nOf a bundle without #SPLIT the split `test` is used.\n\
         Above 33 million scores the rows are not kept in memory, unless --bootstrap needs them:\n\
         metrics that sort rows are then given with a bound on their error.\n\n\
         Examples:\n  ordercal evaluate scores.npz#test --model m.safetensors --bootstrap 1000\n  \
         ordercal evaluate probs.csv --kind probs --metrics ece,nll --fail-if 'ece>0.02'",
        list(Metric::ALL.iter())
    )
}

pub fn hidden() -> String {
    format!(
        "Units of each hidden layer, as in 100,100 ({})",
        methods_with("hidden").join(", ")
    )
}

pub fn compare() -> String {
    format!(
        "Methods are fitted on the split `calib` of each bundle and measured on its split `test`. uncalibrated\n\
         is always included. With --out, each result is stored as soon as it is computed; --resume continues an\n\
         interrupted run. DIR gets report.html, results.json, results.csv, tables.md, tables.tex, figures,\n\
         models, and timings.json, the only file that differs from run to run.\n\n\
         Default methods:\n{}\nDefault metrics:\n{}\n\n\
         Examples:\n  ordercal compare a.npz b.npz --out results\n  \
         ordercal compare a.npz --methods ts,oi,sms --metrics nll,ece --bootstrap 0",
        list(METHODS.iter()),
        list(METRICS.iter())
    )
}

pub fn curve() -> String {
    let of = |axis: CurveAxis| list(axis.default_methods().iter());
    format!(
        "Methods are fitted on the split `calib` of the bundle, or on a part of it, and measured on its split\n\
         `test`. calib-size goes from 10% to 100% of the rows, once per seed; odir-lambda from 1e-4 to 1e8.\n\
         DIR gets curve.json, curve.csv, curve.svg and curve.png.\n\n\
         Default methods of calib-size:\n{}\nDefault methods of odir-lambda:\n{}\nDefault metrics:\n{}\n\n\
         Examples:\n  ordercal curve a.npz --over calib-size --methods ts,oi,dir-odir --out results\n  \
         ordercal curve a.npz --over odir-lambda --metrics nll,ece --json",
        of(CurveAxis::CalibSize),
        of(CurveAxis::OdirLambda),
        list(crate::commands::curve::METRICS.iter())
    )
}

/// The methods that have a setting.
fn methods_with(setting: &str) -> Vec<String> {
    let has = |method: &Method| {
        let settings = serde_json::to_value(method).unwrap_or(Value::Null);
        settings.get(setting).is_some()
    };
    let methods = Method::all().into_iter().filter(has);
    methods.map(|method| method.key().to_owned()).collect()
}

/// Words in indented lines.
fn list(words: impl Iterator<Item = impl ToString>) -> String {
    let mut lines = vec![String::from(" ")];
    for word in words.map(|word| word.to_string()) {
        let line = lines.last_mut().expect("there is a line");
        if line.len() + 1 + word.len() > WIDTH {
            lines.push(format!("  {word}"));
        } else {
            line.push(' ');
            line.push_str(&word);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_key_is_listed() {
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        let fit = words(&fit());
        for method in Method::all() {
            assert!(
                fit.iter().any(|word| word == method.key()),
                "{}",
                method.key()
            );
        }
        let evaluate = words(&evaluate());
        for metric in Metric::ALL {
            assert!(evaluate.iter().any(|word| word == metric.key()), "{metric}");
        }
        assert!(data().contains(".ipc") && !output().contains(".pkl"));
        assert!(hidden().contains("diag, "), "{}", hidden());
    }

    #[test]
    fn the_method_tables_of_the_readme_and_the_guide_are_the_registry() {
        for page in ["README.md", "docs/methods.md"] {
            let path = format!("{}/../../{page}", env!("CARGO_MANIFEST_DIR"));
            assert_eq!(methods_of(&path), registry(), "{page}");
        }
    }

    #[test]
    fn the_version_to_cite_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../CITATION.cff");
        let citation = std::fs::read_to_string(path).unwrap();
        let version = concat!("version: ", env!("CARGO_PKG_VERSION"));
        assert!(citation.lines().any(|line| line == version), "{citation}");
    }

    /// The keys of a page's table, each with whether it is said to keep predictions.
    fn methods_of(path: &str) -> BTreeMap<String, bool> {
        let page = std::fs::read_to_string(path).unwrap();
        let table: Vec<&str> = (page.lines())
            .skip_while(|line| !line.starts_with("| key |"))
            .take_while(|line| line.starts_with('|'))
            .collect();
        let mut found = BTreeMap::new();
        for row in table.iter().skip(2) {
            let keys = row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2);
            found.extend(keys.map(|key| (key.to_owned(), row.ends_with("| kept |"))));
        }
        found
    }

    fn registry() -> BTreeMap<String, bool> {
        let methods = Method::all().into_iter();
        let mut expected: BTreeMap<String, bool> = methods
            .map(|m| (m.key().to_owned(), m.promises_order()))
            .collect();
        expected.insert("KEY+order".to_owned(), true);
        expected
    }
}
