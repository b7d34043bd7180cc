//! The settings of a comparison.

use anyhow::{Result, anyhow};
use ordercal::compare::{METHODS, METRICS, Measures, line_up};
use ordercal::metrics::{BootstrapOptions, Metric};
use ordercal::select::Search;
use ordercal::{Method, ScoreKind};
use serde_json::{Value, json};

use super::bundle::Bundle;
use super::outputs::About;
use crate::args::{Common, CompareArgs, ComparedArgs};
use crate::config::{unknown_method, with_seed};
use crate::fail_if::metric;

/// Everything that the results depend on.
pub struct ComparisonSettings {
    pub bundles: Vec<Bundle>,
    /// The methods; the first is `uncalibrated`.
    pub methods: Vec<Method>,
    /// The metrics of the tables.
    pub metrics: Vec<Metric>,
    /// What is computed: the metrics of the tables, and the accuracy.
    pub measures: Measures,
    /// How hyperparameters are chosen.
    pub search: Search,
    kind: Option<ScoreKind>,
    class_names: Option<Vec<String>>,
    seed: u64,
    command: String,
}

impl ComparisonSettings {
    /// Checks the arguments and the files.
    pub fn new(args: &CompareArgs, common: &Common) -> Result<Self> {
        let methods = methods_of(&args.compared, &METHODS, common)?;
        let metrics = metrics_of(&args.compared, &METRICS)?;
        let source = &args.compared.source;
        let seed = common.seed.unwrap_or(BootstrapOptions::default().seed);
        let measures = Measures::new(&metrics)
            .with_bins(args.bins)
            .with_bootstrap(args.bootstrap, seed);
        measures.validate()?;
        let mut search = Search::default().with_effort(args.search).with_seed(seed);
        search.folds = args.folds;
        Ok(Self {
            command: command(args, &methods, &metrics, seed),
            bundles: Bundle::check_all(&args.bundles, source)?,
            methods,
            metrics,
            measures,
            search,
            kind: source.kind,
            class_names: source.names(),
            seed,
        })
    }

    /// Everything that a result depends on; a stored result with another key is computed again.
    pub fn result_key(&self, bundle: &Bundle, method: &Method) -> Result<Value> {
        Ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "data": bundle.source.sha256,
            "kind": self.kind,
            "class_names": self.class_names,
            "method": serde_json::to_value(method)?,
            "search": self.search,
            "metrics": self.measures.metrics,
            "options": self.measures.options,
            "bootstrap": self.measures.bootstrap,
            "seed": self.seed,
        }))
    }

    /// The description of the run in the report.
    pub fn about(&self) -> About {
        let resamples = self.measures.bootstrap.as_ref().map(|how| how.resamples);
        let run = [
            ("command", self.command.clone()),
            ("version", format!("ordercal {}", env!("CARGO_PKG_VERSION"))),
            ("seed", self.seed.to_string()),
            ("search", searched(&self.search)),
            ("bins", self.measures.options.bins.to_string()),
            ("resamples", resamples.unwrap_or(0).to_string()),
        ];
        About {
            title: "Calibration methods compared".to_owned(),
            sources: self.bundles.iter().map(|b| b.source.clone()).collect(),
            file_names: self.bundles.iter().map(|b| b.file_name.clone()).collect(),
            class_names: self.bundles.iter().map(|b| b.class_names.clone()).collect(),
            run: run.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }
}

/// The methods of a list of keys, or else the usual ones: `uncalibrated` first, each once.
pub fn methods_of(args: &ComparedArgs, usual: &[&str], common: &Common) -> Result<Vec<Method>> {
    let given = |keys: &Vec<String>| keys.iter().map(|key| key.trim().to_owned()).collect();
    let usual = || usual.iter().map(|&key| key.to_owned()).collect();
    let keys: Vec<String> = args.methods.as_ref().map_or_else(usual, given);
    let methods = keys.iter().map(|key| {
        let method = Method::from_key(key).map_err(|e| unknown_method("--methods", key, &e))?;
        with_seed(method, common)
    });
    Ok(line_up(methods.collect::<Result<Vec<_>>>()?)?)
}

/// The metrics of a list of keys, or else the usual ones, each once.
pub fn metrics_of(args: &ComparedArgs, usual: &[Metric]) -> Result<Vec<Metric>> {
    let Some(keys) = &args.metrics else {
        return Ok(usual.to_vec());
    };
    let mut metrics = Vec::new();
    for key in keys {
        let found = metric(key.trim()).map_err(|e| anyhow!("--metrics: {e}"))?;
        if !metrics.contains(&found) {
            metrics.push(found);
        }
    }
    Ok(metrics)
}

/// The command that reproduces the numbers, without --out and --resume.
fn command(args: &CompareArgs, methods: &[Method], metrics: &[Metric], seed: u64) -> String {
    let mut words = vec!["ordercal".to_owned(), "compare".to_owned()];
    words.extend(args.bundles.iter().map(|b| quoted(&b.to_string_lossy())));
    let methods: Vec<&str> = methods.iter().map(Method::key).collect();
    let metrics: Vec<&str> = metrics.iter().map(|m| m.key()).collect();
    words.push(format!("--methods {}", methods.join(",")));
    words.push(format!("--metrics {}", metrics.join(",")));
    words.push(format!(
        "--search {} --bins {} --bootstrap {} --seed {seed}",
        args.search, args.bins, args.bootstrap
    ));
    if let Some(folds) = args.folds {
        words.push(format!("--folds {folds}"));
    }
    if let Some(kind) = args.compared.source.kind {
        words.push(format!("--kind {}", kind.key()));
    }
    if let Some(names) = args.compared.source.names() {
        words.push(format!("--class-names {}", quoted(&names.join(","))));
    }
    words.join(" ")
}

/// The search in words.
fn searched(search: &Search) -> String {
    match (search.effort, search.folds) {
        (effort, None) => effort.to_string(),
        (effort, Some(folds)) => format!("{effort}, {folds} folds"),
    }
}

/// A word quoted for a shell, if needed.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_+./,:@#=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    #[test]
    fn commands_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("a/b.npz"), "a/b.npz");
        assert_eq!(quoted("my file's"), "'my file'\\''s'");
    }

    #[test]
    fn the_reported_command_parses_to_the_same_command() {
        let typed = "ordercal compare a.npz --kind log-probs --search quick --folds 4 --bins 9 \
                     --class-names cat,dog";
        let parse = |line: &str| match Cli::try_parse_from(line.split(' ')).unwrap().command {
            Command::Compare(args) => args,
            other => panic!("{other:?}"),
        };
        let methods = [Method::from_key("ts").unwrap()];
        let reported = command(&parse(typed), &methods, &[Metric::Nll], 7);
        assert!(
            reported.ends_with("--kind log-probs --class-names cat,dog"),
            "{reported}"
        );
        assert_eq!(
            command(&parse(&reported), &methods, &[Metric::Nll], 7),
            reported
        );
    }
}
