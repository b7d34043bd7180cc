//! Checks of where results go, made before anything is computed.

use std::path::Path;

use anyhow::{Result, bail};
use ordercal_io::{DataRef, Format, write_atomically};
use ordercal_report::{Svg, to_png};

/// Refuses an output that would replace one of the inputs.
pub fn check_distinct<'a>(output: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    let Ok(place) = std::fs::canonicalize(output) else {
        return Ok(());
    };
    // Pipes and devices are not replaced.
    if !place.is_file() || output == Path::new(ordercal_io::STDOUT) {
        return Ok(());
    }
    for input in inputs {
        // A model of a group is named as FILE#GROUP.
        let input = DataRef::parse(input);
        if std::fs::canonicalize(input.path()).is_ok_and(|input| input == place) {
            bail!(
                "{}: this is also an input, which would be lost; choose another name for the output",
                output.display()
            );
        }
    }
    Ok(())
}

/// Refuses an ending that belongs to something else than what is written, of which `ending` is the usual one.
pub fn check_ending(output: &Path, what: &str, ending: &str) -> Result<()> {
    let name = output.to_string_lossy().to_ascii_lowercase();
    let foreign = [".onnx", ".safetensors", ".json", ".html", ".svg", ".png"];
    let wrong = Format::is_told_by(output) || foreign.iter().any(|other| name.ends_with(other));
    if wrong && !name.ends_with(ending) {
        let right = output.with_extension(ending.trim_start_matches('.'));
        bail!(
            "{}: {what} is written as {ending}: use -o {}",
            output.display(),
            right.display()
        );
    }
    Ok(())
}

/// Whether a figure is written as pixels.
pub fn is_png(output: &Path) -> Result<bool> {
    let ending = output.extension().unwrap_or_default();
    match ending.to_ascii_lowercase().to_str() {
        Some("png") => Ok(true),
        Some("svg") => Ok(false),
        _ => bail!(
            "{}: a figure is written as .svg or .png: use one of these endings",
            output.display()
        ),
    }
}

/// Writes a figure; pixels per unit of the drawing are for a .png.
pub fn write_figure(output: &Path, svg: &Svg, scale: Option<f64>) -> Result<()> {
    match is_png(output)? {
        true => write_atomically(output, &to_png(svg, scale.unwrap_or(2.0))?)?,
        false => write_atomically(output, svg.as_str().as_bytes())?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_not_replaced_whatever_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.npz");
        std::fs::write(&path, b"x").unwrap();
        let detour = folder.path().join("../").join(folder.path()).join("d.npz");
        assert!(check_distinct(&detour, [path.as_path()]).is_err());
        let other = folder.path().join("e.npz");
        assert!(check_distinct(&other, [path.as_path()]).is_ok());
    }

    #[test]
    fn foreign_endings_are_refused_with_the_right_one() {
        let check = |name: &str| check_ending(Path::new(name), "a model", ".safetensors");
        for name in ["m.safetensors", "m", "m.model", "/dev/stdout"] {
            assert!(check(name).is_ok(), "{name}");
        }
        for name in ["m.npz", "m.CSV", "m.onnx", "m.pt"] {
            let error = check(name).unwrap_err().to_string();
            assert!(error.ends_with("use -o m.safetensors"), "{error}");
        }
    }
}
