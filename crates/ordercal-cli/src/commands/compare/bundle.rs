//! Bundles: files with the splits `calib` and `test`.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use ordercal::Fingerprint;
use ordercal::diagnose::{RowChecks, Warning};
use ordercal::words::printable;
use ordercal_io::{DataRef, LabelNeed, LoadedData, ReadOptions, RowReader};
use ordercal_report::DataSource;
use sha2::{Digest, Sha256};

use crate::args::SourceArgs;
use crate::input::{at, ignored};
use crate::printer::Printer;

/// A checked file with the splits `calib` and `test`.
pub struct Bundle {
    /// The name in tables.
    pub name: String,
    /// The name in file names.
    pub file_name: String,
    /// Rows to fit on.
    pub n_calib: usize,
    /// Rows to measure on.
    pub n_test: usize,
    pub classes: usize,
    /// The names of the classes, if known.
    pub class_names: Option<Vec<String>>,
    /// The path and the hash of the file.
    pub source: DataSource,
    /// The hash of the rows to fit on.
    pub rows: Fingerprint,
    /// What deserves a second look, by the data that it is about.
    warnings: Vec<(PathBuf, Vec<Warning>)>,
    splits: Cell<Option<Splits>>,
    reference: DataRef,
    options: ReadOptions,
}

/// The splits of a bundle, in memory.
pub struct Splits {
    /// The rows to fit on.
    pub calib: LoadedData,
    /// The rows to measure on.
    pub test: LoadedData,
}

impl Bundle {
    /// Checks every file before the first fit, one at a time to save memory.
    pub fn check_all(files: &[OsString], source: &SourceArgs) -> Result<Vec<Self>> {
        let options = source.options().with_labels(LabelNeed::Required);
        let references: Vec<DataRef> = files.iter().map(DataRef::parse).collect();
        distinct(&references)?;
        let named = names(&references);
        let pairs = references.into_iter().zip(named);
        pairs
            .map(|(reference, names)| {
                let (bundle, splits) = Self::check(reference, names, &options)?;
                // A single file need not be read again.
                bundle.splits.set(Some(splits).filter(|_| files.len() == 1));
                Ok(bundle)
            })
            .collect()
    }

    fn check(
        reference: DataRef,
        (name, file_name): (String, String),
        options: &ReadOptions,
    ) -> Result<(Self, Splits)> {
        let path = reference.path();
        if let Some(split) = reference.split() {
            bail!(
                "{}#{split}: the whole file is needed, with its splits calib and test",
                path.display()
            );
        }
        let splits = read(&reference, options)?;
        let (calib, test) = (&splits.calib, &splits.test);
        let fitted_on = calib.dataset()?;
        let mut fit = RowChecks::of(&fitted_on)
            .of_classes(calib.class_names())
            .before_fit();
        fit.extend(ignored(calib.ignored()));
        let rows = fitted_on.fingerprint();
        let mut checks = RowChecks::new(test.classes()).of_models_fitted_on(vec![rows]);
        checks.add(&test.dataset()?);
        let evaluation = checks.evaluation();
        let named = |split: &str| PathBuf::from(reference.clone().with_split(split).to_string());
        let warnings = vec![(named("calib"), fit), (named("test"), evaluation)];
        let source = DataSource {
            name: name.clone(),
            file: path.to_string_lossy().into_owned(),
            sha256: sha256(File::open(path).map_err(|e| at(path, e))?).map_err(|e| at(path, e))?,
        };
        let bundle = Self {
            name,
            file_name,
            n_calib: calib.rows(),
            n_test: test.rows(),
            classes: test.classes(),
            class_names: calib.class_names().map(<[String]>::to_vec),
            source,
            rows,
            warnings,
            splits: Cell::new(None),
            reference,
            options: options.clone(),
        };
        Ok((bundle, splits))
    }

    /// Prints what deserves a second look.
    pub fn warn(&self, printer: Printer) -> Result<()> {
        let mut about = self.warnings.iter();
        about.try_for_each(|(data, warnings)| printer.warn(data, warnings))
    }

    /// Reads both splits, if they are not in memory since they were checked.
    pub fn read(&self) -> Result<Splits> {
        let kept = self.splits.take();
        kept.map_or_else(|| read(&self.reference, &self.options), Ok)
    }
}

fn read(reference: &DataRef, options: &ReadOptions) -> Result<Splits> {
    let open = |name: &str| {
        let split = reference.clone().with_split(name);
        RowReader::open(&split, options.clone())
    };
    let calib = LoadedData::collect(open("calib")?)?;
    let mut test = open("test")?;
    if calib.classes() != test.classes() {
        bail!(
            "{}: the split calib has {} classes, but test has {}",
            reference.path().display(),
            calib.classes(),
            test.classes()
        );
    }
    if let Some(names) = calib.class_names() {
        test.match_classes(names, "the split calib")?;
    }
    Ok(Splits {
        test: LoadedData::collect(test)?,
        calib,
    })
}

/// The SHA-256 of bytes, in hexadecimal.
pub fn sha256(mut bytes: impl Read) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match bytes.read(&mut buffer)? {
            0 => break,
            count => hash.update(&buffer[..count]),
        }
    }
    Ok(hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// The names of bundles, with the same names made safe for file names. Bundles are named by their files, or
/// by their paths where file names repeat.
fn names(references: &[DataRef]) -> Vec<(String, String)> {
    let stem = |path: &Path| {
        let name = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy();
        // The ending starts at the first dot, as in a.csv.gz, but not at that of a hidden file.
        let end = name.char_indices().skip(1).find(|(_, c)| *c == '.');
        name[..end.map_or(name.len(), |(at, _)| at)].to_owned()
    };
    let stems: Vec<String> = references.iter().map(|r| stem(r.path())).collect();
    let mut taken = Vec::new();
    let mut named = Vec::new();
    for (reference, stem) in references.iter().zip(&stems) {
        let name = match stems.iter().filter(|other| *other == stem).count() {
            1 => stem.clone(),
            _ => reference.path().display().to_string(),
        };
        // Names are shown on terminals, in tables and in the report.
        let name: String = name.chars().map(printable).collect();
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

/// Refuses a file that is given twice: it would count twice in every average.
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
        assert_eq!(of(&["a\u{1b}[2Jb.npz"])[0].0, "a\u{fffd}[2Jb");
    }

    #[test]
    fn the_same_file_twice_is_a_mistake() {
        let twice = [DataRef::new("a.npz"), DataRef::new("a.npz")];
        assert!(distinct(&twice).is_err());
        assert!(distinct(&twice[..1]).is_ok());
    }

    #[test]
    fn the_hash_is_the_known_one() {
        // The example of the standard, FIPS 180-4.
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&b"abc"[..]).unwrap(), known);
    }
}
