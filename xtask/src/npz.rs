//! Reads the arrays of a numpy `.npz` bundle, for the development commands.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use ndarray::Array2;

/// The values of an array, row by row.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// `<f4`
    F32(Vec<f32>),
    /// `<f8`
    F64(Vec<f64>),
    /// `<i8`
    I64(Vec<i64>),
}

/// An array and its shape.
#[derive(Debug, Clone, PartialEq)]
pub struct NpzArray {
    /// The length of every axis.
    pub shape: Vec<usize>,
    /// The values, the last axis running fastest.
    pub values: Values,
}

/// Reads every array of a bundle, by name.
pub fn read(path: &Path) -> Result<BTreeMap<String, NpzArray>> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut archive =
        zip::ZipArchive::new(file).with_context(|| format!("reading {}", path.display()))?;
    let mut arrays = BTreeMap::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let name = entry.name()?.trim_end_matches(".npy").to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        let array = parse(&bytes).with_context(|| format!("{}: array `{name}`", path.display()))?;
        arrays.insert(name, array);
    }
    Ok(arrays)
}

fn parse(bytes: &[u8]) -> Result<NpzArray> {
    ensure!(
        bytes.len() >= 12 && bytes.starts_with(b"\x93NUMPY"),
        "not an npy array"
    );
    let (start, length) = match bytes[6] {
        1 => (10, u16::from_le_bytes([bytes[8], bytes[9]]) as usize),
        2 | 3 => (
            12,
            u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize,
        ),
        version => bail!("npy version {version} is not known"),
    };
    let data = start + length;
    ensure!(bytes.len() >= data, "the header is cut short");
    let header = std::str::from_utf8(&bytes[start..data])?;
    ensure!(
        header.contains("'fortran_order': False"),
        "only C order is read: {header}"
    );
    let shape = between(header, "'shape': (", ")")?
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| part.parse::<usize>().context("a length that is no number"))
        .collect::<Result<Vec<usize>>>()?;
    let count = shape.iter().product::<usize>();
    let data = &bytes[data..];
    let values = match between(header, "'descr': '", "'")? {
        "<f4" => Values::F32(numbers(data, count, f32::from_le_bytes)?),
        "<f8" => Values::F64(numbers(data, count, f64::from_le_bytes)?),
        "<i8" => Values::I64(numbers(data, count, i64::from_le_bytes)?),
        other => bail!("the type {other} is not read; use <f4, <f8 or <i8"),
    };
    Ok(NpzArray { shape, values })
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Result<&'a str> {
    let (_, rest) = text
        .split_once(before)
        .with_context(|| format!("no {before} in {text}"))?;
    let (inner, _) = rest
        .split_once(after)
        .with_context(|| format!("no {after} in {text}"))?;
    Ok(inner)
}

fn numbers<T, const N: usize>(data: &[u8], count: usize, from: fn([u8; N]) -> T) -> Result<Vec<T>> {
    ensure!(
        data.len() == count * N,
        "{} bytes for {count} values of {N} bytes",
        data.len()
    );
    let (values, _) = data.as_chunks::<N>();
    Ok(values.iter().map(|&bytes| from(bytes)).collect())
}

/// Scores and labels of one split of a bundle.
pub fn split(path: &Path, split: &str) -> Result<(Array2<f32>, Vec<i64>)> {
    let mut arrays = read(path)?;
    let file = path.display();
    let mut take = |what: &str| {
        let name = format!("{split}_{what}");
        arrays
            .remove(&name)
            .with_context(|| format!("{file} has no array `{name}`"))
    };
    let (logits, labels) = (take("logits")?, take("labels")?);
    let (Values::F32(logits), [rows, classes]) = (logits.values, &logits.shape[..]) else {
        bail!("{file}: {split}_logits must be a matrix of 32-bit floats");
    };
    let Values::I64(labels) = labels.values else {
        bail!("{file}: {split}_labels must be 64-bit integers");
    };
    Ok((Array2::from_shape_vec((*rows, *classes), logits)?, labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn arrays_are_read_and_malformed_ones_refused() {
        let data: Vec<u8> = [1.0_f32, 2.0]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        let array = parse(&npy("<f4", "1, 2", &data)).unwrap();
        assert_eq!(
            (array.shape, array.values),
            (vec![1, 2], Values::F32(vec![1.0, 2.0]))
        );
        let labels = parse(&npy("<i8", "1,", &7_i64.to_le_bytes())).unwrap();
        assert_eq!(
            (labels.shape, labels.values),
            (vec![1], Values::I64(vec![7]))
        );
        assert!(parse(&npy("<f4", "3,", &data)).is_err());
        assert!(parse(&npy("<f2", "4,", &data)).is_err());
        assert!(parse(b"\x93NUMPY\x01\x00\xff\xff{}..").is_err());
        assert!(parse(b"nothing of the kind").is_err());
    }
}
