//! `ordercal plot`: one figure.

mod reliability;
mod simplex;
mod transform;

use anyhow::{Result, bail};
use ordercal_io::{LabelNeed, RowReader};
use ordercal_report::{ReliabilityForm, Svg};
use serde_json::Value;

use crate::args::{CountedArgs, DataArgs, DrawArgs, PlotArgs, PlotCommand, ReadArgs, SourceArgs};
use crate::exit::Exit;
use crate::input::DataInput;
use crate::output::{is_png, write_figure};
use crate::printer::Printer;

pub use simplex::figure_of as simplex_of;
pub use transform::{curves_of, describe as describe_input, function_of, input_of, range_of};

pub fn run(args: &PlotArgs, printer: Printer) -> Result<Exit> {
    match &args.figure {
        PlotCommand::Reliability(args) => {
            reliability::draw(&args.binned, &args.draw, args.form, "reliability", printer)?;
        }
        PlotCommand::Weighted(args) => {
            let form = ReliabilityForm::Weighted;
            reliability::draw(&args.binned, &args.draw, form, "weighted", printer)?;
        }
        PlotCommand::Transform(args) => transform::run(args, printer)?,
        PlotCommand::Simplex(args) => simplex::run(args, printer)?,
    }
    Ok(Exit::Done)
}

/// The file of a figure, checked before anything is computed.
struct FigureFile<'a> {
    args: &'a DrawArgs,
}

impl<'a> FigureFile<'a> {
    fn new(args: &'a DrawArgs) -> Result<Self> {
        if !is_png(&args.output)? && args.scale.is_some() {
            bail!("--scale applies to .png only");
        }
        Ok(Self { args })
    }

    fn title(&self, otherwise: impl FnOnce() -> String) -> String {
        self.args.title.clone().unwrap_or_else(otherwise)
    }

    /// Writes the figure, and prints its numbers for `--json`.
    fn write(&self, svg: &Svg, mut numbers: Value, printer: Printer) -> Result<()> {
        let path = &self.args.output;
        write_figure(path, svg, self.args.scale)?;
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
        source: SourceArgs {
            kind: args.kind,
            class_names: None,
            read: args.read.clone(),
        },
    };
    let input = DataInput::resolve(&data, preferred)?;
    input.check_format(None)?;
    Ok(Some(input.open(LabelNeed::Ignored)?))
}
