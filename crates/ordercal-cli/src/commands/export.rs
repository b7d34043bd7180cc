//! `ordercal export`: writes a model as ONNX.

use anyhow::{Result, anyhow};
use ordercal_io::write_atomically;
use ordercal_onnx::onnx_bytes;
use serde_json::json;

use crate::args::ExportArgs;
use crate::exit::Exit;
use crate::models::load_model;
use crate::output::{check_distinct, check_ending};
use crate::printer::Printer;

pub fn run(args: &ExportArgs, printer: Printer) -> Result<Exit> {
    check_ending(&args.output, "a graph", ".onnx")?;
    check_distinct(&args.output, [args.model.as_path()])?;
    let printer = printer.beside(&args.output)?;
    let saved = load_model(&args.model)?;
    let kind = args.kind;
    let input_type = args.input_type.parse().map_err(|e: String| anyhow!(e))?;
    let bytes = onnx_bytes(&saved.model, kind, input_type)
        .map_err(|error| anyhow!("{}: {error}", args.output.display()))?;
    write_atomically(&args.output, &bytes)?;
    printer.json(&json!({
        "method": saved.method.key(),
        "order_preserving": saved.model.order_preserving(),
        "classes": saved.model.classes(),
        "output": args.output.to_string_lossy(),
    }));
    printer.remark(format_args!(
        "{} for {} classes, written to {}: scores ({kind}) in, probabilities and logits out",
        saved.method.key(),
        saved.model.classes(),
        args.output.display()
    ));
    Ok(Exit::Done)
}
