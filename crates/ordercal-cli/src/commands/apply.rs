//! `ordercal apply`: calibrates scores chunk by chunk.

use anyhow::Result;
use ordercal::words::count;
use ordercal_io::{LabelNeed, OutputSpec, OutputType, ScoreWriter};
use serde_json::json;

use crate::args::ApplyArgs;
use crate::exit::Exit;
use crate::input::DataInput;
use crate::models::{AnyModel, Columns, check_kinds, columns_of, match_classes};
use crate::output::check_distinct;
use crate::printer::Printer;

pub fn run(args: &ApplyArgs, printer: Printer) -> Result<Exit> {
    let model = AnyModel::load(&args.model)?;
    let saved = model.pooled();
    let ids = columns_of([&args.id_columns[..], model.by()]);
    let input = DataInput::resolve(&args.data, "test")?.with_ids(&ids);
    input.check_format(Some(&args.output))?;
    check_distinct(
        &args.output,
        input.paths().into_iter().chain([args.model.as_path()]),
    )?;
    let printer = printer.beside(&args.output)?;
    let mut reader = input.open(LabelNeed::Ignored)?;
    let (kind, dtype) = (args.output_kind, args.dtype);
    match_classes(&mut reader, [(args.model.as_path(), saved)])?;
    printer.warn(input.path(), &check_kinds(&reader, [saved]))?;
    let names = reader.class_names().map(<[String]>::to_vec);
    let mut spec = OutputSpec::new(kind, reader.classes())
        .with_dtype(dtype)
        .with_format(args.data.source.read.format)
        .with_class_names(names)
        .with_ids(reader.ids());
    let known = if spec.output_format(&args.output)?.needs_row_count() {
        Some(reader.count_rows()?)
    } else {
        reader.known_rows()
    };
    if let Some(rows) = known {
        spec = spec.with_rows(rows);
    }
    let bar = printer.progress(known.unwrap_or(0) as u64, "rows");
    let mut writer = ScoreWriter::create(&args.output, spec)?;
    let mut written = 0;
    for chunk in reader {
        let chunk = chunk?;
        let scores = chunk.checked_scores()?;
        let locate = |e| chunk.locate(e);
        let (names, values) = (&ids[..], &chunk.ids[..]);
        let columns = Columns { names, values };
        writer.set_ids(chunk.ids.clone());
        match dtype {
            OutputType::F32 => {
                let calibrated = model.applied().apply::<f32>(&scores, columns, kind);
                writer.write_f32(calibrated.map_err(locate)?.view())?;
            }
            OutputType::F64 => {
                let calibrated = model.applied().apply::<f64>(&scores, columns, kind);
                writer.write_f64(calibrated.map_err(locate)?.view())?;
            }
        }
        written += chunk.len();
        bar.set_position(written as u64);
    }
    writer.finish()?;
    bar.finish_and_clear();
    printer.json(&json!({
        "n": written,
        "classes": saved.model.classes(),
        "method": saved.method.key(),
        "output": args.output.to_string_lossy(),
    }));
    printer.remark(format_args!(
        "{kind} of {}, calibrated by {}, written to {}",
        count(written, "row", "rows"),
        saved.method.key(),
        args.output.display()
    ));
    Ok(Exit::Done)
}
