//! A small reader of `.npz` bundles for the measuring commands.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// An array, row by row.
pub struct NpzArray {
    /// Its lengths.
    pub shape: Vec<usize>,
    /// Its values; integers of 32 bits and less, and labels, fit a 64-bit float.
    pub values: Vec<f64>,
}

/// Reads every array of a bundle.
pub fn read(path: &Path) -> Result<BTreeMap<String, NpzArray>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut archive =
        zip::ZipArchive::new(file).with_context(|| format!("{} is no npz", path.display()))?;
    let mut arrays = BTreeMap::new();
    for index in 0..archive.len() {
        let mut member = archive.by_index(index)?;
        let name = member.name()?.trim_end_matches(".npy").to_owned();
        let mut bytes = Vec::new();
        member.read_to_end(&mut bytes)?;
        let array = parse(&bytes).with_context(|| format!("{}: array {name}", path.display()))?;
        arrays.insert(name, array);
    }
    Ok(arrays)
}

fn parse(bytes: &[u8]) -> Result<NpzArray> {
    if bytes.get(..6) != Some(b"\x93NUMPY") {
        bail!("not a numpy array");
    }
    let (length, start) = match bytes[6] {
        1 => (
            usize::from(u16::from_le_bytes(bytes[8..10].try_into()?)),
            10,
        ),
        _ => (u32::from_le_bytes(bytes[8..12].try_into()?) as usize, 12),
    };
    let header = std::str::from_utf8(&bytes[start..start + length])?;
    let body = &bytes[start + length..];
    if header.contains("'fortran_order': True") {
        bail!("Fortran order");
    }
    let descr = header
        .split("'descr': '")
        .nth(1)
        .and_then(|h| h.split('\'').next())
        .context("no dtype")?;
    let shape = header
        .split("'shape': (")
        .nth(1)
        .and_then(|h| h.split(')').next())
        .context("no shape")?;
    let shape = shape
        .split(',')
        .filter(|s| !s.trim().is_empty())
        .map(|s| s.trim().parse());
    let shape: Vec<usize> = shape.collect::<Result<_, _>>()?;
    let values = match descr {
        "<f4" => body
            .chunks_exact(4)
            .map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap())))
            .collect(),
        "<f8" => body
            .chunks_exact(8)
            .map(|b| f64::from_le_bytes(b.try_into().unwrap()))
            .collect(),
        "<i4" => body
            .chunks_exact(4)
            .map(|b| f64::from(i32::from_le_bytes(b.try_into().unwrap())))
            .collect(),
        "<i8" => body
            .chunks_exact(8)
            .map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f64)
            .collect(),
        "|u1" => body.iter().map(|&b| f64::from(b)).collect(),
        other => bail!("dtype {other}"),
    };
    Ok(NpzArray { shape, values })
}
