//! From what was typed to what is to be computed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use ordercal::metrics::{BootstrapOptions, Metric, MetricOptions};
use ordercal::select::{Effort, Search};
use ordercal::{Method, ScoreKind};
use ordercal_io::{DataRef, LabelNeed, LoadedData, ReadOptions};
use ordercal_report::{DataSource, UNCALIBRATED};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::outputs::About;
use crate::args::{Common, CompareArgs};
use crate::config::{unknown_method, with_seed};
use crate::fail_if::metric;
use crate::input::at;
use crate::measure;

/// What is compared if nobody says: those that keep the order, then the main free ones.
const METHODS: [&str; 14] = [
    UNCALIBRATED,
    "ts",
    "ets",
    "diag",
    "oi",
    "op",
    "auto",
    "sms+order",
    "vs",
    "ms-odir",
    "dir-odir",
    "svs",
    "sms",
    "auto-free",
];

/// What is measured if nobody says: the tables of the paper.
const METRICS: [Metric; 7] = [
    Metric::Nll,
    Metric::Ece,
    Metric::DebiasedEce,
    Metric::ClasswiseEceSum,
    Metric::MarginalCe,
    Metric::Brier,
    Metric::Accuracy,
];

/// A file with both splits, in memory.
pub struct Bundle {
    /// What it is called in tables.
    pub name: String,
    /// The same as part of file names.
    pub file_name: String,
    /// What methods are fitted on.
    pub calib: LoadedData,
    /// What they are measured on.
    pub test: LoadedData,
    source: DataSource,
}

/// All that decides the numbers.
pub struct Plan {
    /// The files.
    pub bundles: Vec<Bundle>,
    /// The methods; the first is `uncalibrated`.
    pub methods: Vec<Method>,
    /// What the tables show.
    pub metrics: Vec<Metric>,
    /// What is computed: what the tables show, and the accuracy that changes are told by.
    pub measured: measure::Plan,
    /// How hyperparameters are chosen.
    pub search: Search,
    kind: Option<ScoreKind>,
    seed: u64,
    command: String,
}

impl Plan {
    /// Checks what was typed and reads the files.
    pub fn new(args: &CompareArgs, common: &Common) -> Result<Self> {
        let methods = methods_of(args.methods.as_deref(), common)?;
        let metrics = metrics_of(args.metrics.as_deref())?;
        let options = MetricOptions::default().with_bins(args.bins);
        options.validate()?;
        let seed = common.seed.unwrap_or(BootstrapOptions::default().seed);
        let bootstrap = (args.bootstrap > 0).then(|| {
            BootstrapOptions::default()
                .with_resamples(args.bootstrap)
                .with_seed(seed)
        });
        if let Some(how) = &bootstrap {
            how.validate()?;
        }
        let mut search = Search::default()
            .with_effort(args.search.into())
            .with_seed(seed);
        search.folds = args.folds;
        let mut computed = metrics.clone();
        if !computed.contains(&Metric::Accuracy) {
            computed.push(Metric::Accuracy);
        }
        let measured = measure::Plan {
            metrics: computed,
            options,
            bootstrap,
        };
        let kind = args.kind.map(ScoreKind::from);
        let references: Vec<DataRef> = args.bundles.iter().map(DataRef::parse).collect();
        distinct(&references)?;
        let names = names(&references);
        let mut bundles = Vec::new();
        for (reference, (name, file_name)) in references.iter().zip(names) {
            bundles.push(Bundle::read(reference, name, file_name, kind)?);
        }
        Ok(Self {
            command: command(args, &methods, &metrics, seed),
            bundles,
            methods,
            metrics,
            measured,
            search,
            kind,
            seed,
        })
    }

    /// All that a result depends on; a stored one with another key is computed again.
    pub fn part_key(&self, bundle: &Bundle, method: &Method) -> Result<Value> {
        Ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "data": bundle.source.sha256,
            "kind": self.kind,
            "method": serde_json::to_value(method)?,
            "search": self.search,
            "metrics": self.measured.metrics,
            "options": self.measured.options,
            "bootstrap": self.measured.bootstrap,
            "seed": self.seed,
        }))
    }

    /// What the report says about itself.
    pub fn about(&self) -> About {
        let run = [
            ("command", self.command.clone()),
            ("version", format!("ordercal {}", env!("CARGO_PKG_VERSION"))),
            ("seed", self.seed.to_string()),
            ("search", searched(&self.search)),
            ("bins", self.measured.options.bins.to_string()),
            (
                "resamples",
                self.measured
                    .bootstrap
                    .as_ref()
                    .map_or(0, |b| b.resamples)
                    .to_string(),
            ),
        ];
        About {
            title: "Calibration methods compared".to_owned(),
            sources: self.bundles.iter().map(|b| b.source.clone()).collect(),
            file_names: self.bundles.iter().map(|b| b.file_name.clone()).collect(),
            class_names: self
                .bundles
                .iter()
                .map(|b| b.calib.class_names().map(<[String]>::to_vec))
                .collect(),
            run: run
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        }
    }
}

impl Bundle {
    /// Reads a single file.
    pub fn load(file: &OsStr, kind: Option<ScoreKind>) -> Result<Self> {
        let reference = DataRef::parse(file);
        let (name, file_name) = names(std::slice::from_ref(&reference)).remove(0);
        Self::read(&reference, name, file_name, kind)
    }

    fn read(
        reference: &DataRef,
        name: String,
        file_name: String,
        kind: Option<ScoreKind>,
    ) -> Result<Self> {
        let path = reference.path();
        if let Some(split) = reference.split() {
            bail!(
                "{}#{split}: compare takes the whole file, with its splits calib and test",
                path.display()
            );
        }
        let options = || {
            ReadOptions::default()
                .with_kind(kind)
                .with_labels(LabelNeed::Required)
        };
        let split = |name: &str| LoadedData::read(&reference.clone().with_split(name), options());
        let (calib, test) = (split("calib")?, split("test")?);
        if calib.classes() != test.classes() {
            bail!(
                "{}: the split calib has {} classes, but test has {}",
                path.display(),
                calib.classes(),
                test.classes()
            );
        }
        // Labels are checked before anything takes long.
        calib.dataset()?;
        test.dataset()?;
        let bytes = std::fs::read(path).map_err(|e| at(path, e))?;
        let source = DataSource {
            name: name.clone(),
            file: path.to_string_lossy().into_owned(),
            sha256: sha256(&bytes),
        };
        Ok(Self {
            name,
            file_name,
            calib,
            test,
            source,
        })
    }
}

/// The SHA-256 of bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The methods by their keys, `uncalibrated` first and each once.
pub fn methods_of(keys: Option<&[String]>, common: &Common) -> Result<Vec<Method>> {
    let mut methods = vec![Method::from_key(UNCALIBRATED)?];
    let mut add = |method: Method| -> Result<()> {
        if methods.iter().all(|known| known.key() != method.key()) {
            methods.push(with_seed(method, common)?);
        }
        Ok(())
    };
    match keys {
        Some(keys) => {
            for key in keys.iter().map(|key| key.trim()) {
                let method =
                    Method::from_key(key).map_err(|e| unknown_method("--methods", key, &e))?;
                add(method)?;
            }
        }
        None => {
            for method in METHODS.iter().filter_map(|key| Method::from_key(key).ok()) {
                add(method)?;
            }
        }
    }
    Ok(methods)
}

/// The metrics by their keys, each once.
pub fn metrics_of(keys: Option<&[String]>) -> Result<Vec<Metric>> {
    let Some(keys) = keys else {
        return Ok(METRICS.to_vec());
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

/// What bundles are called: by their files, or by whole paths where those are the same; and the same
/// with nothing in it that a file name should not hold.
fn names(references: &[DataRef]) -> Vec<(String, String)> {
    let stem = |path: &Path| {
        let name = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy();
        // All that follows the first point is about the format, as in a.csv.gz; hidden files begin with one.
        let end = name.char_indices().skip(1).find(|(_, c)| *c == '.');
        name[..end.map_or(name.len(), |(at, _)| at)].to_owned()
    };
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for reference in references {
        *count.entry(stem(reference.path())).or_default() += 1;
    }
    let mut taken = Vec::new();
    let mut named = Vec::new();
    for reference in references {
        let name = match stem(reference.path()) {
            name if count[&name] > 1 => reference.path().display().to_string(),
            name => name,
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+');
        let safe: String = name
            .chars()
            .map(|c| if plain(c) { c } else { '_' })
            .collect();
        let mut file_name = safe.clone();
        let mut next = 2;
        while taken.contains(&file_name) {
            file_name = format!("{safe}-{next}");
            next += 1;
        }
        taken.push(file_name.clone());
        named.push((name, file_name));
    }
    named
}

/// The command that gives these numbers: without where they go, and whether they were resumed.
fn command(args: &CompareArgs, methods: &[Method], metrics: &[Metric], seed: u64) -> String {
    let mut words = vec!["ordercal".to_owned(), "compare".to_owned()];
    words.extend(args.bundles.iter().map(|b| quoted(&b.to_string_lossy())));
    let listed = |keys: Vec<&str>| keys.join(",");
    words.push(format!(
        "--methods {}",
        listed(methods.iter().map(Method::key).collect())
    ));
    words.push(format!(
        "--metrics {}",
        listed(metrics.iter().map(|m| m.key()).collect())
    ));
    words.push(format!(
        "--search {} --bins {} --bootstrap {} --seed {seed}",
        Effort::from(args.search),
        args.bins,
        args.bootstrap
    ));
    if let Some(folds) = args.folds {
        words.push(format!("--folds {folds}"));
    }
    if let Some(kind) = args.kind {
        words.push(format!("--kind {}", ScoreKind::from(kind)));
    }
    words.join(" ")
}

/// How hyperparameters were chosen, in words.
fn searched(search: &Search) -> String {
    match (search.effort, search.folds) {
        (effort, None) => effort.to_string(),
        (effort, Some(folds)) => format!("{effort}, {folds} folds"),
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_+./,:@#=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A file that is given twice would count twice in every average.
fn distinct(references: &[DataRef]) -> Result<()> {
    for (place, reference) in references.iter().enumerate() {
        let path = reference.path();
        if references[..place].iter().any(|r| r.path() == path) {
            bail!("{}: the bundle is given twice", path.display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_bundles_apart() {
        let of = |paths: &[&str]| names(&paths.iter().map(DataRef::new).collect::<Vec<_>>());
        assert_eq!(of(&["x/a.npz", "b.npz"])[0], ("a".into(), "a".into()));
        let twice = of(&["x/a.npz", "y/a.npz", "x:a.npz"]);
        assert_eq!(twice[0], ("x/a.npz".into(), "x_a_npz".into()));
        assert_eq!(twice[1], ("y/a.npz".into(), "y_a_npz".into()));
        let files: Vec<&String> = twice.iter().map(|(_, file)| file).collect();
        assert!(files[0] != files[2] && files[1] != files[2]);
        assert_eq!(of(&["set.one.csv.gz"])[0].0, "set");
    }

    #[test]
    fn commands_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("a/b.npz"), "a/b.npz");
        assert_eq!(quoted("my file's"), "'my file'\\''s'");
    }

    #[test]
    fn the_same_file_twice_is_a_mistake() {
        let twice = [DataRef::new("a.npz"), DataRef::new("a.npz")];
        assert!(distinct(&twice).is_err());
        assert!(distinct(&twice[..1]).is_ok());
    }
}
