//! One named test for each way in which a file can be wrong.

/// A test that bytes under a name give an error that matches a pattern.
macro_rules! refuses {
    ($test:ident, $name:expr, $bytes:expr, $($pattern:tt)+) => {
        #[test]
        fn $test() {
            let error = refused($name, $bytes);
            assert!(matches!(&error, $($pattern)+), "{error:?}");
        }
    };
}

mod any_file;
mod csv;
mod npy;
mod npz;
mod pair;
mod pickle;
mod safetensors;
#[cfg(feature = "parquet")]
mod tables;

use std::io::Write;

use crate::common::{check_message, fixture};
use ordercal_io::{DataRef, Error, LabelNeed, LoadedData, ReadOptions, load, load_pair};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const ENDINGS: &[&str] = &[
    "npy",
    "npz",
    "csv",
    "csv.gz",
    "safetensors",
    "p",
    #[cfg(feature = "parquet")]
    "parquet",
    #[cfg(feature = "parquet")]
    "arrow",
];

/// Reads a file with the given bytes, `NAME#SPLIT` for a split, and gives the error that must come of it.
fn refused(name: &str, bytes: impl AsRef<[u8]>) -> Error {
    refused_with(name, bytes, ReadOptions::default())
}

fn refused_with(name: &str, bytes: impl AsRef<[u8]>, options: ReadOptions) -> Error {
    let dir = tempfile::tempdir().unwrap();
    let file = name.split('#').next().unwrap();
    std::fs::write(dir.path().join(file), bytes).unwrap();
    let read = LoadedData::read(&DataRef::parse(dir.path().join(name)), options);
    let checked = read.and_then(|data| match data.labels() {
        Some(_) => data.dataset().map(|_| ()),
        None => data.scores().map(|_| ()),
    });
    let error = checked.expect_err("the file must be refused");
    check_message(&error, &dir.path().join(file));
    error
}

/// The bytes of a fixture.
fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}

/// The first bytes of a fixture.
fn cut(name: &str, length: usize) -> Vec<u8> {
    let mut bytes = bytes(name);
    assert!(length < bytes.len());
    bytes.truncate(length);
    bytes
}

/// A fixture without its last byte.
fn cut_end(name: &str) -> Vec<u8> {
    cut(name, bytes(name).len() - 1)
}

/// A fixture with other bytes at an offset.
fn patched(name: &str, at: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = bytes(name);
    bytes[at..at + with.len()].copy_from_slice(with);
    bytes
}

/// Replaces some bytes, wherever they are, by as many others.
fn replaced(name: &str, from: &[u8], to: &[u8]) -> Vec<u8> {
    let bytes = bytes(name);
    let at = bytes.windows(from.len()).position(|w| w == from).unwrap();
    patched(name, at, to)
}

/// A `.npy` file with any header.
fn npy(descr: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((dict.len() as u16).to_le_bytes());
    bytes.extend(dict.as_bytes());
    bytes.extend(values);
    bytes
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn npy_floats(rows: usize, values: &[f32]) -> Vec<u8> {
    npy(
        "<f4",
        &format!("({rows}, {})", values.len() / rows),
        &floats(values),
    )
}

fn npy_labels(labels: &[u8]) -> Vec<u8> {
    npy("|u1", &format!("({},)", labels.len()), labels)
}

fn npz(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, bytes) in arrays {
        zip.start_file(format!("{name}.npy"), options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn safetensors(header: &str, values: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(values);
    bytes
}
