//! How data is read: its format and its columns, where names do not tell.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{OsStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use ordercal::ScoreKind;
use ordercal_io::{ColumnChoice, Format, ReadOptions, STDIN, STDOUT};

/// Above these options in a help text.
const HEADING: &str = "Data whose names do not tell what it is";

/// What every command that reads data knows about it.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct ReadArgs {
    /// The format of `-` and of files whose ending does not tell it
    #[arg(long, help_heading = HEADING, value_name = "FORMAT", value_parser = format_parser())]
    pub format: Option<Format>,
    /// The column, or array, with the labels [default: label, y_true, target or y]
    #[arg(long, help_heading = HEADING, value_name = "NAME")]
    pub label_column: Option<String>,
    /// The columns with the scores in the order of the classes, as a,b,c or PREFIX*; or their array
    #[arg(long, help_heading = HEADING, value_name = "NAMES", value_delimiter = ',')]
    pub score_columns: Vec<String>,
    /// What separates the columns of a csv file: one character, or `tab`
    #[arg(long, help_heading = HEADING, value_name = "MARK", value_parser = delimiter)]
    pub delimiter: Option<u8>,
    /// The csv file has no header: its columns are called 0, 1, 2 and so on
    #[arg(long, help_heading = HEADING)]
    pub no_header: bool,
}

impl ReadArgs {
    /// The options for reading.
    pub fn options(&self) -> ReadOptions {
        let mut columns = ColumnChoice::default().with_scores(self.score_columns.clone());
        columns.label.clone_from(&self.label_column);
        columns.delimiter = self.delimiter;
        columns.header = self.no_header.then_some(false);
        ReadOptions::default()
            .with_format(self.format)
            .with_columns(columns)
    }
}

/// What every command that reads scores knows about them.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct SourceArgs {
    /// The kind of the scores, if their name in the file does not tell it [default: logits]
    #[arg(long, value_name = "KIND", value_parser = kind_parser())]
    pub kind: Option<ScoreKind>,
    /// The names of the classes in the order of the columns, as in cat,dog, or a file with one name per
    /// line; for labels that are names [default: the names in the data]
    #[arg(long, value_name = "NAMES|FILE", value_parser = ClassNames::parse)]
    pub class_names: Option<ClassNames>,
    #[command(flatten)]
    pub read: ReadArgs,
}

impl SourceArgs {
    /// The names of the classes, if any were given.
    pub fn names(&self) -> Option<Vec<String>> {
        self.class_names.as_ref().map(|names| names.0.clone())
    }

    /// The options for reading.
    pub fn options(&self) -> ReadOptions {
        let options = self.read.options().with_kind(self.kind);
        options.with_class_names(self.names())
    }
}

/// Names of classes, as given on the command line.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassNames(Vec<String>);

impl ClassNames {
    /// Reads names separated by commas, or a file with one per line.
    fn parse(text: &str) -> Result<Self, String> {
        let names: Vec<String> = if Path::new(text).is_file() {
            let lines = std::fs::read_to_string(text).map_err(|e| format!("{text}: {e}"))?;
            lines.lines().map(|line| line.trim().to_owned()).collect()
        } else if text.contains(',') {
            text.split(',').map(|name| name.trim().to_owned()).collect()
        } else {
            return Err("there is no such file, and names are separated by commas".to_owned());
        };
        match names.iter().position(String::is_empty) {
            Some(place) => Err(format!("name {place}, counted from 0, is empty")),
            None => Ok(Self(names)),
        }
    }
}

/// Parses a kind of scores by its key.
pub fn kind_parser() -> impl TypedValueParser<Value = ScoreKind> {
    let kinds = ScoreKind::ALL.map(|kind| PossibleValue::new(kind.key()).help(kind.to_string()));
    PossibleValuesParser::new(kinds).map(|key| key.parse().expect("the key is listed"))
}

/// What labels are.
#[derive(Debug, Clone, Default, Args)]
pub struct LabelArgs {
    /// Labels that are distributions over the classes: the columns with the shares of the classes, as a,b,c
    /// or PREFIX*, or one array of N x K [default: an array of labels of that shape]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with_all = ["label_column", "labels"])]
    pub soft_labels: Vec<String>,
    /// Leave out the rows with this label, as in --ignore-label -100
    #[arg(long, value_name = "LABEL", allow_hyphen_values = true)]
    pub ignore_label: Option<String>,
}

fn format_parser() -> impl TypedValueParser<Value = Format> {
    let names = Format::ALL.iter().map(|format| format.name());
    PossibleValuesParser::new(names)
        .map(|name| Format::from_name(&name).expect("the name is listed"))
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        &[mark] if mark.is_ascii() && !mark.is_ascii_alphanumeric() && mark != b'"' => Ok(mark),
        _ => Err("one character such as ';', or tab, was expected".to_owned()),
    }
}

/// A file to read; `-` is standard input.
pub fn input_path() -> impl TypedValueParser<Value = PathBuf> {
    path_or(STDIN)
}

/// A file to write; `-` is standard output.
pub fn output_path() -> impl TypedValueParser<Value = PathBuf> {
    path_or(STDOUT)
}

fn path_or(stream: &'static str) -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(move |text| match text == "-" {
        true => PathBuf::from(stream),
        false => PathBuf::from(text),
    })
}
