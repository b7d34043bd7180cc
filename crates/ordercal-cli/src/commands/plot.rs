//! `ordercal plot`: one figure.

mod reliability;
mod simplex;
mod transform;

use anyhow::{Result, bail};
use ordercal_io::{LabelNeed, RowReader, write_atomically};
use ordercal_report::{Svg, Theme, to_png};
use serde_json::Value;

use crate::args::{ClassArgs, CountedArgs, DataArgs, DrawArgs, PlotArgs, PlotCommand, ReadArgs};
use crate::exit::Exit;
use crate::input::DataInput;
use crate::printer::Printer;

pub use simplex::figure_of as simplex_of;
pub use transform::{curves_of, describe as describe_input, function_of, input_of, range_of};

/// Runs the command.
pub fn run(args: &PlotArgs, printer: Printer) -> Result<Exit> {
    match &args.figure {
        PlotCommand::Reliability(args) => reliability::plain(args, printer)?,
        PlotCommand::Weighted(args) => {
            reliability::weighted(&args.binned, &args.draw, printer)?;
        }
        PlotCommand::Transform(args) => transform::run(args, printer)?,
        PlotCommand::Simplex(args) => simplex::run(args, printer)?,
    }
    Ok(Exit::Done)
}

/// The file of a figure, checked before anything is computed.
struct FigureFile<'a> {
    args: &'a DrawArgs,
    /// Pixels per unit of the drawing; `None` for an SVG.
    scale: Option<f64>,
}

impl<'a> FigureFile<'a> {
    fn new(args: &'a DrawArgs) -> Result<Self> {
        let ending = args.output.extension().and_then(|e| e.to_str());
        let scale = match ending.map(str::to_ascii_lowercase).as_deref() {
            Some("svg") if args.scale.is_some() => {
                bail!("--scale applies to .png only")
            }
            Some("svg") => None,
            Some("png") => Some(args.scale.unwrap_or(2.0)),
            _ => bail!(
                "{}: a figure is written as .svg or .png: use one of these endings",
                args.output.display()
            ),
        };
        Ok(Self { args, scale })
    }

    fn title(&self, otherwise: impl FnOnce() -> String) -> String {
        self.args.title.clone().unwrap_or_else(otherwise)
    }

    fn theme(&self) -> Theme {
        self.args.theme.into()
    }

    /// Writes the figure, and prints its numbers for `--json`.
    fn write(&self, svg: &Svg, mut numbers: Value, printer: Printer) -> Result<()> {
        let path = &self.args.output;
        match self.scale {
            None => write_atomically(path, svg.as_str().as_bytes())?,
            Some(scale) => write_atomically(path, &to_png(svg, scale)?)?,
        }
        numbers["file"] = path.to_string_lossy().into();
        printer.json(&numbers);
        printer.remark(format_args!("figure written to {}", path.display()));
        Ok(())
    }
}

/// Opens the data whose counts a figure shows, if any.
fn open_counted(args: &CountedArgs, preferred: &str) -> Result<Option<RowReader>> {
    let Some(data) = &args.data else {
        if args.read != ReadArgs::default() {
            bail!("options about columns and formats go with --data");
        }
        return Ok(None);
    };
    let data = DataArgs {
        data: Some(data.clone()),
        logits: None,
        labels: None,
        kind: args.kind,
        classes: ClassArgs::default(),
        read: args.read.clone(),
    };
    let input = DataInput::resolve(&data, preferred)?;
    input.check_format(None)?;
    Ok(Some(input.open(LabelNeed::Ignored)?))
}
